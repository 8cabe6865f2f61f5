"""The results of runs as data, as a table, and as a page. The command line and `Run` draw them with the modules of this package."""

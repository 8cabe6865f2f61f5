"""The results of runs as data, as a table, and as a page."""

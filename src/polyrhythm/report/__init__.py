"""What a run leaves behind, as data, as a table, and as a page."""

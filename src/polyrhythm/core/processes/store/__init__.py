"""A key-value store over authenticated connections, in which the processes of a run find each other."""

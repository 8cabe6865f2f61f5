"""Processes that are started here: the fork server, what children get, and who supervises them."""

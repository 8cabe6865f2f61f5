"""Runs made several at once: on this host, or on a Ray cluster."""

"""Processes that somebody else started, and how they become one run."""

"""Processes started by another launcher, and how they become one run."""

"""Calls of the operating system, and its limits."""

"""Averages with a few neighbours in each step."""

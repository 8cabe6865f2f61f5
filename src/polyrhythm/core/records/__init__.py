"""The record of a run: its events, summary and weights, in memory and in a directory.

`training.log` writes it while a run is under way; the command line and the tools read it again.
"""

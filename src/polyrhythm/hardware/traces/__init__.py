"""Traces of spot instances that were generated, for `hardware.Trace`."""

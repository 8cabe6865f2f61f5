"""Recorded traces of jobs: readers for the published formats, and small samples in the same formats, generated from a seed."""

from polyrhythm.cluster.traces.alibaba import read_alibaba_hosts
from polyrhythm.cluster.traces.pollux import pollux_speeds
from polyrhythm.cluster.traces.reading import TRACE_FORMATS, TraceFormat, read_trace, write_sample

__all__ = ["TRACE_FORMATS", "TraceFormat", "pollux_speeds", "read_alibaba_hosts", "read_trace", "write_sample"]

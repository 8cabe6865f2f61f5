"""Futurised Python, after Tohid et al., 2018 (Phylanx): a function's syntax becomes a graph of tasks, each of which runs when it can."""

from polyrhythm_reproductions.phylanx.execution import futurised_seconds, in_levels_seconds, run_on_threads
from polyrhythm_reproductions.phylanx.graph import FutureGraph, Task
from polyrhythm_reproductions.phylanx.syntax import futurise

__all__ = ["FutureGraph", "Task", "futurise", "futurised_seconds", "in_levels_seconds", "run_on_threads"]

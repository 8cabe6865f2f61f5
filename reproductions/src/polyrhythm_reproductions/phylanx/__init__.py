"""Futurised Python, after Tohid et al., 2018 (Phylanx): a function's syntax becomes a graph of tasks, each of which runs when it can."""

from polyrhythm_reproductions.phylanx.execution import futurised_seconds, in_levels_seconds, run_on_threads
from polyrhythm_reproductions.phylanx.graph import Task, TaskGraph
from polyrhythm_reproductions.phylanx.syntax import futurise

__all__ = ["Task", "TaskGraph", "futurise", "futurised_seconds", "in_levels_seconds", "run_on_threads"]

"""Three ways to run a graph: each task when it can, level by level with a barrier, both in virtual time, and on real threads."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from polyrhythm_reproductions.phylanx.graph import FutureGraph


def futurised_seconds(graph: FutureGraph, workers: int, seconds: Sequence[float]) -> tuple[Any, float]:
    """The result, and the virtual seconds where a free worker takes the first task whose inputs are there."""
    results: dict[int, Any] = {}
    missing = {number: len(graph.needs(number)) for number in range(len(graph.tasks))}
    after = _users(graph)
    ready = [number for number, count in missing.items() if not count]
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < workers:
            number = heapq.heappop(ready)
            heapq.heappush(running, (now + seconds[number], number))
        now, done = heapq.heappop(running)
        results[done] = graph.tasks[done].run(results)
        for user in after[done]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    return results[graph.result], now


def in_levels_seconds(graph: FutureGraph, workers: int, seconds: Sequence[float]) -> tuple[Any, float]:
    """The result, and the virtual seconds where all workers wait for each other after each level."""
    results: dict[int, Any] = {}
    total = 0.0
    for level in graph.levels():
        free = [0.0] * workers
        for number in level:
            results[number] = graph.tasks[number].run(results)
            heapq.heapreplace(free, free[0] + seconds[number])
        total += max(free)
    return results[graph.result], total


def run_on_threads(graph: FutureGraph, workers: int) -> Any:
    """The result, on so many threads."""
    results: dict[int, Any] = {}
    missing = {number: len(graph.needs(number)) for number in range(len(graph.tasks))}
    after = _users(graph)
    with ThreadPoolExecutor(workers) as pool:
        running: dict[Future[Any], int] = {}

        def start(number: int) -> None:
            running[pool.submit(graph.tasks[number].run, {need: results[need] for need in graph.needs(number)})] = number

        for number in [number for number, count in missing.items() if not count]:
            start(number)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                done = running.pop(future)
                results[done] = future.result()
                for user in after[done]:
                    missing[user] -= 1
                    if not missing[user]:
                        start(user)
    return results[graph.result]


def _users(graph: FutureGraph) -> list[list[int]]:
    """For each task those that need its result."""
    found: list[list[int]] = [[] for _ in graph.tasks]
    for number in range(len(graph.tasks)):
        for need in sorted(graph.needs(number)):
            found[need].append(number)
    return found

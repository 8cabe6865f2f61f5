"""What it costs to pass control between two blocking programs: through greenlets, and through threads that pass a baton.

    python docs/measure_switches.py

Prints one JSON object, in microseconds a switch: the median of five repetitions.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable

import greenlet

REPETITIONS = 5


def through_greenlets(switches: int) -> float:
    """Seconds for so many switches between two greenlets."""
    scheduler = greenlet.getcurrent()

    def body() -> None:
        while True:
            scheduler.switch()

    other = greenlet.greenlet(body)
    begin = time.perf_counter()
    for _ in range(switches // 2):
        other.switch()
    return time.perf_counter() - begin


def through_threads(switches: int) -> float:
    """Seconds for so many times that one thread wakes another and waits for it."""
    mine, theirs = threading.Semaphore(0), threading.Semaphore(0)

    def body() -> None:
        for _ in range(switches // 2):
            theirs.acquire()
            mine.release()

    other = threading.Thread(target=body)
    other.start()
    begin = time.perf_counter()
    for _ in range(switches // 2):
        theirs.release()
        mine.acquire()
    taken = time.perf_counter() - begin
    other.join()
    return taken


def microseconds(measure: Callable[[int], float], switches: int) -> float:
    """Of one switch."""
    return statistics.median(1e6 * measure(switches) / switches for _ in range(REPETITIONS))


if __name__ == "__main__":
    print(json.dumps({"greenlets": microseconds(through_greenlets, 200_000), "threads": microseconds(through_threads, 20_000)}))

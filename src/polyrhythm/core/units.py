"""Quantities as text ("50 Mbit/s", "20 ms") and as numbers, in both directions.

Networks and devices parse their settings with it; the command line, the planner and reports print with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from polyrhythm.core.settings import shown
from polyrhythm.errors import CompositionError

_PATTERN = re.compile(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*", re.IGNORECASE)
_AMBIGUOUS = re.compile(r"([kKmMgG]?)b/[sS]")
"""A small b: it means bits to most, bytes to some."""
_RATES = {"bit/s": 1 / 8, "kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8, "B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_SPEEDS = {"FLOPS": 1.0, "MFLOPS": 1e6, "GFLOPS": 1e9, "TFLOPS": 1e12, "PFLOPS": 1e15}


def _parse(given: str | float, scales: dict[str, float], what: str, example: str) -> float:
    if not isinstance(given, str):
        return _number(given, what, example)
    found = _PATTERN.fullmatch(given)
    scale = next((scale for unit, scale in scales.items() if found and unit.lower() == found[2].lower()), None)
    if found is None or scale is None:
        raise CompositionError(f"{given!r} is not a {what}: write a number and one of {', '.join(scales)}, for example {example!r}.")
    return _number(found[1], what, example) * scale


def _number(given: object, what: str, example: str) -> float:
    try:
        if not isinstance(given, (bool, bytes)) and not math.isnan(number := float(given)):  # type: ignore[arg-type]
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise CompositionError(f"{shown(given)} is not a {what}: give a number, or text such as {example!r}.")


def bandwidth(given: str | float) -> float:
    """Bytes per second, from a number of bytes per second or text such as "50 Mbit/s".

    Raises CompositionError for other text.

    Examples:
        >>> bandwidth("50 Mbit/s")
        6250000.0
    """
    found = _PATTERN.fullmatch(given) if isinstance(given, str) else None
    if found is not None and (small := _AMBIGUOUS.fullmatch(found[2])):
        raise CompositionError(f"{given!r} may mean bits or bytes: write {found[1]} {small[1]}bit/s or {found[1]} {small[1]}B/s.")
    return _parse(given, _RATES, "bandwidth", "50 Mbit/s")


def duration(given: str | float) -> float:
    """Seconds, from a number of seconds or text such as "20 ms". Raises CompositionError for other text.

    Examples:
        >>> duration("20 ms")
        0.02
    """
    return _parse(given, _TIMES, "duration", "20 ms")


def size(given: str | float) -> float:
    """Bytes, from a number or text such as "2 GB". Raises CompositionError for other text.

    Examples:
        >>> size("2GB")
        2000000000.0
    """
    return _parse(given, _BYTES, "size", "2 GB")


def speed(given: str | float) -> float:
    """Floating-point operations per second, from a number or text such as "10 GFLOPS"."""
    return _parse(given, _SPEEDS, "speed", "10 GFLOPS")


def show_bytes(nbytes: float) -> str:
    """A size as readable text: "4.4 MB"."""
    return f"{nbytes:.0f} B" if abs(nbytes) < 999.5 else _shown(nbytes, _SIZES)


def show_seconds(seconds: float) -> str:
    """A duration as readable text.

    Examples:
        >>> [show_seconds(seconds) for seconds in (0.32, 4.1, 720, 12600, float("inf"))]
        ['320 ms', '4.1 s', '12 min', '3.5 h', '∞']
    """
    return _shown(seconds, _DURATIONS)


def show_ratio(ratio: float, what: str = "long") -> str:
    """How much longer something takes, or how much more, as the end of a sentence.

    Examples:
        >>> show_ratio(2.34), show_ratio(1.04), show_ratio(0.4, "much")
        ('2.3 times as long', 'about as long', '0.4 times as much')
    """
    digits = f"{ratio:.2g}"
    return f"about as {what}" if digits == "1" else f"{digits} times as {what}"


# Unit, scale, and the number from which the next unit is used.
_SIZES = [("kB", 1e3, 1000), ("MB", 1e6, 1000), ("GB", 1e9, 1000), ("TB", 1e12, 1000), ("PB", 1e15, math.inf)]
_DURATIONS = [("µs", 1e-6, 1000), ("ms", 1e-3, 1000), ("s", 1, 120), ("min", 60, 120), ("h", 3600, 48), ("days", 86400, math.inf)]


def _shown(value: float, units: list[tuple[str, float, float]]) -> str:
    """Three digits and the first unit in which the number, as it is shown, is below the limit; ∞ without a unit."""
    if math.isinf(value):
        return "∞"
    for unit, scale, limit in units:
        digits = f"{value / scale:.3g}"
        if abs(float(digits)) < limit:
            return f"{float(digits):,.0f} {unit}" if "e+" in digits else f"{digits} {unit}"
    raise AssertionError("the last unit has no limit")


def show_window(begin: float, end: float) -> str:
    """The moments between which something happened: "between 310 and 338 ms"; one moment, "after 310 ms", where they read the same."""
    first, last = show_seconds(begin), show_seconds(end)
    if first == last:
        return f"after {last}"
    number, unit = first.split()
    return f"between {number if not begin or unit == last.split()[1] else first} and {last}"


def show_names(names: Sequence[str], most: int | None = None) -> str:
    """The names with commas, and "and" before the last; of more than `most`, the first ones and how many more there are."""
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(", ".join(names).rsplit(", ", 1))

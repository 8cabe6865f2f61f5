"""Quantities a person writes ("50 Mbit/s", "20 ms") and the numbers they mean; and back."""

from __future__ import annotations

import re

from polyrhythm.errors import CompositionError

_PATTERN = re.compile(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*", re.IGNORECASE)
_RATES = {"bit/s": 1 / 8, "kbit/s": 1e3 / 8, "mbit/s": 1e6 / 8, "gbit/s": 1e9 / 8, "b/s": 1.0, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9}
_AMBIGUOUS = re.compile(r"[kKmMgG]?b/s")
"""A small b: bits to most who write it so, bytes to some."""
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_SPEEDS = {"flops": 1.0, "mflops": 1e6, "gflops": 1e9, "tflops": 1e12, "pflops": 1e15}


def _parse(given: str | float, scales: dict[str, float], what: str, example: str) -> float:
    if not isinstance(given, str):
        return float(given)
    found = _PATTERN.fullmatch(given)
    if found is not None and _AMBIGUOUS.fullmatch(found[2]):
        bits, octets = f"{found[2][:-3]}bit/s", f"{found[2][:-3]}B/s"
        raise CompositionError(f"{given!r} may mean bits or bytes: write {found[1]} {bits} or {found[1]} {octets}.")
    if found is None or found[2].lower() not in scales:
        raise CompositionError(f"{given!r} is not a {what}: write a number and one of {', '.join(scales)}, for example {example!r}.")
    return float(found[1]) * scales[found[2].lower()]


def bandwidth(given: str | float) -> float:
    """Bytes per second, from a number of bytes per second or text such as "50 Mbit/s"."""
    return _parse(given, _RATES, "bandwidth", "50 Mbit/s")


def duration(given: str | float) -> float:
    """Seconds, from a number of seconds or text such as "20 ms"."""
    return _parse(given, _TIMES, "duration", "20 ms")


def speed(given: str | float) -> float:
    """Floating-point operations per second, from a number or text such as "10 GFLOPS"."""
    return _parse(given, _SPEEDS, "speed", "10 GFLOPS")


def show_bytes(nbytes: float) -> str:
    """A size as a person reads it: "4.4 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(nbytes) < 1000:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} TB"


def show_seconds(seconds: float) -> str:
    """A duration as a person reads it: "320 ms", "4.1 s", "12 min"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"

"""The speed-up of averaging after local steps, until a target: the model of SparkNet (Moritz et al., ICLR 2016, section 3.1)."""

from __future__ import annotations

from polyrhythm.errors import CompositionError


def averaging_speedup(iterations: float, rounds: float, compute_seconds: float, exchange_seconds: float, tau: int) -> float:
    """N(b) C / ((τ C + S) R(b, K, τ)): how much sooner K workers that average every `tau` steps are at a target than one alone.

    N = `iterations` are those of one worker with batches of b samples, R = `rounds` those of K workers with batches of b each, both
    measured to the same target; C = `compute_seconds` is the time of an iteration and S = `exchange_seconds` that of an exchange. The
    paper measures R and assumes that all workers take equally long.

    Examples:
        >>> averaging_speedup(iterations=1000, rounds=10, compute_seconds=1.0, exchange_seconds=0.0, tau=50)
        2.0
    """
    _check(iterations=iterations, rounds=rounds, compute_seconds=compute_seconds, tau=tau)
    _check_exchange(exchange_seconds)
    return iterations * compute_seconds / ((tau * compute_seconds + exchange_seconds) * rounds)


def splitting_speedup(workers: int, compute_seconds: float, exchange_seconds: float) -> float:
    """C / (C / K + S): that of K workers which divide each batch among themselves and exchange after every iteration, at best.

    It takes as many iterations as one worker, and never exceeds C / S, however many workers there are.

    Examples:
        >>> splitting_speedup(workers=4, compute_seconds=1.0, exchange_seconds=0.25)
        2.0
    """
    _check(workers=workers, compute_seconds=compute_seconds)
    _check_exchange(exchange_seconds)
    return compute_seconds / (compute_seconds / workers + exchange_seconds)


def break_even_rounds(iterations: float, compute_seconds: float, exchange_seconds: float, tau: int, workers: int) -> float:
    """The most rounds R with which averaging is no slower than splitting batches among `workers`: N (C / K + S) / (τ C + S)."""
    _check(iterations=iterations, compute_seconds=compute_seconds, tau=tau, workers=workers)
    _check_exchange(exchange_seconds)
    return iterations * (compute_seconds / workers + exchange_seconds) / (tau * compute_seconds + exchange_seconds)


def _check(**positive: float) -> None:
    for name, value in positive.items():
        if not value > 0:
            raise CompositionError(f"{name}={value} is none of a run: give more than 0.")


def _check_exchange(seconds: float) -> None:
    if seconds < 0:
        raise CompositionError(f"exchange_seconds={seconds} is no time: give 0 or more.")

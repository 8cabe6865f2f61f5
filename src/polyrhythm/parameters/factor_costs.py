"""The cost of each way to exchange a linear layer, in numbers that one machine sends and receives in a step.

The layer has m outputs (`outs`) and n inputs (`ins`), a worker's batch K samples. Table 1 of Zhang et al. (Poseidon, USENIX ATC 2017),
where each server shares a machine with a worker.
"""

from __future__ import annotations


def as_factors(outs: int, ins: int, batch: int, workers: int) -> float:
    """2 K (P - 1) (m + n): factors from every worker to all others.

    Examples:
        >>> as_factors(4096, 4096, batch=32, workers=8) / gradients_to_servers(4096, 4096, workers=8, servers=8)
        0.0625
    """
    return 2.0 * batch * (workers - 1) * (outs + ins)


def gradients_to_servers(outs: int, ins: int, workers: int, servers: int) -> float:
    """2 m n (P + S - 2) / S: gradients to S servers, which hold a part each, and the weights back."""
    return 2.0 * outs * ins * (workers + servers - 2) / servers


def factors_to_server(outs: int, ins: int, batch: int, workers: int) -> float:
    """(P - 1) (m n + K (m + n)): factors to the one server of the layer, and the weights back (Project Adam; Chilimbi et al., 2014).

    At the server's machine, which is the busiest: a product cannot be shared out among servers as a gradient can. Without a
    worker on its machine, P takes the place of P - 1.
    """
    return float((workers - 1) * (outs * ins + batch * (outs + ins)))


def crossover(outs: int, ins: int, workers: int, servers: int) -> float:
    """The K at which `as_factors` is `gradients_to_servers`: m n (P + S - 2) / (S (P - 1) (m + n)); there must be two workers or more.

    Examples:
        >>> crossover(4096, 4096, workers=8, servers=8)
        512.0
    """
    return outs * ins * (workers + servers - 2) / (servers * (workers - 1) * (outs + ins))

"""Writes docs/systems.md from the code of each published system.

    python docs/generate_systems.py

One test fails when the page is out of date, and another compares `SENT` with runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.core.protocols.traits import Pattern
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.systems import SYSTEMS, find
from polyrhythm.tools.cli.presets import AXES, Option, published

PAGE = Path(__file__).parent / "systems.md"


@dataclass(frozen=True, slots=True)
class Sent:
    """What all workers and servers send in a step: as text, and as bytes of payload where these do not depend on the data.

    `nbytes` takes the workers P, the bytes of the model M, the bytes B of the encoded model, and the bytes D of a batch.
    `messages` takes the workers, where their number is not a matter of the data or of the tensors; with one server, or a slice for each.
    """

    text: str
    nbytes: Callable[[int, int, int, int], float] | None = None
    messages: Callable[[int], int] | None = None


SENT: dict[str, Sent] = {
    "fedavg": Sent("2 M for each worker that is drawn, in 2 messages of each every τ steps"),
    "fedprox": Sent("as `fedavg`"),
    "fedadam": Sent("as `fedavg`"),
    "fedbuff": Sent("2 P M / τ in 2 P messages every τ steps", lambda P, M, B, D: 2 * P * M / 10),
    "async-local-sgd": Sent("2 M for each exchange of a worker, in 2 messages; and 4 numbers to each other worker for each decision"),
    "geeps": Sent("2 P M in 2 P S messages", lambda P, M, B, D: 2 * P * M),
    "single": Sent("nothing", lambda P, M, B, D: 0, lambda P: 0),
    "allreduce": Sent("2 (P − 1) M in 2 P (P − 1) messages", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "direct": Sent("2 (P − 1) M in 2 P (P − 1) messages", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "tree": Sent("2 (P − 1) M in 2 (P − 1) messages", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)),
    "downpour": Sent(
        "P M / push for the pushes and at most P M / fetch for weights: at most 2 P M in 2 P S messages",
        lambda P, M, B, D: 2 * P * M,
        lambda P: 2 * P,
    ),
    "ssp": Sent("P M for the pushes, and M for each read: between P M and 2 P M"),
    "softsync": Sent(
        "P M for the pushes, and M for each response with a newer version: at most 2 P M in 2 P S messages",
        lambda P, M, B, D: 2 * P * M,
        lambda P: 2 * P,
    ),
    "sparknet": Sent("2 P M / τ in 2 P messages every τ steps", lambda P, M, B, D: 2 * P * M / 10),
    "easgd": Sent("2 P M / τ in 2 P S messages every τ steps", lambda P, M, B, D: 2 * P * M / 10),
    "deepspark": Sent("2 P M / τ in 2 P messages every τ steps", lambda P, M, B, D: 2 * P * M / 10),
    "onebit": Sent("2 (P − 1) B in 2 P (P − 1) messages; as `allreduce` while warming up", lambda P, M, B, D: 2 * (P - 1) * B),
    "strom": Sent("4 (P − 1) bytes for each element above τ of each worker, in P (P − 1) messages"),
    "gossipgrad": Sent("P M and P D in 2 P messages; at the end 2 (P − 1) M", lambda P, M, B, D: P * (M + D)),
    "zhang-asgd": Sent("P M for the pushes and P M for the weights, in 2 P S messages", lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "consgd": Sent("P M / τ for the pushes, and M for each read: between P M and 2 P M every τ steps"),
    "dynsgd": Sent("as `consgd`"),
    "asysg-con": Sent("as `softsync`", lambda P, M, B, D: 2 * P * M),
    "asysg-incon": Sent("P M / S for the pushes to one of S blocks, or two, and at most P M for the blocks that have changed"),
    "rudra": Sent("as `softsync`", lambda P, M, B, D: 2 * P * M),
    "rudra-adv": Sent("2 P M between learners and aggregators at most, and 2 P / group_size M between these and the root"),
    "rudra-adv-star": Sent("P M and P / group_size M for pushes; for weights M for each newer version that a learner or aggregator gets"),
    "paine": Sent(
        "2 P M / n_sync in 2 P S messages every n_sync steps, after the warm start of one worker", lambda P, M, B, D: 2 * P * M / 10
    ),
    "diloco": Sent("2 (P − 1) M / τ in 2 P (P − 1) messages every τ steps", lambda P, M, B, D: 2 * (P - 1) * M / 20),
    "hierarchical": Sent("2 (G − 1) M between G groups, and 3 (P − G) M inside them", lambda P, M, B, D: 3 * (P - 1) * M),
    "hybrid-groups": Sent("2 G M between G groups' roots and the servers, and 3 (P − G) M inside the groups", lambda P, M, B, D: 2 * P * M),
    "fifteen-pf": Sent("as `hybrid-groups`", lambda P, M, B, D: 2 * P * M),
    "yu": Sent("2 P M between workers and the servers of G groups, and 2 G M between these and the root", lambda P, M, B, D: 3 * P * M),
    "gaia": Sent(
        "at each site 2 P M among its workers and server; between sites 8 bytes for each significant element and other site; with"
        " hubs for each element that is significant at one of a hub's sites, and other hub and site of its group"
    ),
    "powersgd": Sent("2 (P − 1) B in 4 P (P − 1) messages a bucket; as `allreduce` while warming up"),
    "poseidon": Sent(
        "4 P (P − 1) K (m + n) bytes for each linear layer of m outputs, n inputs and K samples that goes as factors; 2 P times the "
        "bytes of the rest"
    ),
    "parallax": Sent(
        "each worker's rows with a gradient to the servers, and P times the rows that any of them changed back; 2 (P − 1) times the "
        "bytes of the rest",
        lambda P, M, B, D: 2 * (P - 1) * M,  # of a model without embeddings
    ),
    "hogwild": Sent("nothing", lambda P, M, B, D: 0),
    "byteps": Sent(
        "2 P (1 − (P − k) / (P² + k P − 2 k)) M with k spare machines: 2 (P − 1) M for none, 2 P M for P; 2 P (P − 1 + k) messages a "
        "tensor or piece of one",
        lambda P, M, B, D: 2 * (P - 1) * M,
    ),
    "large-minibatch": Sent("2 (P − 1) M in 2 P (P − 1) messages", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "climate": Sent(
        "2 (G − 1) M between G groups, and 3 (P − G) M inside them; with stripes 2 (G − 1) M too, over the lines of all members",
        lambda P, M, B, D: 3 * (P - 1) * M,
    ),
    "byteps-async": Sent("P M for the pushes and P M for the weights, in 2 P S messages", lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "project-adam": Sent(
        "4 P K (m + n) bytes for each linear layer of m outputs, n inputs and K samples that goes as factors, and P times the bytes of "
        "the rest; back, P M"
    ),
    "mxnet": Sent(
        "P B for the pushes and P M for the weights, in 2 P S messages: 2 P M without a codec",
        lambda P, M, B, D: P * (B + M),
        lambda P: 2 * P,
    ),
    "mxnet-worker-update": Sent(
        "P B for the pushes and P M for the sums, in 2 P messages a tensor, and 2 P S for one that is cut", lambda P, M, B, D: P * (B + M)
    ),
    "mxnet-async": Sent("as `mxnet`", lambda P, M, B, D: P * (B + M)),
    "dl4j-sharing": Sent("4 (P − 1) bytes for each element above tau of each worker, at most M / 16, in P (P − 1) messages"),
    "actors": Sent("2 P M in 2 P S messages", lambda P, M, B, D: 2 * P * M),
    "actors-softsync": Sent(
        "P M for the pushes, and M for each response with a newer version: at most 2 P M in 2 P S messages", lambda P, M, B, D: 2 * P * M
    ),
    "actors-decentralised": Sent("8 (P − 1) bytes for each element that reaches tau, in P (P − 1) messages"),
    "d2l": Sent(
        "2 (P − 1) M in 2 (P − 1) messages, all of them over worker 0's line", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)
    ),
    "parallel-sgd": Sent(
        "2 (P − 1) M in 2 (P − 1) messages, at most 2 ⌈log2 P⌉ of a worker", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)
    ),
    "firecaffe": Sent("2 (P − 1) M in 2 (P − 1) messages", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)),
    "yadan": Sent("2 (P − 1) M in 2 P (P − 1) messages", lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "bigdl": Sent(
        "P M for the gradients and P M for the weights, and between a slice and the worker beside it (P + 1) M and what the optimizer "
        "remembers, in 2 P (P + 1) messages; on top, P + 1 short ones to or from the driver for each slice",
        lambda P, M, B, D: (3 * P + 1) * M,
        lambda P: 3 * P * (P + 1),
    ),
    "collective-allreduce": Sent("2 (P − 1) M in 2 P (P − 1) messages a tensor", lambda P, M, B, D: 2 * (P - 1) * M),
    "adasum": Sent("2 (P − 1) M, and less than 48 P log2 P bytes a tensor for dot products, where P is a power of two"),
    "horovod": Sent("2 (P − 1) M, fused tensors padded to multiples of P, and 2 (P − 1) short messages over worker 0's line a cycle"),
    "bitvector": Sent("2 (P − 1) M, fused tensors padded to multiples of P, and P ⌈log2 P⌉ short messages a cycle"),
    "post-local-sgd": Sent(
        "2 (P − 1) M in 2 P (P − 1) messages, after each of the first steps and then every τ steps",
        lambda P, M, B, D: 2 * (P - 1) * M,  # of the first steps
    ),
    "local-sgd": Sent("2 (P − 1) M / τ in 2 P (P − 1) messages every τ steps"),
    "qsparse-local-sgd": Sent(
        "P (P − 1) / τ times a bit for each element of the matrices and two means for each row, and 2 (P − 1) / τ times the vectors, "
        "in 3 P (P − 1) messages every τ steps"
    ),
    "slowmo": Sent("2 (P − 1) M / τ in 2 P (P − 1) messages every τ steps"),
    "dl4j-averaging": Sent(
        "2 (P − 1) (M + U) / τ in 6 (P − 1) messages every τ steps, U being the bytes of the optimizer's state and a number a tensor; "
        "plain SGD has no state, and 4 (P − 1) messages",
        lambda P, M, B, D: 2 * (P - 1) * M / 5,  # under plain SGD
    ),
    "admm-sgd": Sent("2 (P − 1) M / τ in 2 (P − 1) messages every τ steps", lambda P, M, B, D: 2 * (P - 1) * M / 10),
    "elephas": Sent("2 P M / τ in 2 P messages every τ steps", lambda P, M, B, D: 2 * P * M / 20),
    "elephas-asynchronous": Sent("2 P M / τ in 2 P messages every τ steps", lambda P, M, B, D: 2 * P * M),
    "elephas-hogwild": Sent("nothing", lambda P, M, B, D: 0),
    "buckwild": Sent("nothing", lambda P, M, B, D: 0),
    "dogwild": Sent(
        "P (P − 1) M in datagrams, at most; less where steps are faster than the network; at the end 3 (P − 1) M",
        lambda P, M, B, D: P * (P - 1) * M,
    ),
    "streaming-diloco": Sent("2 (P − 1) B / τ; every τ steps 2 P (P − 1) messages for each fragment"),
    "qsgd": Sent(
        "P (P − 1) B in P (P − 1) messages: 4 bits an element, and 4 bytes a bucket",
        lambda P, M, B, D: P * (P - 1) * B,
        lambda P: P * (P - 1),
    ),
    "terngrad": Sent(
        "P (P − 1) B in P (P − 1) messages: 2 bits an element, and 4 bytes a tensor",
        lambda P, M, B, D: P * (P - 1) * B,
        lambda P: P * (P - 1),
    ),
    "signsgd": Sent(
        "2 (P − 1) M / 32 in 2 P (P − 1) messages: one bit an element both ways",
        lambda P, M, B, D: 2 * (P - 1) * M / 32,
        lambda P: 2 * P * (P - 1),
    ),
    "dgc": Sent("P (P − 1) times 8 bytes for each ratio of an element of every tensor, in P (P − 1) messages; more in the warm-up"),
    "onebit-adam": Sent(
        "2 (P − 1) M / 32 in 2 P (P − 1) messages, and 4 bytes a stripe and tensor; as `allreduce` in the warm-up",
        lambda P, M, B, D: 2 * (P - 1) * M / 32,
    ),
    "powersgd-plus": Sent("as `powersgd` in one bucket; as `allreduce` while warming up and every `period` steps"),
    "demo": Sent(
        "P (P − 1) B in P (P − 1) messages: 6 bytes for each coefficient kept", lambda P, M, B, D: P * (P - 1) * B, lambda P: P * (P - 1)
    ),
    "sparta": Sent("2 (P − 1) M · ratio in 2 P (P − 1) messages; at the end 2 (P − 1) M"),
    "pipe-sgd": Sent("2 (P − 1) M · bits / 32 in 2 P (P − 1) messages", lambda P, M, B, D: (P - 1) * M),
    "ako": Sent("(P − 1) M / p in P (P − 1) messages, p being each worker's partitions"),
    "hong-chandra": Sent("at most (P − 1) M / p in P (P − 1) messages, p being the partitions for each link"),
    "dlion": Sent("8 bytes for each element within N % of its tensor's largest, N being that of the link, in at most P (P − 1) messages"),
    "decentralized": Sent(
        "the degrees of all workers times M / τ, in as many messages every τ steps: on a ring 2 P M; at the end 2 (P − 1) M",
        lambda P, M, B, D: 2 * P * M,
        lambda P: 2 * P,
    ),
    "d-squared": Sent(
        "as `decentralized`: on a ring 2 P M in 2 P messages; at the end 2 (P − 1) M",
        lambda P, M, B, D: 2 * P * M,
        lambda P: 2 * P,
    ),
    "exact-diffusion": Sent(
        "as `decentralized`: on a ring 2 P M in 2 P messages; at the end 2 (P − 1) M",
        lambda P, M, B, D: 2 * P * M,
        lambda P: 2 * P,
    ),
    "li-ps": Sent(
        "what is not zero or filtered, and a bit for each key that ever was not, of which the list is sent once; back the rows that have "
        "changed, and for each replica what a step has changed"
    ),
    "choco-sgd": Sent(
        "the degrees of all workers times B / τ, in as many messages every τ steps: on a ring 2 P B; at the end 2 (P − 1) M",
        lambda P, M, B, D: 2 * P * B,
        lambda P: 2 * P,
    ),
    "noloco": Sent("2 P M / τ in 2 P messages every τ steps, for an even number of workers", lambda P, M, B, D: 2 * P * M / 20),
    "moshpit": Sent(
        "2 P (n − 1) / n M in 2 P (n − 1) messages every τ steps and round, with n workers on a line of the grid; at the end 2 (P − 1) M",
        lambda P, M, B, D: P * M,  # 2 by 2
        lambda P: 2 * P,
    ),
    "gradient-tracking": Sent(
        "twice what `decentralized` sends: on a ring 4 P M in 4 P messages; at the end 2 (P − 1) M",
        lambda P, M, B, D: 4 * P * M,
        lambda P: 4 * P,
    ),
    "sgp": Sent("P M / τ in P messages every τ steps; at the end 2 (P − 1) M", lambda P, M, B, D: P * M, lambda P: P),
    "gossiping-sgd": Sent(
        "P M / τ in P messages every τ steps, and with pull as many short ones; at the end 2 (P − 1) M", lambda P, M, B, D: P * M / 10
    ),
    "keuper-asgd": Sent("P M / (n τ) for n parts, in P messages every τ steps", lambda P, M, B, D: P * M / 8, lambda P: P),
    "adpsgd": Sent(
        "at most P M / τ, in P messages every τ steps: a question and an answer for each worker of even rank; at the end 2 (P − 1) M",
        lambda P, M, B, D: P * M,
    ),
}

HEAD = """# Systems

*This page is written by `python docs/generate_systems.py`; change that, or the docstrings of `polyrhythm/systems/`.*

P is the number of workers, G of groups, S of server shards, M the bytes of the model's parameters, B their bytes when encoded
by the codec, D the bytes of one worker's batch, τ the steps between exchanges (`period`). Sizes are payloads of all workers and servers
together; headers come on top (24 bytes a message, its topic, 8 bytes a number, 4 and 8 a dimension for each tensor). Sums
without messages, in shared memory or by NCCL, are counted as the messages that their schedule would have sent. At
the beginning worker 0's weights are sent to all others, and systems with servers send the final weights at the
end.

**Buffers**, such as batch-norm statistics, and frozen parameters are copied from worker 0 at the beginning. They are not exchanged in
training; when the run finishes, floating-point buffers are averaged over the workers, unless the strategy's `buffers` do otherwise.

**Arrival order.** If it does not matter, both runtimes give the same final weights for the same seed, bit for bit.

**A lost worker.** A run ends if worker 0, which holds the result, or a server is lost. Lost workers are not replaced. Under torchrun nobody
continues, whatever the system: torchrun ends all workers when one is lost.
"""


def state_of(strategy: Strategy) -> str:
    """Where the optimizer's state is kept."""
    agreement = strategy.exchange.agreement
    held = strategy.exchange.topology.traits.pattern.is_held_elsewhere
    model_state = "at the servers" if held else "at every worker, equal"
    if agreement.payload.is_gradient:
        if agreement.rule is not None:
            return f"{type(agreement.rule).__name__}'s {model_state}; of the worker's optimizer only the learning rate is used"
        return f"{model_state}: the user's optimizer steps on the merged gradient"
    outer = "" if agreement.rule is None else f", and {type(agreement.rule).__name__}'s {model_state}"
    return f"at each worker, its own{outer}"


def overview() -> list[str]:
    """The table of all systems."""
    rows = [
        "| system | consistency | topology | codec | merge | order of arrival matters | a lost worker |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SYSTEMS:
        shown, strategy = published(name), find(name)
        pieces = " | ".join(f"`{piece}`" for piece in (shown.consistency, shown.topology, shown.codec, shown.merge))
        rows.append(f"| [`{name}`](#{name}) | {pieces} | {'yes' if strategy.order_matters else 'no'} | {shown.lost_worker} |")
    return rows


def section(name: str) -> list[str]:
    """One system."""
    shown, strategy = published(name), find(name)
    options = ", ".join(_option(key, option) for key, option in shown.options.items())
    composed = f"`{shown.exchanges}`" if shown.exchanges else ", ".join(f"{axis} `{getattr(shown, axis)}`" for axis in AXES)
    facts = {
        "paper": shown.paper or "none: the baseline",
        "pieces": composed,
        "exchanged": strategy.exchange.agreement.payload.value + ", " + strategy.exchange.topology.traits.pattern.value,
        "options": options or "none",
        "optimizer state": state_of(strategy),
        "sent a step": SENT[name].text,
        "order of arrival": "matters" if strategy.order_matters else "does not matter",
        "a lost worker": shown.lost_worker,
    }
    if strategy.exchange.topology.traits.pattern is Pattern.SHARED:
        facts["lost writes"] = "counted in real processes; not modelled in virtual time, where there are none"
    return [f"## {name}", "", shown.description, "", "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in facts.items()), ""]


def _option(key: str, option: Option) -> str:
    """An option with its default, its type and the paper's own names of it."""
    also = f"; also {', '.join(f'`{other}`' for other in option.also)}" if option.also else ""
    return f"`{key}={option.default}` ({option.type.replace('|', 'or')}{also})"


def page() -> str:
    """The whole page."""
    lines = [HEAD, *overview(), ""]
    for name in SYSTEMS:
        lines += section(name)
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

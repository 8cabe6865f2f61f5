"""The page docs/systems.md, from the code of each published system. `generate_tables.py` writes it."""

from __future__ import annotations

from pathlib import Path

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.systems import SYSTEMS, find
from polyrhythm.systems.declaration import declaration_of
from polyrhythm.tools.cli.presets import AXES, CrewChanges, Option, published

PAGE = Path(__file__).parent / "systems.md"


HEAD = """# Systems

*This page is written by `make docs-tables`; change that, or the docstrings of `polyrhythm/systems/`.*

P is the number of workers, G of groups, S of server shards, M the bytes of the model's parameters, B their bytes when encoded
by the codec, D the bytes of one worker's batch, τ the steps between exchanges (`period`). Sizes are payloads of all workers and servers
together; headers come on top (24 bytes a message, its topic, 8 bytes a number, 4 and 8 a dimension for each tensor). Sums
without messages, in shared memory or by NCCL, are counted as the messages that their schedule would have sent. At
the beginning worker 0's weights are sent to all others, and systems with servers send the final weights at the
end.

**Buffers**, such as batch-norm statistics, and frozen parameters are copied from worker 0 at the beginning. They are not exchanged in
training; when the run finishes, floating-point buffers are averaged over the workers, unless the strategy's `buffers` do otherwise.

**Arrival order.** If it does not matter, both runtimes give the same final weights for the same seed, bit for bit.

**A lost worker.** With a fixed number of workers a run ends if worker 0, which holds the result, or a server is lost, and lost workers are
not replaced. The last column is for [a crew that changes](guide/changing-crew.md): there the first worker may be lost too. Under torchrun
nobody continues, whatever the system: torchrun ends all workers when one is lost.
"""


def state_of(strategy: Strategy) -> str:
    """Where the optimizer's state is kept."""
    agreement = strategy.exchange.agreement
    held = Capability.HELD_ELSEWHERE in strategy.exchange.topology.traits.provides
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
        "| system | consistency | topology | codec | merge | order of arrival matters | a lost worker | in a crew that changes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in SYSTEMS:
        shown, strategy = published(name), find(name)
        pieces = " | ".join(f"`{piece}`" for piece in (shown.consistency, shown.topology, shown.codec, shown.merge))
        matters = "yes" if strategy.order_matters else "no"
        rows.append(f"| [`{name}`](#{name}) | {pieces} | {matters} | {shown.lost_worker} | {shown.crew.lost_worker} |")
    return rows


def changes(crew: CrewChanges) -> str:
    """The policy of a system in one cell."""
    lost = "; ".join(crew.may_be_lost) or "nothing"
    return f"{crew.lost_worker} (done again: {crew.redone}); a worker joins: {crew.joining_worker}; may be lost at a crash: {lost}"


def section(name: str) -> list[str]:
    """One system."""
    shown, strategy = published(name), find(name)
    options = ", ".join(_option(key, option) for key, option in shown.options.items())
    composed = f"`{shown.exchanges}`" if shown.exchanges else ", ".join(f"{axis} `{getattr(shown, axis)}`" for axis in AXES)
    facts = {
        "paper": shown.paper or "none: the baseline",
        "pieces": composed,
        "exchanged": strategy.exchange.agreement.payload.value + ", " + strategy.exchange.topology.traits.how,
        "options": options or "none",
        "optimizer state": state_of(strategy),
        "sent a step": declaration_of(SYSTEMS[name]).sends,
        "order of arrival": "matters" if strategy.order_matters else "does not matter",
        "a lost worker": shown.lost_worker,
        "in a crew that changes": changes(shown.crew),
    }
    if strategy.shares_memory:
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

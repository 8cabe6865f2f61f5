"""What fits together runs; what does not is refused with what was given, why, and what to use instead."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain, islice, product
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from toy import data, network

from polyrhythm import codec, consistency, controllers, merge, shuffle, systems, topology
from polyrhythm import local_rules as local
from polyrhythm.codec import ErrorFeedback, Identity, LowRank, OneBit, Striped, TopK
from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, LocalSteps, SampledClients, SoftSync
from polyrhythm.core.catalogue import CHOICES
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.mesh import WorkerMesh
from polyrhythm.core.protocols.controller import ControlledSetting, Fixed
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.core.strategy.fit import conflict
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.local_rules import Consensus, PlainSteps
from polyrhythm.merge import Elastic, Mean, Nesterov, OuterOptimizer, StalenessScaled, Sum
from polyrhythm.parameters import Named
from polyrhythm.shuffle import OwnPace
from polyrhythm.topology import Adasum, AllReduce, AllToAll, Delayed, Gossip, Server

SERVER, PEERS, GOSSIP, LOCAL = {"topology": Server()}, {"topology": AllToAll()}, {"topology": Gossip()}, {"consistency": LocalSteps(1)}
ADMM = {**LOCAL, "local": Consensus(0.1)}
LOOSE = {"consistency": LocalSteps(1, Bounded(2))}, {"consistency": SoftSync(1, LocalSteps(1, Asynchronous()))}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"consistency": Asynchronous()},
        "Asynchronous needs exchanges for which no other worker need be waiting, as over Server, Blockwise or another, and over ",
        "instead of AllReduce use Server, ",
    ),
    (
        {"consistency": Bounded(3)},
        "Bounded needs the number of steps that each of the other workers has taken, as over Server, ",
        "Instead of Bounded use BulkSynchronous or LocalSteps",
    ),
    ({"consistency": SoftSync(2)}, "SoftSync needs a server that holds the weights, as over Server, ", "instead of AllReduce use Server"),
    (
        {"consistency": LocalSteps(2, Asynchronous())},
        "LocalSteps needs exchanges for which no other worker need be waiting, as over Server, ",
        "instead of AllReduce use Server, ",
    ),
    (
        {**SERVER, "codec": LowRank(2)},
        "LowRank needs sums and gathers in which all workers take part, as over AllReduce, ",
        "Instead of Server use AllReduce",
    ),
    ({**PEERS, "codec": Striped(Identity())}, "and over AllToAll workers communicate with all peers", "Instead of AllToAll use AllReduce"),
    (
        {**PEERS, "consistency": SoftSync()},
        "or another, and over AllToAll workers communicate with all peers",
        "Instead of SoftSync use BulkSynchronous, Bounded, Asynchronous",
    ),
    ({**GOSSIP, **LOCAL, "codec": TopK(0.1)}, "Gossip is for weights, and TopK for gradients", "use Identity or Cast"),
    ({**GOSSIP, **LOCAL, "codec": OneBit()}, "Gossip is for weights, and OneBit", "use Identity or Cast"),
    ({**GOSSIP, **LOCAL, "merge": Sum()}, "Gossip is for weights, and Sum", "instead of Sum use Mean, Elastic or"),
    (GOSSIP, "BulkSynchronous is for gradients, and Gossip for weights", "Instead of BulkSynchronous use LocalSteps"),
    ({**GOSSIP, "merge": Sum()}, "BulkSynchronous is for gradients, and Gossip for weights", "Instead of Gossip use AllReduce"),
    (
        {**GOSSIP, "consistency": Asynchronous()},
        "or another, and over Gossip workers communicate with neighbours",
        "Instead of Asynchronous use LocalSteps",
    ),
    ({"merge": Elastic()}, "BulkSynchronous is for gradients, and Elastic for weights", "Instead of Elastic use Mean, Sum"),
    ({**LOCAL, "merge": Elastic()}, "AllReduce is for gradients or updates, and Elastic", "use Server or Gossip"),
    ({**SERVER, **LOOSE[0], "merge": Elastic()}, "a worker may continue before", "Instead of Elastic use"),
    ({**SERVER, **LOOSE[1], "merge": Elastic()}, "a worker may continue before", "use LocalSteps"),
    (
        {**ADMM, "merge": OuterOptimizer(Nesterov())},
        "Consensus needs the mean of what all workers did",
        "Instead of OuterOptimizer use Mean",
    ),
    ({**ADMM, "merge": Sum()}, "since the last exchange, and Sum makes something else of it", "Instead of Sum use Mean"),
    (
        {**ADMM, "topology": Delayed(AllReduce(), 1)},
        "and over Delayed workers communicate collectively, with late results",
        "Instead of Delayed use AllReduce",
    ),
    ({**ADMM, "topology": Adasum()}, "and over Adasum workers communicate collectively, by pairs", "Instead of Adasum use AllReduce"),
    ({**ADMM, "codec": TopK(0.1)}, "and TopK loses a part of it", "Instead of TopK use Identity"),
    (
        {**ADMM, "topology": Server(), "consistency": LocalSteps(1, Asynchronous())},
        "and LocalSteps merges what some have done",
        "Instead of Consensus",
    ),
    ({**GOSSIP, "consistency": Asynchronous(), "codec": LowRank(1), "merge": Sum()}, "Gossip", "instead of"),
]


@pytest.mark.parametrize(("pieces", "reason", "instead"), REFUSED, ids=lambda value: repr(value)[:60] if isinstance(value, dict) else "")
def test_what_does_not_fit_is_refused_with_what_why_and_what_instead(pieces: dict[str, Any], reason: str, instead: str) -> None:
    with pytest.raises(CompositionError) as caught:
        Strategy(**pieces)
    text = str(caught.value)
    assert "do not fit" in text
    assert any(repr(piece) in text for piece in pieces.values())
    assert reason in text
    assert instead in text
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 450


def test_duals_may_be_merged_over_servers_and_peers_and_with_error_feedback() -> None:
    for pieces in (SERVER, PEERS, {"codec": ErrorFeedback(TopK(0.5))}, {"topology": Delayed(AllReduce(), 0)}):
        assert conflict({**_defaults(), **ADMM, **pieces}) is None


def test_every_remedy_that_names_one_change_is_true() -> None:
    kinds = {type(member).__name__: (axis, member) for axis, members in CHOICES.items() for member in members}
    for pieces, *_ in REFUSED:
        with pytest.raises(CompositionError) as caught:
            Strategy(**pieces)
        advice = str(caught.value).partition(". ")[2]
        for way in advice.rstrip(".").lower().split("; or "):
            if " and instead of " not in way:
                names = way.partition(" use ")[2].replace(" or ", ", ").split(", ")
                taken = [kinds[name] for name in kinds if name.lower() in names]
                assert taken
                for axis, _ in taken:
                    members = [m for m in CHOICES[axis] if type(m).__name__.lower() in names]
                    fitting = [m for m in members if conflict({**_defaults(), **pieces, axis: m}) is None]
                    assert {type(m) for m in fitting} == {type(m) for m in members}


def _defaults() -> dict[str, Any]:
    return {
        "consistency": BulkSynchronous(),
        "topology": AllReduce(),
        "codec": Identity(),
        "merge": Mean(),
        "local": PlainSteps(),
        "controller": Fixed(),
    }


LISTS = {"consistency": consistency, "topology": topology, "codec": codec, "merge": merge, "local": local, "controller": controllers}
"""The packages whose MEMBERS are composed."""


def every_composition() -> list[Strategy]:
    """All compositions of the members of all lists that are not refused."""
    lists = {axis: module.MEMBERS for axis, module in LISTS.items()}
    pieces = (dict(zip(lists, choice, strict=True)) for choice in product(*lists.values()))
    return [composed(each) for each in pieces if conflict(each) is None]


def composed(pieces: dict[str, Any]) -> Strategy:
    """With a shuffle that gives workers batches of their own where a controller sets them."""
    batches = ControlledSetting.BATCH in pieces["controller"].traits.sets
    return Strategy(**pieces, shuffle=OwnPace()) if batches else Strategy(**pieces)


def drawn(draw: random.Random, **fixed: Any) -> dict[str, Any]:
    """A member of each list but those of `fixed`."""
    return {axis: draw.choice(module.MEMBERS) for axis, module in LISTS.items()} | fixed  # type: ignore[attr-defined]


def fitting(draw: random.Random, **fixed: Any) -> Strategy:
    """A composition with `fixed` that is not refused: their number grows with the product of all lists, and so they are not enumerated.

    Some fit with few others only, so that the pieces of a system are replaced one by one.
    """
    pieces = next(each for each in chain(_presets(draw, fixed), (drawn(draw, **fixed) for _ in range(10**5))) if conflict(each) is None)
    for axis in draw.sample(sorted(LISTS.keys() - fixed.keys()), len(LISTS) - len(fixed)):
        members = list(LISTS[axis].MEMBERS)  # type: ignore[attr-defined]
        tried = (pieces | {axis: member} for member in draw.sample(members, len(members)))
        pieces = next((each for each in tried if conflict(each) is None), pieces)
    return composed(pieces)


def _presets(draw: random.Random, fixed: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pieces of systems, in any order, with `fixed` in place of theirs."""
    flat = _flat_systems()
    return ({axis: pieces[axis] for axis in LISTS} | fixed for pieces in draw.sample(flat, len(flat)))


@functools.cache
def _flat_systems() -> list[Mapping[str, Any]]:
    """The pieces of all systems with one exchange."""
    return [found.exchange.pieces for found in map(systems.find, systems.SYSTEMS) if isinstance(found.exchange, Exchange)]


def test_pieces_that_do_not_fit_are_refused_with_what_does() -> None:
    draw = random.Random(3)
    refused = (each for each in (drawn(draw) for _ in range(1000)) if conflict(each) is not None)
    for each in islice(refused, 15):
        with pytest.raises(CompositionError, match=r"do not fit.*\. Instead of \w+ use "):
            Strategy(**each)


def two_steps(worker: Any) -> None:
    """Trains for two steps of four samples at each of three workers."""
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for x, y in worker.batches(tuple(part[:24] for part in data()), batch_size=4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def runs(strategy: Strategy) -> None:
    outcome = run(two_steps, workers=3, strategy=strategy, on=Simulator(network=Instant()), seed=2)
    assert outcome.summary.samples == 24 or strategy.shuffle.takes or isinstance(strategy.consistency, SampledClients)
    assert all(torch.isfinite(tensor).all() for tensor in outcome.weights.values())


def _sample(count: int) -> list[Strategy]:
    """Compositions that have each piece at least once, then those of some others that bring most pairs together."""
    draw, met, chosen = random.Random(7), set[tuple[str, str]](), list[Strategy]()
    for axis, module in LISTS.items():
        for member in module.MEMBERS:  # type: ignore[attr-defined]
            if repr(member) not in {name for pair in met for name in pair}:
                chosen.append(fitting(draw, **{axis: member}))
                met |= _pairs(chosen[-1])
    others = [(strategy, _pairs(strategy)) for strategy in (fitting(draw) for _ in range(3 * count))]
    for fresh in (5, 4, 3):
        for strategy, pairs in others:
            if len(chosen) < count and len(pairs - met) >= fresh:
                chosen.append(strategy)
                met |= pairs
    assert {name for pair in met for name in pair} >= {repr(member) for members in CHOICES.values() for member in members}
    return chosen


def _pairs(strategy: Strategy) -> set[tuple[str, str]]:
    names = [
        repr(piece)
        for piece in (strategy.consistency, strategy.topology, strategy.codec, strategy.merge, strategy.local, strategy.controller)
    ]
    return {(a, b) for k, a in enumerate(names) for b in names[k + 1 :]}


def test_every_piece_runs_with_many_others() -> None:
    for number, strategy in enumerate(_sample(100)):
        kind = strategy.shuffle if strategy.shuffle.takes else shuffle.MEMBERS[number % len(shuffle.MEMBERS)]
        runs(Strategy(**{axis: getattr(strategy, axis) for axis in CHOICES}, shuffle=kind))


@pytest.mark.long
def test_every_composition_that_is_not_refused_runs() -> None:
    composed = every_composition()
    assert len(composed) > 4000
    for strategy in composed:
        runs(strategy)


@pytest.mark.parametrize(
    "strategy",
    [
        Strategy(consistency=SoftSync(1, LocalSteps(2)), topology=Server()),
        Strategy(consistency=SoftSync(1, LocalSteps(2, Asynchronous())), topology=Server(2), merge=StalenessScaled()),
        Strategy(consistency=SoftSync(2, Bounded(1)), topology=Server(), merge=Sum()),
        Strategy(consistency=SoftSync(1, LocalSteps(2)), topology=Server(), merge=Elastic()),
        Strategy(consistency=LocalSteps(2, Bounded(0)), topology=AllToAll()),
        Strategy(consistency=LocalSteps(3, Bounded(1)), topology=Server(2), merge=OuterOptimizer(Nesterov())),
    ],
    ids=repr,
)
def test_nested_rules_run_too(strategy: Strategy) -> None:
    runs(strategy)


@pytest.mark.parametrize(
    ("rule", "workers"), [(SoftSync(2, Bounded(0)), 5), (SoftSync(2, BulkSynchronous()), 7), (SoftSync(1, Bounded(0)), 4)]
)
def test_groups_that_would_never_fill_are_refused_before_anyone_waits(rule: Any, workers: int) -> None:
    strategy = Strategy(consistency=rule, topology=Server())
    if workers % rule.conditions.quorum(workers) == 0:
        run(two_steps, workers=workers, strategy=strategy, on=Simulator(network=Instant()))
        return
    with pytest.raises(CompositionError, match=r"\d workers are no multiple of \d.*would wait for ever. Use a multiple of"):
        run(two_steps, workers=workers, strategy=strategy, on=Simulator(network=Instant()))


def test_a_strategy_takes_no_unknown_piece_and_no_piece_by_position() -> None:
    with pytest.raises(TypeError):
        Strategy(BulkSynchronous())  # type: ignore[misc]
    with pytest.raises(TypeError, match="unexpected keyword argument 'compression'"):
        Strategy(compression=Identity())  # type: ignore[call-arg]


def test_pieces_of_several_exchanges_are_not_taken_for_those_of_one() -> None:
    strategy = systems.find("poseidon")
    assert len(strategy.exchanges) > 1
    for axis in ("agreement", "consistency", "topology", "codec", "merge", "local", "controller"):
        with pytest.raises(CompositionError, match="ask one of them, such as"):
            getattr(strategy, axis)


def test_essential_actors_are_servers_worker_0_and_workers_that_others_wait_for() -> None:
    free, bound = (StrategyPlan.of(systems.find(name), [Location("site", "host")] * 2, 0) for name in ("downpour", "ssp"))
    assert [free.essential(name) for name in ("worker/0", "worker/1", "server/0")] == [True, False, True]
    assert [bound.essential(name) for name in ("worker/0", "worker/1", "server/0")] == [True, True, True]
    in_stages = replace(free, mesh=WorkerMesh((("data", 2), ("stage", 2)), workers(4)))
    assert [in_stages.essential(name) for name in workers(4)] == [True, True, False, False], "the first replica has the result"


def test_every_field_is_among_the_pieces_that_ranks_compare_when_they_meet() -> None:
    shown = set(Strategy(selected=((Named("*.bias"), Exchange()),)).pieces)
    assert shown == {*Exchange().pieces, *(field.name for field in fields(Strategy))} - {"exchange", "name"}

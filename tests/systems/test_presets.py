"""The published systems: found by name, cited, and each of them trains."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import torch
from kinds import sampled
from torch.nn import functional as F
from toy import Toy, data, network, trained, weights

from polyrhythm import systems
from polyrhythm.consistency import Intervals
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.topology import server_count
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.merge import Adagrad, Nesterov, OuterOptimizer, Sum

PUBLISHED = tuple(systems.SYSTEMS)
each = pytest.mark.parametrize("system", PUBLISHED)
of_each_kind = pytest.mark.parametrize("system", sampled(PUBLISHED))

SMALL = Toy(lambda p: torch.optim.SGD(p, lr=0.02), epochs=6)
TOYS: dict[str, Toy] = {
    "easgd": Toy(epochs=9),
    "deepspark": Toy(epochs=9),
    "diloco": Toy(lambda p: torch.optim.AdamW(p, lr=0.02), epochs=6),
    "signsgd": SMALL,
    "asysg-incon": Toy(epochs=12),
    "demo": SMALL,
    "onebit-adam": SMALL,
    **dict.fromkeys(("fedavg", "fedprox", "fedadam"), Toy(epochs=12)),
}
"""The epochs of each worker's share. The centre of easgd follows its workers from afar; some step as far as the rate says; asysg-incon on
one of four blocks."""


@each
def test_a_system_is_found_by_its_name_and_is_a_composition(system: str) -> None:
    found = systems.find(system)
    assert isinstance(found, Strategy)
    assert found == systems.SYSTEMS[system]()
    assert repr(found).startswith("Strategy(")


@each
def test_a_system_states_in_one_sentence_what_it_is_and_cites_its_paper(system: str) -> None:
    text = systems.SYSTEMS[system].__doc__ or ""
    assert text.split("\n")[0].endswith((".", ":"))
    if system != "single":
        assert re.search(r"\((?:[^()]|\n)*(19|20)\d\d", text), "no year of a paper"
        assert re.search(r"[A-Z][a-z]+(, [A-Z]| et al\.|;| and )", text), "no authors"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("alreduce", "allreduce"), ("Downpour", "downpour"), ("sparkent", "sparknet"), ("one-bit", "onebit"), ("gossip-grad", "gossipgrad")],
)
def test_an_unknown_name_is_refused_with_the_nearest(given: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"No system is called '{given}'. Did you mean '{meant}'\?"):
        systems.find(given)


def test_a_name_like_no_other_is_refused_with_all_of_them() -> None:
    with pytest.raises(UnknownNameError, match=re.escape(f"There are: {', '.join(sorted(systems.SYSTEMS))}.")):
        systems.find("xyzzy")


@pytest.mark.parametrize(
    ("system", "option", "accepted"),
    [
        ("ssp", "slak", "slack, servers (also shards). Did you mean 'slack'?"),
        ("diloco", "tua", "period (also tau), outer_learning_rate, outer_momentum. Did you mean 'tau'?"),
        ("allreduce", "servers", "none. Leave it out."),
    ],
)
def test_an_unknown_option_is_refused_with_those_there_are(system: str, option: str, accepted: str) -> None:
    with pytest.raises(CompositionError, match=re.escape(f"{system} has no option {option!r}; its options are: {accepted}")):
        systems.find(system, **{option: 3})


@pytest.mark.parametrize(
    ("system", "options", "message"),
    [
        ("ssp", {"slack": -1}, r"Bounded\(slack=-1\).*give 0"),
        ("sparknet", {"period": 0}, r"LocalSteps\(tau=0\).*give 1"),
        ("softsync", {"groups": 0}, r"SoftSync\(groups=0\).*give 1"),
        ("downpour", {"servers": 0}, r"Server\(shards=0\).*give 1"),
        ("downpour", {"push_period": 0}, r"Intervals\(push=0, fetch=1\).*give 1"),
        ("easgd", {"period": 0.5}, r"easgd\(period=0.5\) cannot be: period is a whole number"),
        ("easgd", {"period": None}, r"easgd\(period=None\) cannot be: period is a whole number"),
        ("mxnet", {"servers": float("nan")}, r"mxnet\(servers=nan\) cannot be: servers is a whole number"),
        ("streaming-diloco", {"full_precision": "false"}, r"full_precision is True or False"),
        ("slowmo", {"outer_momentum": "0.5"}, r"slowmo\(outer_momentum='0.5'\) cannot be: outer_momentum is a number"),
        ("streaming-diloco", {"parts": 0}, r"parts=0 .*give 1"),
        ("streaming-diloco", {"parts": -1}, r"parts=-1 .*give 1"),
        ("byteps", {"spares": -1}, r"Summation\(spares=-1\).*give 0"),
        ("ssp", {"slack": "3"}, r"ssp\(slack='3'\) cannot be: slack is a whole number"),
    ],
)
def test_an_option_without_meaning_is_refused_by_its_piece(system: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        systems.find(system, **options)


def test_options_reach_their_pieces() -> None:
    assert systems.find("ssp", slack=7).consistency.then.slack == 7  # type: ignore[attr-defined]
    assert systems.find("diloco", outer_learning_rate=0.5).merge.rule == Nesterov(0.5, 0.9)
    assert systems.find("downpour", outer_learning_rate=0.2).merge == OuterOptimizer(Adagrad(0.2, 1e-6), Sum())
    assert systems.find("downpour", push_period=5, fetch_period=3).consistency == Intervals(push=5, fetch=3)
    assert server_count(systems.find("softsync", servers=4).topology, 9) == 4


def drawn(system: str, workers: int) -> float:
    """Which part of the workers a round has; who is not in it passes its batches over."""
    strategy = systems.find(system)
    return strategy.consistency.conditions.quorum(workers) / workers if strategy.chooses else 1.0


@each
def test_every_system_trains(system: str) -> None:
    toy = TOYS.get(system, Toy(epochs=6))
    toy = dataclasses.replace(toy, epochs=toy.epochs * 3)  # as many steps of each worker
    run = trained(toy, 3, system)
    model, (x, y) = network(), data()
    model.load_state_dict(run.weights)
    assert F.cross_entropy(model(x), y).item() < 0.6, "the loss of guessing is ln 3, about 1.1"
    assert (model(x).argmax(dim=1) == y).float().mean().item() > 0.8
    assert run.summary.samples >= 0.9 * 96 * toy.epochs * drawn(system, 3)


@of_each_kind
@pytest.mark.parametrize("workers", [1, 5])
def test_every_system_runs_with_any_number_of_workers(system: str, workers: int) -> None:
    run = trained(Toy(epochs=workers), workers, system)
    assert all(weight.isfinite().all() for weight in run.weights.values())
    assert run.summary.samples >= 0.7 * 96 * workers * drawn(system, workers)


@of_each_kind
def test_simultaneous_events_in_any_order_change_no_bit_where_order_does_not_matter(system: str) -> None:
    if systems.find(system).order_matters:
        return  # docs/systems.md says so of it
    plain = weights(Toy(), 3, system)
    for ties in range(2):
        assert torch.equal(weights(Toy(), 3, system, Simulator(network=Instant(), shuffle_ties=ties)), plain)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_direct_has_the_bits_of_allreduce_and_fewer_latencies(workers: int) -> None:
    runs = {s: [trained(Toy(epochs=n), workers, s, Simulator(network="slow")).summary for n in (2, 4)] for s in ("allreduce", "direct")}
    assert runs["direct"][1].weights_sha256 == runs["allreduce"][1].weights_sha256
    ring, direct = (long.virtual_seconds - short.virtual_seconds for short, long in runs.values())
    # 2 (P - 1) latencies a step against 2; the messages are far too small for bandwidth to matter
    assert ring / direct == pytest.approx(workers - 1, rel=0.05)


BY_DESIGN = {"dl4j-sharing", "terngrad", "signsgd", "sparta", "choco-sgd", "li-ps"}
"""Clipped residuals and values; all that is not a sign, of which a vote makes the step; weights, whose rest stays at home; differences to
what was sent, in which the rest is again; gradients that would not move a weight from zero."""


def test_codecs_of_presets_lose_nothing_or_nothing_on_average() -> None:
    codecs: dict[str, Codec] = {system: systems.find(system).exchange.agreement.codec for system in PUBLISHED}
    assert {system for system, codec in codecs.items() if codec.traits.lossy and not codec.traits.unbiased} == BY_DESIGN


def test_numbers_of_numpy_are_numbers() -> None:
    assert systems.find("ssp", slack=np.int64(7)) == systems.find("ssp", slack=7)
    assert systems.find("slowmo", outer_momentum=np.float32(0.5)) == systems.find("slowmo", outer_momentum=0.5)

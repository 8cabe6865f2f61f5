"""The options of all systems: one name for one idea, and the papers' names are accepted too."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from polyrhythm import systems
from polyrhythm.errors import CompositionError
from polyrhythm.systems.declaration import also_called, paper_names_of
from polyrhythm.tools.cli.presets import compose, deal

IDEAS: dict[str, frozenset[str]] = {
    "period": frozenset({"tau", "every", "interval", "steps", "n_sync", "local_steps", "frequency"}),
    "slack": frozenset({"staleness", "lag", "lead", "bound", "max_delay"}),
    "delay": frozenset({"late", "lateness", "lag"}),
    "servers": frozenset({"shards"}),
    "parts": frozenset({"partitions", "fragments", "blocks", "ranges", "pieces"}),
    "ratio": frozenset({"share", "sparsity", "density", "keep"}),
    "threshold": frozenset({"tau", "cutoff"}),
    "buffer": frozenset({"gradients", "quorum", "buffer_size"}),
    "bucket_bytes": frozenset({"fusion_bytes", "fusion_threshold"}),
    "piece_bytes": frozenset({"nbytes", "datagram_bytes", "partition_bytes"}),
    "refresh_period": frozenset({"refresh"}),
    "transfer_period": frozenset({"transfer"}),
    "push_period": frozenset({"push", "n_push"}),
    "fetch_period": frozenset({"fetch", "n_fetch"}),
    "outer_learning_rate": frozenset({"learning_rate", "server_learning_rate", "slow_learning_rate", "alpha"}),
    "outer_momentum": frozenset({"server_momentum", "slow_momentum"}),
    "moving_rate": frozenset({"beta", "elasticity"}),
    "mixing_rate": frozenset({"rate", "gamma", "consensus_rate"}),
    "own_share": frozenset({"own", "stay"}),
    "proximal_weight": frozenset({"rho", "mu"}),
    "epsilon": frozenset({"adaptivity", "eps"}),
    "fraction": frozenset({"client_fraction", "participation"}),
    "warmup": frozenset({"warm_up", "warmup_steps"}),
}
"""Ideas that several systems have, or that papers spell in several ways, each with spellings that no option may have."""
OTHERS = frozenset(
    {
        *("adagrad", "batch", "beta1", "beta2", "bits", "bucket", "chunk", "clip", "clip_norm", "clip_period", "compressed"),
        *("cycle_seconds", "decay", "depth", "dimensions", "double_buffering", "even", "fan_out", "floor", "full_precision", "gaps"),
        *("graph", "group", "group_size", "groups", "headroom", "hubs", "initial_sum", "kept", "largest", "layerwise", "least", "levels"),
        *("max_ratio", "mean_share", "min_ratio", "momentum", "momentum_period", "overlap", "penalty", "per_delay", "percent", "power"),
        *("pull", "quanta", "rank", "reference", "replicas", "retry_seconds", "rotate", "rounds", "samples", "save_updater", "single"),
        *("site_slack", "skip", "spares", "stripes", "synchronous", "trust", "warm_start", "width"),
    }
)
"""Options of one idea and one spelling each. A new name belongs here, or it is an idea that has a name already."""
SPELLINGS = sorted((name, other) for name in systems.SYSTEMS for other in paper_names_of(systems.SYSTEMS[name]))


def options_of(name: str) -> list[str]:
    return list(inspect.signature(systems.SYSTEMS[name]).parameters)


@pytest.mark.parametrize("name", systems.SYSTEMS)
def test_every_option_has_the_one_name_of_its_idea(name: str) -> None:
    refused = {spelling: idea for idea, spellings in IDEAS.items() for spelling in spellings}
    for option in options_of(name):
        assert option not in refused, f"{name} calls {refused[option]} {option}"
        assert option in IDEAS.keys() | OTHERS, f"{option} of {name} is new: docs/decisions/option-names.md has the names of ideas"


def test_every_name_is_that_of_an_option() -> None:
    assert {option for name in systems.SYSTEMS for option in options_of(name)} == IDEAS.keys() | OTHERS


@pytest.mark.parametrize(("name", "other"), SPELLINGS)
def test_the_papers_name_gives_an_equal_strategy_in_each_way_of_calling(name: str, other: str) -> None:
    system, own = systems.SYSTEMS[name], paper_names_of(systems.SYSTEMS[name])[other]
    assert own in options_of(name)
    assert other not in options_of(name)
    for value in values(name, own):
        expected = system(**{own: value})
        assert expected == system(**{other: value}) == systems.find(name, **{other: value}) == compose(name, {other: str(value)})
        assert str(expected) == str(systems.find(name, **{own: value}))


def values(name: str, option: str) -> Iterator[Any]:
    """Values of the option's kind, of which one at least is not its default."""
    annotation = str(inspect.signature(systems.SYSTEMS[name]).parameters[option].annotation)
    yield from (0.002, 0.003) if "float" in annotation else (8, 16)


@pytest.mark.parametrize(("name", "other"), SPELLINGS)
def test_both_names_at_once_are_refused(name: str, other: str) -> None:
    own = paper_names_of(systems.SYSTEMS[name])[other]
    value = next(values(name, own))
    message = rf"{name} was given {own} twice, as {own} and as {other}: leave out one of them\."
    for make in (
        lambda: systems.SYSTEMS[name](**{own: value, other: value}),
        lambda: systems.find(name, **{own: value, other: value}),
        lambda: compose(name, {own: str(value), other: str(value)}),
    ):
        with pytest.raises(CompositionError, match=message):
            make()


def test_a_name_of_the_paper_and_a_value_by_position_are_refused() -> None:
    with pytest.raises(CompositionError, match=r"diloco was given period twice, as period and as tau"):
        systems.diloco(5, tau=5)  # type: ignore[call-arg]
    assert systems.easgd(5, shards=2) == systems.easgd(period=5, servers=2)  # type: ignore[call-arg]


def test_two_names_of_a_paper_at_once_are_refused() -> None:
    with pytest.raises(CompositionError, match="downpour was given push_period twice, as push and as n_push"):
        systems.find("downpour", push=2, n_push=2)


def test_what_a_name_is_called_in_papers_is_known() -> None:
    assert also_called(systems.SYSTEMS["downpour"], "push_period") == ("push", "n_push")
    assert also_called(systems.SYSTEMS["ssp"], "slack") == ()
    assert also_called(systems.SYSTEMS["allreduce"], "period") == ()


def test_a_comparison_deals_the_names_of_papers_too() -> None:
    assert deal({"tau": "7", "easgd.period": "3"}, ["sparknet", "easgd"]) == {"sparknet": {"tau": "7"}, "easgd": {"period": "3"}}
    assert deal({"period": "7", "easgd.tau": "3"}, ["sparknet", "easgd"]) == {"sparknet": {"period": "7"}, "easgd": {"tau": "3"}}


def test_a_comparison_gives_an_option_to_those_that_have_it_before_those_whose_papers_have() -> None:
    assert deal({"delay": "2"}, ["climate", "li-ps"]) == {"climate": {"delay": "2"}, "li-ps": {}}
    assert deal({"delay": "2"}, ["ssp", "li-ps"]) == {"ssp": {}, "li-ps": {"delay": "2"}}

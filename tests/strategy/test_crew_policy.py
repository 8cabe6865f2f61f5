"""Every system says what follows when workers are lost or join, and the policy agrees with what the run's plan and the pieces do."""

from __future__ import annotations

import pytest

from polyrhythm import systems
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.strategy.crew_policy import CrewPolicy, OnLoss
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.tools.cli.presets import published

EVERY = pytest.mark.parametrize("name", systems.SYSTEMS)
PLACES = tuple(Location("site", f"host/{rank // 2}") for rank in range(4))


@EVERY
def test_those_that_tolerate_a_loss_continue_and_the_others_re_form(name: str) -> None:
    strategy = systems.find(name)
    policy, alone = CrewPolicy.of(strategy), strategy.workers(2) == 1
    expected = OnLoss.END if alone else OnLoss.CONTINUE if strategy.tolerates_loss else OnLoss.REFORM
    assert policy.worker is expected
    assert policy.first is (OnLoss.END if alone else OnLoss.REFORM)
    assert policy.joins is not alone


@EVERY
def test_a_collective_in_lockstep_re_forms_and_lets_workers_join_at_a_cut(name: str) -> None:
    strategy = systems.find(name)
    levels = [level for _, exchange in strategy.exchanges for level in exchange.levels]
    if strategy.workers(2) > 1 and all(Capability.COLLECTIVES in level.topology.traits.provides for level in levels):
        policy = CrewPolicy.of(strategy)
        assert (policy.worker, policy.joins, policy.server) == (OnLoss.REFORM, True, None)


@EVERY
def test_servers_are_in_the_policy_where_the_plan_has_some_and_their_loss_is_as_the_plan_says(name: str) -> None:
    plan = StrategyPlan.of(systems.find(name), PLACES, seed=0)
    policy = CrewPolicy.of(plan.strategy)
    assert (policy.server is None) == (not plan.servers)
    for server in plan.servers:
        assert plan.essential(server) == (policy.server is OnLoss.END)


@EVERY
def test_what_may_be_lost_is_one_plain_sentence_each(name: str) -> None:
    policy = CrewPolicy.of(systems.find(name))
    assert len(set(policy.lost)) == len(policy.lost) <= 5
    keeps = any(level.agreement.codec.traits.keeps for _, exchange in systems.find(name).exchanges for level in exchange.levels)
    assert any("residual" in each for each in policy.lost) == keeps
    assert any("with a server" in each for each in policy.lost) == (policy.server is OnLoss.END)
    assert published(name).crew.may_be_lost == policy.lost


@pytest.mark.parametrize("period", [1, 2, 7, 30])
@pytest.mark.parametrize("name", ["diloco", "easgd", "sparknet", "local-sgd"])
def test_local_steps_since_the_last_exchange_are_counted(name: str, period: int) -> None:
    lost = CrewPolicy.of(systems.find(name, period=period)).lost
    assert f"what the lost worker has computed since its last exchange: at most {period} step{'s' * (period > 1)}" in lost


def test_nothing_is_lost_where_all_wait_for_each_gradient_or_write_to_the_same_memory() -> None:
    assert [CrewPolicy.of(systems.find(name)).lost for name in ("allreduce", "horovod", "hogwild", "li-ps")] == [()] * 4
    assert CrewPolicy.of(systems.find("allreduce")).redone == "one step, the one that was interrupted"
    assert CrewPolicy.of(systems.find("downpour")).redone == "nothing"

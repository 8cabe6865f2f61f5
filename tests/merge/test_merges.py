"""Every merge against numbers worked out by hand, and every rule against torch's own optimizer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from endpoints import context_of, server_end
from torch import Tensor

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.kernel.effects import Send
from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import server, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import Contribution, Merge, Rule, combining, mixing, rule_of, scale_of_all
from polyrhythm.core.protocols.traits import DIFFERENCES, Payload
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.merge import MEMBERS, Adagrad, Elastic, Mean, Nesterov, OuterOptimizer, SlowMomentum, StalenessScaled, Sum, VersionedMean
from polyrhythm.topology import Server
from polyrhythm.topology.servers.served_weights import AllWeights
from polyrhythm.topology.servers.server_records import JoinRequest, Push, Wanted, to_numbers
from polyrhythm.topology.servers.server_shard import ServerShard

LAYOUT = Layout(("w",), ((4,),))
ONES = torch.ones(4)
A, B, C = torch.tensor([1.0, 2, 3, 4]), torch.tensor([3.0, -2, 1, 0]), torch.tensor([8.0, 6, -4, 2])


def among(workers: int, dtype: torch.dtype = torch.float32) -> ExchangeContext:
    """An exchange among so many, with weights."""
    return replace(context_of(workers), layout=LAYOUT, source=lambda: ONES.to(dtype), update=lambda: ONES.to(dtype))


def test_mean_divides_the_sum_by_the_number_of_workers_of_the_run() -> None:
    assert Mean().combine([Contribution(A), Contribution(B)], context_of(2)).move().tolist() == [2, 0, 2, 2]
    assert Mean().combine([Contribution(A)], context_of(4)).move().tolist() == [0.25, 0.5, 0.75, 1]
    assert Mean().combine([Contribution(A + B + C, 3)], context_of(3)).move().tolist() == [4, 2, 0, 2]


def test_an_optimizer_is_given_the_average_of_a_group_and_how_much_it_counts() -> None:
    late = [Contribution(A, staleness=2), Contribution(B)]
    for merge, group, workers, average, scale in [
        (Mean(), [Contribution(A), Contribution(B)], 2, (A + B) / 2, 1.0),
        (Mean(), [Contribution(A)], 4, A, 1 / 4),
        (Mean(), [Contribution(A + B + C, 3)], 3, (A + B + C) / 3, 1.0),
        (Sum(), [Contribution(A)], 4, A, 1.0),
        (Sum(), [Contribution(A + B, 2), Contribution(C)], 3, (A + B + C) / 3, 3.0),
        (StalenessScaled(), late, 4, (A / 2 + B) / 1.5, 1.5 / 2),
        (StalenessScaled(), [Contribution(C, staleness=4)], 4, C, 1 / 4),
        (OuterOptimizer(Nesterov(), Sum()), [Contribution(A), Contribution(B)], 4, (A + B) / 2, 2.0),
    ]:
        direction = merge.combine(group, context_of(workers))
        assert direction.scale == scale, merge
        assert torch.equal(direction.average(), average), merge
        torch.testing.assert_close(direction.move(), scale * average, msg=repr(merge))


def test_mean_mixes_with_those_it_meets_oneself_included() -> None:
    assert Mean().mix(A, [B, C], context_of(8)).tolist() == [4, 2, 0, 2]
    assert Mean().mix(A, [A], context_of(8)).tolist() == A.tolist()


def test_sum_adds() -> None:
    assert Sum().combine([Contribution(A), Contribution(B), Contribution(C)], context_of(8)).move().tolist() == [12, 6, 0, 6]


def test_each_contribution_counts_less_the_staler_it_is_and_the_group_is_one_step() -> None:
    group = [Contribution(A, staleness=0), Contribution(B, staleness=1), Contribution(C, staleness=4)]
    expected = [(1 + 3 + 2) / 3, (2 - 2 + 1.5) / 3, (3 + 1 - 1) / 3, 4.5 / 3]
    assert StalenessScaled().combine(group, context_of(30)).move().tolist() == pytest.approx(expected)
    assert StalenessScaled().combine([Contribution(C, staleness=2)], context_of(30)).move().tolist() == [4, 3, -2, 1]


def test_every_clock_comes_to_the_mean_of_its_updates_in_whatever_order_they_come() -> None:
    """Three workers, of which one is three clocks behind: after each delivery the weights have moved by the means of what has come."""
    updates = {
        (clock, rank): torch.randn(4, generator=torch.Generator().manual_seed(10 * clock + rank))
        for clock in (1, 2, 3)
        for rank in range(3)
    }
    order = [(1, 0), (1, 1), (2, 1), (2, 0), (3, 0), (1, 2), (3, 1), (2, 2), (3, 2)]
    merged, state = dict.fromkeys(range(3), 0), ModelState(torch.zeros(4), LAYOUT, VersionedMean(), context_of(3), None)
    for number, (clock, rank) in enumerate(order, 1):
        state.clock = min(merged.values())
        state.move([Contribution(updates[clock, rank], sender=worker(rank), clock=clock)])
        merged[rank] = clock
        came = [[updates[each] for each in order[:number] if each[0] == c] for c in (1, 2, 3)]
        means = [torch.stack(each).mean(0) for each in came if each]
        torch.testing.assert_close(-state.weights, torch.stack(means).sum(0), rtol=1e-5, atol=1e-6)
    assert {key.partition("/")[0] for key in state.memory} == {"3"}, "the others were passed by all before the last merge"


def test_a_clock_that_is_restored_goes_on_from_its_mean() -> None:
    state = ModelState(torch.zeros(4), LAYOUT, VersionedMean(), context_of(3), None)
    state.move([Contribution(A, clock=1)])
    other = ModelState(torch.zeros(4), LAYOUT, VersionedMean(), context_of(3), None)
    other.restore(state.export())
    other.move([Contribution(C, clock=1)])
    assert torch.equal(-other.weights, (A + C) / 2)


@pytest.mark.parametrize("merge", [merge for merge in MEMBERS if merge.traits.averages], ids=str)
def test_a_merge_that_averages_does_nothing_else_to_the_contributions_of_all_but_to_scale_the_rate(merge: Merge) -> None:
    for contributions in ([Contribution(A + B + C, 3)], [Contribution(A), Contribution(B), Contribution(C)]):
        direction = combining(merge).combine(contributions, context_of(3))
        assert direction.scale == scale_of_all(merge, 0, 3)
        assert torch.equal(direction.average(), (A + B + C) / 3)
    assert rule_of(merge) is None


def test_a_merge_with_an_optimizer_or_of_weights_does_not_average_gradients() -> None:
    assert scale_of_all(Elastic(), 0, 3) is None
    assert scale_of_all(OuterOptimizer(Nesterov()), 0, 3) is None
    assert scale_of_all(Sum(), 0, 3) == 3


def test_a_groups_learning_rates_are_the_mean_of_its_members() -> None:
    seen: list[tuple[float, ...]] = []
    model_state = ModelState(torch.zeros(4), LAYOUT, Mean(), context_of(4), lambda _, rates: seen.append(rates))
    model_state.move([Contribution(A, rates=(0.1, 0.7)), Contribution(B, rates=(0.3, 0.1)), Contribution(C, 2, rates=(0.6, 0.2))])
    assert seen[-1] == pytest.approx((0.4, 0.3))
    model_state.move([Contribution(A, count=4, rates=(0.1,))])
    model_state.move([Contribution(A, rates=(0.1,))] * 4)
    assert seen[-2:] == [(0.1,), (0.1,)]


@pytest.mark.parametrize("rule", [Adagrad(), *dict.fromkeys(rule for each in MEMBERS if (rule := rule_of(each)))], ids=repr)
def test_a_rule_that_takes_the_senders_rate_declares_it_and_no_other(rule: Rule) -> None:
    """At the second step: slow momentum has nothing to remember at the first, and takes the update as it is."""
    state = rule.step(A, rule.initial(LAYOUT), 0.1)[1]
    slow, fast = (rule.step(B, dict(state), rate)[0] for rate in (0.1, 0.2))
    assert torch.equal(slow, fast) != rule.takes_rate


@pytest.mark.parametrize("rule", list(dict.fromkeys(rule for each in MEMBERS if (rule := rule_of(each)))), ids=repr)
def test_a_rule_whose_steps_depend_on_the_norm_of_a_direction_declares_it(rule: Rule) -> None:
    state = rule.step(A, rule.initial(LAYOUT), 0.1)[1]
    short, long = (rule.step(factor * B, dict(state), 0.1)[0] for factor in (1, 4))
    assert torch.equal(short, long) != rule.takes_norm


@pytest.mark.parametrize("rule", [Nesterov(0.7, 0.9), Adagrad(0.3), Adagrad(), SlowMomentum(0.5, 0.8)], ids=repr)
def test_the_step_of_a_rule_is_multiplied_and_not_its_direction(rule: Rule) -> None:
    """Two of eight count a quarter: the first step is a quarter of that of all, whatever the rule does to a small direction."""
    moved = []
    for workers in (2, 8):
        model_state = ModelState(torch.zeros(4), LAYOUT, OuterOptimizer(rule), context_of(workers), None)
        model_state.move([Contribution(A, rates=(0.1,)), Contribution(C, rates=(0.1,))])
        moved.append(model_state.weights)
    torch.testing.assert_close(moved[1], moved[0] / 4)


def test_elastic_pulls_by_a_share_of_the_distance() -> None:
    assert Elastic(0.5).mix(A, [B], context_of(2)).tolist() == [1.5, 1, 2.5, 3]  # α = 1/4: A + (B - A) / 4
    assert Elastic(0.5).mix(A, [B, C], context_of(2)).tolist() == [1 + 2.25, 2 + 0.0, 3 - 2.25, 4 - 1.5]


def test_both_ends_of_a_spring_move_by_what_they_were_before() -> None:
    mine, centre = A.clone(), B.clone()
    holders = [ModelState(weights, LAYOUT, Elastic(0.8), context_of(4), None) for weights in (mine, centre)]
    before = [A.clone(), B.clone()]
    holders[0].mix([before[1]])
    holders[1].mix([before[0]])
    torch.testing.assert_close(mine, A - 0.2 * (A - B))
    torch.testing.assert_close(centre, B + 0.2 * (A - B))
    torch.testing.assert_close(mine + centre, A + B)  # a spring moves no centre of mass


def test_a_server_responds_with_the_centre_from_before_the_exchange() -> None:
    strategy, events = Strategy(consistency=LocalSteps(1, Asynchronous()), topology=Server(), merge=Elastic(0.8)), []
    shard = ServerShard(strategy.agreement, server_end(Port(server(0), 0, lambda: 0.0), 4, record=events.append), AllWeights())
    founding = '{"names":["w"],"shapes":[[4]],"optimizer":""}'

    def response(message: Message) -> Tensor:
        taking = shard._take(Delivery(worker(0), message))
        while not isinstance(sent := taking.send(None), Send):
            pass
        taking.close()
        return sent.message.tensors[0]

    assert torch.equal(response(Message("ask", to_numbers(JoinRequest()), founding, (B,))), B)
    assert torch.equal(response(Message("ask", to_numbers(Push(1, 0, Wanted.NEWER, (0.1,))), tensors=(A,))), B)
    torch.testing.assert_close(shard.model_state.weights, B + 0.2 * (A - B))
    assert [event.staleness for event in events if isinstance(event, Merged)] == [[0]]


def against(rule: Rule, optimizer: type[torch.optim.Optimizer], options: dict[str, float | bool], dtype: torch.dtype) -> None:
    """Ten steps on the same directions, at a model_state and in torch."""
    draw = torch.Generator().manual_seed(4)
    weights = torch.randn(4, generator=draw, dtype=dtype)
    parameter = torch.nn.Parameter(weights.clone())
    reference = optimizer([parameter], **options)
    model_state = ModelState(weights, LAYOUT, OuterOptimizer(rule), context_of(1), None)
    for _ in range(10):
        direction = torch.randn(4, generator=draw, dtype=dtype)
        model_state.move([Contribution(direction, rates=(0.3,))])
        parameter.grad = direction
        reference.step()
        torch.testing.assert_close(model_state.weights, parameter.detach(), rtol=1e-6, atol=1e-7)
        assert model_state.weights.dtype == dtype


both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@both_types
@pytest.mark.parametrize(("rate", "momentum"), [(0.7, 0.9), (0.05, 0.5)])
def test_the_outer_optimizer_is_torchs_nesterov_on_the_pseudo_gradient(rate: float, momentum: float, dtype: torch.dtype) -> None:
    against(Nesterov(rate, momentum), torch.optim.SGD, {"lr": rate, "momentum": momentum, "nesterov": True}, dtype)


@both_types
@pytest.mark.parametrize("rate", [None, 0.05])
@pytest.mark.parametrize("start", [0.0, 0.1])
def test_adagrad_at_a_holder_is_torchs(rate: float | None, start: float, dtype: torch.dtype) -> None:
    options = {"lr": rate or 0.3, "initial_accumulator_value": start, "eps": 1e-8}
    against(Adagrad(rate, start), torch.optim.Adagrad, options, dtype)


def test_slow_momentum_is_free_of_the_learning_rate() -> None:
    """x <- x0 - α γ u with u = 0.5 * (A / 0.1) + B / 0.2: worked out from the paper's two lines."""
    rule = SlowMomentum(0.8, 0.5)
    first, state = rule.step(A, rule.initial(LAYOUT), 0.1)
    torch.testing.assert_close(first, 0.8 * A)
    second, state = rule.step(B, state, 0.2)
    torch.testing.assert_close(second, 0.8 * 0.2 * (0.5 * A / 0.1 + B / 0.2))
    still, state = rule.step(C, state, 0.0)
    assert not still.any()
    torch.testing.assert_close(state["momentum"], 0.5 * (0.5 * A / 0.1 + B / 0.2))


def test_adagrad_without_a_rate_of_its_own_follows_the_workers_schedule() -> None:
    rule = Adagrad(None, 1.0)
    slow, _ = rule.step(A, rule.initial(LAYOUT), 0.1)
    fast, _ = rule.step(A, rule.initial(LAYOUT), 0.2)
    torch.testing.assert_close(fast, 2 * slow)


def test_an_outer_optimizer_combines_as_its_inner_merge_does() -> None:
    group = [Contribution(A, staleness=2), Contribution(B)]
    for inner in (Sum(), Mean(), StalenessScaled()):
        outer, alone = OuterOptimizer(Nesterov(), inner).combine(group, context_of(4)), inner.combine(group, context_of(4))
        assert torch.equal(outer.average(), alone.average())
        assert outer.scale == alone.scale


@pytest.mark.parametrize("merge", MEMBERS, ids=repr)
def test_a_merge_writes_to_nothing_that_it_is_given(merge: Merge) -> None:
    given = [A.clone(), B.clone(), C.clone()]
    if merge.traits.payloads & DIFFERENCES:
        combining(merge).combine([Contribution(value) for value in given], among(3))
    if Payload.WEIGHTS in merge.traits.payloads:
        mixing(merge).mix(given[0], given[1:], among(3))
    assert all(torch.equal(value, before) for value, before in zip(given, (A, B, C), strict=True))


@pytest.mark.parametrize("merge", MEMBERS, ids=repr)
def test_a_merge_keeps_the_type_of_the_weights(merge: Merge) -> None:
    given = [value.double() for value in (A, B, C)]
    if merge.traits.payloads & DIFFERENCES:
        direction = combining(merge).combine([Contribution(value) for value in given], among(3, torch.float64))
        assert direction.average().dtype == direction.move().dtype == torch.float64
    if Payload.WEIGHTS in merge.traits.payloads:
        assert mixing(merge).mix(given[0], given[1:], among(3, torch.float64)).dtype == torch.float64


@pytest.mark.parametrize(
    "make",
    [
        lambda: Elastic(0.0),
        lambda: Elastic(1.0),
        lambda: Nesterov(0.0),
        lambda: Nesterov(0.7, 1.0),
        lambda: Adagrad(-1.0),
        lambda: Adagrad(epsilon=0),
        lambda: SlowMomentum(0.0),
        lambda: SlowMomentum(1.0, 1.0),
        lambda: OuterOptimizer(Nesterov(), Elastic()),
        lambda: OuterOptimizer(Nesterov(), OuterOptimizer(Adagrad())),
    ],
)
def test_settings_that_cannot_work_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=r"between 0 and 1|positive|such as Mean"):
        make()


@pytest.mark.parametrize("merge", [each for each in MEMBERS if each.traits.averages], ids=repr)
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_scale_of_a_mean_that_was_made_on_the_way_is_that_of_merging_all_contributions(merge: Merge, workers: int, step: int) -> None:
    contributions = [Contribution(ONES * rank, sender=worker(rank), clock=step) for rank in range(workers)]
    merged = combining(merge).combine(contributions, replace(among(workers), clock=step))
    assert scale_of_all(merge, step, workers) == merged.scale

"""Sums that are used some steps after they were started."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from toy import Toy, data, network, trained, weights

from polyrhythm.codec import ErrorFeedback, Striped, TopK
from polyrhythm.consistency import LocalSteps, Switched
from polyrhythm.core import rng
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import Stepped, Waited
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.local import LocalRule
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.groups import InGroups
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.network import Network
from polyrhythm.local_rules import KeepLateSteps, KeepOwn, PlainSteps
from polyrhythm.parameters import Named
from polyrhythm.topology import AllReduce, Delayed, Server

MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
"""24 samples a worker: 6 steps of 8."""


def test_no_delay_is_the_all_reduce() -> None:
    assert torch.equal(weights(MOMENTUM, 3, Strategy(topology=Delayed(AllReduce(), 0))), weights(MOMENTUM, 3, "allreduce"))


@pytest.mark.parametrize("steps", [1, 2, 4, 9])
def test_each_gradient_is_stepped_on_that_many_steps_later(steps: int) -> None:
    """One worker, compared with a plain loop that keeps gradients back."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    class Watching(Toy):
        def __call__(self, worker: Any) -> None:
            batches = worker.batches
            worker.batches = lambda *given, **named: (seen.append(batch) or batch for batch in batches(*given, **named))
            super().__call__(worker)

    toy = Watching(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
    run = trained(toy, 1, Strategy(topology=Delayed(AllReduce(), steps)))
    rng.seed_everything(5, "worker", 0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    kept: list[list[torch.Tensor]] = []

    def step() -> None:
        for parameter, gradient in zip(model.parameters(), kept.pop(0), strict=True):
            parameter.grad = gradient
        optimizer.step()

    for x, y in seen:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        kept.append([parameter.grad.clone() for parameter in model.parameters()])  # type: ignore[union-attr]
        if len(kept) > steps:
            step()
    while kept:
        step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(run.weights[name], value, rtol=0, atol=1e-6)


def test_real_and_virtual_workers_end_alike() -> None:
    for strategy in (
        Strategy(topology=Delayed(AllReduce(), 2)),
        Strategy(topology=Delayed(AllReduce(), 1), codec=ErrorFeedback(TopK(0.3))),
        Strategy(exchange=Hierarchical(outer=Exchange(topology=Delayed()), groups=InGroups(2))),
    ):
        assert torch.equal(weights(MOMENTUM, 3, strategy, on=Processes()), weights(MOMENTUM, 3, strategy))


def test_the_exchange_is_under_way_while_the_next_step_is_computed() -> None:
    """Where both take about as long, a step takes little more than the longer."""
    latent, slow = Network.uniform("latent", "1 Gbit/s", "2 ms"), Device("slow", 1e6)
    seconds = [
        trained(Toy(epochs=6), 4, Strategy(topology=topology), on=Simulator(network=latent, devices=slow)).summary.virtual_seconds
        for topology in (AllReduce(), Delayed(AllReduce(), 1), Delayed(AllReduce(), 4))
    ]
    assert seconds[1] < 0.75 * seconds[0]
    assert seconds[2] <= seconds[1]


def test_other_topologies_are_refused() -> None:
    with pytest.raises(CompositionError, match="give it AllReduce"):
        Delayed(Server())  # type: ignore[arg-type]
    with pytest.raises(CompositionError, match="before it is made"):
        Delayed(steps=-1)


def test_sums_that_are_under_way_do_not_mix_with_those_of_other_exchanges() -> None:
    two = Strategy(topology=Delayed(AllReduce(), 2), selected=[(Named("0.*"), Exchange(consistency=LocalSteps(3)))])
    assert torch.equal(weights(MOMENTUM, 2, two, on=Processes()), weights(MOMENTUM, 2, two))


def test_late_gradients_inside_groups_are_refused() -> None:
    with pytest.raises(CompositionError, match="use it for the outer exchange"):
        Hierarchical(inner=Exchange(topology=Delayed()), groups=InGroups(2))


LATENT, SLOW_DEVICE = Network.uniform("latent", "1 Gbit/s", "2 ms"), Device("slow", 1e6)


PLAIN = PlainSteps()


def streaming(tau: int, delay: int, local: LocalRule = PLAIN) -> Strategy:
    return Strategy(consistency=LocalSteps(tau), topology=Delayed(AllReduce(), delay), local=local)


GO_ON: dict[LocalRule, Any] = {
    PlainSteps(): lambda agreed, own, sent: agreed,
    KeepOwn(0.5): lambda agreed, own, sent: (agreed + own) / 2,
    KeepLateSteps(): lambda agreed, own, sent: agreed + own - sent,
}


def test_an_update_is_taken_over_that_many_steps_later_with_what_the_rule_keeps_of_ones_own() -> None:
    """Two workers and one loop over both: what is sent after step 3 is taken over after step 5; the run ends with what was sent."""
    for local, go_on in GO_ON.items():
        toy, seen = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.1), epochs=1, batch_size=6), {}

        def watch(worker: Any, toy: Toy = toy, seen: Any = seen) -> None:
            batches, kept = worker.batches, seen.setdefault(worker.rank, [])
            worker.batches = lambda *given, **named: (kept.append(batch) or batch for batch in batches(*given, **named))
            toy(worker)

        found = run(watch, workers=2, strategy=streaming(3, 2, local), on=Simulator(network=LATENT), seed=5)
        torch.testing.assert_close(
            torch.cat([value.reshape(-1) for value in found.weights.values()]), by_hand(seen, go_on, 3, 2), rtol=0, atol=1e-6
        )


def by_hand(seen: Any, go_on: Any, tau: int, delay: int) -> torch.Tensor:
    rng.seed_everything(5, "worker", 0)
    model = network()
    agreed = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    own, sent, then = [agreed.clone(), agreed.clone()], None, []
    for step in range(1, len(seen[0]) + 1):
        for rank in range(2):
            torch.nn.utils.vector_to_parameters(own[rank], model.parameters())
            model.zero_grad()
            x, y = seen[rank][step - 1]
            F.cross_entropy(model(x), y).backward()
            own[rank] = own[rank] - 0.1 * torch.cat([parameter.grad.view(-1) for parameter in model.parameters()])  # type: ignore[union-attr]
        if step % tau == 0:
            sent, then = torch.stack(own).mean(0), list(own)
        elif sent is not None and step % tau == delay:
            agreed, sent = sent, None
            own = [go_on(agreed, mine, before) for mine, before in zip(own, then, strict=True)]
    return torch.stack(own).mean(0) if sent is None else sent


def test_an_exchange_of_updates_that_is_given_the_time_costs_no_waiting() -> None:
    """With a delay of several steps a worker waits for nobody but where the run begins and ends."""
    waits = {}
    for delay in (0, 1, 6):
        outcome = trained(Toy(epochs=8), 4, streaming(8, delay), on=Simulator(network=LATENT, devices=SLOW_DEVICE)).outcome
        began = min(event.time for event in outcome.events if isinstance(event, Stepped))
        end = max(event.time for event in outcome.events if isinstance(event, Stepped))
        waits[delay] = sum(e.seconds for e in outcome.events if isinstance(e, Waited) and e.actor == "worker/0" and began < e.time < end)
    assert waits[0] > 0.01
    assert 0 < waits[1] < waits[0]
    assert waits[6] == 0


def test_a_run_may_end_while_an_update_is_under_way() -> None:
    """24 samples a worker: 3 steps of 8, and the delay ends in the fourth. What is under way counts, and all end alike."""
    for delay in (1, 2, 4):
        strategy = streaming(5, delay, KeepLateSteps())
        for epochs in (2, 3, 4):
            toy = Toy(MOMENTUM.make, epochs=epochs)
            assert torch.equal(weights(toy, 4, strategy, on=Simulator(network=LATENT)), weights(toy, 4, strategy))


def silent(worker: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, MOMENTUM.make(model.parameters()))
    for x, y in worker.batches(data(), batch_size=6):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def test_a_run_resumed_while_an_update_was_under_way_ends_with_the_same_bits(tmp_path: Path) -> None:
    """What is sent after step 4 is taken over after step 6: a checkpoint after step 5 holds the sum, and what the codec left."""
    late = streaming(4, 2, KeepLateSteps())
    strategy = Strategy(consistency=late.consistency, topology=late.topology, local=late.local, codec=Striped(ErrorFeedback(TopK(0.3))))
    virtual = Simulator(network=LATENT)
    whole = run(silent, workers=2, strategy=strategy, on=virtual, seed=5, checkpoints=Checkpoints(tmp_path, every=1, keep=100)).summary
    for step, on in ((4, virtual), (5, virtual), (5, Processes()), (6, virtual)):
        again = run(
            silent, workers=2, strategy=strategy, on=on, seed=5, checkpoints=Checkpoints(resume=tmp_path / f"step-{step:08d}")
        ).summary
        assert again.weights_sha256 == whole.weights_sha256


def test_a_delay_that_does_not_end_before_the_next_update_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"update of step 4 after step 8, and LocalSteps.* sends the next after step 8: take a sh"):
        weights(MOMENTUM, 2, streaming(4, 4))
    with pytest.raises(CompositionError, match=r"update of step 1 after step 2, and LocalSteps.* sends the next after step 2"):
        weights(MOMENTUM, 2, Strategy(consistency=LocalSteps(Switched(9, 5)), topology=Delayed(AllReduce(), 1)))


def test_the_first_steps_of_updates_may_wait_for_their_own_sums() -> None:
    """All of them: then nothing is late. Some of them: then the others are."""
    now, late, both = (Strategy(consistency=LocalSteps(2), topology=Delayed(AllReduce(), *given)) for given in ((0,), (1,), (1, 99)))
    part = Strategy(consistency=LocalSteps(2), topology=Delayed(AllReduce(), 1, warmup=4))
    found = [weights(MOMENTUM, 2, strategy) for strategy in (now, both, part, late)]
    assert torch.equal(found[0], found[1])
    assert len({tuple(each.tolist()) for each in found}) == 3


def test_late_updates_among_groups_are_refused() -> None:
    with pytest.raises(CompositionError, match="only a group's leader would know"):
        Hierarchical(outer=Exchange(consistency=LocalSteps(4), topology=Delayed()), groups=InGroups(2))


def test_a_warmup_waits_for_its_own_sums() -> None:
    """Lockstep for as many steps as the warm-up has; the last sum comes before the end in any case."""
    short = Toy(MOMENTUM.make, epochs=1)  # 4 steps of each of 3 workers
    for warmup, same in ((4, True), (3, True), (2, False)):
        late = Strategy(topology=Delayed(AllReduce(), 1, warmup=warmup))
        assert torch.equal(weights(short, 3, late), weights(short, 3, "allreduce")) is same
    with pytest.raises(CompositionError, match="no number of steps"):
        Delayed(warmup=-1)

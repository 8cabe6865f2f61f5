"""Samples of workers that are lost between exchanges: each is in one step that was completed, whatever a worker's pace."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
import torch

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.view import View, ViewChange
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.change_verdict import NONE, Facts, judged
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware import Fleet, Mixed, Profile
from polyrhythm.hardware.faults import Crash

SAMPLES, EPOCHS = 120, 2
STEP = 1e-3
UNEVEN = Fleet((Profile("measured", (STEP,)),), (Mixed((1.0, 0.5, 0.33)),))


@pytest.mark.parametrize(
    "system", [systems.allreduce(), systems.ssp(), systems.diloco(period=4), systems.local_sgd(period=5)], ids=lambda system: system.name
)
@pytest.mark.parametrize("steps", [2.5, 4.3, 9.7])
def test_each_sample_is_in_one_completed_step_of_each_epoch(system: Strategy, steps: float) -> None:
    each_is_used_once(system, Crash("worker/2", steps * STEP * 3))


@pytest.mark.parametrize("system", [systems.sgp(), systems.gossipgrad()], ids=lambda system: system.name)
@pytest.mark.parametrize("lost", [("worker/2", "worker/0"), ("worker/1", "worker/0")])
@pytest.mark.parametrize("later", [0.9, 2.2])
def test_the_same_holds_where_another_is_lost_soon_after(system: Strategy, lost: tuple[str, str], later: float) -> None:
    """At the first loss some are a step behind in gossip: they keep a batch that the first deal has counted."""
    each_is_used_once(system, Crash(lost[0], 9.7 * STEP * 3), Crash(lost[1], (9.7 + later) * STEP * 3))


def each_is_used_once(system: Strategy, *faults: Crash) -> None:
    used: Counter[tuple[int, int]] = Counter()

    def train(worker: pr.Worker) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for epoch in worker.epochs(EPOCHS):
            for x, numbers in worker.batches((torch.ones(SAMPLES, 1), torch.arange(SAMPLES)), batch_size=2):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
                used.update((epoch, number) for number in numbers.tolist())

    on = pr.Simulator(network="lan", devices=UNEVEN, faults=faults)
    tried = attempt(train, workers=Crew(1, 3, replace=False), strategy=system, on=on)
    assert tried.error is None
    assert set(used.values()) == {1}
    assert len(used) > SAMPLES * EPOCHS - 3 * EPOCHS, "fewer than the workers are left out of an epoch"


def facts(
    completed: int, exchanged: int, alike: bool = True, progress: int = 1, began: tuple[int, ...] = (0, 0, 0), rank: int = 0
) -> Facts:
    """What the worker of `rank` reports, of a first pass and a view that `began` after so many steps of each."""
    one = [0, 0, ["worker/0", "worker/1", "worker/2"], [], completed - began[rank], 1, SAMPLES, []]
    used = {"begun": 1, "since": 0, "members": one[2], "passes": [one]}
    before = dict(zip(one[2], began, strict=True))
    return Facts((progress,), completed + 1, completed, exchanged, alike, False, used, before, before)


@pytest.mark.parametrize(
    ("own", "other", "lost", "used"),
    [
        (facts(19, 0), facts(19, 0), 12, 12),  # it was behind in its own steps
        (facts(19, 0), facts(19, 0), None, 19),  # nothing is known of it
        (facts(25, 20), facts(25, 20), 19, 20),  # its value was in the exchange of step 20
        (facts(19, 0), facts(19, 0), 20, 19),  # it alone had the result of step 20, which the others repeat
        (facts(23, 20, progress=2), facts(19, 0), 19, 20),  # somebody had it
        (facts(19, 0, alike=False), facts(17, 0, alike=False), 21, 21),  # nobody waits for anybody
        (facts(19, 0, False, began=(10, 5, 7)), facts(11, 0, False, began=(10, 5, 7), rank=1), 12, 5),  # nor did they when the view began
        (facts(19, 0, began=(10, 5, 7)), facts(19, 0, began=(10, 5, 7), rank=1), 19, 12),  # its own steps in it are not those of another
    ],
)
def test_a_lost_worker_has_used_what_the_others_have_of_it(own: Facts, other: Facts, lost: int | None, used: int) -> None:
    before = View.of(workers(3))
    change = ViewChange(before, before.without("worker/2"), frozenset(["worker/2"]), () if lost is None else (("worker/2", lost),))
    found = judged(change, before.members, {"worker/0": own, "worker/1": other})
    assert found.used["worker/2"]["passes"][0][4] == used


def test_a_step_that_was_taken_over_from_the_donor_is_completed_when_the_next_view_begins() -> None:
    before = View.of(workers(3))
    change = ViewChange(before, before.without("worker/2"), frozenset(["worker/2"]), (("worker/2", 6),))
    behind, ahead = (msgspec.structs.replace(facts(done, done, rank=rank), progress=(done, 0)) for rank, done in enumerate((6, 7)))
    assert judged(change, before.members, {"worker/0": behind, "worker/1": ahead}).began == {"worker/0": 7, "worker/1": 7}


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("done", [15, 16, 17])
def test_a_loss_soon_after_another_counts_from_the_batches_that_who_was_behind_has_kept(alike: bool, done: int) -> None:
    """Worker 1 was behind worker 0, which had taken 18 steps: its batches up to that are of the first deal, and not of the second."""
    before = View.of(workers(3))
    change = ViewChange(before, before.without("worker/2"), frozenset(["worker/2"]), (("worker/2", 15),))
    ahead = msgspec.structs.replace(facts(18, 16, alike), paced=True, progress=(int(alike), 0))
    behind = msgspec.structs.replace(facts(done, 0, alike, rank=1), paced=True, progress=(0, 0))
    found = judged(change, before.members, {"worker/0": ahead, "worker/1": behind})
    assert found.used["worker/1"]["passes"][0][4] == 18
    assert found.dealt == {"worker/0": 18, "worker/1": 18}

    then = ViewChange(change.after, change.after.without("worker/1"), frozenset(["worker/1"]), (("worker/1", 19),))
    one = [0, 0, ["worker/0", "worker/1"], [], 1, 1, SAMPLES, []]
    used = {"begun": 1, "since": 0, "members": one[2], "passes": [one]}
    alone = msgspec.structs.replace(ahead, clock=20, completed=19, exchanged=19, used=used, began=found.began, dealt=found.dealt)
    assert judged(then, change.after.members, {"worker/0": alone}).used["worker/1"]["passes"][0][4] == 1


def test_who_joins_and_is_interrupted_has_completed_the_steps_of_its_donor() -> None:
    """A loss comes after the newcomer has entered the view, and before it has attached its models."""
    before = View.of(workers(3))
    change = ViewChange(before, before.without("worker/1"), frozenset(["worker/1"]), (("worker/1", 6),))
    newcomer = msgspec.structs.replace(facts(0, 0), progress=(NONE,))
    found = judged(change, before.members[:2], {"worker/0": msgspec.structs.replace(facts(6, 6), progress=(6, 0)), "worker/2": newcomer})
    assert (found.donor, found.takers, found.began) == ("worker/0", ["worker/2"], {"worker/0": 6, "worker/2": 6})


def test_who_joined_and_is_in_its_first_step_keeps_the_batch_that_it_holds() -> None:
    """It has completed no step itself, and is not behind: it began with those of the others."""
    before = View.of(workers(3))
    change = ViewChange(before, before.without("worker/1"), frozenset(["worker/1"]), (("worker/1", 6),))
    own = msgspec.structs.replace(facts(6, 6, began=(6, 6, 6)), paced=True, progress=(6, 0))
    newcomer = msgspec.structs.replace(own, completed=0, exchanged=0, began={})
    used = judged(change, before.members, {"worker/0": own, "worker/2": newcomer}).used
    assert [used[name]["passes"][0][4:6] for name in before.members] == [[0, 1], [0, 0], [0, 1]]


@pytest.mark.parametrize(("meets", "used"), [(True, [[7, 0], [7, 0]]), (False, [[7, 0], [6, 1]])])
def test_who_is_behind_keeps_its_batches_where_all_make_the_same_calls(meets: bool, used: list[list[int]]) -> None:
    """Else it would have a batch less than the one that waits for it in a call after each step."""
    before = View.of(workers(3))
    change = ViewChange(before, before.without("worker/2"), frozenset(["worker/2"]), (("worker/2", 6),))
    calling = msgspec.structs.replace(facts(7, 7, alike=False), meets=meets)
    calling.used["passes"][0][5] = 0
    found = judged(change, before.members, {"worker/0": calling, "worker/1": facts(6, 6, alike=False, rank=1)}).used
    assert [found[name]["passes"][0][4:6] for name in before.members[:2]] == used

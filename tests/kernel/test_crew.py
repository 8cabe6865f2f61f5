"""The workers that a run may have: what users write for them, and who refuses a crew that changes."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.core.job_files.values import read
from polyrhythm.core.kernel.crew import FIXED, BatchRule, Crew
from polyrhythm.core.kernel.crew_authority import CrewAuthority
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.view import View
from polyrhythm.core.training.work import Training
from polyrhythm.errors import CompositionError, WorkerFailed

DATA = (torch.randn(24, 4), torch.randn(24, 1))


def train(worker: pr.Worker) -> None:
    model = nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for inputs, targets in worker.batches(DATA, batch_size=2):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("given", "crew"),
    [
        (4, Crew(4, 4)),
        ((2, 8), Crew(2, 8)),
        ([2, 8], Crew(2, 8)),
        (Crew(2, 8, wait=1.0), Crew(2, 8, wait=1.0)),
        ((3, 3), Crew(3, 3)),
    ],
)
def test_a_number_or_two_mean_a_crew(given: Any, crew: Crew) -> None:
    assert Crew.of(given) == crew
    assert Crew.parse(str(crew)) == crew.within(crew.least, crew.most) or crew.wait != 30.0
    assert list(crew.sizes) == list(range(crew.least, crew.most + 1))
    assert crew.fixed == (len(list(crew.sizes)) == 1)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (0, "workers=0 trains nothing"),
        ((8, 2), "smaller number first"),
        ((0, 2), "trains nothing"),
        ((2, 100_001), "more than a machine can hold"),
        ((1, 2, 3), "range of two numbers"),
        ((2,), "range of two numbers"),
        ("2..8", "not a whole number"),
        ((2, 2.5), "not a whole number"),
        (True, "not a whole number"),
    ],
)
def test_what_is_no_crew_is_refused_with_a_sentence(given: Any, refusal: str) -> None:
    with pytest.raises(CompositionError, match=refusal):
        Crew.of(given)


def test_the_batch_of_each_or_of_all_stays_equal() -> None:
    assert (Crew(2, 8).rule, Crew(2, 8, batch="global").rule) == (BatchRule.WORKER, BatchRule.GLOBAL)
    with pytest.raises(CompositionError, match="give 'worker' or 'global'"):
        Crew(2, 8, batch="both")  # type: ignore[arg-type]
    with pytest.raises(CompositionError, match="no time to wait"):
        Crew(2, 8, wait=-1.0)


@pytest.mark.parametrize("text", ["", "2..", "..8", "2-8", "2...8", "two", "1e3"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(CompositionError, match=re.escape(f"--workers {text} is no number of workers")):
        Crew.parse(text)


def test_a_setting_of_a_job_may_be_a_crew() -> None:
    assert read("2..8", Crew) == Crew(2, 8)
    with pytest.raises(ValueError, match=r"8\.\.2"):
        read("8..2", Crew)


def test_a_job_has_the_crew_of_its_workers_or_a_wider_one() -> None:
    def job(crew: Crew = FIXED) -> Job:
        return Job(3, 0, lambda context: None, lambda port, record: None, lambda name: True, crew=crew)  # type: ignore[arg-type, return-value]

    assert (job().crew, job(Crew(2, 4)).crew) == (Crew(3, 3), Crew(2, 4))


def test_a_run_of_a_changing_crew_begins_with_the_most() -> None:
    changing = pr.run(train, workers=(2, 4), on=pr.Simulator(), seed=3)
    fixed = pr.run(train, workers=4, on=pr.Simulator(), seed=3)
    assert changing.summary.workers == 4
    assert changing.summary == fixed.summary


def test_a_strategy_gets_the_workers_that_it_uses_and_must_accept_every_number() -> None:
    def training(strategy: str, crew: Crew) -> Training:
        return Training(train, pr.systems.resolve(strategy), crew, 0)

    assert training("single", Crew(2, 8)).crew == Crew(1, 1)
    assert training("allreduce", Crew(2, 8, wait=1.0)).crew == Crew(2, 8, wait=1.0)


@pytest.mark.parametrize(
    "use",
    [
        lambda crew: pr.check_recipe(train, "allreduce", crew),
        lambda crew: pr.simulate_timing(train, workers=crew, strategy="allreduce", steps=2, on=pr.Simulator()),
        lambda crew: pr.plan(train, "loss=0.1", workers=crew),
    ],
)
def test_what_needs_one_number_of_workers_refuses_a_changing_crew(use: Any) -> None:
    with pytest.raises(CompositionError, match=r"2\.\.4 is a crew that changes|Crew\(least=2, most=4.* changes"):
        use(Crew(2, 4))


class Hands:
    """Carries nothing out; notes whom it has hired, what is to be called later, and failures."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.failures: list[WorkerFailed] = []
        self.released: list[str] = []

    def release(self, names: list[str]) -> None:
        self.released = names

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: None

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append(call)

    def fail(self, problem: WorkerFailed) -> None:
        self.failures.append(problem)


def led(crew: Crew) -> tuple[CrewAuthority, Hands]:
    return CrewAuthority(crew, View.of(workers(crew.least)), hands := Hands()), hands


def come(authority: CrewAuthority) -> None:
    """A newcomer is admitted at the next cut."""
    name = authority.join()
    assert name is not None
    authority.arrive(name)
    for each in authority.view.members:
        authority.held(each, 1)
    for each in authority.view.members:
        authority.arrive(each)
    assert authority.view.present(name)


def test_a_run_with_too_few_workers_ends_when_nobody_comes_in_time() -> None:
    authority, hands = led(Crew(2, 3, replace=False, wait=5.0))
    authority.lose("worker/0", interrupts=True)
    hands.later[0]()
    assert ["worker/0" in str(each) and "nobody has joined within 5 seconds" in str(each) for each in hands.failures] == [True]


def test_the_time_to_wait_begins_anew_after_others_have_come() -> None:
    authority, hands = led(Crew(2, 3, replace=False, wait=5.0))
    authority.lose("worker/0", interrupts=True)
    come(authority)
    authority.lose("worker/1", interrupts=True)
    hands.later[0]()
    assert not hands.failures
    hands.later[1]()
    assert len(hands.failures) == 1


def test_workers_that_leave_with_notice_may_leave_too_few_and_the_last_stays() -> None:
    authority, hands = led(Crew(2, 3, replace=False, wait=5.0))
    assert authority.leave("worker/0")
    assert not authority.leave("worker/1")
    for each in authority.view.members:
        authority.held(each, 1)
    for each in authority.view.members:
        authority.arrive(each)
    assert authority.view.members == ("worker/1",)
    hands.later[0]()
    assert len(hands.failures) == 1


def test_a_cut_that_is_agreed_on_is_carried_out_where_somebody_takes_no_more_steps_and_changes_nothing() -> None:
    authority, hands = led(Crew(3, 4))
    authority.join()
    authority.arrive("worker/3")
    for each in authority.view.members:
        authority.held(each, 1)
    assert authority.step == 2
    authority.arrive("worker/0")
    authority.close()  # by worker/1, which has no second step
    assert not hands.released, "worker/0 waits for the others before it goes on"
    authority.arrive("worker/1")
    authority.arrive("worker/2")
    assert (hands.released, authority.view.epoch, authority.step) == (["worker/0", "worker/1", "worker/2"], 0, 0)
    assert authority.early == ["worker/3"]

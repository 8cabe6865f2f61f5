"""Runs that are broken off and resumed."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from kinds import fewest
from safetensors.torch import load_file
from torch import nn

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.checkpoints.checkpoint import Checkpoint
from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.errors import CheckpointError, CompositionError, DivergedError, PolyrhythmError, RecordWarning, WorkloadError
from polyrhythm.hardware.faults import Crash
from polyrhythm.shuffle import RingShuffle

STEPS = 18
WEIGHTS = "replicas/0/parts/0/model/weights"
NAMES = sorted(systems.SYSTEMS)
PROMISED = [name for name in NAMES if not systems.find(name).order_matters]
OTHERS = [name for name in NAMES if name not in PROMISED]
TIMED = {"softsync", "easgd", "fedbuff", "async-local-sgd", "deepspark"}
"""Systems in which what a contribution counts depends on when it comes: by its staleness, by how far the center has moved."""


def train(worker: pr.Worker) -> None:
    """Dropout, momentum and a schedule: all have a state."""
    drawn = torch.Generator().manual_seed(3)
    x = torch.randn(96, 12, generator=drawn)
    y = (x[:, :3].sum(1, keepdim=True) > 0).float()
    model = nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    worker.attach(model, optimizer)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.9)
    worker.keep(schedule=schedule)
    for _ in range(3):
        for inputs, targets in worker.batches((x, y), 4):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            schedule.step()
        worker.report(rate=schedule.get_last_lr()[0])


def push(worker: pr.Worker) -> None:
    """A constant gradient: in every order, each contribution moves the weights by as much, so that one lost or doubled is seen."""
    model = nn.Linear(6, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker.attach(model, optimizer)
    toward = torch.tensor([[1.0, -2.0, 3.0, 0.5, -0.25, 4.0]])
    for _ in range(3):
        for _ in worker.batches((torch.zeros(96, 1),), 4):
            optimizer.zero_grad()
            (model.weight * toward).sum().backward()
            optimizer.step()


def simulator(name: Any = "allreduce") -> pr.Simulator:
    return pr.Simulator(network="lan" if systems.resolve(name).shares_memory else "wan-3")


def run(program: Callable[[pr.Worker], object], name: Any, on: Runtime | None = None, workers: int = 4, **options: Any) -> pr.Run:
    return pr.run(program, workers=workers, strategy=name, on=on or simulator(name), seed=5, **options)


def at(directory: Path, step: int) -> Path:
    return directory / f"step-{step:08d}"


def resumed_alike(name: Any, directory: Path, steps: list[int]) -> None:
    whole = run(train, name, checkpoints=pr.Checkpoints(directory, every=1, keep=100))
    assert run(train, name).summary.weights_sha256 == whole.summary.weights_sha256, "writing checkpoints changes nothing"
    for step in steps:
        again = run(train, name, checkpoints=pr.Checkpoints(resume=at(directory, step)))
        assert again.summary.weights_sha256 == whole.summary.weights_sha256, step
        assert (again.summary.steps, again.summary.samples) == (whole.summary.steps, whole.summary.samples)
        assert again.final == whole.final


def resumed_without_loss(name: str, directory: Path, steps: list[int]) -> None:
    whole = run(push, name, checkpoints=pr.Checkpoints(directory, every=1, keep=100))
    for step in steps:
        again = run(push, name, checkpoints=pr.Checkpoints(resume=at(directory, step)))
        torch.testing.assert_close(again.weights["weight"], whole.weights["weight"], rtol=1e-5, atol=1e-5, msg=f"{name} at {step}")


@pytest.mark.parametrize("name", fewest(PROMISED))
def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_broken_off(name: str, tmp_path: Path) -> None:
    resumed_alike(name, tmp_path, [5, 12])


SWITCHED: dict[str, pr.Strategy] = {
    "onebit-adam": systems.find("onebit-adam", warmup=3),
    "dgc": systems.find("dgc", ratio=0.1, warmup=2),
    "powersgd-plus": systems.find("powersgd-plus", rank=1, refresh_period=4, warmup=1),
    "pipe-sgd": systems.find("pipe-sgd", width=3, bits=8, warmup=2),
    "signum": systems.find("signsgd", momentum=0.9),
}


OFTEN = {"dgc", "signum"}


@pytest.mark.parametrize("name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.long) for name in SWITCHED])
def test_what_codecs_and_merges_keep_after_a_warmup_is_in_a_checkpoint(name: str, tmp_path: Path) -> None:
    resumed_alike(SWITCHED[name], tmp_path, [7])


@pytest.mark.parametrize("name", fewest([name for name in NAMES if name not in TIMED]))
def test_no_contribution_is_lost_or_doubled(name: str, tmp_path: Path) -> None:
    resumed_without_loss(name, tmp_path, [7])


@pytest.mark.parametrize("name", fewest(sorted(TIMED)))
def test_what_a_contribution_counts_may_depend_on_when_it_comes(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=f"{name} at 7"):
        resumed_without_loss(name, tmp_path, [7])


@pytest.mark.parametrize(
    "among", [pr.topology.Mirrors(), pr.topology.Overlay(2, turn=3, barrier=pr.topology.SelectiveBarrier())], ids=["direct", "hubs"]
)
def test_what_a_site_has_yet_to_send_to_others_is_not_lost(among: Any, tmp_path: Path) -> None:
    def push_much(worker: pr.Worker) -> None:
        model = nn.Linear(60_000, 1, bias=False)
        nn.init.ones_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        worker.attach(model, optimizer)
        for _ in worker.batches((torch.zeros(60, 1),), 1):
            optimizer.zero_grad()
            model.weight.sum().backward()
            optimizer.step()

    inner = pr.Exchange(consistency=pr.consistency.LocalSteps(1, pr.consistency.Bounded(0)), topology=pr.topology.Server(1))
    outer = pr.Exchange(consistency=pr.consistency.LocalSteps(1, pr.consistency.Bounded(20)), topology=among, merge=pr.merge.Sum())
    mirrored = pr.Strategy(exchange=pr.Hierarchical(inner=inner, outer=outer))
    whole = run(push_much, mirrored, workers=6, checkpoints=pr.Checkpoints(tmp_path, every=5))
    again = run(push_much, mirrored, workers=6, checkpoints=pr.Checkpoints(resume=at(tmp_path, 5)))
    torch.testing.assert_close(again.weights["weight"], whole.weights["weight"], rtol=1e-5, atol=1e-5)


def test_the_momentum_with_which_servers_of_groups_merge_is_in_a_checkpoint(tmp_path: Path) -> None:
    inner = pr.Exchange(consistency=pr.consistency.LocalSteps(1, pr.consistency.Bounded(0)), topology=pr.topology.Server(1))
    outer = pr.Exchange(
        consistency=pr.consistency.LocalSteps(1, pr.consistency.Bounded(20)),
        topology=pr.topology.Mirrors(),
        merge=pr.merge.OuterOptimizer(pr.merge.Nesterov(0.5, 0.9)),
    )
    mirrored = pr.Strategy(exchange=pr.Hierarchical(inner=inner, outer=outer, groups=2))
    whole = run(push, mirrored, pr.Simulator(), checkpoints=pr.Checkpoints(tmp_path, every=6, keep=9))
    again = run(push, mirrored, pr.Simulator(), checkpoints=pr.Checkpoints(resume=at(tmp_path, 6)))
    torch.testing.assert_close(again.weights["weight"], whole.weights["weight"], rtol=1e-5, atol=1e-5)


def saves_after_epochs(worker: pr.Worker) -> None:
    model = nn.Linear(6, 1)
    worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    [replica] = worker.attached
    for epoch in range(3):
        for (inputs,) in worker.batches((torch.ones(48, 6),), 4):
            replica.optimizer.zero_grad()
            model(inputs).sum().backward()
            replica.optimizer.step()
        worker.save()
        worker.report(epoch=epoch)


def test_on_its_way_back_a_run_overwrites_no_checkpoint(tmp_path: Path) -> None:
    whole = run(saves_after_epochs, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    before = (at(tmp_path, 8) / "worker-0.json").read_bytes()
    again = run(saves_after_epochs, "allreduce", checkpoints=pr.Checkpoints(tmp_path, keep=9, resume=at(tmp_path, 8)))
    assert (at(tmp_path, 8) / "worker-0.json").read_bytes() == before
    assert again.summary.weights_sha256 == whole.summary.weights_sha256


def test_what_follows_the_last_save_is_reported(tmp_path: Path) -> None:
    whole = run(saves_after_epochs, "allreduce", checkpoints=pr.Checkpoints(tmp_path))
    assert run(saves_after_epochs, "allreduce", checkpoints=pr.Checkpoints(tmp_path, resume=True)).final == whole.final


def begins_late(worker: pr.Worker) -> None:
    """Worker 0 is slow to restore, and all report the weights with which they begin."""
    model = nn.Linear(4, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    restore = Replica.restore

    def slowly(replica: Replica, state: Any) -> None:
        time.sleep(0.3 if worker.rank == 0 else 0.0)
        restore(replica, state)

    Replica.restore = slowly  # type: ignore[method-assign]
    try:
        worker.attach(model, optimizer)
    finally:
        Replica.restore = restore  # type: ignore[method-assign]
    began = model.weight.abs().sum()
    for (inputs,) in worker.batches((torch.ones(32, 4),), 4):
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
    worker.report(began=worker.mean(began))


def test_shared_weights_are_restored_before_anyone_reads_them(tmp_path: Path) -> None:
    run(begins_late, "hogwild", pr.Processes(), 2, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=9))
    again = run(begins_late, "hogwild", pr.Processes(), 2, checkpoints=pr.Checkpoints(resume=at(tmp_path, 2)))
    assert again.final["began"] == pytest.approx(sum(abs(w) for w in load_file(at(tmp_path, 2) / "worker-0.safetensors")[WEIGHTS].tolist()))


def test_passes_over_other_data_inside_an_epoch_are_not_left_out(tmp_path: Path) -> None:
    seen: list[int] = []

    def validates(worker: pr.Worker) -> None:
        model = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        worker.attach(model, optimizer)
        for _ in range(2):
            for (inputs,) in worker.batches((torch.ones(96, 6),), 4):
                optimizer.zero_grad()
                model(inputs).sum().backward()
                optimizer.step()
                if worker.clock % 2 == 0:
                    seen.append(sum(len(held) for (held,) in worker.batches((torch.zeros(32, 6),), 4)))

    whole = run(validates, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=1, keep=99))
    for step in (3, 5, 9):
        seen.clear()
        again = run(validates, "allreduce", checkpoints=pr.Checkpoints(resume=at(tmp_path, step)))
        assert seen == [8] * 4 * (6 - step // 2)
        assert again.summary.weights_sha256 == whole.summary.weights_sha256


def test_data_that_are_shorter_than_the_position_are_refused(tmp_path: Path) -> None:
    def over(samples: int) -> Callable[[pr.Worker], None]:
        def passes(worker: pr.Worker) -> None:
            model = nn.Linear(6, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            worker.attach(model, optimizer)
            for (inputs,) in worker.batches((torch.ones(samples, 6),), 4):
                optimizer.zero_grad()
                model(inputs).sum().backward()
                optimizer.step()

        return passes

    run(over(96), "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=5))
    with pytest.raises(
        CheckpointError, match=r"over tensors of 96 samples in batches of 4, and now it is over tensors of 32 .*override=\['data'\]"
    ):
        run(over(32), "allreduce", checkpoints=pr.Checkpoints(resume=tmp_path))


FULL = {"zhang-asgd", "asysg-con"}
"""Under the momentum of one server four gradients that each count in full are too much for this training function."""


@pytest.mark.parametrize("name", fewest(name for name in OTHERS if name not in FULL))
def test_where_order_matters_all_steps_are_taken(name: str, tmp_path: Path) -> None:
    whole = run(train, name, checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))
    again = run(train, name, checkpoints=pr.Checkpoints(resume=at(tmp_path, 7)))
    assert (again.summary.steps, again.summary.samples) == (whole.summary.steps, whole.summary.samples)


@pytest.mark.parametrize("name", sorted(FULL))
def test_gradients_that_each_count_in_full_can_be_too_much(name: str, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="training diverged"):
        run(train, name, checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))


@pytest.mark.long
@pytest.mark.parametrize("name", fewest(NAMES))
def test_at_twenty_random_steps(name: str, tmp_path: Path) -> None:
    last = 3 * 96 // 4 if name == "single" else STEPS
    steps = random.Random(name).choices(range(1, last + 1), k=20)
    if name in PROMISED:
        resumed_alike(name, tmp_path, steps)
    if name not in TIMED:
        resumed_without_loss(name, tmp_path / "conserved", steps)


@pytest.mark.parametrize(
    "name", ["allreduce", "softsync", *(pytest.param(name, marks=pytest.mark.long) for name in ("diloco", "gossipgrad"))]
)
def test_real_processes_resume_what_real_processes_and_virtual_workers_have_written(name: str, tmp_path: Path) -> None:
    whole = run(train, name, simulator(), 2, checkpoints=pr.Checkpoints(tmp_path / "virtual", every=4, keep=10))
    if name in PROMISED:
        real = run(train, name, pr.Processes(), 2, checkpoints=pr.Checkpoints(tmp_path / "real", every=4, keep=10))
        assert real.summary.weights_sha256 == whole.summary.weights_sha256
        again = run(train, name, simulator(), 2, checkpoints=pr.Checkpoints(resume=at(tmp_path / "real", 8)))
        assert again.summary.weights_sha256 == whole.summary.weights_sha256
    again = run(train, name, pr.Processes(), 2, checkpoints=pr.Checkpoints(resume=at(tmp_path / "virtual", 8)))
    if name in PROMISED:
        assert again.summary.weights_sha256 == whole.summary.weights_sha256
    assert again.summary.samples == whole.summary.samples


def test_samples_that_travel_are_where_they_were(tmp_path: Path) -> None:
    moved = pr.Strategy(shuffle=RingShuffle())
    whole = run(train, moved, checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))
    for step in (3, 6, 11, 14):
        assert (
            run(train, moved, checkpoints=pr.Checkpoints(resume=at(tmp_path, step))).summary.weights_sha256 == whole.summary.weights_sha256
        )


def test_the_clock_goes_on_in_virtual_time(tmp_path: Path) -> None:
    whole = run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=9, keep=9))
    written = json.loads((at(tmp_path, 9) / "manifest.json").read_text())
    again = run(train, "allreduce", checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000009"))
    assert written["step"] == 9
    assert min(event.time for event in again.outcome.events) == written["seconds"]
    assert again.summary.virtual_seconds == pytest.approx(whole.summary.virtual_seconds, rel=0.05)


def test_a_resumed_run_is_evaluated_at_no_time_before_its_checkpoint(tmp_path: Path) -> None:
    def evaluated(worker: pr.Worker) -> None:
        worker.evaluate(lambda model: {"sum": sum(float(p.sum()) for p in model.parameters())})
        train(worker)

    for name in ("allreduce", "ssp"):
        run(evaluated, name, checkpoints=pr.Checkpoints(tmp_path / name, every=9))
        checkpoint = Checkpoint(at(tmp_path / name, 9))
        resumed = run(evaluated, name, checkpoints=pr.Checkpoints(resume=checkpoint.path))
        times = [event.time for event in resumed.outcome.events if isinstance(event, Evaluated)]
        assert len(times) > 2
        assert min(times) >= checkpoint.manifest.seconds > 0


def test_resume_takes_the_newest_and_begins_anew_where_there_is_none(tmp_path: Path) -> None:
    first = run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=5, resume=True))
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000010", "step-00000015"]
    second = run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=5, resume=True))
    assert first.summary.weights_sha256 == second.summary.weights_sha256
    assert second.outcome.settings["resumed"].endswith("after step 15")


@pytest.mark.parametrize("faults", [(), (Crash("worker/1", step=15),)], ids=["alone", "with a loss"])
def test_a_resumed_run_writes_on_when_its_own_checkpoint_is_deleted(faults: tuple[Crash, ...], tmp_path: Path) -> None:
    """Also where some are interrupted by the loss in a checkpoint, and others before it."""

    def steps(worker: pr.Worker) -> None:
        model = nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
        while worker.clock < STEPS:
            optimizer.zero_grad()
            model(torch.ones(4, 1)).sum().backward()
            worker.count(4)
            optimizer.step()

    run(steps, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=10))
    wanted = pr.Checkpoints(tmp_path, every=1, keep=1, resume=True)
    crew: Any = pr.Crew(2, 4, replace=False) if faults else 4
    again = run(steps, "allreduce", on=pr.Simulator(network="wan-3", faults=faults), workers=crew, checkpoints=wanted)
    (last,) = tmp_path.iterdir()
    assert int(last.name.partition("-")[2]) == again.summary.steps == STEPS


def test_a_training_function_without_batches_goes_on_at_its_clock(tmp_path: Path) -> None:
    def loop(worker: pr.Worker) -> None:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        worker.attach(model, optimizer)
        while worker.clock < 10:
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            worker.count(4)
            optimizer.step()
            if worker.clock == 6:
                assert worker.save()

    whole = run(loop, "allreduce", checkpoints=pr.Checkpoints(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000006"]
    assert run(loop, "allreduce", checkpoints=pr.Checkpoints(resume=tmp_path)).summary.weights_sha256 == whole.summary.weights_sha256


def test_a_schedule_by_epochs_is_where_it_was(tmp_path: Path) -> None:
    rates: list[float] = []

    def scheduled(worker: pr.Worker) -> None:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        worker.attach(model, optimizer)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(4):
            for (inputs,) in worker.batches((torch.ones(16, 3),), 2):
                optimizer.zero_grad()
                model(inputs).mean().backward()
                optimizer.step()
                if worker.rank == 0:
                    rates.append(optimizer.param_groups[0]["lr"])
            schedule.step()

    run(scheduled, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))
    whole = rates.copy()
    for step in (1, 2, 3, 5, 6):
        rates.clear()
        run(scheduled, "allreduce", checkpoints=pr.Checkpoints(resume=at(tmp_path, step)))
        assert rates == whole[step:]


def test_loops_that_are_left_early_stay_left(tmp_path: Path) -> None:
    seen: list[float] = []

    def leaving(worker: pr.Worker) -> None:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker.attach(model, optimizer)
        for _ in range(4):
            for (inputs,) in worker.batches((torch.arange(40.0).view(40, 1),), 2):
                optimizer.zero_grad()
                model(inputs).mean().backward()
                optimizer.step()
                if worker.rank == 0:
                    seen.append(inputs.sum().item())
                if worker.clock % 3 == 0:
                    break

    run(leaving, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=1, keep=100))
    whole = seen.copy()
    assert len(whole) == 12
    for path in sorted(tmp_path.iterdir()):
        seen.clear()
        run(leaving, "allreduce", checkpoints=pr.Checkpoints(resume=path))
        assert seen == whole[len(whole) - len(seen) :]


def test_several_models_resume_together(tmp_path: Path) -> None:
    def two(worker: pr.Worker) -> None:
        models = [nn.Linear(3, 3), nn.Linear(3, 1)]
        optimizers = [torch.optim.Adam(model.parameters(), lr=0.05) for model in models]
        for model, optimizer in zip(models, optimizers, strict=True):
            worker.attach(model, optimizer)
        for (inputs,) in worker.batches((torch.randn(48, 3),), 2):
            for optimizer in optimizers:
                optimizer.zero_grad()
            models[1](models[0](inputs).tanh()).square().mean().backward()
            for optimizer in optimizers:
                optimizer.step()

    for name in ("allreduce", "ssp"):
        directory = tmp_path / name
        whole = run(two, name, checkpoints=pr.Checkpoints(directory, every=1, keep=100))
        again = run(two, name, checkpoints=pr.Checkpoints(resume=at(directory, 4)))
        assert again.summary.samples == whole.summary.samples
        if name == "allreduce":
            assert again.summary.weights_sha256 == whole.summary.weights_sha256


def test_another_run_is_refused(tmp_path: Path) -> None:
    run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=9))
    with pytest.raises(CheckpointError, match=r"another strategy: consistency Bulk.*, topology AllReduce\S*, where this run has .* Resume"):
        run(train, "sparknet", checkpoints=pr.Checkpoints(resume=tmp_path))
    with pytest.raises(CheckpointError, match="with another seed: 5, where this run has 6"):
        pr.run(train, workers=4, on=simulator(), seed=6, checkpoints=pr.Checkpoints(resume=tmp_path))
    with pytest.raises(CheckpointError, match="has no complete checkpoint"):
        run(train, "allreduce", checkpoints=pr.Checkpoints(resume=tmp_path / "elsewhere"))


def test_a_new_run_where_another_has_checkpoints_is_refused(tmp_path: Path) -> None:
    run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=5))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match=r"has checkpoints of an earlier run, the newest is step-00000015: resume it"):
        run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=4))
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_from_an_earlier_step_keeps_its_own_checkpoints(tmp_path: Path) -> None:
    run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=5))
    run(train, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=6, resume=at(tmp_path, 10)))
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000012", "step-00000018"]


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for options, message in (
        ({"every": 3}, r"give it too \(directory=, or --checkpoint\)"),
        ({"resume": True}, r"give it too \(directory=, or --checkpoint\)"),
        ({"directory": tmp_path, "every": 0}, "every=0 is not a number of steps"),
        ({"directory": tmp_path, "keep": 0}, "keep=0 would keep no checkpoint"),
        ({"directory": tmp_path, "every": 2.5}, "every=2.5 is not a whole number"),
        ({"directory": tmp_path, "keep": "2"}, "keep='2' is not a whole number"),
        ({"directory": 3}, "directory=3 is not a path"),
        ({"directory": ""}, "directory='' is not a path: it is empty"),
        ({"resume": "\0"}, "is not a path: it is empty or has a null character"),
        ({"keep": None}, "keep=None is not a whole number"),
        ({"resume": None}, "resume=None is not a path"),
    ):
        with pytest.raises(CompositionError, match=message):
            pr.Checkpoints(**options)


def test_save_without_a_directory_is_refused() -> None:
    def saving(worker: pr.Worker) -> None:
        worker.save()

    with pytest.raises(WorkloadError, match=r"worker\.save\(\) was called in a run without a checkpoint directory"):
        run(saving, "allreduce")


def test_objects_without_state_are_refused() -> None:
    def keeping(worker: pr.Worker) -> None:
        worker.keep(number=3)

    with pytest.raises(WorkloadError, match="number=3, a int, which has no state_dict"):
        run(keeping, "allreduce")


def test_steps_that_differ_are_refused(tmp_path: Path) -> None:
    def apart(worker: pr.Worker) -> None:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker.attach(model, optimizer)
        for _ in range(3):
            model(torch.ones(1, 1)).backward()
            worker.count(1)
            optimizer.step()
            if worker.clock == 1 + worker.rank:
                worker.save()

    with pytest.raises(PolyrhythmError, match=r"after step 1 at one worker and after step 2 at another"):
        run(apart, "downpour", workers=2, checkpoints=pr.Checkpoints(tmp_path))


def test_a_worker_that_ends_early_ends_the_checkpoints_and_not_the_run(tmp_path: Path) -> None:
    def uneven(worker: pr.Worker) -> None:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker.attach(model, optimizer)
        for _ in range(5 + 6 * worker.rank):
            optimizer.zero_grad()
            model(torch.ones(1, 1)).backward()
            worker.count(1)
            optimizer.step()

    run(uneven, "downpour", workers=2, checkpoints=pr.Checkpoints(tmp_path, every=4))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000004"]


def test_a_lost_worker_ends_the_checkpoints_and_not_the_run(tmp_path: Path) -> None:
    whole = run(train, "downpour")
    lost = pr.Simulator(network="wan-3", faults=(pr.hardware.Crash("worker/2", (whole.summary.virtual_seconds or 0) / 2),))
    again = run(train, "downpour", lost, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    assert again.summary.lost == ["worker/2"]
    assert 0 < len(list(tmp_path.iterdir())) < 9


def test_a_full_disk_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polyrhythm.core.checkpoints.actor_files.save_tensors", full)
    with pytest.warns(RecordWarning, match=r"The checkpoint after step (9|18) was not written: .* No space left on device"):
        run(train, "ssp", checkpoints=pr.Checkpoints(tmp_path, every=9))
    assert list(tmp_path.iterdir()) == []


def test_another_model_is_refused(tmp_path: Path) -> None:
    def build(inputs: int, outputs: int) -> Callable[[pr.Worker], None]:
        def small(worker: pr.Worker) -> None:
            model = nn.Linear(inputs, outputs, bias=False)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            worker.attach(model, optimizer)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(1, inputs)).sum().backward()
                worker.count(1)
                optimizer.step()

        return small

    run(build(2, 3), "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=1))
    with pytest.raises(CheckpointError, match="The checkpoint is of another model: weight differs"):
        run(build(3, 2), "allreduce", checkpoints=pr.Checkpoints(resume=tmp_path))


def test_a_name_that_only_a_pass_sets_is_explained(tmp_path: Path) -> None:
    def reporting(worker: pr.Worker) -> None:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker.attach(model, optimizer)
        for _ in range(3):
            for (inputs,) in worker.batches((torch.ones(16, 1),), 2):
                optimizer.zero_grad()
                loss = model(inputs).mean()
                loss.backward()
                optimizer.step()
            worker.report(loss=loss.item())

    run(reporting, "allreduce", checkpoints=pr.Checkpoints(tmp_path, every=3, keep=9))
    with pytest.raises(
        WorkloadError, match=r"'loss'.*skips the data that were used before the checkpoint was written.*have no batches now"
    ):
        run(reporting, "allreduce", checkpoints=pr.Checkpoints(resume=at(tmp_path, 3)))

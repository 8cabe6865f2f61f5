"""Each omission of a recipe for many workers is found, and what follows it is left alone."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import data, network

from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.merge import LinearScaling, Sum
from polyrhythm.tools.recipes.recipe import lint_recipe
from polyrhythm.tools.recipes.recipe_check import check_recipe
from polyrhythm.topology import Summation

SCALED = "large-minibatch"


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Linear(width, width), nn.BatchNorm1d(width)
        self.second, self.norm2 = nn.Linear(width, width), nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm2(self.second(torch.relu(self.norm1(self.first(x)))))


def test_a_rate_that_stays_as_it_is_for_one_is_found_and_one_that_leaps() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    [unscaled] = lint_recipe(model, optimizer, "allreduce", 8)
    assert unscaled.startswith("8 workers average their gradients, and the learning rate is that of one")
    for merge in (Sum(), LinearScaling()):
        [leaps] = lint_recipe(model, optimizer, Strategy(merge=merge), 8)
        assert leaps.startswith("The learning rate is 8 times that of one worker from the first step on")
    for strategy, workers in ((SCALED, 8), ("allreduce", 1), ("ssp", 8), ("downpour", 8), ("sparknet", 8), ("single", 8)):
        assert lint_recipe(model, optimizer, strategy, workers) == []


@pytest.mark.parametrize(
    ("system", "momentum", "workers", "found"),
    [("ssp", 0.9, 3, True), ("adpsgd", 0.9, 4, True), ("zhang-asgd", 0.5, 4, True), ("ssp", 0.0, 8, False), ("ssp", 0.9, 2, False),
     ("allreduce", 0.9, 8, False), ("diloco", 0.9, 8, False), ("single", 0.9, 1, False)],
)  # fmt: skip
def test_momentum_next_to_updates_that_come_late_is_found(system: str, momentum: float, workers: int, found: bool) -> None:
    layer = nn.Linear(2, 2)
    findings = lint_recipe(layer, torch.optim.SGD(layer.parameters(), lr=0.1, momentum=momentum), system, workers=workers)
    late = [each for each in findings if "come late and one by one" in each]
    assert bool(late) == found
    assert all(f"momentum {momentum:g}, and under {system} the updates of {workers} workers" in each for each in late)


def test_decay_of_vectors_is_found_by_name() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == big] for big in (True, False))
    decays = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)
    assert lint_recipe(model, decays, SCALED)[0].startswith("Weight decay is applied to 0.bias, 1.weight, 1.bias: biases")
    apart = torch.optim.SGD([{"params": matrices, "weight_decay": 1e-4}, {"params": vectors}], lr=0.1)
    assert lint_recipe(model, apart, SCALED) == []


def test_the_gamma_of_the_last_norm_of_a_residual_block_is_looked_at() -> None:
    model = nn.Sequential(Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert "is not zero in 0.norm2, 1.norm2: with zeros" in lint_recipe(model, optimizer, SCALED)[0]
    for block in model:
        nn.init.zeros_(block.norm2.weight)  # type: ignore[union-attr, arg-type]
    assert lint_recipe(model, optimizer, SCALED) == []


def test_a_recipe_for_no_workers_is_refused() -> None:
    with pytest.raises(CompositionError, match="give 1 or more"):
        lint_recipe(network(), torch.optim.SGD(network().parameters(), lr=0.1), SCALED, workers=0)


def trains(
    worker: Any, tmp_path: Any, *, by: float = 1.0, warm: bool = False, loads: bool = False, saves: bool = False, own: bool = False
) -> None:
    """A training function with the omissions that it is given."""
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05 * by))
    if warm:
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / 4, total_iters=3)
    if loads and worker.rank == 0:
        with torch.no_grad():
            model[0].weight.fill_(0.5)
    for _ in range(3):
        batches = [(data()[0][:8], data()[1][:8])] * 2 if own else worker.batches(data(), batch_size=8)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if warm:
                schedule.step()
        if saves or worker.rank == 0:
            torch.save(model.state_dict(), tmp_path / "model.pt")


def found(tmp_path: Any, strategy: str = SCALED, **omissions: Any) -> list[str]:
    findings = check_recipe(lambda worker: trains(worker, tmp_path, **omissions), strategy, workers=4)
    assert not list(tmp_path.iterdir()), "nothing is written"
    return findings


def test_a_training_function_that_follows_the_recipe_is_left_alone(tmp_path: Any) -> None:
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("omission", "message"),
    [
        ({"strategy": "allreduce"}, "4 workers average their gradients, and the learning rate is that of one"),
        ({"loads": True}, "worker/1 begins with other weights than worker/0"),
        ({"saves": True}, "worker/1 writes "),
        ({"own": True}, "All workers train on the same samples"),
    ],
)
def test_each_of_the_four_omissions_is_found(omission: dict[str, Any], message: str, tmp_path: Any) -> None:
    [finding] = found(tmp_path, **omission)
    assert finding.startswith(message)


def test_what_was_saved_can_be_loaded_and_what_is_in_memory_is_no_file(tmp_path: Any) -> None:
    def train(worker: Any) -> None:
        memory, best = io.BytesIO(), tmp_path / "best.pt"
        torch.save({"rank": worker.rank}, memory)
        memory.seek(0)
        assert torch.load(memory) == {"rank": worker.rank}
        if worker.rank == 0:
            torch.save(obj={"best": 1}, f=best)
            torch.save({"best": 2}, str(best))
            assert torch.load(best) == {"best": 2}
            assert torch.load(f=os.path.relpath(best)) == {"best": 2}
        trains(worker, tmp_path)

    assert check_recipe(train, SCALED) == []
    assert not list(tmp_path.iterdir())


def test_what_was_saved_can_be_renamed(tmp_path: Any) -> None:
    (tmp_path / "a").write_text("mine")

    def train(worker: Any) -> None:
        if worker.rank == 0:
            torch.save({"best": 1}, tmp_path / "best.tmp")
            (tmp_path / "best.tmp").replace(tmp_path / "best.pt")
            assert torch.load(tmp_path / "best.pt") == {"best": 1}
            if (tmp_path / "a").exists():
                os.rename(tmp_path / "a", tmp_path / "b")
        trains(worker, tmp_path)

    assert check_recipe(train, SCALED) == []
    assert [file.name for file in tmp_path.iterdir()] == ["b"]


def test_workers_are_counted_as_the_strategy_uses_them(tmp_path: Any) -> None:
    """`single` takes one of them; a spare machine is of use to several workers, not to one."""
    assert found(tmp_path, strategy="single") == []
    spared = Strategy(topology=Summation(2), merge=LinearScaling(8))
    assert check_recipe(lambda worker: trains(worker, tmp_path), spared, workers=4) == []


def test_an_open_file_is_written_to_and_noted(tmp_path: Any) -> None:
    def train(worker: Any) -> None:
        with (tmp_path / "open.pt").open("wb") as file:
            torch.save(worker.rank, file)
        assert torch.load(tmp_path / "open.pt") == worker.rank
        trains(worker, tmp_path)

    [finding] = check_recipe(train, SCALED)
    assert finding.startswith(f"worker/1 writes {tmp_path / 'open.pt'} with torch.save")


def test_a_rate_that_the_training_function_multiplies_itself_is_seen(tmp_path: Any) -> None:
    def train(worker: Any, warm: bool) -> None:
        trains(worker, tmp_path, by=float(worker.workers), warm=warm)

    [leaps] = check_recipe(lambda worker: train(worker, False), "allreduce", workers=4)
    assert leaps.startswith("The learning rate is 4 times that of one worker from the first step on")
    assert check_recipe(lambda worker: train(worker, True), "allreduce", workers=4) == []

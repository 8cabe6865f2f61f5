"""The recipe for data parallelism in programs of torch.distributed: each omission is found, and correct programs are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from typer.testing import CliRunner

from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.app import app
from polyrhythm.tools.recipes.script_recipe import check_script_recipe

CORRECT = sorted((Path(__file__).parents[1] / "torch_programs" / "correct").glob("*.py"))

OMISSIONS = {
    "scaled": "2 ranks have 8 samples each, as one alone has, and the learning rate is 0.05 for both",
    "broadcast": "Rank 1 begins with other weights than rank 0",
    "one_saver": "Rank 1 writes ",
    "sharded": "Ranks 0 and 1 train on the same samples",
}


def trains(folder: str, *omitted: str, wrapped: bool = True) -> None:
    """A data-parallel program without what is `omitted`; gradients are averaged by DistributedDataParallel, or else by hand."""
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model: Any = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    if wrapped:
        model = DistributedDataParallel(model)
    elif "broadcast" not in omitted:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
    rate = 0.05 * (1 if "scaled" in omitted else ranks)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / ranks, total_iters=3)
    draw = torch.Generator().manual_seed(3)
    data = TensorDataset(torch.randn(64, 4, generator=draw), torch.randn(64, 2, generator=draw))
    sampler = DistributedSampler(data, 1 if "sharded" in omitted else ranks, 0 if "sharded" in omitted else rank)
    for _ in range(2):
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            if not wrapped:
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= ranks
            optimizer.step()
            warm_up.step()
    if rank == 0 or "one_saver" in omitted:
        torch.save(model.state_dict(), Path(folder) / "model.pt")


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_program_that_follows_the_recipe_is_left_alone(tmp_path: Path, wrapped: bool) -> None:
    def main() -> None:
        trains(str(tmp_path), wrapped=wrapped)

    assert check_script_recipe(main) == []
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("omitted", OMISSIONS)
def test_each_of_the_four_omissions_is_found_by_itself(tmp_path: Path, omitted: str, wrapped: bool) -> None:
    def main() -> None:
        trains(str(tmp_path), omitted, wrapped=wrapped)

    found = check_script_recipe(main)
    if omitted == "broadcast" and wrapped:  # DistributedDataParallel broadcasts by itself
        assert found == []
        return
    assert [each.startswith(OMISSIONS[omitted]) for each in found] == [True]


def test_several_omissions_are_all_found(tmp_path: Path) -> None:
    def main() -> None:
        trains(str(tmp_path), *OMISSIONS, wrapped=False)

    assert [each[:8] for each in check_script_recipe(main, ranks=2)] == [each[:8] for each in OMISSIONS.values()]


@pytest.mark.parametrize("script", CORRECT, ids=lambda path: path.stem)
def test_weights_files_and_samples_of_correct_scripts_are_left_alone(script: Path) -> None:
    found = check_script_recipe(script, ranks=2)
    assert [each for each in found if "the learning rate is" not in each] == []


def test_ranks_that_divide_one_batch_need_no_other_rate() -> None:
    def main() -> None:
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(8, 4).chunk(dist.get_world_size())[dist.get_rank()]
        model(x).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
        optimizer.step()

    assert check_script_recipe(main) == []


def test_the_command_checks_the_recipe_where_it_is_asked(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "torch.manual_seed(0)\n"
        "model = torch.nn.Linear(4, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "x = torch.randn(8, 4).chunk(dist.get_world_size())[dist.get_rank()]\n"
        "model(x).square().mean().backward()\n"
        "for p in model.parameters():\n    dist.all_reduce(p.grad, dist.ReduceOp.AVG)\n"
        "optimizer.step()\n"
        f"torch.save(model.state_dict(), {str(tmp_path / 'model.pt')!r})\n"
    )
    plain, asked = (CliRunner().invoke(app, ["check", str(script), "--json", *more]) for more in ([], ["--recipe"]))
    assert plain.exit_code == 0
    assert asked.exit_code == 1
    assert json.loads(asked.stdout)["recipe"][0].startswith("Rank 1 writes ")


def test_one_rank_alone_cannot_be_checked() -> None:
    with pytest.raises(CompositionError, match="leaves nothing to compare"):
        check_script_recipe(print, ranks=1)

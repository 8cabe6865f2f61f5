"""`pr.check` names the faults that were planted, and finds nothing in scripts that are correct."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.nn.parallel import DistributedDataParallel

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.torch_programs.checking.check import Checked
from polyrhythm.torch_programs.checking.findings import CAUSES

HERE = Path(__file__).parent
FOUR = {
    *("hsdp", "fsdp2_tensor_parallel", "megatron_by_hand", "one_f_one_b", "bf16_norm_reduction", "loss_over_tensor_ranks"),
    *("different_dropout", "norm_counts_twice"),
}
"""Scripts with a mesh of two axes, or a pipeline of four stages."""
PLANTED = {
    "conv_width": "dtensor-convolution",
    "bf16_norm_reduction": "reduce-dtype",
    "accumulated_pipeline": "scale-grads",
    "sequence_norms": "norms-in-sequence-parallel",
    "loss_over_tensor_ranks": "mean-over-wrong-ranks",
    "tied_stages": "tied-on-stages",
    "equal_dropout": "equal-dropout",
    "local_norm": "local-norm",
    "uneven_shards": "uneven-parts",
    "unfrozen": "unfrozen",
    "micro_batch_labels": "labels",
    "auxiliary_twice": "auxiliary-loss",
    "stale_buffer": "stale-gradients",
    "skipped_data": "skipped-data",
}
ASIDE = {
    "different_dropout": "different-dropout",
    "norm_counts_twice": "norm-counts-twice",
    "same_data": "same-data",
    "context_loss": "mean-over-wrong-ranks",
    "lossy_hook": "communication-hook",
}
"""Written with the others, and run once when the detectors were complete."""
WITHOUT_TWIN = {"accelerate_loop"}
"""Ranks that take whole batches in turn, which one process takes one after the other."""
CORRECT = sorted(path.stem for path in (HERE / "correct").glob("*.py"))


def checked(folder: str, name: str, orders: int = 0) -> Checked:
    return pr.check(HERE / folder / f"{name}.py", ranks=4 if name in FOUR else 2, orders=orders)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_named(name: str) -> None:
    assert checked("planted", name).findings[0].cause == PLANTED[name]


@pytest.mark.parametrize("name", ASIDE)
def test_a_fault_that_was_kept_aside_is_named(name: str) -> None:
    assert checked("aside", name).findings[0].cause == ASIDE[name]


@pytest.mark.parametrize("name", CORRECT)
def test_nothing_is_found_in_a_correct_script(name: str) -> None:
    found = checked("correct", name)
    assert found.findings == []
    assert found.norms or name in WITHOUT_TWIN  # it was compared with one process


def test_a_check_leaves_no_hooks_of_all_modules() -> None:
    checked("planted", "uneven_shards")
    assert not torch.nn.modules.module._has_any_global_hook()


def test_each_planted_script_has_a_cause_with_reports() -> None:
    for folder, causes in {"planted": PLANTED, "aside": ASIDE}.items():
        assert {path.stem for path in (HERE / folder).glob("*.py")} == set(causes)
        assert all(CAUSES[cause].reports for cause in causes.values() if cause != "same-data")


def training(width: int, reduces: bool = True, scale: float = 1.0) -> Callable[[], None]:
    """A program that averages gradients by hand; its first layer is as wide as there are ranks."""

    def main() -> None:
        dist.init_process_group("gloo")
        rank, ranks = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            x = torch.randn(12, 4, generator=torch.Generator().manual_seed(step)).chunk(ranks)[rank]
            optimizer.zero_grad()
            (F.mse_loss(model(x), x[:, :2]) * scale).backward()
            for parameter in model.parameters():
                if reduces:
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= ranks
            optimizer.step()

    return main


def test_a_function_is_checked_and_two_checks_find_the_same() -> None:
    first, second = (pr.check(training(3, reduces=False), ranks=3, orders=0) for _ in range(2))
    assert [finding.cause for finding in first.findings] == ["not-reduced"]
    assert [str(finding) for finding in first.findings] == [str(finding) for finding in second.findings]
    assert "gradients of" in first.findings[0].what
    assert "test_check.py" in first.findings[0].where


def averaged(seed_of_rank: int) -> None:
    """Train with the seed that is `seed_of_rank` times the rank."""
    dist.init_process_group("gloo")
    torch.manual_seed(seed_of_rank * dist.get_rank())
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)).chunk(dist.get_world_size())[dist.get_rank()]
    F.mse_loss(model(x), x[:, :2]).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
    optimizer.step()


def test_replicas_that_begin_with_other_weights_are_named() -> None:
    assert pr.check(averaged, 1, ranks=2, orders=0).findings[0].cause == "initialisation"


@pytest.mark.parametrize("shared", [8, 4], ids=["as many each", "a share each"])
def test_ranks_that_draw_their_own_samples_skip_none_where_one_draws_the_stream_of_one_process(shared: int) -> None:
    def main() -> None:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(dist.get_rank())
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8 if shared == 8 else 8 // dist.get_world_size(), 4)).square().mean().backward()
            optimizer.step()

    found = pr.check(main, ranks=2, orders=0)
    assert found.findings == []
    assert "other samples than the ranks together" in found.notes[-1]


def placed(wrong: str) -> None:
    """A value of which each rank has added a part."""
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    own = torch.full((4,), 1.0 + dist.get_rank())
    placement = Replicate() if wrong == "label" else Partial()
    value = DTensor.from_local(own, mesh, [placement])
    if wrong == "read":
        value.to_local().sum()
    else:
        value.full_tensor().sum()


@pytest.mark.parametrize(("wrong", "causes"), [("label", ["not-replicated"]), ("read", ["partial-read"]), ("", [])])
def test_a_dtensor_is_what_it_says(wrong: str, causes: list[str]) -> None:
    found = pr.check(placed, wrong, ranks=2, orders=0)
    assert [finding.cause for finding in found.findings] == causes
    assert "No optimizer" in found.notes[-1]


def test_sparse_gradients_are_compared_as_well() -> None:
    def main() -> None:
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = DistributedDataParallel(nn.EmbeddingBag(8, 4, sparse=True))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.arange(12).remainder(8).view(6, 2).chunk(dist.get_world_size())[dist.get_rank()]
        model(x).square().mean().backward()
        optimizer.step()

    found = pr.check(main, ranks=2, orders=1)
    assert found.findings == []
    assert found.norms[0][0] == pytest.approx(found.norms[0][1], rel=1e-6)


def test_rounding_is_measured_by_other_orders_of_reductions() -> None:
    def main() -> None:
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = nn.Linear(2048, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(12, 2048).chunk(dist.get_world_size())[dist.get_rank()]
        model(x).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
        optimizer.step()

    found = pr.check(main, ranks=4, orders=2)
    assert found.findings == []
    assert 0 < found.norms[0][2] < 1e-4


def test_a_twin_that_the_user_names_is_what_gradients_are_compared_with() -> None:
    found = pr.check(training(3), ranks=2, orders=0, twin=training(3, scale=3.0))
    assert [finding.cause for finding in found.findings] == ["mean-over-wrong-ranks"]
    assert found.norms[0][1] == pytest.approx(3 * found.norms[0][0], rel=1e-5)


def test_without_a_twin_replicas_are_compared_with_each_other() -> None:
    def main() -> None:
        if int(__import__("os").environ["WORLD_SIZE"]) == 1:
            raise ValueError("two ranks at least")
        training(3, reduces=False)()

    found = pr.check(main, ranks=2, orders=0)
    assert [finding.cause for finding in found.findings] == ["not-reduced"]
    assert "two ranks at least" in found.notes[0]


def test_what_each_line_moves_is_known_by_its_kind() -> None:
    rows = pr.check(training(3), ranks=2, orders=0).collectives
    assert {(row["collective"], row["dtype"], row["before"], row["after"]) for row in rows} == {
        ("all_reduce SUM", "float32", "partial", "replicated")
    }


@pytest.mark.parametrize(("name", "value"), [("ranks", 1), ("ranks", True), ("steps", 0)])
def test_numbers_that_cannot_be_used_are_refused(name: str, value: int) -> None:
    with pytest.raises(CompositionError, match=f"{name}="):
        pr.check(training(3), **{name: value})

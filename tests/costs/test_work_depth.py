"""Work and depth of graphs: the formulas of the survey, torch's own count of operations, and paths through recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from math import log2
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from polyrhythm.errors import CompositionError
from polyrhythm.tools.costs import training_work_depth, work_depth

MODELS: Sequence[tuple[nn.Module, Tensor]] = [
    (nn.Linear(5, 7), torch.randn(3, 5)),
    (nn.Conv1d(4, 6, 3, stride=2), torch.randn(2, 4, 15)),
    (nn.Conv2d(4, 6, (3, 5), 2, 1, 2), torch.randn(2, 4, 12, 13)),
    (nn.Conv3d(2, 3, 2), torch.randn(2, 2, 4, 4, 4)),
    (nn.ConvTranspose2d(4, 6, 3), torch.randn(2, 4, 5, 5)),
    (
        nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(288, 10)),
        torch.randn(4, 1, 14, 14),
    ),
    (nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)),
    (nn.RNN(4, 6, 2), torch.randn(5, 3, 4)),
]


@pytest.mark.parametrize("given", [False, True], ids=["data", "inputs with gradients"])
@pytest.mark.parametrize(("model", "x"), MODELS, ids=[type(model).__name__ for model, _ in MODELS])
def test_twice_the_products_are_the_operations_that_torch_counts(model: nn.Module, x: Tensor, given: bool) -> None:
    x = x.clone().requires_grad_(given)
    forward, step = training_work_depth(model, (x,))
    with FlopCounterMode(display=False) as counted:
        out = model(x)
        assert 2 * forward.products == counted.get_total_flops() > 0
        torch.autograd.grad(out[0].sum() if isinstance(out, tuple) else out.sum(), [*model.parameters()])
    assert 2 * step.products == counted.get_total_flops()
    assert forward.products <= forward.work < step.work


def test_of_grouped_convolutions_torch_counts_the_weights_gradient_once_for_each_group() -> None:
    model, x = nn.Conv2d(4, 6, 3, groups=2), torch.randn(2, 4, 8, 8)
    forward, step = training_work_depth(model, (x,))
    with FlopCounterMode(display=False) as counted:
        torch.autograd.grad(model(x).sum(), [*model.parameters()])
    assert forward.products == 2 * 6 * 36 * (4 // 2) * 9
    assert step.products == 2 * forward.products
    assert counted.get_total_flops() == 2 * (forward.products + 2 * forward.products)


def test_depths_are_those_of_the_survey() -> None:
    n, c, f, size, k = 3, 4, 6, 10, 3
    x, weight = torch.randn(n, c, size, size), torch.randn(f, c, k, k)
    assert work_depth(lambda: torch.randn(n, 8) @ torch.randn(8, 5)).depth == pytest.approx(1 + log2(8))  # drawing numbers is one
    convolution = work_depth(lambda: nn.functional.conv2d(x, weight))
    assert (convolution.work, convolution.depth) == (n * f * c * 8 * 8 * k * k, pytest.approx(2 * log2(k) + log2(c)))
    pool = work_depth(lambda: nn.functional.max_pool2d(x, k))
    assert (pool.work, pool.depth) == (n * c * 3 * 3 * k * k, pytest.approx(2 * log2(k)))
    norm = work_depth(lambda: nn.functional.batch_norm(x, None, None, training=True))
    assert (norm.work, norm.depth) == (x.numel(), pytest.approx(log2(n * size * size)))
    relu = work_depth(lambda: x.relu())
    assert (relu.work, relu.depth) == (x.numel(), 1.0)
    _, step = training_work_depth(nn.Conv2d(c, f, k, bias=False), (x,))
    assert step.depth == pytest.approx(convolution.depth + log2(n) + 2 * log2(8))


def test_the_gradient_of_a_convolutions_data_sums_over_filters_and_kernel() -> None:
    f, c, k = 6, 4, 3
    x, weight = torch.randn(1, c, k, k).requires_grad_(), torch.randn(f, c, k, k)

    def program() -> None:
        out = nn.functional.conv2d(x, weight)
        torch.autograd.grad(out, x, torch.ones_like(out))

    assert work_depth(program).depth == pytest.approx(2 * log2(k) + log2(c) + 2 * log2(k) + log2(f))


@pytest.mark.parametrize(("layers", "times"), [(1, 5), (2, 6), (4, 5), (4, 12)])
def test_the_path_through_cells_is_a_wavefront_and_that_through_whole_layers_is_all_cells(layers: int, times: int) -> None:
    width = 8
    cells = [nn.Linear(2 * width, width) for _ in range(layers)]
    x = torch.zeros(times, 2, width)

    def run(wavefront: bool) -> None:
        below: Any = list(x)
        for cell in cells:
            state, above = torch.zeros(2, width), []
            for given in below:
                above.append(state := cell(torch.cat([given, state], dim=1)).tanh())
            below = above if wavefront else list(torch.stack(above))

    one = log2(2 * width) + 1
    assert work_depth(lambda: run(wavefront=True)).depth == pytest.approx((layers + times - 1) * one)
    assert work_depth(lambda: run(wavefront=False)).depth == pytest.approx(layers * times * one)


def test_independent_work_adds_no_depth_and_a_chain_does() -> None:
    x = torch.randn(64)
    wide, deep = work_depth(lambda: [x * 2 for _ in range(10)]), work_depth(lambda: ((x * 2) * 3) * 4)
    assert (wide.work, wide.depth, wide.parallelism) == (640, 1.0, 640.0)
    assert (deep.work, deep.depth, deep.parallelism) == (192, 3.0, 64.0)
    assert deep.bound(8) == 192 / 8 + 3


def test_writing_into_a_tensor_is_waited_for_by_who_reads_it() -> None:
    def program() -> Tensor:
        total = torch.zeros(4)
        total.add_(1).mul_(2)
        return total[:2] + 1

    assert work_depth(program).depth == 3.0


def test_a_model_is_not_changed_by_looking_at_it() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before, state = {name: each.clone() for name, each in model.state_dict().items()}, torch.get_rng_state()
    training_work_depth(model, (torch.randn(5, 3, generator=torch.Generator()),))
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(each.grad is None for each in model.parameters())


def test_a_model_that_cannot_be_trained_is_refused() -> None:
    with pytest.raises(CompositionError, match="no output that depends on its parameters"):
        training_work_depth(nn.Flatten(), (torch.ones(2, 2),))


def test_bytes_are_those_of_what_operations_read_and_write() -> None:
    a, b = torch.ones(4, 8), torch.ones(8, 2)
    found = work_depth(lambda: a @ b)
    assert found.moved == 4 * (32 + 16 + 8)
    assert found.intensity == 64 / found.moved
    assert found.attainable(peak=1e9, bandwidth=1e3) == found.intensity * 1e3
    assert found.attainable(peak=10.0, bandwidth=1e3) == 10.0


@pytest.mark.parametrize(("model", "x"), MODELS[:6], ids=[type(model).__name__ for model, _ in MODELS[:6]])
def test_work_and_depth_are_the_same_on_shapes_alone(model: nn.Module, x: Tensor) -> None:
    here = training_work_depth(model, (x,))
    there = training_work_depth(deepcopy(model).to("meta"), (x.to("meta"),))
    assert [(each.work, each.depth, each.products, each.moved) for each in here] == [
        (each.work, each.depth, each.products, each.moved) for each in there
    ]

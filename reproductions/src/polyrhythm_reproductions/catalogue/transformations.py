"""Transformations of pure functions: graphs of three kinds, forward and reverse mode, and what commutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad, jvp, vjp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_INPUTS, _ROWS = 6, 16
Function = Callable[[Tensor], Tensor]


def measure(trial: ArmTrial) -> Figures:
    """Differences of gradients that should be equal, relative to the largest element, and counts."""
    draw = torch.Generator().manual_seed(trial.seed)
    x = torch.randn(1, _INPUTS, dtype=torch.float64, generator=draw)
    along = torch.randn(1, _INPUTS, dtype=torch.float64, generator=draw)
    batch = torch.randn(_ROWS, _INPUTS, dtype=torch.float64, generator=draw)
    functions = _functions(draw)
    slopes = [(function, grad(function)(x)) for function in functions]
    curvatures = [(jvp(grad(f), (x,), (along,))[1], grad(lambda given, f=f: jvp(f, (given,), (along,))[1])(x)) for f in functions]
    means = [(vmap(grad(f))(batch[:, None]).mean(dim=0), grad(_mean_of(f, batch))(torch.zeros_like(x))) for f in functions]
    compiled, traces = _compiled(functions[-1], x)
    return {
        "fx": _apart((grad(torch.fx.symbolic_trace(_Module(f)))(x), slope) for f, slope in slopes),
        "export": _apart((grad(torch.export.export(_Module(f), (x,)).module())(x), slope) for f, slope in slopes),
        "closure": _apart(curvatures),
        "mean": _apart(means),
        "compiled": _apart([(compiled, slopes[-1][1])]),
        "retraced": traces - 1,
        "passes": _passes(functions[-1], x),
    }


class _Module(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """The function."""
        return self.function(x)


def _functions(draw: torch.Generator) -> list[Function]:
    """Ten functions of a row of numbers, with one number as output; the last is a perceptron."""
    a, b, v = (torch.randn(*size, dtype=torch.float64, generator=draw) for size in ((_INPUTS, _INPUTS), (_INPUTS, 4), (4, 1)))
    following = torch.eye(_INPUTS, dtype=torch.float64).roll(1, dims=0)

    def repeated(x: Tensor) -> Tensor:
        for _ in range(5):
            x = x.sin() + 0.1 * x
        return x.sum()

    return [
        lambda x: (x * x).sum(),
        lambda x: (x.sin() * (-x).exp()).sum(),
        lambda x: x.exp().sum().log(),
        lambda x: (1 + x.exp()).log().sum(),
        lambda x: (x * x + 1).pow(-1.5).sum(),
        lambda x: (x.relu() * x.cos()).sum(),
        lambda x: ((x @ a) * x).sum(),
        lambda x: (100 * (x @ following - x**2) ** 2 + (1 - x) ** 2).sum(),
        repeated,
        lambda x: ((x @ b).tanh() @ v).sum(),
    ]


def _mean_of(function: Function, batch: Tensor) -> Function:
    """The mean over a batch, as a function of what is added to each row."""
    return lambda shift: vmap(lambda row: function(row + shift))(batch[:, None]).mean()


def _apart(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    return max(float((found - expected).abs().max() / expected.abs().max().clamp_min(1)) for found, expected in pairs)


def _compiled(function: Function, x: Tensor) -> tuple[Tensor, int]:
    """The gradient of a compiled function, and how often it was traced in three calls."""
    traces = list[object]()

    def backend(graph: Any, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        traces.append(graph)
        own: Callable[..., Any] = graph.forward
        return own

    torch._dynamo.reset()
    compiled = torch.compile(grad(function), backend=backend)
    found: Tensor = compiled(x)
    compiled(2 * x)
    compiled(-x)
    return found, len(traces)


class _Counter(TorchDispatchMode):
    """Counts the hyperbolic tangents that are computed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        self.calls += func is torch.ops.aten.tanh.default
        return func(*args, **(kwargs or {}))


def _passes(function: Function, x: Tensor) -> float:
    """The evaluations that a gradient takes in forward mode, over those in reverse mode and over the inputs."""
    with _Counter() as forward:
        columns = [jvp(function, (x,), (each[None],))[1] for each in torch.eye(_INPUTS, dtype=x.dtype)]
    with _Counter() as reverse:
        (row,) = vjp(function, x)[1](torch.ones((), dtype=x.dtype))
    torch.testing.assert_close(torch.stack(columns)[None], row)
    counts = int(forward.calls), int(reverse.calls)
    return counts[0] / (counts[1] * _INPUTS)


def _same(figure: str, paper: str, ours: str) -> Claim:
    return Claim(paper=paper, ours=ours, figure=figure, unit="difference", most=1e-6, efficiency=Efficiency.EXACT, kind=ClaimKind.VALUE)


def _count(figure: str, paper: str, ours: str, unit: str, value: float) -> Claim:
    return Claim(
        paper=paper, ours=ours, figure=figure, unit=unit, least=value, most=value, efficiency=Efficiency.EXACT, kind=ClaimKind.VALUE
    )


REPRODUCTION = Reproduction(
    name="transformations",
    systems=(),
    paper="Maclaurin: Modeling, Inference and Optimization with Composable Differentiable Procedures (2016); Frostig, Johnson, Leary: "
    "Compiling machine learning programs via high-level tracing (JAX; SysML 2018); Pearlmutter, Siskind: Reverse-Mode AD in a Functional "
    "Framework (TOPLAS 2008)",
    setting="Ten functions of 6 numbers in float64, with one number as output: torch.func on the functions, on graphs of torch.fx and "
    "of torch.export, and on a function compiled by torch.compile without a code generator. Differences are relative to the largest "
    "element, or to 1.",
    measure=measure,
    stop="nothing is trained",
    notes="A tracer on NumPy is compared with the same three in docs/graph-front-ends.md, which the tests execute.",
    claims=(
        _same(
            "fx", "A graph that is recorded has the derivatives of its function.", "largest difference of gradients of torch.fx's graphs"
        ),
        _same("export", "So has one that is captured ahead of time.", "largest difference of gradients of torch.export's graphs"),
        _same(
            "closure",
            "Differentiation is closed: derivatives can be differentiated, in either order of modes.",
            "largest difference of products with the Hessian, forward over reverse and reverse over forward",
        ),
        _same("mean", "vmap and grad commute.", "largest difference of means of gradients of samples from gradients of means, 16 samples"),
        _same("compiled", "Compilation and grad commute.", "largest difference of the gradient of a compiled function"),
        _count("retraced", "What is compiled is traced once for each shape.", "traces after the first in three calls", "rounds", 0),
        _count(
            "passes",
            "For one output of D inputs forward mode takes D passes, and reverse mode one.",
            "evaluations in forward mode over D times those in reverse mode, D = 6",
            "ratio",
            1,
        ),
    ),
)

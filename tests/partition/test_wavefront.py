"""Laws of recurrent layers that are divided among ranks: they train as one process, on the diagonal of layers and times."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel import wavefront
from polyrhythm.partition.tensor_parallel.wavefront import Wavefront

from .ranks import close, on_ranks
from .styled import counted, put_together

LAYERS, TIMES, BATCH, INPUT, WIDTH = 4, 5, 3, 6, 7
KINDS = {
    "RNN": lambda: nn.RNN(INPUT, WIDTH, LAYERS),
    "relu": lambda: nn.RNN(INPUT, WIDTH, LAYERS, nonlinearity="relu", bias=False),
    "GRU": lambda: nn.GRU(INPUT, WIDTH, LAYERS, batch_first=True),
    "LSTM": lambda: nn.LSTM(INPUT, WIDTH, LAYERS),
}


class Recurrent(nn.Module):
    """Learned numbers go through the layers twice, the second time from the states of the first."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.inside: Any = nn.Linear(INPUT, INPUT)
        self.layers: Any = KINDS[kind]()

    def forward(self, x: Tensor) -> Tensor:
        one, state = self.layers(self.inside(x))
        two, state = self.layers(self.inside(x.flip(2)), state)
        last = state if isinstance(state, Tensor) else state[0] + state[1]
        return torch.cat([one.flatten(), two.flatten(), last.flatten()])


def trained(kind: str, style: Wavefront | None, place: Place, steps: int) -> tuple[Tensor, dict[str, Tensor]]:
    model = Recurrent(kind)
    if style is not None:
        assert style.refusal(model.layers, place) == ""
        model.layers = style.local(model.layers, "layers", place)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        y = model(torch.randn(TIMES, BATCH, INPUT, generator=torch.Generator().manual_seed(step)))
        y.square().mean().backward()
        optimizer.step()
        found.append(y.detach())
    return torch.stack(found), dict(model.named_parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ranks", "weights"), [(1, None), (2, None), (3, None), (3, (0, 3, 1)), (5, None)])
def test_layers_that_are_divided_train_as_one_process(kind: str, ranks: int, weights: tuple[float, ...] | None) -> None:
    steps = 20 if (kind, ranks) == ("LSTM", 2) else 2
    outputs, whole = trained(kind, None, Place({}), steps)
    parts = []
    for found, own in on_ranks(lambda place, rank: trained(kind, Wavefront(weights=weights), place, steps), layers=ranks):
        close(found, outputs)
        parts.append(own)
    put_together(parts, whole)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_critical_path_is_that_of_a_diagonal(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell takes a second of virtual time: L layers at L ranks take L + T - 1 of them, not L T."""

    def cell(value: Tensor, state: Any, weights: Any) -> Any:
        time.sleep(1.0)
        return original(value, state, weights)

    original = wavefront.CELLS["RNN_TANH"]
    monkeypatch.setitem(wavefront.CELLS, "RNN_TANH", cell)

    def program(place: Place, rank: int) -> float:
        layers = Wavefront().local(KINDS["RNN"](), "", place)
        begun = time.perf_counter()
        layers(torch.zeros(TIMES, BATCH, INPUT))
        return time.perf_counter() - begun

    cells = LAYERS // ranks * (ranks + TIMES - 1)
    assert max(on_ranks(program, layers=ranks)) == pytest.approx(cells, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_leaves_recurrent_layers_as_they_are(kind: str) -> None:
    def program(place: Place, rank: int) -> Tensor:
        model = Recurrent(kind)
        model.layers = Wavefront().local(model.layers, "layers", place)
        with torch.autocast("cpu", torch.bfloat16):
            y = model(torch.ones(TIMES, BATCH, INPUT))
        y.sum().backward()
        return y.detach()  # type: ignore[no-any-return]

    whole = Recurrent(kind)(torch.ones(TIMES, BATCH, INPUT))
    for found in on_ranks(program, layers=2):
        assert found.dtype == torch.float32
        close(found, whole.detach(), rtol=2e-2, atol=2e-2)


def test_each_time_is_sent_on_and_its_gradient_back() -> None:
    place = counted({"layers": 4}, {"layers": 1})
    with torch.device("meta"):
        layers = Wavefront().local(KINDS["LSTM"](), "", place)
        outputs, _ = layers(torch.empty(TIMES, BATCH, INPUT, requires_grad=True))
        outputs.sum().backward()
    axis = place.axis("layers")
    assert axis.calls == {"exchange": 4 * TIMES, "broadcast": 2, "all_gather": 2}
    assert axis.nbytes["exchange"] == 2 * 4 * TIMES * BATCH * WIDTH
    assert axis.nbytes["broadcast"] == 3 * TIMES * BATCH * (WIDTH + INPUT)
    assert sum(parameter.numel() for parameter in layers.parameters()) == 4 * WIDTH * (2 * WIDTH + 2)


def test_what_cannot_be_at_different_times_is_refused() -> None:
    place = counted({"layers": 2}, {"layers": 0})
    assert "this is Linear" in Wavefront().refusal(nn.Linear(2, 2), place)
    assert "use one direction" in Wavefront().refusal(nn.GRU(2, 2, 2, bidirectional=True), place)
    assert "leave these options out" in Wavefront().refusal(nn.LSTM(2, 2, 2, dropout=0.1), place)
    assert "leave these options out" in Wavefront().refusal(nn.LSTM(2, 4, 2, proj_size=2), place)
    with pytest.raises(ValueError, match="pad sequences, and batch them"):
        Wavefront().local(nn.GRU(2, 2, 2), "", place)(torch.zeros(3, 2))

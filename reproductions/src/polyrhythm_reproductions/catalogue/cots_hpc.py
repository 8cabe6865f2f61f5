"""COTS HPC: layers whose places have weights of their own, divided over machines that exchange margins only."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.convolution import Image, LocallyConnected, LocallyConnected2d
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.place import Place
from polyrhythm_reproductions.jobs.parts import at_every_rank, counted_place, largest_gap, trained
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_SIDE, _SAMPLES, _STEPS, _COUNTED = 8, 3, 20, 32
_MESHES = ({"h": 2, "w": 2}, {"h": 4, "w": 1}, {"h": 3, "w": 2})


def measure(trial: ArmTrial) -> Figures:
    """Differences of weights from one process, a rank's share of them, and what it sends."""
    shares = [_counted(mesh)[0] for mesh in _MESHES[:2]]
    return {
        "difference": max(_difference(trial.seed, mesh) for mesh in _MESHES),
        "weights": max(shares, key=lambda ratio: abs(ratio - 1)),
        "margins": _counted({"h": 2, "w": 2})[1],
    }


def _network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    size = (_SIDE, _SIDE)
    return nn.Sequential(LocallyConnected2d(2, 3, size, 3, padding=1), nn.ReLU(), LocallyConnected2d(3, 2, size, 3, padding=1))


def _difference(seed: int, mesh: dict[str, int]) -> float:
    image = Image(_SIDE, _SIDE)

    def images(step: int) -> Tensor:
        return torch.randn(_SAMPLES, 2, _SIDE, _SIDE, generator=torch.Generator().manual_seed(1000 * seed + step))

    whole = _network(seed)
    trained(whole, lambda step: F.mse_loss(whole(images(step)), images(step).sin()), _STEPS)

    def program(place: Place) -> dict[str, Tensor]:
        model = _network(seed)
        Cut({"0": LocallyConnected(image), "2": LocallyConnected(image)}).apply(model, place)

        def loss_of(step: int) -> Tensor:
            found = image.join(model(image.part(images(step), place)), place)
            return F.mse_loss(found, images(step).sin())

        trained(model, loss_of, _STEPS)
        return dict(model.named_parameters())

    return largest_gap(at_every_rank(program, mesh), dict(whole.named_parameters()))


def _counted(mesh: dict[str, int]) -> tuple[float, float]:
    """A rank's weights times the ranks over all of a layer, and what it sends over its activations, forward."""
    place, layer = counted_place(**mesh), LocallyConnected2d(2, 5, (_COUNTED, _COUNTED), 3, padding=1).to("meta")
    local = LocallyConnected(Image(_COUNTED, _COUNTED)).local(layer, "", place)
    height, width = _COUNTED // mesh["h"], _COUNTED // mesh["w"]
    activations = torch.empty(_SAMPLES, 2, height, width, device="meta")
    local(activations)
    own, whole = (sum(each.numel() for each in module.parameters()) for module in (local, layer))
    exchanged = sum(axis.nbytes["exchange"] for axis in place.axes.values())
    return own * mesh["h"] * mesh["w"] / whole, exchanged / (4 * activations.numel())


REPRODUCTION = Reproduction(
    name="cots-hpc",
    systems=(),
    paper="Coates, Huval, Wang, Wu, Ng, Catanzaro: Deep Learning with COTS HPC Systems (ICML 2013)",
    setting="Two locally connected layers on images of 8 x 8, trained for 20 steps, whole and over 4 and 6 ranks; bytes and weights of a "
    "layer on images of 32 x 32.",
    measure=measure,
    claims=(
        Claim(
            paper="Layers of which each machine has the places of a part of the image compute what one machine would.",
            ours="largest difference of any weight from those of one process after 20 steps, over 2 x 2, 4 x 1 and 3 x 2 parts",
            figure="difference",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Each machine has the weights of its own places only.",
            ours="weights of a rank times the ranks over those of the layer, the farther from 1 of 2 x 2 and 4 x 1",
            figure="weights",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Most neurons need inputs of their own machine only: what is exchanged is small.",
            ours="bytes that a rank of 2 x 2 sends for a layer over those of its activations",
            figure="margins",
            unit="ratio",
            most=0.15,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(paper="11 billion parameters on 16 machines with GPUs.", untestable="There are no GPUs here."),
    ),
)

"""Mesh-TensorFlow: dimensions have names, and rules divide names over axes of the mesh."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.place import Place
from polyrhythm.partition.rules import dimensions_of, legal_rules, memory_minimal
from polyrhythm.partition.rules.search import rank_nbytes
from polyrhythm.workloads.gpt import Gpt, GptSize
from polyrhythm_reproductions.jobs.parts import at_every_rank, largest_gap, trained
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_SIZE, _MESH, _STEPS, _CHOSEN = GptSize(13, 8, 2, 12, 3), {"rows": 2, "columns": 2}, 10, 6
_PAPER = {"heads": "columns", "mlp": "columns", "vocabulary": "columns"}
"""The paper's layout of a Transformer; its batch is divided over the rows."""


def measure(trial: ArmTrial) -> Figures:
    """Differences of weights in several layouts from one process, illegal layouts that are accepted, and memory."""
    model = _gpt(trial.seed)
    legal = list(legal_rules(model, _MESH))
    drawn = rng.stream(trial.seed, "layouts").choice(len(legal), trial.size(_CHOSEN, 2), replace=False)
    layouts = [_PAPER, *(legal[int(each)][0] for each in drawn)]
    costs = [rank_nbytes(model, styles, _MESH) for _, styles in legal]
    hand, found = (rank_nbytes(model, Cut.by_rules(model, rules).names, _MESH) for rules in (_PAPER, memory_minimal(model, _MESH)))
    return {
        "difference": max(_difference(trial.seed, rules) for rules in layouts),
        "accepted": float(_accepted(model)),
        "found": found / min(costs),
        "hand": found / hand,
    }


def _gpt(seed: int) -> Gpt:
    torch.manual_seed(seed)
    return Gpt(_SIZE)


def _texts(seed: int, step: int) -> Tensor:
    drawn = torch.Generator().manual_seed(1000 * seed + step)
    return torch.randint(_SIZE.vocabulary, (4, _SIZE.context + 1), generator=drawn)


def _difference(seed: int, rules: Mapping[str, str]) -> float:
    def trained_weights(model: Gpt) -> dict[str, Tensor]:
        def loss_of(step: int) -> Tensor:
            text = _texts(seed, step)
            return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

        trained(model, loss_of, _STEPS)
        return dict(model.named_parameters())

    def program(place: Place) -> dict[str, Tensor]:
        model = _gpt(seed)
        Cut.by_rules(model, rules).apply(model, place)
        return trained_weights(model)

    return largest_gap(at_every_rank(program, _MESH), trained_weights(_gpt(seed)))


def _accepted(model: Gpt) -> int:
    """The layouts with two dimensions of one weight on one axis that are not refused with both names."""
    pairs = {pair for names in dimensions_of(model).values() for pair in permutations([each.name for each in names], 2)}
    accepted = 0
    for one, other in sorted(pairs):
        try:
            Cut.by_rules(model, {one: "columns", other: "columns"})
        except CompositionError as error:
            accepted += not (repr(one) in str(error) and repr(other) in str(error))
        else:
            accepted += 1
    return accepted


REPRODUCTION = Reproduction(
    name="mesh-tensorflow",
    systems=(),
    paper="Shazeer et al.: Mesh-TensorFlow: Deep Learning for Supercomputers (NeurIPS 2018, arXiv:1811.02084)",
    setting="A GPT of 2 blocks of 12 with 3 heads and 13 symbols (4,000 parameters), trained for 10 steps of SGD with momentum on four "
    "ranks of a mesh of 2 x 2, in the paper's layout and in six that are drawn from all legal ones. Memory is that of parameters.",
    stop="after 10 steps",
    measure=measure,
    notes="Dimensions of weights have names here; the paper names those of all tensors. Batches are divided over the axes of the mesh that "
    "no rule names, by the run. The least memory is found by trying all rules, the paper's program by integer programming.",
    claims=(
        Claim(
            paper="A layout never changes results.",
            ours="largest difference of any weight from those of one process, seven layouts",
            figure="difference",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Two dimensions of one tensor on one dimension of the mesh are illegal.",
            ours="such layouts that are accepted, or refused without both names",
            figure="accepted",
            unit="trials",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="The legal layout of least memory is found automatically.",
            ours="bytes of a rank with what is found over the least of all legal layouts",
            figure="found",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="It needs no more memory than the layout by hand.",
            ours="bytes of a rank with what is found over those with heads, mlp and vocabulary on the columns",
            figure="hand",
            unit="ratio",
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(paper="Transformers of 5 billion parameters on 512 TPU cores.", untestable="There are no TPUs here."),
    ),
)

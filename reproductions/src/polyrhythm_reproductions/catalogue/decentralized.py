"""D-PSGD, D², exact diffusion and gradient tracking on data that differ between workers."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.protocols.local import LocallyStepped
from polyrhythm.core.tensors import Layout
from polyrhythm.local_rules import CorrectedWeights
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.own_classes import OwnClasses
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _SAMPLES, _RATE = 8, 4096, 0.5
_PLAIN, _CENTRAL = "D-PSGD", "all-reduce"
_ARMS = {
    _CENTRAL: find("allreduce"),
    _PLAIN: find("decentralized"),
    "D²": find("d-squared"),
    "exact diffusion": find("exact-diffusion"),
    "gradient tracking": find("gradient-tracking"),
}
_CORRECTED = tuple(_ARMS)[2:]
_ROUNDS = 200


def measure(trial: ArmTrial) -> Figures:
    """The distance of the replicas' mean from the weights of all-reduce after as many steps, and the rate at which D²'s mixing shrinks."""
    found = {arm: _train(trial, arm) for arm in _ARMS}
    apart = {arm: _distance(result, found[_CENTRAL]) for arm, result in found.items()}
    return {
        "bias": apart[_PLAIN],
        **{f"{arm}, distance": apart[arm] / apart[_PLAIN] for arm in _CORRECTED},
        "loss": max(found[arm].final for arm in _CORRECTED) / found[_CENTRAL].final,
        "bytes of D²": found["D²"].nbytes / found[_PLAIN].nbytes,
        "bytes of tracking": found["gradient tracking"].nbytes / found[_PLAIN].nbytes,
        "above the limit": _left(-0.30),
        "below the limit": _left(-0.37),
    }


def _train(trial: ArmTrial, arm: str) -> Result:
    job = OwnClasses(SgdRecipe(_RATE), epochs=trial.size(300, 60), batch_size=_SAMPLES // _WORKERS, samples=_SAMPLES)
    return trial.train(arm, job, _ARMS[arm], _WORKERS)


def _distance(result: Result, reference: Result) -> float:
    mine, theirs = (torch.cat([w.reshape(-1) for w in each.outcome.weights.values()]) for each in (result, reference))
    return float((mine - theirs).norm() / theirs.norm())


def _left(eigenvalue: float) -> float:
    """The rest of a difference of two workers after exchanges without gradients, where the mixing matrix has this other eigenvalue."""
    rule, layout, own = CorrectedWeights(), Layout(("w",), ((1,),)), (1 + eigenvalue) / 2
    mixing = torch.tensor([[own, 1 - own], [1 - own, own]], dtype=torch.float64)
    x: list[Tensor] = [torch.ones(1, dtype=torch.float64), -torch.ones(1, dtype=torch.float64)]
    states = [rule.initial(layout) for _ in x]
    for _ in range(_ROUNDS):
        sent = [rule.send(LocallyStepped(w, w, w.clone), state) for w, state in zip(x, states, strict=True)]
        mixed = mixing @ torch.stack([each[0] for each in sent])
        taken = [rule.take([m], s, state) for m, s, state in zip(mixed, sent, states, strict=True)]
        x, states = [w for w, _ in taken], [state for _, state in taken]
    return float((x[0] - x[1]).abs() / 2)


def _distance_claim(arm: str, paper: str) -> Claim:
    return Claim(
        paper=paper,
        ours=f"distance of the final mean of {arm} from the weights of all-reduce, over that of D-PSGD",
        figure=f"{arm}, distance",
        unit="ratio",
        most=0.3,
    )


REPRODUCTION = Reproduction(
    name="decentralized",
    systems=("decentralized", "d-squared", "exact-diffusion", "gradient-tracking"),
    paper="Lian et al.: Can Decentralized Algorithms Outperform Centralized Algorithms? (NeurIPS 2017); Tang et al.: D²: Decentralized "
    "Training over Decentralized Data (ICML 2018); Yuan, Ying, Zhao, Sayed: Exact Diffusion, parts I and II (IEEE TSP 2019); Nedic, "
    "Olshevsky, Shi: Achieving Geometric Convergence over Time-Varying Graphs (SIAM Journal on Optimization 2017)",
    setting="Softmax regression on points sorted by class, so that each of 8 workers on a ring has classes of its own; gradient descent at "
    "the same constant rate of 0.5 on a worker's whole share, 300 steps, in virtual time on `lan`. The papers have image networks and "
    "quadratics.",
    baseline=_PLAIN,
    notes="All arms have one rate, because the claims are about what a constant step leaves. D² keeps a quarter of a worker's own weights.",
    measure=measure,
    claims=(
        Claim(
            paper="With data that differ between workers, D-PSGD with a constant step converges to another point.",
            ours="distance of the final mean of all replicas from the weights of all-reduce after as many steps, over the norm of these",
            figure="bias",
            unit="ratio",
            least=0.01,
            kind=ClaimKind.VALUE,
        ),
        _distance_claim("D²", "D² converges as if data did not differ between workers."),
        _distance_claim("exact diffusion", "Exact diffusion removes the bias of diffusion with a constant step."),
        _distance_claim("gradient tracking", "Gradient tracking converges to the optimum with a constant step."),
        Claim(
            paper="They train as well as centralized algorithms.",
            ours="held-out loss of the worst of the three over that of all-reduce",
            figure="loss",
            unit="ratio",
            most=1.02,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="D² sends what D-PSGD sends.",
            ours="bytes of D² over those of D-PSGD",
            figure="bytes of D²",
            unit="ratio",
            least=0.99,
            most=1.01,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Gradient tracking sends two vectors.",
            ours="bytes of gradient tracking over those of D-PSGD",
            figure="bytes of tracking",
            unit="ratio",
            least=1.8,
            most=2.2,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="D² needs eigenvalues of the mixing matrix above -1/3.",
            ours="what is left of a difference between two workers after 200 exchanges, with an eigenvalue of -0.30",
            figure="above the limit",
            unit="ratio",
            most=0.001,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="D² needs eigenvalues of the mixing matrix above -1/3.",
            ours="what is left of a difference between two workers after 200 exchanges, with an eigenvalue of -0.37",
            figure="below the limit",
            unit="ratio",
            least=100.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="D-PSGD is faster than centralized algorithms on slow networks.",
            untestable="Steps here take milliseconds and networks are chosen at will, so any factor could be shown.",
        ),
    ),
)

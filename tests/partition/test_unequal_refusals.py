"""What cannot be with replicas of unequal lengths is refused before anything runs, with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

import polyrhythm as pr
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.partition import (
    BalancedStages,
    Columns,
    DelayedPipeline,
    GivenStages,
    Interleaved,
    Pipelined,
    RandomRoutes,
    StagesByReplica,
    Zero,
)

from .unequal_runs import Training, Unequal

MESH = pr.Mesh(dp=2, pp=(1, 2))
EVEN = BalancedStages((1.0,) * 6)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"dp": 2, "pp": (2, 3, 3)}, r"3 sizes along 'pp' for 2, the coordinates of dp=2"),
        ({"pp": (2, 3)}, "2 sizes along 'pp' for 1"),
        ({"dp": 2, "pp": (2, 0)}, "1 or more"),
        ({"dp": 2, "pp": (2, -1)}, "1 or more"),
        ({"dp": 2, "pp": ()}, "0 sizes along 'pp' for 2"),
        ({"dp": 2, "pp": (2, 3), "tp": (1, 1)}, "unequal sizes along pp and tp"),
        ({"dp": -1, "pp": (2, 3)}, "a rest beside unequal sizes"),
        ({"dp": 2, "pp": [2, 3]}, "1 or more"),
    ],
)
def test_sizes_that_do_not_fit_the_replicas_are_refused(sizes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CompositionError, match=sentence):
        pr.Mesh(**sizes)


def test_a_mesh_of_unequal_replicas_is_a_value() -> None:
    mesh = pr.Mesh(dp=2, pp=(2, 3), tp=2)
    assert {mesh: "known"}[pr.Mesh(dp=2, pp=(2, 3), tp=2)] == "known"
    assert mesh not in (pr.Mesh(dp=2, pp=(3, 2), tp=2), pr.Mesh(dp=2, pp=3, tp=2))
    assert (mesh.workers, mesh.axes, repr(mesh)) == (10, (("dp", 2), ("pp", 3), ("tp", 2)), "Mesh(dp=2, pp=(2, 3), tp=2)")
    assert mesh.sized(10) == mesh
    assert pr.Mesh(dp=2, pp=(2, 2)) == pr.Mesh(dp=2, pp=2)
    with pytest.raises(CompositionError, match="is for 10 workers"):
        mesh.sized(12)


@pytest.mark.parametrize(
    ("mesh", "cut", "strategy", "sentence"),
    [
        (MESH, pr.Cut(), "allreduce", "has no stages of a pipeline"),
        (pr.Mesh(dp=2, tp=(1, 2)), pr.Cut({"layers.*.up": Columns("tp")}), "allreduce", "has no stages of a pipeline"),
        (MESH, pr.Cut(pipeline=Pipelined()), "allreduce", "does not say how many steps"),
        (MESH, pr.Cut(pipeline=Pipelined(division=EVEN, routes=RandomRoutes())), "allreduce", "leave the routes out"),
        (MESH, pr.Cut(pipeline=Pipelined(division=EVEN, schedule=Interleaved(2))), "allreduce", "OneForwardOneBackward"),
        (MESH, pr.Cut(pipeline=Pipelined(division=EVEN, schedule=DelayedPipeline())), "allreduce", "OneForwardOneBackward"),
        (
            pr.Mesh(tp=2, pp=(1, 2)),
            pr.Cut({"layers.*.up": Columns("tp")}, Pipelined(division=EVEN)),
            "allreduce",
            "axes of replicas before",
        ),
        (pr.Mesh(site=2, pp=(1, 2), dp=2), pr.Cut(pipeline=Pipelined(division=EVEN)), "allreduce", "axes of replicas before"),
        (MESH, pr.Cut(pipeline=Pipelined(division=EVEN)), Zero(1), "share the state of the same one"),
        (MESH, pr.Cut(pipeline=Pipelined(division=StagesByReplica((GivenStages((6,)),)))), "allreduce", "a replica 1"),
        (MESH, pr.Cut(pipeline=Pipelined(division=StagesByReplica((EVEN, GivenStages((3, 2, 1)))))), "allreduce", "are for 2 stages"),
        *((MESH, pr.Cut(pipeline=Pipelined(division=EVEN)), name, "take allreduce, local-sgd or diloco") for name in ("ssp", "gossipgrad")),
        (MESH, pr.Cut(pipeline=Pipelined(division=EVEN)), "sparknet", "has servers"),
        (MESH, pr.Cut(pipeline=Pipelined(division=EVEN)), "fedavg", "has workers skip steps"),
    ],
)
def test_what_unequal_replicas_cannot_have_is_refused(mesh: pr.Mesh, cut: pr.Cut, strategy: Any, sentence: str) -> None:
    with pytest.raises(CompositionError, match=sentence):
        pr.run(Training(), mesh=mesh, cut=cut, strategy=strategy, on=pr.Simulator())


def test_a_crew_that_changes_is_refused() -> None:
    cut = pr.Cut(pipeline=Pipelined(division=EVEN))
    with pytest.raises(CompositionError):
        pr.run(Training(), mesh=MESH, cut=cut, workers=pr.Crew(2, 3, replace=False), on=pr.Simulator())


def test_divisions_of_unlike_models_are_refused() -> None:
    with pytest.raises(CompositionError, match="models with 5 and 6 steps"):
        StagesByReplica((GivenStages((6,)), GivenStages((2, 3))))


def test_a_division_of_another_number_of_steps_than_the_model_has_is_refused() -> None:
    with pytest.raises(PolyrhythmError, match="for a model of 7 steps"):
        Unequal(MESH, ((7,), (3, 4))).run(Training())


def test_a_stage_with_nothing_but_a_copy_is_refused() -> None:
    with pytest.raises(PolyrhythmError, match="give the stage another step"):
        Unequal(MESH, ((6,), (5, 1))).run(Training(tied=True))

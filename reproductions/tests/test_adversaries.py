"""Some workers' gradients point the wrong way."""

from __future__ import annotations

from polyrhythm_reproductions.jobs.adversaries import Adversaries
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.trial import ArmTrial, Result

JOB = Teacher(SgdRecipe(0.1), epochs=1, samples=256, width=16, depth=1)


def trained(adversaries: int) -> Result:
    return ArmTrial(0).train("toy", Adversaries(JOB, adversaries), "allreduce", workers=2)


def test_without_adversaries_it_is_the_job() -> None:
    assert trained(0).final == ArmTrial(0).train("toy", JOB, "allreduce", workers=2).final


def test_adversaries_climb() -> None:
    assert trained(2).final > 2.4 > trained(0).final


def test_an_adversary_undoes_part_of_what_the_other_worker_does() -> None:
    assert trained(0).final < trained(1).final < trained(2).final

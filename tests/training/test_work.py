"""A training function and all that decides its run."""

from pathlib import Path

from polyrhythm import systems
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.training.work import Training


def test_a_run_that_is_started_again_before_its_first_checkpoint_begins_where_it_was_to_begin(tmp_path: Path) -> None:
    wanted = Checkpoints(tmp_path / "new", every=1, resume=tmp_path / "old")
    training = Training(lambda worker: None, systems.resolve("allreduce"), Crew.of(2), 0, wanted)
    assert training.continued().checkpoints == wanted

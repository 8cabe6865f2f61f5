"""A script with DistributedDataParallel through the backend."""

from __future__ import annotations

import subprocess
import sys

import pytest
from framework_examples import BATCH, CLOSE, EXAMPLES, WORKERS, changed, loss_in, original_loss

NAME = "ddp_script"


def test_at_most_five_lines_of_the_example_change() -> None:
    assert 0 < changed(NAME) <= 5


def test_two_ranks_have_the_loss_of_the_single_process() -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
    script = [str(EXAMPLES / f"{NAME}.py"), "--epochs", "1", "--batch-size", str(BATCH)]
    message = subprocess.run([*launcher, *script], capture_output=True, text=True, timeout=300, check=True).stdout
    assert message.count("loss:") == WORKERS
    assert loss_in(message) == pytest.approx(original_loss(NAME), abs=CLOSE)

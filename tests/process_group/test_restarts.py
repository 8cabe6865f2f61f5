"""Elastic restart: torchrun starts all ranks again when one has failed, and the group is made anew over the store of the next attempt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
import polyrhythm.process_group

dist.init_process_group("polyrhythm")
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), dist.get_rank()
tensor = torch.tensor([rank + 1.0])
dist.all_reduce(tensor)
if attempt == 0 and rank == 1:
    os._exit(3)
dist.all_reduce(tensor)  # at the first attempt rank 0 gets an error here
with open(f"{sys.argv[1]}/{rank}", "w") as file:
    file.write(f"{attempt} {tensor.item()}")
dist.destroy_process_group()
"""


def test_torchrun_starts_all_again_when_one_has_failed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1", "--standalone"]
    ended = subprocess.run(
        [*command, str(script), str(tmp_path)], env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert [(tmp_path / str(rank)).read_text() for rank in (0, 1)] == ["1 6.0", "1 6.0"]
    assert "exitcode: 3" in ended.stderr

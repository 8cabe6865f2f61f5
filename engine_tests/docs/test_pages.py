"""Every example of the pages about data and metrics is run, in order, in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```python\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["data.md", "metrics.md"])
def test_the_examples_of_a_page_run_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    blocks = [found["body"] for found in FENCE.finditer((ROOT / "docs" / page).read_text(encoding="utf-8"))]
    assert len(blocks) > 1
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0",
        "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

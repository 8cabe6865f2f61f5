"""The page about functional style, with its parts that need JAX, run in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "functional-style.md"
FENCE = re.compile(r"^```py(?:thon)?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_five_styles_come_to_the_same_numbers(tmp_path: Path) -> None:
    blocks = [found["body"] for found in FENCE.finditer(PAGE.read_text(encoding="utf-8"))]
    assert any("import jax" in block for block in blocks)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as_flax" in done.stdout

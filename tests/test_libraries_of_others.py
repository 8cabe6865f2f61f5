"""A library that few users have is imported when it is first used; engine_tests/ asks the same where all of them are installed."""

import subprocess
import sys

LIBRARIES = ("pandas", "sklearn", "kubernetes", "transformers", "accelerate", "gymnasium", "onnxruntime")
CODE = f"""
import sys
import polyrhythm as pr
everything = [getattr(pr, name) for name in dir(pr)]
print(*sorted(sys.modules.keys() & set({LIBRARIES!r})))
"""


def test_public_names_import_no_library_of_others() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []

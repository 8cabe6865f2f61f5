"""The runtime of pages: two files of the npm package onnxruntime-web, fetched once with npm, checked, and kept in the user's cache.

A page has them beside it and asks no other host for anything. They are 14 MB of WebAssembly, so the package does not carry them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from polyrhythm.core.atomic import write
from polyrhythm.errors import ExportError

VERSION = "1.30.0"
FILES = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
"""The files that a page loads, and their SHA-256."""
_PACKAGE = f"onnxruntime-web@{VERSION}"
_SECONDS = 300


def web_runtime() -> Path:
    """The folder with the two files, fetched with npm if they are not in the cache yet. Raises ExportError where that cannot be."""
    folder = _cache() / f"onnxruntime-web-{VERSION}"
    if not all(_is_whole(folder / name, digest) for name, digest in FILES.items()):
        _fetch(folder)
    return folder


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polyrhythm"


def _is_whole(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _fetch(folder: Path) -> None:
    """Have npm download the package, and keep the files in `folder`."""
    npm = shutil.which("npm")
    if npm is None:
        raise ExportError(
            f"A page needs {_PACKAGE}, which npm fetches, and there is no npm here: install Node.js, or put {' and '.join(FILES)} of that "
            f"package into {folder}."
        )
    with TemporaryDirectory() as place:
        words = [npm, "pack", _PACKAGE, "--pack-destination", place, "--silent"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_SECONDS, cwd=place)
            lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            told = "" if done.returncode == 0 else next((line for line in lines if "error" in line.lower()), "no message")
        except subprocess.TimeoutExpired:
            told = f"nothing came for {_SECONDS} seconds"
        archive = next(Path(place).glob("*.tgz"), None)
        if told or archive is None:
            raise ExportError(
                f"npm could not fetch {_PACKAGE} ({told.strip()}): connect this machine to the registry once, or put {' and '.join(FILES)} "
                f"of that package into {folder}."
            )
        _keep(archive, folder)


def _keep(archive: Path, folder: Path) -> None:
    """Take the two files out of npm's archive. Raises ExportError where one of them is not what it was when this release was made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as package:
            for name, digest in FILES.items():
                member = package.extractfile(f"package/dist/{name}")
                content = member.read() if member is not None else b""
                if hashlib.sha256(content).hexdigest() != digest:
                    raise ExportError(f"{name} of {_PACKAGE} is not the file that this release was tested with: another registry gave it.")
                write(folder / name, content)
    except (OSError, KeyError, tarfile.TarError) as problem:
        raise ExportError(
            f"{_PACKAGE} cannot be unpacked into {folder}: {problem}. Give XDG_CACHE_HOME, a folder to write to."
        ) from problem

"""Exported folders, and a file server for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, browser
from program import command


class Quiet(SimpleHTTPRequestHandler):
    """What `python -m http.server` is, without its lines."""

    def log_message(self, format: str, *values: Any) -> None:
        return


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[[Path], str]]:
    """The address of a folder that a server offers."""
    with ExitStack() as stack:

        def serve(folder: Path) -> str:
            server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}/"

        yield serve


@pytest.fixture(scope="session")
def tab() -> Iterator[Browser]:
    """The one tab of a browser."""
    with browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def digits_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a network for digits in int8, made as a user makes it."""
    run = tmp_path_factory.mktemp("digits")
    command("run", "digits-cnn", "--set", "epochs=10", "--on", "simulator", "--out", run, "--quiet")
    command("export", run, "--to", "page", "--int8", "static")
    return run / "page"


@pytest.fixture(scope="session")
def text_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small GPT, after a few steps."""
    run = tmp_path_factory.mktemp("text")
    small = ["--set", "samples=512", "--set", "layers=2", "--set", "width=64"]
    command(
        "run", "chars-gpt", *small, "--workers", 1, "--system", "single", "--on", "simulator", "--out", run, "--export", "page", "--quiet"
    )
    return run / "page"

"""A headless Chromium that a test drives, over the pipe of the DevTools protocol: no package and no port is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SECONDS = 60.0
Point = tuple[float, float]


class Browser:
    """One tab of a Chromium with the pipe `write` to it and `read` from it."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._number, self._rest = write, read, 0, b""
        self.told: list[str] = []
        """What the page wrote to its console as errors, and exceptions that nobody caught."""
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command to the tab."""
        return self._call(method, parameters, self._session)

    def open(self, url: str, width: int, height: int, dark: bool = False, touch: bool = False) -> None:
        """Open `url` in a window of that size, and wait until the page says that it is ready."""
        self.visit(url, width, height, dark, touch)
        self.until("document.body && document.body.dataset.ready === 'yes'")

    def visit(self, url: str, width: int, height: int, dark: bool = False, touch: bool = False) -> None:
        """Open `url` in a window of that size, and wait until it is loaded; its scripts may still be at work."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        self.until(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"].get("description", found))
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until the expression is true, which the page itself watches."""
        waiting = (
            "new Promise((done, failed) => { const end = Date.now() + %d; const look = () => { try { if (%s) return done(true); } catch {} "
            "if (Date.now() > end) return failed(new Error('never true: ' + %s)); setTimeout(look, 20); }; look(); })"
        )
        self.value(waiting % (_SECONDS * 1000, condition, json.dumps(condition)))

    def drag(self, points: Sequence[Point]) -> None:
        """Press the mouse at the first point, and move it along the others."""
        for k, (x, y) in enumerate(points):
            kind = "mousePressed" if k == 0 else "mouseMoved"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=points[-1][0], y=points[-1][1], button="left", clickCount=1)

    def swipe(self, points: Sequence[Point]) -> None:
        """Touch the first point with a finger, and move it along the others."""
        for k, (x, y) in enumerate(points):
            self.call("Input.dispatchTouchEvent", type="touchMove" if k else "touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": " "} if key == " " else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code="Space" if key == " " else key, **(text if kind == "keyDown" else {})
            )

    def picture(self, path: Path) -> None:
        """Write the whole page to `path` as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], 2 * _SECONDS)
            assert ready, "Chromium does not answer"
            self._rest += os.read(self._read, 1 << 20)
        answer, _, self._rest = self._rest.partition(b"\0")
        return json.loads(answer)

    def _note(self, event: Any) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.told.append(str(parameters["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.told.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.told.append(str(parameters["args"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium of its own, with a fresh profile, which ends with the block."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "there is no Chromium: page_tests/install.sh installs it"
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()

    def place_pipes() -> None:  # DevTools reads from 3 and writes to 4
        one, other = os.dup(to_read), os.dup(from_write)
        high_one, high_other = os.dup2(one, 50), os.dup2(other, 51)
        os.dup2(high_one, 3)
        os.dup2(high_other, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # which root cannot have
        words = [
            program,
            "--headless",
            "--remote-debugging-pipe",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--no-first-run",
            *sandbox,
        ]
        child = subprocess.Popen(
            words, pass_fds=(3, 4), preexec_fn=place_pipes, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Browser(to_write, from_read)
        finally:
            os.close(to_write)
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            os.close(from_read)

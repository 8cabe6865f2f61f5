"""A thread that lists one kind of objects and follows it from there; after a gap it lists again."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue

from polyrhythm.errors import RunError
from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.kubernetes.api import Api, ObjectKind

LISTED = "LISTED"
"""The type of an event that has a whole list."""
Heard = SimpleQueue[tuple[ObjectKind, str, Manifest]]
"""Events of all kinds: the kind, the type and the object."""
_PATIENCE = 240.0
_AGAIN_SECONDS = 0.2
_MOST_AGAIN = 5.0


class Watching:
    """Puts what happens to objects of `kind` into `heard`: a list, then events from its resourceVersion on.

    A watch that ends goes on from the newest version that it has told, which bookmarks keep new. One that cannot (410 Gone), or an error
    of any kind, is followed by a list: events may be missing.
    """

    def __init__(self, api: Api, kind: ObjectKind, namespace: str, heard: Heard, query: Mapping[str, str] | None = None) -> None:
        self._api = api
        self._kind = kind
        self._path = kind.path(namespace)
        self._heard = heard
        self._query = dict(query or {})
        self._over = threading.Event()
        self.lists = 0
        self._thread = threading.Thread(target=self._run, name=f"polyrhythm {kind.plural}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Say nothing more; the thread ends with its watch."""
        self._over.set()

    def _run(self) -> None:
        version, pause = "", _AGAIN_SECONDS
        while not self._over.is_set():
            began = time.monotonic()
            try:
                version = version or self._list()
                version = self._follow(version)
                pause = _AGAIN_SECONDS
                self._over.wait(began + _AGAIN_SECONDS - time.monotonic())  # where watches end at once, they are not asked for in a circle
            except RunError:  # the server is away for a while: a list, when it is there again, tells what has happened
                version = ""
                self._over.wait(pause)
                pause = min(_MOST_AGAIN, 2 * pause)

    def _list(self) -> str:
        answer = self._api.ask("GET", self._path, query=self._query)
        if not answer.taken:
            raise RunError(f"The API server does not list {self._kind.plural}: {answer.sentence}")
        self.lists += 1
        self._tell(LISTED, answer.body)
        return str(answer.body["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        """The newest version that was told, with which the next watch begins; empty after a gap."""
        asked = {**self._query, "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": str(int(_PATIENCE))}
        for event in self._api.follow(self._path, asked, 2 * _PATIENCE):
            if event["type"] == "ERROR":
                return ""
            version = str(event["object"]["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                self._tell(event["type"], event["object"])
        return version

    def _tell(self, kind: str, item: Manifest) -> None:
        if not self._over.is_set():
            self._heard.put((self._kind, kind, item))

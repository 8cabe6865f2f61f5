"""Why an agent did not come, or went: a sentence from the exit code of ssh or of the agent, and from what it wrote last."""

from __future__ import annotations

import re

from polyrhythm.errors import CompositionError, PolyrhythmError, RunError
from polyrhythm.tools.measuring.hosts.host_list import PYTHON, SurveyedHost

_BY_SSH, _NO_PROGRAM, _NOT_STARTED = 255, 127, 126
_MISSING = re.compile(r"No module named '?([\w.]+)'?")
_CAUSES = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "has another key than the one that ssh knows of it: if it was set up anew, remove the old one by `ssh-keygen -R`",
    ),
    (
        "Host key verification failed",
        "has a key that ssh does not know: connect once by hand and look at it, or add -o StrictHostKeyChecking=accept-new to --ssh",
    ),
    (
        "Permission denied",
        "does not let this user in without a password: put a key there by ssh-copy-id, and name it, such as --ssh 'ssh -i ~/.ssh/lab'",
    ),
    ("Could not resolve hostname", "has a name that leads nowhere: look whether it is written as ssh knows it"),
    ("Connection refused", "takes no connections there: look whether its ssh server runs, and at which port"),
    ("timed out", "does not answer: look whether it is on, and whether a firewall is between"),
    ("No route to host", "cannot be reached from this network"),
    ("Network is unreachable", "cannot be reached from this network"),
    ("Bad configuration option", "could not be tried, because ssh refuses an option of --ssh"),
)


def why_ended(host: SurveyedHost, code: int, written: str, began: bool) -> PolyrhythmError:
    """The error of a connection that ended with `code`, before its agent had said anything or after it `began`."""
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if code == _BY_SSH and not began:
        for words, meaning in _CAUSES:
            if words in written:
                return RunError(f"{host.name} ({host.shown}) {meaning}. ssh says: {last}")
    if missing := _MISSING.search(written):
        return CompositionError(_lacks(host, missing[1].partition(".")[0]))
    if not began and code in (_NO_PROGRAM, _NOT_STARTED):
        return CompositionError(
            f"{host.name} has no program {host.python or PYTHON} that can be started: name the Python or the environment there that has "
            "polyrhythm, by --python or in the file of hosts."
        )
    what = "The connection with" if code == _BY_SSH else "The measuring on"
    return RunError(f"{what} {host.name} ended (exit code {code}){f': {last}' if last else ' without a word'}.")


def _lacks(host: SurveyedHost, package: str) -> str:
    return (
        f"{host.name} has no package {package} for {host.python or PYTHON}: install polyrhythm and what it needs there, or name the Python "
        "that has it, by --python or in the file of hosts."
    )

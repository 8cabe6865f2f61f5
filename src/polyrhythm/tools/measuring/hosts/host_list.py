"""The hosts of a calibration: typed as a list, or in a TOML file.

ssh = "ssh -i ~/.ssh/lab"       # how they are reached; `--ssh` goes before it
python = "~/polyrhythm"         # the Python there, or its environment; `--python` goes before it

[[hosts]]
host = "ann@desktop:2222"       # USER@NAME:PORT as ssh knows them, or "here" for this machine
name = "desktop"                # in the files that are written; by default that of `host`
python = "/opt/train/bin/python"
address = "192.168.1.7"         # where the other hosts reach it, if ssh reaches it elsewhere
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from polyrhythm.core.typed_files import mistake, unreadable
from polyrhythm.errors import CompositionError

HERE = "here"
"""The host that needs no ssh: this machine."""
SSH, PYTHON = "ssh", "python3"
_TARGET = re.compile(
    r"(?:(?P<user>[^@\s:-][^@\s:]*)@)?(?P<host>\[[0-9a-fA-F:.]+(?:%\w+)?\]|[^\s:@\[\]-][^\s:@\[\]]*)(?::(?P<port>\d{1,5}))?"
)
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RESERVED = ("device", "network")


@dataclass(frozen=True, slots=True)
class SurveyedHost:
    """`target` and `port` are for ssh; `python` is a program or an environment there, `address` where the others reach it, if not so."""

    name: str
    target: str
    port: int | None = None
    python: str = ""
    address: str = ""

    @property
    def is_here(self) -> bool:
        """True for this machine."""
        return self.target == HERE

    @property
    def shown(self) -> str:
        """The host as people type it."""
        return self.target if self.port is None else f"{self.target}:{self.port}"


@dataclass(frozen=True, slots=True)
class HostList:
    """The hosts, each with its Python, and the words of the `ssh` that reaches them."""

    hosts: tuple[SurveyedHost, ...]
    ssh: str


class HostLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host as a file has it."""

    host: str
    name: str = ""
    python: str = ""
    address: str = ""


class HostFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file of hosts."""

    hosts: list[HostLine]
    ssh: str = ""
    python: str = ""


def hosts_typed(text: str, ssh: str = "", python: str = "") -> HostList:
    """The hosts of "ann@desktop:2222,laptop,here", or of a file of that name; `ssh` and `python` are for all that have none of their own.

    Raises CompositionError for what is no host, for names that occur twice, and for a file that cannot be used.
    """
    written = (
        _read(Path(text)) if text.endswith(".toml") or Path(text).is_file() else HostFile([HostLine(each) for each in text.split(",")])
    )
    if not written.hosts:
        raise CompositionError(f"--hosts {text} names no host: give one or more, such as ann@desktop,laptop:2222.")
    hosts = [_host(line, line.python or python or written.python) for line in written.hosts]
    return HostList(_named(hosts), ssh or written.ssh or SSH)


def _host(line: HostLine, python: str) -> SurveyedHost:
    found = _TARGET.fullmatch(line.host.strip())
    if found is None:
        raise CompositionError(f"{line.host!r} is no host: write USER@NAME:PORT as ssh knows it, user and port if need be, or {HERE}.")
    host, port = found["host"].strip("[]"), None if found["port"] is None else int(found["port"])
    if port is not None and not 0 < port < 1 << 16:
        raise CompositionError(f"{line.host!r} has a port that cannot be: they go from 1 to 65535.")
    if line.name and (not _NAMES.fullmatch(line.name) or line.name in _RESERVED):
        raise CompositionError(f"A host cannot be called {line.name!r}, which names a file: use letters, digits, dots and hyphens.")
    if host == HERE and (port is not None or found["user"]):
        raise CompositionError(f"{line.host!r} is this machine, which is not reached by ssh: write {HERE}, or a name that ssh knows.")
    target = f"{found['user']}@{host}" if found["user"] else host
    there = line.python if host == HERE else line.python or python  # this machine has the Python that runs this
    return SurveyedHost(line.name or re.sub(r"[^A-Za-z0-9._-]", "-", host), target, port, there, line.address)


def _named(hosts: Sequence[SurveyedHost]) -> tuple[SurveyedHost, ...]:
    """The hosts, with their ports in the names of those that are otherwise called the same."""
    often = Counter(each.name for each in hosts)
    ported = [replace(each, name=f"{each.name}-{each.port}") if often[each.name] > 1 and each.port else each for each in hosts]
    twice = [name for name, count in Counter(each.name for each in ported).items() if count > 1]
    if twice:
        raise CompositionError(f"Two hosts are called {twice[0]!r}: name each once, or give them names in a file of hosts.")
    return tuple(ported)


def _read(path: Path) -> HostFile:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), HostFile)
    except (OSError, UnicodeDecodeError) as problem:
        raise unreadable("file of hosts", path, problem, "Give a file in TOML.") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise CompositionError(
            f"The file of hosts {str(path)!r} cannot be used: {mistake(problem, HostFile)}. It has [[hosts]], each with a host and, if "
            "need be, name, python and address; before them ssh and python for all."
        ) from None

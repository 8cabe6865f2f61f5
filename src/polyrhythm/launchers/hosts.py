"""Tasks on several hosts: on each of them one command starts those that belong there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from shlex import join, quote
from shutil import which

import msgspec

from polyrhythm.core.processes.runtime.failure import exit_phrase
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.commands import FIRST_RANK, ORDER
from polyrhythm.launchers.program import CommandProcess
from polyrhythm.launchers.protocol import Loss, TaskOrder

_ENDING_SECONDS = 10.0
# The order comes on the standard input, because command lines can be seen by all users of a host. When that ends, so does the command:
# a connection that is lost, or closed by the driver, leaves nothing behind.
_WRAPPER = """\
IFS= read -r {order}; export {order} {settings}
exec 3<&0
{command} < /dev/null & command=$!
{{ cat <&3 > /dev/null; kill $command; }} 2> /dev/null & watch=$!
wait $command; code=$?
kill $watch 2> /dev/null; exit $code
"""

Commands = Callable[[], Sequence[Sequence[str]]]


class HostTasks:
    """The tasks that one command on each host starts; `commands`, in the order of the hosts, are asked for anew at each start.

    `reached` has for each host the words to which a line for its shell is added. Commands start tasks of theirs that were lost again by
    themselves.
    """

    def __init__(self, reached: Mapping[str, Sequence[str]], commands: Commands, order: TaskOrder, environment: Mapping[str, str]) -> None:
        _refuse_missing(reached)
        self._reached = reached
        self._commands = commands
        self._order = order
        self._environment = environment
        self._reported = False
        self._programs = self._started()

    def losses(self) -> list[Loss]:
        """All tasks, when a command has failed or all have ended."""
        ended = {host: program.status for host, program in self._programs.items() if program.status is not None}
        failed = {host: status for host, status in ended.items() if status}
        if self._reported or not (failed or len(ended) == len(self._programs)):
            return []
        self._reported = True
        host, status = next(iter({**failed, **ended}.items()))
        return [Loss(None, f"the command on {host} {exit_phrase(status)}")]

    def restart(self, ranks: list[int]) -> list[int]:
        """Leave it to the commands if they are there; else begin all anew."""
        if any(program.status is not None for program in self._programs.values()):
            for program in self._programs.values():
                program.end(_ENDING_SECONDS)
            self._programs, self._reported = self._started(), False
        return list(range(self._order.workers))

    def close(self, seconds: float) -> None:
        """End the commands when their tasks have ended, or after so many seconds."""
        failed = any(program.status for program in self._programs.values())  # the others then wait for it in vain
        for program in self._programs.values():
            program.wait(0.0 if failed else seconds)
            program.end(_ENDING_SECONDS)

    def _started(self) -> dict[str, CommandProcess]:
        hosts = zip(self._reached.items(), self._commands(), strict=True)
        return {host: _start(words, command, self._order, self._environment) for (host, words), command in hosts}


class SeparateHosts:
    """The tasks of a crew that changes, those of each host started by a `command` of its own, which others do not depend on.

    Each host has as many of the ranks, in the order of the hosts.
    """

    def __init__(
        self, reached: Mapping[str, Sequence[str]], command: Sequence[str], order: TaskOrder, environment: Mapping[str, str]
    ) -> None:
        _refuse_missing(reached)
        self._reached = reached
        self._command = command
        self._order = order
        self._environment = environment
        self._share = order.workers // len(reached)
        self._ended: set[int] = set()
        self._programs = [self._started(host) for host in range(len(reached))]

    def losses(self) -> list[Loss]:
        """The tasks of hosts whose commands have ended."""
        ended = {host: each.status for host, each in enumerate(self._programs) if each.status is not None and host not in self._ended}
        self._ended |= set(ended)
        names = list(self._reached)
        return [
            Loss(rank, f"the command on {names[host]} {exit_phrase(status)}")
            for host, status in ended.items()
            for rank in self._ranks(host)
        ]

    def restart(self, ranks: list[int]) -> list[int]:
        """Begin the commands of these tasks anew; those that are there start lost tasks again by themselves, if the crew replaces them."""
        hosts = {rank // self._share for rank in ranks}
        hosts &= self._ended if self._order.replaces else hosts
        for host in hosts:
            self._programs[host].end(_ENDING_SECONDS)
            self._programs[host] = self._started(host)
        self._ended -= hosts
        return sorted({*ranks, *(rank for host in hosts for rank in self._ranks(host))})

    def close(self, seconds: float) -> None:
        """End the commands when their tasks have ended, or after so many seconds."""
        deadline = time.monotonic() + seconds
        for program in self._programs:
            program.wait(max(0.0, deadline - time.monotonic()))
            program.end(_ENDING_SECONDS)

    def _ranks(self, host: int) -> range:
        return range(host * self._share, (host + 1) * self._share)

    def _started(self, host: int) -> CommandProcess:
        environment = {**self._environment, FIRST_RANK: str(host * self._share)}
        return _start(list(self._reached.values())[host], self._command, self._order, environment)


def _refuse_missing(reached: Mapping[str, Sequence[str]]) -> None:
    for words in reached.values():
        if which(words[0]) is None:
            raise CompositionError(f"There is no command {words[0]!r} here: install it, or give another with reach=.")


def _start(words: Sequence[str], command: Sequence[str], order: TaskOrder, environment: Mapping[str, str]) -> CommandProcess:
    """`command` on the host that `words` reach."""
    settings = " ".join(f"{name}={quote(value)}" for name, value in environment.items())
    script = _WRAPPER.format(order=ORDER, settings=settings, command=join(command))
    return CommandProcess([*words, f"sh -c {quote(script)}"], os.environ, msgspec.json.encode(order) + b"\n")

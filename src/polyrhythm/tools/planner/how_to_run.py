"""How the first choice of a plan is run, on a terminal."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.text import Text


class Runnable(Protocol):
    """A choice with the commands that run it for real and in virtual time, and the call in Python; empty where there is none."""

    @property
    def command(self) -> str: ...

    @property
    def rehearsal(self) -> str: ...

    @property
    def code(self) -> str: ...


def show_commands(choice: Runnable, console: Console) -> None:
    """Print the commands, each in one line, to be copied."""
    lines = (("Run it:         ", choice.command), ("In virtual time:", choice.rehearsal), ("In Python:      ", choice.code))
    for name, line in lines:
        if line:
            console.print(Text(f"{name} {line}"), soft_wrap=True)

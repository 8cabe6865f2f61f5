"""What belongs to no option is refused, and not passed on to the script."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from polyrhythm.tools.cli.app import app
from polyrhythm.tools.cli.parsing import StrictCommand

from .conftest import Command

COMMANDS = [name for name, command in get_command(app).commands.items() if isinstance(command, StrictCommand)]  # type: ignore[attr-defined]
GROUPS = [name for name, command in get_command(app).commands.items() if hasattr(command, "commands")]  # type: ignore[attr-defined]
OF_JOBS = ["run", "compare", "plan", "check", "join", "launch", "calibrate", "cost"]


def test_all_commands_but_those_which_run_another_are_strict() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {*commands} - {*COMMANDS} == {"lab", "simulate", *GROUPS}
    assert all(isinstance(each, StrictCommand) for group in GROUPS for each in commands[group].commands.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_refused_with_the_nearest(command: str, polyrhythm: Command) -> None:
    done = polyrhythm(command, "digits-mlp", "--jsom")
    assert done.code == 2
    assert "No option is called '--jsom'" in done.err
    assert ("comes after --: JOB -- --jsom." in done.err) == (command in OF_JOBS)


@pytest.mark.parametrize(("word", "meant"), [("--trace", "'--arrivals'"), ("--site=x", "'--machines' or '--step'")])
def test_an_option_that_is_called_by_the_name_of_its_value_is_found(word: str, meant: str, polyrhythm: Command) -> None:
    said = polyrhythm("serve", "simulate", "models.toml", word).err
    assert f"No option is called '{word.partition('=')[0]}'. Did you mean {meant}?" in said


@pytest.mark.parametrize("command", OF_JOBS)
def test_a_word_that_no_option_takes_is_not_given_to_the_job(command: str, polyrhythm: Command, tiny: Path) -> None:
    required = {"plan": ["--to", "loss=1"], "launch": ["--on", "torchrun"]}.get(command, [])
    for before in ([], ["--workers", "2"], ["--json"]):
        done = polyrhythm(command, tiny, *required, *(before if command != "join" else []), "ck")
        assert done.code == 2
        assert "'ck' belongs to no option" in done.err
        assert "come after --, such as: JOB -- ck." in done.err


@pytest.mark.parametrize("command", ["run", "join", "launch"])
def test_a_flag_that_is_given_a_value_states_what_it_is_for(command: str, polyrhythm: Command, tiny: Path) -> None:
    done = polyrhythm(command, tiny, *(["--on", "torchrun"] if command == "launch" else []), "--resume", "ck")
    assert done.code == 2
    assert "--resume takes no value: Continue from the newest checkpoint in --checkpoint" in done.err


@pytest.mark.parametrize(("option", "follows"), [("--checkpoint", "--resume"), ("--out", "--quiet"), ("--system", "--workers")])
def test_an_option_is_not_taken_for_the_value_of_the_one_before_it(option: str, follows: str, polyrhythm: Command, tiny: Path) -> None:
    done = polyrhythm("run", tiny, option, follows, "2")
    assert done.code == 2
    assert f"{option} needs a value, and {follows} follows it" in done.err


def test_arguments_after_two_dashes_reach_the_script_whatever_they_look_like(polyrhythm: Command, tiny: Path) -> None:
    tiny.write_text(f"import sys\nprint('own', sys.argv[1:])\n{tiny.read_text()}")
    done = polyrhythm("run", "--workers", 1, tiny, "--on", "simulator", "--", "--resume", "ck", "--", "-x")
    assert done.code == 0
    assert "own ['--resume', 'ck', '--', '-x']" in done.out


def test_arguments_without_a_job_are_refused(polyrhythm: Command) -> None:
    done = polyrhythm("calibrate", "--", "--mine")
    assert done.code == 2
    assert "--mine was given after --, for a JOB, and no JOB was given" in done.err


@pytest.mark.parametrize("verb", ["compare", "check", "launch"])
def test_a_crew_that_changes_is_refused_where_one_number_of_workers_is_needed(polyrhythm: Command, tiny: Path, verb: str) -> None:
    options = {"compare": ["--systems", "allreduce"], "launch": ["--on", "slurm"]}.get(verb, [])
    done = polyrhythm(verb, tiny, *options, "--workers", "2..4")
    assert done.code == 2
    assert "one number" in done.err

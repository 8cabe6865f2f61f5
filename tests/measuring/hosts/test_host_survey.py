"""A calibration of several hosts, with programs in the place of ssh and of agents."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from polyrhythm.errors import CompositionError, PolyrhythmError, RunError
from polyrhythm.hardware.machines import Device
from polyrhythm.tools.measuring.hosts.host_link import command_there, reached
from polyrhythm.tools.measuring.hosts.host_list import SurveyedHost, hosts_typed
from polyrhythm.tools.measuring.hosts.host_messages import HostHello, TimeSteps
from polyrhythm.tools.measuring.hosts.host_survey import USED, HostsFound, HostSurvey, meeting_address
from polyrhythm.tools.measuring.hosts.ssh_failures import why_ended
from polyrhythm.tools.measuring.links import unfollowed

STEPS = TimeSteps("digits-cnn")


def survey(hosts: str, ssh: str, agent: Path, steps: TimeSteps | None = STEPS) -> tuple[HostsFound, list[str]]:
    shown: list[str] = []
    listed = hosts_typed(hosts, f"{ssh} -i key", str(agent))
    return HostSurvey(listed, shown.append, unfollowed).measure(steps), shown


def orders(agent: Path, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (agent.parent / f"{name}.orders").read_text().splitlines()]


def test_machines_and_network_have_the_names_of_the_hosts(ssh: str, agent: Path) -> None:
    found, shown = survey("ann@desktop:2222,laptop", ssh, agent)
    assert [each.machine for each in found.machines] == [Device("desktop", 2e9, 0.001), Device("laptop", 2e9, 0.001)]
    assert [each.terms.memory for each in found.machines] == [USED * 8e9] * 2
    assert found.network is not None
    assert [(site.name, site.egress) for site in found.network.sites] == [("desktop", 1e6), ("laptop", 2e6)]
    assert found.local.bandwidth == 1e9
    assert sorted(shown) == ["desktop: the job prints", "laptop: the job prints"]


def test_agents_meet_at_the_first_host_with_a_secret_that_no_command_line_shows(ssh: str, agent: Path) -> None:
    survey("desktop,laptop", ssh, agent)
    first, second = (orders(agent, name)[-1] for name in ("desktop", "laptop"))
    assert first["address"] == second["address"] == "10.0.0.7"
    assert (first["port"], first["rank"], second["rank"]) == (4000, 0, 1)
    assert first["secret"] == second["secret"]
    opened = orders(agent, "desktop")[-2]
    assert (opened["type"], opened["workers"], opened["secret"]) == ("OpenMeeting", 2, first["secret"])
    assert (first["own"], second["own"]) == ("10.0.0.7", "")


def test_agents_end_when_the_calibration_does(ssh: str, agent: Path) -> None:
    survey("desktop,laptop", ssh, agent, None)
    assert {each.stem for each in agent.parent.glob("*.ended")} == {"desktop", "laptop"}


def test_one_host_alone_has_a_machine_and_no_network(ssh: str, agent: Path) -> None:
    found, _ = survey("desktop", ssh, agent)
    assert found.network is None
    assert found.machines[0].machine == Device("desktop", 2e9, 0.001)


@pytest.mark.parametrize(
    ("hosts", "kind", "words"),
    [
        ("desktop,lost", RunError, ["lost (lost) has a name that leads nowhere", "ssh says: ssh: Could not resolve"]),
        ("lost,strange", RunError, ["lost (lost)", "and 1 more", "strange (strange) has a key that ssh does not know"]),
        ("desktop,old", CompositionError, ["old has polyrhythm 0.0.1", "the same version"]),
        ("desktop,broken", RunError, ["broken: The data are not there."]),
        ("desktop,dying", RunError, ["The measuring on dying ended (exit code 1): out of memory"]),
    ],
)
def test_a_host_that_fails_is_named_and_all_others_end(
    ssh: str, agent: Path, hosts: str, kind: type[PolyrhythmError], words: list[str]
) -> None:
    with pytest.raises(kind) as refused:
        survey(hosts, ssh, agent)
    for word in words:
        assert word in str(refused.value)


def test_other_versions_of_torch_are_remarked_on(ssh: str, agent: Path) -> None:
    _, shown = survey("desktop,apart", ssh, agent, None)
    assert shown == ["torch differs among the hosts (desktop 2.5, apart 2.4): a run by processes needs the same everywhere."]


def test_an_ssh_that_is_not_there_is_refused(agent: Path) -> None:
    with pytest.raises(CompositionError, match="'/none/ssh' cannot be started"):
        survey("desktop", "/none/ssh", agent)


@pytest.mark.parametrize(
    ("code", "written", "began", "kind", "words"),
    [
        (255, "x: Permission denied (publickey).", False, RunError, "does not let this user in"),
        (255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", False, RunError, "another key"),
        (255, "ssh: connect to host pi port 22: Connection refused", False, RunError, "takes no connections"),
        (255, "ssh: connect to host pi port 22: Connection timed out", False, RunError, "does not answer"),
        (255, "command-line: line 0: Bad configuration option: nosuch", False, RunError, "refuses an option"),
        (255, "client_loop: send disconnect: Broken pipe", True, RunError, "The connection with pi ended"),
        (127, "sh: 1: exec: python3: not found", False, CompositionError, "no program python3"),
        (1, "python3: Error while finding module (No module named 'polyrhythm')", False, CompositionError, "no package polyrhythm"),
        (1, "ModuleNotFoundError: No module named 'torch.nn'", False, CompositionError, "no package torch for python3"),
        (9, "", True, RunError, "exit code 9) without a word"),
    ],
)
def test_why_an_agent_did_not_come_is_a_sentence(code: int, written: str, began: bool, kind: type[PolyrhythmError], words: str) -> None:
    problem = why_ended(SurveyedHost("pi", "pi"), code, written, began)
    assert type(problem) is kind
    assert words in str(problem)


def test_the_options_of_the_user_go_before_ours_and_the_port_before_the_host() -> None:
    words = reached(SurveyedHost("pi", "ann@pi", 2222), "ssh -i 'my key' -o BatchMode=no")
    assert words[:5] == ["ssh", "-i", "my key", "-o", "BatchMode=no"]
    assert words[-4:-1] == ["-p", "2222", "ann@pi"]
    assert "ControlMaster=no" in words
    with pytest.raises(CompositionError, match="is no command"):
        reached(SurveyedHost("pi", "pi"), "ssh 'open")


@pytest.mark.parametrize("python", ["~/my env", "{home}/my env", "{home}/my env/bin/python"])
def test_python_there_may_be_an_environment_and_be_in_the_home_directory(tmp_path: Path, python: str) -> None:
    program = tmp_path / "my env" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    line = command_there(python.format(home=tmp_path))
    done = subprocess.run(["sh", "-c", line], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout == "-u -m polyrhythm.tools.measuring.hosts.survey_agent\n"


HERE, DESK, PI = (SurveyedHost(name, name) for name in ("here", "desk", "pi"))


def hello(address: str = "", caller: str = "") -> HostHello:
    return HostHello({}, 1e9, address, caller)


@pytest.mark.parametrize(
    ("hosts", "hellos", "address"),
    [
        ((DESK, PI), (hello("10.0.0.7", "10.0.0.1"), hello("10.0.0.8", "10.0.0.1")), "10.0.0.7"),
        ((HERE, PI), (hello(), hello("10.0.0.8", "10.0.0.1")), "10.0.0.1"),
        ((HERE, HERE), (hello(), hello()), "127.0.0.1"),
        ((DESK, HERE), (hello("127.0.0.1", "127.0.0.1"), hello()), "127.0.0.1"),
        ((SurveyedHost("desk", "desk", address="1.2.3.4"), PI), (hello("10.0.0.7"), hello("10.0.0.8")), "1.2.3.4"),
    ],
)
def test_hosts_meet_where_the_first_is_reached(hosts: tuple[SurveyedHost, ...], hellos: tuple[HostHello, ...], address: str) -> None:
    assert meeting_address(hosts, hellos) == address


def test_a_loopback_address_is_no_place_to_meet_other_machines() -> None:
    with pytest.raises(CompositionError, match=r"desk is reached at 127\.0\.0\.1, which pi cannot reach"):
        meeting_address((DESK, PI), (hello("127.0.0.1", "127.0.0.1"), hello("10.0.0.8", "10.0.0.1")))


def test_closing_waits_for_no_host_that_has_not_begun(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    before = time.monotonic()
    with pytest.raises(CompositionError, match="cannot be started"):
        HostSurvey(hosts_typed(_with_bad_python(tmp_path), str(slow)), print, unfollowed).measure(None)
    assert time.monotonic() - before < 5


def _with_bad_python(tmp_path: Path) -> str:
    file = tmp_path / "hosts.toml"
    file.write_text('[[hosts]]\nhost = "desktop"\n[[hosts]]\nhost = "here"\npython = "/none/python"\n')
    return str(file)

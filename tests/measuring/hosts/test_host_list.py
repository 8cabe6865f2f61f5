"""Hosts as people type them, and in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.tools.measuring.hosts.host_list import SurveyedHost, hosts_typed


def test_users_names_and_ports_are_those_of_ssh_and_names_those_of_hosts() -> None:
    listed = hosts_typed("ann@desktop:2222, laptop,here,bob@[fe80::1]:22", python="/opt/python")
    assert listed.hosts == (
        SurveyedHost("desktop", "ann@desktop", 2222, "/opt/python"),
        SurveyedHost("laptop", "laptop", None, "/opt/python"),
        SurveyedHost("here", "here"),
        SurveyedHost("fe80--1", "bob@fe80::1", 22, "/opt/python"),
    )
    assert listed.ssh == "ssh"


def test_hosts_at_several_ports_of_one_name_are_called_by_their_ports() -> None:
    assert [each.name for each in hosts_typed("gate:2201,gate:2202").hosts] == ["gate-2201", "gate-2202"]


def test_a_file_has_names_and_what_each_host_has_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(
        'ssh = "ssh -i key"\npython = "~/env"\n[[hosts]]\nhost = "ann@desktop"\nname = "fast"\naddress = "192.168.1.7"\n'
        '[[hosts]]\nhost = "pi"\npython = "/usr/bin/python3"\n'
    )
    listed = hosts_typed(str(file))
    assert listed.ssh == "ssh -i key"
    assert listed.hosts == (
        SurveyedHost("fast", "ann@desktop", None, "~/env", "192.168.1.7"),
        SurveyedHost("pi", "pi", None, "/usr/bin/python3"),
    )
    assert hosts_typed(str(file), "ssh -v", "/opt/python").hosts[0].python == "/opt/python"
    assert hosts_typed(str(file), "ssh -v").ssh == "ssh -v"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:b:c", ["'a:b:c' is no host", "USER@NAME:PORT"]),
        ("-oProxyCommand=x", ["is no host"]),
        ("-x@host", ["is no host"]),
        ("a,,b", ["'' is no host"]),
        ("a b", ["is no host"]),
        ("host:70000", ["a port that cannot be"]),
        ("x,x", ["Two hosts are called 'x'"]),
        ("ann@x,bob@x", ["Two hosts are called 'x'"]),
        ("here:22", ["this machine, which is not reached by ssh"]),
        ("none.toml", ["cannot be read"]),
    ],
)
def test_what_is_no_host_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(CompositionError) as refused:
        hosts_typed(text)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("hosts = []", "names no host"),
        ("[[hosts]]\nhost = 'a'\nspeed = 3", "speed"),
        ("[[hosts]]\nname = 'a'", "host"),
        ("[[hosts]\n", "cannot be used"),
        ("[[hosts]]\nhost = 'a'\nname = '../a'", "names a file"),
        ("[[hosts]]\nhost = 'a'\nname = 'device'", "names a file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(text)
    with pytest.raises(CompositionError, match=word):
        hosts_typed(str(file))

"""SITE and JOBS files: what they say for the scheduler and for the simulation of training, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyrhythm.cluster import load_jobs, load_site, site_file
from polyrhythm.errors import CompositionError, PolyrhythmError

LAB = """
name = "labs"
network = "lan"
hosts = [{name = "a", cores = 4}]
"""


def example() -> str:
    """The example of the module's docstring."""
    lines = (site_file.__doc__ or "").splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    "))


def test_the_example_of_the_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(example())
    cluster = load_site(path)
    assert [host.name for host in cluster.hosts] == ["laptop-1", "laptop-2", "laptop-3", "box"]
    assert cluster.level_names == ("host", "rack", "site", "cluster")
    assert cluster.bandwidth("laptop-1", "laptop-2") == 25e6
    assert cluster.quality([("box", (0, 1))]) == 50e9
    assert cluster.quality([("box", (0, 2))]) == 10e9
    assert cluster.queues[0].devices.limit == 4


def test_the_network_of_a_job_gives_each_worker_the_site_of_its_host(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        """
        name = "two"
        hosts = [{name = "a", count = 3, cores = 4, site = "lab"}, {name = "b", count = 2, cores = 4, site = "attic"}]
        [network]
        name = "two"
        sites = [{name = "lab", egress = "1 Gbit/s"}, {name = "attic", egress = "20 Mbit/s", latency = "2 ms"}]
        links = [{from = "lab", to = "attic", latency = "15 ms", bandwidth = "10 Mbit/s"}]
        """
    )
    cluster = load_site(path)
    network = cluster.network_of(["a-1", "b-1", "a-2"])
    assert [network.sites[network.site_of(worker, 3)].name for worker in range(3)] == ["lab", "attic", "lab"]
    assert network.delay(0, 1, 3) == 0.015
    assert cluster.bandwidth("a-1", "b-1") == 1.25e6
    assert cluster.quality([("a-1", ()), ("a-2", ())]) == 125e6


def test_jobs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text('[[jobs]]\nname = "bert"\nworkers = 4\nmin_workers = 2\ndevices = 1\nestimate = "2 h"\nmemory = "8 GB"\n')
    (job,) = load_jobs(path)
    assert (job.estimate, job.demand.memory, job.is_malleable) == (7200.0, 8 * 10**9, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "x"', "hosts"),
        ('name = "x"\nhosts = [{name = "a", cores = "many"}]', "cores"),
        ('name = "x"\nhosts = [{name = "a", cores = 4, colour = "red"}]', "colour"),
        ('name = "x"\nhosts = [{name = "a", cores = 4, count = 0}]', "count=0"),
        ('name = "x"\nhosts = [{name = "a", cores = 4, site = "mars"}]', "mars"),
        ('name = "x"\nhosts = [{name = "a", cores = 4, topology = "torus"}]', "cube-mesh"),
        ('name = "x"\nhosts = [{name = "a", cores = 4, topology = [[0.0]]}]', "as many"),
        ('name = "x"\nhosts = []', "no host"),
        ('name = "x"\nnetwork = "nowhere"\nhosts = [{name = "a", cores = 4}]', "nowhere"),
        ("name = ", "cannot be used"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(PolyrhythmError, match=words):
        load_site(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match="cannot be read"):
        load_jobs(tmp_path / "none.json")

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.processes.rendezvous.rank_environment import RankEnvironment, find_rank_environment, own_ip


def test_torchruns_variables_give_a_process_its_rank() -> None:
    given = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"}
    assert find_rank_environment(given) == RankEnvironment(3, 4, 1, "10.0.0.1", 1234, False, "-")
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert find_rank_environment({**given, **agent}) == RankEnvironment(3, 4, 1, "10.0.0.1", 1234, True, "a-2")


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("node7", "node7"), ("gpu[03-07,12],login1", "gpu03"), ("a,b[1-2]", "a"), ("rack1n[9,11]", "rack1n9")],
)
def test_slurms_variables_give_a_process_its_rank(nodes: str, first: str) -> None:
    given = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "12345", "SLURM_STEP_NODELIST": nodes}
    assert find_rank_environment(given) == RankEnvironment(1, 2, 0, first, 29400 + 2345, False, "12345-")


def test_without_either_there_is_one_worker() -> None:
    assert find_rank_environment({}) == RankEnvironment(0, 1, port=0), "at any port, so that several may run at once"


def test_a_number_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(CompositionError, match="RANK='first'"):
        find_rank_environment({"RANK": "first", "WORLD_SIZE": "2"})
    with pytest.raises(CompositionError, match="ranks go from 0 to 1"):
        find_rank_environment({"RANK": "2", "WORLD_SIZE": "2"})


def test_the_own_address_is_the_one_towards_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYRHYTHM_HOST_ADDR", raising=False)
    assert own_ip(RankEnvironment(0, 1, host="127.0.0.1")) == "127.0.0.1"
    monkeypatch.setenv("POLYRHYTHM_HOST_ADDR", "10.1.2.3")
    assert own_ip(RankEnvironment(0, 1)) == "10.1.2.3"

import pytest

from polyrhythm.core.processes.rendezvous.found import Found
from polyrhythm.core.processes.rendezvous.hosts import Names
from polyrhythm.core.processes.rendezvous.launchers import AgentStore, node_address
from polyrhythm.core.processes.rendezvous.places import DEFAULT_PORT, KeptStore, RankZero
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment, find_rank_environment
from polyrhythm.errors import CompositionError

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_RANK": "1"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "12345"}
BATCH_STEP = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
INDEXED_JOB = {"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "train-0.train", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def test_torchruns_variables_give_a_process_its_rank() -> None:
    assert find_rank_environment(TORCHRUN) == RankEnvironment(3, 4, RankZero("10.0.0.1", 1234))
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"}
    expected = RankEnvironment(3, 4, Found(AgentStore("10.0.0.1", 1234), "polyrhythm/rendezvous/a-2", "10.0.0.1"))
    assert find_rank_environment({**TORCHRUN, **agent}) == expected


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("node7", "node7"), ("gpu[03-07,12],login1", "gpu03"), ("a,b[1-2]", "a"), ("rack1n[9,11]", "rack1n9")],
)
def test_slurms_variables_give_a_process_its_rank(nodes: str, first: str) -> None:
    place = RankZero(first, DEFAULT_PORT + 2345, Names(otherwise=node_address))
    assert find_rank_environment({**SLURM, "SLURM_STEP_NODELIST": nodes}) == RankEnvironment(1, 2, place)


def test_the_tasks_of_a_step_on_one_node_meet_at_loopback() -> None:
    given = {**SLURM, "SLURM_STEP_NODELIST": "node7", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "2"}
    assert find_rank_environment(given) == RankEnvironment(1, 2, RankZero(port=DEFAULT_PORT + 2345))


@pytest.mark.parametrize("given", [OPEN_MPI, HYDRA], ids=["Open MPI", "MPICH"])
def test_mpis_variables_give_a_process_its_rank_also_inside_a_batch_job(given: dict[str, str]) -> None:
    for also in ({}, BATCH_STEP):
        assert find_rank_environment({**also, **given}) == RankEnvironment(1, 2, RankZero())
        assert find_rank_environment({**also, **given, "MASTER_ADDR": "10.0.0.1"}) == RankEnvironment(1, 2, RankZero("10.0.0.1"))
        assert find_rank_environment({**also, **given, **TORCHRUN}).rank == 3


def test_the_tasks_of_a_step_are_slurms_though_srun_speaks_pmi() -> None:
    step = {**SLURM, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[0-1]"}
    pmi = {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_JOBID": "12345.0", "PMI_FD": "5"}
    assert find_rank_environment({**step, **pmi}) == find_rank_environment(step)


def test_two_jobs_of_open_mpi_on_one_host_meet_at_two_ports() -> None:
    places = [find_rank_environment({**OPEN_MPI, "PMIX_NAMESPACE": job}).place for job in ("1585905665", "1585905777")]
    assert places[0] != places[1]


@pytest.mark.parametrize("local", [{"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, {"MPI_LOCALNRANKS": "1"}, {}])
def test_processes_of_mpi_on_several_hosts_need_an_address(local: dict[str, str]) -> None:
    given = HYDRA if "MPI_LOCALNRANKS" in local else OPEN_MPI
    several = {name: value for name, value in {**given, **local}.items() if local or name != "OMPI_COMM_WORLD_LOCAL_SIZE"}
    with pytest.raises(CompositionError, match=r"MPI started 2 processes, of which .* MASTER_ADDR is not set: .* mpirun -x MASTER_ADDR"):
        find_rank_environment(several)


def test_an_indexed_job_gives_a_pod_its_rank() -> None:
    environment = find_rank_environment(INDEXED_JOB)
    assert (environment.rank, environment.workers) == (1, 2)
    assert environment.place == RankZero("train-0.train", names=Names(300.0)), "the first pod may not have started"


def test_a_launcher_of_ours_states_where_it_keeps_the_store() -> None:
    given = {"RANK": "0", "WORLD_SIZE": "2", "POLYRHYTHM_STORE": "10.0.0.1:1234"}
    assert find_rank_environment(given) == RankEnvironment(0, 2, KeptStore("10.0.0.1", 1234))
    assert find_rank_environment({**given, "POLYRHYTHM_STORE": "[::1]:9"}).place == KeptStore("::1", 9)
    with pytest.raises(CompositionError, match="POLYRHYTHM_STORE='here' is no host:port"):
        find_rank_environment({**given, "POLYRHYTHM_STORE": "here"})


HALVES = {
    "torchrun": ({"RANK": "0"}, r"\(RANK=0\), and WORLD_SIZE is not set"),
    "a number alone": ({"WORLD_SIZE": "4"}, r"\(WORLD_SIZE=4\), and RANK is not set"),
    "Open MPI": ({"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE is not set"),
    "a shell of salloc": ({"SLURM_NTASKS": "4"}, "started by SLURM .*SLURM_PROCID is not set"),
    "Kubernetes": ({"JOB_COMPLETION_INDEX": "2"}, r"Kubernetes \(JOB_COMPLETION_INDEX=2\), and WORLD_SIZE is not set"),
    "a task of Ray": ({"RAY_RAYLET_PID": "77"}, r"Ray \(RAY_RAYLET_PID=77\), and RANK and WORLD_SIZE are not set"),
    "a task of Spark": ({"SPARK_REUSE_WORKER": "1"}, r"Spark \(SPARK_REUSE_WORKER=1\), and RANK and WORLD_SIZE are not set"),
}


@pytest.mark.parametrize("case", HALVES)
def test_a_rank_without_a_world_size_is_refused_with_what_is_missing(case: str) -> None:
    given, message = HALVES[case]
    with pytest.raises(CompositionError, match=f"{message}.*set RANK, WORLD_SIZE and MASTER_ADDR for each process"):
        find_rank_environment(given)


def test_a_pod_without_the_address_of_the_first_is_refused() -> None:
    with pytest.raises(CompositionError, match="JOB_COMPLETION_INDEX=1 of WORLD_SIZE=2 is set, and MASTER_ADDR is not"):
        find_rank_environment({"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2"})


@pytest.mark.parametrize("given", [{}, {"SLURM_NTASKS": "1"}, {"RANK": "0", "WORLD_SIZE": "1", "RAY_RAYLET_PID": "77"}])
def test_without_others_there_is_one_worker(given: dict[str, str]) -> None:
    environment = find_rank_environment(given)
    assert (environment.rank, environment.workers) == (0, 1)


def test_a_process_alone_meets_no_other_at_any_port() -> None:
    assert find_rank_environment({}) == RankEnvironment(0, 1, RankZero(port=0)), "so that several may run at once"


def test_a_number_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(CompositionError, match="RANK='first'"):
        find_rank_environment({"RANK": "first", "WORLD_SIZE": "2"})
    with pytest.raises(CompositionError, match="ranks go from 0 to 1"):
        find_rank_environment({"RANK": "2", "WORLD_SIZE": "2"})

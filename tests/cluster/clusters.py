"""Clusters, jobs and random states that the tests of the decision share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from polyrhythm.cluster import (
    Action,
    BinPack,
    Cluster,
    ClusterDevice,
    ClusterEvent,
    ClusterHost,
    ClusterJob,
    ClusterState,
    DeviceTopology,
    DomainLevel,
    FastestRing,
    FirstDevices,
    FirstIn,
    GangPlacement,
    JobEnded,
    JobPending,
    JobSubmitted,
    LeastAttained,
    LeastFragmentation,
    NoPreemption,
    PartLost,
    PartRestored,
    PartSuspected,
    Queue,
    Quota,
    SchedulerConfig,
    ShortestRemaining,
    SpreadNodes,
    StrictLine,
    WorkerDemand,
    decide,
)

CONFIGS = {
    "strict": SchedulerConfig(FirstIn(), line=StrictLine(), preemption=NoPreemption()),
    "fifo": SchedulerConfig(FirstIn(), GangPlacement(BinPack(), FirstDevices())),
    "spread": SchedulerConfig(FirstIn(), GangPlacement(SpreadNodes())),
    "topology": SchedulerConfig(FirstIn(), GangPlacement(FastestRing())),
    "frag": SchedulerConfig(FirstIn(), GangPlacement(LeastFragmentation())),
    "las": SchedulerConfig(LeastAttained((50.0, 400.0))),
    "srtf": SchedulerConfig(ShortestRemaining()),
}
"""Policies of every kind; the laws hold for each."""

QUEUES = (
    Queue("research"),
    Queue("vision", "research", devices=Quota(deserved=6), cores=Quota(deserved=8)),
    Queue("text", "research", devices=Quota(deserved=2, weight=2)),
    Queue("default", devices=Quota(deserved=4, limit=14)),
)


def a_cluster(random: Random, queues: Sequence[Queue] = QUEUES) -> Cluster:
    """Two to six hosts in racks, some with devices, some of cores only."""
    hosts = []
    for number in range(random.randint(2, 6)):
        count = random.choice((0, 2, 4, 8))
        topology = {
            0: None,
            2: DeviceTopology.groups([2], 50e9, 10e9),
            4: DeviceTopology.groups([2, 2], 50e9, 10e9),
            8: DeviceTopology.cube_mesh(),
        }
        devices = tuple(ClusterDevice(random.choice(("a", "b")), memory=random.choice((16, 32)) * 10**9) for _ in range(count))
        cores, memory = random.choice((8, 16, 32)), random.choice((32, 64)) * 10**9
        labels = (("rack", f"r{number // 2}"),)
        hosts.append(ClusterHost(f"host-{number}", cores, memory, devices, topology[count], labels=labels))
    return Cluster("random", tuple(hosts), (DomainLevel("rack", 5e9),), tuple(queues))


def a_job(random: Random, name: str, queues: Sequence[str] = ("vision", "text", "default")) -> ClusterJob:
    """A job of one to six workers, which may be malleable, prioritised or of another queue."""
    devices = random.choice((0, 0, 1, 1, 1, 2, 4))
    workers = random.randint(1, 6)
    demand = WorkerDemand(
        devices,
        milli=random.choice((1000, 1000, 300, 500)) if devices == 1 else 1000,
        device_memory=random.choice((0, 0, 20 * 10**9)) if devices else 0,
        models=random.choice(((), (), ("a",))) if devices else (),
        cores=random.choice((1, 2, 6)),
        memory=random.choice((0, 4, 24)) * 10**9,
    )
    return ClusterJob(
        name,
        demand,
        workers,
        random.choice((None, max(1, workers // 2))),
        random.choice(queues),
        random.choice((0, 0, 0, 5)),
        random.random() < 0.8,
        random.choice((None, 50.0, 500.0)),
        *random.choice(((None, "preferred"), ("rack", "preferred"), ("rack", "required"), ("host", "required"))),
    )


def happenings(random: Random, state: ClusterState, number: int) -> Iterable[JobSubmitted | ClusterEvent]:
    """One thing that may happen next."""
    running = list(state.running)
    choice = random.random()
    if choice < 0.55:
        return [JobSubmitted(a_job(random, f"job-{number}", [queue.name for queue in state.cluster.queues if queue.name != "research"]))]
    if choice < 0.85:
        return [JobEnded(random.choice(running))] if running else []
    host = random.choice(state.cluster.hosts)
    if choice < 0.87:
        return [PartSuspected(host.name)]
    if choice < 0.93:
        device = random.randrange(len(host.devices)) if host.devices and random.random() < 0.5 else None
        return [PartLost(host.name, device)]
    return [PartRestored(*part) for part in sorted(state.lost | state.suspected, key=str)[:1]]


def check(state: ClusterState, configured: str = "") -> None:
    """No gang is partial, and nothing is used twice or while it is lost."""
    used: Counter[tuple[str, int]] = Counter()
    cores: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for name, placement in state.running.items():
        job = state.jobs[name].job
        assert job.least <= len(placement.slots) <= job.workers, (configured, name)
        for slot in placement.slots:
            assert state.healthy(slot.host, slot.devices), (configured, name, slot)
            assert len(set(slot.devices)) == job.demand.devices
            used.update({(slot.host, device): job.demand.milli for device in slot.devices})
            cores[slot.host] += job.demand.millicores
            memory[slot.host] += job.demand.memory
        if job.level and job.mode == "required":
            hosts = {state.cluster.index[slot.host] for slot in placement.slots}
            assert any(hosts <= set(members) for _, members in state.cluster.domains(job.level))
    assert all(milli <= 1000 for milli in used.values()), configured
    for host in state.cluster.hosts:
        assert cores[host.name] <= host.cores * 1000
        assert memory[host.name] <= host.memory


def settled(state: ClusterState, config: SchedulerConfig, now: float, most: int = 200) -> tuple[ClusterState, list[Action]]:
    """The state when another decision changes nothing, and all that was done until then; what each decision leaves is checked."""
    done: list[Action] = []
    for _ in range(most):
        actions = decide(state, now, config)
        acted = [action for action in actions if not isinstance(action, JobPending)]
        if not acted:
            return state, done
        state = state.done(actions, now)
        check(state)
        done += acted
    raise AssertionError(f"no end after {most} decisions: {done[-6:]}")


def histories(seed: int, config: SchedulerConfig, length: int = 20) -> Iterator[tuple[ClusterState, float]]:
    """Random states, each of them after the last decision and something that happened; they settle before the next happens."""
    random = Random(seed)
    state, now = ClusterState(a_cluster(random)), 0.0
    for number in range(length):
        now += random.choice((0.0, 10.0, 100.0))
        for event in happenings(random, state, number):
            state = state.after(event, now)
        yield state, now
        state, _ = settled(state, config, now)

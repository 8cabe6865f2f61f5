"""The agent of one host of a calibration: `python -m polyrhythm.tools.measuring.hosts.survey_agent`, as ssh starts it.

It reads orders on its standard input and writes news on its standard output; what the JOB prints goes to the standard error. When the
input ends, or nothing came for a minute, it ends with all that it has started.
"""

from __future__ import annotations

import os
import queue
import selectors
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import cloudpickle
import msgspec

from polyrhythm.core.job_files.script import arguments
from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.places import HOST_ADDRESS, Attendee, OpenStore, RankZero
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.rendezvous.secret import SECRET
from polyrhythm.core.records.outcome import versions
from polyrhythm.errors import CompositionError, PolyrhythmError, UnknownNameError, WorkloadError, sentence
from polyrhythm.hardware.machines import Device, Profile
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.placement import Local
from polyrhythm.tools.measuring.calibrate import APART, device_profile
from polyrhythm.tools.measuring.hosts.host_messages import (
    SILENCE_SECONDS,
    HostHello,
    LinksCounted,
    LinksMeasured,
    MeetingOpened,
    MeetOthers,
    OpenMeeting,
    StepsTimed,
    StillThere,
    SurveyFailed,
    SurveyNews,
    SurveyOrder,
    TimeSteps,
    TimeWithin,
    WithinTimed,
)
from polyrhythm.tools.measuring.links import Follow, congestion_here, local_between, network_between, survey_job, unfollowed
from polyrhythm.tools.measuring.machine_speed import machine_here
from polyrhythm.workloads.load import load_workload

_ENDING_SECONDS = 5.0
_PAUSE_SECONDS = 1.0


class AgentChannel:
    """The standard input and output of this process, kept for orders and news: what else reads or writes there gets nothing, or stderr."""

    def __init__(self) -> None:
        self._input = os.dup(0)
        self._output = os.fdopen(os.dup(1), "wb")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self._orders: queue.SimpleQueue[SurveyOrder] = queue.SimpleQueue()

    def listen(self, end: Callable[[], None]) -> None:
        """Take orders in another thread; `end` is called there when no more can come."""
        threading.Thread(target=self._read, args=(end,), name="polyrhythm orders", daemon=True).start()

    def next(self) -> SurveyOrder:
        """The next order; waits for it."""
        return self._orders.get()

    def say(self, news: SurveyNews) -> None:
        """Send news. Raises OSError where nobody takes them."""
        self._output.write(msgspec.json.encode(news) + b"\n")
        self._output.flush()

    def _read(self, end: Callable[[], None]) -> None:
        decoder = msgspec.json.Decoder(SurveyOrder)
        rest, heard = b"", time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._input, selectors.EVENT_READ)
            while time.monotonic() < heard + SILENCE_SECONDS:
                if not selector.select(_PAUSE_SECONDS):
                    continue
                if not (read := os.read(self._input, 1 << 16)):
                    break
                heard = time.monotonic()
                *lines, rest = (rest + read).split(b"\n")
                for order in map(decoder.decode, lines):
                    if not isinstance(order, StillThere):
                        self._orders.put(order)
        end()


class SurveyAgent:
    """Carries out the orders that come by `channel`, one after the other, in a directory of its own that it removes."""

    def __init__(self, channel: AgentChannel, directory: Path) -> None:
        self._channel = channel
        self._directory = directory
        self._opened: OpenStore | None = None

    def run(self) -> None:
        """Say that it is there, and carry orders out until it is interrupted."""
        self._channel.say(hello())
        while True:
            order = self._channel.next()
            try:
                self._carry_out(order)
            except PolyrhythmError as problem:
                composed = isinstance(problem, CompositionError | WorkloadError | UnknownNameError)
                self._channel.say(SurveyFailed(sentence(problem), composed))

    def _carry_out(self, order: SurveyOrder) -> None:
        match order:
            case StillThere():
                pass
            case TimeSteps():
                self._channel.say(time_steps(order, self._directory))
            case TimeWithin():
                found = local_between()
                self._channel.say(WithinTimed(found.latency, found.bandwidth))
            case OpenMeeting():
                self._opened = open_meeting(order)
                self._channel.say(MeetingOpened(self._opened.port))
            case MeetOthers():
                network = meet(order, self._opened, lambda done, pairs: self._channel.say(LinksCounted(done, pairs)))
                self._channel.say(LinksMeasured("" if order.rank else network_json(network)))


def hello() -> HostHello:
    """What is known of this host at once."""
    there = os.environ.get("SSH_CONNECTION", "").split()
    caller, _, address, *_ = there if len(there) > 3 else ["", "", ""]
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return HostHello(versions(), memory, address, caller)


def time_steps(order: TimeSteps, directory: Path) -> StepsTimed:
    """The machine, from steps of the JOB; its file is written into `directory` first. Raises what the JOB raises."""
    job = order.job
    if order.source is not None:
        name, colon, function = job.partition(":")
        file = directory / name
        file.write_text(order.source, encoding="utf-8")
        job = f"{file}{colon}{function}"
    strategy = cloudpickle.loads(order.strategy) if order.strategy else APART

    def timed(train: Train) -> Profile:
        return device_profile(train, workers=order.workers, steps=order.steps, seed=order.seed, strategy=strategy)

    with ExitStack() as held:
        if order.source is not None:
            held.enter_context(arguments(job.rpartition(":")[0] or job, order.arguments))
        if order.strategy:
            return StepsTimed(profile=timed(load_workload(job, order.settings)))
        machine = machine_here(load_workload(job), job, order.settings, timed)
    return StepsTimed(device=machine) if isinstance(machine, Device) else StepsTimed(profile=machine)


def open_meeting(order: OpenMeeting) -> OpenStore:
    """A store that listens for the others: only then can they be told its port, which nobody else can take."""
    _reached(order.secret, order.own)
    return RankZero(order.address, 0).opened(Attendee(0, order.workers))


def meet(order: MeetOthers, opened: OpenStore | None, follow: Follow) -> Network:
    """The network between this host and the others, who all are given such an order; the first has `opened` the meeting."""
    _reached(order.secret, order.own)
    within = Local() if order.within is None else Local(*order.within)
    place = RankEnvironment(order.rank, order.workers, opened or RankZero(order.address, order.port))
    with enter(survey_job(order.workers), lambda event: None, place) as joined:
        group = Group.of_workers(order.workers, order.rank)
        following = unfollowed if order.rank else follow
        return network_between(joined.context, group, "measured", within, congestion_here(), following)


def _reached(secret: str, own: str) -> None:
    """Let the rendezvous find the secret, and where the others reach this host."""
    os.environ[SECRET] = secret
    if own:
        os.environ[HOST_ADDRESS] = own


def end_in_time(directory: Path) -> None:
    """Interrupt the main thread, and end this process and all of its group where that does not help."""
    with suppress(ProcessLookupError):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    time.sleep(_ENDING_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Be the agent until the input ends."""
    with suppress(PermissionError):  # it leads a group already
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts it behind its back has it ignored
    channel = AgentChannel()
    with suppress(KeyboardInterrupt, BrokenPipeError), tempfile.TemporaryDirectory(prefix="polyrhythm-") as kept:
        channel.listen(lambda: end_in_time(Path(kept)))
        SurveyAgent(channel, Path(kept)).run()


if __name__ == "__main__":
    main()

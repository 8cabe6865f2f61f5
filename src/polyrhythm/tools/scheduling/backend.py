"""The protocol of backends, and one round of a scheduler: observe, decide, carry out. `Kubernetes` and hosts of one's own are backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from polyrhythm.cluster import Action, ClusterState, JobPending, SchedulerConfig, decide
from polyrhythm.errors import CompositionError

if TYPE_CHECKING:
    from polyrhythm.tools.scheduling.job_run import CarriedJob


class SchedulerBackend(Protocol):
    """Machines on which jobs are placed."""

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state with all that has happened since: jobs that came and ended, workers that are in place, what was lost and came back."""

    def carry_out(self, action: Action, now: float) -> bool:
        """Do it, as a whole or not at all; False if it cannot be done now, after which the next round decides anew."""


class JobsBackend(SchedulerBackend, Protocol):
    """Machines on which a list of jobs is carried out from its beginning to its end."""

    @property
    def runs(self) -> Mapping[str, CarriedJob]:
        """What has become of each job."""

    @property
    def health(self) -> Mapping[str, str]:
        """The health of each host, in a word."""

    @property
    def agents(self) -> Mapping[str, int]:
        """The process here with which the workers of a host end, where there is one."""

    @property
    def over(self) -> bool:
        """True when all jobs have ended or failed."""

    def ready(self) -> bool:
        """True when enough is known of all hosts for the first decision."""

    def close(self) -> None:
        """End all workers."""


@dataclass(frozen=True, slots=True)
class SchedulerRound:
    """The outcome of a round: the state, the actions that were carried out, and a sentence for each job that waits."""

    state: ClusterState
    done: tuple[Action, ...]
    pending: Mapping[str, str]


def schedule_once(backend: SchedulerBackend, state: ClusterState, now: float, config: SchedulerConfig) -> SchedulerRound:
    """One round. What could not be done, and what a decision that could not be done was to make room for, is left to the next."""
    state = backend.observed(state, now)
    done: list[Action] = []
    pending: dict[str, str] = {}
    for action in decide(state, now, config):
        if isinstance(action, JobPending):
            pending[action.job] = action.reason.sentence
            continue
        try:
            after = state.done((action,), now)
        except CompositionError:  # its room was to come from an action before it
            continue
        if backend.carry_out(action, now):
            state = after
            done.append(action)
    return SchedulerRound(state, tuple(done), pending)

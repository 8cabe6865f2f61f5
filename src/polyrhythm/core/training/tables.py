"""The tables that a training function has opened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.common_state import CommonState
from polyrhythm.core.settings import shown
from polyrhythm.core.strategy.hand_over import HandOver
from polyrhythm.core.strategy.service import announce_opening
from polyrhythm.core.strategy.strategy_plan import PlannedExchange, StrategyPlan
from polyrhythm.core.tables.opening import TableOpening
from polyrhythm.core.tables.shape import TableShape
from polyrhythm.core.tables.table import Table
from polyrhythm.core.tables.table_state import TableCrew, TableState
from polyrhythm.core.training.followed import FollowedTable
from polyrhythm.core.training.models import Models
from polyrhythm.errors import CompositionError, WorkloadError


class Tables:
    """The tables of one worker: `states` by name, in the order of opening."""

    def __init__(self, plan: StrategyPlan, context: WorkerContext, models: Models) -> None:
        self.plan = plan
        self.context = context
        self.models = models
        self.states: dict[str, CommonState] = {}
        """All that the worker shares with others besides models: tables, and a whole batch."""
        self.tables: dict[str, TableState] = {}

    def open(self, name: str, shape: TableShape, initial: Tensor | None, cache: int | None, step: Callable[[CommonState], None]) -> Table:
        """Have the servers keep a table; its `clock` calls `step`."""
        self._check(name, cache)
        if initial is not None and not isinstance(initial, Tensor):
            raise WorkloadError(f"worker.table was given initial={shown(initial)}: give a tensor (rows, columns), or nothing for zeros.")
        port = self.context.port
        scope = f"t{len(self.tables)}/"
        crew = self._announce(name, shape, initial, scope)
        state = self.states[name] = self.tables[name] = TableState(name, shape, crew, self.context, port.scoped(scope), cache)
        state.reform = self.models.reform
        self.models.evaluation.follow_state(FollowedTable(state, scope))
        self.models.regrouped.append(partial(self._regroup, state, scope))
        return Table(state, lambda: step(state))

    def _announce(self, name: str, shape: TableShape, initial: Tensor | None, scope: str) -> TableCrew:
        """Announce the table to the servers of the present view; these have the rows of the view before, if there was one."""
        planned = self._keeping()
        crew = TableCrew(self.models.plan.mesh.world(self.context.port.name), planned.servers, planned.exchange.agreement.conditions)
        self.context.agree({f"table {name!r}": str(shape)}, "open the same tables in the same order at every worker.")
        if crew.workers.is_first:
            opening = TableOpening.of(scope, shape)
            for k, server in enumerate(crew.servers):
                given = _part(shape, initial, k, len(crew.servers))
                self.context.perform(announce_opening(self.context.port, opening, server, given))
        return crew

    def _regroup(self, state: TableState, scope: str, handed: HandOver) -> None:
        crew = self._announce(state.name, state.shape, None, scope)
        left = [each["tables"][state.name] for each in handed.left]
        state.regroup(crew, self.context.port.scoped(scope), handed.state["tables"][state.name], handed.own, left)

    def finish(self) -> None:
        """Finish all of them; worker 0 then has their content."""
        for state in self.states.values():
            state.finish()

    def weights(self) -> dict[str, Tensor]:
        """The content by name, at worker 0, after `finish`."""
        found: dict[str, Tensor] = {}
        for name, state in self.tables.items():
            if state.content is not None:
                found |= state.shape.kind.named(name, state.content, state.shape.columns)
        return found

    def _check(self, name: str, cache: int | None) -> None:
        """Raise an error for a table that cannot be opened."""
        if self.models.checked:
            raise WorkloadError(f"worker.table({name!r}) was called after the first step: open every table before training begins.")
        if not isinstance(name, str) or not name or name in self.states:
            raise WorkloadError(f"worker.table was given the name {name!r}: give each table a different name.")
        if cache is not None and (isinstance(cache, bool) or not isinstance(cache, int) or cache < 0):
            raise WorkloadError(f"worker.table was given cache={cache!r}: give a number of rows, or None for no bound.")

    def _keeping(self) -> PlannedExchange:
        """The exchange whose servers keep tables."""
        for planned in reversed(self.models.plan.exchanges):
            if planned.servers:
                return planned
        raise CompositionError(
            f"Tables are kept by servers, and {self.plan.strategy.name} has none: choose a system with servers, such as ssp, or compose "
            "pr.Strategy(consistency=pr.consistency.Bounded(3), topology=pr.topology.Server(2))."
        )


def _part(shape: TableShape, initial: Tensor | None, server: int, servers: int) -> tuple[Tensor, ...]:
    """The initial rows of a server: their indices, as it numbers them, and their packet."""
    if initial is None:
        return ()
    if len(initial) != shape.rows:
        raise WorkloadError(f"worker.table was given {len(initial)} initial rows for a table of {shape.rows}: give a row for each.")
    rows = shape.kept_by(server, servers)
    return rows // servers, *shape.kind.take(shape.kind.packed(initial, shape.columns), rows)

"""The state of torch.distributed of each rank, where several ranks share a process."""

from __future__ import annotations

from typing import Any

from polyrhythm.core.torch_private.distributed import WorldState
from polyrhythm.torch_programs.ranks import current


class RankWorld(WorldState):  # type: ignore[misc]
    """torch's `_world` of one rank: its groups, with their names, ranks and tags."""

    pg_map: Any = None
    pg_names: Any = None
    pg_group_ranks: Any = None
    pg_backend_config: Any = None
    tags_to_pg: Any = None
    pg_to_tag: Any = None
    group_count: Any = 0

    def __init__(self) -> None:
        super().__init__()
        self.pg_map, self.pg_names, self.pg_group_ranks = {}, {}, {}
        self.pg_backend_config, self.tags_to_pg, self.pg_to_tag = {}, {}, {}


class WorldByThread:
    """The `_world` of the rank that asks; for other threads the process's own."""

    def __init__(self, own: Any) -> None:
        object.__setattr__(self, "own", own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._found(), name, value)

    def _found(self) -> Any:
        rank = current()
        return object.__getattribute__(self, "own") if rank is None else rank.world

"""The sessions that families of models serve: clients name a member, and plans and queues have the session of its family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyrhythm.serving.serving_plan import DutySlot, ServingPlan
from polyrhythm.serving.sessions import ServingSession


@dataclass(frozen=True, slots=True)
class FamilyMembers:
    """The members of each family's session by its name; a session that is no member stands for itself."""

    by_family: Mapping[str, tuple[ServingSession, ...]] = field(default_factory=dict)

    def asked(self, sessions: Sequence[ServingSession]) -> tuple[ServingSession, ...]:
        """The sessions that clients name, of those that are planned: the members in place of their family."""
        return tuple(each for one in sessions for each in self.by_family.get(one.name, (one,)))

    def families(self) -> dict[str, str]:
        """The name of the family's session for each member."""
        return {each.name: family for family, members in self.by_family.items() for each in members}

    def variants(self) -> dict[str, str]:
        """The model of each member: the variant of the family that answers it."""
        return {each.name: each.model for members in self.by_family.values() for each in members}

    def admitted(self, plan: ServingPlan) -> ServingPlan:
        """The plan with each member's part of its family's rate, for buckets: the burst of a member costs no other of its family."""
        machines = [replace(each, slots=tuple(part for slot in each.slots for part in self._parts(slot))) for each in plan.machines]
        return replace(plan, machines=tuple(machines))

    def _parts(self, slot: DutySlot) -> tuple[DutySlot, ...]:
        members = self.by_family.get(slot.session)
        if members is None:
            return (slot,)
        total = sum(each.rate for each in members)
        return tuple(
            replace(slot, session=each.name, rate=slot.rate * (each.rate / total if total else 1 / len(members))) for each in members
        )

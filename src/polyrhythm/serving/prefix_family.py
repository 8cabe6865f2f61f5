"""Models that share their first layers as one session: the prefix runs once on the mixed batch, each rest on its own requests.

After Shen et al., 2019, section 6.3 (prefix batching). A family is declined where the plan with it is not better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.serving.family_members import FamilyMembers
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.planning import plan
from polyrhythm.serving.serving_plan import ServingPlan
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession

_DEFAULT = PlanningRules()


@dataclass(frozen=True, slots=True)
@checked
class PrefixFamily:
    """The models `variants`, whose first layers are `prefix`; `prefixes` and `suffixes` have their profiles on each kind of machine.

    A suffix profile has the variant as its model. Raises CompositionError for a variant without a suffix where the prefix has a profile.
    """

    prefix: str
    variants: tuple[str, ...]
    prefixes: tuple[LatencyProfile, ...]
    suffixes: tuple[LatencyProfile, ...]

    def __post_init__(self) -> None:
        known = {(each.model, each.kind) for each in self.suffixes}
        missing = [(name, each.kind) for each in self.prefixes for name in self.variants if (name, each.kind) not in known]
        if len(self.variants) < 2 or not self.prefixes or missing:
            name, kind = missing[0] if missing else ("", "")
            about = f"no suffix of {name!r} on {kind!r}" if missing else "fewer than two variants, or no profile of its prefix"
            raise CompositionError(f"The family {self.prefix!r} has {about}: give each variant's, for each kind of machine.")

    def profiles(self) -> tuple[LatencyProfile, ...]:
        """The profile of the whole family on each kind of machine, for batches that mix its variants.

        l(n) = prefix(n) + Σ suffix(⌈n / m⌉) over the m = min(n, variants) costliest: a batch that touches every variant is the slowest.
        """
        return tuple(self._on(each) for each in self.prefixes)

    def session(self, sessions: Sequence[ServingSession]) -> ServingSession:
        """The sessions of its variants as one, with the strictest of their objectives."""
        own = [one for one in sessions if one.model in self.variants]
        return ServingSession(self.prefix, self.prefix, min(one.slo for one in own), sum(one.rate for one in own))

    def _on(self, prefix: LatencyProfile) -> LatencyProfile:
        own = [each for each in self.suffixes if each.kind == prefix.kind and each.model in self.variants]
        p99, nbytes = [], []
        for batch in range(1, prefix.largest + 1):
            touched = min(batch, len(own))
            part = -(-batch // touched)
            if any(each.largest < part for each in own):
                break
            p99.append(prefix.latency(batch) + sum(sorted((each.latency(part) for each in own), reverse=True)[:touched]))
            nbytes.append(prefix.nbytes[batch - 1] + sum(each.nbytes[part - 1] for each in own))
        rising = [max(p99[: index + 1]) for index in range(len(p99))]
        sizes = [max(nbytes[: index + 1]) for index in range(len(nbytes))]
        outside = (max(each.before for each in own), max(each.after for each in own))
        loading = prefix.loading + sum(each.loading for each in own)
        return LatencyProfile(self.prefix, prefix.kind, tuple(rising), tuple(sizes), *outside, loading)


@dataclass(frozen=True, slots=True)
class WeighedFamily:
    """The cost of the plan with and without the family `name`, the requests per second that each leaves unserved, and the choice."""

    name: str
    used: bool
    cost: float
    cost_apart: float
    unserved: float
    unserved_apart: float

    @property
    def sentence(self) -> str:
        """The choice with its figures, in words."""
        figures = f"the plan with it costs {self.cost:g} and leaves {self.unserved:.4g} requests/s unserved"
        apart = f"the one without it {self.cost_apart:g} and {self.unserved_apart:.4g}"
        return f"The family {self.name} is {'used' if self.used else 'declined'}: {figures}, {apart}."


@dataclass(frozen=True, slots=True)
class FamilyChoice:
    """The plan, its sessions and profiles, the families that it uses, and what each family would change.

    `members` has the sessions that a family's session stands for.
    """

    plan: ServingPlan
    sessions: tuple[ServingSession, ...]
    profiles: tuple[LatencyProfile, ...]
    used: tuple[PrefixFamily, ...]
    members: FamilyMembers = field(default_factory=FamilyMembers)
    weighed: tuple[WeighedFamily, ...] = ()


def plan_families(
    sessions: Sequence[ServingSession],
    machines: Sequence[ServingMachine],
    profiles: Sequence[LatencyProfile],
    families: Sequence[PrefixFamily],
    rules: PlanningRules = _DEFAULT,
) -> FamilyChoice:
    """Plan with each family as one session, one family after the other, where that leaves less unserved or costs less."""
    made, _ = plan(sessions, machines, profiles, None, rules)
    best = FamilyChoice(made, tuple(sessions), tuple(profiles), ())
    for family in families:
        tried = joined(best, family)
        if tried == best:
            continue
        tried = replace(tried, plan=plan(tried.sessions, machines, tried.profiles, None, rules)[0])
        (left, cost), (left_apart, cost_apart) = _value(tried.plan), _value(best.plan)
        used = (left, cost) < (left_apart, cost_apart)
        weighed = (*best.weighed, WeighedFamily(family.prefix, used, cost, cost_apart, left, left_apart))
        best = replace(tried if used else best, weighed=weighed)
    return best


def joined(choice: FamilyChoice, family: PrefixFamily) -> FamilyChoice:
    """The sessions of the family's variants as one, whose plan is still to be made; `choice` itself where fewer than two are there."""
    own = [one for one in choice.sessions if one.model in family.variants]
    if len(own) < 2:
        return choice
    others = tuple(one for one in choice.sessions if one not in own)
    return replace(
        choice,
        sessions=(*others, family.session(own)),
        profiles=(*choice.profiles, *family.profiles()),
        used=(*choice.used, family),
        members=FamilyMembers({**choice.members.by_family, family.prefix: tuple(own)}),
    )


def _value(made: ServingPlan) -> tuple[float, float]:
    return (round(sum(one.rate for one in made.unserved), 6), made.cost)

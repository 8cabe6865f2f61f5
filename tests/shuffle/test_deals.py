"""Deals of an epoch among members that change: every sample once, equally many batches, and today's batches without a change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.protocols.deal import Deal, EndedDeal, Spans, dealt, merged, nsamples, without
from polyrhythm.core.protocols.deal_rules import InRounds, InShares, OfTotal


@dataclass(frozen=True)
class Story:
    """An epoch of `length` samples under members that have changed; `joins`: workers joined where others held a batch."""

    length: int
    rule: Any
    members: tuple[str, ...]
    ended: tuple[EndedDeal, ...]
    joins: bool


@st.composite
def stories(draw: st.DrawFn, lockstep: bool = False) -> Story:
    """Up to four changes, in which some leave or are lost with what they hold, and others join."""
    rule = draw(st.sampled_from([InRounds, InShares, lambda size, drop: OfTotal(8 * size, drop)]))(
        draw(st.integers(1, 6)), draw(st.booleans())
    )
    workers = draw(st.integers(1, 5))
    length, members = draw(st.integers(8, 150)), tuple(f"worker/{k}" for k in range(workers))
    ended: list[EndedDeal] = []
    joins = False
    for _ in range(draw(st.integers(0, 4))):
        deal = dealt(length, rule, members, tuple(ended))
        together = draw(st.integers(0, deal.count))
        used = [together if lockstep else draw(st.integers(0, deal.count)) for _ in members]
        most = draw(st.integers(0, 2))
        held = [min(deal.count - count, most if lockstep else draw(st.integers(0, 2))) for count in used]
        staying = [name for name in members if draw(st.booleans())] or [members[0]]
        new = [f"worker/{workers + k}" for k in range(draw(st.integers(0, min(2, 6 - len(staying)))))]
        workers += len(new)
        ended.append(EndedDeal(members, tuple(used), tuple(held)))
        members = (*staying, *new)
        joins = joins or dealt(length, rule, members, tuple(ended)).repeated > 0
    return Story(length, rule, members, tuple(ended), joins)


def batches(deal: Deal) -> list[list[Spans]]:
    """By member: the positions of its batches."""
    return [[batch.spans for batch in deal.batches(rank)] for rank in range(len(deal.members))]


def positions(spans: Spans) -> list[int]:
    return [k for start, stop in spans for k in range(start, stop)]


def used(story: Story) -> list[int]:
    """The positions that the members of all deals have used, if those of the last one use all."""
    found = []
    for change, each in enumerate(story.ended):
        deal = dealt(story.length, story.rule, each.members, story.ended[:change])
        for rank, count in enumerate(each.used):
            found += [k for batch in islice(deal.batches(rank), count) for k in positions(batch.spans)]
    last = dealt(story.length, story.rule, story.members, story.ended)
    return found + [k for mine in batches(last) for spans in mine for k in positions(spans)]


def left_out(story: Story) -> int:
    """How many samples the rule leaves out at most, at the last members."""
    members = len(story.members)
    if isinstance(story.rule, OfTotal):
        return story.rule.total - 1 if story.rule.drop_last else members - 1
    return members * story.rule.batch_size - 1 if story.rule.drop_last else members - 1


@given(stories())
def test_every_sample_is_used_once_but_for_what_the_rule_leaves_out(story: Story) -> None:
    found = Counter(used(story))
    assert set(found) <= set(range(story.length))
    assert story.length - len(found) <= left_out(story)
    if not story.joins:
        assert set(found.values()) <= {1}


@given(stories())
def test_all_members_of_a_deal_have_equally_many_batches(story: Story) -> None:
    deal = dealt(story.length, story.rule, story.members, story.ended)
    assert {len(mine) for mine in batches(deal)} == {deal.count}
    assert all(nsamples(spans) for mine in batches(deal) for spans in mine)


@given(stories())
def test_a_batch_that_is_held_stays_at_its_holder_and_comes_first(story: Story) -> None:
    if not story.ended:
        return
    last = story.ended[-1]
    before = dealt(story.length, story.rule, last.members, story.ended[:-1])
    after = dealt(story.length, story.rule, story.members, story.ended)
    for rank, name in enumerate(story.members):
        if name in last.members:
            old = last.members.index(name)
            count = last.used[old]
            assert count is not None
            held = [batch.spans for batch in islice(before.batches(old), count, count + last.held[old])]
            assert [batch.spans for batch in islice(after.batches(rank), len(held))] == held


@given(stories(lockstep=True))
def test_samples_are_repeated_only_where_workers_join_others_that_hold_a_batch(story: Story) -> None:
    repeated = sum(Counter(used(story)).values()) - len(set(used(story)))
    if repeated:
        assert story.joins


@given(st.integers(1, 200), st.integers(1, 7), st.integers(1, 9), st.booleans())
def test_without_a_change_a_deal_in_rounds_is_a_slice_of_each_round(samples: int, workers: int, size: int, drop_last: bool) -> None:
    deal = dealt(samples, InRounds(size, drop_last), tuple(map(str, range(workers))))
    full = samples // (workers * size)
    rest = (samples - full * workers * size) // workers
    for rank in range(workers):
        expected = [(k * workers * size + rank * size, k * workers * size + (rank + 1) * size) for k in range(full)]
        if rest and not drop_last:
            begin = full * workers * size + rank * rest
            expected.append((begin, begin + rest))
        assert [batch.spans for batch in deal.batches(rank)] == [(span,) for span in expected]


@given(stories())
def test_the_unused_samples_are_dealt_in_the_order_of_the_epoch(story: Story) -> None:
    if not isinstance(story.rule, InRounds):
        return
    deal = dealt(story.length, story.rule, story.members, story.ended)
    rounds = zip(*([*mine[len(deal.behind) :]] for mine in batches(deal)), strict=True)
    order = [k for each in rounds for spans in each for k in positions(spans)]
    assert order == sorted(order)


@given(st.integers(1, 200), st.integers(2, 5), st.integers(1, 4), st.data())
def test_a_round_of_a_fixed_total_has_the_same_samples_whoever_is_there(samples: int, workers: int, size: int, data: st.DataObject) -> None:
    rule, members, ended = OfTotal(workers * size), tuple(f"worker/{k}" for k in range(workers)), ()
    rounds: list[list[int]] = []
    for change in range(3):
        deal = dealt(samples, rule, members, ended)
        count = data.draw(st.integers(0, deal.count)) if change < 2 else deal.count
        for each in islice(zip(*batches(deal), strict=True), count):
            rounds.append([k for spans in each for k in positions(spans)])
        ended = (*ended, EndedDeal(members, (count,) * len(members), (0,) * len(members)))
        members = tuple(f"worker/{k}" for k in range(data.draw(st.integers(1, workers * size))))
    full = samples // rule.total
    assert rounds[:full] == [list(range(k * rule.total, (k + 1) * rule.total)) for k in range(full)]


@given(stories())
def test_weights_make_the_mean_over_workers_one_over_samples(story: Story) -> None:
    deal = dealt(story.length, story.rule, story.members, story.ended)
    for each in zip(*(deal.batches(rank) for rank in range(len(story.members))), strict=True):
        sizes = [nsamples(batch.spans) for batch in each]
        if isinstance(story.rule, OfTotal):
            assert [batch.weight for batch in each] == pytest.approx([size * len(each) / sum(sizes) for size in sizes])
            assert max(sizes) - min(sizes) <= 1 or deal.behind
        else:
            assert {batch.weight for batch in each} == {1.0}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))))
def test_spans_are_sets_of_positions(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    mine, theirs = merged(some), merged(others)
    assert positions(mine) == sorted({k for start, stop in some for k in range(start, stop)})
    assert positions(without(mine, theirs)) == sorted(set(positions(mine)) - set(positions(theirs)))

"""Laws of sequence parallelism: attention and models on a divided sequence are those of one process, and send what the formulas say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from polyrhythm.partition.equal_weights import EqualWeights
from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence import (
    AllToAllAttention,
    Consecutive,
    DotProductAttention,
    HeadTail,
    RingAttention,
    RingSelfAttention,
    TokenColumns,
    TokenDropout,
    TokenRows,
    Tokens,
    Tokenwise,
    mean_over,
)
from polyrhythm.partition.sequence.blocks import visible
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace

from .ranks import close, on_ranks
from .styled import counted, divide, put_together, trained

MEMBERS = (RingAttention, RingSelfAttention, AllToAllAttention)
BATCH, HEADS, WIDTH, SYMBOLS, STEPS = 2, 4, 6, 11, 20


def inputs(length: int, groups: int = HEADS) -> list[Tensor]:
    """Queries, keys, values and the gradient of the output."""
    drawn = torch.Generator().manual_seed(length)
    shapes = [(BATCH, heads, length, WIDTH) for heads in (HEADS, groups, groups, HEADS)]
    return [torch.randn(shape, generator=drawn, dtype=torch.float64) for shape in shapes]


def attended(place: Place, style: Any, length: int, causal: bool, groups: int) -> Any:
    """The output and the gradients of queries, keys and values at this rank, put together, and its axis."""
    tokens, axis = style.tokens, place.axis("cp")
    module = DotProductAttention(causal)
    assert not style.refusal(module, place)
    local = style.local(module, "attention", place)
    *given, gradient = (tokens.part(value, axis, 2).detach() for value in inputs(length, groups))
    own = [value.requires_grad_() for value in given]
    output = local(*own)
    forward = dict(axis.nbytes)
    output.backward(gradient)
    results = [output.detach(), *(value.grad for value in own)]
    total = dict(axis.nbytes)
    return [tokens.join(value, axis, 2) for value in results], axis, forward, total


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_a_divided_sequence_is_that_on_a_whole_one(member: Any, ranks: int, causal: bool) -> None:
    """Of 8 ranks, three have none of five tokens."""
    shares = (3, 0, 1, 2, 1, 1, 2, 3)[:ranks]
    cases = [(16, Consecutive(), HEADS), (13, HeadTail(), 2), (5, Consecutive(shares), 1)]

    def program(place: Place, rank: int) -> Any:
        return [attended(place, member(Tokens(length, "cp", order)), length, causal, groups)[0] for length, order, groups in cases]

    results = on_ranks(program, cp=ranks)
    for number, (length, _, groups) in enumerate(cases):
        *whole, gradient = (value.requires_grad_() for value in inputs(length, groups))
        output = F.scaled_dot_product_attention(*whole, is_causal=causal, enable_gqa=True)
        output.backward(gradient.detach())
        for found in results:
            for value, one in zip(found[number], (output.detach(), *(value.grad for value in whole)), strict=True):
                assert one is not None
                close(value, one, 1e-9, 1e-9)


def formula(member: Any, ranks: int, length: int) -> tuple[float, float]:
    """The bytes of a rank in the forward and in the backward pass, for equal parts."""
    share = BATCH * HEADS * length // ranks * WIDTH * 8
    if member is AllToAllAttention:
        return 4 * share * (ranks - 1) / ranks, 4 * share * (ranks - 1) / ranks
    return 2 * (ranks - 1) * share, 4 * (ranks - 1) * share


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_sends_what_the_formula_says(member: Any, ranks: int) -> None:
    style = member(Tokens(16))
    for _, axis, forward, total in on_ranks(lambda place, rank: attended(place, style, 16, True, HEADS), cp=ranks):
        expected = formula(member, ranks, 16)
        assert sum(forward.values()) == expected[0]
        assert sum(total.values()) - sum(forward.values()) == expected[1]
        if member is RingAttention:
            assert axis.calls["shift"] == 3 * (ranks - 1)


class Largest(TorchDispatchMode):
    """Notes the elements of the largest tensor that is made, and counts those of all products."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = self.products = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor):
            self.numel = max(self.numel, found.numel())
            self.products += found.numel() if func.overloadpacket is torch.ops.aten.bmm and found.shape[-1] != WIDTH else 0
        return found


def on_meta(style: Any, ranks: int, rank: int, length: int) -> Largest:
    """A forward and a backward pass without values."""
    place = counted({"cp": ranks}, {"cp": rank})
    local = style.local(DotProductAttention(causal=True), "attention", place)
    own = style.tokens.sizes(ranks)[rank]
    given = [torch.zeros(BATCH, HEADS, own, WIDTH, device="meta", requires_grad=True) for _ in range(3)]
    with Largest() as largest:
        local(*given).sum().backward()
    return largest


@pytest.mark.parametrize(("member", "power"), [(RingAttention, 2), (RingSelfAttention, 1), (AllToAllAttention, 1)])
def test_the_largest_tensor_shrinks_with_the_ranks(member: Any, power: int) -> None:
    """A rank has (L/P)² scores at a time in the ring, L²/P in whole rows, and those of L/P heads for all tokens."""
    length = 512
    for ranks in (2, 4):
        assert on_meta(member(Tokens(length)), ranks, 0, length).numel == BATCH * HEADS * length**2 // ranks**power


def test_heads_and_tails_have_the_same_work_and_hidden_blocks_have_none() -> None:
    length, ranks = 512, 4
    work = {order: [on_meta(RingAttention(Tokens(length, "cp", order)), ranks, k, length).products for k in range(ranks)] for order in
            (Consecutive(), HeadTail())}  # fmt: skip
    assert len(set(work[HeadTail()])) == 1
    assert work[Consecutive()] == [work[Consecutive()][0] * (k + 1) for k in range(ranks)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("order", [Consecutive(), HeadTail(), Consecutive((1, 0, 3, 2))])
def test_blocks_cover_what_is_seen_and_nothing_else(causal: bool, order: Any) -> None:
    spans = order.spans(13, 4)
    for own in spans:
        for other in spans:
            mine, theirs = (torch.tensor([k for span in each for k in range(*span)]) for each in (own, other))
            seen = torch.full((len(mine), len(theirs)), -torch.inf)
            for block in visible(own, other, causal):
                masked = block.masked(torch.zeros(seen[block.queries, block.keys].shape))
                assert (masked == 0).any(0).all(), "each key is seen"
                assert (masked == 0).any(1).all(), "each query sees one"
                seen[block.queries, block.keys] = block.masked(torch.zeros(seen[block.queries, block.keys].shape))
            expected = mine[:, None] >= theirs if causal else torch.ones_like(seen, dtype=torch.bool)
            assert torch.equal(seen == 0, expected)


@pytest.mark.parametrize("member", MEMBERS)
def test_an_axis_that_moves_nothing_counts_what_is_sent(member: Any) -> None:
    style, ranks = member(Tokens(14, "cp", HeadTail())), 3
    for rank, (_, axis, _, total) in enumerate(on_ranks(lambda place, rank: attended(place, style, 14, True, 2), cp=ranks)):
        place = counted({"cp": ranks}, {"cp": rank})
        own = style.tokens.sizes(ranks)[rank]
        given = [torch.zeros(BATCH, heads, own, WIDTH, device="meta", dtype=torch.float64, requires_grad=True) for heads in (HEADS, 2, 2)]
        style.local(DotProductAttention(True), "attention", place)(*given).sum().backward()
        assert dict(place.axis("cp").nbytes) == total
        assert axis.calls - place.axis("cp").calls == {"all_gather": 4}, "by which the results were put together"


@pytest.mark.parametrize("member", MEMBERS)
def test_narrow_numbers_are_added_in_wide_ones(member: Any) -> None:
    def program(place: Place, rank: int) -> Any:
        tokens, axis = Tokens(32), place.axis("cp")
        given = [tokens.part(value.bfloat16(), axis, 2).detach().requires_grad_() for value in inputs(32)[:3]]
        output = member(tokens).local(DotProductAttention(True), "", place)(*given)
        output.sum().backward()
        return [tokens.join(value.detach(), axis, 2) for value in (output, *(value.grad for value in given))]

    whole = [value.bfloat16().double().requires_grad_() for value in inputs(32)[:3]]
    expected = F.scaled_dot_product_attention(*whole, is_causal=True)
    expected.sum().backward()
    for found in on_ranks(program, cp=4):
        for value, one in zip(found, (expected.detach(), *(value.grad for value in whole)), strict=True):
            assert value.dtype == torch.bfloat16
            close(value.double(), one, 2e-2, 4e-2)


class Language(nn.Module):
    """A transformer of one block; `unused` has no gradient."""

    def __init__(self, length: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        width = HEADS * WIDTH
        self.symbols, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(length, width)
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inside, self.outside = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attention = DotProductAttention(causal=True)
        self.up, self.down, self.scores = nn.Linear(width, 10), nn.Linear(10, width), nn.Linear(width, SYMBOLS)
        self.unused = nn.Linear(2, 2)
        self.norm.bias.requires_grad_(False)
        self.double()  # the bias of keys has no gradient but rounding, which Adam makes as large as the others

    def forward(self, symbols: Tensor) -> Tensor:
        x = self.symbols(symbols) + self.places(torch.arange(symbols.shape[1]))
        heads = self.inside(self.norm(x)).unflatten(-1, (3, -1, WIDTH)).permute(2, 0, 3, 1, 4)
        x = x + self.outside(self.attention(*heads).transpose(1, 2).flatten(2))
        scores: Tensor = self.scores(x + self.down(F.gelu(self.up(self.after(x)))))
        return scores


def batch(length: int, step: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(step)
    symbols, targets = (torch.randint(SYMBOLS, (BATCH, length), generator=drawn) for _ in range(2))
    targets[0, : step % length] = -100
    return symbols, targets


def whole_loss(model: nn.Module, step: int, length: int) -> Tensor:
    symbols, targets = batch(length, step)
    return F.cross_entropy(model(symbols).flatten(0, 1), targets.flatten())


def divided_loss(model: nn.Module, step: int, tokens: Tokens, axis: Any) -> Tensor:
    """The loss of this rank's tokens, of whose targets some are ignored."""
    symbols, targets = batch(tokens.length, step)
    own = tokens.part(targets, axis, 1)
    each = F.cross_entropy(model(symbols).flatten(0, 1), own.flatten(), reduction="none")
    return mean_over(each, axis, own.flatten() != -100)


def styles_of(member: Any, tokens: Tokens) -> dict[str, Any]:
    enters, stays = Tokenwise(tokens, enters=-1), Tokenwise(tokens)
    names = ("norm", "inside", "outside", "after", "up", "down", "scores", "unused")
    return {"symbols": enters, "places": enters, "attention": member(tokens), **dict.fromkeys(names, stays)}


def megatron(tokens: Tokens) -> dict[str, Any]:
    enters, stays = Tokenwise(tokens, enters=-1), Tokenwise(tokens)
    columns, rows = Columns("cp"), Rows("cp")
    return {
        "symbols": enters,
        "places": enters,
        "norm": stays,
        "inside": TokenColumns(tokens, Columns("cp", groups=3, unit=WIDTH)),
        "outside": TokenRows(tokens, Rows("cp", unit=WIDTH)),
        "after": stays,
        "up": TokenColumns(tokens, columns),
        "down": TokenRows(tokens, rows),
        "scores": stays,
        "unused": stays,
    }


CUTS = {
    "ring": lambda length: styles_of(RingAttention, Tokens(length, "cp", HeadTail())),
    "rows of scores": lambda length: styles_of(RingSelfAttention, Tokens(length, "cp")),
    "all-to-all": lambda length: styles_of(AllToAllAttention, Tokens(length, "cp")),
    "with tensor parallelism": lambda length: megatron(Tokens(length, "cp")),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("ranks", "length", "steps"), [(1, 7, STEPS), (2, 7, STEPS), (4, 10, 4), (8, 9, 2)])
def test_a_model_trains_on_a_divided_sequence_as_on_a_whole_one(cut: str, ranks: int, length: int, steps: int) -> None:
    losses = trained(whole := Language(length), lambda model, step: whole_loss(model, step, length), steps)

    def program(place: Place, rank: int) -> Any:
        styles = CUTS[cut](length)
        tokens = styles["norm"].tokens
        model = divide(Language(length), styles, place)
        found = trained(model, lambda model, step: divided_loss(model, step, tokens, place.axis("cp")), steps)
        return found, dict(model.named_parameters())

    results = on_ranks(program, cp=ranks)
    for found, _ in results:
        close(torch.stack(found), torch.stack(losses))
    put_together([parameters for _, parameters in results], dict(whole.named_parameters()))


def test_a_model_that_ends_with_whole_scores_needs_no_other_loss() -> None:
    length = 9
    losses = trained(Language(length), lambda model, step: whole_loss(model, step, length), 4)
    tokens = Tokens(length, "cp", HeadTail())

    def program(place: Place, rank: int) -> Any:
        model = divide(Language(length), {**styles_of(RingAttention, tokens), "scores": Tokenwise(tokens, leaves=1)}, place)
        return trained(model, lambda model, step: whole_loss(model, step, length), 4)

    for found in on_ranks(program, cp=3):
        close(torch.stack(found), torch.stack(losses))


def test_features_and_tokens_on_one_axis_send_what_features_alone_send() -> None:
    """An all-gather and a reduce-scatter in the place of each all-reduce (Korthikanti et al., 2022)."""
    length, ranks = 8, 4

    def program(place: Place, rank: int) -> Any:
        axis = place.axis("cp")
        model = divide(Language(length), {name: style for name, style in megatron(Tokens(length)).items() if name in ("up", "down")}, place)
        model.down.bias.requires_grad_(False)
        own = torch.randn(BATCH, length // ranks, HEADS * WIDTH, dtype=torch.float64, requires_grad=True)
        model.down(F.gelu(model.up(own))).sum().backward()
        return axis.calls, axis.nbytes

    for calls, nbytes in on_ranks(program, cp=ranks):
        assert calls == {"all_gather": 2, "reduce_scatter": 2}
        assert sum(nbytes.values()) == 2 * 2 * (ranks - 1) / ranks * BATCH * length * HEADS * WIDTH * 8


def test_what_cannot_be_divided_is_refused_with_a_remedy() -> None:
    place, tokens = counted({"cp": 2, "tp": 2}, {"cp": 0, "tp": 0}), Tokens(8)
    for member in MEMBERS:
        assert "nn.Linear" not in member(tokens).refusal(nn.Linear(2, 2), place)
        assert "call attention through" in member(tokens).refusal(nn.Linear(2, 2), place)
        assert "dropout=0.5" in member(tokens).refusal(DotProductAttention(dropout=0.5), place)
    linear = nn.Linear(4, 4)
    assert "the same axis" in TokenColumns(tokens, Columns("tp")).refusal(linear, place)
    assert "the same axis" in TokenRows(tokens, Rows("tp")).refusal(linear, place)
    assert "leave it out" in TokenColumns(tokens, Columns("cp", gathered=True)).refusal(linear, place)
    assert "leave it out" in TokenRows(tokens, Rows("cp", whole_input=True)).refusal(linear, place)
    assert "Consecutive()" in TokenColumns(Tokens(8, "cp", HeadTail()), Columns("cp")).refusal(linear, place)
    assert "a style of its own" in Tokenwise(tokens).refusal(nn.BatchNorm1d(4), place)
    assert "a style for 1" in Tokenwise(tokens).refusal(nn.Sequential(nn.Linear(4, 4), DotProductAttention()), place)
    with pytest.raises(ValueError, match="the cut is for 8"):
        tokens.part(torch.zeros(7), place.axis("cp"), 0)
    ring = RingAttention(tokens).local(DotProductAttention(), "", place)
    with pytest.raises(ValueError, match="has 4 tokens"):
        ring(*[torch.zeros(1, 3, 2)] * 3)


def test_a_module_with_equal_weights_can_be_moved_to_another_type() -> None:
    """Its buffers and weights are then others than those that it was made of."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("scale", torch.full((3,), 2.0))

        def forward(self, value: Tensor) -> Tensor:
            return value * self.weight * self.scale

    local = EqualWeights(("cp",)).local(Scaled(), "", counted({"cp": 2}, {"cp": 0})).double()
    local.get_buffer("scale").fill_(5.0)
    assert local(torch.ones(3, dtype=torch.float64)).tolist() == [5.0] * 3
    assert list(local.state_dict()) == ["weight", "scale"]


@pytest.mark.parametrize("order", [Consecutive(), HeadTail()])
def test_a_dropout_on_some_tokens_is_that_of_one_device(order: Any) -> None:
    tokens, value = Tokens(11, "cp", order), torch.ones(2, 11, 3)
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.4))
    assert "a style for 1" in Tokenwise(tokens).refusal(model, counted({"cp": 2}, {"cp": 0}))

    def program(place: Place, rank: int) -> Any:
        local = TokenDropout(tokens).local(nn.Dropout(0.4), "drop", place)
        return tokens.join(local(tokens.part(value, place.axis("cp"), 1)), place.axis("cp"), 1)

    expected = DropByPlace().local(nn.Dropout(0.4), "drop", counted({}, {}))(value)
    assert 0 < (expected == 0).sum() < value.numel()
    for found in on_ranks(program, cp=3):
        close(found, expected, 0, 0)

"""Laws of cuts by names: any legal layout trains as one process, and what is illegal is refused with its names."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.place import Place
from polyrhythm.partition.rules import NamedDimension, dimensions, legal_rules, memory_minimal
from polyrhythm.partition.rules.search import rank_nbytes
from polyrhythm.partition.tensor_parallel import Columns, Rows, Vocabulary
from polyrhythm.workloads.gpt import Gpt, GptSize

from .grids import of_symbols, trains_as_one_process
from .ranks import on_ranks

SIZES = {"tp": 2, "more": 2}


def gpt() -> Gpt:
    torch.manual_seed(3)
    return Gpt(GptSize(13, 8, 2, 12, 3))


def divided(rules: dict[str, str]) -> Cut:
    with torch.device("meta"):
        return Cut.by_rules(gpt(), rules)


LEGAL = [rules for rules, _ in legal_rules(gpt(), SIZES)]


def test_names_of_a_gpt_give_each_of_its_modules_its_style() -> None:
    assert divided({"mlp": "tp", "heads": "tp", "vocabulary": "tp"}).names == {
        "symbols": Vocabulary(),
        "score": Columns(gathered=True),
        **{f"blocks.{k}.query_key_value": Columns(groups=3, unit=4) for k in range(2)},
        **{f"blocks.{k}.join_heads": Rows(unit=4) for k in range(2)},
        **{f"blocks.{k}.widen": Columns() for k in range(2)},
        **{f"blocks.{k}.narrow": Rows() for k in range(2)},
    }


def test_all_legal_layouts_are_those_without_the_width() -> None:
    """Four names, each whole or over one of two axes; over the same axis as others too, since no tensor has two of them."""
    assert len(LEGAL) == 3**4
    assert {name for rules in LEGAL for name in rules} == {"context", "heads", "mlp", "vocabulary"}


@pytest.mark.parametrize("rules", LEGAL[:: len(LEGAL) // 11], ids=str)
def test_any_legal_layout_trains_as_one_process(rules: dict[str, str]) -> None:
    def divide(model: nn.Module, place: Place) -> nn.Module:
        divided(rules).apply(model, place)
        return model

    trains_as_one_process(gpt, divide, of_symbols(4, 8, 13), SIZES, 3)


def test_a_dimension_that_nothing_takes_on_is_gathered_and_one_that_nothing_divides_is_divided() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    dimensions(model[0], weight=("hidden", "inputs"), bias=("hidden",))
    dimensions(model[1], weight=("outputs", "hidden"))
    assert Cut.by_rules(model, {"inputs": "tp"}).names == {"0": Rows(whole_input=True)}
    assert Cut.by_rules(model, {"outputs": "tp"}).names == {"1": Columns(gathered=True)}
    assert Cut.by_rules(model, {"hidden": "tp"}).names == {"0": Columns(), "1": Rows()}
    expected = model(x := torch.arange(12.0).view(2, 6))

    def program(place: Place, rank: int) -> Tensor:
        local = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
        local.load_state_dict(model.state_dict())
        Cut.by_rules(model, {"inputs": "tp", "outputs": "tp"}).apply(local, place)
        return F.relu(local(x)).detach()

    for found in on_ranks(program, tp=3):
        torch.testing.assert_close(found, F.relu(expected.detach()), rtol=1e-5, atol=1e-5)


def test_the_least_memory_is_that_of_all_names_that_can_be_divided() -> None:
    model = gpt()
    found = memory_minimal(model, {"tp": 2})
    assert found == {"context": "tp", "heads": "tp", "mlp": "tp", "vocabulary": "tp"}
    costs = {str(rules): rank_nbytes(model, styles, {"tp": 2}) for rules, styles in legal_rules(model, {"tp": 2})}
    assert costs[str(found)] == min(costs.values())
    whole = 4 * sum(each.numel() for each in model.parameters())
    assert costs["{}"] == whole
    assert min(costs.values()) == 4 * (12 * (7 + 7 + 4) + 2 * 12 * 3 * (2 * 4) + 2 * 12 * (2 * 4) + 2 * 2 * 12 * 24 + 5 * 2 * 12)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"mlp": "tp", "width": "tp"}, r"the dimensions .*, and the rules divide .* and .* over 'tp'"),
        ({"width": "tp"}, r"'width' is dimension 1 of the weight of symbols \(Embedding\)"),
        ({"mpl": "tp"}, "divide 'mpl', and no weight has a dimension of that name, but context, heads, mlp"),
        ({"batch": "dp"}, "Batches are divided over the axes that no rule names"),
    ],
)
def test_what_is_illegal_is_refused_with_its_names(rules: dict[str, str], words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        Cut.by_rules(gpt(), rules)


def test_names_that_do_not_fit_a_module_are_refused() -> None:
    with pytest.raises(CompositionError, match="no parameter 'weights' of its own, but weight, bias"):
        dimensions(nn.Linear(2, 2), weights=("a", "b"))
    with pytest.raises(CompositionError, match="has 2 dimensions, and 1 names are given"):
        dimensions(nn.Linear(2, 2), weight=("a",))
    both = nn.Sequential(dimensions(nn.Linear(2, 2), weight=("a", "b")))
    with pytest.raises(CompositionError, match="divided over tp and more at once: leave one of a and b whole"):
        Cut.by_rules(both, {"a": "tp", "b": "more"})
    alone = nn.Sequential(dimensions(nn.LayerNorm(4), bias=("mlp",)))
    with pytest.raises(CompositionError, match="no weight that is divided with it"):
        Cut.by_rules(alone, {"mlp": "tp"})
    many = nn.ModuleList(dimensions(nn.Linear(2, 2), weight=(f"a{k}", f"b{k}")) for k in range(8))
    with pytest.raises(CompositionError, match="name fewer dimensions"):
        memory_minimal(many, {"tp": 2})
    odd = dimensions(nn.Linear(2, 5), weight=(NamedDimension("heads", 1, 2), "inputs"))
    assert memory_minimal(nn.Sequential(odd), {"tp": 2}) == {"inputs": "tp"}

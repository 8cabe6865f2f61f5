"""The published systems as the command line lists them."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from polyrhythm.errors import CompositionError, PolyrhythmError, UnknownNameError
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.cli.presets import AXES, compose, deal, published


def test_every_system_is_listed_with_its_pieces(polyrhythm: Any) -> None:
    result = polyrhythm("systems")
    assert result.code == 0
    assert all(name in result.out for name in SYSTEMS)
    assert "LocalSteps(1," in result.out


def test_the_json_list_has_all_axes_and_options_with_defaults(polyrhythm: Any) -> None:
    listed = json.loads(polyrhythm("systems", "--json").out)
    assert [each["name"] for each in listed] == list(SYSTEMS)
    by_name = {each["name"]: each for each in listed}
    assert by_name["ssp"]["options"]["slack"] == {"type": "int", "default": 3}
    assert by_name["allreduce"]["topology"] == "AllReduce(Ring())"
    assert by_name["allreduce"]["paper"].startswith("Horovod")
    assert by_name["single"]["paper"] is None


def test_one_system_is_shown_with_its_whole_docstring(polyrhythm: Any) -> None:
    result = polyrhythm("systems", "ssp")
    assert "the theory divides it by" in result.out
    assert "--option slack=3" in result.out


def test_one_system_as_json_is_one_object(polyrhythm: Any) -> None:
    assert json.loads(polyrhythm("systems", "easgd", "--json").out)["merge"] == "Elastic()"


def test_an_unknown_system_is_refused_with_the_nearest(polyrhythm: Any) -> None:
    result = polyrhythm("systems", "esgd")
    assert (result.code, result.out) == (2, "")
    assert result.err == "polyrhythm: No system is called 'esgd'. Did you mean 'easgd'?\n"


@pytest.mark.parametrize("name", SYSTEMS)
def test_pieces_are_shown_as_python(name: str) -> None:
    shown = published(name)
    for axis in AXES:
        assert isinstance(ast.parse(getattr(shown, axis), mode="eval").body, ast.Call)


def test_options_are_converted_by_the_annotations_of_the_system() -> None:
    assert compose("ssp", {"slack": "5"}) == SYSTEMS["ssp"](slack=5)
    assert compose("gossipgrad", {"rotate": "no"}) == SYSTEMS["gossipgrad"](rotate=False)
    assert compose("downpour", {"outer_learning_rate": "0.5"}) == SYSTEMS["downpour"](outer_learning_rate=0.5)
    assert compose("downpour", {"outer_learning_rate": "none"}) == SYSTEMS["downpour"]()


@pytest.mark.parametrize(
    ("system", "options", "kind", "words"),
    [
        ("ssp", {"slak": "5"}, UnknownNameError, "No option of ssp is called 'slak'. Did you mean 'slack'?"),
        ("ssp", {"slack": "much"}, CompositionError, "ssp cannot take slack=much: slack must be a whole number."),
        ("downpour", {"outer_learning_rate": "low"}, CompositionError, "outer_learning_rate must be a number or none."),
        ("allreduce", {"slack": "5"}, CompositionError, "allreduce has no options"),
    ],
)
def test_options_that_cannot_be_are_refused(system: str, options: dict[str, str], kind: type[PolyrhythmError], words: str) -> None:
    with pytest.raises(kind) as caught:
        compose(system, options)
    assert words in str(caught.value)


def test_a_comparison_deals_options_to_the_systems_that_have_them() -> None:
    dealt = deal({"period": "7", "easgd.period": "3", "servers": "2"}, ["allreduce", "sparknet", "easgd"])
    assert dealt == {"allreduce": {}, "sparknet": {"period": "7"}, "easgd": {"period": "3", "servers": "2"}}


def test_an_option_that_no_system_of_the_comparison_has_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'period'"):
        deal({"perio": "7"}, ["allreduce", "sparknet"])
    with pytest.raises(UnknownNameError, match="No system of this comparison"):
        deal({"ssp.slack": "7"}, ["allreduce", "sparknet"])

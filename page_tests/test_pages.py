"""The exported pages in a browser: drawn digits are read, texts are completed, on wide and narrow screens, in light and dark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Browser, Point
from digits_drawn import DRAWN, Stroke

SIZES = [pytest.param(1280, 800, False, id="1280"), pytest.param(420, 860, True, id="420")]
Served = Callable[[Path], str]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures are written: to PAGE_PICTURES, for people to look at."""
    folder = Path(os.environ.get("PAGE_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def on_paper(tab: Browser, stroke: Stroke) -> list[Point]:
    """The points of a stroke on the screen."""
    left, top, size = tab.value("(({left, top, width}) => [left, top, width])(document.getElementById('paper').getBoundingClientRect())")
    return [(left + x * size, top + y * size) for x, y in stroke]


def drawn(tab: Browser, digit: str, finger: bool) -> str:
    """What the page reads after these strokes."""
    for count, stroke in enumerate(DRAWN[digit], start=1):
        (tab.swipe if finger else tab.drag)(on_paper(tab, stroke))
        tab.until(f"document.getElementById('paper').getAttribute('aria-label').includes('{count} stroke')")
    tab.until("document.getElementById('digit').textContent !== ''")
    return str(tab.value("document.getElementById('digit').textContent"))


@pytest.mark.parametrize(("width", "height", "finger"), SIZES)
def test_drawn_digits_are_read(
    tab: Browser, served: Served, digits_page: Path, pictures: Path, width: int, height: int, finger: bool
) -> None:
    tab.open(served(digits_page), width, height, touch=finger)
    right = 0
    for digit in DRAWN:
        right += drawn(tab, digit, finger) == digit
        tab.picture(pictures / f"digit-{digit}-{width}.png") if digit in "37" else None
        tab.value("document.getElementById('clear').click()")
        tab.until("document.getElementById('digit').textContent === ''")
    assert right >= 8
    assert "ms on this device" in tab.value("document.getElementById('about').textContent")
    assert tab.value("document.documentElement.scrollWidth") == width
    assert tab.value("document.getElementById('problem').textContent") == ""
    assert tab.told == []


def test_a_digit_can_be_drawn_with_keys_and_taken_back(tab: Browser, served: Served, digits_page: Path) -> None:
    tab.open(served(digits_page), 1280, 800)
    tab.value("document.getElementById('paper').focus()")
    for key in (" ", *["ArrowDown"] * 12, " "):
        tab.press(key)
    tab.until("document.getElementById('digit').textContent === '1'")
    tab.value("document.getElementById('undo').click()")
    tab.until("document.getElementById('digit').textContent === ''")


@pytest.mark.parametrize(("width", "height", "finger"), SIZES)
def test_before_anything_is_drawn_there_is_a_quiet_hint_and_no_answer(
    tab: Browser, served: Served, digits_page: Path, pictures: Path, width: int, height: int, finger: bool
) -> None:
    tab.open(served(digits_page), width, height, touch=finger)
    tab.picture(pictures / f"nothing-drawn-{width}.png")
    assert tab.value("document.getElementById('digit').getClientRects().length") == 0
    assert tab.value("document.getElementById('certainty').textContent").startswith("Draw a digit")
    assert contrast(tab, "#certainty") >= 4.5
    assert "–" not in tab.value("document.body.innerText")
    drawn(tab, "1", finger)
    assert "% sure" in tab.value("document.getElementById('certainty').textContent")
    tab.value("document.getElementById('clear').click()")
    tab.until("document.getElementById('certainty').textContent.startsWith('Draw a digit')")


@pytest.mark.parametrize(("width", "height", "finger"), SIZES)
def test_a_text_is_completed_and_can_be_stopped(
    tab: Browser, served: Served, text_page: Path, pictures: Path, width: int, height: int, finger: bool
) -> None:
    tab.open(served(text_page), width, height, touch=finger)
    tab.value("document.getElementById('temperature').value = 0")
    tab.value("document.getElementById('length').value = 40")
    tab.value("document.getElementById('complete').click()")
    tab.until("document.getElementById('about').textContent.startsWith('40 characters')")
    assert len(tab.value("document.querySelector('#text mark').textContent")) == 40
    tab.picture(pictures / f"text-{width}.png")
    tab.value("document.getElementById('length').value = 400; document.getElementById('complete').click()")
    tab.until("document.querySelector('#text mark').textContent.length > 4")
    tab.value("document.getElementById('stop').click()")
    tab.until("!document.getElementById('complete').disabled")
    assert 4 < len(tab.value("document.querySelector('#text mark').textContent")) < 400
    assert tab.value("document.documentElement.scrollWidth") == width
    assert tab.told == []


def test_what_the_network_does_not_know_is_said(tab: Browser, served: Served, text_page: Path) -> None:
    tab.open(served(text_page), 1280, 800)
    tab.value("document.getElementById('prompt').value = 'é if'; document.getElementById('length').value = 20")
    tab.value("document.getElementById('complete').click()")
    tab.until("document.getElementById('dropped').textContent.includes('left out')")


@pytest.mark.parametrize("page", ["digits_page", "text_page"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read_in_light_and_dark(
    tab: Browser, served: Served, page: str, dark: bool, pictures: Path, request: pytest.FixtureRequest
) -> None:
    tab.open(served(request.getfixturevalue(page)), 420, 860, dark=dark)
    tab.picture(pictures / f"{page}-{'dark' if dark else 'light'}.png")
    for place in ("h1", "header p", "footer", "button.first"):
        assert contrast(tab, place) >= 4.5, place


def contrast(tab: Browser, place: str) -> float:
    """The ratio of an element's text to what is behind it, by the rules of WCAG 2."""
    look = (
        "((place) => { const own = document.querySelector(place); let behind = own; const clear = 'rgba(0, 0, 0, 0)';"
        "while (behind && getComputedStyle(behind).backgroundColor === clear) behind = behind.parentElement;"
        "return [getComputedStyle(own).color, getComputedStyle(behind).backgroundColor]; })"
    )
    found = tab.value(f"{look}({json.dumps(place)})")
    one, other = sorted(luminance(color) for color in found)
    return (other + 0.05) / (one + 0.05)


def luminance(color: str) -> float:
    """The relative luminance of rgb(…)."""
    parts = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_everything_that_can_be_used_has_a_name(tab: Browser, served: Served, digits_page: Path, text_page: Path) -> None:
    for page in (digits_page, text_page):
        tab.open(served(page), 1280, 800)
        tab.call("Accessibility.enable")
        for node in tab.call("Accessibility.getFullAXTree")["nodes"]:
            if not node["ignored"] and node["role"]["value"] in ("button", "slider", "textbox", "image", "img", "list", "region"):
                assert node["name"]["value"].strip(), node


def test_a_folder_that_is_not_whole_is_said_and_so_is_a_page_from_a_file(tab: Browser, served: Served, digits_page: Path) -> None:
    model = digits_page / "model.onnx"
    model.rename(digits_page / "away")
    try:
        tab.call("Page.navigate", url=served(digits_page))
        tab.until("document.getElementById('problem').textContent.includes('is not there (404). Copy the whole folder')")
    finally:
        (digits_page / "away").rename(model)
    tab.call("Page.navigate", url=(digits_page / "index.html").as_uri())
    tab.until("document.getElementById('problem').textContent.includes('python -m http.server')")
    tab.told.clear()

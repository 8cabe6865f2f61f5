"""The pages of bundled JOBs."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.errors import ExportError
from polyrhythm.export.page import ContinuedText, DrawnImages, Page, PageContent
from polyrhythm.export.precision import Precision
from polyrhythm.export.target import ExportTarget
from polyrhythm.workloads.chars import CharsGpt, CharsGpt5m, corpus
from polyrhythm.workloads.digits import MOST, DigitsCnn, DigitsMlp, normalisation


def _digits() -> PageContent:
    mean, deviation = normalisation()
    return DrawnImages(mean, deviation, MOST)


def _text() -> PageContent:
    return ContinuedText(corpus().symbols)


_CONTENTS: dict[str, Callable[[], PageContent]] = {
    **dict.fromkeys((DigitsCnn.name, DigitsMlp.name), _digits),
    **dict.fromkeys((CharsGpt.name, CharsGpt5m.name), _text),
}


def page_of(job: str, precision: Precision) -> ExportTarget:
    """The page of a bundled JOB. Raises ExportError for others."""
    if job not in _CONTENTS:
        raise ExportError(
            f"There is no page for {job}: there are such for {', '.join(_CONTENTS)}. For a model of your own write "
            "pr.export.Page(DrawnImages(mean, deviation)) or Page(ContinuedText(symbols)) with pr.export.write_model, or export it as ONNX."
        )
    return Page(_CONTENTS[job](), precision)

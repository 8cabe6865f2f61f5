"""The pages of bundled JOBs."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.errors import ExportError
from polyrhythm.export.page import DrawingPage, TextPage
from polyrhythm.export.precision import Precision
from polyrhythm.export.target import ExportTarget
from polyrhythm.workloads.chars import CharsGpt, CharsGpt5m, corpus
from polyrhythm.workloads.digits import MOST, DigitsCnn, DigitsMlp, normalisation


def _digits(precision: Precision) -> ExportTarget:
    mean, deviation = normalisation()
    return DrawingPage(mean, deviation, MOST, precision=precision)


def _text(precision: Precision) -> ExportTarget:
    return TextPage(corpus().symbols, precision)


_PAGES: dict[str, Callable[[Precision], ExportTarget]] = {
    **dict.fromkeys((DigitsCnn.name, DigitsMlp.name), _digits),
    **dict.fromkeys((CharsGpt.name, CharsGpt5m.name), _text),
}


def page_of(job: str, precision: Precision) -> ExportTarget:
    """The page of a bundled JOB. Raises ExportError for others."""
    if job not in _PAGES:
        raise ExportError(
            f"There is no page for {job}: there are such for {', '.join(_PAGES)}. For a model of your own write "
            "pr.export.DrawingPage(mean, deviation) or TextPage(symbols) with pr.export.write_model, or export it as ONNX."
        )
    return _PAGES[job](precision)

"""Layouts of a model on machines: what one costs, and which to take."""

from polyrhythm.tools.layouts.explain import explain as explain
from polyrhythm.tools.layouts.explanation import (
    ExplainedRank as ExplainedRank,
    LayoutExplanation as LayoutExplanation,
    LayoutRefusal as LayoutRefusal,
)

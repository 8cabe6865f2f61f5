"""Layouts of a model on machines: what one costs, and which to take."""

from polyrhythm.tools.layouts.explain import explain as explain
from polyrhythm.tools.layouts.explanation import (
    ExplainedRank as ExplainedRank,
    LayoutExplanation as LayoutExplanation,
    LayoutRefusal as LayoutRefusal,
)
from polyrhythm.tools.layouts.job import LayoutJob as LayoutJob
from polyrhythm.tools.layouts.layout_plan import LayoutPlan as LayoutPlan
from polyrhythm.tools.layouts.plan_layouts import plan_layouts as plan_layouts
from polyrhythm.tools.layouts.short_runs import ShortRuns as ShortRuns
from polyrhythm.tools.layouts.space import LayoutSpace as LayoutSpace

"""Where the figures of a proxy plan come from: measured, derived from what was measured, or assumed."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.tools.measuring.machine_speed import NAME as THIS_MACHINE
from polyrhythm.tools.planner.proxy.counted import META
from polyrhythm.tools.planner.proxy.family import size_name
from polyrhythm.tools.planner.proxy.proxy_plan import FigureOrigin
from polyrhythm.tools.planner.proxy.proxy_planner import ProxyPlanner
from polyrhythm.tools.planner.proxy.rates import USUAL
from polyrhythm.tools.planner.proxy.tuning import TUNED_SIZES

MEASURED, DERIVED, ASSUMED = "measured", "derived", "assumed"


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of the figures of `planner`."""

    planner: ProxyPlanner

    def listed(self) -> list[FigureOrigin]:
        """Each figure, in the order in which they are used."""
        planner = self.planner
        how = planner.family.true.how
        counted = FigureOrigin(
            "parameters and operations of the model", DERIVED if how == META else MEASURED, f"{how}; nothing was trained"
        )
        network = FigureOrigin(
            "latencies and bandwidths", ASSUMED, f"as the description of the network {planner.scenario.network.name} has them"
        )
        return [counted, *self._device(), network, *self._timing(), *self._samples(), *self._rates(), *self._further()]

    def _device(self) -> list[FigureOrigin]:
        names = list(dict.fromkeys(each.name for each in self.planner.scenario.devices.machines))
        if names == [THIS_MACHINE]:
            largest = size_name(self.planner.sizes[-1].settings)
            return [
                FigureOrigin("operations a second", MEASURED, f"from steps of {largest}, timed on this machine"),
                FigureOrigin(
                    "operations a second at the true size",
                    ASSUMED,
                    "the same as at that size; larger products of matrices are often faster",
                ),
            ]
        return [FigureOrigin("seconds of a step", ASSUMED, f"operations over the speed that the description of {', '.join(names)} has")]

    def _timing(self) -> list[FigureOrigin]:
        cut = max((each.cut for each in self.planner.timings.values()), default=1.0)
        less = f"; of tensors of one size only some, {cut:.3g} times fewer numbers, on links as much slower" if cut > 1 else ""
        return [
            FigureOrigin(
                "seconds and bytes of a sample",
                DERIVED,
                f"a timing-only run of each method on the true model's shapes, in virtual time{less}",
            )
        ]

    def _samples(self) -> list[FigureOrigin]:
        sizes = ", ".join(size_name(each.settings) for each in self.planner.sizes)
        return [
            FigureOrigin("samples to the target of small models", MEASURED, f"runs with real gradients in virtual time, at {sizes}"),
            FigureOrigin(
                "samples of the model alone", DERIVED, "a power law in the parameters above a least number, fitted to those; bootstrap"
            ),
            FigureOrigin(
                "penalties of methods",
                DERIVED,
                "power laws of their samples over those of one machine alone under the same seeds; bootstrap",
            ),
        ]

    def _rates(self) -> list[FigureOrigin]:
        tuning = self.planner.tuning
        if tuning.name is None:
            return [FigureOrigin("learning rate", ASSUMED, "the JOB has no setting for it, and sets one that suits each size")]
        if tuning.law is None:
            return []
        return [
            FigureOrigin(f"{tuning.name} of small models", MEASURED, f"tuned at the {TUNED_SIZES} smallest sizes, for one machine alone"),
            FigureOrigin(
                f"{tuning.name} of the model",
                DERIVED,
                f"rate × N^(-{tuning.law.kappa:.2f}), fitted to those; an exponent of {USUAL:g} counts as one more observation",
            ),
            FigureOrigin(
                "rates of methods over that of one machine alone", MEASURED, "tuned at one size, the largest at which the base was"
            ),
            FigureOrigin("the same at the true size", ASSUMED, "they do not change with the size"),
        ]

    def _further(self) -> list[FigureOrigin]:
        return [
            FigureOrigin(
                "staleness of small models",
                ASSUMED,
                "that of the model: their steps are charged with its operations, and links are slower as their messages are smaller",
            ),
            FigureOrigin(
                "the law beyond the largest proxy", ASSUMED, "it goes on as far as the true size; data, batch and context are the same"
            ),
        ]

"""Mixtures of experts: tokens go to the ranks that have their experts."""

from polyrhythm.partition.experts.mixture import MixtureOfExperts
from polyrhythm.partition.experts.samples import Samplewise
from polyrhythm.partition.experts.style import Experts

__all__ = ["Experts", "MixtureOfExperts", "Samplewise"]

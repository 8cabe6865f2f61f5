"""Routers: which of the machines that serve a session gets a request."""

from polyrhythm.serving.routing.destination import Destination, RequestRouter, Routed
from polyrhythm.serving.routing.least_completion_time import LeastCompletionTime
from polyrhythm.serving.routing.power_of_two_choices import PowerOfTwoChoices
from polyrhythm.serving.routing.smooth_weighted import SmoothWeighted

__all__ = ["Destination", "LeastCompletionTime", "PowerOfTwoChoices", "RequestRouter", "Routed", "SmoothWeighted"]

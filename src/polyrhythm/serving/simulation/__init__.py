"""A site that serves models, in virtual time: the decisions are those of a server, and only time and latencies are made up."""

from polyrhythm.serving.simulation.arrivals import (
    ArrivalProcess,
    BurstyArrivals,
    EvenArrivals,
    PoissonArrivals,
    RecordedArrivals,
    SteppedArrivals,
    read_trace,
)
from polyrhythm.serving.simulation.settings import OfferedLoad, SimulatedSite
from polyrhythm.serving.simulation.simulate import ServedLoad, SessionTally, simulate_serving

__all__ = [
    "ArrivalProcess",
    "BurstyArrivals",
    "EvenArrivals",
    "OfferedLoad",
    "PoissonArrivals",
    "RecordedArrivals",
    "ServedLoad",
    "SessionTally",
    "SimulatedSite",
    "SteppedArrivals",
    "read_trace",
    "simulate_serving",
]

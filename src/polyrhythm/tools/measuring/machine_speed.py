"""A machine as a device of the simulator, from steps of the JOB that are timed on it.

A profile charges steps as they were timed, whatever the batch, and then the plan cannot vary the batch. So steps are timed with the JOB's
own batch and with four times that, and the operations of both are counted: what grows with the operations gives the speed, and the rest is
the overhead of a step (Python, element-wise operations, the optimizer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from polyrhythm.core.job_files.settings import Train, settings_of, with_settings
from polyrhythm.errors import PolyrhythmError
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.tools.measuring.calibrate import device_profile
from polyrhythm.tools.measuring.timing import shape_of

NAME = "this machine"
BATCHES = ("batch_size", "batch")
"""The usual names of a JOB's setting for its batch."""
EPOCHS = "epochs"
_LONGER = 8
_MORE = 4
_STEPS = 20
_LEAST = 0.01
"""Four times the batch takes at least this part of a step longer, whatever the clock says: a speed is finite."""

Timed = Callable[[Train], Profile]


def _timed(train: Train) -> Profile:
    return device_profile(train, steps=_STEPS)


def machine_here(train: Train, job: str, settings: Mapping[str, Any], timed: Timed = _timed) -> Device | Profile:
    """A device with a speed where the JOB has a setting for its batch, else the measured steps. Raises what the JOB raises."""
    settings = {**settings, **_longer(train, settings)}
    own = with_settings(train, job, settings)
    profile = Profile(NAME, timed(own).seconds_per_step)
    batch = _batch(train, settings)
    if batch is None:
        return profile
    try:
        larger = with_settings(train, job, {**settings, batch[0]: _MORE * batch[1]})
        few, many = shape_of(own).flops, shape_of(larger).flops
        more = timed(larger)
    except PolyrhythmError:  # too few samples for such a batch, or steps that cannot be observed: as measured, then
        return profile
    return fitted(profile, (few, median(profile.seconds_per_step)), (many, median(more.seconds_per_step)))


def _longer(train: Train, settings: Mapping[str, Any]) -> dict[str, int]:
    """More epochs, where the JOB has such a setting: a short one would end before enough steps are timed."""
    known = settings_of(train)
    given = str(settings.get(EPOCHS, known[EPOCHS].default)) if EPOCHS in known else ""
    return {EPOCHS: _LONGER * int(given)} if given.isdecimal() else {}


def _batch(train: Train, settings: Mapping[str, Any]) -> tuple[str, int] | None:
    """The name of the JOB's setting for its batch, and what it is; None where it has none."""
    known = settings_of(train)
    for name in BATCHES:
        given = str(settings.get(name, known[name].default)) if name in known else ""
        if given.isdecimal() and int(given) > 0:
            return name, int(given)
    return None


def fitted(profile: Profile, few: tuple[float, float], many: tuple[float, float]) -> Device | Profile:
    """The device on which steps of so many operations take so many seconds, each pair (operations, seconds)."""
    if not 0 < few[0] < many[0]:
        return profile
    speed = (many[0] - few[0]) / max(many[1] - few[1], _LEAST * few[1])
    overhead = few[1] - few[0] / speed
    return Device(NAME, speed, overhead) if overhead >= 0 else Device(NAME, few[0] / few[1], 0.0)

"""Device policies: which devices of a host the workers of a job get."""

from polyrhythm.cluster.devices.first_devices import FirstDevices as FirstDevices
from polyrhythm.cluster.devices.ring_devices import RingDevices as RingDevices

MEMBERS = (FirstDevices(), RingDevices())

__all__ = ["MEMBERS", "FirstDevices", "RingDevices"]

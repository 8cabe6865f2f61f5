"""The networks that have a name. Each is for any number of hosts.

lan     One switch: 10 Gbit/s for each host and 50 µs one way, what TCP between two hosts on 10-gigabit Ethernet shows.
cloud   Virtual machines of 10 Gbit/s (a usual "up to 10 Gigabit" instance) in four racks or placement groups whose
        uplinks to the spine carry 40 Gbit/s, hence up to 4:1 oversubscription with 64 machines (Al-Fares et al.,
        SIGCOMM 2008, found 2.5:1 to 8:1 usual); 0.25 ms one way, as between zones of one region (public ping tables
        show 0.2 to 1 ms round trip within a region).
home    Volunteers on asymmetric lines: 100 Mbit/s down, 20 Mbit/s up (FCC, Measuring Broadband America: usual cable
        tiers), 15 ms one way between any two.
slow    50 Mbit/s and 20 ms one way between any two: offices joined over the internet. Defined by this project, so that
        a prediction can be held against three hosts whose links are shaped to just that.
wan-3   Virginia, Ireland and Tokyo of `wan-11`.
wan-11  The eleven EC2 regions of Gaia (Hsieh et al., NSDI 2017): see `wan.py` for what is measured and what reconstructed.
"""

from __future__ import annotations

from polyrhythm.hardware.description import Description, LinkEntry, SiteEntry
from polyrhythm.hardware.wan import REGIONS, regions


def _racks() -> Description:
    names = [f"rack-{number}" for number in range(4)]
    sites = [SiteEntry(name, "10 Gbit/s", latency="0.25 ms", uplink="40 Gbit/s", downlink="40 Gbit/s") for name in names]
    return Description("cloud", sites, [LinkEntry(a, b, "0.25 ms") for a in names for b in names if a < b])


PRESETS: dict[str, Description] = {
    description.name: description
    for description in (
        Description("lan", [SiteEntry("lan", "10 Gbit/s", latency="50 us")]),
        _racks(),
        Description("home", [SiteEntry("home", "20 Mbit/s", "100 Mbit/s", "15 ms")]),
        Description("slow", [SiteEntry("slow", "50 Mbit/s", latency="20 ms")]),
        regions("wan-3", ("Virginia", "Ireland", "Tokyo")),
        regions("wan-11", REGIONS),
    )
}

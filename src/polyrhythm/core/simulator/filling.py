"""Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2).

The rates of all flows grow together; where a link is full, the rates of its flows are final, and the others grow on. Two forms of the same
rule: objects for a few flows, arrays for many. Neither result depends on the order of flows or links.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core.simulator.connection import Connection, SharedLink

TOLERANCE = 1e-12
"""Shares and times that differ relatively by less are one: the difference is rounding."""


def fill_few(flows: list[Connection]) -> None:
    """Set `share` of each of `flows`, which must be all the flows on their links."""
    if len(flows) == 1:
        flows[0].share = flows[0].alone
        return
    links: list[SharedLink] = []
    for flow in flows:
        for link in flow.links:
            if not link.unsettled:
                links.append(link)
                link.left = link.capacity
            link.unsettled += 1
    growing = flows
    while growing:
        links = [link for link in links if link.unsettled]
        pace = min([link.left / link.unsettled for link in links])
        limit = pace * (1 + TOLERANCE)
        full = {link.index for link in links if link.left / link.unsettled <= limit}
        grow_on: list[Connection] = []
        for flow in growing:
            for link in flow.links:
                if link.index in full:
                    break
            else:
                grow_on.append(flow)
                continue
            flow.share = pace
            for link in flow.links:
                link.left -= pace
                link.unsettled -= 1
        growing = grow_on


def fill_many(paths: NDArray[np.intp], capacity: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rates of flows with `paths` [flow, place on the path] of link indices; link 0, of endless capacity, pads short paths.

    A round settles every link that is the tightest for all of its flows at once, which leaves the result as it is (no other
    link can lower them) and takes few rounds where links fill at many different levels.
    """
    flows, places = paths.shape
    rates = np.zeros(flows)
    growing = np.arange(flows)
    left = capacity.copy()
    unsettled = np.bincount(paths.ravel(), minlength=len(capacity))
    while growing.size:
        offers = (left / np.maximum(unsettled, 1))[paths]
        shares = offers.min(axis=1)
        tight = offers <= (shares * (1 + TOLERANCE))[:, None]
        agreed = np.bincount(paths[tight], minlength=len(capacity)) == unsettled
        settled = (tight & agreed[paths]).any(axis=1)
        if settled.all():
            rates[growing] = shares
            break
        rates[growing[settled]] = shares[settled]
        gone = paths[settled].ravel()
        left -= np.bincount(gone, weights=np.repeat(shares[settled], places), minlength=len(capacity))
        unsettled -= np.bincount(gone, minlength=len(capacity))
        growing, paths = growing[~settled], paths[~settled]
    return rates

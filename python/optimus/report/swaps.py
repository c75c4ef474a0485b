# ===- swaps.py - What a swap could hide ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A block that lies idle can meanwhile be moved to the host and back, if both
copies take no longer than it is idle:

    size <= ATI / (1 / B_d2h + 1 / B_h2d)

(«Pinpointing the Memory Behaviors of DNN Training», equation 1.) Each block is
looked at by itself; blocks that are moved at one time share the link."""

from typing import List, NamedTuple, Sequence

import numpy as np

from optimus.report import ReportError


class Link(NamedTuple):
    """Between a device and the memory of its host; GB/s, which are bytes per ns."""

    name: str
    to_host: float
    to_device: float

    def time(self, size):
        """Nanoseconds to move so many bytes away and back."""
        return size * (1 / self.to_host + 1 / self.to_device)

    def hides(self, size, idle):
        """Whether blocks of these sizes can be away while they are idle."""
        return self.time(size) <= idle


# Four fifths of the nominal rates: about what large copies of pinned memory reach.
LINKS = [
    Link("PCIe 3 x16", 12.6, 12.6),
    Link("PCIe 4 x16", 25.2, 25.2),
    Link("PCIe 5 x16", 50.4, 50.4),
    Link("NVLink-C2C", 360.0, 360.0),
]


def parse(text: str) -> Link:
    """`NAME=D2H,H2D`, in GB/s. Raises ReportError."""
    name, _, rates = text.partition("=")
    try:
        to_host, to_device = [float(rate) for rate in rates.split(",")]
    except ValueError:
        to_host = to_device = 0
    if not name or not all(0 < rate < 1e9 for rate in (to_host, to_device)):
        raise ReportError(
            "--link: expected NAME=D2H,H2D with rates in GB/s above 0, as "
            "fast=50,45; found '%s'" % text
        )
    return Link(name, to_host, to_device)


def slowest(links: Sequence[Link], size: int, idle: int) -> str:
    """The link of least speed that is fast enough, by name."""
    fit = [link for link in links if link.hides(size, idle)]
    return max(fit, key=lambda link: link.time(1)).name if fit else "none"


def hidden(link: Link, size: np.ndarray, idle: np.ndarray) -> List[int]:
    """How many blocks can be away, and how many bytes."""
    fit = link.hides(size, idle)
    return [int(fit.sum()), int(size[fit].sum())]

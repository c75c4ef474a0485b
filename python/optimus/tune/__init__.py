# ===- __init__.py - Searches over models and training ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-tune` runs trials of a search where they fit, and keeps what came of them.

A *trial* is one choice of flags, a *study* all trials of a search. The scheduler is
pure: events in, decisions out. Executors and the simulator drive the same one.
"""

import gc


class TuneError(ValueError):
    """What is wrong with an input, in one message."""


class Collector:
    """Collects garbage between decisions, with the collector of Python disabled: among many
    old objects it comes late, and a decision would wait for it."""

    TURNS = 10_000
    """Between two collections."""

    def __init__(self) -> None:
        self._turns = 0

    def turn(self) -> None:
        self._turns += 1
        if self._turns % self.TURNS == 0:
            gc.collect(1)

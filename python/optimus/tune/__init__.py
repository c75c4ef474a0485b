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


class TuneError(ValueError):
    """What is wrong with an input, in one message."""

# ===- __init__.py - The reader of profiles -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads what `optimus-run … --profile FILE` wrote: `optimus-report`.

    profile     opens files, checks them, and gives calls one after another
    events      what happened to memory in one call
    intervals   how long blocks lie idle between two accesses
    memory      all figures of `memory`, call by call
    swaps       what moving a block to the host and back could hide
    text        numbers and tables for people

Times are nanoseconds, sizes and addresses bytes, unless a name says otherwise.
"""


class ReportError(Exception):
    """What is wrong with an input, in one sentence."""

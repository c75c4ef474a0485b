# ===- minimalloc.py - Live ranges for planners ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Live ranges as CSV: id,lower,upper,size, as minimalloc and optimus-plan read it.

Times are numbers of commands, so a plan for them holds whatever commands take."""

from typing import Sequence

from optimus.report import ReportError
from optimus.report.window import Window


def render(windows: Sequence[Window]) -> bytes:
    """Of the function with the largest arena. Raises ReportError."""
    profile = windows[0].profile
    function = max(profile.functions, key=lambda each: each.arena_bytes, default=None)
    if function is None or not len(function.blocks):
        raise ReportError(
            "'%s' has no block in an arena, so there is nothing to plan" % profile.path
        )
    blocks = profile.blocks
    rows = zip(
        profile.block_numbers[function.blocks].tolist(),
        blocks.first[function.blocks].tolist(),
        (blocks.last[function.blocks] + 1).tolist(),
        blocks.bytes[function.blocks].tolist(),
    )
    lines = ["id,lower,upper,size", *("%d,%d,%d,%d" % row for row in rows)]
    return ("\n".join(lines) + "\n").encode("ascii")

# ===- checks.py - What every builder checks -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What every builder checks of a configuration; each raises ConfigError."""

import math
from typing import Mapping

from optimus.models import ConfigError


def check_extents(extents: Mapping[str, int]) -> None:
    """Extents by name: i64 in the program, and token ids are i32."""
    for name, extent in extents.items():
        if not 1 <= extent < 2**31:
            raise ConfigError(
                "%s is %d; it must be at least 1 and below 2^31" % (name, extent)
            )


def check_positive(numbers: Mapping[str, float]) -> None:
    for name, number in numbers.items():
        if not (math.isfinite(number) and number > 0):
            raise ConfigError("%s is %r; it must be a positive number" % (name, number))


def check_heads(hidden: int, heads: int) -> None:
    if hidden % heads:
        raise ConfigError(
            "hidden (%d) is not divisible by heads (%d); each head has "
            "hidden / heads channels" % (hidden, heads)
        )


def check_dropout(rate: float) -> None:
    if not 0 <= rate < 1:
        raise ConfigError("dropout is %r; it must be at least 0 and below 1" % rate)

# ===- checks.py - What every builder checks -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What every builder checks of a configuration; each raises ConfigError."""

import math
from typing import Any, Dict, Mapping, NamedTuple

from optimus.models import ConfigError

MOST = {
    "layers": 1 << 12,
    "hidden": 1 << 18,
    "heads": 1 << 14,
    "kv_heads": 1 << 14,
    "head_dim": 1 << 14,
    "head_width": 1 << 14,
    "ffn": 1 << 20,
    "sequence": 1 << 24,
    "vocabulary": 1 << 24,
    "batch": 1 << 24,
    "chunk": (1 << 31) - 1,
    "window": (1 << 31) - 1,
}
"""What no real model reaches; beyond it a number is a slip of the pen, a program
of gigabytes, or a tensor whose size in bytes is not a number of 64 bits."""


MOST_TOKENS = 1 << 31
"""In a batch."""


def get_members(config: NamedTuple) -> Dict[str, Any]:
    """Of a configuration, by name. What is absent unless somebody gives it, and was
    not given, is no member."""
    defaults = config._field_defaults
    return {
        name: member
        for name, member in config._asdict().items()
        if member is not None or defaults.get(name, name) is not None
    }


def check_extents(extents: Mapping[str, int]) -> None:
    """Extents by name, all of them in MOST, batch and sequence among them."""
    for name, extent in extents.items():
        if not isinstance(extent, int) or not 1 <= extent <= MOST[name]:
            raise ConfigError(
                "{%s} is %r; expected a whole number from 1 to %d"
                % (name, extent, MOST[name])
            )
    tokens = extents["batch"] * extents["sequence"]
    if tokens > MOST_TOKENS:
        raise ConfigError(
            "{batch} (%d) times {sequence} (%d) is %d tokens; expected at most %d"
            % (extents["batch"], extents["sequence"], tokens, MOST_TOKENS)
        )


def check_positive(numbers: Mapping[str, float]) -> None:
    for name, number in numbers.items():
        if not (math.isfinite(number) and number > 0):
            raise ConfigError("{%s} is %r; expected a positive number" % (name, number))


def check_heads(hidden: int, heads: int) -> None:
    if hidden % heads:
        raise ConfigError(
            "{hidden} (%d) is not divisible by {heads} (%d); each head has "
            "hidden / heads channels" % (hidden, heads)
        )


def check_rotated(channels: int, head_dim: int) -> None:
    """The channels of a head that are rotated, where these are a part."""
    if channels % 2 or not 2 <= channels <= head_dim:
        raise ConfigError(
            "{rotary_dim} is %d; expected an even number from 2 to the %d channels "
            "of a head" % (channels, head_dim)
        )


def check_dropout(rate: float) -> None:
    if not 0 <= rate < 1:
        raise ConfigError(
            "{dropout} is %r; expected a number from 0 to below 1" % rate
        )


def check_masking(mask_token: int, pad_token: int, vocabulary: int) -> None:
    """Of a model of masked tokens."""
    for name, token in ("mask_token", mask_token), ("pad_token", pad_token):
        if not 0 <= token < vocabulary:
            raise ConfigError(
                "{%s} is %d; expected one of the vocabulary's %d tokens, from 0 on"
                % (name, token, vocabulary)
            )
    if mask_token == pad_token:
        raise ConfigError(
            "{mask_token} and {pad_token} are both %d; a hidden token would be "
            "taken for padding" % mask_token
        )

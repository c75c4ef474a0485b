# ===- rope.py - Stretched rotary positions ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The frequencies of rotary position embedding of models that were trained on longer
texts than at first: as Transformers computes them, of the kinds `linear` and `llama3`.
"""

import math
from typing import Any, Dict, List, NamedTuple, Optional

from optimus.models import ConfigError

NUMBERS = {
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
}
"""What each kind of scaling is told, as Transformers calls it."""


class Scaling(NamedTuple):
    kind: str
    factor: float
    """By so much positions are stretched."""
    low: float = 1.0
    high: float = 4.0
    original: float = 8192.0
    """Of llama3: with fewer than `low` turns in so many positions, a pair is stretched;
    with more than `high` it is not."""

    def check(self) -> None:
        """Raises ConfigError unless there are frequencies."""
        for number in self[1:]:
            if not 0 < number < math.inf:
                message = "{rope_scaling} has %r; expected positive numbers"
                raise ConfigError(message % number)
        if self.kind == "llama3" and not self.low < self.high:
            message = "{rope_scaling} has low_freq_factor %r and high_freq_factor %r"
            message += "; expected the first to be smaller"
            raise ConfigError(message % (self.low, self.high))

    def fields(self) -> Dict[str, Any]:
        """As in a config.json."""
        names = NUMBERS[self.kind]
        numbers: Dict[str, Any] = dict(zip(names, self[1:]))
        if len(names) > 1:
            numbers[names[-1]] = int(self.original)
        return {"rope_type": self.kind, **numbers}


def frequencies(
    theta: float, channels: int, scaling: Optional[Scaling]
) -> Optional[List[float]]:
    """The angle of each pair of channels at position 1, unless `theta` says it all."""
    if scaling is None:
        return None
    plain = [theta ** (-2 * pair / channels) for pair in range(channels // 2)]
    if scaling.kind == "linear":
        return [one / scaling.factor for one in plain]
    return [_llama3(one, scaling) for one in plain]


def _llama3(frequency: float, scaling: Scaling) -> float:
    turns = scaling.original * frequency / (2 * math.pi)
    share = (turns - scaling.low) / (scaling.high - scaling.low)
    share = min(max(share, 0.0), 1.0)
    return share * frequency + (1 - share) * frequency / scaling.factor


def parse(text: str) -> Scaling:
    """`linear:4` or `llama3:8,1,4,8192`; raises ValueError."""
    kind, _, rest = text.partition(":")
    numbers = [float(one) for one in rest.split(",")]
    if kind not in NUMBERS or len(numbers) != len(NUMBERS[kind]):
        raise ValueError(text)
    return Scaling(kind, *numbers)

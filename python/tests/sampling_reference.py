# ===- sampling_reference.py - Choosing a token in NumPy --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The next token by its logits, written from docs/inference.md."""

import math
from typing import List, NamedTuple, Optional, Sequence, Set

import numpy as np

from philox import blocks

STREAM = 0xFFFFFF00


class Sampling(NamedTuple):
    temperature: float = 0
    top_k: int = 0
    top_p: float = 1
    min_p: float = 0
    repetition_penalty: float = 1
    presence_penalty: float = 0
    frequency_penalty: float = 0
    seed: int = 0
    copying_penalty: float = 1
    copying_source: Optional[List[int]] = None
    copying_exceptions: Sequence[int] = ()


def copyable(prompt: List[int], sampling: Sampling) -> Set[int]:
    source = prompt if sampling.copying_source is None else sampling.copying_source
    return set(source) - set(sampling.copying_exceptions)


def copied_share(prompt: List[int], new: List[int], sampling: Sampling) -> float:
    counted = [token for token in new if token not in sampling.copying_exceptions]
    copies = [token for token in counted if token in copyable(prompt, sampling)]
    return len(copies) / max(len(counted), 1)


def choose(logits: np.ndarray, prompt: List[int], new: List[int], sampling: Sampling) -> int:
    s, values = sampling, logits.astype(float)
    for token in set(prompt) | set(new):
        factor = s.repetition_penalty
        values[token] *= 1 / factor if values[token] > 0 else factor
    for token in set(new):
        values[token] -= s.presence_penalty + s.frequency_penalty * new.count(token)
    for token in copyable(prompt, s):
        values[token] += math.log(s.copying_penalty)
    if s.temperature == 0:
        return int(values.argmax())
    # Equal ones by number.
    order = np.argsort(-values, kind="stable")
    weights = np.exp((values[order] - values[order[0]]) / s.temperature)
    if s.top_k:
        weights = weights[: s.top_k]
    if s.top_p < 1:
        enough = np.cumsum(weights) >= s.top_p * weights.sum()
        weights = weights[: int(enough.argmax()) + 1]
    weights = weights[weights >= s.min_p]
    low, high, _, _ = (int(word) for word in blocks(s.seed, STREAM, 0, np.array(len(new))))
    uniform = ((high << 32 | low) >> 11) / 2**53
    return int(order[np.argmax(np.cumsum(weights) > uniform * weights.sum())])

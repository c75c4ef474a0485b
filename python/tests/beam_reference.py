# ===- beam_reference.py - Beam search in NumPy -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The best text by its score, written from docs/inference.md: the rules of
Transformers' `generate(num_beams=N, early_stopping=False)`."""

import math
from typing import Callable, List, NamedTuple, Sequence, Tuple

import numpy as np

from sampling_reference import Sampling, copyable


class Ended(NamedTuple):
    score: float
    tokens: List[int]
    finish: str


def search(
    logits_behind: Callable[[List[int]], np.ndarray],
    prompt: List[int],
    beams: int,
    length_penalty: float,
    max_tokens: int,
    stops: Sequence[int] = (),
    sampling: Sampling = Sampling(),
) -> Tuple[Ended, float]:
    """The best text, and the least difference of sums between candidates that were taken
    and the next one."""
    live, ended, margin = [(0.0, [])], [], math.inf
    while live:
        found = []
        for total, tokens in live:
            logits = logits_behind(prompt + tokens).astype(float)
            scores = logits - logits.max()
            scores -= np.log(np.exp(scores).sum())
            for token in copyable(prompt, sampling):
                scores[token] += math.log(sampling.copying_penalty)
            found += [(total + s, tokens + [token]) for token, s in enumerate(scores)]
        # Stable: of equal ones the earlier beam's, and the lowest token.
        found.sort(key=lambda one: -one[0])
        sums = [total for total, _ in found[: 2 * beams + 1]]
        margin = min(margin, *(a - b for a, b in zip(sums, sums[1:])))
        live = []
        for rank, (total, tokens) in enumerate(found[: 2 * beams]):
            has_stopped = tokens[-1] in stops
            if has_stopped or len(tokens) == max_tokens:
                if rank < beams:
                    score = total / len(tokens) ** length_penalty
                    finish = "stop" if has_stopped else "length"
                    ended.append(Ended(score, tokens[: len(tokens) - has_stopped], finish))
            elif len(live) < beams:
                live.append((total, tokens))
        ended = sorted(ended, key=lambda one: -one.score)[:beams]
        if live and len(ended) == beams:
            best = live[0][0] / len(live[0][1]) ** length_penalty
            if ended[-1].score >= best:
                break
    return ended[0], margin

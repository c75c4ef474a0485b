# ===- philox.py - Philox 4x32-10 in NumPy --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The counter-based draws of docs/dropout.md, written from that page."""

from typing import NamedTuple, Sequence

import numpy as np

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter: Sequence, key: Sequence[int]) -> np.ndarray:
    """The four 32-bit words (as uint64, [4, ...]) of each counter."""
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, np.uint64) for c in counter))
    k0, k1 = key
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (p1 >> HALF) ^ c1 ^ np.uint64(k0),
            p1 & LOW,
            (p0 >> HALF) ^ c3 ^ np.uint64(k1),
            p0 & LOW,
        )
        k0 = (k0 + 0x9E3779B9) % 2**32
        k1 = (k1 + 0xBB67AE85) % 2**32
    return np.stack([c0, c1, c2, c3])


def blocks(seed: int, stream: int, step: int, block: np.ndarray) -> np.ndarray:
    """The four words of each block at (seed, stream, step)."""
    block = np.asarray(block, np.uint64)
    counter = (
        block & LOW,
        np.uint64(step >> 32 << 16) | block >> HALF & np.uint64(0xFFFF),
        np.uint64(step % 2**32),
        np.uint64(stream),
    )
    return philox(counter, (seed % 2**32, seed >> 32))


class Dropout(NamedTuple):
    """The dropouts of one step of a model."""

    rate: float
    seed: int
    step: int
    microbatch: int = 0

    def words(self) -> np.ndarray:
        """The program's argument `random`."""
        words = [
            self.seed % 2**32,
            self.seed >> 32,
            self.step % 2**32,
            self.step >> 32,
            self.microbatch,
        ]
        return np.array(words, np.uint32).view(np.int32)

    def kept(self, number: int, shape: Sequence[int]) -> np.ndarray:
        """Which elements dropout `number` of the model keeps."""
        size = int(np.prod(shape))
        index = np.arange(size, dtype=np.uint64)
        index += np.uint64(self.microbatch * size)
        n16, n64 = np.uint64(16), np.uint64(64)
        block = index // n64 * n16 + index % n16
        words = blocks(self.seed, 2**24 + number, self.step, block)
        draws = np.take_along_axis(words, (index // n16 % np.uint64(4)).astype(int)[None], 0)
        return (draws[0] >= np.uint64(self.rate * 2**32)).reshape(shape)

    def factors(self, number: int, shape: Sequence[int]) -> np.ndarray:
        return self.kept(number, shape) / (1 - self.rate)


def masked(
    tokens: np.ndarray,
    positions: Sequence[int],
    seed: int,
    step: int,
    vocabulary: int,
    mask: int,
    pad: int,
):
    """Inputs and targets of masked-token batches, by docs/masked-tokens.md.

    `tokens` [b, s] are the sequences at `positions`.
    """
    length = tokens.shape[1]
    index = np.asarray(positions)[:, None] * length + np.arange(length)
    words = blocks(seed, 0xFFFFFFFE, step, index)
    chosen = (words[0] < 644245094) & (tokens != pad)
    hidden = chosen & (words[1] < 3435973836)
    changed = chosen & ~hidden & (words[1] < 3865470566)
    any_token = (words[2] * np.uint64(vocabulary) >> HALF).astype(tokens.dtype)
    inputs = np.where(hidden, mask, np.where(changed, any_token, tokens))
    return inputs, np.where(chosen, tokens, -1)

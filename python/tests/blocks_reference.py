# ===- blocks_reference.py - Weights of few bits, in NumPy -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The values of GGUF's Q8_0 and Q4_0, from their published formulas."""

import numpy as np

BLOCK = 32


def round_to_blocks(values: np.ndarray, bits: int, axis: int) -> np.ndarray:
    """What blocks along an axis hold of values in f32."""
    last = np.moveaxis(values.astype(np.float32), axis, -1)
    blocks = last.reshape(-1, BLOCK)
    rounded = (_int8 if bits == 8 else _int4)(blocks)
    return np.moveaxis(rounded.reshape(last.shape), -1, axis)


def _inverse(scale: np.ndarray) -> np.ndarray:
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def _int8(blocks: np.ndarray) -> np.ndarray:
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    scaled = blocks * _inverse(scale)
    # Halves away from zero.
    whole = np.floor(np.abs(scaled))
    integers = np.copysign(whole + np.floor(2 * (np.abs(scaled) - whole)), scaled)
    return integers * scale.astype(np.float16).astype(np.float32)


def _int4(blocks: np.ndarray) -> np.ndarray:
    # Of equal magnitudes the first one.
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    scale = largest / np.float32(-8)
    # With one rounding, as a fused multiply-add has.
    sums = blocks.astype(np.float64) * _inverse(scale).astype(np.float64) + 8.5
    integers = np.clip(np.trunc(sums.astype(np.float32)), 0, 15) - 8
    return integers.astype(np.float32) * scale.astype(np.float16).astype(np.float32)

# ===- work.py - The work that every peer of bench/run mesh does ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The same model from the same initial weights on the same data as ours.

The model is that of `optimus.models gpt2`: tied head, tanh GELU, no dropout,
AdamW (betas 0.9 and 0.95, epsilon 1e-8) with decay 0.1 on matrices only,
gradients clipped to norm 1, f32. Weights come from a checkpoint of ours, whose
names, shapes and element order are Hugging Face's; step k reads the windows
that `optimus-run train --order sequential` reads.

A peer's standard output is one JSON object a line: what it is, with
"ready": true; then for each step {"step": 1, "ms": 1612.3, "loss": 5.54}. It
runs as many steps as a line of its standard input says.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file

BETAS = (0.9, 0.95)
EPSILON = 1e-8
DECAY = 0.1
CLIP = 1.0
NORM_EPSILON = 1e-5


def parser(description):
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--load", required=True, help="a checkpoint of optimus-run")
    result.add_argument("--data", required=True, help="a text, one token a byte")
    result.add_argument("--heads", type=int, required=True)
    result.add_argument("--batch", type=int, required=True)
    result.add_argument("--lr", type=float, default=1e-3)
    return result


def parameters(options):
    """NumPy arrays under Hugging Face's names."""
    return load_file(pathlib.Path(options.load) / "model.safetensors")


def num_layers(tensors):
    return 1 + max(
        int(name.split(".")[1]) for name in tensors if name.startswith("h.")
    )


class Windows:
    """Window w is tokens [w*s, w*s+s) and, shifted by one, its targets."""

    def __init__(self, options, sequence):
        self._tokens = np.fromfile(options.data, np.uint8).astype(np.int32)
        self._sequence, self._batch = sequence, options.batch
        self._count = (len(self._tokens) - 1) // sequence

    def batch(self, step):
        """Tokens and targets, [batch, sequence], of a step, the first is 0."""
        windows = np.arange(step * self._batch, (step + 1) * self._batch)
        begin = windows % self._count * self._sequence
        index = begin[:, None] + np.arange(self._sequence + 1)
        rows = self._tokens[index]
        return rows[:, :-1].copy(), rows[:, 1:].copy()


def emit(**fields):
    print(json.dumps(fields), flush=True)


def serve(step):
    """Calls step(k) -> (milliseconds, loss), k from 0, as often as asked."""
    done = 0
    for line in sys.stdin:
        for _ in range(int(line)):
            ms, loss = step(done)
            done += 1
            emit(step=done, ms=round(ms, 3), loss=loss)

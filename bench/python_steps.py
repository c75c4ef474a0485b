# ===- python_steps - Steps of a session in Python --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What bench/run python-steps runs: LIBRARY STEPS WARMUP THREADS; the median of
train_step in milliseconds, with batches that lie there."""

import statistics
import sys
import time

import numpy as np

import optimus


def main(library, steps, warmup, threads):
    session = optimus.Session(library, kinds="train", threads_per_rank=threads)
    shape = (session.batch, session.sequence)
    draw = np.random.default_rng(0)
    times = []
    for _ in range(warmup + steps):
        tokens = draw.integers(0, session.vocabulary, shape, np.int32)
        targets = np.roll(tokens, -1, axis=1)
        begin = time.perf_counter()
        session.train_step(tokens, targets)
        times.append(1e3 * (time.perf_counter() - begin))
    print(statistics.median(times[warmup:]))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

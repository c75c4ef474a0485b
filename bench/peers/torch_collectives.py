# ===- torch_collectives.py - Collectives of PyTorch over gloo ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What `optimus-run bench --comm --json` measures, with torch.distributed's
gloo back-end; bench/run collectives runs it.

    python bench/peers/torch_collectives.py --ranks 4 --max-bytes 16777216
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

COLLECTIVES = ["broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"]


def operation(name, n, count):
    """The call that is timed, on buffers of its own, and the whole tensor's
    elements."""
    block = max(1, count // n)
    whole = torch.zeros(block * n)
    part = torch.zeros(block)
    tensor = torch.zeros(max(1, count))
    if name == "broadcast":
        return (lambda: dist.broadcast(tensor, 0)), tensor.numel()
    if name == "reduce":
        return (lambda: dist.reduce(tensor, 0)), tensor.numel()
    if name == "all_reduce":
        return (lambda: dist.all_reduce(tensor)), tensor.numel()
    if name == "all_gather":
        return (lambda: dist.all_gather_into_tensor(whole, part)), whole.numel()
    return (lambda: dist.reduce_scatter_tensor(part, whole)), whole.numel()


def seconds_of(call):
    """The slowest rank's median of repetitions that all begin together."""

    def once():
        dist.barrier()
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    once()
    first = torch.tensor([once()])
    dist.all_reduce(first, dist.ReduceOp.MAX)
    repeats = int(min(200, max(5, 0.1 / max(first.item(), 1e-6))))
    times = torch.tensor([once() for _ in range(repeats)])
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return statistics.median(times.tolist())


def run(rank, options, store):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{store}", rank=rank, world_size=options.ranks
    )
    report = []
    for name in COLLECTIVES:
        points, size = [], options.min_bytes
        try:
            while size <= options.max_bytes:
                call, count = operation(name, options.ranks, size // 4)
                points.append({"bytes": 4 * count, "seconds": seconds_of(call)})
                size *= 4
        except (RuntimeError, NotImplementedError):
            continue  # this gloo has no such collective
        report.append({"backend": "gloo", "ranks": options.ranks})
        report[-1].update({"collective": name, "points": points})
    if rank == 0:
        print(json.dumps(report))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--min-bytes", type=int, default=64)
    parser.add_argument("--max-bytes", type=int, default=1 << 24)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        mp.spawn(run, (options, store), nprocs=options.ranks)


if __name__ == "__main__":
    main()

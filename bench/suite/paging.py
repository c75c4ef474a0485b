# ===- paging - Training whose state exceeds the memory -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A GPT-2 trained in memory and through a scratch file, in turn: the same losses, the
speed, the bytes copied and their hidden share; the second run under a limit of half of
its training state.

    bench/run paging
    bench/run paging --layers 12 --hidden 768 --batch 16 --scratch /var/tmp

The limit is on a process's private writable memory (RLIMIT_DATA), as ulimit -d sets it.
It counts reserved memory, not only touched pages; the run in memory must fail under it.
Fails where losses differ in a bit, where the limit is not kept, or where the speed is
below 70 % though the bytes of a step, at the bandwidth of the scratch file, take less
than the 30 % that leaves.
"""

import math
import resource
import statistics
import tempfile

from harness import fail, machine, scratch_rates

TARGETS = ["optimus-compile", "optimus-run"]
SIZES = dict(layers=12, hidden=512, heads=8, seq=128, vocab=256, batch=8)
NUMBERS = dict(SIZES, steps=4, rounds=1, scratch=tempfile.gettempdir())
OFFLOAD = "state,parameters,gradients,activations"


def state_bytes(manifest):
    return sum(4 * math.prod(buffer["local_shape"]) for buffer in manifest["buffers"]
               if buffer["lifetime"] in ("parameter", "state"))


def main(options, tools, folder):
    read, written = scratch_rates(options.scratch)
    source = folder / "gpt.mlir"
    tools.build_model(source, **{name: getattr(options, name) for name in SIZES})
    data = folder / "text.txt"
    data.write_bytes(bytes(32 + i * i % 90 for i in range(1 << 18)))
    plain, paged = folder / "plain.so", folder / "paged.so"
    tools.compile(source, plain)
    tools.compile(source, paged, "--offload", OFFLOAD,
                  "--offload-bandwidth", f"{int(read)},{int(written)}")
    state = state_bytes(tools.inspect(plain))
    limit = state // 2

    def train(library, bound=None):
        """The lines of a run's log."""
        bounds = (bound, bound)
        return tools.train(
            library, data, folder / "log.jsonl", "--steps", options.steps, "--seed", 1,
            "--scratch", options.scratch, preexec_fn=bound and (
                lambda: resource.setrlimit(resource.RLIMIT_DATA, bounds)))

    try:
        train(plain, limit)
    except SystemExit:
        pass
    else:
        fail(f"the run in memory fits {limit / 1e6:.0f} MB")
    times, losses, last = {"plain": [], "paged": []}, {}, None
    for _ in range(options.rounds):
        for kind, library, bound in [("plain", plain, None), ("paged", paged, limit)]:
            lines = train(library, bound)
            times[kind] += [line["ms"] for line in lines[1:]]
            losses[kind] = [line["loss"] for line in lines]
            last = lines[-1]
    if losses["plain"] != losses["paged"]:
        fail(f"losses differ: {losses}")
    inside, through = (statistics.median(times[kind]) for kind in ("plain", "paged"))
    hidden = 1 - last["paging_exposed_ms"] / last["paging_ms"]
    half = last["paging_bytes"] / 2
    copying = 1e3 * (half / read + half / written)
    print(f"{machine()}")
    print(f"scratch file: {read / 1e9:.2f} GB/s read, {written / 1e9:.2f} GB/s written")
    print(f"training state {state / 1e6:.0f} MB, limit {limit / 1e6:.0f} MB; the same losses")
    print(f"a step: {inside:.0f} ms in memory, {through:.0f} ms through the file: "
          f"{100 * inside / through:.0f} % of the speed")
    print(f"copied {last['paging_bytes'] / 1e6:.0f} MB a step, {copying:.0f} ms one after "
          f"the other; {100 * hidden:.0f} % hidden")
    if copying < 0.3 * inside / 0.7 and inside < 0.7 * through:
        fail("below 70 % of the speed, which the bandwidth allows")

# ===- compile-time - How long optimus-compile takes ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times optimus-compile on a large GPT-2: by default 24 layers, hidden 1024,
vocabulary 50304 on a 2 x 2 mesh, whose model library must be there within 60 s.

    bench/run compile-time
    bench/run compile-time --layers 48 --mesh row:4,col:4 --runs 5

Prints the wall-clock and processor time of whole compilations and the memory
they take, then how far each phase is from the one before: what stopping after
it takes longer, its output included. Exits with 1 when the limit is exceeded.
"""

import resource
import statistics
import time

from harness import processor_seconds

TARGETS = ["optimus-compile"]
SIZES = dict(layers=24, hidden=1024, heads=16, seq=1024, batch=8, vocab=50304)
NUMBERS = dict(SIZES, runs=3, mesh="row:2,col:2", strategy="summa")
PHASES = "input differentiate step shard partition tune fuse exec schedule place llvm".split()


def options(parser):
    parser.add_argument("--limit", type=float, default=60,
                        help="seconds; default: %(default)s")


def main(options, tools, folder):
    sizes = {name: getattr(options, name) for name in SIZES}
    source, library = tools.build_model(folder / "gpt.mlir", **sizes), folder / "gpt.so"
    layout = [f"--mesh={options.mesh}", f"--strategy={options.strategy}"]

    def compile(output, *flags):
        """Seconds of wall-clock and of processor time."""
        begin = time.perf_counter()
        processor = processor_seconds(
            lambda: tools.compile(source, output, *layout, *flags))
        return time.perf_counter() - begin, processor

    times = [compile(library) for _ in range(options.runs)]
    walls = sorted(wall for wall, _ in times)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{options.layers} layers, hidden {options.hidden}, vocabulary "
        f"{options.vocab}, {options.strategy} on {options.mesh}: "
        f"{statistics.median(walls):.1f} s ({walls[0]:.1f} to {walls[-1]:.1f}), "
        f"processor {statistics.median(cpu for _, cpu in times):.1f} s, "
        f"memory {memory:.0f} MiB, library "
        f"{library.stat().st_size / 2**20:.1f} MiB"
    )

    # Processor time, which other processes disturb least.
    before = 0.0
    print(f"{'phase':12} {'up to it':>9} {'alone':>7}   processor seconds")
    for phase in [*PHASES, "library"]:
        runs = times if phase == "library" else [
            compile(folder / "stop.mlir", f"--compile-to={phase}")
            for _ in range(options.runs)]
        cpu = min(cpu for _, cpu in runs)
        print(f"{phase:12} {cpu:9.2f} {max(0.0, cpu - before):7.2f}")
        before = cpu
    slow = statistics.median(walls) > options.limit
    return None, [f"slower than the limit of {options.limit:g} s"] if slow else []

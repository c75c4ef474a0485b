# ===- collectives - Every collective on every back-end -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times the collectives of each back-end over a range of sizes, in nccl-tests'
columns, and beside one another:

    bench/run collectives
    bench/run collectives --ranks 2 --max-bytes 1048576 --peer python3

`local` are threads of one process, `mpi` processes of this machine, and `gloo`,
with --peer PYTHON that has torch, those of torch.distributed. All are measured
in --rounds interleaved rounds, of which each point's median counts.
"""

import json
import shutil
import statistics
import sys

from harness import MPIRUN, ROOT, run, table, take_turns

TARGETS = ["optimus-run"]
NUMBERS = dict(ranks=4, rounds=3, min_bytes=64, max_bytes=1 << 24)
FORMAT = "{:>15} {:>9} {:>8} {:>6} {:>5} {:>4} {:>9} {:>8} {:>8}"


def options(parser):
    parser.add_argument("--peer", help="a Python with torch, to measure gloo")


def commands(options, tools):
    """The command of each back-end that there is."""
    sizes = ["--min-bytes", options.min_bytes, "--max-bytes", options.max_bytes]
    bench = [tools.path("run"), "bench", "--comm", "--json", *sizes]
    found = {"local": [*bench, "--ranks", options.ranks]}
    if shutil.which("mpirun"):
        found["mpi"] = [*MPIRUN, "-n", options.ranks, *bench]
    else:
        print("mpi: skipped, mpirun is not installed", file=sys.stderr)
    if options.peer:
        script = ROOT / "bench" / "peers" / "torch_collectives.py"
        found["gloo"] = [options.peer, script, *sizes, "--ranks", options.ranks]
    return found


def measure(command):
    text = run(command)
    return {
        (entry["collective"], point["bytes"]): point["seconds"]
        for entry in json.loads(text[text.index("[") :])
        for point in entry["points"]
    }


def bus_factor(collective, n):
    if collective == "all_reduce":
        return 2 * (n - 1) / n
    return 1 if collective in ("broadcast", "reduce") else (n - 1) / n


def main(options, tools, folder):
    jobs = {name: lambda command=command: measure(command)
            for name, command in commands(options, tools).items()}
    rounds = [entries for _, entries in take_turns(jobs, options.rounds)]
    times = {
        name: {key: statistics.median(one[name][key] for one in rounds)
               for key in rounds[0][name]}
        for name in jobs
    }
    for name, found in times.items():
        print(f"{name}, {options.ranks} ranks; GB/s")
        print(FORMAT.format(*"collective size(B) count type redop root time(us) algbw "
                            "busbw".split()))
        for (collective, size), seconds in found.items():
            rate = size / seconds / 1e9
            print(FORMAT.format(
                collective, size, size // 4, "float", "sum" if "reduce" in collective
                else "none", 0 if collective in ("broadcast", "reduce") else -1,
                f"{seconds * 1e6:.1f}", f"{rate:.3f}",
                f"{rate * bus_factor(collective, options.ranks):.3f}"))
        print()
    rows = [[*key, *(f"{times[name][key] * 1e6:.1f}" if key in times[name] else "-"
                     for name in times)] for key in times["local"]]
    return {"times": f"time in us\n\n{table(['collective', 'size(B)', *times], rows)}"}

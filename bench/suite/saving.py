# ===- saving - One writer of a checkpoint, and all at once ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""How fast a checkpoint is saved by the process of rank 0 alone, on one thread,
and by all processes and threads side by side, into memory.

    bench/run saving
    bench/run saving --write bench/results/saving.md

Both take turns in one job; the ratio is the median of the rounds'. The files of
all have the same bytes, or the bench fails. Beside them, a bare loop that reserves and
writes as many bytes in as many files, from a slab in a core's cache: no way of saving is
faster. Then for how long ranks stop for a checkpoint that is written behind steps, and
how long as many bytes take to be copied by as many threads.

    bench/run saving --steps

Pairs instead: steps until a checkpoint behind them is in place, and as many alone; the
median and the longest of each. Beside other work, `nice -n -20` gives the bench most of the cores.
"""

import filecmp
import json
import shutil
import statistics
import tempfile
from pathlib import Path

from harness import MPIRUN, ROOT, fail, machine, run, table

TARGETS = ["optimus-compile", "optimus-bench-reshard"]
SIZES = dict(layers=4, hidden=512, heads=8, seq=32, batch=16, vocab=8192)
NUMBERS = dict(SIZES, rounds=11, pairs=11)
OVER_TCP = ROOT / "runtime" / "ccl" / "tcp" / "run-over-tcp.sh"

# Name, strategy, mesh, what starts it.
CASES = [
    ("2 threads", "summa", "row:1,col:2", []),
    ("4 threads", "summa", "row:2,col:2", []),
    ("4 processes over MPI", "summa", "row:2,col:2", [*MPIRUN, "--bind-to", "none", "-n", 4]),
    ("4 processes over TCP", "summa", "row:2,col:2", ["sh", OVER_TCP, 4]),
    ("4 processes over MPI, replicas", "data", "data:4", [*MPIRUN, "--bind-to", "none", "-n", 4]),
]
# Of a rank a core.
CASES_OF_STEPS = [
    CASES[0],
    ("2 processes over MPI", "summa", "row:1,col:2", [*MPIRUN, "--bind-to", "none", "-n", 2]),
    ("2 processes over TCP", "summa", "row:1,col:2", ["sh", OVER_TCP, 2]),
]


def options(parser):
    parser.add_argument("--steps", action="store_true",
                        help="time steps beside a checkpoint that is written behind them")


def folder_in_memory():
    return tempfile.TemporaryDirectory(dir="/dev/shm", prefix="optimus-saving-")


def check_same(first, other):
    names = sorted(path.name for path in first.iterdir())
    if names != sorted(path.name for path in other.iterdir()):
        fail(f"{first} and {other} have different files")
    for name in names:
        # The model's record names the mesh.
        if name != "state.json" and not filecmp.cmp(first / name, other / name, shallow=False):
            fail(f"{first / name} and {other / name} differ")


def reshard(tools, library, start, *flags):
    return json.loads(run([*start, tools.path("bench-reshard"), library, *flags]))


def row(options, tools, library, name, start, memory):
    saved = memory / "saved"
    times = reshard(tools, library, start, "--save", saved,
                    "--rounds", options.rounds)["writers"]
    size = sum(path.stat().st_size for path in saved.iterdir())
    if (memory / "first").exists():
        check_same(memory / "first", saved)
        shutil.rmtree(saved)
    else:
        saved.rename(memory / "first")

    def rate(which):
        return f"{size / statistics.median(times[which]) / 1e9:.2f}"

    return [name, f"{size / 1e6:.0f}", rate("alone"), rate("together"),
            ratio(times, "alone", "together"),
            rate("bare alone"), rate("bare together"), milliseconds(times, "stop"),
            milliseconds(times, "copy"), ratio(times, "stop", "copy")]


def row_of_steps(options, tools, library, name, start, memory):
    saved = memory / "behind"
    times = reshard(tools, library, start, "--save", saved,
                    "--steps", options.pairs)["steps"]
    shutil.rmtree(saved)
    return [name, milliseconds(times, "step"), milliseconds(times, "median during"),
            ratio(times, "median during", "step"), milliseconds(times, "without"),
            milliseconds(times, "during"), ratio(times, "during", "without"),
            ratio(times, "during", "step"), statistics.median(times["steps"]),
            milliseconds(times, "written")]


def milliseconds(times, which):
    return f"{1e3 * statistics.median(times[which]):.0f}"


def ratio(times, one, other):
    """The median of the rounds'."""
    return f"{statistics.median(map(lambda a, b: a / b, times[one], times[other])):.2f}"


def main(options, tools, folder):
    source = tools.build_model(
        folder / "gpt.mlir", **{name: getattr(options, name) for name in SIZES})
    rows = []
    with folder_in_memory() as memory:
        for name, strategy, mesh, start in CASES_OF_STEPS if options.steps else CASES:
            library = folder / f"{strategy}-{mesh.replace(':', '').replace(',', '')}.so"
            if not library.exists():
                tools.compile(source, library, f"--strategy={strategy}", f"--mesh={mesh}")
            measure = row_of_steps if options.steps else row
            rows.append(measure(options, tools, library, name, start, Path(memory)))
    about = (f"GPT-2, {options.layers} layers, hidden {options.hidden}, vocabulary "
             f"{options.vocab}; {machine()}.")
    if options.steps:
        header = ["ranks", "step, ms", "during saving, ms", "ratio", "longest alone, ms",
                  "longest during saving, ms", "ratio of these", "to a step",
                  "steps until the checkpoint is in place", "ms until then"]
    else:
        header = ["ranks", "MB", "rank 0 alone, GB/s", "all, GB/s", "ratio",
                  "bare loop of one, GB/s", "of all, GB/s",
                  "stop for a snapshot, ms", "copy of its bytes, ms", "ratio"]
    return {"steps" if options.steps else "saving": f"{about}\n\n{table(header, rows)}"}

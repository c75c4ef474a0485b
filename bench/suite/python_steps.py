# ===- python-steps - A step from Python and one of optimus-run -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A step of `Session.train_step` in Python beside one of `optimus-run bench`, in
turn: medians of a process's steps, and how much Python adds.

    bench/run python-steps
    bench/run python-steps --rounds 40

The difference is the median over rounds, with an interval that covers the true
median with a probability of 95 %. Fails where that is wholly above 2 % of a step and
50 µs. In Markdown.
"""

import os
import statistics

from harness import ROOT, interval, machine, run, table, take_turns

TARGETS = ["optimus-compile", "optimus-run", "optimus_python"]
NUMBERS = dict(rounds=20, steps=40, warmup=5)
MESH = ["--mesh=row:2,col:2", "--strategy=summa"]
# What is timed: sizes and flags of the compiler.
CASES = {
    "serial, 1×32, smallest": (dict(layers=1, hidden=32, heads=2, seq=16, vocab=64, batch=4), []),
    "mesh 2×2, 1×32": (dict(layers=1, hidden=32, heads=2, seq=16, vocab=64, batch=4), MESH),
    "serial, 2×128": (dict(layers=2, hidden=128, heads=4, seq=64, vocab=256, batch=4), []),
}
FROM_PYTHON = ROOT / "bench/python_steps.py"
# Debian's, which the module is for.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"


def main(options, tools, folder):
    paths = [str(options.build / "python"), str(ROOT / "python")]
    environment = dict(os.environ, PYTHONPATH=":".join(paths))
    rows, bad = [], []
    for number, (case, (sizes, flags)) in enumerate(CASES.items()):
        source = tools.build_model(folder / f"{number}.mlir", **sizes)
        library = folder / f"{number}.so"
        tools.compile(source, library, *flags)

        def bench():
            counts = ["--steps", options.steps, "--warmup", options.warmup]
            return tools.bench(library, *counts, "--threads-per-rank", 1)["ms"]["median"]

        def python():
            command = [PYTHON, FROM_PYTHON, library, options.steps, options.warmup, 1]
            return float(run(command, env=environment))

        rounds = [entries for _, entries in take_turns(
            {"bench": bench, "python": python}, options.rounds, warmup=1)]
        added = [1e3 * (entry["python"] - entry["bench"]) for entry in rounds]
        step = statistics.median(entry["bench"] for entry in rounds)
        low, high = interval(added)
        if low > max(50, 0.02 * 1e3 * step):
            bad.append(f"{case}: Python adds {low:.0f} to {high:.0f} µs to {step:.2f} ms")
        rows.append([case, f"{step:.3f}",
                     f"{statistics.median(entry['python'] for entry in rounds):.3f}",
                     f"{statistics.median(added):.0f} ({low:.0f} to {high:.0f})"])
    header = ["model", "ms, optimus-run bench", "ms, Python", "µs that Python adds"]
    return {"python-steps": f"{machine()}\n\n{table(header, rows)}"}, bad

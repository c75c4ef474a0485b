# ===- same-speed - Two builds take the same time for a step ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps of two builds in turn, and says how many times as long
this one takes. For changes that must cost nothing: the other build is that of
the commit before, as for `same-bits`.

    bench/run same-speed ../before
    bench/run same-speed ../before --rounds 100 --only mesh

A round is one step of each build. The ratio is the median over rounds, with an
interval that covers the true median with a probability of 95 %. Exits with 1
where an interval is not within --within.
"""

import pathlib

from harness import Ratios, Tools, machine, serve_steps, spread, take_turns

TARGETS = ["optimus-compile", "optimus-bench-step"]
NUMBERS = dict(rounds=40, warmup=3)
SIZES = dict(layers=6, hidden=384, heads=6, seq=256, batch=8)
SMALL = dict(layers=4, hidden=256, heads=4, seq=128, batch=8, vocab=256)
MESH = ["--mesh=row:2,col:2", "--strategy=summa"]
# What is timed: sizes, flags of the compiler, threads of a rank.
CASES = {
    "serial, vocabulary 50304": (dict(SIZES, vocab=50304), [], 2),
    "serial, vocabulary 256": (dict(SIZES, vocab=256), [], 2),
    "mesh 2x2, summa": (dict(SIZES, vocab=256), MESH, 1),
    "mesh 2x2, small": (SMALL, MESH, 1),
}


def options(parser):
    parser.add_argument("before", type=pathlib.Path, help="a built tree of the other commit")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--within", type=float, default=1, help="in %%, default 1")


def serve(tools, name, sizes, flags, threads, folder):
    # Each compiler knows the form that its own builder writes.
    source = tools.build_model(folder / f"{name}.mlir", **sizes)
    library = folder / f"{name}.so"
    tools.compile(source, library, *flags)
    return serve_steps(tools, library, "--threads-per-rank", threads)


def main(options, tools, folder):
    before, bad = options.before.resolve(), []
    trees = {"before": Tools(before / "build", before), "now": tools}
    print(machine())
    for case, how in CASES.items():
        if options.only not in case:
            continue
        programs = {name: serve(tree, name, *how, folder) for name, tree in trees.items()}
        rounds = [entries for _, entries in take_turns(
            {name: program.round for name, program in programs.items()},
            options.rounds, options.warmup)]
        for program in programs.values():
            program.close()
        times = [(entry["before"]["ms"], entry["now"]["ms"]) for entry in rounds]
        ratios, limit = Ratios(times), options.within / 100
        good = 1 - limit <= ratios.low and ratios.high <= 1 + limit
        if not good:
            bad.append(f"{case}: not within {options.within:g} %")
        print(f"{case}: before {spread([t for t, _ in times])} ms, "
              f"after {spread([t for _, t in times])} ms; {len(times)} rounds, "
              f"{ratios}{'' if good else ': NOT within'}", flush=True)
    return None, bad

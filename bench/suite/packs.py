# ===- packs - What packing weights once a step gains -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a GPT-2 by microbatches of one sequence, with weights packed once a step
and with weights packed for each microbatch, in turn. Profiles say how long packing
takes.

    bench/run packs
    bench/run packs --microbatches 4 --rounds 2

The second program is the first with a memory budget that its packed weights exceed
by a byte. With M microbatches, packing once can gain (M - 1)/M of it: exits with
1 where less than --least of that is gained, or losses differ.
"""

import contextlib
import json
import sqlite3

from harness import machine, spread, write_text

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(rounds=3, steps=4, microbatches=8, layers=6, hidden=384, sequence=256)
# Of a profile: the first step warms up.
PACKING = """
    SELECT sum(times.end - times.begin) * 1e-6 / count(DISTINCT step)
    FROM times JOIN calls USING (call) JOIN commands USING (function, command)
    WHERE commands.kind = 'pack' AND step > 1"""


def options(parser):
    parser.add_argument("--least", type=float, default=80, help="in %%, default 80")


def compile_both(tools, folder, options):
    """The libraries, and what a rank holds for a step of each."""
    source = tools.build_model(
        folder / "gpt.mlir", layers=options.layers, hidden=options.hidden,
        heads=options.hidden // 64, seq=options.sequence, batch=1, vocab=256)
    report, held, libraries = folder / "report.json", {}, {}
    flags = ["--accumulate", "--report-json", report]
    for name in "once", "each":
        libraries[name] = folder / f"{name}.so"
        budget = [f"--memory-budget={held['once'] - 1}"] if held else []
        tools.compile(source, libraries[name], *flags, *budget)
        held[name] = json.loads(report.read_text())["memory"]["microbatches"]["total"]
    return libraries, held


def train(tools, folder, library, data, options):
    """Milliseconds of packing a step, and the losses."""
    profile = folder / "run.profile"
    lines = tools.train(
        library, data, folder / "log", "--steps", options.steps + 1, "--microbatches",
        options.microbatches, "--threads-per-rank", 1, "--profile", profile,
        "--profile-steps", f"1:{options.steps + 1}")
    with contextlib.closing(sqlite3.connect(profile)) as database:
        [(milliseconds,)] = database.execute(PACKING)
    return milliseconds, [line["loss"] for line in lines]


def main(options, tools, folder):
    libraries, held = compile_both(tools, folder, options)
    data, bad = write_text(folder / "text.txt"), []
    packing = {name: [] for name in libraries}
    for _ in range(options.rounds):
        losses = {}
        for name, library in libraries.items():
            milliseconds, losses[name] = train(tools, folder, library, data, options)
            packing[name].append(milliseconds)
        if losses["once"] != losses["each"]:
            bad.append(f"losses differ: {losses}")
    # Of what packing once can gain.
    most = 1 - 1 / options.microbatches
    gains = [100 * (each - once) / (most * each)
             for once, each in zip(packing["once"], packing["each"])]
    if min(gains) < options.least:
        bad.append(f"packing once gains {min(gains):.1f} %, of which {options.least:g} "
                   "were expected")
    print(machine())
    print(f"{options.microbatches} microbatches: packing takes "
          f"{spread(packing['each'], 1)} ms of a step for each of them, "
          f"{spread(packing['once'], 1)} ms once a step; gained are {spread(gains, 1)} % "
          f"of {100 * most:.1f} %. A rank holds {held['each'] / 2**20:.0f} MiB and "
          f"{held['once'] / 2**20:.0f} MiB.")
    return None, bad

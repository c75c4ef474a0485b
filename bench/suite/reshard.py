# ===- reshard - The memory of moving checkpoints between layouts ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checkpoints written on one layout and loaded on another: what each process
holds before, and how much more at the peak of loading and of saving, as Linux
counts resident memory.

    bench/run reshard
    bench/run reshard --write bench/results/reshard.md

Ranks are processes under mpirun, or threads of one. Every layout saves what it
has loaded: the bench fails unless the files have the same bytes, and unless no
process took more memory than docs/checkpoints.md says.
"""

import filecmp
import json

from harness import MPIRUN, fail, machine, run, table

TARGETS = ["optimus-compile", "optimus-bench-reshard"]
SIZES = dict(layers=4, hidden=512, heads=8, seq=32, batch=16, vocab=8192)
MIB = 1 << 20
FILES = ["model.safetensors", "optimizer.safetensors"]

# Name, strategy, mesh, ranks.
LAYOUTS = {
    "serial": ("serial", "", 1),
    "summa 2×2": ("summa", "row:2,col:2", 4),
    "summa 2×3": ("summa", "row:2,col:3", 6),
    "summa 4×4": ("summa", "row:4,col:4", 16),
    "megatron 3, data 2": ("megatron", "data:2,row:1,col:3", 6),
    "data 2": ("data", "data:2", 2),
}
# Written on, loaded on, whether as threads.
CASES = [
    ("serial", "summa 4×4", False),
    ("summa 4×4", "summa 2×3", False),
    ("summa 4×4", "megatron 3, data 2", False),
    ("summa 4×4", "data 2", False),
    ("data 2", "summa 2×2", False),
    ("megatron 3, data 2", "serial", True),
    ("data 2", "summa 4×4", True),
]
NUMBERS = dict(SIZES, cases=len(CASES))


class Layouts:
    def __init__(self, options, tools, folder):
        self._tools, self._folder = tools, folder
        self._libraries, self._checkpoints = {}, {}
        self._source = tools.build_model(
            folder / "gpt.mlir", **{name: getattr(options, name) for name in SIZES})

    def _library(self, name):
        if name not in self._libraries:
            strategy, mesh, _ = LAYOUTS[name]
            library = self._folder / f"{len(self._libraries)}.so"
            flags = [f"--strategy={strategy}"] + ([f"--mesh={mesh}"] if mesh else [])
            self._tools.compile(self._source, library, *flags)
            self._libraries[name] = library
        return self._libraries[name]

    def run(self, name, *flags, threads):
        ranks = LAYOUTS[name][2]
        prefix = [*MPIRUN, "--bind-to", "none", "-n", ranks]
        return json.loads(run([*([] if threads or ranks == 1 else prefix),
                               self._tools.path("bench-reshard"), self._library(name),
                               *flags]))

    def checkpoint(self, name):
        """One that this layout wrote, with the values of every other's."""
        if name not in self._checkpoints:
            folder = self._folder / f"checkpoint-{len(self._checkpoints)}"
            self.run(name, "--save", folder, threads=True)
            self._checkpoints[name] = folder
        return self._checkpoints[name]


def growths(report, phase):
    return [entry[phase]["peak"] - entry[phase]["before"]["VmRSS"]
            for entry in report["processes"]]


def check(case, report):
    """What docs/checkpoints.md promises, and 3 MiB for MPI and the loader."""
    processes = len(report["processes"])
    threads = report["ranks"] / processes
    for index in range(processes):
        for phase, pieces in [
            ("load", 1 + threads / 4),
            ("save", 8 if index == 0 else 4),
        ]:
            found, most = growths(report, phase)[index], (pieces + 3) * MIB
            if found > most:
                fail(f"{case}: process {index} took {found} bytes to {phase}, expected "
                     f"at most {most:.0f}")


def row(layouts, written, loaded, threads, folder):
    checkpoint, again = layouts.checkpoint(written), folder / "again"
    report = layouts.run(loaded, "--load", checkpoint, "--save", again, threads=threads)
    for name in FILES:
        if not filecmp.cmp(checkpoint / name, again / name, shallow=False):
            fail(f"{name} written on {written} changed on its way through {loaded}")
    check(f"{written} to {loaded}", report)
    first = report["processes"][0]
    before = first["load"]["before"]

    def largest(phase):
        own, others = growths(report, phase)[0], growths(report, phase)[1:]
        cells = [f"{own / 1e6:.1f}", f"{max(others) / 1e6:.1f}" if others else "–"]
        return [*cells, f"{max(p[phase]['seconds'] for p in report['processes']):.2f}"]

    processes = len(report["processes"])
    what = f"{processes} process" + ("es" if processes > 1 else "")
    if processes != report["ranks"]:
        what = f"{report['ranks']} threads"
    cells = [written, loaded, what]
    cells += [f"{(report['parameters'] + report['state']) / 1e6:.1f}",
              f"{report['arena'] / 1e6:.1f}"]
    cells += [f"{before[name] / 1e6:.1f}" for name in ("RssAnon", "RssFile", "RssShmem")]
    return cells + largest("load") + largest("save"), report


def main(options, tools, folder):
    rows = []
    layouts = Layouts(options, tools, folder)
    for case in CASES[: options.cases]:
        cells, report = row(layouts, *case, folder)
        rows.append(cells)
    size = report["model_bytes"] / 1e6
    about = (
        f"GPT-2, {options.layers} layers, hidden {options.hidden}, vocabulary "
        f"{options.vocab}: {size:.1f} MB of parameters and {2 * size:.1f} MB of AdamW's "
        f"moments. MB; {machine()}.")
    header = [
        "written on", "loaded on, then saved", "ranks", "a rank's parameters and moments",
        "its arena", "before: RssAnon", "RssFile", "RssShmem", "loading, rank 0", "others",
        "s", "saving, rank 0", "others", "s"]
    return {"reshard": f"{about}\n\n{table(header, rows)}"}

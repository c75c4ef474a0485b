# ===- budget - Memory of a step against its time -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A GPT-2 under `--memory-budget`, for shares of the memory with everything kept,
beside the policies `none`, `attention` and `layer`: values recomputed and offloaded by
the compiler, and, predicted and measured, the memory of a rank and the time of a step.

    bench/run budget
    bench/run budget --layers 12 --hidden 768 --heads 12 --seq 256 --batch 4 --vocab 50304
    bench/run budget --write bench/results/budget.md

The machine and the folder of the scratch file are measured first. Programs are
timed in turn, a few steps of each a round, and ratios are those to `none` in the
same round. The memory held is the most of a process in anonymous pages, less that of a
model of a few kilobytes. It fails where a policy fits a budget and is predicted to be
faster than what was chosen for it.

    bench/run budget --peer "$(bench/peers/setup)"

times PyTorch's training step beside, compiled, as it is and with activation
checkpointing of every block. It says for each policy and for each of these two
which budget holds no more and takes the least time of a step beside its own.
"""

import functools
import json
import re
import statistics
import tempfile
import time

from harness import ROOT, fail, machine, run, scratch_rates, table, take_turns
from held import most_held

TARGETS = ["optimus-compile", "optimus-run"]
MEBI = 2**20
POLICIES = ("none", "attention", "layer")
SIZES = dict(layers=6, hidden=256, heads=8, seq=512, vocab=256, batch=8)
NUMBERS = dict(SIZES, rounds=3, threads=2)
TINY = dict(layers=1, hidden=8, heads=2, seq=4, vocab=16, batch=1)
ROW = re.compile(
    r"^(?P<mark>[* ]) \S+:\d\S* +\S+ +(?P<policy>[a-z]+) +(?P<ms>[\d.]+) +[\d.]+ +[\d.]+"
    r" +(?P<mib>[\d.]+)(?:  over the budget)?(?:  --offload-window \d+ --offload (?P<offload>\S+))?$",
    re.MULTILINE,
)
RECOMPUTED = re.compile(r"^  recomputed   (.*)$", re.MULTILINE)


def options(parser):
    parser.add_argument("--shares", default="100,85,70,60,50,40",
                        type=lambda text: [float(share) for share in text.split(",")],
                        help="in %% of what none holds; default: %(default)s")
    parser.add_argument("--steps", type=int, default=2, help="of each in a round")
    parser.add_argument("--machine-profile", help="default: measured now")
    parser.add_argument("--scratch", default=tempfile.gettempdir(),
                        help="folder of the scratch file; default: %(default)s")
    parser.add_argument("--peer", metavar="PYTHON",
                        help="time PyTorch in this Python beside")


class Bench:
    def __init__(self, options, tools, folder):
        self.options, self.tools, self.folder = options, tools, folder
        self.program = tools.build_model(
            folder / "model.mlir", **{name: getattr(options, name) for name in SIZES})
        self.profile = options.machine_profile or folder / "machine.json"
        if not options.machine_profile:
            flags = ["--threads-per-rank", options.threads, "--profile", self.profile]
            run([tools.path("run"), "bench", "--gemm", *flags])
        self.rates = scratch_rates(options.scratch)
        library = folder / "tiny.so"
        tools.compile(tools.build_model(folder / "tiny.mlir", **TINY), library)
        self.beside = self.beside_peer = 0
        self.beside = self.measure(library)[1]
        if options.peer:
            self.beside_peer = self.measure_peer(sizes=TINY)[1]

    def compile(self, name, *flags):
        """The choice, its library and its seconds; None where nothing fits. And all
        rows of the table."""
        library = self.folder / f"{name}.so"
        begin = time.monotonic()
        result = self.tools.compile(self.program, library, *flags, "--report",
                                    "--machine-profile", self.profile, check=False)
        seconds = time.monotonic() - begin
        rows = [
            dict(row.groupdict(), ms=float(row["ms"]), mib=float(row["mib"]))
            for row in ROW.finditer(result.stdout)
        ]
        if result.returncode and "no layout fits" not in result.stderr:
            fail(result.stderr)
        chosen = [row for row in rows if row["mark"] == "*"]
        if not chosen:
            return None, rows
        recomputed = RECOMPUTED.search(result.stdout)
        count = sum(int(number or 1) for number in re.findall(
            r"(?:(\d+) of )?\S+:\d+", recomputed[1])) if recomputed else 0
        timed = functools.partial(self.measure, library)
        return dict(chosen[0], timed=timed, seconds=seconds, recomputed=count), rows

    def measure(self, library):
        """The milliseconds of a step and the bytes that were held."""
        command = [self.tools.path("run"), "bench", library, "--json"]
        command += ["--steps", self.options.steps, "--scratch", self.options.scratch]
        command += ["--threads-per-rank", self.options.threads]
        text, held = most_held(command)
        return json.loads(text)["ms"]["median"], held - self.beside

    def measure_peer(self, *flags, sizes=None):
        """The same of PyTorch."""
        command = [self.options.peer, ROOT / "bench/peers/torch_gpt2.py", "--compile"]
        command += ["--threads", self.options.threads, "--steps", self.options.steps]
        for name in SIZES:
            command += [f"--{name}", (sizes or vars(self.options))[name]]
        text, held = most_held([*command, *flags], program=None)
        steps = [json.loads(line) for line in text.splitlines()]
        ms = statistics.median(step["ms"] for step in steps if "ms" in step)
        return ms, held - self.beside_peer


def compile_all(bench):
    """By name: what is predicted and how it is timed, or None where nothing fits."""
    compiled = {}
    for policy in POLICIES:
        compiled[policy], _ = bench.compile(
            policy, "--recompute", policy, "--memory-budget", "1024GiB")
    most = compiled["none"]["mib"]
    read, written = bench.rates
    for share in bench.options.shares:
        # What the table prints is rounded.
        budget = most * share / 100 + 0.06
        flags = ["--memory-budget", int(budget * MEBI)]
        flags += ["--offload-bandwidth", f"{int(read)},{int(written)}"]
        chosen, rows = bench.compile(f"share{share:g}", *flags)
        for row in rows:
            if chosen and row["mib"] <= budget and row["ms"] < chosen["ms"]:
                fail(f"{row['policy']} fits {budget:.1f} MiB and is faster")
        compiled[f"{share:g} %, {budget:.1f} MiB"] = chosen
    return compiled


def describe_offload(offload):
    """Kinds by name, and how many patterns of values there are."""
    entries = offload.split(",") if offload else []
    kinds = [entry for entry in entries if ":" not in entry]
    values = len(entries) - len(kinds)
    if values:
        kinds.append(f"{values} value{'s' if values > 1 else ''}")
    return ", ".join(kinds) or "nothing"


def measure_all(bench, timed):
    """By name: the milliseconds and the MiB held of every round."""
    measured = {name: [] for name in timed}
    for _, found in take_turns(timed, bench.options.rounds):
        for name, (ms, held) in found.items():
            measured[name].append((ms, held / MEBI))
    return measured


def ratio(measured, name, other):
    """The median over rounds of one's milliseconds to the other's."""
    pairs = zip(measured[name], measured[other])
    return statistics.median(one[0] / two[0] for one, two in pairs)


def median_held(measured, name):
    return statistics.median(held for _, held in measured[name])


def share_of(held, whole):
    """As text. Samples of a short run may show nothing held beside the program's own."""
    return f"{held / whole:.3f}" if whole > 0 else "unmeasured"


def row(entry, measured, name, none):
    """A line of the table; an entry without a prediction is a peer's."""
    planned = [""] * 6
    if "mib" in entry:
        planned = [entry["policy"], str(entry["recomputed"] or "none"),
                   describe_offload(entry["offload"]), f"{entry['mib']:.1f}",
                   f"{entry['ms']:.1f}", f"{entry['ms'] / none['ms']:.3f}"]
    held = median_held(measured, name)
    ms = statistics.median(ms for ms, _ in measured[name])
    cells = [name, *planned[:4], f"{held:.1f}",
             share_of(held, median_held(measured, "none")), *planned[4:],
             f"{ms:.1f}", f"{ratio(measured, name, 'none'):.3f}",
             f"{entry['seconds']:.1f}" if "seconds" in entry else ""]
    return cells


def curve_table(measured, compiled):
    header = ["budget or policy", "chosen", "recomputed values", "offloaded", "planned, MiB",
              "held, MiB", "of `none`", "predicted, ms", "of `none`", "measured, ms",
              "of `none`", "compiled in, s"]
    rows = [row(entry, measured, name, compiled["none"]) if entry
            else [name, "nothing fits", *[""] * 10] for name, entry in compiled.items()]
    return table(header, rows)


def compare(measured, budgets, others):
    """For each of the others, the budget that holds no more and is the fastest."""
    lines = []
    for other in others:
        most = median_held(measured, other)
        fitting = [name for name in budgets if median_held(measured, name) <= most]
        if not fitting:
            lines.append(f"* {other}: no budget holds as little.")
            continue
        best = min(fitting, key=lambda name: ratio(measured, name, other))
        lines.append(
            f"* {other}: {best} holds {share_of(median_held(measured, best), most)} of it, "
            f"and a step takes {ratio(measured, best, other):.3f} of its time."
        )
    return "\n".join(lines)


def curve(bench):
    compiled = compile_all(bench)
    if bench.options.peer:
        compiled["PyTorch"] = {"timed": bench.measure_peer}
        compiled["PyTorch, blocks checkpointed"] = {
            "timed": functools.partial(bench.measure_peer, "--checkpoint")}
    measured = measure_all(
        bench, {name: entry["timed"] for name, entry in compiled.items() if entry})
    budgets = [name for name in measured if "%" in name]
    others = [name for name in measured if name not in budgets]
    return f"{curve_table(measured, compiled)}\n\n{compare(measured, budgets, others)}"


def main(options, tools, folder):
    bench = Bench(options, tools, folder)
    read, written = bench.rates
    sizes = ", ".join(f"{name} {getattr(options, name)}" for name in SIZES)
    return {"curve": (
        f"{machine()}; {options.threads} threads, {options.rounds} rounds. {sizes}. "
        f"Scratch file: {read / 1e9:.2f} GB/s read, {written / 1e9:.2f} GB/s "
        "written.\n\n" + curve(bench)
    )}

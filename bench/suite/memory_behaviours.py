# ===- memory-behaviours - What blocks of memory do while a model trains --===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The findings of «Pinpointing the Memory Behaviors of DNN Training» on our runs:
whether steps are alike, how long blocks live and lie idle, the contents of the peak,
and the savings possible by swaps.

    bench/run memory-behaviours
    bench/run memory-behaviours --write docs/memory-behaviours.md

GPT-2 and a plain MLP of several depths and batches are compiled and trained for some
steps, on one rank of one thread; buffers come from the C library's allocator, as they
do in frameworks that plan nothing (`--placement=dynamic`), and each run is profiled.
Beside that allocator's use stands the arena planned by the compiler. Needs numpy, as
optimus-report does.
"""

import sys
from types import SimpleNamespace
from typing import NamedTuple

from harness import ROOT, fail, integers, machine, one_of, table, write_text

sys.path.insert(0, str(ROOT / "python"))
# pylint: disable=wrong-import-position
from optimus.ir import LossFunction
from optimus.models.parts import Parts, begin

try:
    import numpy as np
    from optimus.report import events, runs, summary, text
    from optimus.report.intervals import Histogram
    from optimus.report.memory import Memory, lower_bound
    from optimus.report.swaps import LINKS, hidden, slowest
except ImportError as error:
    fail(f"{error}; expected numpy, as Debian's python3-numpy with /usr/bin/python3")

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(hidden=256, heads=4, seq=128)
VOCABULARY, INIT_STD, CHUNK = 256, 0.02, 512
PAGE = 4096  # bytes
OUTLIERS = 4
# Of an accelerator beside a core: with it all intervals would be shorter.
FASTER = 100


class Case(NamedTuple):
    model: str
    layers: int
    batch: int

    @property
    def cells(self):
        return [f"`{self.model}`", str(self.layers), str(self.batch)]


def options(parser):
    parser.add_argument("--models", default="gpt2,mlp", type=one_of(BUILDERS),
                        help="gpt2, mlp or both; default: %(default)s")
    parser.add_argument("--layers", default="2,4", type=integers,
                        help="depths; default: %(default)s")
    parser.add_argument("--batches", default="2,4,8,16", type=integers,
                        help="sequences in a batch; default: %(default)s")
    parser.add_argument("--steps", default=6, type=int,
                        help="steps of a run, from 3; default: %(default)s")


def build_gpt2(tools, path, case, options):
    tools.build_model(path, layers=case.layers, hidden=options.hidden,
                      heads=options.heads, seq=options.seq, batch=case.batch,
                      vocab=VOCABULARY, chunk=CHUNK)


def build_mlp(_tools, path, case, options):
    """Each token by itself: embedding, layers of two products with a GELU between
    them, and the head. No norms, attention or residuals."""
    config = SimpleNamespace(
        batch=case.batch, sequence=options.seq, vocabulary=VOCABULARY,
        layers=case.layers, hidden=options.hidden, heads=options.heads,
        init_std=INIT_STD)
    model, tokens, targets = begin(LossFunction, "mlp", config)
    parts = Parts(model, config, epsilon=1e-5)
    ins, outs = [("hidden", options.hidden)], [("ffn", 4 * options.hidden)]
    words = [("vocabulary", VOCABULARY)]
    x = model.embedding("embedded", parts.weight("words", words, ins), tokens)
    for layer in range(case.layers):
        with model.scope(f"layer.{layer}"):
            x = model.gelu("gelu", parts.biased_linear("up", x, outs, ins))
            x = parts.biased_linear("down", x, ins, outs)
    head = parts.weight("head", words, ins)
    model.head_loss(x, head, targets, CHUNK)
    path.write_text(model.text(), encoding="utf-8")


BUILDERS = {"gpt2": build_gpt2, "mlp": build_mlp}


class Allocations:
    """A watcher of Memory.gather: what the allocator used in the last step, by when
    the C library has learned to take large blocks from its heap, too."""

    def __init__(self, blocks):
        self._blocks = blocks
        self._before = None
        self.span = self.touched = 0
        self.same_address = []  # shares of blocks, for each step from the second

    def __call__(self, call, _idle):
        alive = events.lives(call, self._blocks)
        now = dict(zip(alive.block.tolist(), alive.address.tolist()))
        if self._before is not None:
            same = [self._before.get(block) == at for block, at in now.items()]
            self.same_address.append(sum(same) / len(same))
        self._before = now
        end = alive.address + self._blocks.bytes[alive.block]
        self.span = int(end.max() - alive.address.min())
        # The union of the pages that blocks lay in, one after the other.
        order = np.argsort(alive.address)
        first, last = alive.address[order] // PAGE, -(-end[order] // PAGE)
        covered = np.maximum.accumulate(np.r_[first[0], last])
        pages = np.maximum(covered[1:], first) - np.maximum(covered[:-1], first)
        self.touched = int(pages.sum()) * PAGE


class Run:
    """One case, trained and read."""

    def __init__(self, case, options, tools, folder):
        self.case = case
        source, library = folder / "model.mlir", folder / "model.so"
        profile = folder / "run.profile"
        BUILDERS[case.model](tools, source, case, options)
        tools.compile(source, library)
        # Enough for a batch in every step.
        data = write_text(folder / "text.txt")
        tools.train(library, data, folder / "log", "--steps", options.steps,
                    "--threads-per-rank", 1, "--placement=dynamic", "--profile", profile)
        profiles = runs.read([str(profile)])
        self.memory = Memory(profiles[0])
        self.allocations = Allocations(self.memory.blocks)
        self.memory.gather(self.allocations)
        self.rank = summary.highest(self.memory)
        self.peak = self.rank.peak
        self.idle = together(self.memory.idle_times)
        self.lifetimes = together(self.memory.lifetimes)

    @property
    def peak_bytes(self):
        """Of each category, resident blocks and those of the arena."""
        bytes_of = self.memory.resident_by_category + self.peak.by_category
        return dict(zip(self.memory.blocks.categories, bytes_of.tolist()))


def together(histograms):
    """One histogram of what several hold."""
    found = Histogram()
    found.counts = sum(each.counts for each in histograms)
    found.count = sum(each.count for each in histograms)
    found.below = sum(each.below for each in histograms)
    found.largest = max(each.largest for each in histograms)
    return found


def quantiles(histogram):
    values = histogram.quantile(0.5), histogram.quantile(0.9), histogram.largest
    return [text.time(value) for value in values]


def ranged(values, shown):
    """The least and the greatest; one where they are shown alike."""
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def largest_of_models(results):
    """The deepest run with the largest batch of each model."""
    found = {}
    for result in results:
        found[result.case.model] = result
    return found.values()


def stability_table(results):
    rows = []
    for result in results:
        shares = result.rank.same_events
        accesses = len(result.peak.function.accesses.block)
        blocks = len(result.peak.function.blocks)
        addresses = result.allocations.same_address
        rows.append([*result.case.cells, blocks, accesses,
                     f"{100 * np.mean(shares):.2f}", f"{100 * np.min(shares):.2f}",
                     f"{100 * addresses[0]:.1f}", f"{100 * addresses[-1]:.1f}"])
    return table(["model", "layers", "batch", "blocks of a step", "reads and writes",
                  "events as in the step before, %, mean", "least",
                  "blocks at the address of the step before, %, second step",
                  "last step"], rows)


def interval_table(results):
    rows = []
    for result in results:
        idle = result.idle
        rows.append([*result.case.cells, f"{idle.count:,}",
                     text.percent(idle.below, idle.count), *quantiles(idle)])
    return table(["model", "layers", "batch", "ATIs", "< 25 µs", "median", "90 %",
                  "longest"], rows)


def category_table(results):
    rows = []
    for result in largest_of_models(results):
        memory = result.memory
        for name, idle, lifetimes in zip(memory.blocks.categories, memory.idle_times,
                                         memory.lifetimes):
            if idle.count:
                lives = quantiles(lifetimes) if lifetimes.count else ["resident", "", ""]
                rows.append([*result.case.cells, name,
                             text.percent(idle.below, idle.count),
                             text.percent(idle.below, result.idle.below),
                             *quantiles(idle), *lives])
    return table(["model", "layers", "batch", "category", "ATI < 25 µs",
                  "of all of these", "median", "90 %", "longest", "lifetime: median", "90 %", "longest"], rows)


def lifetime_table(results):
    rows = [[*result.case.cells, *quantiles(result.lifetimes)] for result in results]
    return table(["model", "layers", "batch", "median", "90 %", "longest"], rows)


def peak_table(results):
    categories = sorted({name for result in results for name in result.peak_bytes})
    rows = []
    for result in results:
        found = result.peak_bytes
        whole = sum(found.values())
        shares = [text.percent(found.get(name, 0), whole) for name in categories]
        rows.append([*result.case.cells, text.size(whole), *shares])
    return table(["model", "layers", "batch", "alive", *categories], rows)


def outlier_table(results):
    rows = []
    for result in largest_of_models(results):
        blocks, idle = result.memory.blocks, result.memory.reliable
        product = np.maximum(idle, 0).astype(np.float64) * blocks.bytes
        for index in np.argsort(-product, kind="stable")[:OUTLIERS]:
            size, least = int(blocks.bytes[index]), int(idle[index])
            rows.append([*result.case.cells, blocks.paths[index] or blocks.names[index],
                         blocks.categories[blocks.category[index]], text.size(size),
                         text.time(least), slowest(LINKS, size, least)])
    return table(["model", "layers", "batch", "block", "category", "size", "ATI",
                  "slowest link that hides a swap"], rows)


def swap_table(results):
    rows = []
    for result in results:
        idle = result.peak.idle
        size = result.memory.blocks.bytes[idle.block]
        # What is resident is idle nearly all the time.
        passing = ~result.memory.blocks.resident[idle.block]
        shares = [text.percent(hidden(link, size, idle.length)[1], size.sum())
                  for link in LINKS]
        faster = hidden(LINKS[0], size, idle.length / FASTER)[1]
        shares.append(text.percent(faster, size.sum()))
        rows.append([*result.case.cells, text.size(int(size.sum())),
                     text.size(int(size[passing].sum())), *shares])
    return table(["model", "layers", "batch", "idle at the peak", "of that, not resident",
                  *[link.name for link in LINKS],
                  f"{LINKS[0].name}, a device {FASTER} times as fast"], rows)


def placement_table(results):
    rows = []
    for result in results:
        function, blocks = result.peak.function, result.memory.blocks
        arena = function.arena_bytes
        bound = lower_bound(function, blocks)
        rows.append([*result.case.cells, text.size(result.peak.bytes),
                     text.size(arena), f"{arena / bound:.3f}",
                     text.size(result.allocations.touched),
                     f"{result.allocations.touched / arena:.2f}",
                     text.size(result.allocations.span),
                     f"{result.allocations.span / arena:.2f}"])
    return table(["model", "layers", "batch", "alive, measured", "arena, planned",
                  "times the lower bound", "pages of the allocator's blocks",
                  "times the arena", "addresses they span", "times the arena"], rows)


def about(options, results):
    worst = [float(np.min(result.rank.same_events)) for result in results]
    below = [result.idle.below / result.idle.count for result in results]
    return (
        f"{machine()}. Hidden {options.hidden}, sequence {options.seq}, vocabulary "
        f"{VOCABULARY}, f32, AdamW; {options.steps} steps on one rank of one thread. "
        f"In all runs: stability {ranged(worst, lambda x: f'{100 * x:.2f} %')} at "
        f"least, {ranged(below, lambda x: f'{100 * x:.1f} %')} of ATIs below 25 µs."
    )


TABLES = {
    "stability": stability_table,
    "intervals": interval_table,
    "lifetimes": lifetime_table,
    "categories": category_table,
    "peak": peak_table,
    "outliers": outlier_table,
    "swaps": swap_table,
    "placement": placement_table,
}


def main(options, tools, folder):
    if options.steps < 3:
        fail(f"--steps: expected 3 or more, found {options.steps}; the first one warms "
             "up, and others are compared with it")
    results = []
    for model in options.models:
        for layers in options.layers:
            for batch in options.batches:
                case = Case(model, layers, batch)
                results.append(Run(case, options, tools, folder))
                print(f"{model}, {layers} layers, batch {batch}: done",
                      file=sys.stderr, flush=True)
    blocks = {"run": about(options, results)}
    blocks.update((name, render(results)) for name, render in TABLES.items())
    return blocks

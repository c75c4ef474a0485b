# ===- memory - What a rank holds under each strategy ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The memory of a rank under each strategy: at the peak of a step on 1, 4, 9 and
16 ranks, predicted and measured; and the largest batch within a budget on 16 and 64
ranks, compiled and not run.

    bench/run memory
    bench/run memory --write bench/results/memory.md

The peak is what the compiler plans for train_step: its arena, parameters,
moments and inputs. The small model is trained for some steps besides, each rank a
process. The bench fails unless the runtime allocated exactly that, and unless the
anonymous pages of a process equal the runtime's report: the plan, the scratch of its
thread and the buffers of its collectives. What every process holds, code and libraries,
is taken off by a run of a model of a few kilobytes. Memory does not depend on the load
of the machine.
"""

import json
import re
import sys

from harness import MPIRUN, ROOT, fail, integers, known_strategy, table, words
from held import most_held

sys.path.insert(0, str(ROOT / "python"))
# pylint: disable=wrong-import-position
from optimus.bisection import largest

TARGETS = ["optimus-compile", "optimus-run"]
SIZES = dict(layers=4, hidden=576, heads=48, seq=128, batch=12)
NUMBERS = SIZES
STRATEGIES = {"serial": 0, "megatron": 1, "megatron-sp": 1, "summa-paper": 2, "summa": 2}
LINE = 64
# A process's allowance beyond the report: a share, or so many bytes.
SHARE, BYTES_BESIDES = 0.02, 16e6
TINY = dict(layers=1, hidden=8, heads=4, seq=4, batch=4, vocab=16)
BYTES = {"f32": 4, "i32": 4, "i8": 1}


def options(parser):
    parser.add_argument("--strategies", default=",".join(STRATEGIES), type=words)
    parser.add_argument("--ranks", default="1,4,9,16", type=integers,
                        help="square numbers; default: %(default)s")
    parser.add_argument("--budget", type=float, default=80, help="gigabytes of a rank "
                        "for the largest batch; default: %(default)s")
    parser.add_argument("--large", default="32,4096,64,2048,50304", type=integers,
                        help="its layers, hidden size, heads, sequence and vocabulary")
    parser.add_argument("--large-ranks", default="16,64", type=integers,
                        help="square numbers, or none; default: %(default)s")


def mesh_flags(strategy, ranks):
    if ranks == 1:
        return ["--strategy=serial"]
    rows = round(ranks**0.5) if STRATEGIES[strategy] == 2 else 1
    return [f"--strategy={strategy}", f"--mesh=row:{rows},col:{ranks // rows}"]


class Compiler:
    def __init__(self, tools, folder):
        self._tools, self._folder = tools, folder
        self._tiny, self._left_out = {}, set()
        self._library = folder / "gpt.so"

    def _compile(self, output, sizes, strategy, ranks, *flags):
        """False where the compiler does not know the strategy."""
        source = self._tools.build_model(self._folder / "gpt.mlir", **sizes)
        result = self._tools.compile(source, output, *mesh_flags(strategy, ranks), *flags,
                                     check=False)
        return known_strategy(result, self._left_out)

    def planned(self, sizes, strategy, ranks):
        """Bytes of a rank in train_step: all that its arguments point to, the
        arena among them. None for an unknown strategy."""
        planned = self._folder / "planned.mlir"
        if not self._compile(planned, sizes, strategy, ranks, "--compile-to=place"):
            return None
        with open(planned, encoding="utf-8") as text:
            signature = next(line for line in text if "func.func @train_step(" in line)
        arguments = re.findall(r"%arg\d+: memref<(\d+)x(f32|i32|i8)>", signature)
        # The runtime begins every buffer on a cache line.
        return sum(
            -(-int(count) * BYTES[type] // LINE) * LINE
            for count, type in arguments
        )

    def _bench(self, sizes, strategy, ranks):
        """The runtime's report of memory, and a process's anonymous pages; None for an
        unknown strategy."""
        if not self._compile(self._library, sizes, strategy, ranks):
            return None
        command = [self._tools.path("run"), "bench", self._library, "--json"]
        command += ["--steps", 3, "--warmup", 0, "--threads-per-rank", 1]
        if ranks > 1:
            command = [*MPIRUN, "--bind-to", "none", "-n", ranks, *command]
        text, held = most_held(command)
        return json.loads(text)["memory"], held

    def measured(self, sizes, strategy, ranks):
        """The largest rank's memory in steps that run, and the manifest's
        activations at its peak."""
        if ranks not in self._tiny:
            tiny = dict(TINY, heads=max(ranks, 1), hidden=2 * max(ranks, 1))
            found = self._bench(dict(tiny, batch=ranks), strategy, ranks)
            if not found:
                return None
            self._tiny[ranks] = found[1] - found[0]["total"]
        found = self._bench(sizes, strategy, ranks)
        if not found:
            return None
        memory, held = found
        functions = self._tools.inspect(self._library)["functions"]
        step = next(entry for entry in functions if entry["name"] == "train_step")
        return {
            "total": memory["total"] - memory["scratch"] - memory["communication"],
            "besides": memory["scratch"] + memory["communication"],
            "held": held - self._tiny[ranks],
            "activation": step["peak_bytes"]["activation"],
            "workspace": step["peak_bytes"].get("workspace", 0),
            "packed": step["peak_bytes"].get("packed weight", 0),
        }


def peak_table(options, compiler):
    about = (
        f"{options.layers} layers, hidden {options.hidden}, {options.heads} heads, "
        f"sequence {options.seq}, batch {options.batch}, vocabulary 256, f32, AdamW. MB "
        "of the largest rank.")
    header = ["strategy", "ranks", "activations at the peak", "1/p of serial's, times",
              "panels and other workspace", "packed weights", "all, planned",
              "scratch and collectives besides", "held by a process"]
    rows = []
    sizes = {name: getattr(options, name) for name in SIZES}
    sizes["vocab"] = 256
    serial = None
    for strategy in options.strategies:
        for ranks in options.ranks:
            if (strategy == "serial") != (ranks == 1):
                continue
            found = compiler.measured(sizes, strategy, ranks)
            if not found:
                continue
            planned = compiler.planned(sizes, strategy, ranks)
            if planned != found["total"]:
                fail(f"{strategy} on {ranks} ranks: expected {planned} bytes, measured "
                     f"{found['total']}")
            reported = planned + found["besides"]
            if abs(found["held"] - reported) > max(SHARE * reported, BYTES_BESIDES):
                fail(f"{strategy} on {ranks} ranks: expected a process to hold "
                     f"{reported} bytes, found {found['held']}")
            serial = serial or found["activation"]
            cells = [f"`{strategy}`", f"{ranks}", f"{found['activation'] / 1e6:.2f}",
                     f"{found['activation'] * ranks / serial:.2f}"]
            cells += [f"{bytes / 1e6:.2f}" for bytes in
                      (found["workspace"], found["packed"], planned,
                       found["besides"], found["held"])]
            rows.append(cells)
    return f"{about}\n\n{table(header, rows)}"


def largest_batch(compiler, sizes, strategy, ranks, budget):
    """The largest batch, a multiple of the rows, whose plan fits the budget."""
    multiple = round(ranks**0.5) if STRATEGIES[strategy] == 2 else 1

    def planned(batch):
        return compiler.planned(dict(sizes, batch=batch), strategy, ranks)

    if planned(multiple) is None:
        return None
    batch = largest(lambda batch: planned(batch) <= budget, multiple)
    return batch, planned(batch or multiple)


def batch_table(options, compiler):
    names = ["layers", "hidden", "heads", "seq", "vocab"]
    sizes = dict(zip(names, options.large))
    about = (
        f"{sizes['layers']} layers, hidden {sizes['hidden']}, {sizes['heads']} heads, "
        f"sequence {sizes['seq']}, vocabulary {sizes['vocab']}, f32, AdamW, no "
        f"recomputation; {options.budget:g} GB a rank.")
    rows = []
    for ranks in options.large_ranks:
        base = None
        for strategy in options.strategies:
            if strategy == "serial":
                continue
            found = largest_batch(compiler, sizes, strategy, ranks, 1e9 * options.budget)
            if found is None:
                continue
            batch, planned = found
            base = batch if strategy == "megatron" else base
            times = f"{batch / base:.1f}" if base else ""
            rows.append([ranks, f"`{strategy}`", batch, f"{planned / 1e9:.1f}", times])
    header = ["ranks", "strategy", "largest batch", "GB a rank", "times megatron's"]
    return f"{about}\n\n{table(header, rows)}"


def main(options, tools, folder):
    compiler = Compiler(tools, folder)
    blocks = {"peak": peak_table(options, compiler)}
    if options.large_ranks:
        blocks["batch"] = batch_table(options, compiler)
    return blocks

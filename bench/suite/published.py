# ===- published - Simulated steps beside published ones ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Simulates measurements of papers, on clusters that nobody has here, and compares.

    bench/run published
    bench/run published --only optimus --write bench/results/published.md

Programs are compiled to plans, and nothing runs. `optimus`: 1D and 2D steps of "An
Efficient 2D Method for Training Super-Large Deep Learning Models"; a product's rate, a
card's rate and a message's start-up are fitted on the 1D rows of 4 and 16 devices.
`megatron`: rows without pipelines of "Efficient Large-Scale Language Model Training on
GPU Clusters Using Megatron-LM" and "Reducing Activation Recomputation in Large
Transformer Models"; the times of products and of attention, which wrote its scores to
memory then, are scaled to fit two models, or both alike one. Nothing else is tuned, and all rows are printed. The rows were copied
from a list and not held against the papers' own tables.
"""

import json
import math
import os
import statistics
import sys

from harness import ROOT, run, table

TARGETS = ["optimus-compile", "optimus-simulate"]
PARTS = ["optimus", "megatron"]

# Devices; hidden, heads; (batch, forward, backward) of 1D and 2D, seconds a sequence.
OPTIMUS = {
    4: (2048, 32, (60, 0.0793, 0.2613), (96, 0.0985, 0.2979)),
    16: (4096, 64, (60, 0.2081, 0.5149), (192, 0.1764, 0.5312)),
    36: (6120, 72, (40, 0.3379, 0.7955), (288, 0.2099, 0.6159)),
    64: (8192, 128, (30, 0.4638, 1.0963), (384, 0.2589, 0.7935)),
}
SEQUENCE, LAYERS = 512, 24
# What a gradient of ours has no use for, and the papers' checkpoints run again: they
# recompute a layer to its end, the sum of its last product included.
LAST_PRODUCTS = "h.*.mlp.down_product*"
FITTED = [4, 16]
PCIE = 10e9

# Billions: layers, hidden, heads, tensor-parallel ranks, devices, batch, TFLOP/s.
MEGATRON = {
    1.7: (24, 2304, 24, 1, 32, 512, 137),
    3.6: (30, 3072, 32, 2, 64, 512, 138),
    7.5: (36, 4096, 32, 4, 128, 512, 142),
    18.4: (40, 6144, 48, 8, 256, 1024, 135),
}
VOCABULARY = 51200


def options(parser):
    parser.add_argument("--only", choices=PARTS, help="one of the papers")


class Simulator:
    """Plans of this sitting, and what they take."""

    def __init__(self, tools, folder):
        self.tools, self.folder = tools, folder
        self.count = 0

    def file(self, suffix):
        self.count += 1
        return self.folder / f"{self.count}{suffix}"

    def write(self, value):
        path = self.file(".json")
        path.write_text(json.dumps(value))
        return path

    def program(self, layers, hidden, heads, sequence, vocabulary, batch):
        return self.tools.build_model(
            self.file(".mlir"), layers=layers, hidden=hidden, heads=heads, seq=sequence,
            vocab=vocabulary, batch=batch)

    def plan(self, program, *flags):
        path = self.file(".plan")
        self.tools.compile(program, path, "--plan", "--target", "cuda", *flags)
        return path

    def answer(self, plan, *flags):
        return json.loads(run(
            [self.tools.path("simulate"), plan, *flags, "--json", "-"]))


def percent(predicted, published):
    return 100 * (predicted / published - 1)


def summarize(errors):
    sizes = [abs(error) for error in errors]
    return f"median {statistics.median(sizes):.1f} %, largest {max(sizes):.1f} %"


def solve(residuals, start, rounds=25):
    """The logarithms at which the sum of squares is least, by Levenberg and Marquardt;
    a step is at most a factor of two."""
    at, here, damping = list(start), residuals(start), 1e-3
    slopes = None
    for _ in range(rounds):
        width = 1e-3
        if slopes is None:
            slopes = []
            for i in range(len(at)):
                moved = at[:i] + [at[i] + width] + at[i + 1:]
                slopes.append([(a - b) / width
                               for a, b in zip(residuals(moved), here)])
        matrix = [[sum(a * b for a, b in zip(p, q)) * (1 + damping * (p is q))
                   + 1e-9 * (p is q) for q in slopes] for p in slopes]
        right = [-sum(a * b for a, b in zip(p, here)) for p in slopes]
        step = eliminate(matrix, right)
        there = [x + max(-math.log(2), min(math.log(2), s)) for x, s in zip(at, step)]
        found = residuals(there)
        before, after = (sum(each * each for each in one) for one in (here, found))
        if after >= before:
            damping *= 10
            if damping > 1e3:
                break
            continue
        at, here, slopes, damping = there, found, None, damping / 10
        if before - after < 1e-4 * before or after < 1e-10:
            break
    return at


def eliminate(matrix, right):
    """The solution of a small positive definite system."""
    rows = [row + [value] for row, value in zip(matrix, right)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1:]:
            factor = row[i] / pivot[i]
            row[:] = [a - factor * b for a, b in zip(row, pivot)]
    found = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        known = sum(rows[i][j] * found[j] for j in range(i + 1, len(rows)))
        found[i] = (rows[i][-1] - known) / rows[i][i]
    return found


# ------------------------------------------------------------------ the 2D method


def turing(flops, card, startup):
    """The machine profile of a Quadro RTX 5000. What is not fitted: 0.9 of the data
    sheet's 448 GB/s, the start-up of a kernel as an A100's, and attention at the rate
    of products, which it was."""
    return {
        "version": 1,
        "gpu": {"name": "Quadro RTX 5000", "memory_bytes": 16 << 30,
                "reserved_bytes": 1 << 30, "multiprocessors": 48,
                "clock_hz": 1815000000},
        "axes_share_link": True,
        "gemm": [{"threads": 1, "ranks": 1, "alpha_s": 3e-6, "flops_per_s": flops,
                  "half_m": 64, "half_n": 64, "half_k": 64, "kernel_alpha_s": 2e-6,
                  "bytes_per_s": 0.9 * 448e9, "attention_flops_per_s": flops}],
        "links": [
            {"ranks": 4, "alpha_s": startup, "beta_s_per_byte": 1 / PCIE},
            {"ranks": 16384, "alpha_s": startup, "beta_s_per_byte": 1 / card}],
    }


def frontera(known, card, startup):
    """The known cluster with what is fitted."""
    return {**known, "device_link": {**known["device_link"], "latency_s": startup},
            "nic": {"bytes_per_s": card, "latency_s": startup},
            # Each device on a port of its own, the card on another.
            "pcie": {"devices": 1, "bytes_per_s": PCIE, "nics": "root"}}


class TwoDimensions:
    """Rows of the paper, as (devices, dimensions)."""

    def __init__(self, simulator):
        self.simulator = simulator
        self.plans = {}
        self.known = json.loads(run(
            [simulator.tools.path("simulate"), "--print-cluster", "frontera-rtx"]))

    def program(self, ranks, batch):
        hidden, heads, *_ = OPTIMUS[ranks]
        return self.simulator.program(LAYERS, hidden, heads, SEQUENCE, 512, batch)

    @staticmethod
    def published(ranks, dimensions):
        return OPTIMUS[ranks][1 + dimensions]

    @staticmethod
    def mesh(ranks, dimensions):
        side = math.isqrt(ranks)
        return f"row:1,col:{ranks}" if dimensions == 1 else f"row:{side},col:{side}"

    def plan(self, ranks, dimensions):
        if (ranks, dimensions) not in self.plans:
            batch = self.published(ranks, dimensions)[0]
            strategy = "megatron" if dimensions == 1 else "summa-paper"
            self.plans[ranks, dimensions] = self.simulator.plan(
                self.program(ranks, batch), "--mesh", self.mesh(ranks, dimensions),
                "--strategy", strategy, "--recompute", "layer", "--schedule", "none")
        return self.plans[ranks, dimensions]

    def times(self, plan, batch, dimensions, numbers, recomputes_layers=True):
        """Seconds a sequence, forward and backward; with layers recomputed to their
        ends, or as the gradient is compiled."""
        flops, card, startup = numbers
        flags = ["--machine-profile", self.simulator.write(turing(*numbers)),
                 "--cluster", self.simulator.write(frontera(self.known, card, startup))]
        if dimensions == 2:
            flags += ["--placement", "row:2,col:2"]

        def simulate(*asked):
            answer = self.simulator.answer(plan, "--function", *asked, *flags)
            return answer["step_ms"] / 1e3
        forward, both = simulate("eval"), simulate("grad")
        if recomputes_layers:
            both += forward - simulate("eval", "--remove", LAST_PRODUCTS)
        return forward / batch, (both - forward) / batch

    def predict(self, ranks, dimensions, numbers):
        batch = self.published(ranks, dimensions)[0]
        return self.times(self.plan(ranks, dimensions), batch, dimensions, numbers)

    def fit(self):
        """The rate of products, that of a card and the start-up of a message."""
        def residuals(logarithms):
            numbers = [math.exp(each) for each in logarithms]
            return [math.log(predicted / published)
                    for ranks in FITTED
                    for predicted, published in zip(
                        self.predict(ranks, 1, numbers), self.published(ranks, 1)[1:])]
        start = [math.log(each) for each in (5.5e12, 4.7e9, 1e-5)]
        return [math.exp(each) for each in solve(residuals, start)]

    def largest(self, dimensions, numbers):
        """The largest batch with layers recomputed that 64 devices hold."""
        hidden, heads, *_ = OPTIMUS[64]
        found = self.simulator.file(".json")
        sizes = dict(layers=LAYERS, hidden=hidden, heads=heads, seq=SEQUENCE, vocab=512)
        run([sys.executable, "-m", "optimus.largest_batch", "--multiple-of", 8, "--json",
             found, "gpt2", *(part for name, value in sizes.items()
                              for part in (f"--{name}", value)),
             "--", "--mesh", self.mesh(64, dimensions), "--strategy",
             "megatron" if dimensions == 1 else "summa-paper", "--recompute", "layer",
             "--schedule", "none", "--target", "cuda", "--machine-profile",
             self.simulator.write(turing(*numbers))],
            env=dict(os.environ, PYTHONPATH=str(ROOT / "python"),
                     OPTIMUS_BIN_DIR=str(self.simulator.tools.binaries)))
        return json.loads(found.read_text())["largest"]["batch"]

    def best(self, strategy, numbers):
        """Of batches that fit at 64 devices, the fastest: forward, backward, batch."""
        profile = self.simulator.write(turing(*numbers))
        dimensions = 2 if strategy == "summa" else 1
        found = []
        for batch in (32, 96, 192, 384):
            plan = self.simulator.file(".plan")
            self.simulator.tools.compile(
                self.program(64, batch), plan, "--plan", "--target", "cuda", "--mesh",
                self.mesh(64, dimensions), "--strategy", strategy, "--recompute",
                "layer", "--machine-profile", profile)
            held = self.simulator.answer(plan, "--machine-profile", profile)
            if held["memory_bytes"]["total"] > 15 << 30:
                continue
            times = self.times(plan, batch, dimensions, numbers, recomputes_layers=False)
            found.append((*times, batch))
        return min(found, key=lambda one: one[0] + one[1])


def compare_with_optimus(simulator):
    rows = TwoDimensions(simulator)
    numbers = rows.fit()
    lines, errors = [], []
    found = {}
    for ranks in OPTIMUS:
        for dimensions in (1, 2):
            found[ranks, dimensions] = rows.predict(ranks, dimensions, numbers)
            batch, *published = rows.published(ranks, dimensions)
            is_fitted = dimensions == 1 and ranks in FITTED
            each = [percent(*pair) for pair in zip(found[ranks, dimensions], published)]
            errors += [] if is_fitted else each
            lines.append([
                ranks, f"{dimensions}D", batch,
                *(f"{predicted:.4f}, {time:.4f}, {error:+.1f} %" for predicted, time, error
                  in zip(found[ranks, dimensions], published, each)),
                "yes" if is_fitted else ""])
    text = (
        f"Fitted: products {numbers[0] / 1e12:.2f} TFLOP/s, a node's card "
        f"{numbers[1] / 1e9:.2f} GB/s, a message {numbers[2] * 1e6:.1f} µs. Of the "
        f"{len(errors)} other times: {summarize(errors)}.\n\n"
        + table(["devices", "", "batch", "forward: predicted, published, s a sequence",
                 "backward", "fitted"], lines))
    one, two = found[64, 1], found[64, 2]
    lines = [
        ["training, 1D ÷ summa-paper", "1.48", f"{sum(one) / sum(two):.2f}"],
        ["inference, 1D ÷ summa-paper", "1.78", f"{one[0] / two[0]:.2f}"],
    ]
    best = {name: rows.best(name, numbers) for name in ("megatron-sp", "summa")}
    summa, shared = best["summa"], best["megatron-sp"]
    held = {dimensions: rows.largest(dimensions, numbers) for dimensions in (1, 2)}
    lines += [
        [f"training, 1D ÷ summa with overlap, batch {summa[2]}", "",
         f"{sum(one) / sum(summa[:2]):.2f}"],
        ["inference, the same", "", f"{one[0] / summa[0]:.2f}"],
        [f"training, megatron-sp with overlap, batch {shared[2]} ÷ that summa", "",
         f"{sum(shared[:2]) / sum(summa[:2]):.2f}"],
        ["at 4 devices: training, 1D ÷ summa-paper", "0.86",
         f"{sum(found[4, 1]) / sum(found[4, 2]):.2f}"],
        ["largest batch, summa-paper ÷ 1D", "8 or more",
         f"{held[2] / held[1]:.1f}, of {held[1]} and {held[2]}"],
    ]
    return text + "\n\n" + table(["at 64 devices", "published", "predicted"], lines)


# ----------------------------------------------------------------------- Megatron


class Model:
    """A row: its plan, and its step where kinds of commands take other times; with
    layers recomputed to their ends where the paper did so."""

    def __init__(self, simulator, plan, recomputes_layers):
        self.simulator, self.plan = simulator, plan
        self.recomputes_layers = recomputes_layers
        self.flags = ["--cluster", "a100", "--machine-profile", "a100x8"]
        self.plain = simulator.answer(plan, *self.flags)

    def step(self, scales):
        """Seconds, with products and attention so many times as long."""
        flags = [*self.flags]
        for kind in self.plain["parts_ms"]:
            if kind == "gemm" or "attention" in kind:
                flags += ["--scale", f"{kind}={scales['attention' in kind]!r}"]

        def simulate(*more):
            return self.simulator.answer(self.plan, *flags, *more)["step_ms"] / 1e3
        if not self.recomputes_layers:
            return simulate()
        forward = "--function", "eval"
        return simulate() + simulate(*forward) - simulate(
            *forward, "--remove", LAST_PRODUCTS)


def make_row(simulator, row):
    layers, hidden, heads, ranks, devices, batch, _ = row
    program = simulator.program(layers, hidden, heads, 2048, VOCABULARY, batch)
    return Model(simulator, simulator.plan(
        program, "--precision", "bf16", "--mesh",
        f"data:{devices // ranks},row:1,col:{ranks}", "--strategy", "megatron",
        "--recompute", "layer", "--machine-profile", "a100x8"), True)


def to_teraflops(row, seconds):
    layers, hidden, _, _, devices, batch, _ = row
    operations = 96 * batch * 2048 * layers * hidden**2 * (
        1 + 2048 / (6 * hidden) + VOCABULARY / (16 * layers * hidden))
    return operations / seconds / devices / 1e12


def fit_two(models):
    """Scales of products and of attention that give 1.7 and 18.4 their published
    rates."""
    def residuals(logarithms):
        scales = [math.exp(each) for each in logarithms]
        return [math.log(to_teraflops(MEGATRON[name], models[name].step(scales))
                         / MEGATRON[name][-1]) for name in (1.7, 18.4)]
    return [math.exp(each) for each in solve(residuals, [0.0, 0.0])]


def make_22b(simulator, strategy, recompute):
    program = simulator.program(48, 6144, 64, 2048, VOCABULARY, 4)
    plan = simulator.plan(
        program, "--precision", "bf16", "--mesh", "row:1,col:8", "--strategy", strategy,
        "--recompute", recompute, "--machine-profile", "a100x8")
    return Model(simulator, plan, recomputes_layers=recompute == "layer")


def compare_with_megatron(simulator):
    models = {name: make_row(simulator, row) for name, row in MEGATRON.items()}
    scales = fit_two(models)
    lines, errors = [], []
    for name, model in models.items():
        seconds, plain = model.step(scales), model.step([1, 1])
        held = model.plain["memory_bytes"]["total"] / 2**30
        published = MEGATRON[name][-1]
        found = to_teraflops(MEGATRON[name], seconds)
        is_fitted = name in (1.7, 18.4)
        errors += [] if is_fitted else [percent(found, published)]
        lines.append([name, MEGATRON[name][3], MEGATRON[name][4], f"{held:.0f}",
                      f"{to_teraflops(MEGATRON[name], plain):.0f}", f"{found:.0f}",
                      published, f"{percent(found, published):+.1f} %",
                      "yes" if is_fitted else ""])
    text = (f"Fitted: products take {scales[0]:.3f} times, attention {scales[1]:.3f} "
            f"times as long as the a100 profile says. Of the others: "
            f"{summarize(errors)}.\n\n"
            + table(["billions", "t", "GPUs", "a rank, GiB", "unfitted", "predicted",
                     "published, TFLOP/s a GPU", "error", "fitted"], lines))
    whole = make_22b(simulator, "megatron", "layer")
    parts = make_22b(simulator, "megatron-sp", "attention")
    [scale] = solve(lambda at: [math.log(whole.step([math.exp(at[0])] * 2) / 1.42)],
                    [0.0])
    scale = math.exp(scale)
    lines = [["full recomputation", f"{whole.step([1, 1]):.2f}",
              f"{whole.step([scale] * 2):.2f}", "1.42", "", "yes"]]
    seconds = parts.step([scale] * 2)
    lines.append(["sequence parallelism, attention recomputed",
                  f"{parts.step([1, 1]):.2f}", f"{seconds:.2f}", "1.10",
                  f"{percent(seconds, 1.10):+.1f} %", ""])
    text += (f"\n\n22 billions on 8 GPUs, batch 4; fitted: products and attention take "
             f"{scale:.3f} times as long.\n\n"
             + table(["", "unfitted", "predicted", "published, s", "error", "fitted"],
                     lines))
    return text + ("\n\nRows with pipelines (p > 1) are open: no program here has "
                   "any.")


def main(options, tools, folder):
    simulator = Simulator(tools, folder)
    compare = {"optimus": compare_with_optimus, "megatron": compare_with_megatron}
    return {part: compare[part](simulator) for part in PARTS
            if options.only in (None, part)}

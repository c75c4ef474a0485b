# ===- search_draw - A mix by class under a virtual clock --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What `--draw class` of optimus-tune gains, under a virtual clock: models an hour, and
the time to a loss.

    bench/run search-draw --write bench/results/search.md

150 workers of two classes, CPUs and GPUs, search a space of six sizes and two types whose
trials take times over four orders of magnitude on a CPU. The order `fcfs` and the order
`placed` have the sampler's mix; `placed` with --draw class and `shadho` draw for classes.
Losses follow a curve in width, steps and learning rate. It is fitted first, to real runs
of optimus-tune on this machine, and extrapolated. Times are those of made-up devices.
"""

import json
import math
import random
import statistics
import subprocess
import sys

from harness import ROOT, fail, table, write_license

try:
    import numpy
except ImportError as error:
    fail(f"{error}; expected numpy, as Debian's python3-numpy with /usr/bin/python3")

sys.path.insert(0, str(ROOT / "python"))

from optimus.tune import journal  # noqa: E402
from optimus.tune.domains import parse  # noqa: E402
from optimus.tune.machine import Class  # noqa: E402
from optimus.tune.policies import make_policy  # noqa: E402
from optimus.tune.samplers import RandomSampler  # noqa: E402
from optimus.tune.search import Search  # noqa: E402
from optimus.tune.simulate import Simulation  # noqa: E402
from optimus.tune.spaces import Leaf, Space, Union  # noqa: E402
from optimus.tune.spec import Spec, Study  # noqa: E402
from optimus.tune.study import Study as State, model_of  # noqa: E402
from optimus.tune.virtual_pool import Kind, Pool  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(trials=48, steps=200, hours=4, seeds=5)
POLICIES = [("fcfs", "shared"), ("placed", "shared"), ("shadho", "class"), ("placed", "class")]
GPUS = (10, 30, 75)
WORKERS = 150
SLACK = 1.01
SPEC = """\
[study]
trials = {trials}
seed = 3
objectives = ["loss"]
keep = "all"

[model]
name = "gpt2"
layers = 1
hidden = {{ choice = [16, 32, 64, 128] }}
heads = 4
seq = 64
vocab = 256
batch = 8

[train]
data = "text.txt"
steps = {steps}
lr = {{ log-uniform = [1e-4, 1e-2] }}
"""
EXPONENTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
# The simulated search.
STEPS, TOKENS, LAYERS = 20_000, 1024, 4
EDGES = [16, 35, 74, 160, 344, 740, 1600]
FLOPS = 50e9
"""Of a CPU worker, a second, in f32."""


def points_of(folder):
    """Widths, steps, learning rates and losses of real runs."""
    study = State()
    for record in journal.read(str(folder)):
        study.apply(record)
    found = []
    for trial in study.trials:
        log = folder / "trials" / ("%06d" % trial.number) / "log.jsonl"
        if trial.outcome != "done" or not log.exists():
            continue
        losses = {}
        for line in log.read_text().splitlines():
            record = json.loads(line)
            if "step" in record and "loss" in record:
                losses[record["step"]] = record["loss"]
        for step in sorted(losses):
            if step >= 10 and step % 10 == 0:
                # A loss of one batch is noisy.
                near = [loss for at, loss in losses.items() if abs(at - step) <= 3]
                found.append((trial.values["model.hidden"], step,
                              trial.values["train.lr"], statistics.fmean(near)))
    if len(found) < 40:
        fail(f"expected 40 losses of real runs or more, found {len(found)}")
    return found


def columns(width, steps, rate, alpha, beta):
    x = math.log10(rate)
    return [1.0, width**-alpha, steps**-beta, x, x * x]


def fit(points):
    """loss = c0 + c1 width^-alpha + c2 steps^-beta + c3 x + c4 x^2, x = log10 of the rate:
    exponents from a grid, the rest by least squares."""
    values = numpy.array([point[3] for point in points])
    best = None
    for alpha in EXPONENTS:
        for beta in EXPONENTS:
            matrix = numpy.array([columns(*point[:3], alpha, beta) for point in points])
            weights = numpy.linalg.lstsq(matrix, values, rcond=None)[0]
            deviation = float(numpy.std(matrix @ weights - values))
            base, width, its_steps, linear, square = weights
            # Widths and steps help, there is a best rate, and no loss is below 0.
            sensible = (width > 0 and its_steps > 0 and square > 0
                        and base >= linear**2 / (4 * square))
            if sensible and (best is None or deviation < best[0]):
                best = deviation, alpha, beta, [float(each) for each in weights]
    if best is None:
        fail("expected losses that fall with width and steps and have a best rate; the "
             "runs' do not: take more of them, --trials N")
    return best


def curve(fitted):
    _, alpha, beta, weights = fitted

    def loss(trial, steps):
        row = columns(trial.values["model.hidden"], steps, trial.values["train.lr"], alpha, beta)
        return sum(a * b for a, b in zip(weights, row))

    return loss


def space():
    sizes = {
        "s%d" % place: Space((Leaf("model.hidden", parse({"log-uniform": [low, high]}), 1),))
        for place, (low, high) in enumerate(zip(EDGES, EDGES[1:]))
    }
    types = {
        name: Space((Leaf("compile.precision", parse(name), 2),)) for name in ("f32", "bf16")
    }
    return Space((Leaf("model.name", parse("gpt2"), 3),
                  Leaf("train.steps", parse(STEPS), 4),
                  Leaf("train.lr", parse({"log-uniform": [1e-4, 1e-2]}), 5)),
                 (Union("size", sizes, 1), Union("type", types, 2)))


def predict(values):
    parameters = 12 * LAYERS * values["model.hidden"] ** 2
    return {"rank_bytes": int(16 * parameters + 4 * TOKENS * LAYERS * 20 * values["model.hidden"]),
            "ranks": 1, "tokens": TOKENS, "step_ms": 1e3 * 6 * parameters * TOKENS / FLOPS}


def pool(gpus, seed):
    def kind(name, count, mebibytes, slower, overhead):
        its_class = Class(1.0, mebibytes << 20, name, name)
        return Kind(name, count, its_class, slower, overhead, None)

    return Pool([kind("cpu", WORKERS - gpus, 16384, {"": 1.0, "bf16": 2.0}, 10.0),
                 kind("gpu", gpus, 81920, {"": 1 / 400, "bf16": 1 / 2000}, 30.0)],
                noise=0.1, seed=seed)


def profile(search, its_pool):
    """Tells what a profile of each class says before the first trial."""
    for kind in its_pool.kinds:
        for precision in ("f32", "bf16"):
            values = {"model.name": "gpt2", "compile.precision": precision}
            search.corrections.observe(
                kind.of.key, model_of(values), {"step_ms": 1.0},
                {"step_ms": kind.ratio(values), "other_seconds": kind.overhead})


def play(policy, gpus, seed, hours, loss):
    """Of the trials that ended within the hours: end, loss, a number of the normal
    distribution for its noise, and width."""
    order, draw = policy
    study = Study(trials=10**6, seed=seed, objectives=("loss",), hours=hours)
    spec = Spec("spec.toml", ".", "", study, space())
    search = Search(spec, RandomSampler(spec.space, seed), make_policy(spec), order, draw)
    its_pool = pool(gpus, seed)
    profile(search, its_pool)
    Simulation(search, its_pool, predict, loss).run()
    noise = random.Random("noise/%d" % seed)
    return sorted((trial.end["time"], trial.objectives[0], noise.gauss(0, 1),
                   trial.values["model.hidden"])
                  for trial in search.study.trials
                  if trial.outcome == "done" and trial.end["time"] <= 3600 * hours)


def first_times(runs, deviation=0.0, slack=1.0):
    """When each run had the best loss of the first policy's, times slack, with noise."""
    def losses(ended):
        return [(each[0], each[1] + deviation * each[2]) for each in ended]

    goals = [slack * min(loss for _, loss in losses(ended)) for ended in runs[POLICIES[0]]]
    return {policy: [next((time for time, loss in losses(ended) if loss <= goal), math.inf)
                     for ended, goal in zip(found, goals)]
            for policy, found in runs.items()}


def sooner(times, policy):
    """Minutes, and how much sooner than by the first policy."""
    ratios = [base / time for base, time in zip(times[POLICIES[0]], times[policy])]
    median, ratio = statistics.median(times[policy]), statistics.median(ratios)
    return "never" if median == math.inf else f"{median / 60:.0f} ({ratio:.1f})"


def rows_of(gpus, options, fitted):
    runs = {policy: [play(policy, gpus, seed, options.hours, curve(fitted))
                     for seed in range(options.seeds)] for policy in POLICIES}
    exact, near = first_times(runs), first_times(runs, slack=SLACK)
    noisy = first_times(runs, deviation=fitted[0])
    counts = {policy: [len(ended) / options.hours for ended in found]
              for policy, found in runs.items()}
    rows = []
    for policy in POLICIES:
        ratios = [a / b for a, b in zip(counts[policy], counts[POLICIES[0]])]
        wide = [sum(each[3] >= EDGES[-3] for each in ended) / options.hours
                for ended in runs[policy]]
        rows.append([f"{WORKERS - gpus} + {gpus}", f"{policy[0]}, {policy[1]}",
                     f"{statistics.median(counts[policy]):,.0f} ({statistics.median(ratios):.1f})",
                     f"{statistics.median(wide):,.0f}", sooner(exact, policy),
                     sooner(near, policy), sooner(noisy, policy)])
    return rows


def real_runs(options, tools, folder):
    write_license(folder / "text.txt")
    (folder / "curves.toml").write_text(
        SPEC.format(trials=options.trials, steps=options.steps))
    program = tools.path("run").parent / "optimus-tune"
    command = [program, "run", "curves.toml", "-o", "curves", "--workers", "1"]
    ended = subprocess.run([str(each) for each in command], cwd=folder, text=True,
                           capture_output=True, check=False)
    if ended.returncode:
        fail(ended.stdout + ended.stderr)
    return points_of(folder / "curves")


def main(options, tools, folder):
    fitted = fit(real_runs(options, tools, folder))
    deviation, alpha, beta, (base, width, steps, linear, square) = fitted
    rows = [row for gpus in GPUS for row in rows_of(gpus, options, fitted)]
    said = (f"{options.seeds} seeds, {options.hours} hours each, medians; in brackets times "
            f"as many, or as soon, as by fcfs. The curve of {options.trials} runs of up to "
            f"{options.steps} steps: {base:.2f} + {width:.2f} width^-{alpha} + {steps:.2f} "
            f"steps^-{beta} {linear:+.2f} x {square:+.2f} x², x the logarithm to 10 of the rate. "
            f"It misses their losses by {deviation:.2f}, a standard deviation: the noise of "
            "the last column.")
    return {"draw": said + "\n\n" + table(
        ["CPUs + GPUs", "order, draw", "models an hour", f"of width {EDGES[-3]} or more",
         "minutes to the best loss of fcfs", "to 1 % above it", "to the best, losses with noise"], rows)}

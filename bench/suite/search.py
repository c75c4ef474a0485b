# ===- search - A search on a mixed pool ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A search of optimus-tune on workers of four classes of this machine, by the order
`placed`, first come, first served, and by Optuna on Dask.

    bench/run search
    bench/run search --trials 120 --rounds 5 --write bench/results/search.md
    pip install --no-deps --target /tmp/peer optuna-integration==5.0.0
    bench/run search --peer /tmp/peer --folder /tmp/search --only placed   # in pieces

Classes are control groups with parts of a core, 0.1 to 0.8, and 512 MiB to 8 GiB; one
has AVX2 alone for products, and two have wall times, after which another worker takes
their place. A search of other trials comes before and keeps what classes take, in a cache
of this benchmark's own; with --before 0 there is none. Trials are GPT-2 of many sizes in
f32 and bf16, the same for each order, and orders take turns. They take subnormal numbers
for zero: else the largest rates make a trial slower the longer it goes on. The peer has
the same trials, groups and wall times; what is killed is started again
(bench/peers/optuna_dask.py).

Beside the seconds stand the best schedule of a minute's search, and a bound on all
schedules, the linear relaxation for unrelated machines, both by the steps as they were
measured. The gap is that to the former. Then come the same searches in the simulator, by
what had been kept before they began, and predictions beside measurements. It needs root,
and fails where a trial is lost or does not end.

With --folder studies and the cache stay, --only runs some of the orders, and the page is
of all there.
"""

import contextlib
import json
import math
import os
import pathlib
import random
import statistics
import sys
import time
import typing

from harness import ROOT, fail, machine, one_of, run, table, write_license

sys.path.insert(0, str(ROOT / "python"))

from optimus.tune import costs, journal, spec, virtual_pool, wheels  # noqa: E402
from optimus.tune.jobs import program_key  # noqa: E402
from optimus.tune.machine import Class  # noqa: E402
from optimus.tune.policies import make_policy  # noqa: E402
from optimus.tune.samplers import RandomSampler  # noqa: E402
from optimus.tune.search import Search  # noqa: E402
from optimus.tune.simulate import Simulation  # noqa: E402
from optimus.tune.simulated import least_seconds  # noqa: E402
from optimus.tune.study import Study  # noqa: E402
from suite.search_predictions import predictions_of, rows_of  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(trials=40, rounds=1, steps=40, seconds=60, before=16)
BEFORE = "before"
ORDERS = ("fcfs", "placed", "dask")
NOISE, DRAWS = 0.1, 15
"""Of the simulator: the deviation of a trial's time from its corrected prediction."""
OLD = {"ONEDNN_MAX_CPU_ISA": "AVX2"}


class Kind(typing.NamedTuple):
    name: str
    cores: float
    mebibytes: int
    environment: dict
    wall: int  # seconds, or 0

    @property
    def prefix(self):
        return ["timeout", "-s", "KILL", str(self.wall)] if self.wall else []


KINDS = [Kind("large", 0.8, 8192, {}, 0), Kind("old", 0.4, 2048, OLD, 300),
         Kind("small", 0.2, 1024, {}, 0), Kind("tiny", 0.1, 512, {}, 240)]
TIMEOUT = 600
SPEC = """\
[study]
trials = {trials}
seed = {seed}
objectives = ["loss"]

[model]
name = "gpt2"
layers = {{ randint = [1, 4] }}
hidden = {{ choice = [32, 64, 128, 192, 256] }}
heads = 4
seq = 64
vocab = 256
batch = {{ choice = [4, 8, 16, 32] }}

[compile]
precision = {{ choice = ["f32", "bf16"] }}

[train]
data = "text.txt"
steps = {steps}
lr = {{ log-uniform = [1e-4, 1e-2] }}
flush-subnormals = true
"""
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def options(parser):
    parser.add_argument("--peer", type=pathlib.Path,
                        help="a folder with optuna-integration; else there is no peer")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the studies")
    parser.add_argument("--only", type=one_of(ORDERS), default=list(ORDERS),
                        help="runs these alone")


class Group:
    """A control group with a part of a core and a limit of memory, of version 1."""

    def __init__(self, kind):
        self.kind = kind
        self.folders = [CGROUPS / controller / f"optimus-search-{os.getpid()}-{kind.name}"
                        for controller in ("cpu", "memory")]
        for folder in self.folders:
            folder.mkdir()
        cpu, memory = self.folders
        (cpu / "cpu.cfs_quota_us").write_text(str(int(kind.cores * 100_000)))
        (memory / "memory.limit_in_bytes").write_text(str(kind.mebibytes << 20))

    @property
    def prefix(self):
        """A command that starts another one in it, until the wall time."""
        enter = " && ".join(f"echo $$ >{folder}/cgroup.procs" for folder in self.folders)
        return ["sh", "-c", f'{enter} && exec "$@"', "sh", *self.kind.prefix]

    def remove(self):
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def write_pool(path, groups):
    rows = []
    for group in groups:
        kind = group.kind
        pairs = ", ".join(f'{key} = "{value}"' for key, value in kind.environment.items())
        rows.append(f'[[worker]]\nname = "{kind.name}"\nprefix = {json.dumps(group.prefix)}\n'
                    f"environment = {{ {pairs} }}\n")
        if kind.wall:
            rows.append(f"wall_seconds = {kind.wall}\n")
    path.write_text("\n".join(rows))


def play(tools, folder, study, spec_file="search.toml", order="placed"):
    program = tools.path("run").parent / "optimus-tune"
    run([program, "run", folder / spec_file, "-o", folder / study, "--pool",
         folder / "pool.toml", "--order", order],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})


def play_peer(options, tools, folder, groups, records, number):
    """Writes the answer of the peer, which has the trials of a study of ours."""
    trials = [{**record["values"], "train.data": str(folder / "text.txt")}
              for record in records if record["kind"] == "given"]
    place = folder / f"dask-{number}"
    place.mkdir()
    workers = [{"name": each.kind.name, "memory_mib": each.kind.mebibytes, "prefix": [
        "env", *(f"{key}={value}" for key, value in each.kind.environment.items()),
        *each.prefix]} for each in groups]
    given = {"workers": workers, "trials": trials, "folder": str(place), "timeout": TIMEOUT,
             "compile": str(tools.path("compile")), "run": str(tools.path("run"))}
    paths = os.pathsep.join(map(str, [options.peer.resolve(), wheels.CACHE, ROOT / "python"]))
    said = run([sys.executable, ROOT / "bench/peers/optuna_dask.py"], input=json.dumps(given),
               env={**os.environ, "PYTHONPATH": paths})
    (folder / f"dask-{number}.json").write_text(said)


def study_of(records):
    study = Study()
    for record in records:
        study.apply(record)
    return study, costs.corrections_of(records, study.trials)


def seconds_of(records):
    return max(record["time"] for record in records if record["kind"] == "ended")


def best_at(ends):
    """When the trial with the least loss of all ended, of pairs of seconds and losses."""
    return min(ends, key=lambda end: (end[1], end[0]))[0]


def ends_of(records):
    return [(record["time"], record["objectives"][0]) for record in records
            if record["kind"] == "ended" and record["outcome"] == "done"]


def durations_of(records):
    """By trial and class, of trials that are done: as measured where a trial ran, elsewhere
    its parts in proportion to predicted ones. The first trial of a program compiles it,
    and no other does."""
    study, corrections = study_of(records)
    classes = {Class(**found).key: found for found in study.classes.values()}
    instructions = {found["instructions"] for found in classes.values()}
    begins = {each["trial"]: each["time"] for each in records if each["kind"] == "started"}
    ended = {each["trial"]: each for each in records if each["kind"] == "ended"}
    durations, programs = {}, set()
    for trial in study.trials:
        if trial.outcome != "done":
            continue
        program = program_key(trial.values, "")
        is_first = program not in programs
        programs.add(program)
        its = ended[trial.number]
        here, measured = its["class"], its["measured"]

        def parts(key):
            """Predicted seconds: of steps, beside steps, and of compiling."""
            whole, beside, making = (
                costs.cost(trial.prediction, corrections, key, classes[key], trial.model, steps,
                           made=made).weight
                for steps, made in ((trial.values["train.steps"], instructions),
                                    (0, instructions), (0, ())))
            if whole == math.inf:
                return math.inf, beside, 0.0
            return whole - beside, beside, making - beside

        predicted = parts(here)
        steps = measured["step_ms"] / 1e3 * trial.values["train.steps"]
        making = measured.get("making_seconds", 0.0)
        beside = its["time"] - begins[trial.number] - steps - making
        took = (steps, beside, (making or predicted[2]) * is_first)
        shares = [one / other for one, other in zip(took, predicted)]
        durations[trial.number] = {
            key: sum(share * part for share, part in zip(shares, parts(key)))
            for key in classes}
    return durations


def best_schedule(durations, seconds):
    """The end of the best schedule that a search of so many seconds finds, on one worker a
    class: jobs move, or change places, as annealing has it."""
    draws, kinds = random.Random(0), sorted(next(iter(durations.values())))
    jobs = sorted(durations)
    at = {job: min(kinds, key=durations[job].get) for job in jobs}
    loads = {kind: sum(durations[job][kind] for job in jobs if at[job] == kind)
             for kind in kinds}
    best = now = max(loads.values())
    begin = time.monotonic()
    while (share := (time.monotonic() - begin) / seconds) < 1:
        heat = 0.1 * best * (1 - share) ** 3
        moves = {job: draws.choice(kinds) for job in draws.sample(jobs, draws.choice((1, 2)))}
        if len(moves) == 2 and draws.random() < 0.7:
            (one, _), (other, _) = moves.items()
            moves = {one: at[other], other: at[one]}
        after = dict(loads)
        for job, kind in moves.items():
            after[at[job]] -= durations[job][at[job]]
            after[kind] += durations[job][kind]
        end = max(after.values())
        if end < math.inf and (end <= now or draws.random() < math.exp((now - end) / heat)):
            loads, now = after, end
            at.update(moves)
            best = min(best, now)
    return best


def with_profiles(trials):
    """Predictions by values, and the profiles that all are made by. One that was made
    before its class had a profile follows from the others of its kind of model."""
    shares = {}
    for trial in trials:
        for name, step in trial.prediction.get("by_profile", {}).items():
            share = step / trial.prediction["step_ms"]
            shares.setdefault(name, {}).setdefault(trial.model, []).append(share)
    models = {trial.model for trial in trials}
    shares = {name: its for name, its in shares.items() if its.keys() == models}
    found = {}
    for trial in trials:
        step, there = trial.prediction["step_ms"], trial.prediction.get("by_profile", {})
        found[json.dumps(trial.values)] = {**trial.prediction, "by_profile": {
            name: there.get(name, step * statistics.median(its[trial.model]))
            for name, its in shares.items()}}
    return found, set(shares)


def predicting_seconds(records):
    """Of a trial: as soon as it was given, or the one before was predicted."""
    given, times, last = {}, [], 0.0
    for record in records:
        if record["kind"] == "given":
            given[record["trial"]] = record["time"]
        elif record["kind"] == "predicted" and record["trial"] in given:
            times.append(record["time"] - max(last, given.pop(record["trial"])))
            last = record["time"]
    return statistics.median(times)


def simulated_seconds(spec_path, records, order):
    """The end of the same search in the simulator, by times of its workers from the search
    before, else by its own: the median of draws, since who takes the last long trial is
    chance."""
    study, corrections = study_of(records)
    known = {record["class"]: record["taken"] for record in records if "taken" in record}
    predictions, profiled = with_profiles(study.trials)
    kinds = []
    for found in study.classes.values():
        its = Class(**found)
        wall = next(kind.wall for kind in KINDS if kind.mebibytes << 20 == its.memory)
        kinds.append(virtual_pool.Kind(its.key, 1, its, {}, 0.0, wall or None))
    taken = known or {each.of.key: corrections.taken(each.of.key) for each in kinds}
    kinds = virtual_pool.known_kinds(kinds, taken, profiled)
    its_spec = spec.read(str(spec_path))

    def end(draw):
        search = Search(its_spec, RandomSampler(its_spec.space, its_spec.study.seed),
                        make_policy(its_spec), order)
        for key, each in known.items():
            search.corrections.recall(key, each)
        pool = virtual_pool.Pool(kinds, noise=NOISE, seed=draw,
                                 predicting=predicting_seconds(records))
        return Simulation(
            search, pool, lambda values: predictions[json.dumps(values)]).run().seconds

    return statistics.median(map(end, range(DRAWS)))


def mistakes_of(records, trials, order):
    ended = [record["trial"] for record in records if record["kind"] == "ended"]
    lost = [record for record in records if record["kind"] == "lost"]
    found = [f"{order}: a trial was lost: {record['message']}" for record in lost]
    if sorted(ended) != list(range(trials)):
        found.append(f"{order}: {len(ended)} of {trials} trials ended")
    return found


def main(options, tools, folder):
    if os.geteuid() != 0 or not (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists():
        fail("control groups of version 1 need root, and a machine that has them")
    os.environ.setdefault("OPTIMUS_BIN_DIR", str(tools.binaries.resolve()))
    if options.folder:
        folder = options.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
    write_license(folder / "text.txt")
    for name, trials, seed in (("search", options.trials, 5), (BEFORE, options.before, 6)):
        text = SPEC.format(trials=trials, steps=options.steps, seed=seed)
        (folder / f"{name}.toml").write_text(text)
    orders = [order for order in ORDERS if order != "dask" or options.peer]
    groups = [Group(kind) for kind in KINDS]
    try:
        write_pool(folder / "pool.toml", groups)
        if options.before and not (folder / BEFORE).exists():
            play(tools, folder, BEFORE, f"{BEFORE}.toml")
        for number in range(options.rounds):
            # The peer has the trials of ours.
            for order in orders[:2][:: 1 if number % 2 else -1] + orders[2:]:
                if order not in options.only or (folder / f"{order}-{number}").exists():
                    continue
                if order == "dask":
                    records = journal.read(str(folder / f"placed-{number}"))
                    play_peer(options, tools, folder, groups, records, number)
                else:
                    play(tools, folder, f"{order}-{number}", order=order)
    finally:
        for group in groups:
            group.remove()
    found = {order: [journal.read(str(path)) for path in sorted(folder.glob(f"{order}-[0-9]"))]
             for order in ORDERS[:2]}
    peers = [json.loads(path.read_text()) for path in sorted(folder.glob("dask-[0-9].json"))]
    if not all(found.values()):
        return {}, [f"studies of {', '.join(ORDERS[:2])} are needed for a page"]
    return page_of(options, folder, found, peers)


def page_of(options, folder, found, peers):
    mistakes = [each for order, studies in found.items() for records in studies
                for each in mistakes_of(records, options.trials, order)]
    durations = [durations_of(records) for records in found["placed"]]
    bound = statistics.median(
        least_seconds(each, dict.fromkeys(next(iter(each.values())), 1)) for each in durations)
    best = statistics.median(best_schedule(each, options.seconds) for each in durations)
    seconds = {order: statistics.median(map(seconds_of, found[order])) for order in found}
    simulated = {order: [simulated_seconds(folder / "search.toml", records, order)
                         for records in studies] for order, studies in found.items()}
    gap = seconds["fcfs"] - best

    def row(name, its, ends="", killed=""):
        closed = f"{100 * (seconds['fcfs'] - its) / gap:.0f} %" if gap > 0 else "-"
        return [name, f"{its:.1f}", closed, ends and f"{ends:.1f}", killed]

    rows = [row(order, seconds[order],
                statistics.median(best_at(ends_of(each)) for each in found[order]),
                sum(record["kind"] == "lost" for each in found[order] for record in each))
            for order in found]
    if peers:
        lacking = sum(options.trials - len(each["ends"]) for each in peers)
        if lacking:
            mistakes.append(f"Optuna + Dask: {lacking} trials did not end")
        rows.append(row("Optuna + Dask", statistics.median(each["seconds"] for each in peers),
                        statistics.median(best_at(each["ends"].values()) for each in peers),
                        sum(each["failed"] for each in peers)))
    rows += [row("best schedule found", best), row("bound", bound)]
    rows += [[f"{order}, simulated", f"{statistics.median(its):.1f}", "", "", ""]
             for order, its in simulated.items()]
    predictions = [each for studies in found.values() for records in studies
                   for each in predictions_of(records)]
    memory = [(each.held - each.planned) / 2**20 for each in predictions]
    text = (f"{options.trials} trials, {len(found['placed'])} rounds; a process held "
            f"{min(memory):.0f} to {max(memory):.0f} MiB beyond its plan. {machine()}.")
    return {
        "orders": table(["order", "seconds", "of the gap closed", "until the best loss",
                         "attempts lost"], rows),
        "predictions": f"{text}\n\n{rows_of(predictions)}",
    }, mistakes

# ===- search_faults.py - A search under faults ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Disturbs searches of optimus-tune: random kills, a full disk, jumps of the clock, a
worker of another version, a study opened twice, a deleted or locked copy of the storage,
the end of Dask's scheduler.

    bench/run search-faults                   # as root: it mounts a small file system
    bench/run search-faults --kills 10 --seed 7
    bench/run search-faults --only kills,disk

Trials are small GPT-2 in rungs, four of which may be lanes of one process. After each
fault the study goes on by the same command. Then every trial must have ended exactly
once, with the history of an undisturbed study. There must be one message for a fault,
and no process left.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

from harness import ROOT, fail, table, write_license

sys.path.insert(0, str(ROOT / "python"))

from optimus.tune import journal  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(kills=50, trials=12, steps=240, seed=0)
PATIENCE = 300
FAULTS = ["kills", "disk", "clock", "version", "twice", "deleted", "locked", "dask"]
SPEC = """\
[study]
trials = {trials}
seed = 3
objectives = ["loss"]
{study}
[pool]
lanes = {lanes}

[model]
name = "gpt2"
layers = 1
hidden = {{ choice = [16, 32] }}
heads = 2
seq = 16
vocab = 256
batch = 4

[train]
data = "text.txt"
steps = {steps}
save-every = 20
lr = {{ log-uniform = [1e-4, 1e-1] }}
threads-per-rank = 1
"""
JUMPING = r"""
// Its clock of the day is that of the machine and as many seconds as a file says.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long jump(void) {
  long seconds = 0;
  FILE *file = fopen(getenv("JUMP_FILE"), "r");
  if (file) {
    if (fscanf(file, "%ld", &seconds) != 1)
      seconds = 0;
    fclose(file);
  }
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, time);
  if (clock == CLOCK_REALTIME)
    time->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval *time, void *zone) {
  int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(time, zone);
  time->tv_sec += jump();
  return result;
}

time_t time(time_t *place) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (place)
    *place = now.tv_sec;
  return now.tv_sec;
}
"""


def options(parser):
    parser.add_argument("--only", type=lambda text: text.split(","), default=FAULTS,
                        metavar="NAMES", help=f"of {','.join(FAULTS)}; default: all")


class Search:
    """A specification, and the history of a study that nobody disturbs."""

    def __init__(self, options, tools, folder, name, workers=2, lanes=4, study="", flags=(),
                 trials=None):
        self.program = tools.path("run").parent / "optimus-tune"
        self.folder, self.workers, self.flags = folder / name, workers, flags
        self.folder.mkdir()
        write_license(self.folder / "text.txt")
        text = SPEC.format(trials=trials or options.trials, steps=options.steps,
                           lanes=json.dumps(lanes), study=study)
        (self.folder / "search.toml").write_text(text)
        self.undisturbed = self.folder / "undisturbed"
        self.run(self.undisturbed)

    def begin(self, study, *flags, environment=None):
        command = [self.program, "run", self.folder / "search.toml", "-o", study, "--no-cache",
                   *self.flags]
        if "--pool" not in flags:
            command += ["--workers", self.workers]
        with open(self.folder / "said", "a", encoding="utf-8") as said:
            return subprocess.Popen(
                [*map(str, command), *map(str, flags)], stdin=subprocess.DEVNULL,
                stdout=said, stderr=subprocess.PIPE, text=True, start_new_session=True,
                env={**os.environ, **(environment or {})})

    @staticmethod
    def end(process, code=0):
        """What it said of a fault."""
        said = process.communicate(timeout=PATIENCE)[1]
        if process.returncode != code:
            fail(f"expected exit code {code}, found {process.returncode}: {said}")
        return said

    def run(self, study, *flags, code=0, **more):
        return self.end(self.begin(study, *flags, **more), code)

    def check(self, study):
        """Mistakes in a study; empty if there are none."""
        ours, theirs = history(study), history(self.undisturbed)
        wrong = [f"trial {trial} ended {len(ends)} times" for trial, ends in ours.items()
                 if len(ends) != 1]
        if ours.keys() != theirs.keys():
            wrong.append(f"{len(ours)} of {len(theirs)} trials ended")
        different = [trial for trial in ours if ours[trial] != theirs.get(trial)]
        if different:
            wrong.append(f"another history of trials {different}: "
                         f"{ours[different[0]]} in place of {theirs.get(different[0])}")
        left = running(study)
        if left:
            wrong.append(f"still running: {left}")
        return wrong


def records(study):
    try:
        return journal.read(str(study))
    except Exception:  # before it is made
        return []


def history(study):
    """By trial its ends: values, rungs, outcome, objectives."""
    found, values, rungs = {}, {}, {}
    for record in records(study):
        trial = record.get("trial")
        if record["kind"] == "given":
            values[trial] = record["values"]
        elif record["kind"] == "rung":
            rungs.setdefault(trial, []).append((record["step"], record["objective"]))
        elif record["kind"] == "ended":
            found.setdefault(trial, []).append(
                (values[trial], rungs.get(trial), record["outcome"], record.get("objectives")))
    return found


def lost(study):
    return sum(record["kind"] == "lost" for record in records(study))


def packed(study):
    return sum("lanes" in record for record in records(study))


def processes():
    """Command lines by process."""
    found = {}
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            line = pathlib.Path("/proc", each, "cmdline").read_bytes().replace(b"\0", b" ")
            found[int(each)] = line.decode(errors="replace")
    return found


def running(study):
    deadline = time.monotonic() + 15
    while True:
        found = [line for line in processes().values() if str(study) in line]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def below(pid):
    """A process and those that it started, and they."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            children = pathlib.Path(f"/proc/{each}/task/{each}/children").read_text()
            found += map(int, children.split())
    return found


def one_message(said, *expected):
    """Mistakes in the messages of a run, one for each pattern."""
    lines = said.splitlines()
    fits = len(lines) == len(expected) and all(map(re.search, expected, lines))
    return [] if fits else [f"expected a message each of {expected}, found {lines}"]


# Each returns its name, how often it came, lost attempts, and mistakes.


def kills(options, tools, folder):
    """Of the scheduler, a training, a worker alone or its whole group."""
    search = Search(options, tools, folder, "kills",
                    study='rungs = {method = "hyperband", least = 80, factor = 3}')
    draw, wrong, done, number, losses, lanes = random.Random(options.seed), [], 0, 0, 0, 0
    whom = {name: 0 for name in ("scheduler", "worker", "worker's group", "training")}
    while done < options.kills:
        study = search.folder / f"study{number}"
        number += 1
        process = search.begin(study)
        while process.poll() is None:
            seen = len(records(study))
            # Something happens between two kills, and a moment.
            while process.poll() is None and len(records(study)) <= seen:
                time.sleep(0.02)
            time.sleep(draw.uniform(0.0, 1.5))
            if done >= options.kills or process.poll() is not None:
                continue
            names = processes()
            mine = [each for each in below(process.pid) if each in names]
            workers = [each for each in mine if "optimus.tune.worker" in names[each]]
            trainings = [each for each in mine if " train " in names[each]]
            who = draw.choice(list(whom))
            victims = {"scheduler": [process.pid], "training": trainings}.get(who, workers)
            if not victims:
                continue
            victim = draw.choice(victims)
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if who == "worker's group" else os.kill)(victim, signal.SIGKILL)
                whom[who] += 1
                done += 1
            if who == "scheduler":
                process.communicate(timeout=PATIENCE)
                process = search.begin(study)
        wrong += one_message(search.end(process)) + search.check(study)
        losses, lanes = losses + lost(study), lanes + packed(study)
    if not lanes:
        wrong.append("no trials ran as lanes")
    text = ", ".join(f"{count} of a {name}" for name, count in whom.items())
    return f"kills: {text}", done, losses, wrong


def disk(options, tools, folder):
    """A file system without room for a library, for checkpoints, then with."""
    search = Search(options, tools, folder, "disk")
    place = search.folder / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "small", place], check=True)
    try:
        study, wrong, times = place / "study", [], 0
        for size in ("300k", "700k", "900k", "1100k", "64m"):
            subprocess.run(["mount", "-o", f"remount,size={size}", place], check=True)
            if size == "64m":
                wrong += one_message(search.run(study))
                break
            said = search.run(study, code=1)
            wrong += one_message(said, "No space left on device.*the same command goes on")
            times += 1
        return "full disk", times, lost(study), wrong + search.check(study)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def clock(options, tools, folder):
    """It jumps by an hour, there and back."""
    search = Search(options, tools, folder, "clock")
    study, shim = search.folder / "study", search.folder / "jump.so"
    source, jump = search.folder / "jump.c", search.folder / "jump"
    source.write_text(JUMPING)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", shim, "-ldl"], check=True)
    jump.write_text("0")
    environment = {"LD_PRELOAD": str(shim), "JUMP_FILE": str(jump)}
    begin, times = time.monotonic(), 0
    process = search.begin(study, environment=environment)
    while process.poll() is None:
        time.sleep(0.5)
        times += 1
        jump.write_text(str((3600, -3600, 0)[times % 3]))
    wrong = one_message(search.end(process)) + search.check(study)
    last = max(record.get("time", 0.0) for record in records(study))
    if last > time.monotonic() - begin + 1:
        wrong.append(f"the study's own clock jumped: {last:g} s")
    if lost(study):
        wrong.append(f"{lost(study)} attempts were lost")
    return "clock jumps by an hour", times, lost(study), wrong


def version(options, tools, folder):
    """Of one of two workers."""
    search = Search(options, tools, folder, "version", workers=1)
    other = search.folder / "other"
    shutil.copytree(ROOT / "python" / "optimus", other / "optimus",
                    ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    init = other / "optimus" / "__init__.py"
    init.write_text(re.sub(r'__version__ = ".*"', '__version__ = "9.9"', init.read_text()))
    pool = search.folder / "pool.toml"
    pool.write_text(f'[[worker]]\nname = "one"\n\n[[worker]]\nname = "other"\n'
                    f'prefix = ["env", "PYTHONPATH={other}"]\n')
    study = search.folder / "study"
    wrong = one_message(search.run(study, "--pool", pool),
                        "worker other0 runs Optimus 9.9, expected .*, the scheduler's")
    wrong += search.check(study)
    if any(record["worker"] == "other0" for record in records(study) if "worker" in record):
        wrong.append("it was given a trial")
    return "worker of another version", 1, lost(study), wrong


def twice(options, tools, folder):
    """A second scheduler while the first is at work."""
    search = Search(options, tools, folder, "twice")
    study = search.folder / "study"
    process = search.begin(study)
    while not any(record["kind"] == "started" for record in records(study)):
        time.sleep(0.05)
    wrong = one_message(search.run(study, code=1), r"is in use by process \d+")
    wrong += one_message(search.end(process)) + search.check(study)
    return "study opened twice", 1, lost(study), wrong


def copied(study):
    """Trials in the copy of the storage."""
    with contextlib.closing(sqlite3.connect(study / "optuna.db", timeout=30)) as database:
        return database.execute("select count(*) from trials").fetchone()[0]


def learner(options, tools, folder, name):
    """One worker and no lanes, so that results come in one order."""
    return Search(options, tools, folder, name, workers=1, lanes="off",
                  study='sampler = "tpe"')


def deleted(options, tools, folder):
    """The copy, while trials run."""
    search = learner(options, tools, folder, "deleted")
    study, times = search.folder / "study", 0
    process = search.begin(study)
    while process.poll() is None:
        ended = len(history(study))
        if (study / "optuna.db").exists() and times < 3 and ended > 2 * times:
            (study / "optuna.db").unlink()
            times += 1
        time.sleep(0.05)
    wrong = one_message(search.end(process)) + search.check(study)
    if times < 3:
        wrong.append(f"the copy was deleted {times} times of 3")
    if copied(study) != options.trials:
        wrong.append(f"the copy has {copied(study)} trials")
    return "copy of the storage deleted", times, lost(study), wrong


def locked(options, tools, folder):
    """The copy, by a reader that does not let it go, from the first trial to the end."""
    search = learner(options, tools, folder, "locked")
    study = search.folder / "study"
    process = search.begin(study)
    while not (study / "optuna.db").exists() or not history(study):
        time.sleep(0.05)
    with contextlib.closing(sqlite3.connect(study / "optuna.db", timeout=60)) as database:
        database.execute("begin exclusive")
        wrong = one_message(search.end(process)) + search.check(study)
    search.run(study)
    if copied(study) != options.trials:
        wrong.append(f"the copy has {copied(study)} trials")
    return "copy of the storage locked", 1, lost(study), wrong


DASK = """
import distributed, time
if __name__ == "__main__":
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                       dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    time.sleep(3600)
"""


def dask(options, tools, folder):
    """Its scheduler is killed once trials are under way, with all of its workers."""
    search = Search(options, tools, folder, "dask")
    script = search.folder / "cluster.py"
    script.write_text(DASK)
    cluster = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".cache" / "tune")})
    address = cluster.stdout.readline().strip()
    if not address:
        fail("cannot start a cluster of Dask; scripts/setup --tune brings it")
    pool = search.folder / "pool.toml"
    pool.write_text(f'[dask]\nscheduler = "{address}"\nhost = "127.0.0.1"\n')
    study = search.folder / "study"
    process = search.begin(study, "--pool", pool)
    while len(workers_that_began(study)) < 2 and process.poll() is None:
        time.sleep(0.05)
    cluster.kill()
    cluster.wait()
    wrong = one_message(search.end(process)) + search.check(study)
    return "Dask's scheduler killed", 1, lost(study), wrong


def workers_that_began(study):
    return {record["worker"] for record in records(study) if record["kind"] == "started"}


def main(options, tools, folder):
    unknown = set(options.only) - set(FAULTS)
    if unknown:
        fail(f"there is no fault {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    if "disk" in options.only and os.geteuid() != 0:
        fail("a full disk needs root, which mounts a small file system; name others by --only")
    rows, mistakes = [], []
    for name in options.only:
        begin = time.monotonic()
        text, times, losses, wrong = globals()[name](options, tools, folder)
        took = time.monotonic() - begin
        print(f"{name}: {times}, {took:.0f} s: {'; '.join(wrong) or 'as undisturbed'}", flush=True)
        rows.append([text, times, losses, "as undisturbed" if not wrong else "wrong"])
        mistakes += [f"{name}: {each}" for each in wrong]
    header = ["fault", "times", "attempts lost", "history, ends, messages"]
    return {"search-faults": table(header, rows)}, mistakes

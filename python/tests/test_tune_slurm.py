# ===- test_tune_slurm.py - Workers as jobs of Slurm -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Searches whose workers are started by stand-ins for Slurm's commands."""

import functools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from optimus.tune import TuneError, connected, outcome, run, slurm
from optimus.tune.domains import parse
from optimus.tune.journal import Journal, Lock
from optimus.tune.policies import make_policy
from optimus.tune.samplers import RandomSampler
from optimus.tune.search import Search
from optimus.tune.spaces import Leaf, Space
from optimus.tune.spec import Spec
from optimus.tune.spec import Study as StudyTable

SPACE = Space(
    (
        Leaf("model.name", parse("gpt2"), 1),
        Leaf("train.lr", parse({"log-uniform": [1e-4, 1e-1]}), 2),
        Leaf("train.steps", parse(1), 3),
    )
)
COMMON = """\
#!%s -IS
import os, signal, subprocess, sys, time
place = os.path.dirname(os.path.abspath(__file__))
flags = dict(each[2:].split("=", 1) for each in sys.argv[1:] if "=" in each[:14])
""" % (sys.executable)
SBATCH = """
if flags.get("partition") == "wrong":
    sys.exit("sbatch: error: invalid partition specified: wrong")
with open(place + "/sbatch.txt", "a") as file:
    number = file.tell()
    file.write("x")
command = "exit 3" if flags.get("partition") == "broken" else sys.argv[-1]
for task in flags["array"].split(","):
    environment = dict(os.environ, SLURM_ARRAY_TASK_ID=task)
    if "time" in flags:
        environment["SLURM_JOB_END_TIME"] = str(int(time.time() + 60 * int(flags["time"])))
    with open(flags["output"].replace("%a", task), "w") as log:
        worker = subprocess.Popen(["sh", "-c", command], env=environment,
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    with open(place + "/jobs", "a") as file:
        file.write("%d_%s %d\\n" % (number, task, worker.pid))
print(number)
"""
SQUEUE = """
for line in open(place + "/jobs"):
    name, pid = line.split()
    if os.path.exists("/proc/" + pid):
        print(name)
"""
SCANCEL = """
for line in open(place + "/jobs"):
    try:
        os.kill(int(line.split()[1]), signal.SIGTERM)
    except OSError:
        pass
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "jobs").write_text("")
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        (folder / name).write_text(COMMON + text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", "%s:%s" % (folder, os.environ["PATH"]))
    paths = os.pathsep.join(path for path in sys.path if path)
    monkeypatch.setenv("PYTHONPATH", paths)
    return folder


def workers(cluster):
    """Process numbers of those that live."""
    pids = [int(line.split()[1]) for line in (cluster / "jobs").read_text().splitlines()]
    return [pid for pid in pids if is_alive(pid)]


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def search(
    tmp_path,
    monkeypatch,
    script,
    trials=4,
    watch=lambda record, now: None,
    space=SPACE,
    **table,
):
    """A search of stubs, and its records."""
    records = []

    def see(record, now):
        records.append(record)
        watch(record, now)

    log = json.dumps({"step": 1, "loss": 1.0, "ms": 1.0})

    def commands(folder, jobs, _class, _lanes):
        ((trial, _),) = jobs
        place = folder.trial(trial.number)
        text = "cd %s; %s; echo '%s' >%s" % (place, script, log, outcome.LOG)
        argv = ["sh", "-c", text]
        return [{"name": "train", "argv": argv, "log": os.path.join(place, "train.txt")}]

    predicted = {"rank_bytes": 1 << 20, "ranks": 1, "step_ms": 1.0, "tokens": 1}
    monkeypatch.setattr(run, "commands", commands)
    monkeypatch.setattr(run.Predictor, "predict", lambda self, values: dict(predicted))
    study = StudyTable(trials=trials, seed=1, objectives=("loss",))
    spec = Spec("spec.toml", str(tmp_path), "", study, space)
    folder = run.Folder(str(tmp_path / "study"))
    folder.make()
    lock, journal = Lock(folder.path), Journal(folder.path)
    found = Search(spec, RandomSampler(space, 1), make_policy(spec))
    header = {"kind": "study", "objectives": ["loss"], "trials": trials}
    journal.append(header)
    found.apply(header)
    settings = slurm.Settings(**{"workers": 2, "host": "127.0.0.1", **table})
    executor = functools.partial(
        slurm.SlurmPool, settings, folder.path, str(tmp_path)
    )
    execution = run.Run(found, folder, journal, lock, settings.starts, see, executor)
    return execution.run(), records


def ends(records):
    return sorted(record["trial"] for record in records if record["kind"] == "ended")


def test_every_trial_ends_once_and_a_killed_worker_is_replaced(
    tmp_path, monkeypatch, cluster
):
    # The first job takes its worker along, as a wall time does.
    script = "mkdir ../../once 2>/dev/null && kill -9 $PPID"
    _, records = search(tmp_path, monkeypatch, script, wall_minutes=5)
    assert ends(records) == [0, 1, 2, 3]
    assert [each["why"] for each in records if each["kind"] == "lost"] == ["killed"]
    assert (cluster / "sbatch.txt").read_text() == "xx"
    assert workers(cluster) == []


def test_a_signal_leaves_nothing_running(tmp_path, monkeypatch, cluster):
    def watch(record, _now):
        if record["kind"] == "started":
            os.kill(os.getpid(), signal.SIGTERM)

    number, records = search(
        tmp_path, monkeypatch, "exec sleep 60", watch=watch, workers=1
    )
    assert number == signal.SIGTERM and ends(records) == []
    end = time.monotonic() + 10
    while workers(cluster) and time.monotonic() < end:
        time.sleep(0.01)
    assert workers(cluster) == []


def test_a_worker_is_replaced_before_its_wall_time_ends(tmp_path, monkeypatch, cluster):
    spare = iter([300, 0])
    monkeypatch.setattr(connected, "_spare", lambda left: next(spare))
    _, records = search(
        tmp_path, monkeypatch, "sleep 0.01", trials=1, workers=1, wall_minutes=5
    )
    assert ends(records) == [0]
    assert "lost" not in {record["kind"] for record in records}
    assert (cluster / "sbatch.txt").read_text() == "xx"


@pytest.mark.rotates
def test_a_worker_that_ends_before_it_connects_is_noticed(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr(run, "MOST_RESTARTS", 0)
    with pytest.raises(TuneError, match="^worker s0 ended before it connected: it said no"):
        search(
            tmp_path,
            monkeypatch,
            "true",
            workers=1,
            partition="broken",
            poll_seconds=0.02,
        )


def test_what_sbatch_refuses_is_its_own_message(tmp_path, monkeypatch, cluster):
    with pytest.raises(TuneError, match="^sbatch: error: invalid partition specified"):
        search(tmp_path, monkeypatch, "true", partition="wrong")
    assert list((tmp_path / "study" / "slurm").iterdir()) == []


@pytest.mark.rotates
def test_a_worker_of_another_version_is_refused(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr(run, "__version__", "9.9")
    with pytest.raises(TuneError, match="worker s0 runs Optimus .*, expected 9.9"):
        search(tmp_path, monkeypatch, "true", workers=1)


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path):
    argv = [sys.executable, "-m", "optimus.tune.worker", "--connect", tmp_path / "none"]
    paths = os.pathsep.join(path for path in sys.path if path)
    ended = subprocess.run(
        argv, stderr=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=paths), check=False
    )
    assert ended.returncode == 1
    assert b"its folder must be one that the scheduler" in ended.stderr


@pytest.mark.parametrize(
    "text, message",
    [
        ("workers = 0", "expected|above 0"),
        ("worker = 2", "expected one of cpus"),
        ("workers = 2\nflags = 'x'", "flags: expected texts, found x"),
        ("workers = true", "workers: expected a whole number above 0"),
    ],
)
def test_a_mistake_in_a_pool_is_one_message(tmp_path, text, message):
    (tmp_path / "pool.toml").write_text("[slurm]\n" + text)
    with pytest.raises(TuneError, match=message):
        slurm.read_pool(str(tmp_path / "pool.toml"))

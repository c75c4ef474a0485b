# ===- test_tune.py - A search, end to end ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-tune` runs trials on workers of this machine, whoever is killed meanwhile."""

import json
import os
import signal
import subprocess
import time

import pytest

from optimus.tune import names
from tools import Checkpoint, call, losses, read_log, succeed

SPEC = """\
[study]
trials = %(trials)d
seed = 3
%(study)s
[model]
name = "gpt2"
layers = 1
hidden = { choice = [16, 32] }
heads = 2
seq = 16
vocab = 256
batch = 4

[train]
data = "text.txt"
eval-data = "text.txt"
steps = %(steps)d
lr = { log-uniform = [1e-4, 1e-1] }
threads-per-rank = 1
"""


@pytest.fixture
def folder(tmp_path, text):
    (tmp_path / "text.txt").write_bytes(text.read_bytes()[:4000])
    return tmp_path


def write_spec(folder, trials=4, steps=4, study="", more=""):
    text = SPEC % {"trials": trials, "steps": steps, "study": study} + more
    (folder / "spec.toml").write_text(text)
    return folder / "spec.toml"


def command(tools, *arguments):
    return [os.path.abspath(tools.binaries / "optimus-tune"), *map(str, arguments)]


def run(tools, folder, *flags):
    return call(command(tools, "run", folder / "spec.toml", "--workers", 2, *flags))


def journal(study):
    return [json.loads(line) for line in (study / "journal.jsonl").read_text().splitlines()]


def ends(study):
    """Of each trial its end. Fails where one has two."""
    found = [record for record in journal(study) if record["kind"] == "ended"]
    numbers = [record["trial"] for record in found]
    assert sorted(numbers) == sorted(set(numbers)), numbers
    return {record["trial"]: record for record in found}


def history(study):
    """The part of it that is the same on all workers."""
    given = {
        record["trial"]: record["values"]
        for record in journal(study)
        if record["kind"] == "given"
    }
    return {
        number: (given[number], end["outcome"], end.get("objectives"))
        for number, end in ends(study).items()
    }


def test_a_search_of_four_trials_and_its_best_again(tools, folder):
    write_spec(folder)
    out = succeed(run(tools, folder))
    assert "4 of 4 trials ended" in out.splitlines()[-1]
    study = folder / "spec.study"
    found = ends(study)
    assert {end["outcome"] for end in found.values()} == {"done"}
    best = min(found.values(), key=lambda end: end["objectives"])
    shown = succeed(call(command(tools, "show", study)))
    assert shown.splitlines()[3].split()[:3] == [
        str(best["trial"]),
        "done",
        "%.4g" % best["objectives"][0],
    ]
    # Nothing is left to run.
    again = succeed(run(tools, folder))
    assert "trial" not in again.rpartition("\n4 of 4")[0]
    assert ends(study) == found
    # The best one, and the commands that repeat it.
    taken = folder / "taken"
    succeed(call(command(tools, "best", study, "-o", taken)))
    assert Checkpoint(taken / "checkpoint").state["step"] == 4
    environment = dict(
        os.environ,
        PATH="%s:%s" % (os.path.abspath(tools.binaries), os.environ["PATH"]),
        PYTHONPATH=os.path.dirname(os.path.dirname(os.path.dirname(names.__file__))),
    )
    succeed(call(["sh", "repeat.sh"], cwd=taken, env=environment))
    assert (
        losses(read_log(taken / "repeated.jsonl")).tolist()
        == losses(read_log(taken / "log.jsonl")).tolist()
    )
    assert [read_log(taken / "repeated.jsonl")[-1]["eval_loss"]] == best["objectives"]
    # Only the best one's checkpoint was kept.
    assert [path.parent.name for path in study.glob("trials/*/checkpoint")] == [
        "%06d" % best["trial"]
    ]
    refused = call(command(tools, "best", study, "-o", taken))
    assert refused.returncode == 1 and "is there already" in refused.stderr


def begin(tools, folder):
    """A run, until one of its trials trains."""
    write_spec(folder, **LONG)
    process = subprocess.Popen(
        command(tools, "run", folder / "spec.toml", "--workers", 2),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not any(
        path.stat().st_size for path in folder.glob("spec.study/trials/*/log.jsonl")
    ):
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


LONG = {"trials": 3, "steps": 300}


@pytest.fixture(scope="module")
def undisturbed(tools, text, tmp_path_factory):
    """The history of a study that nobody killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "text.txt").write_bytes(text.read_bytes()[:4000])
    write_spec(folder, **LONG)
    succeed(run(tools, folder))
    return history(folder / "spec.study")


@pytest.mark.rotates
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"]
)
def test_a_scheduler_that_ends_goes_on(tools, folder, undisturbed, number):
    process = begin(tools, folder)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert process.returncode == 128 + number
        assert errors == "optimus-tune: stopped; the same command goes on\n"
    assert len(ends(folder / "spec.study")) < 3
    # Half a line, as a full disk leaves it.
    with open(folder / "spec.study" / "journal.jsonl", "a") as file:
        file.write('{"kind":"ended","tri')
    succeed(run(tools, folder))
    assert history(folder / "spec.study") == undisturbed
    assert [record["kind"] for record in journal(folder / "spec.study")].count("lost") >= 1
    assert not running(folder)


@pytest.mark.rotates
@pytest.mark.parametrize("whole", [True, False], ids=["with all it runs", "alone"])
def test_a_worker_that_is_killed_is_replaced(tools, folder, undisturbed, whole):
    process = begin(tools, folder)
    victim = next(
        pid for pid in children(process.pid) if "optimus.tune.worker" in line_of(pid)
    )
    (os.killpg if whole else os.kill)(victim, signal.SIGKILL)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "lost, begins again: its worker ended with exit code -9" in out
    assert history(folder / "spec.study") == undisturbed
    assert not running(folder)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(each) for each in file.read().split()]


def line_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def running(folder):
    """Processes of a study that should have ended."""
    return [
        line
        for line in map(
            line_of, [int(each) for each in os.listdir("/proc") if each.isdigit()]
        )
        if str(folder) in line
    ]


def test_trials_that_cannot_be_done_end_with_a_reason(tools, folder):
    """A rate diverges, and 3 heads do not divide a width of 16 or 32."""
    text = (SPEC % {"trials": 3, "steps": 3, "study": ""}).replace(
        "heads = 2", "heads = {exhaustive = [2, 3, 1]}"
    )
    text = text.replace(
        "lr = { log-uniform = [1e-4, 1e-1] }",
        'lr = {dependent = "model.heads", table = {2 = 1e38, 3 = 1, 1 = 0.01}}',
    )
    (folder / "spec.toml").write_text(text)
    succeed(run(tools, folder))
    found = ends(folder / "spec.study")
    assert [found[each]["outcome"] for each in range(3)] == [
        "diverged",
        "infeasible",
        "done",
    ]
    assert found[0]["objectives"] == [None] and "training diverged" in found[0]["message"]
    assert "--heads" in found[1]["message"] and "worker" not in found[1]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "none.toml"], "cannot read 'none.toml': No such file or directory"),
        (["run", "spec.toml", "--workers", "0"], "--workers: expected 1 to 4096, found 0"),
        (["run", "spec.toml", "--sampler", "rnadom"], "expected"),
        (["run", "spec.toml", "-o", "text.txt"], "cannot make"),
        (
            ["run", "bad.toml"],
            "bad.toml:18: train.rl: there is no such flag of optimus-run train",
        ),
        (["show", "."], ". is no study: cannot read its journal.jsonl"),
        (["best", ".", "-o", "x"], ". is no study"),
        (["run"], "the following arguments are required: SPEC (see --help)"),
    ],
)
def test_a_mistake_is_one_message(tools, folder, arguments, message):
    write_spec(folder)
    text = (folder / "spec.toml").read_text()
    (folder / "bad.toml").write_text(text.replace("lr =", "rl ="))
    result = call(command(tools, *arguments), cwd=folder)
    assert result.returncode == 1
    assert (
        result.stderr.startswith("optimus-tune: error: ") and result.stderr.count("\n") == 1
    )
    assert message in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "bad.toml",
        "spec.toml",
        "text.txt",
    ]


def test_a_study_is_of_one_specification_and_of_one_scheduler(tools, folder):
    write_spec(folder, trials=1, steps=1)
    succeed(run(tools, folder))
    study = folder / "spec.study"
    before = (study / "journal.jsonl").read_bytes()
    with open(study / "lock") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        (study / "lock").write_text("%d\n" % os.getpid())
        result = run(tools, folder)
        assert result.returncode == 1
        assert "is in use by process %d; wait for its end" % os.getpid() in result.stderr
    write_spec(folder, trials=2, steps=2)
    result = run(tools, folder)
    assert result.returncode == 1 and "is a study of another specification" in result.stderr
    assert (study / "journal.jsonl").read_bytes() == before

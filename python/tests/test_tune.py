# ===- test_tune.py - A search, end to end ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-tune` runs trials on workers of this machine, whoever is killed meanwhile."""

import gc
import json
import os
import signal
import subprocess
import time

import pytest

from optimus.tune import run as tune_run
from optimus.tune.__main__ import main as tune
from optimus.tune.machine import Class
from tools import REPOSITORY, Checkpoint, call, losses, read_log, succeed

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
    study = folder / "spec.study"
    summary, hint = out.splitlines()[-2:]
    assert "4 of 4 trials ended" in summary
    assert hint.startswith("optimus-report study ") and hint.endswith(" draws it")
    reported = tools.run("optimus-report", "study", study)
    measured = reported.split("Measured over predicted, by class:")[1].splitlines()
    assert len(measured) == 3 and "%" in measured[2]
    found = ends(study)
    assert {end["outcome"] for end in found.values()} == {"done"}
    # Who predicted the trials had built their models.
    assert list(study.glob("programs/*.mlir")) and not list(study.glob("trials/*/build.txt"))
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
    repeat(tools, taken)
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


@pytest.mark.rotates
def test_of_a_trial_with_patience_the_best_state_is_kept(tools, folder):
    """Its held-out text goes the other way: the loss soon rises."""
    (folder / "held.txt").write_bytes((folder / "text.txt").read_bytes()[::-1])
    write_spec(folder, trials=1, steps=60, more="patience = 3\neval-every = 2\n")
    text = (folder / "spec.toml").read_text()
    text = text.replace('eval-data = "text.txt"', 'eval-data = "held.txt"')
    text = text.replace("lr = { log-uniform = [1e-4, 1e-1] }", "lr = 0.1")
    (folder / "spec.toml").write_text(text)
    succeed(run(tools, folder))
    end = ends(folder / "spec.study")[0]
    taken = folder / "taken"
    succeed(call(command(tools, "best", folder / "spec.study", "-o", taken)))
    log = read_log(taken / "log.jsonl")
    evaluated = {row["eval_loss"]: row["step"] for row in log if "eval_loss" in row}
    assert log[-1]["step"] < 60 and log[-1]["eval_loss"] > min(evaluated)
    assert end["outcome"] == "done" and end["objectives"] == [min(evaluated)]
    state = Checkpoint(taken / "checkpoint").state
    assert state["step"] == evaluated[min(evaluated)]
    repeat(tools, taken)
    assert Checkpoint(taken / "repeated-best").state["step"] == state["step"]


@pytest.mark.rotates
@pytest.mark.parametrize("method", ["hyperband", "dehb"])
def test_a_promoted_trial_has_the_losses_of_one_that_never_stopped(tools, folder, method):
    write_spec(
        folder, trials=4, steps=18, study='rungs = {method = "%s", least = 2}' % method
    )
    succeed(run(tools, folder))
    study = folder / "spec.study"
    found = ends(study)
    assert {end["outcome"] for end in found.values()} == {"done", "stopped"}
    rungs = [record["step"] for record in journal(study) if record["kind"] == "rung"]
    assert set(rungs) == {2, 6}
    taken = folder / "taken"
    succeed(call(command(tools, "best", study, "-o", taken)))
    repeat(tools, taken)
    whole, parts = (read_log(taken / name) for name in ("repeated.jsonl", "log.jsonl"))
    assert losses(parts).tolist() == losses(whole).tolist() and len(whole) == 18
    assert [line["lr"] for line in parts] == [line["lr"] for line in whole]
    same = [Checkpoint(taken / name).parameters for name in ("checkpoint", "repeated")]
    assert all((same[0][name] == same[1][name]).all() for name in same[0])


@pytest.mark.rotates
@pytest.mark.parametrize("is_worth", [False, True])
def test_classes_are_found_and_a_trial_goes_where_it_fits(
    tools, folder, monkeypatch, is_worth
):
    """One worker has no room for any process, one has AVX2 alone for products. That one
    measures its class after its first trial, where the search is long enough. The next
    search knows its times."""
    system = folder / "system"
    (system / "proc/self").mkdir(parents=True)
    (system / "proc/self/cgroup").write_text("0::/small\n")
    (system / "proc/cpuinfo").write_text("model name : a processor\nflags : avx2 avx512f\n")
    (system / "sys/fs/cgroup/small").mkdir(parents=True)
    (system / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
    (system / "sys/fs/cgroup/small/memory.max").write_text("%d\n" % (16 << 20))
    rows = [("small", "OPTIMUS_SYSTEM_ROOT", system), ("old", "ONEDNN_MAX_CPU_ISA", "AVX2")]
    (folder / "pool.toml").write_text(
        "".join(
            '[[worker]]\nname = "%s"\nenvironment = {%s = "%s"}\n' % row for row in rows
        )
    )
    write_spec(folder, trials=4)
    monkeypatch.setenv("OPTIMUS_BIN_DIR", os.path.abspath(tools.binaries))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(tune_run, "WORTH", 0.0 if is_worth else 1e9)
    monkeypatch.setattr(tune_run, "SURE", 0)
    monkeypatch.setattr(gc, "disable", lambda: None)
    search = ["run", str(folder / "spec.toml"), "--pool", str(folder / "pool.toml")]
    assert tune(search) == 0
    records = journal(folder / "spec.study")
    classes = {
        record["worker"]: record["class"]
        for record in records
        if record["kind"] == "worker"
    }
    assert (
        classes["small0"]["memory"] == 16 << 20
        and classes["small0"]["processor"] == "a processor"
    )
    assert classes["old0"]["instructions"] in ("avx2", "sse2")
    started = [record for record in records if record["kind"] == "started"]
    assert {record["worker"] for record in started} == {"old0"}
    kinds = [record["kind"] for record in records]
    at = kinds.index("class") if is_worth else len(kinds)
    assert kinds.count("class") == is_worth
    assert (kinds[:at].count("started"), kinds[:at].count("ended")) == (
        (1, 1) if is_worth else (4, 4)
    )
    predicted = [each for each in records if each["kind"] == "predicted"]
    before = [each for each in records[:at] if each["kind"] == "predicted"]
    assert before and not any("by_profile" in each["prediction"] for each in before)
    # What waits is predicted once more.
    old = Class(**classes["old0"])
    again = predicted[len(before) :]
    assert bool(again) == is_worth
    assert all(each["prediction"]["by_profile"].keys() == {old.profile} for each in again)
    assert sorted(os.listdir(folder / "spec.study" / "classes")) == (
        sorted([old.profile + ".json", "old0.new.txt"]) if is_worth else []
    )
    assert sorted(started[0]["costs"].values(), key=str)[1] is None, "refused by its memory"
    last = started[-1]["trial"]
    told = succeed(call(command(tools, "explain", folder / "spec.study", last)))
    assert "cannot run there" in told and "of the prediction" in told
    assert told.count("  by the profile %s: " % old.profile) == is_worth
    beyond = call(command(tools, "explain", folder / "spec.study", 4))
    assert (
        beyond.returncode == 1 and "expected a trial from 0 to 3, found 4" in beyond.stderr
    )
    # The next search begins with its times, unless it wants none.
    assert tune([*search, "-o", str(folder / "next")]) == 0
    (known,) = [each for each in journal(folder / "next") if each["kind"] == "class"]
    assert known["class"] == old.key and known["taken"]["rates"]
    assert known["message"].startswith("before: its profile and") == is_worth
    assert tune([*search, "-o", str(folder / "anew"), "--no-cache"]) == 0
    known = [each for each in journal(folder / "anew") if each["kind"] == "class"]
    assert ["taken" in each for each in known] == [False] * is_worth


@pytest.mark.rotates
def test_a_search_is_simulated_before_there_is_a_pool(tools, folder):
    (folder / "pool.toml").write_text(
        "[[worker]]\nname = 'one'\nmemory_mib = 4096\ncount = 2\n"
    )
    write_spec(folder, trials=3)
    out = succeed(
        call(
            command(tools, "simulate", folder / "spec.toml", "--pool", folder / "pool.toml")
        )
    )
    assert "3 done" in out and "no schedule of the trials that are done ends before" in out
    assert not (folder / "spec.study").exists()


def repeat(tools, folder):
    """The commands that optimus-tune best wrote."""
    path = "%s:%s" % (os.path.abspath(tools.binaries), os.environ["PATH"])
    environment = dict(os.environ, PATH=path, PYTHONPATH=str(REPOSITORY / "python"))
    succeed(call(["sh", "repeat.sh"], cwd=folder, env=environment))


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


@pytest.mark.rotates
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


LANES = """\
[study]
trials = 5
keep = "all"
rungs = { method = "hyperband", least = 2, factor = 2 }

[pool]
lanes = %(lanes)s

[model]
name = "gpt2"
layers = 1
hidden = 16
heads = 2
seq = 16
vocab = 256
batch = 4

[train]
data = "text with spaces.txt"
eval-data = "text with spaces.txt"
steps = 4
clip = "none"
lr = { exhaustive = [1e-3, 1e30, 1e-2, 3e-2, 3e-3] }
seed = { sequential = [{ randint = [1, 9] }] }
threads-per-rank = 1
"""


def saved(study, trial):
    """What a trial has saved and logged, but for times."""
    folder = study / "trials" / ("%06d" % trial)
    kept = ("step", "loss", "grad_norm", "lr", "eval_loss")
    log = [[each.get(name) for name in kept] for each in read_log(folder / "log.jsonl")]
    files = sorted((folder / "checkpoint").glob("*.safetensors"))
    return log, [(file.name, file.read_bytes()) for file in files]


def test_trials_of_one_program_are_lanes_with_the_bits_of_their_own_runs(tools, folder):
    """One diverges, and others go on to the next rung, each from its own checkpoint."""
    (folder / "text.txt").rename(folder / "text with spaces.txt")
    studies = {}
    for lanes in ("4", '"off"'):
        (folder / "spec.toml").write_text(LANES % {"lanes": lanes})
        study = studies[lanes] = folder / ("study" + lanes.strip('"'))
        out = succeed(
            call(command(tools, "run", folder / "spec.toml", "-o", study, "--workers", 1))
        )
        assert ("lane 3 of 4" in out) == (lanes == "4")
    packed, alone = studies.values()
    assert history(packed) == history(alone)
    assert [end["outcome"] for end in ends(packed).values()].count("diverged") == 1
    for trial in range(5):
        assert saved(packed, trial) == saved(alone, trial), trial
    begun = [each for each in journal(packed) if "lanes" in each]
    assert {each["until"] for each in begun} == {2, None}, "on both rungs"
    assert len(os.listdir(packed / "programs")) == len(os.listdir(alone / "programs"))
    told = tools.run("optimus-tune", "explain", packed, begun[0]["trial"])
    others = [str(each) for each in begun[0]["lanes"][1:]]
    assert "lane 0 of 4 of one program, beside trials %s and %s: about " % (
        ", ".join(others[:-1]),
        others[-1],
    ) in told
    assert " 4 lanes" in told
    page = folder / "page.html"
    tools.run("optimus-report", "study", packed, "-o", page)
    assert "lane 3 of 4 of one program" in page.read_text(encoding="utf-8")

# ===- test_tune_outcome.py - What came of a job ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ends of jobs, from logs and exit codes, and what trials take on classes."""

import json
import math
import os
import random
import re
import sys

import pytest

from optimus.tune import TuneError, costs, outcome
from optimus.tune.outcome import Log, Outcome

from tools import REPOSITORY, call, succeed

CLASS = {"cores": 0.5, "memory": 1 << 30}
PREDICTION = {"rank_bytes": 100 << 20, "ranks": 2, "step_ms": 20.0}
MODEL = "gpt2 f32"


def steps(*numbers):
    return [{"step": each, "loss": 1.0 / each, "ms": 10.0} for each in numbers]


def result(code, phase="train", said="", **more):
    return {"code": code, "phase": phase, "said": said, "seconds": {phase: 3.0}, **more}


@pytest.mark.parametrize(
    "log, ended, until, expected",
    [
        (Log(steps(1, 2, 3), "done"), result(0), None, Outcome("ended", "done")),
        (Log(steps(1, 2), "stopped"), result(0), 2, Outcome("rung")),
        (
            Log(steps(1), None),
            result(0),
            2,
            Outcome("lost", "fault", "it ended before its last step"),
        ),
        (
            Log(steps(1), "stopped"),
            result(0),
            2,
            Outcome("lost", "log", "its log lacks steps"),
        ),
        (
            Log(steps(1), "diverged", "at step 2"),
            result(1),
            None,
            Outcome("ended", "diverged", "at step 2"),
        ),
        (
            Log(steps(1), "data", "too short"),
            result(1),
            None,
            Outcome("ended", "failed", "train: too short"),
        ),
        (
            Log(steps(1), "memory", "cannot allocate"),
            result(1),
            None,
            Outcome("lost", "memory", "cannot allocate"),
        ),
        (
            Log([], None),
            result(1, "compile", "a\nx: error: no\nb"),
            None,
            Outcome("ended", "failed", "compile: x: error: no"),
        ),
        (
            Log([], None),
            result(2, said="oops"),
            None,
            Outcome("lost", "fault", "train ended with exit code 2: oops"),
        ),
        (
            Log(steps(1), None),
            result(-9, oom=True),
            None,
            Outcome("lost", "memory", "it was killed for memory"),
        ),
        (
            Log(steps(1), None),
            result(-9, oom=False),
            None,
            Outcome("lost", "killed", "signal 9 ended it"),
        ),
        (
            Log(steps(1), "stopped"),
            result(143),
            None,
            Outcome("lost", "killed", "signal 15 ended it"),
        ),
        # Nobody's fault.
        (
            Log([], None),
            result(1, said="error: no room", disk=True),
            None,
            Outcome("lost", "disk", "error: no room"),
        ),
        (Log(steps(1, 2), None), result(0, disk=True), None, Outcome("lost", "disk", "no room")),
        (Log(steps(1, 2, 3), "done"), result(0, disk=True), None, Outcome("ended", "done")),
        (
            Log(steps(1, 2), "done"),
            result(0),
            None,
            Outcome("lost", "log", "its log lacks steps"),
        ),
    ],
)
def test_the_end_of_a_job(log, ended, until, expected):
    assert outcome.judge(log, ended, until, 3) == expected


@pytest.mark.parametrize(
    "log, ended, until, expected",
    [
        # Another lane has failed.
        (Log(steps(1, 2, 3), "done"), result(1), None, Outcome("ended", "done")),
        (Log(steps(1, 2), "stopped"), result(1), 2, Outcome("rung")),
        (
            Log(steps(1), "diverged", "at step 2"),
            result(1),
            None,
            Outcome("ended", "diverged", "at step 2"),
        ),
        # Nobody knows whose fault it was.
        (
            Log([], None),
            result(1, said="error: lane 1: no"),
            None,
            Outcome("lost", "fault", "error: lane 1: no"),
        ),
        (
            Log(steps(1), "data", "too short"),
            result(1),
            None,
            Outcome("lost", "fault", "too short"),
        ),
        # It had ended before the process did; one that stopped on a lower rung had not.
        (Log(steps(1, 2, 3), "done"), result(-9, oom=False), None, Outcome("ended", "done")),
        (
            Log(steps(1, 2), "stopped"),
            result(-9, oom=False),
            None,
            Outcome("lost", "killed", "signal 9 ended it"),
        ),
        (
            Log([], None),
            result(1, "compile", "x: error: no"),
            None,
            Outcome("ended", "failed", "compile: x: error: no"),
        ),
    ],
)
def test_the_end_of_a_lane_is_its_own(log, ended, until, expected):
    assert outcome.judge(log, ended, until, 3, is_lane=True) == expected


def test_what_lanes_took():
    """Three on two threads: 30 ms a step of two turns, 10 of one once one is left."""
    logs = [Log(steps(1), None), Log([{"step": 2, "ms": 30.0}, {"step": 3, "ms": 10.0}], None), Log([], None)]
    logs[0].steps[0]["ms"] = 30.0
    logs[2].steps.append({"step": 1, "ms": 30.0})
    first, *others = outcome.measured_lanes(logs, result(0, max_rss=7), [0, 1, 0], 2)
    assert first == {"seconds": 1.0, "max_rss": 7, "lanes": 3, "threads": 2, "lane_ms": 10.0}
    assert others == [{k: v for k, v in first.items() if k != "lane_ms"}] * 2


def test_lanes_start_once_and_have_an_arena_a_thread():
    corrections = costs.Corrections()
    of_lanes = dict(PREDICTION, ranks=1, lane_bytes=60 << 20, thread_bytes=40 << 20)
    two = dict(CLASS, cores=2.0)

    def cost(lanes, threads=1, its_class=CLASS):
        return costs.cost_of_lanes(
            of_lanes, corrections, "kind", its_class, MODEL, lanes, threads
        )

    # Before anything was measured, steps alone.
    assert cost([10, 10, 5]).seconds == pytest.approx(25 * 0.020 / 0.5)
    found = {"step_ms": 30.0, "other_seconds": 2.0, "start_seconds": 1.5}
    corrections.observe("kind", MODEL, of_lanes, found)
    assert cost([10, 10, 5]).seconds == pytest.approx(25 * 0.030 + 1.5 + 3 * 0.5)
    # On two threads: five turns of three lanes, two each, then five of two.
    corrections.observe("kind", MODEL, of_lanes, {"lane_ms": 50.0, "lanes": 3})
    assert cost([10, 10, 5], 2, two).seconds == pytest.approx(15 * 0.050 + 3.0)
    # 96 MiB of the process's own, of 1004.
    assert not cost([1] * 14).refusal and cost([1] * 15).refusal
    assert not cost([1] * 13, 2).refusal and cost([1] * 14, 2).refusal


def test_a_log_is_read_as_far_as_it_goes(tmp_path):
    assert outcome.read_log(str(tmp_path)) == Log([], None)
    lines = [json.dumps(each) for each in steps(1, 2)]
    (tmp_path / outcome.LOG).write_text("\n".join([*lines, '{"step":3,"lo']))
    assert outcome.read_log(str(tmp_path)) == Log(steps(1, 2), None)
    (tmp_path / outcome.LOG).write_text(
        "\n".join([*lines, '{"ended":"data","step":2,"message":"m"}'])
    )
    assert outcome.read_log(str(tmp_path)) == Log(steps(1, 2), "data", "m")


def test_objectives_are_measured_or_predicted():
    log = Log([{"step": 1, "loss": 2.0, "peak_bytes": 7}], "done")
    names = ["loss", "step_ms", "seconds", "eval_loss", "peak_bytes"]
    found = outcome.objectives(names, log, PREDICTION, {"seconds": 4.0})
    assert found == [2.0, 20.0, 4.0, math.inf, 7.0]
    found = outcome.objectives(names, log, PREDICTION, {"seconds": 4.0}, diverged=True)
    assert found == [math.inf, 20.0, math.inf, math.inf, math.inf]


def test_with_patience_the_least_held_out_loss_counts():
    rows = [{"step": each, "loss": 1.0} for each in range(1, 6)]
    for row, loss in zip(rows[::2], (3.0, 2.0, 4.0)):
        row["eval_loss"] = loss
    log = Log(rows, "patience")
    found = [
        outcome.objectives(["eval_loss"], log, {}, {}, has_patience=each)
        for each in (False, True)
    ]
    assert found == [[4.0], [2.0]]
    none = outcome.objectives(["eval_loss"], Log(steps(1), "done"), {}, {}, has_patience=True)
    assert none == [math.inf]


def test_own_steps_of_a_job_are_measured():
    log = Log(
        [{"step": each, "ms": 100.0 if each in (1, 5) else 10.0} for each in range(1, 9)],
        "done",
    )
    found = outcome.measured(
        log, {"seconds": {"compile": 1.0, "train": 2.0}, "max_rss": 5}, 4
    )
    # The first own step, 5, warms up.
    assert found["step_ms"] == 10.0 and found["seconds"] == 3.0
    assert found["other_seconds"] == pytest.approx(3.0 - 0.13)


def cost(memory=1 << 30, corrections=None, prediction=PREDICTION, floor=0):
    made = corrections or costs.Corrections()
    return costs.cost(prediction, made, "k", dict(CLASS, memory=memory), MODEL, 100, floor)


@pytest.mark.parametrize(
    "cores, profiled, seconds",
    [(0.1, None, 20.0), (0.1, 10.0, 10.0), (4.0, None, 0.5), (4.0, 10.0, 1.0)],
)
def test_before_a_trial_was_measured_parts_of_a_core_count(cores, profiled, seconds):
    """A profile knows the threads of its class, and not how often they have to wait."""
    prediction = dict(PREDICTION, by_class={"k": profiled} if profiled else {})
    its_class = dict(CLASS, cores=cores)
    made = costs.Corrections()
    found = costs.cost(prediction, made, "k", its_class, MODEL, 100)
    assert found.seconds == pytest.approx(seconds)
    prediction.update(lane_bytes=1, thread_bytes=1)
    lanes = costs.cost_of_lanes(prediction, made, "k", its_class, MODEL, [50, 50], 1)
    assert lanes.seconds == pytest.approx(seconds)
    made.observe("k", MODEL, prediction, {"step_ms": 3 * costs.step_ms(prediction, "k")})
    found = costs.cost(prediction, made, "k", its_class, MODEL, 100)
    assert found.seconds == pytest.approx(0.3 * costs.step_ms(prediction, "k"))


def test_admission_is_hard():
    planned = 200 << 20
    least = math.ceil((planned + costs.PROCESS_BYTES) / costs.SHARE)
    assert not cost(least).refusal
    assert (
        cost(least - 2).refusal
        == "it needs 296 MiB, 96 of them the process's own; k allows 295"
    )
    assert cost(prediction={"refusal": "no such flag"}).refusal == "no such flag"
    assert "killed for memory within" in cost(floor=1 << 30).refusal
    # What processes were seen to hold counts.
    corrections = costs.Corrections()
    corrections.observe("k", "gpt2 f32", PREDICTION, {"max_rss": planned + (30 << 20)})
    assert not cost(planned + (40 << 20), corrections).refusal
    corrections.observe("other", "gpt2 f32", PREDICTION, {"max_rss": planned + (50 << 20)})
    assert cost(planned + (40 << 20), corrections).refusal


def test_measurements_correct_seconds():
    corrections = costs.Corrections()
    # Half a core takes twice as long, until something is known.
    assert cost().seconds == pytest.approx(2 * 0.02 * 100)
    for ratio in (3.0, 30.0, 3.0):
        corrections.observe(
            "k", "bert f32", PREDICTION, {"step_ms": 20.0 * ratio, "other_seconds": 1.5}
        )
    assert cost(corrections=corrections).seconds == pytest.approx(3 * 0.02 * 100 + 1.5)
    corrections.observe("k", "gpt2 f32", PREDICTION, {"step_ms": 100.0})
    assert cost(corrections=corrections).seconds == pytest.approx(5 * 0.02 * 100 + 1.5)


def test_what_a_profile_predicted_counts_apart():
    made, profiled = costs.Corrections(), dict(PREDICTION, by_class={"k": 10.0})
    made.observe("k", "m", PREDICTION, {"step_ms": 60.0})
    assert made.ratio("k", "m", profiled) is None
    assert costs.cost(profiled, made, "k", CLASS, "m", 100).seconds == pytest.approx(
        0.01 * 100 / CLASS["cores"]
    )
    made.observe("k", "m", profiled, {"step_ms": 12.0})
    assert made.ratio("k", "m", PREDICTION) == 3.0
    assert made.ratio("k", "m", profiled) == pytest.approx(1.2)
    assert made.rows() == [
        ("k", "m", 3.0, 1),
        ("k", "m, by its profile", pytest.approx(1.2), 1),
    ]


def test_small_changes_are_not_published():
    corrections = costs.Corrections()
    corrections.observe("k", "m", PREDICTION, {"step_ms": 20.0})
    version = corrections.version
    corrections.observe("k", "m", PREDICTION, {"step_ms": 20.4})
    assert corrections.version == version and corrections.ratio("k", "m", PREDICTION) == 1.0
    for _ in range(3):
        corrections.observe("k", "m", PREDICTION, {"step_ms": 30.0})
    assert corrections.version > version and corrections.ratio("k", "m", PREDICTION) == 1.5


def test_noise_is_not_published():
    """Of jobs whose times deviate by a tenth, once enough are known."""
    corrections, draw = costs.Corrections(), random.Random(0)

    def versions(ratio, count):
        before = corrections.version
        for _ in range(count):
            step = 20.0 * ratio * math.exp(draw.gauss(0.0, 0.1))
            corrections.observe("k", "m", PREDICTION, {"step_ms": step})
        return corrections.version - before

    versions(1.0, costs.KEPT)
    assert versions(1.0, 1000) <= 5
    assert versions(1.5, costs.KEPT) >= 1
    assert corrections.ratio("k", "m", PREDICTION) == pytest.approx(1.5, rel=0.15)


@pytest.mark.parametrize("mesh, ranks", [("", 1), ("row:2,col:3", 6), ("data:4", 4)])
def test_ranks_of_meshes(mesh, ranks):
    assert costs.ranks_of(mesh) == ranks


def test_the_mixture_of_models_is_not_published_once_each_was_measured():
    corrections = costs.Corrections()
    corrections.observe("k", "slow", PREDICTION, {"step_ms": 120.0})
    # It stands for the other until that was measured.
    assert corrections.rates("k", "quick").ratio == 6.0
    corrections.observe("k", "quick", PREDICTION, {"step_ms": 20.0})
    assert corrections.rates("k", "quick").ratio == 1.0
    version = corrections.version
    for model, step in (("quick", 20.0), ("slow", 120.0)) * 40:
        corrections.observe("k", model, PREDICTION, {"step_ms": step})
    assert corrections.version == version
    # Another model relies on the mixture, and follows it.
    assert corrections.rates("k", "new").ratio == pytest.approx(3.5, abs=2.5)
    for _ in range(costs.KEPT):
        corrections.observe("k", "slow", PREDICTION, {"step_ms": 120.0})
    assert corrections.version > version and corrections.rates("k", "new").ratio == 6.0


SMALL = {
    **{"model.name": "gpt2", "model.layers": 2, "model.hidden": 64, "model.heads": 4},
    **{"model.seq": 32, "model.vocab": 256, "model.batch": 8, "train.steps": 9},
    **{"compile.precision": "bf16", "compile.mcpu": "native"},
}


@pytest.mark.rotates
def test_objectives_are_predicted_for_another_machine(tools, tmp_path):
    names = ["loss", "step_ms@h100x8", "rank_bytes@h100x8"]
    predictor = costs.Predictor(str(tmp_path), [], objectives=names)
    found = predictor.predict(SMALL)
    sizes = [f"--{name[6:]}={SMALL[name]}" for name in SMALL if name[:6] == "model."]
    builder = [sys.executable, "-m", "optimus.models", "gpt2", *sizes[1:]]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))
    succeed(call([*builder, "-o", tmp_path / "a.mlir"], env=environment))
    flags = ["--precision=bf16", "--target=cuda", "--machine-profile=h100x8"]
    flags += ["--compile-to=place", "-o", "/dev/null", "--report-json", "-"]
    said = call([tools.binaries / "optimus-compile", tmp_path / "a.mlir", *flags])
    report = json.loads(succeed(said))
    assert found["rank_bytes@h100x8"] == report["rank_bytes"] != found["rank_bytes"]
    steps = [each["predicted_step_ms"] for each in report["schedule"].values()
             if each["kind"] == "train"]
    assert [found["step_ms@h100x8"]] == steps != [found["step_ms"]]
    assert outcome.objectives(names[1:], outcome.Log([], "done"), found, {}) == [
        *steps,
        report["rank_bytes"],
    ]
    wide = {**SMALL, "model.hidden": 16384, "model.layers": 4}
    assert re.match("h100x8: a rank needs .* MiB, NVIDIA H100", predictor.predict(wide)["refusal"])
    with pytest.raises(TuneError, match="the objective step_ms@h101: .*h101"):
        costs.Predictor(str(tmp_path), [], objectives=["step_ms@h101"])

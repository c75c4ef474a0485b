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
from optimus.tune.machine import Class
from optimus.tune.outcome import Log, Outcome
from optimus.tune.predictor import Predictor

from tools import REPOSITORY, call, succeed

CLASS = Class(0.5, 1 << 30, "avx2", "p")._asdict()
KEY, PROFILE = Class(**CLASS).key, Class(**CLASS).profile
OTHER_KEY = Class(0.1, 1 << 30, "avx2", "p").key
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
    first, *others = outcome.measured_lanes(logs, result(0, max_rss=7), [0, 1, 0], 2, 2.0)
    assert first == {"seconds": 1.0, "max_rss": 7, "lanes": 3, "threads": 2, "lane_ms": 10.0}
    assert others == [{k: v for k, v in first.items() if k != "lane_ms"}] * 2


def test_lanes_start_once_and_have_an_arena_a_thread():
    corrections = costs.Corrections()
    of_lanes = dict(PREDICTION, ranks=1, lane_bytes=60 << 20, thread_bytes=40 << 20)
    two = dict(CLASS, cores=2.0)

    def cost(lanes, threads=1, its_class=CLASS):
        return costs.cost_of_lanes(
            of_lanes, corrections, KEY, its_class, MODEL, lanes, threads, {"avx2"}
        )

    # Before anything was measured three starts, as one after the other.
    start = costs.SECONDS["other_seconds"]
    assert cost([10, 10, 5]).seconds == pytest.approx((25 * 0.020 + 3 * start) / 0.5)
    found = {"step_ms": 30.0, "other_seconds": 2.0, "start_seconds": 1.5}
    corrections.observe(KEY, MODEL, of_lanes, found)
    assert cost([10, 10, 5]).seconds == pytest.approx(25 * 0.030 + 1.5 + 3 * 0.5)
    # On two threads: five turns of three lanes, two each, then five of two.
    corrections.observe(KEY, MODEL, of_lanes, {"lane_ms": 50.0, "lanes": 3})
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
        log, {"seconds": {"compile": 1.0, "train": 2.0}, "max_rss": 5}, 4, 1.0
    )
    # The first own step, 5, warms up: what it takes longer is beside steps.
    assert found["step_ms"] == 10.0 and found["seconds"] == 3.0
    assert found["other_seconds"] == pytest.approx(2.0 - 0.04)
    assert "making_seconds" not in found, "another worker compiled"


def test_what_makes_a_program_counts_apart():
    ended = {"seconds": {"build": 0.5, "compile": 1.0, "train": 2.0}, "made": ["compile"]}
    found = outcome.measured(Log(steps(1, 2, 3), "done"), ended, 0, 1.0)
    assert found["making_seconds"] == 1.5
    assert found["other_seconds"] == pytest.approx(2.0 - 0.03)
    lanes = outcome.measured_lanes([Log(steps(1), "done")] * 2, ended, [0, 0], 1, 1.0)
    assert [each.get("making_seconds") for each in lanes] == [1.5, None]


@pytest.mark.parametrize("cores, expected", [(0.2, 40.0), (1.0, 10.0), (1.5, 40.0)])
def test_on_a_part_of_a_core_the_mean_of_steps_counts(cores, expected):
    """Of five short steps four end in the moment that is granted, the fifth waits."""
    rows = steps(*range(1, 12))
    for each in rows[1::5]:
        each["ms"] = 160.0
    found = outcome.measured(Log(rows, "done"), result(0), 0, cores)
    assert found["step_ms"] == expected


OTHER, MAKING = (2 * costs.SECONDS[name] for name in ("other_seconds", "making_seconds"))
"""Of half a core, until a trial was measured."""


def cost(memory=1 << 30, corrections=None, prediction=PREDICTION, floor=0, made=()):
    corrections, its = corrections or costs.Corrections(), dict(CLASS, memory=memory)
    return costs.cost(prediction, corrections, KEY, its, MODEL, 100, floor, made)


@pytest.mark.parametrize(
    "cores, profiled, seconds",
    [(0.1, None, 20.0), (0.1, 10.0, 10.0), (4.0, None, 0.5), (4.0, 10.0, 1.0)],
)
def test_before_a_trial_was_measured_parts_of_a_core_count(cores, profiled, seconds):
    """A profile knows the threads of its class, and not how often they have to wait."""
    its_class = dict(CLASS, cores=cores)
    key = Class(**its_class).key
    by_profile = {Class(**its_class).profile: profiled} if profiled else {}
    prediction = dict(PREDICTION, by_profile=by_profile)
    made = costs.Corrections()
    beside = costs.SECONDS["other_seconds"] / min(1.0, cores)
    found = costs.cost(prediction, made, key, its_class, MODEL, 100, made={"avx2"})
    assert found.seconds == pytest.approx(seconds + beside)
    prediction.update(lane_bytes=1, thread_bytes=1)
    lanes = costs.cost_of_lanes(
        prediction, made, key, its_class, MODEL, [50, 50], 1, {"avx2"}
    )
    assert lanes.seconds == pytest.approx(seconds + 2 * beside)
    made.observe(key, MODEL, prediction, {"step_ms": 3 * costs.step_ms(prediction, key)})
    found = costs.cost(prediction, made, key, its_class, MODEL, 100, made={"avx2"})
    assert found.seconds == pytest.approx(0.3 * costs.step_ms(prediction, key) + beside)


def test_admission_is_hard():
    planned = 200 << 20
    least = math.ceil((planned + costs.PROCESS_BYTES) / costs.SHARE)
    assert not cost(least).refusal
    assert (
        cost(least - 2).refusal
        == "it needs 296 MiB, 96 of them the process's own; %s allows 295" % KEY
    )
    assert cost(prediction={"refusal": "no such flag"}).refusal == "no such flag"
    assert "killed for memory within" in cost(floor=1 << 30).refusal
    # What processes were seen to hold counts.
    corrections = costs.Corrections()
    corrections.observe(KEY, "gpt2 f32", PREDICTION, {"max_rss": planned + (30 << 20)})
    assert not cost(planned + (40 << 20), corrections).refusal
    corrections.observe(OTHER_KEY, "gpt2 f32", PREDICTION, {"max_rss": planned + (50 << 20)})
    assert cost(planned + (40 << 20), corrections).refusal


def test_measurements_correct_seconds():
    corrections = costs.Corrections()
    # Half a core takes twice as long, until something is known.
    assert cost().seconds == pytest.approx(2 * 0.02 * 100 + OTHER + MAKING)
    assert cost(made={"avx512f"}).seconds == cost().seconds
    assert cost(made={"avx2"}).seconds == pytest.approx(cost().seconds - MAKING)
    for ratio in (3.0, 30.0, 3.0):
        corrections.observe(
            KEY, "bert f32", PREDICTION, {"step_ms": 20.0 * ratio, "other_seconds": 1.5}
        )
    assert cost(corrections=corrections, made={"avx2"}).seconds == pytest.approx(
        3 * 0.02 * 100 + 1.5
    )
    corrections.observe(KEY, "gpt2 f32", PREDICTION, {"step_ms": 100.0})
    assert cost(corrections=corrections, made={"avx2"}).seconds == pytest.approx(
        5 * 0.02 * 100 + 1.5
    )
    corrections.observe(KEY, "gpt2 f32", PREDICTION, {"making_seconds": 4.0})
    assert cost(corrections=corrections).seconds == pytest.approx(5 * 0.02 * 100 + 5.5)


def test_what_was_measured_on_another_part_of_a_core_counts_in_proportion():
    """Five times as much on a tenth as on a half."""
    corrections, tenth = costs.Corrections(), dict(CLASS, cores=0.1)
    found = {"step_ms": 60.0, "other_seconds": 1.0, "making_seconds": 2.0}
    corrections.observe(KEY, MODEL, PREDICTION, found)
    there = costs.cost(PREDICTION, corrections, OTHER_KEY, tenth, MODEL, 100)
    assert there.seconds == pytest.approx(5 * (0.06 * 100 + 3.0))
    # Not on other cores, but for the seconds beside steps.
    old = dict(tenth, instructions="sse2")
    key = Class(**old).key
    assert corrections.ratio(key, MODEL, PREDICTION) is None
    assert corrections.rates(key, MODEL).making == pytest.approx(10.0)


def test_seconds_beside_steps_grow_with_planned_bytes():
    corrections, tenth = costs.Corrections(), dict(CLASS, cores=0.1)

    def beside(mebibytes, corrections=corrections, key=KEY, its_class=CLASS):
        planned = dict(PREDICTION, rank_bytes=mebibytes << 20)
        made = {its_class["instructions"]}
        return costs.cost(planned, corrections, key, its_class, MODEL, 0, made=made).seconds

    for mebibytes in (2, 4, 8, 16, 32, 64, 128) * 2:
        planned = dict(PREDICTION, rank_bytes=mebibytes << 20)
        corrections.observe(KEY, MODEL, planned, {"other_seconds": 0.01 * mebibytes})
    # Held back a little, since few were measured.
    assert beside(64) == pytest.approx(0.64, rel=0.2) and beside(4) == pytest.approx(0.04, rel=0.3)
    assert beside(64, key=OTHER_KEY, its_class=tenth) == pytest.approx(5 * beside(64))
    after = costs.Corrections()
    after.recall(KEY, json.loads(json.dumps(corrections.taken(KEY))))
    assert beside(64, after) == pytest.approx(beside(64), rel=0.01)
    assert beside(4, after) == pytest.approx(beside(4), rel=0.01)


def test_a_short_run_on_a_part_of_a_core_does_not_say_how_long_steps_take():
    corrections = costs.Corrections()
    corrections.observe(KEY, MODEL, PREDICTION, {"step_ms": 10.0, "steps": 20})
    assert corrections.ratio(KEY, MODEL, PREDICTION) is None
    corrections.observe(KEY, MODEL, PREDICTION, {"step_ms": 10.0, "steps": 30})
    assert corrections.ratio(KEY, MODEL, PREDICTION) == 0.5


def test_what_a_search_learnt_is_recalled_by_the_next():
    before, after = costs.Corrections(), costs.Corrections()
    profiled = dict(PREDICTION, by_profile={PROFILE: 10.0})
    for prediction, step in ((PREDICTION, 60.0), (profiled, 24.0), (profiled, 30.0)):
        found = {"step_ms": step, "other_seconds": 1.5, "making_seconds": 3.0}
        before.observe(KEY, MODEL, prediction, {**found, "max_rss": 220 << 20})
    taken = json.loads(json.dumps(before.taken(KEY)))
    after.recall(KEY, taken)
    assert after.taken(KEY)["rates"] == [["step_ms", MODEL, 3.0, 1], ["step_ms by profile", MODEL, 2.7, 2]]
    assert after.ratio(KEY, MODEL, profiled) == before.ratio(KEY, MODEL, profiled) == 2.7
    assert after.rates(KEY, MODEL, True).making == 3.0 and after.own_bytes == 20 << 20
    assert before.taken(OTHER_KEY)["rates"] == []
    # It counts as a few measurements at most.
    for _ in range(costs.RECALLED + 1):
        after.observe(KEY, MODEL, PREDICTION, {"step_ms": 120.0})
    assert after.ratio(KEY, MODEL, PREDICTION) == 6.0


def test_by_a_profile_few_measurements_of_a_kind_count_beside_others():
    """One of bert takes twice as long, beside six of others as predicted."""
    profiled = dict(PREDICTION, by_profile={PROFILE: 10.0})
    with_profile, without = costs.Corrections(), costs.Corrections()

    def observe(model, ratio, times):
        for _ in range(times):
            with_profile.observe(KEY, model, profiled, {"step_ms": 10.0 * ratio})
            without.observe(KEY, model, PREDICTION, {"step_ms": 20.0 * ratio})

    observe("gpt2 bf16", 1.0, 3)
    observe("gpt2 f32", 1.0, 3)
    observe("bert bf16", 2.0, 1)
    # A quarter of the way from its type's median; all models have the same.
    assert with_profile.ratio(KEY, "bert bf16", profiled) == pytest.approx(2**0.25)
    assert with_profile.ratio(KEY, "gpt2 bf16", profiled) == 1.0
    # Prices that no machine has may be far away for each kind.
    assert without.ratio(KEY, "bert bf16", PREDICTION) == 2.0
    observe("bert bf16", 2.0, 29)
    assert with_profile.ratio(KEY, "bert bf16", profiled) == pytest.approx(2.0, rel=0.02)
    assert with_profile.taken(KEY)["rates"] == [
        ["step_ms by profile", "bert bf16", 2.0, 30],
        ["step_ms by profile", "gpt2 bf16", 1.0, 3],
        ["step_ms by profile", "gpt2 f32", 1.0, 3],
    ]


def test_what_a_profile_predicted_counts_apart():
    made, profiled = costs.Corrections(), dict(PREDICTION, by_profile={PROFILE: 10.0})
    made.observe(KEY, "m", PREDICTION, {"step_ms": 60.0})
    assert made.ratio(KEY, "m", profiled) is None
    assert costs.cost(profiled, made, KEY, CLASS, "m", 100).seconds == pytest.approx(
        0.01 * 100 / CLASS["cores"] + OTHER + MAKING
    )
    made.observe(KEY, "m", profiled, {"step_ms": 12.0})
    assert made.ratio(KEY, "m", PREDICTION) == 3.0
    assert made.ratio(KEY, "m", profiled) == pytest.approx(1.2)
    assert made.rows() == [
        (KEY, "m", 3.0, 1),
        (KEY, "m, by its profile", pytest.approx(1.2), 1),
    ]


def test_small_changes_are_not_published_once_many_are_known():
    corrections = costs.Corrections()

    def observe(step, times=1):
        for _ in range(times):
            corrections.observe(KEY, "m", PREDICTION, {"step_ms": step})

    observe(20.0)
    observe(20.6)
    assert corrections.ratio(KEY, "m", PREDICTION) == pytest.approx(1.015)
    observe(20.0, costs.KEPT)
    version = corrections.version
    observe(20.4, costs.KEPT)
    assert corrections.version == version and corrections.ratio(KEY, "m", PREDICTION) == 1.0
    observe(30.0, costs.KEPT)
    assert corrections.version > version and corrections.ratio(KEY, "m", PREDICTION) == 1.5


def test_ratios_follow_the_size_of_a_step():
    """Small models fit into caches. They grow alike for both kinds of model, one of which
    is twice as slow, and for another part of the same cores."""
    corrections = costs.Corrections()

    def predicted(step):
        return dict(PREDICTION, step_ms=step)

    for step in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0) * 4:
        for model, level in ((MODEL, 1.0), ("gpt2 bf16", 2.0)):
            measured = {"step_ms": level * step * (step / 10) ** 0.1}
            corrections.observe(KEY, model, predicted(step), measured)

    def ratio(step, model=MODEL, key=KEY):
        return corrections.ratio(key, model, predicted(step))

    for step in (2.0, 20.0, 200.0):
        assert ratio(step) == pytest.approx((step / 10) ** 0.1, rel=0.02)
        assert ratio(step, "gpt2 bf16") == pytest.approx(2 * ratio(step), rel=0.02)
        assert ratio(step, MODEL, OTHER_KEY) == pytest.approx(5 * ratio(step), rel=0.02)
    # Beyond what was measured they stay.
    assert ratio(1e5) == ratio(300.0) and ratio(1e-5) == ratio(1.0)
    found = costs.cost(predicted(200.0), corrections, KEY, CLASS, MODEL, 100, made={"avx2"})
    assert found.seconds - OTHER == pytest.approx(0.2 * ratio(200.0) * 100)
    # Another search knows it, and unlearns it if need be.
    again = costs.Corrections()
    again.recall(KEY, json.loads(json.dumps(corrections.taken(KEY))))
    expected = pytest.approx(ratio(200.0), rel=costs.AT_FIRST)
    assert again.ratio(KEY, MODEL, predicted(200.0)) == expected
    for step in (1.0, 30.0, 300.0) * costs.KEPT:
        again.observe(KEY, MODEL, predicted(step), {"step_ms": step})
    assert again.ratio(KEY, MODEL, predicted(300.0)) == pytest.approx(1.0, rel=0.03)


def test_two_trials_far_apart_do_not_bend_much():
    corrections = costs.Corrections()
    for step, ratio in ((10.0, 1.0), (20.0, 2.0)):
        corrections.observe(KEY, MODEL, dict(PREDICTION, step_ms=step), {"step_ms": ratio * step})
    ratios = [corrections.ratio(KEY, MODEL, dict(PREDICTION, step_ms=each)) for each in (10.0, 20.0)]
    assert ratios[0] < ratios[1] < 1.2 * ratios[0]


def test_noise_is_not_published():
    """Of jobs whose times deviate by a tenth, once enough are known."""
    corrections, draw = costs.Corrections(), random.Random(0)

    def versions(ratio, count):
        before = corrections.version
        for _ in range(count):
            step = 20.0 * ratio * math.exp(draw.gauss(0.0, 0.1))
            corrections.observe(KEY, "m", PREDICTION, {"step_ms": step})
        return corrections.version - before

    versions(1.0, costs.KEPT)
    assert versions(1.0, 1000) <= 5
    assert versions(1.5, costs.KEPT) >= 1
    assert corrections.ratio(KEY, "m", PREDICTION) == pytest.approx(1.5, rel=0.15)


@pytest.mark.parametrize("mesh, ranks", [("", 1), ("row:2,col:3", 6), ("data:4", 4)])
def test_ranks_of_meshes(mesh, ranks):
    assert costs.ranks_of(mesh) == ranks


def test_the_mixture_of_models_is_not_published_once_each_was_measured():
    corrections = costs.Corrections()
    corrections.observe(KEY, "slow", PREDICTION, {"step_ms": 120.0})
    # It stands for the other until that was measured.
    assert corrections.rates(KEY, "quick").ratio == 6.0
    corrections.observe(KEY, "quick", PREDICTION, {"step_ms": 20.0})
    assert corrections.rates(KEY, "quick").ratio == 1.0
    version = corrections.version
    for model, step in (("quick", 20.0), ("slow", 120.0)) * 40:
        corrections.observe(KEY, model, PREDICTION, {"step_ms": step})
    assert corrections.version == version
    # Another model relies on the mixture, and follows it.
    assert corrections.rates(KEY, "new").ratio == pytest.approx(3.5, abs=2.5)
    for _ in range(costs.KEPT):
        corrections.observe(KEY, "slow", PREDICTION, {"step_ms": 120.0})
    assert corrections.version > version and corrections.rates(KEY, "new").ratio == 6.0


SMALL = {
    **{"model.name": "gpt2", "model.layers": 2, "model.hidden": 64, "model.heads": 4},
    **{"model.seq": 32, "model.vocab": 256, "model.batch": 8, "train.steps": 9},
    **{"compile.precision": "bf16", "compile.mcpu": "native"},
}


@pytest.mark.rotates
def test_objectives_are_predicted_for_another_machine(tools, tmp_path):
    names = ["loss", "step_ms@h100x8", "rank_bytes@h100x8"]
    texts = {}
    predictor = Predictor(
        str(tmp_path),
        lambda: 0,
        profiles=lambda: {"here": str(profile)},
        objectives=names,
        keep=lambda *each: texts.update([map(str, each)]),
    )
    profile = tmp_path / "here.json"
    profile.write_text(json.dumps({"version": 1, "gemm": [{"threads": 1, "alpha_s": 1e-3}]}))
    found = predictor.predict(SMALL)
    sizes = [f"--{name[6:]}={SMALL[name]}" for name in SMALL if name[:6] == "model."]
    builder = [sys.executable, "-m", "optimus.models", "gpt2", *sizes[1:]]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))
    succeed(call([*builder, "-o", tmp_path / "a.mlir"], env=environment))
    assert list(texts.values()) == [(tmp_path / "a.mlir").read_text()]
    flags = ["--precision=bf16", "--target=cuda", "--machine-profile=h100x8"]
    flags += ["--compile-to=place", "-o", "/dev/null", "--report-json", "-"]
    said = call([tools.binaries / "optimus-compile", tmp_path / "a.mlir", *flags])
    report = json.loads(succeed(said))
    assert found["rank_bytes@h100x8"] == report["rank_bytes"] != found["rank_bytes"]
    steps = [each["predicted_step_ms"] for each in report["schedule"].values()
             if each["kind"] == "train"]
    assert [found["step_ms@h100x8"]] == steps != [found["step_ms"]]
    assert found["by_profile"]["here"] > found["step_ms"]
    assert outcome.objectives(names[1:], outcome.Log([], "done"), found, {}) == [
        *steps,
        report["rank_bytes"],
    ]
    wide = {**SMALL, "model.hidden": 16384, "model.layers": 4}
    assert re.match("h100x8: a rank needs .* MiB, NVIDIA H100", predictor.predict(wide)["refusal"])
    with pytest.raises(TuneError, match="the objective step_ms@h101: .*h101"):
        Predictor(str(tmp_path), objectives=["step_ms@h101"])

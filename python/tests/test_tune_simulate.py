# ===- test_tune_simulate.py - A search under a virtual clock ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Whole searches by the same scheduler, with predictions made up."""

import itertools
import math
import sys
import time
from types import SimpleNamespace

import pytest

from optimus.tune import TuneError, costs, shadho, view, virtual_pool
from optimus.tune import study as study_module
from optimus.tune.domains import parse
from optimus.tune.machine import Class
from optimus.tune.mix import suited
from optimus.tune.packing import GAIN
from optimus.tune.policies import make_policy
from optimus.tune.samplers import RandomSampler, UnitSampler
from optimus.tune.scheduler import late_from
from optimus.tune.search import Search
from optimus.tune.simulate import Simulation
from optimus.tune.simulated import least_seconds
from optimus.tune.virtual_pool import Kind, Pool
from optimus.tune.spaces import Leaf, Space, Union
from optimus.tune.spec import Rungs, Spec, Study
from tools import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))
# pylint: disable=wrong-import-position
from suite.search import best_schedule, durations_of

SPACE = Space(
    (
        Leaf("model.name", parse("gpt2"), 1),
        Leaf("model.hidden", parse({"log-uniform": [16, 512]}), 2),
        Leaf("compile.precision", parse({"choice": ["f32", "bf16"]}), 3),
        Leaf("train.steps", parse(81), 4),
    )
)
MIB = 1 << 20


def predict(values):
    """As a transformer's: bytes and seconds go with the square of its width."""
    width = values["model.hidden"]
    if width > 400:
        return {"refusal": "too wide"}
    bytes_of_a_rank = int(1000 * width**2)
    found = {"rank_bytes": bytes_of_a_rank, "ranks": 1, "step_ms": width**2 / 500}
    return {**found, "tokens": 100}


def kind(name, count, cores, memory, bf16=1.0, wall=None):
    its_class = Class(cores, memory * MIB, "avx2", name)
    return Kind(name, count, its_class, {"": 1 / cores, "bf16": bf16 / cores}, 0.5, wall)


MIXED = Pool(
    [
        kind("fast", 1, 0.8, 8192),
        kind("old", 1, 0.4, 2048, bf16=6.0),
        kind("slow", 2, 0.1, 300),
    ],
    noise=0.1,
)


def play(pool, trials=40, order="placed", method=None, seed=0, **budget):
    rungs = method and Rungs(method, 9)
    study = Study(
        trials=trials, seed=seed, objectives=("loss",), rungs=rungs, **budget
    )
    spec = Spec("spec.toml", ".", "", study, SPACE)
    sampler = UnitSampler(SPACE, seed) if method == "dehb" else RandomSampler(SPACE, seed)
    search = Search(spec, sampler, make_policy(spec), order)
    written = []
    simulation = Simulation(search, pool, predict)
    apply = search.apply
    search.apply = lambda record: (written.append(record), apply(record))
    return simulation.run(), search, written


def test_most_of_the_gap_to_the_best_schedule_is_closed():
    closed = []
    for seed in range(5):
        ours, theirs = (
            play(MIXED, order=order, seed=seed)[0] for order in ("placed", "fcfs")
        )
        assert ours.outcomes == theirs.outcomes
        bound = least_seconds(
            ours.durations, {each.name: each.count for each in MIXED.kinds}
        )
        assert bound <= 1.1 * ours.seconds
        closed.append((theirs.seconds - ours.seconds) / (theirs.seconds - bound))
    assert sorted(closed)[2] > 0.5, closed


def test_bounds_take_trials_as_they_were_measured():
    """Of a study in `bench/run search`: where a trial ran it takes what it took."""
    kinds = [each._replace(making=1.0) for each in MIXED.kinds]
    records = play(MIXED._replace(kinds=kinds))[2]
    durations = durations_of(records)
    ended = {each["trial"]: each for each in records if each["kind"] == "ended"}
    begun = {each["trial"]: each["time"] for each in records if each["kind"] == "started"}
    done = {number for number, each in ended.items() if each["outcome"] == "done"}
    assert durations.keys() == done and len(done) > 30
    for number, its in durations.items():
        here = ended[number]["class"]
        assert its[here] == pytest.approx(ended[number]["time"] - begun[number], rel=1e-6)
        assert all(seconds > 0 for seconds in its.values())
    end = max(each["time"] for each in ended.values())
    # Of two slow workers the schedules have one.
    assert best_schedule(durations, 0.05) <= 1.3 * end


def test_equal_workers_end_as_first_come_first_served():
    equal = Pool([kind("one", 4, 1.0, 8192)], noise=0.1)
    ours, theirs = (
        play(equal, trials=80, order=order)[0].seconds for order in ("placed", "fcfs")
    )
    assert ours <= 1.03 * theirs


def test_a_simulation_is_the_same_again_and_another_seed_is_another():
    assert play(MIXED)[2] == play(MIXED)[2]
    assert play(MIXED)[0] != play(MIXED._replace(seed=1))[0]


@pytest.mark.parametrize("method", [None, "asha", "hyperband", "dehb"])
def test_every_trial_ends_once_whatever_is_lost(method):
    """Jobs are lost, and wall times end."""
    pool = Pool(
        [kind("fast", 2, 1.0, 8192, wall=40.0), kind("slow", 3, 0.3, 300)],
        losses=0.2,
        seed=3,
    )
    result, search, written = play(pool, trials=60, method=method)
    ended = [record["trial"] for record in written if record["kind"] == "ended"]
    assert sorted(ended) == list(range(60)), "each ends once"
    assert sum(used.lost for used in result.used.values()) > 5
    assert {"done", "infeasible"} <= set(result.outcomes)
    refused = [trial for trial in search.study.trials if trial.outcome == "infeasible"]
    assert all(trial.end["message"] and not trial.attempts for trial in refused)
    for trial in search.study.trials:
        if trial.outcome == "done":
            assert max(trial.rungs, default=0) < 81
        steps = [
            record["step"]
            for record in written
            if record["kind"] == "rung" and record["trial"] == trial.number
        ]
        assert steps == sorted(set(steps))
    # A worker has one job at a time.
    busy = set()
    for record in written:
        if record["kind"] == "started":
            assert record["worker"] not in busy
            busy.add(record["worker"])
        elif record["kind"] in ("rung", "lost", "ended") and "worker" in record:
            busy.remove(record["worker"])


ONE_PROGRAM = Space(
    (
        Leaf("model.name", parse("gpt2"), 1),
        Leaf("train.lr", parse({"uniform": [0.1, 1.0]}), 2),
        Leaf("train.steps", parse(9), 3),
    )
)


def play_lanes(lanes, trials=40, method=None, step_ms=50.0, space=ONE_PROGRAM, **pool):
    """Trials of half a second of steps, beside half a second of starting."""
    rungs = method and Rungs(method, 1)
    study = Study(trials=trials, objectives=("loss",), rungs=rungs)
    spec = Spec("spec.toml", ".", "", study, space, lanes)
    sampler = UnitSampler(space, 0) if method == "dehb" else RandomSampler(space, 0)
    search = Search(spec, sampler, make_policy(spec))
    found = {"rank_bytes": 9 * MIB, "ranks": 1, "step_ms": step_ms, "tokens": 1}
    found.update(lane_bytes=6 * MIB, thread_bytes=3 * MIB)
    written = []
    settings = Pool([kind("one", 2, 1.0, 8192)], noise=0.0)._replace(**pool)
    simulation = Simulation(search, settings, lambda values: found)
    apply = search.apply
    search.apply = lambda record: (written.append(record), apply(record))
    return simulation.run(), search, written


def test_trials_of_one_program_run_as_lanes_where_starting_them_costs_much():
    one, eight = (play_lanes(lanes)[0] for lanes in ("off", "auto"))
    # 20 of each worker's trials one after the other, or the first one and then packs.
    assert one.seconds == pytest.approx(20 * 0.95)
    assert eight.seconds < 2 * 0.95 + 18 * 0.45 + 5 * 0.5
    _, search, written = play_lanes("auto")
    begun = [record for record in written if record["kind"] == "started"]
    assert "lanes" not in begun[0] and "lanes" not in begun[1], "nothing was measured"
    packs = {tuple(record["lanes"]) for record in begun if "lanes" in record}
    assert max(map(len, packs)) == 8
    assert sum(map(len, packs)) >= 34
    for record in begun[2:]:
        if "lanes" in record:
            assert record["together"] <= (1 - GAIN) * record["apart"]
    assert {trial.outcome for trial in search.study.trials} == {"done"}


def test_lanes_are_not_packed_where_they_do_not_pay():
    """Half a second of starting beside minutes of steps."""
    _, _, written = play_lanes("auto", step_ms=5000.0)
    assert not any("lanes" in record for record in written)
    _, _, written = play_lanes(4, step_ms=5000.0)
    sizes = {len(record["lanes"]) for record in written if "lanes" in record}
    assert max(sizes) == 4, "asked for, they are"


def test_lanes_are_as_many_as_fit():
    """96 MiB of the process's own, 3 of a thread, 6 of each lane, of 0.98 · 130."""
    _, _, written = play_lanes(16, kinds=[kind("small", 1, 1.0, 130)])
    assert max(len(record.get("lanes", [0])) for record in written) == 4


def test_programs_are_not_mixed_in_a_pack():
    widths = Leaf("model.hidden", parse({"choice": [16, 32]}), 2)
    _, search, written = play_lanes(8, space=Space((*ONE_PROGRAM.leaves, widths)))
    packs = [record["lanes"] for record in written if "lanes" in record]
    assert packs
    for lanes in packs:
        values = {search.study.trials[trial].values["model.hidden"] for trial in lanes}
        assert len(values) == 1


@pytest.mark.parametrize("method", [None, "asha", "hyperband", "dehb"])
def test_every_lane_ends_once_whatever_is_lost(method):
    kinds = [kind("fast", 2, 1.0, 8192, wall=12.0), kind("slow", 3, 0.3, 300)]
    _, search, written = play_lanes(
        "auto", trials=60, method=method, kinds=kinds, losses=0.2, noise=0.1
    )
    ended = [record["trial"] for record in written if record["kind"] == "ended"]
    assert sorted(ended) == list(range(60))
    assert any("lanes" in record for record in written)
    # A worker has the lanes of one process at a time.
    busy = {}
    for record in written:
        if record["kind"] == "started":
            lanes = busy.setdefault(record["worker"], [record.get("lanes"), set()])
            assert lanes[0] == record.get("lanes") and (lanes[0] or not lanes[1])
            lanes[1].add(record["trial"])
        elif record["kind"] in ("rung", "lost", "ended") and "worker" in record:
            busy[record["worker"]][1].remove(record["trial"])
            if not busy[record["worker"]][1]:
                del busy[record["worker"]]
    # The same state follows from the journal alone.
    again = study_module.Study()
    for record in written:
        again.apply(record)
    assert [each.outcome for each in again.trials] == [
        each.outcome for each in search.study.trials
    ]


def test_a_search_that_was_killed_at_its_end_ends_the_rest_without_workers():
    """Of trials that stay on their rungs."""
    _, search, written = play(MIXED, trials=12, method="hyperband")
    ends = [place for place, each in enumerate(written) if each.get("outcome") == "stopped"]
    assert ends[-1] == len(written) - 1 and len(ends) > 2
    cut = written[: ends[-2]]
    again = Search(search.spec, RandomSampler(SPACE, 0), make_policy(search.spec))
    for record in cut:
        again.apply(record)
    now = written[-1]["time"]
    while record := again.decide(now):
        cut.append({**record, "time": now})
        again.apply(cut[-1])
    assert cut == written and again.is_over(now)


NOISY = Pool([kind("fast", 4, 1.0, 8192)], noise=1.2)


def test_stragglers_go_on_elsewhere():
    stopped = 0
    for seed in range(4):
        _, search, written = play(NOISY._replace(seed=seed), trials=30, seed=seed)
        begun = {}
        for record in written:
            if record["kind"] == "started":
                begun[record["trial"]] = record
            if record["kind"] == "slow":
                stopped += 1
                first = begun[record["trial"]]
                assert first["worker"] == record["worker"]
                limit = late_from(0.0, first["costs"][first["class"]])
                assert record["time"] - first["time"] > limit
        for trial in search.study.trials:
            slow = [loss["worker"] for loss in trial.losses if loss["why"] == "slow"]
            assert len(slow) <= 1 and len(trial.stopped) == len(slow)
            assert [attempt.worker for attempt in trial.stopped] == slow
            if slow:
                assert trial.end and trial.attempts[-1].worker not in slow
        ended = [record["trial"] for record in written if record["kind"] == "ended"]
        assert sorted(ended) == list(range(30))
    assert stopped > 3


def test_a_search_without_stragglers_ends_sooner(monkeypatch):
    """Medians of nine pools, whose times differ by a factor of three either way."""

    def median():
        found = [
            play(NOISY._replace(seed=seed), trials=30, seed=seed)[0].seconds
            for seed in range(9)
        ]
        return sorted(found)[4]

    with_restarts = median()
    monkeypatch.setattr("optimus.tune.scheduler.SLOW", 1e9)
    assert with_restarts < 0.95 * median()


@pytest.mark.parametrize(
    "name, budget", [("steps", 81 * 20), ("tokens", 8100 * 20), ("device_seconds", 60.0)]
)
def test_no_trial_begins_when_a_budget_is_spent(name, budget):
    pool = Pool([kind("fast", 2, 1.0, 8192)])
    whole = play(pool, trials=60)[1].spent[name]
    assert whole > 1.5 * budget
    _, search, written = play(pool, trials=60, **{name: budget})
    assert budget <= search.spent[name] < whole
    # What two workers were at then is done, and no more.
    spent = [0.0]
    for record in written:
        if record["kind"] == "ended" and "worker" in record:
            each = {"steps": 81, "tokens": 8100, "device_seconds": record["seconds"]}
            spent.append(spent[-1] + each[name])
        if record["kind"] == "started":
            assert spent[-1] < budget
    assert search.spent[name] == pytest.approx(spent[-1])


def test_records_of_a_search_make_the_same_search_again():
    """As a scheduler that was killed reads them."""
    pool = Pool([kind("fast", 2, 1.0, 8192), kind("slow", 2, 0.3, 300)], losses=0.2)
    _, search, written = play(pool, method="asha")
    again = Search(search.spec, RandomSampler(SPACE, 0), make_policy(search.spec))
    for record in written:
        again.apply(record)
    assert [trial.end for trial in again.study.trials] == [
        trial.end for trial in search.study.trials
    ]
    assert again.corrections.rows() == search.corrections.rows()
    assert again.decide(1e9) is None and again.is_over(1e9)


@pytest.mark.parametrize("budget", [{"trials": 40}, {"steps": 81 * 40, "trials": 400}])
def test_the_seconds_left_follow_from_those_so_far(budget):
    _, search, written = play(Pool([kind("fast", 2, 1.0, 8192)], noise=0.0), **budget)
    again = Search(search.spec, RandomSampler(SPACE, 0), make_policy(search.spec))
    assert again.seconds_left(5.0) == 0
    ended = steps = 0
    for record in written:
        again.apply(record)
        ended += record["kind"] == "ended"
        steps += record.get("measured", {}).get("steps", 0)
        share = max(ended / budget["trials"], steps / budget.get("steps", 1e9))
        if record["kind"] == "ended" and share < 1:
            expected = record["time"] * (1 - share) / share
            assert again.seconds_left(record["time"]) == pytest.approx(expected)
    assert share >= 1 and again.seconds_left(written[-1]["time"]) == 0


def test_a_waiting_trial_is_predicted_once_more():
    _, search, written = play(Pool([kind("fast", 1, 1.0, 8192)]), trials=3)
    again = Search(search.spec, RandomSampler(SPACE, 0), make_policy(search.spec))
    for record in written:
        again.apply(record)
        if record["kind"] == "predicted":
            waiting = again.scheduler.waiting
            longer = dict(record["prediction"], step_ms=1e4)
            again.apply(dict(record, prediction=longer))
            assert again.scheduler.waiting == waiting
            assert again.study.trials[record["trial"]].prediction["step_ms"] == 1e4
    assert again.is_over(1e9)


def test_measurements_correct_predictions():
    pool = Pool([kind("odd", 1, 1.0, 8192, bf16=7.0)], noise=0.0)
    _, search, written = play(pool, trials=30)
    rows = {model: (ratio, count) for _, model, ratio, count in search.corrections.rows()}
    assert rows["gpt2 f32"][0] == pytest.approx(1.0) and rows["gpt2 bf16"][
        0
    ] == pytest.approx(7.0)
    assert search.corrections.rates(pool.kinds[0].of.key, "gpt2 f32").other == 0.5
    # The journal says the same.
    again = costs.corrections_of(written, search.study.trials)
    assert again.rows() == search.corrections.rows()
    shown = view.correction_lines(again)
    assert shown[1].split()[:2] == ["measured", "trials"]
    assert any(line.startswith("     7.00 ") for line in shown[2:])
    assert view.correction_lines(costs.Corrections()) == []


def test_the_first_trial_of_a_program_takes_the_time_of_making_it():
    """One program, for the instructions of two classes; two workers begin at a time."""
    kinds = [kind("one", 2, 1.0, 8192), kind("old", 1, 1.0, 8192)]
    kinds[1] = kinds[1]._replace(of=kinds[1].of._replace(instructions="sse2"))
    kinds = [each._replace(making=20.0) for each in kinds]
    _, search, written = play_lanes("off", kinds=kinds)
    ended = [each for each in written if each["kind"] == "ended"]
    making = [each["measured"].get("making_seconds", 0.0) for each in ended]
    assert sorted(making) == [0.0] * 37 + [20.0] * 3
    costs_of = [each["costs"] for each in written if each["kind"] == "started"]
    last = ended[making.index(20.0, making.index(20.0) + 1)]["time"]
    after = [each["costs"] for each in written if each["kind"] == "started" and each["time"] > last]
    assert after and after[0][kinds[0].of.key] < 2.0
    corrections = search.corrections
    assert corrections.rates(kinds[1].of.key, "gpt2 f32").making == 20.0
    assert costs_of[0][kinds[0].of.key] == pytest.approx(
        9 * 0.05 + costs.SECONDS["other_seconds"] + costs.SECONDS["making_seconds"]
    )


def test_trials_are_predicted_one_after_the_other():
    _, _, written = play(MIXED._replace(predicting=2.0), trials=12)
    times = [each["time"] for each in written if each["kind"] == "predicted"]
    assert times[:4] == [2.0, 4.0, 6.0, 8.0]
    begun = [each["time"] for each in written if each["kind"] == "started"]
    assert begun[:2] == [2.0, 4.0]


@pytest.mark.parametrize("learns, given", [(False, 8), (True, 1)])
def test_trials_are_given_while_workers_start(learns, given):
    """Where draws follow from nothing; a sampler that learns waits."""
    spec = Spec("spec.toml", ".", "", Study(trials=40, objectives=("loss",)), SPACE)
    sampler = RandomSampler(SPACE, 0)
    sampler.learns = learns
    search = Search(spec, sampler, make_policy(spec))
    search.expected = 4
    count = 0
    while record := search.decide(0.0):
        assert record["kind"] == "given"
        search.apply({**record, "time": 0.0})
        count += 1
    assert count == given


def test_the_bound_is_one():
    """It is below the best of all schedules, and near it for many jobs."""
    table = {
        0: {"a": 3.0, "b": 5.0},
        1: {"a": 2.0, "b": 2.0},
        2: {"a": 9.0, "b": 4.0},
        3: {"a": math.inf, "b": 1.0},
    }
    best = min(
        max(
            sum(table[job][where[job]] for job in table if where[job] == each)
            for each in "ab"
        )
        for where in itertools.product("ab", repeat=4)
    )
    assert best == 5.0 and 4.0 <= least_seconds(table, {"a": 1, "b": 1}) <= best
    many = {job: {"a": 1.0, "b": 2.0} for job in range(300)}
    # Two thirds of them on a: 200.
    assert 190 < least_seconds(many, {"a": 1, "b": 1}) <= 200
    assert 95 < least_seconds(many, {"a": 2, "b": 2}) <= 100


def test_many_workers_take_little_time_a_decision():
    """Of the processor's, and ten times what is usual: a machine of tests is busy."""
    pool = Pool([kind("fast", 100, 1.0, 8192), kind("slow", 200, 0.2, 8192)], noise=0.1)
    begin = time.process_time()
    result, _, _ = play(pool, trials=2000)
    assert sum(result.outcomes.values()) == 2000 and result.decisions >= 4000
    assert (time.process_time() - begin) / result.decisions < 5e-3


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "expected [[worker]] tables of different names, found none"),
        ("[[worker]]\nname = 'a'\n", "worker: expected memory_mib, found none"),
        (
            "[[worker]]\nname = 'a'\nmemory_mib = 1\ncores = 0\n",
            "worker a: expected cores above 0, found 0",
        ),
        (
            "[[worker]]\nname = 'a'\nmemory_mib = 1\nspeed = 1\n",
            "worker: expected one of name",
        ),
        (
            "losses = 1.5\n[[worker]]\nname = 'a'\nmemory_mib = 1\n",
            "expected noise of at least 0 and losses from 0",
        ),
        ("nose = 1\n", "expected worker, noise, losses, seed or predicting, found nose"),
        ("worker = ", "Invalid value"),
    ],
)
def test_mistakes_of_pools(tmp_path, text, message):
    (tmp_path / "pool.toml").write_text(text)
    with pytest.raises(TuneError) as error:
        virtual_pool.read_pool(str(tmp_path / "pool.toml"), str(tmp_path / "cache"))
    assert message in str(error.value)


SIZES = {"small": [16, 24], "middle": [64, 96], "large": [256, 384]}
ALTERNATIVES = Space(
    tuple(leaf for leaf in SPACE.leaves if leaf.name != "model.hidden"),
    (
        Union(
            "size",
            {
                name: Space((Leaf("model.hidden", parse({"log-uniform": bounds}), 2),))
                for name, bounds in SIZES.items()
            },
            2,
        ),
    ),
)


def draw_by_class(pool, order="placed", method=None, draw="class", trials=120):
    study = Study(trials=trials, objectives=("loss",), rungs=method and Rungs(method, 9))
    spec = Spec("spec.toml", ".", "", study, ALTERNATIVES)
    sampler = RandomSampler(ALTERNATIVES, 0)
    search = Search(spec, sampler, make_policy(spec), order, draw)
    Simulation(search, pool, predict).run()
    return search.study.trials


def wide(name, count, small, large):
    """A class with a job's own seconds, which small models feel."""
    its_class = Class(1.0, 8192 * MIB, "avx2", name)
    return Kind(name, count, its_class, {"": large}, small, None)


def share_of(trials, key):
    mine = [trial for trial in trials[len(trials) // 2 :] if trial.more["class"] == key]
    return {
        name: sum(trial.space == "size=" + name for trial in mine) / len(mine)
        for name in SIZES
    }


@pytest.mark.parametrize("order", ["placed", "shadho"])
def test_a_class_draws_in_the_spaces_that_suit_it(order):
    pool = Pool([wide("near", 4, 0.01, 30.0), wide("far", 2, 20.0, 0.1)])
    trials = draw_by_class(pool, order, trials=240)
    assert len(trials) == 240 and all(trial.end for trial in trials)
    keys = {kind.name: kind.of.key for kind in pool.kinds}
    near, far = (share_of(trials, keys[name]) for name in ("near", "far"))
    if order == "placed":
        assert near["small"] > 0.3 and near["large"] < 0.15
        assert far["large"] > 0.3 and far["small"] < 0.15
    assert view.mix_lines(SimpleNamespace(trials=trials))[3].split()[1] == "33.3%"


def test_speed_alone_changes_no_mix():
    pool = Pool([wide("slow", 3, 0.0, 40.0), wide("fast", 3, 0.0, 1.0)])
    trials = draw_by_class(pool)
    for name in SIZES:
        share = sum(trial.space == "size=" + name for trial in trials) / 120
        assert abs(share - 1 / 3) < 0.12


@pytest.mark.parametrize(
    "order, draw, method, said",
    [
        ("shadho", "shared", None, "expected --draw class"),
        ("placed", "class", "dehb", "choose points themselves"),
    ],
)
def test_what_cannot_draw_by_class_is_refused(order, draw, method, said):
    with pytest.raises(TuneError, match=said):
        draw_by_class(MIXED, order, method, draw)


def test_every_class_and_every_space_has_a_partner():
    found = suited(
        {
            "a": {"x": 1.0, "y": 2.0, "z": math.inf},
            "b": {"x": 4.0, "y": 9.0, "z": math.inf},
            "c": {"x": math.inf, "y": math.inf, "z": 3.0},
            "d": {"x": math.inf, "y": math.inf, "z": math.inf},
        }
    )
    assert found == {"x": {"b"}, "y": {"a"}, "z": {"c"}}


def test_complexity_and_the_deal_are_those_of_shadho():
    assert shadho.complexity(parse({"uniform": [-5, 15]})) == 22
    assert shadho.complexity(parse({"log10-uniform": [-3, 3]})) == 8
    assert shadho.complexity(parse({"choice": [1, 2, 3, 4]})) == 1.75
    assert shadho.complexity(parse({"randint": [1, 9], "step": 2})) == 1.8
    assert shadho.complexity(parse(3)) == 1
    assert shadho.deal(list("abcdef"), [("x", 2), ("y", 1)]) == {
        "x": list("abcde"),
        "y": list("def"),
    }
    assert shadho.deal(["a"], [("x", 1), ("y", 9)]) == {"x": ["a"], "y": ["a"]}


def test_a_steep_loss_has_priority():
    leaf = Leaf("train.lr", parse({"uniform": [0, 1]}), 1)

    def trials(loss):
        return [
            SimpleNamespace(values={"train.lr": at / 16}, objectives=[loss(at / 16)])
            for at in range(16)
        ]

    flat, steep = (
        shadho.steepness([leaf], trials(lambda at, turns=turns: math.sin(turns * at)))
        for turns in (1, 12)
    )
    assert steep > 3 * flat
    assert shadho.steepness([leaf], trials(lambda _: 1.0)) == 0

# ===- test_tune_rungs.py - Trials that stop early and go on ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Brackets, promotions and evolution, on functions in the place of training."""

import math
import random
from types import SimpleNamespace

import pytest

from optimus.tune import dehb, rungs
from optimus.tune.domains import parse
from optimus.tune.policies import make_policy
from optimus.tune.samplers import RandomSampler, UnitSampler
from optimus.tune.spaces import Leaf, Space
from optimus.tune.spec import Rungs, Spec, Study
from optimus.tune.study import Study as Known

SPACE = Space(
    (
        Leaf("train.steps", parse(81), 1),
        Leaf("train.lr", parse({"uniform": [0, 1]}), 2),
        Leaf("train.clip", parse({"uniform": [0, 1]}), 3),
    )
)


def spec_of(method, trials, least=1, seconds=None, seed=0):
    study = Study(
        trials=trials,
        seed=seed,
        objectives=("loss",),
        rungs=Rungs(method, least, 3, seconds),
    )
    return Spec("spec.toml", ".", "", study, SPACE)


class Play:
    """Runs a policy with so many trials at a time, as records alone."""

    def __init__(self, method, trials, value, workers=1, **more):
        spec = spec_of(method, trials, **more)
        self.policy, self.study = make_policy(spec), Known()
        sampler = (UnitSampler if method == "dehb" else RandomSampler)(
            SPACE, spec.study.seed
        )
        self.jobs = []  # of (trial, steps), in their order
        self.known = []  # how many results there were as each began
        results = 0
        running = []
        while True:
            while len(running) < workers and (wanted := self.policy.next(self.study, 0.0)):
                if "trial" in wanted:
                    self.apply({"kind": "promoted", **wanted})
                    number, until = wanted["trial"], wanted["until"]
                else:
                    number = len(self.study.trials)
                    drawn = sampler.ask(number, wanted["more"])
                    self.apply(
                        {
                            "kind": "given",
                            "trial": number,
                            "values": drawn.values,
                            "space": "",
                            "more": wanted["more"],
                        }
                    )
                    until = self.policy.first_rung(self.study.trials[number])
                self.apply(
                    {
                        "kind": "started",
                        "trial": number,
                        "worker": "w",
                        "until": until,
                        "time": 0.0,
                    }
                )
                running.append((number, until))
                self.jobs.append((number, until or 81))
                self.known.append(results)
            if not running:
                return
            number, until = running.pop(0)
            results += 1
            loss = value(self.study.trials[number].values, until or 81)
            record = {"trial": number, "time": 0.0}
            if loss is None:
                self.apply({"kind": "ended", "outcome": "failed", **record})
            elif until:
                self.apply({"kind": "rung", "step": until, "objective": loss, **record})
            else:
                self.apply(
                    {"kind": "ended", "outcome": "done", "objectives": [loss], **record}
                )

    def apply(self, record):
        self.study.apply(record)
        self.policy.apply(record, self.study)

    def steps(self):
        """The steps of jobs in runs of equal ones, as (steps, how many)."""
        found = []
        for _, steps in self.jobs:
            if found and found[-1][0] == steps:
                found[-1] = (steps, found[-1][1] + 1)
            else:
                found.append((steps, 1))
        return found


def sphere(values, steps):
    return (values["train.lr"] - 0.3) ** 2 + (values["train.clip"] - 0.6) ** 2 + 0.1 / steps


@pytest.mark.parametrize(
    "least, most, expected",
    [
        (1, 81, [1, 3, 9, 27, 81]),
        (2, 81, [3, 9, 27, 81]),
        (10, 100, [11, 33, 100]),
        (5, 5, [5]),
        (5, 14, [14]),
    ],
)
def test_rungs_end_at_the_last_step(least, most, expected):
    found = rungs.budgets(least, most, 3)
    assert found == expected
    # ⌊log_η(b_max / b_min)⌋ + 1 of them.
    assert most // 3 ** (len(found) - 1) >= least > most // 3 ** len(found)


def test_sizes_of_brackets():
    assert [dehb.dehb_sizes(5, 3, each) for each in range(6)] == [
        [81, 27, 9, 3, 1],
        [27, 9, 3, 1],
        [9, 3, 1],
        [6, 2],
        [5],
        [81, 27, 9, 3, 1],
    ]
    # Table 1 of Li et al., Hyperband.
    assert [rungs.hyperband_sizes(5, 3, each) for each in range(5)] == [
        [81, 27, 9, 3, 1],
        [34, 11, 3, 1],
        [15, 5, 1],
        [8, 2],
        [5],
    ]


def test_hyperband_promotes_the_best_of_each_rung():
    play = Play("hyperband", 143, sphere)
    assert play.steps() == [
        (1, 81),
        (3, 27),
        (9, 9),
        (27, 3),
        (81, 1),
        (3, 34),
        (9, 11),
        (27, 3),
        (81, 1),
        (9, 15),
        (27, 5),
        (81, 1),
        (27, 8),
        (81, 2 + 5),
    ]
    first = [trial for trial, _ in play.jobs[:81]]
    ranked = sorted(first, key=lambda trial: sphere(play.study.trials[trial].values, 1))
    assert [trial for trial, _ in play.jobs[81:108]] == ranked[:27]
    assert [trial for trial, _ in play.jobs[108:117]] == ranked[:9]


def test_dehb_promotes_in_its_first_round_and_evolves_later():
    first = 81 + 27 + 9 + 6 + 5
    second = 81 + 27 + 9 + 3 + 1
    play = Play("dehb", first + second, sphere)
    brackets = [
        (1, 81),
        (3, 27),
        (9, 9),
        (27, 3),
        (81, 1),
        (3, 27),
        (9, 9),
        (27, 3),
        (81, 1),
        (9, 9),
        (27, 3),
        (81, 1),
        (27, 6),
        (81, 2 + 5),
    ]
    assert play.steps() == brackets + [(1, 81), (3, 27), (9, 9), (27, 3), (81, 1)]
    # Trials of the first bracket come from below, best first.
    ranked = sorted(range(81), key=lambda trial: sphere(play.study.trials[trial].values, 1))
    assert [trial for trial, _ in play.jobs[81:108]] == ranked[:27]
    # Later each job is a new trial.
    later = [trial for trial, _ in play.jobs[sum(count for _, count in brackets) :]]
    assert len(set(later)) == second and min(later) == first
    # Populations are as large as the largest part of a bracket.
    assert [len(each) for each in play.policy._populations] == [81, 27, 9, 6, 5]


def test_a_challenger_takes_its_parents_place_only_if_it_is_as_good():
    play = Play("dehb", 128 + 121, sphere)
    for population, steps in zip(play.policy._populations, play.policy.budgets):
        for each in population:
            assert each.fitness == sphere(play.study.trials[each.trial].values, steps)
    lowest = sorted(each.fitness for each in play.policy._populations[0])
    before = sorted(sphere(play.study.trials[trial].values, 1) for trial in range(81))
    assert all(a <= b for a, b in zip(lowest, before)) and lowest != before


def test_evolution_crosses_over_and_stays_within_range():
    draw = random.Random(1)
    zero, one = ({name: value for name in "abcdefgh"} for value in (0.0, 0.5))
    found = [dehb.crossed(zero, one, 0.5, draw) for _ in range(2000)]
    counts = [sum(value == 0.5 for value in each.values()) for each in found]
    # Each coordinate comes with one half, and one at least: 8 / 2 + 1 / 2^8, in
    # 2,000 draws give or take four times √2 / √2000.
    assert min(counts) >= 1 and abs(sum(counts) / 2000 - 4.004) < 0.13
    assert all(set(each.values()) <= {0.0, 0.5} for each in found)
    assert dehb.mutant([{"a": 0.9}, {"a": 1.0}, {"a": 0.0}], 0.5, draw) == {"a": 1.4}
    far = dehb.crossed({"a": 0.5}, {"a": 1.4}, 1.0, draw)["a"]
    assert 0 <= far <= 1 and far != 0.5, "1.4 is drawn anew"
    # Spaces may differ in names.
    both = dehb.crossed({"a": 0.1}, {"b": 0.2}, 0.5, draw)
    assert set(both) == {"a", "b"}
    assert set(dehb.mutant([{}, {"a": 0.1}, {}], 0.5, draw)) == {"a"}


def test_parents_are_others():
    draw = random.Random(1)
    pool = [{"a": value} for value in (0.1, 0.2, 0.3, 0.4)]
    for _ in range(50):
        three = dehb.parents(pool, pool[0], draw)
        assert len(three) == 3 and pool[0] not in three
    assert sorted(map(len, dehb.parents(pool[:2], pool[0], draw))) == [0, 0, 1]


def test_dehb_is_better_than_random_search_with_the_same_steps():
    """On a function of two numbers; medians of 9 seeds."""

    def best(play):
        return min(sphere(trial.values, 81) for trial in play.study.trials)

    regret = {}
    for method, trials in (("dehb", 249), ("asha", 249)):
        found = sorted(best(Play(method, trials, sphere, seed=seed)) for seed in range(9))
        regret[method] = found[4] - 0.1 / 81
    assert regret["dehb"] < 0.5 * regret["asha"], regret


@pytest.mark.parametrize("workers", [1, 7])
def test_asha_promotes_the_best_third_of_a_rung_at_any_time(workers):
    play = Play("asha", 81, sphere, workers=workers)
    counts = [sum(steps == each for _, steps in play.jobs) for each in play.policy.budgets]
    assert (
        counts[0] == 81
        and sum(trial.end is not None for trial in play.study.trials) == counts[-1]
    )
    value = lambda trial, steps: sphere(play.study.trials[trial].values, steps)
    for (trial, steps), known in zip(play.jobs, play.known):
        if steps > 1:
            # Jobs end in the order in which they begin.
            done = sorted(
                value(each, at) for each, at in play.jobs[:known] if at == steps // 3
            )
            assert value(trial, steps // 3) in done[: len(done) // 3]
    assert 27 <= counts[1] <= 40 and counts[2] >= 9


@pytest.mark.parametrize("method", ["asha", "hyperband", "dehb"])
def test_failed_trials_hold_no_rung(method):
    fails = lambda values, steps: (
        None if values["train.lr"] > 0.5 else sphere(values, steps)
    )
    play = Play(method, 128, fails, workers=3)
    assert (81 in {steps for _, steps in play.jobs}) and len(play.study.trials) == 128


@pytest.mark.parametrize("method", ["hyperband", "dehb"])
def test_a_bracket_of_fewer_trials_than_it_should_have_ends(method):
    play = Play(method, 20, sphere)
    assert play.steps()[0] == (1, 20)
    assert [steps for steps, _ in play.steps()] == [1, 3, 9, 27, 81] or play.steps()[1] == (
        3,
        6,
    )


def test_a_rung_waits_no_longer_than_it_is_told():
    policy, study = make_policy(spec_of("hyperband", 9, least=9, seconds=60.0)), Known()
    assert policy.budgets == [9, 27, 81]

    def apply(record):
        study.apply(record)
        policy.apply(record, study)

    for trial in range(9):
        more = policy.next(study, 0.0)["more"]
        apply({"kind": "given", "trial": trial, "values": {}, "space": "", "more": more})
        apply({"kind": "started", "trial": trial, "worker": "w", "until": 9, "time": 5.0})
    for trial in range(8):
        apply({"kind": "rung", "trial": trial, "step": 9, "objective": 1.0 + trial})
    assert policy.next(study, 60.0) is None and policy.expired(65.0) is None
    assert policy.expired(65.1) == 8
    apply({"kind": "expired", "trial": 8})
    assert policy.expired(99.0) is None
    assert policy.next(study, 66.0) == {"trial": 0, "until": 27, "bracket": 0}
    # A late result changes nothing.
    apply({"kind": "rung", "trial": 8, "step": 9, "objective": 0.0})
    assert policy.next(study, 66.0) == {"trial": 0, "until": 27, "bracket": 0}


def test_the_best_of_few_trials_goes_on_to_the_end():
    play = Play("asha", 4, sphere)
    counts = [sum(steps == each for _, steps in play.jobs) for each in play.policy.budgets]
    assert counts[0] == 4 and counts[2:] == [1, 1, 1]
    assert [trial.outcome for trial in play.study.trials].count("done") == 1


def test_a_ranking_is_that_of_sorting_all_results():
    draw, ranking = random.Random(4), rungs.Ranking(3)
    study = SimpleNamespace(trials=[SimpleNamespace(end=None) for _ in range(300)])
    results, promoted = [], set()
    for trial in range(300):
        value = draw.choice([draw.random(), math.inf, 0.5])
        results.append((value, trial))
        ranking.add(value, trial)
        if draw.random() < 0.05:
            study.trials[draw.randrange(trial + 1)].end = {"outcome": "failed"}
        expected = [
            trial
            for value, trial in sorted(results)[: len(results) // 3]
            if value < math.inf
            and trial not in promoted
            and not study.trials[trial].end
        ]
        found = ranking.next(study)
        assert found == (expected or [None])[0] and found == ranking.next(study)
        if found is not None and draw.random() < 0.7:
            promoted.add(found)
            ranking.promote(found)
    assert ranking.ranked() == sorted(results) and len(ranking) == 300
    assert len(promoted) > 20

# ===- test_tune_scheduler.py - Which trial, where and when -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The scheduler's decisions, of given costs; nothing runs."""

import itertools
import random
import re

import pytest

from optimus.tune import packing
from optimus.tune import scheduler as scheduler_module
from optimus.tune.scheduler import Cost, Job, Scheduler

from tools import REPOSITORY


def scheduler(costs, order="placed"):
    """Costs of trials are {class: seconds}; what a class lacks it cannot run."""

    def cost(job, kind):
        found = costs[job.trial].get(kind)
        return Cost(found) if found is not None else Cost(refusal="too large for " + kind)

    return Scheduler(cost, order)


def starts(made, now=0.0, more=True):
    """All decisions at a time."""
    found = []
    while start := made.choose(now, more):
        made.begun(start.worker, now, start.job.trial)
        found.append((start.worker, start.job.trial))
    return found


def free(made, worker):
    for job in made.jobs_of(worker):
        made.freed(worker, job.trial)


def makespan(costs, workers, order):
    """Of all jobs at once, by simulation."""
    made = scheduler(costs, order)
    for name, kind in workers.items():
        made.joined(name, kind)
    for trial in range(len(costs)):
        made.add(Job(trial))
    now, running, done = 0.0, [], 0
    while done < len(costs):
        for worker, trial in starts(made, now, more=False):
            running.append((now + costs[trial][workers[worker]], worker))
        assert running, "all wait"
        now, worker = min(running)
        running.remove((now, worker))
        free(made, worker)
        done += 1
    return now


EXAMPLE = [{}, {"a": 10, "b": 40}, {"a": 10, "b": 12}, {"a": 50}]


def filled(order="placed"):
    made = scheduler(EXAMPLE, order)
    for trial in (1, 2, 3):
        made.add(Job(trial))
    return made


def test_a_worker_takes_the_job_that_loses_most_elsewhere():
    made = filled()
    made.joined("a0", "a")
    made.joined("a1", "a")
    made.joined("b0", "b")
    # As the module's docstring has it.
    assert starts(made) == [("a0", 3), ("a1", 1), ("b0", 2)]
    made = filled()
    made.joined("b0", "b")
    made.joined("a0", "a")
    made.removed(2)
    assert starts(made) == [("a0", 3), ("b0", 1)]


def test_first_come_first_served():
    made = filled("fcfs")
    made.joined("b0", "b")
    made.joined("a0", "a")
    assert starts(made) == [("a0", 1), ("b0", 2)]


@pytest.mark.parametrize("ends", [True, False])
def test_jobs_wait_for_a_worker_that_is_away(ends):
    """Its class is still there; without the worker nothing can run the job."""
    made = scheduler([{"a": 5}, {"a": 5, "b": 100}])
    for worker, kind in (("a0", "a"), ("b0", "b")):
        made.joined(worker, kind)
    made.went("a0", 0.0, 20.0)
    made.add(Job(0))
    made.add(Job(1))
    assert starts(made, 1.0, more=False) == [] and not made.nowhere
    if ends:
        made.came_back("a0")
        assert starts(made, 2.0, more=False) == [("a0", 0)]
    else:
        assert made.left("a0") == ()
        assert starts(made, 2.0, more=False) == [("b0", 1)]
        assert made.refusals(Job(0)) and list(made.nowhere) == [0]


def test_without_more_to_come_a_worker_waits_for_a_better_one():
    """The last job would take 40 on the free b, and 5 + 10 on a."""
    costs = [{"a": 5, "b": 100}, {"a": 10, "b": 40}]
    made = scheduler(costs)
    made.joined("a0", "a")
    made.joined("b0", "b")
    made.add(Job(0))
    assert starts(made) == [("a0", 0)]
    made.add(Job(1))
    assert starts(made, 1.0, more=False) == []
    assert starts(made, 1.0, more=True) == [("b0", 1)]


def test_nobody_waits_long_for_a_worker_that_is_overdue():
    """It was to be free after 5 seconds, and nobody knows when it will be."""
    made = scheduler([{"a": 5, "b": 100}, {"a": 10, "b": 40}])
    made.joined("a0", "a")
    made.joined("b0", "b")
    made.add(Job(0))
    assert starts(made) == [("a0", 0)]
    made.add(Job(1))
    # On a it would be done after 5 + 10, on b after 1 + 40.
    assert starts(made, 1.0, more=False) == []
    # As long again and 10, below 40.
    assert starts(made, 12.0, more=False) == []
    assert starts(made, 31.0, more=False) == [("b0", 1)]


def test_a_job_that_fits_nowhere_has_reasons():
    made = scheduler([{}, {"a": 1}])
    assert made.refusals(Job(0)) == {}, "no worker is known yet"
    made.joined("a0", "a")
    made.joined("b0", "b")
    assert made.refusals(Job(0)) == {"a": "too large for a", "b": "too large for b"}
    assert made.refusals(Job(1)) == {}


def test_wall_times_are_heeded():
    made = scheduler([{"a": 10}, {"a": 3}])
    made.joined("a0", "a", deadline=8.0)
    made.add(Job(0))
    made.add(Job(1))
    assert starts(made, 4.0) == [("a0", 1)]
    free(made, "a0")
    assert starts(made, 7.0) == []
    made.joined("a1", "a")
    assert starts(made, 7.0) == [("a1", 0)]


def test_changed_costs_come_into_force_a_few_at_a_time():
    """No decision gives all that wait their places anew."""
    factors = {"a": 1.0, "b": 2.0}
    looks = []

    def cost(job, kind):
        looks.append(job)
        return Cost(factors[kind] * (1 + job.trial % 7))

    made = Scheduler(cost)
    made.joined("a0", "a")
    made.joined("b0", "b")
    for trial in range(1000):
        made.add(Job(trial))
    assert starts(made) == [("a0", 6), ("b0", 0)]
    factors["a"] = 4.0
    made.costs_changed()
    assert made.is_settled, "no worker waits"
    made.joined("late", "b", deadline=-1.0)
    jobs = 2 * scheduler_module.MOST_RENEWED + scheduler_module.MOST_RECONSIDERED
    rounds = 0
    while not made.is_settled:
        looks.clear()
        assert made.choose(0.0, True) is None
        assert len(looks) <= 2 * jobs
        rounds += 1
        if rounds == 3:
            made.costs_changed()  # another pass follows
    assert rounds >= 2 * 998 / jobs
    # A job loses most on a now: b has the long ones.
    free(made, "b0")
    assert starts(made) == [("b0", 13)]


def test_new_places_are_paid_for_by_starts(monkeypatch):
    """However often costs change, and however many jobs wait."""
    monkeypatch.setattr(scheduler_module, "MOST_EARNED", 100)
    looks = []

    def cost(job, kind):
        looks.append(job)
        return Cost({"a": 1.0, "b": 2.0}[kind] * (1 + job.trial % 97))

    made = Scheduler(cost)
    for place in range(100):
        made.joined("a%d" % place, "a")
        made.joined("b%d" % place, "b")
    for trial in range(2000):
        made.add(Job(trial))

    def all_starts():
        found = starts(made)
        while not made.is_settled:
            found += starts(made)
        return found

    assert len(all_starts()) == 200
    looks.clear()
    count = 0
    for place in range(100):
        made.costs_changed()
        free(made, "a%d" % place)
        count += len(all_starts())
    assert count == 100
    # Of two classes each; beside them there are a start's own, and jobs on top.
    places = len(looks) / 2
    assert places < 100 + count * (scheduler_module.EARNED + 8)


def test_a_job_that_fits_nowhere_any_more_is_found():
    costs = [{"a": 1.0}]
    made = scheduler(costs)
    made.joined("a0", "a", deadline=0.5)
    made.add(Job(0))
    assert starts(made) == [] and not made.nowhere
    del costs[0]["a"]
    made.costs_changed()
    made.choose(0.0, True)
    assert list(made.nowhere) == [0] and made.is_settled


def test_the_worker_with_the_most_time_left_is_first():
    made = scheduler([{"a": 5}, {"a": 2}])
    for name, deadline in (("a0", 3.0), ("a1", 9.0)):
        made.joined(name, "a", deadline)
    made.add(Job(0))
    made.add(Job(1))
    assert starts(made) == [("a1", 0), ("a0", 1)]


def test_a_job_goes_elsewhere_after_a_failure():
    made = scheduler([{"a": 1}])
    made.joined("a0", "a")
    made.joined("a1", "a")
    made.add(Job(0, avoid=frozenset(["a0"])))
    assert starts(made) == [("a1", 0)]
    assert made.left("a1") == (Job(0, avoid=frozenset(["a0"])),)
    # Nowhere else is left.
    made.add(Job(0, avoid=frozenset(["a0"])))
    assert starts(made) == [("a0", 0)]


def test_workers_come_and_go():
    made = filled()
    made.joined("a0", "a")
    assert starts(made) == [("a0", 3)]
    assert made.left("a0") == (Job(3),) and made.left("a0") == ()
    assert starts(made) == []
    made.joined("b0", "b")
    made.add(Job(3))
    assert starts(made) == [("b0", 1)], "the longest; 3 cannot run there"
    free(made, "b0")
    assert starts(made) == [("b0", 2)]


def mixed(count, seed):
    """Classes of different speed and memory; some jobs suit one, some another."""
    draw = random.Random(seed)
    costs = []
    for _ in range(count):
        size = 10 ** draw.uniform(0, 1.5)
        row = {"slow": 8 * size, "old": size * draw.choice([1.2, 6]), "fast": size}
        if size > 12:
            del row["slow"]
        costs.append(row)
    return costs, {"slow0": "slow", "slow1": "slow", "old0": "old", "fast0": "fast"}


def test_placed_jobs_end_sooner():
    """On each of some mixed pools, and by a fifth on the whole."""
    gains = []
    for seed in range(12):
        costs, workers = mixed(30, seed)
        ours, theirs = (makespan(costs, workers, order) for order in ("placed", "fcfs"))
        assert ours <= 1.02 * theirs
        gains.append(theirs / ours)
    assert sum(gains) / len(gains) > 1.2


def test_few_jobs_end_almost_as_soon_as_any_schedule():
    """Of all assignments to workers, the best; equal within the first rule's bound."""
    for seed in range(6):
        costs, workers = mixed(6, seed)
        names = list(workers)
        best = min(
            max(
                sum(
                    costs[trial].get(workers[name], 1e9)
                    for trial in range(6)
                    if where[trial] == name
                )
                for name in names
            )
            for where in itertools.product(names, repeat=6)
        )
        # Lists of longest jobs first are within 4/3 on equal workers.
        assert makespan(costs, workers, "placed") <= 4 / 3 * best


def test_equal_workers_and_equal_jobs_are_served_as_they_come():
    costs = [{"a": 3}] * 7
    workers = {"a0": "a", "a1": "a"}
    assert makespan(costs, workers, "placed") == makespan(costs, workers, "fcfs") == 12


@pytest.mark.parametrize("order", ["placed", "fcfs"])
def test_decisions_are_the_same_for_the_same_events(order):
    costs, workers = mixed(25, 5)

    def trace():
        made, found = scheduler(costs, order), []
        for name, kind in workers.items():
            made.joined(name, kind)
        for trial in range(25):
            made.add(Job(trial))
            found += starts(made, float(trial))
            if trial % 3 == 0:
                free(made, "fast0")
                free(made, "old0")
        return found

    assert trace() == trace() and len(trace()) > 10


def test_many_workers_and_jobs_are_decided_on_quickly():
    """Steps, not seconds: a decision looks at few costs, however many jobs wait."""
    looks = []
    costs, _ = mixed(4000, 1)

    def cost(job, kind):
        looks.append(job)
        found = costs[job.trial].get(kind)
        return Cost(found) if found is not None else Cost(refusal="no")

    made = Scheduler(cost)
    for place in range(2000):
        made.joined("w%04d" % place, ("slow", "old", "fast")[place % 3])
    for trial in range(4000):
        made.add(Job(trial))
    looks.clear()
    made.choose(0.0, True)
    for worker, trial in starts(made)[:50]:
        free(made, worker)
    looks.clear()
    found = starts(made)
    assert len(found) == 50 and len(looks) < 20 * len(found)


class Together:
    """Lanes that all pay, and take as long as the sum of jobs."""

    most = 4

    def __init__(self, costs):
        self.costs = costs

    def cost(self, jobs, kind):
        return Cost(sum(self.costs[job.trial][kind] for job in jobs))

    def pays(self, jobs, kind):
        return True

    def are_alike(self, job, other):
        return True


def packed(count, workers, seconds=None):
    """Equal jobs on workers of two classes, of which b is slower."""
    costs = seconds or [{"a": 10, "b": 40}] * count

    def cost(job, kind):
        return Cost(costs[job.trial][kind])

    made = Scheduler(cost, packing=Together(costs))
    for name in workers:
        made.joined(name, name[0])
    for trial in range(count):
        made.add(Job(trial, pack="one"))
    return made


def packs(made, now=0.0, more=True):
    found = []
    while start := made.choose(now, more):
        trials = [job.trial for job in (start.job, *start.mates)]
        made.begun(start.worker, now, *trials)
        found.append((start.worker, trials))
    return found


def test_equal_jobs_run_as_lanes_half_of_a_worker_s_share():
    """All of it, where it is the only one."""
    assert packs(packed(3, ["a0"])) == [("a0", [0, 1, 2])]
    assert packs(packed(9, ["a0"])) == [("a0", [0, 1, 2, 3])], "no more than the most"
    for more in (False, True):
        # With the end in sight the first two count as under way.
        second = [2] if more else [2, 3]
        assert packs(packed(6, ["a0", "a1"]), more=more) == [("a0", [0, 1]), ("a1", second)]
        assert packs(packed(4, ["a0", "a1"]), more=more) == [("a0", [0]), ("a1", [1])]
    assert packs(packed(8, ["a0", "a1"]), more=False) == [("a0", [0, 1]), ("a1", [2, 3])]
    # The other one has 20 seconds before it.
    made = packed(5, ["a0", "a1"])
    made.begun("a1", 0.0, 0, 1)
    assert packs(made, more=False) == [("a0", [2, 3])]


def test_only_equal_jobs_run_as_lanes():
    made = packed(2, ["a0"], [{"a": 10}] * 4)
    made.add(Job(2, pack="other"))
    made.add(Job(3))
    assert packs(made) == [("a0", [0, 1])]
    free(made, "a0")
    assert packs(made) == [("a0", [2])]
    free(made, "a0")
    assert packs(made) == [("a0", [3])]


def test_at_the_end_lanes_are_those_that_are_placed_on_a_class():
    """Of 6 jobs of 10 seconds the fast worker has 5, and the slow one, 40 seconds, one."""
    made = packed(6, ["a0", "b0"])
    (fast, its), (slow, other) = packs(made, more=False)
    assert (fast, slow) == ("a0", "b0") and len(its) == 3 and len(other) == 1
    assert made.waiting == 2


def test_a_worker_is_free_once_its_last_lane_is():
    made = packed(3, ["a0"])
    packs(made)
    made.add(Job(0, pack="one"))
    made.freed("a0", 1)
    assert [job.trial for job in made.jobs_of("a0")] == [0, 2]
    assert packs(made) == []
    made.freed("a0", 2)
    made.freed("a0", 0)
    assert packs(made) == [("a0", [0])]


def test_lanes_end_before_the_wall_time():
    made = packed(4, [])
    made.joined("a0", "a", deadline=25.0)
    assert packs(made) == [("a0", [0, 1])]


def test_lanes_of_a_worker_that_failed_one_are_others():
    made = packed(8, ["a0", "a1"])
    made.removed(1)
    made.add(Job(1, avoid=frozenset(["a0"]), pack="one"))
    assert packs(made, more=False) == [("a0", [0, 2]), ("a1", [1, 3])]


def test_flags_of_all_lanes_are_those_of_the_tool():
    text = (REPOSITORY / "tools/optimus-run/LaneFile.cpp").read_text(encoding="utf-8")
    listed = text.partition("kOfAllLanes[] = {")[2].partition("}")[0]
    found = re.findall(r'"--([a-z0-9-]+)"', listed)
    assert sorted(found) == sorted(("lanes", *packing.COMMON))


def test_a_line_of_lanes_has_its_words_in_quotes():
    words = ["--lr=1e-3", "--data=a b.txt", "it's", 'a "b"']
    assert packing.row(words) == '--lr=1e-3 "--data=a b.txt" "it\'s" "a \\"b\\""'

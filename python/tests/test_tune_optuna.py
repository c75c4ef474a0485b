# ===- test_tune_optuna.py - Optuna's samplers, asked and told --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Searches by Optuna's samplers, in the simulator; the journal says it all again."""

import contextlib
import sqlite3
import sys
import time

import pytest

from optimus.tune import TuneError, optuna_sampler
from optimus.tune.domains import parse
from optimus.tune.machine import Class
from optimus.tune.samplers import make_sampler
from optimus.tune.search import Plain, Search
from optimus.tune.simulate import Simulation
from optimus.tune.virtual_pool import Kind, Pool
from optimus.tune.spaces import Leaf, Space, Union
from optimus.tune.spec import Spec, Study

SPACE = Space(
    (
        Leaf("model.name", parse("gpt2"), 1),
        Leaf("train.steps", parse(10), 2),
        Leaf("train.lr", parse({"log-uniform": [1e-4, 1.0]}), 3),
        Leaf("train.clip", parse({"normal": [1, 0.2]}), 4),
        Leaf("model.hidden", parse({"randint": [16, 64], "step": 16}), 5),
    ),
    (
        Union(
            "kind",
            {
                "a": Space((Leaf("train.beta1", parse({"uniform": [0, 1]}), 6),)),
                "b": Space(),
            },
            6,
        ),
    ),
)
POOL = Pool([Kind("one", 2, Class(1.0, 1 << 30, "avx2", "one"), {"": 1.0}, 0.1, None)])


@pytest.fixture(scope="module", autouse=True)
def optuna():
    try:
        return optuna_sampler.load()
    except TuneError as error:
        pytest.skip(str(error))


def predict(values):
    """What is wide does not fit."""
    if values["model.hidden"] == 64:
        return {"refusal": "too wide"}
    return {"rank_bytes": 1 << 20, "ranks": 1, "step_ms": 10.0}


def value(trial, _steps):
    return abs(trial.values["train.lr"] - 0.01) * 100 + ("kind=b" in trial.space)


def search_of(sampler, trials=30, objectives=("loss",), draw="shared"):
    spec = Spec(
        "spec.toml",
        ".",
        "",
        Study(trials=trials, sampler=sampler, objectives=objectives),
        SPACE,
    )
    return Search(spec, make_sampler(spec), Plain(trials), draw=draw)


def play(search, monkeypatch, written=None):
    monkeypatch.setattr("optimus.tune.simulate.loss_of", value)
    apply = search.apply
    search.apply = lambda record: (
        (written if written is not None else []).append(record),
        apply(record),
    )
    Simulation(search, POOL, predict).run()
    return search.study


@pytest.mark.parametrize("name", ["tpe", "cmaes", "nsgaii"])
def test_a_sampler_learns_and_its_journal_says_it_again(name, monkeypatch):
    objectives = ("loss",) if name != "nsgaii" else ("loss", "step_ms")
    written = []
    search = search_of(name, objectives=objectives)
    study = play(search, monkeypatch, written)
    assert len(study.trials) == 30 and study.ended == 30
    assert {"done", "infeasible"} == {trial.outcome for trial in study.trials}
    # What was asked for next follows from the records alone.
    again = search_of(name, objectives=objectives)
    for record in written:
        again.apply(record)
    assert again.sampler.ask(30, {}) == search.sampler.ask(30, {})


@pytest.mark.parametrize("name", ["tpe", "cmaes"])
def test_a_sampler_is_asked_in_one_space(name, monkeypatch):
    written = []
    search = search_of(name, trials=12, draw="class")
    trials = play(search, monkeypatch, written).trials
    assert [trial.number for trial in trials] == list(range(12))
    assert all(trial.more["class"] and trial.more["share"] == 0.5 for trial in trials)
    again = search_of(name, trials=12, draw="class")
    for record in written:
        again.apply(record)
    for label in ("kind=a", "kind=b"):
        number = 12 if label == "kind=a" else 13
        drawn = search.sampler.ask(number, {}, label)
        assert drawn.space == label
        assert ("train.beta1" in drawn.values) == (label == "kind=a")
        assert again.sampler.ask(number, {}, label) == drawn


def test_tpe_finds_more_than_chance(monkeypatch):
    best = {}
    for name in ("tpe", "random"):
        found = play(search_of(name, trials=60), monkeypatch)
        late = [trial for trial in found.trials[30:]]
        best[name] = sorted(trial.objectives[0] for trial in late if trial.objectives)[
            len(late) // 4
        ]
    assert best["tpe"] < best["random"]


def test_what_cannot_run_is_a_violated_constraint(monkeypatch, optuna):
    search = search_of("tpe")
    play(search, monkeypatch)
    frozen = search.sampler._study.trials
    for trial in search.study.trials:
        violated = trial.values["model.hidden"] == 64
        assert frozen[trial.number].user_attrs.get("violation", 0.0) == violated
        assert frozen[trial.number].system_attrs["constraints"] == (float(violated),)


def wait_for_trials(path, count):
    """Until a copy has so many."""
    deadline, found = time.monotonic() + 60, 0
    while found < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        with contextlib.suppress(sqlite3.Error):
            with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True)) as copy:
                found = copy.execute("select count(*) from trials").fetchone()[0]


def test_a_copy_is_made_again_and_a_lock_is_not_waited_for(monkeypatch, optuna, tmp_path):
    search = search_of("tpe", trials=8)
    play(search, monkeypatch)
    path = tmp_path / "optuna.db"
    path.write_text("no database")
    search.sampler.begin_copy(str(tmp_path))
    copy = search.sampler.copy
    wait_for_trials(path, 8)
    # Deleted while it is open: what is written to it then nobody reads.
    path.unlink()
    copy._done.pop()
    copy.put(search.sampler._study.trials[7])
    wait_for_trials(path, 8)
    copy.close(60.0)
    found = optuna.load_study(study_name="study", storage="sqlite:///%s" % path)
    assert [trial.values for trial in found.trials] == [
        trial.values for trial in search.sampler._study.trials
    ]
    # Another program holds it: nothing waits, and what is missing comes later.
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    copy = search.sampler.copy = optuna_sampler.Copy(optuna, str(path), 1, makes_anew=False)
    begin = time.monotonic()
    search.sampler.copy.put(search.sampler._study.trials[0])
    copy.close(1.0)
    assert time.monotonic() - begin < 10.0
    other.execute("ROLLBACK")
    other.close()


def test_without_optuna_a_sampler_is_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIMUS_TUNE_CACHE", str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        TuneError, match="expected Optuna for this sampler.*scripts/setup --tune"
    ):
        search_of("tpe")
    assert search_of("random")


@pytest.mark.parametrize("name", ["tep", "ranodm"])
def test_an_unknown_sampler_has_a_nearest_name(name):
    with pytest.raises(TuneError, match="expected one of random, tpe.*did you mean"):
        search_of(name)

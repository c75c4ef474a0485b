# ===- test_tune_leases.py - Workers that say nothing -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Leases of workers, by an executor that does as it is told and a clock of the test."""

import os
from types import SimpleNamespace

import pytest

from optimus.tune import run as run_module
from optimus.tune.domains import parse
from optimus.tune.executor import Event
from optimus.tune.machine import Class
from optimus.tune.policies import make_policy
from optimus.tune.jobs import Folder
from optimus.tune.kept import Kept
from optimus.tune.run import LEASE, Run
from optimus.tune.executor import Start
from optimus.tune.samplers import RandomSampler
from optimus.tune.search import Search
from optimus.tune.spaces import Leaf, Space
from optimus.tune.spec import Spec, Study

SPACE = Space(
    (Leaf("model.name", parse("gpt2"), 1), Leaf("train.steps", parse(10), 2))
)
PREDICTION = {"rank_bytes": 1000, "ranks": 1, "step_ms": 100.0, "tokens": 10}
HELLO = {"hello": Class(1.0, 1 << 33, "avx2", "cpu")._asdict()}


class Journal:
    """Keeps records, and all else that a run does with it."""

    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(dict(record))


class Executor:
    said = ""

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        if name in ("expiring", "take"):
            return lambda *_: []
        return lambda worker, *more: self.done.append((name, getattr(worker, "name", worker)))


class Played(Run):
    """A run of two workers, with nothing real around it."""

    def __init__(self, monkeypatch, tmp_path, **more):
        self.time = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.time)
        monkeypatch.setattr(run_module, "time", clock)
        monkeypatch.setattr(run_module, "commands", lambda *_: [])
        monkeypatch.setattr(
            run_module.outcome, "read_log", lambda _: SimpleNamespace(steps=[{"step": 10}])
        )
        monkeypatch.setattr(run_module.outcome, "measured", lambda *_: {"seconds": 1.0})
        monkeypatch.setattr(
            run_module.outcome,
            "judge",
            lambda *_: SimpleNamespace(kind="ended", outcome="done", why=""),
        )
        monkeypatch.setattr(run_module.outcome, "objectives", lambda *_, **__: [1.0])
        study = Study(trials=1, objectives=("loss",))
        spec = Spec("spec.toml", ".", "", study, SPACE)
        search = Search(spec, RandomSampler(SPACE, 0), make_policy(spec))
        self.journal = Journal()
        starts = [Start("one"), Start("two")]
        lock = SimpleNamespace(descriptor=0)
        super().__init__(
            search,
            Folder(str(tmp_path)),
            self.journal,
            lock,
            starts,
            lambda *_: None,
            **more,
        )
        self._pool = self.executor = Executor()
        self.write({"kind": "study", "objectives": ["loss"]})

    def decide(self):
        while record := self.search.decide(self.now()):
            self.write(record)
            if record["kind"] == "given":
                self.write(
                    {"kind": "predicted", "trial": 0, "prediction": dict(PREDICTION)}
                )

    def hear(self, kind, worker, data=None):
        self._handle(Event(kind, worker, data or {}))
        self.decide()

    def wait(self, seconds):
        """In looks of a second, while nobody says anything."""
        for _ in range(int(seconds)):
            self.time += 1.0
            self._expire()
        self.decide()

    @property
    def kinds(self):
        found = [record["kind"] for record in self.journal.records]
        return [each for each in found if each in ("started", "lost", "ended")]


@pytest.fixture
def played(monkeypatch, tmp_path):
    found = Played(monkeypatch, tmp_path)
    found.hear("hello", "one", HELLO)
    assert found.kinds == ["started"]
    return found


def test_a_worker_that_beats_keeps_its_job(played):
    for _ in range(5):
        played.wait(LEASE - 1)
        played.hear("beat", "one")
    assert played.kinds == ["started"]


def test_a_job_of_a_silent_worker_begins_elsewhere_and_the_worker_is_ended(played):
    played.wait(LEASE + 1)
    assert played.kinds == ["started", "lost"]
    assert played.journal.records[-1]["why"] == "lease"
    assert ("kill", "one") not in played.executor.done, "it may come back"
    played.hear("hello", "two", HELLO)
    assert played.kinds == ["started", "lost", "started"]
    # Two processes must not write one checkpoint.
    assert played.executor.done[-3:] == [("kill", "one"), ("restart", "one"), ("submit", "two")]
    played.hear("result", "two", {"job": 0})
    assert played.kinds[-1] == "ended" and played.search.is_over(played.now())


@pytest.mark.parametrize("kind", ["beat", "result"])
def test_a_late_word_is_taken_if_nobody_else_began(played, kind):
    played.wait(LEASE + 1)
    played.hear(kind, "one", {"job": 0} if kind == "result" else {"beat": True})
    if kind == "beat":
        assert played.kinds == ["started", "lost", "started"]
        played.hear("result", "one", {"job": 0})
    assert played.kinds == ["started", "lost", "started", "ended"]
    assert [each for each, _ in played.executor.done] == ["submit"]
    assert played.search.study.trials[0].outcome == "done"


def test_a_scheduler_that_stood_still_blames_nobody(played):
    played.time += 3600.0
    played._expire()
    assert played.kinds == ["started"]


def test_a_silent_worker_without_a_job_is_replaced(played):
    played.hear("hello", "two", HELLO)
    played.hear("beat", "one")
    for _ in range(3):
        played.wait(LEASE // 2)
        played.hear("beat", "one")
    assert played.executor.done[-2:] == [("kill", "two"), ("restart", "two")]
    assert played.kinds == ["started"]


def test_a_worker_without_work_measures_for_later_searches_while_others_work(
    played, tmp_path
):
    """The trial takes 1.8 seconds, as predicted; nothing else will come."""
    played.hear("hello", "two", HELLO)
    assert not played._is_worth(1.0), "nothing is kept"
    played._kept = Kept(1, str(tmp_path / "cache"))
    assert played._is_worth(1.0) and not played._is_worth(2.0)
    played.wait(1)
    assert not played._is_worth(1.0)
    assert played.search.is_informed
    spec = played.search.spec
    fcfs = Search(spec, RandomSampler(SPACE, 0), make_policy(spec), "fcfs")
    assert not fcfs.is_informed, "whoever does not ask measures nothing"


def test_where_it_is_asked_for_a_class_is_measured_before_its_first_trial(
    monkeypatch, tmp_path
):
    """One worker does, the other one of the class has the trial meanwhile."""
    monkeypatch.setattr(run_module, "measure", lambda *_: {"job": "measure"})
    found = Played(monkeypatch, tmp_path, measures_first=True)
    found.hear("hello", "one", HELLO)
    found.hear("hello", "two", HELLO)
    assert found.executor.done == [("submit", "one"), ("submit", "two")]
    started = [each for each in found.journal.records if each["kind"] == "started"]
    assert [each["worker"] for each in started] == ["two"]
    (tmp_path / "classes").mkdir()
    (tmp_path / "classes" / "one.new").write_text("{}")
    found.hear("result", "one", {"code": 0, "seconds": {"bench": 4.0}})
    assert os.listdir(tmp_path / "classes") == [Class(**HELLO["hello"]).profile + ".json"]
    found.hear("result", "two", {"job": 0})
    assert [each for each, _ in found.executor.done] == ["submit"] * 2, "once is enough"

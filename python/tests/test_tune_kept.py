# ===- test_tune_kept.py - What classes took in earlier searches -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The user's cache of profiles and of trials' times: good files count, and others
are ignored."""

import json
import os

import pytest

from optimus.tune import TuneError, costs, virtual_pool
from optimus.tune.kept import Kept, user_folder
from optimus.tune.machine import Class, describe, speed_of

ITS = Class(0.4, 2 << 30, "avx2", "a processor")
MODEL = "gpt2 f32"


def taken(ratio=2.0, its=ITS):
    found = costs.Corrections()
    measured = {"step_ms": 10.0 * ratio, "other_seconds": 1.0, "making_seconds": 2.0}
    prediction = {"rank_bytes": 1, "ranks": 1, "step_ms": 10.0}
    found.observe(its.key, MODEL, prediction, measured)
    return found.taken(its.key)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def kept(cache, beside=3):
    return Kept(beside, str(cache))


def test_the_folder_is_that_of_the_users_caches(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert user_folder() == "/some/cache/optimus/classes"
    monkeypatch.setenv("HOME", "/home/me")
    for path in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", path)
        assert user_folder() == "/home/me/.cache/optimus/classes"


def test_what_was_kept_is_found_by_equally_fast_classes(cache):
    kept(cache).keep_taken(ITS, taken())
    # Memory makes nothing faster; cores and instructions do.
    assert kept(cache).taken(ITS._replace(memory=1 << 30)) == taken()
    assert kept(cache).taken(ITS._replace(cores=0.5)) is None
    assert kept(cache).taken(ITS._replace(instructions="avx512f")) is None
    # Of others with as many beside them, or nearly.
    kept(cache, 7).keep_taken(ITS, taken(4.0))
    assert [kept(cache, count).taken(ITS) for count in (0, 5, 6)] == [
        taken(), taken(), taken(4.0)
    ]
    kept(cache, 7).keep_taken(ITS, taken(5.0))
    assert kept(cache, 7).taken(ITS) == taken(5.0), "the last one"
    # A class without trials keeps nothing, nor does a search without a cache.
    assert not costs.Corrections().taken(ITS.key)["rates"]
    kept(cache, 9).keep_taken(ITS, costs.Corrections().taken(ITS.key))
    Kept(9, None).keep_taken(ITS, taken())
    assert len(os.listdir(cache)) == 2 and Kept(3, None).taken(ITS) is None


def test_parts_of_a_core_share_a_profile(cache, tmp_path):
    profile = {"version": 1, "gemm": [{"threads": 1}]}
    (tmp_path / "measured.json").write_text(json.dumps(profile))
    kept(cache).keep_profile(ITS, str(tmp_path / "measured.json"))
    path = kept(cache).profile(ITS._replace(cores=0.1))
    assert json.loads(open(path).read()).items() >= profile.items()
    assert kept(cache).profile(ITS._replace(cores=2.0)) is None


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda found: None, "it is no JSON"),
        (lambda found: [1], "found nothing of the kind"),
        (
            lambda found: {**found, "class": {**found["class"], "optimus": "0.0.9"}},
            "expected what NAME, processor a processor, by Optimus VERSION took, found NAME, "
            "processor a processor, by Optimus 0.0.9; remove it",
        ),
        (
            lambda found: {**found, "class": {**found["class"], "processor": "a Processor"}},
            "found NAME, processor a Processor, by",
        ),
        (lambda found: {**found, "taken": {"rates": []}}, "found something else"),
        (
            lambda found: {**found, "taken": {**found["taken"], "rates": [["a", "b", -1, 2]]}},
            "found something else",
        ),
        (
            lambda found: {**found, "taken": {**found["taken"], "seconds": {"x": [1, 1]}}},
            "found something else",
        ),
    ],
)
def test_what_is_something_else_is_ignored_with_a_message(cache, capfd, change, said):
    kept(cache).keep_taken(ITS, taken())
    (name,) = os.listdir(cache)
    changed = change(json.loads((cache / name).read_text()))
    (cache / name).write_text("{" if changed is None else json.dumps(changed))
    assert kept(cache).taken(ITS) is None
    message = capfd.readouterr().err
    assert message.startswith("optimus-tune: '%s' is ignored: " % (cache / name))
    said = said.replace("NAME", speed_of(ITS.key)).replace("VERSION", ITS.version)
    assert said in message and message.count("\n") == 1
    # The next search writes another in its place.
    kept(cache).keep_taken(ITS, taken())
    assert kept(cache).taken(ITS) == taken() and capfd.readouterr().err == ""


def test_a_cache_that_cannot_be_written_is_said_once(tmp_path, capfd):
    (tmp_path / "cache").write_text("a file")
    kept(tmp_path / "cache").keep_taken(ITS, taken())
    said = capfd.readouterr().err
    assert said.startswith("optimus-tune: the next search will not know: ")
    assert said.count("\n") == 1


def test_workers_here_are_as_fast_as_an_earlier_search_found_them(cache, tmp_path):
    text = "[[worker]]\nname = 'part'\ncores = 0.4\nmemory_mib = 2048\nhere = true\n"
    text += "instructions = 'avx2'\n[[worker]]\nname = 'other'\nmemory_mib = 9\n"
    (tmp_path / "pool.toml").write_text(text)

    def read():
        return virtual_pool.read_pool(str(tmp_path / "pool.toml"), str(cache))

    with pytest.raises(TuneError, match="worker part: here: expected what .* found nothing"):
        read()
    its = ITS._replace(processor=describe().processor)
    kept(cache, 1).keep_taken(its, taken(its=its))
    part, other = read().kinds
    assert (part.of, part.slower[MODEL], part.overhead, part.making) == (its, 2.0, 1.0, 2.0)
    assert part.slower[""] == 2.0 and read().profiles == {}
    assert other.overhead == costs.SECONDS["other_seconds"]
    (tmp_path / "measured.json").write_text('{"gemm": []}')
    kept(cache, 1).keep_profile(its, str(tmp_path / "measured.json"))
    found = read()
    # Of what a profile predicts nothing was measured.
    assert found.kinds[0].slower[MODEL] == pytest.approx(1 / 0.4)
    assert list(found.profiles) == [its.profile]


def test_workers_of_whom_nothing_was_kept_follow_from_others():
    smaller = ITS._replace(cores=0.1)
    kinds = [virtual_pool.Kind(str(its.cores), 1, its, {}, 0.0, None) for its in (ITS, smaller)]
    part, small = virtual_pool.known_kinds(kinds, {ITS.key: taken()}, ())
    assert (part.slower[MODEL], part.overhead, part.making) == (2.0, 1.0, 2.0)
    assert small.slower[MODEL] == pytest.approx(2.0 * ITS.cores / 0.1)
    assert small.making == pytest.approx(2.0 * ITS.cores / 0.1)

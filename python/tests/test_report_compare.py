# ===- test_report_compare.py - A run beside its simulation ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-report compare` against a reading by hand, of profiles whose every number is
known; the page in headless Chromium; and a real run beside its simulation."""

import re
import sqlite3

import pytest

import chromium
import synthetic_profile
from optimus.report import compare
from optimus.report.__main__ import main
from optimus.report.profile import Profile
from profile_by_hand import ByHand
from synthetic_profile import Shape
from tools import Model

SHAPE = Shape(layers=3, steps=9)


@pytest.fixture
def paths(tmp_path):
    run, simulated = tmp_path / "run.profile", tmp_path / "simulated.profile"
    synthetic_profile.write(run, SHAPE)
    synthetic_profile.write(
        simulated, SHAPE._replace(steps=1), backend="simulated", processor="machine.json"
    )
    return run, simulated


def of_steps(path, steps, rank=1):
    """Nanoseconds of a mean step, and of each of its commands."""
    by_hand = ByHand(path)
    calls = [c for c in by_hand.calls if c["rank"] == rank and c["step"] in steps]
    mean = lambda values: sum(values) / len(steps)
    commands = [
        mean(
            by_hand.times[call["call"], number]["end"]
            - by_hand.times[call["call"], number]["begin"]
            for call in calls
        )
        for number in by_hand.commands
    ]
    return mean(call["end"] - call["begin"] for call in calls), commands


def test_terms_add_up_to_the_step(paths):
    """Each step is longer than the one before: of the eight warm ones the middle half."""
    found = compare.Comparison([Profile(str(paths[0]))], Profile(str(paths[1])), rank=1)
    run, ran = of_steps(paths[0], [4, 5, 6, 7])
    simulated, predicted = of_steps(paths[1], [1])
    assert found.step == pytest.approx((run, simulated))
    commands = ByHand(paths[0]).commands
    for terms, key_of in [
        (found.by_kind(), lambda c: (c["kind"],)),
        (found.by_command(), lambda c: (c["name"] or c["kind"], c["path"])),
    ]:
        expected = {}
        for number, command in commands.items():
            if command["kind"] == "wait":
                key = ("wait for all_reduce over row", *key_of(command)[1:])
            else:
                key = key_of(command)
            before = expected.get(key, (0, 0))
            expected[key] = before[0] + ran[number], before[1] + predicted[number]
        between = terms.pop((compare.BETWEEN,), None)
        assert {key: tuple(term) for key, term in terms.items()} == {
            key: pytest.approx(value) for key, value in expected.items()
        }
        if between:
            assert between == pytest.approx((run - sum(ran), simulated - sum(predicted)))
            assert between.run > 0


def test_a_run_of_several_processes(tmp_path):
    """A rank has its times from the file of its process."""
    shape = SHAPE._replace(ranks=1, processes=2)
    files = [tmp_path / ("run.profile.%d" % process) for process in range(2)]
    for process, path in enumerate(files):
        synthetic_profile.write(path, shape._replace(process=process))
    simulated = tmp_path / "simulated.profile"
    synthetic_profile.write(simulated, SHAPE._replace(steps=1), backend="simulated")
    assert main(["compare", *map(str, [*files, simulated]), "--rank", "1"]) == 0
    found = compare.Comparison(
        [Profile(str(path)) for path in files], Profile(str(simulated)), rank=1
    )
    assert found.step.run == pytest.approx(of_steps(files[1], [4, 5, 6, 7])[0])


def test_lines(paths, capfd):
    assert main(["compare", *map(str, paths), "--rank", "1"]) == 0
    said = capfd.readouterr().out
    assert "rank 1 of %s, 4 steps of the middle half by length, of 8" % paths[0] in said
    assert "on machine.json" in said
    for row in ["wait for all_reduce over row", "gelu +h.2.mlp.up", "between commands"]:
        assert re.search(row, said), row
    # A simulated step of calls 0 and 1 is shorter than later ones.
    assert re.search(r"step +\S+ µs ran, \S+ µs simulated: -\d", said)


def test_both_timelines_are_drawn(paths, tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "page.html"
    assert main(["compare", *map(str, paths), "-o", str(page)]) == 0
    said = chromium.ask(
        page,
        """const {boxes} = gantt;
        return {rows: data.rows, asked: performance.getEntriesByType('resource').length,
          drawn: document.querySelectorAll('#time .main-svg').length > 0,
          boxes: [...boxes.left.keys()].map((i) =>
            [-boxes.top[i], boxes.left[i], boxes.text(i).split('\\n')[0]])};""",
    )
    queues = ["compute", "communication row", "communication row in flight"]
    assert said["rows"] == [
        "%s: %s" % (of, queue) for of in ("run", "simulated") for queue in queues
    ]
    assert said["asked"] == 0 and said["drawn"]
    first, second = (
        [(at, words) for row, at, words in said["boxes"] if int(row) in rows]
        for rows in (range(3), range(3, 6))
    )
    # The same commands twice, from the step's begin on.
    assert [words for _, words in first] == [words for _, words in second]
    assert "gemm h.0.mlp.up" == first[0][1] and 0 < first[0][0] < 1e-3


@pytest.mark.parametrize(
    "change, message",
    [
        ("swap", "last one of `optimus-simulate --profile`"),
        ("model", "expected profiles of one library, found model a1b2"),
        ("rank", "--rank: expected one of both, 0, 1, found 7"),
        ("calls", "simulate the run's --microbatches"),
        ("output", "is the file that is read"),
    ],
)
def test_mistakes(paths, capfd, change, message):
    run, simulated = map(str, paths)
    flags = []
    if change == "swap":
        run, simulated = simulated, run
    elif change == "model":
        connection = sqlite3.connect(simulated)
        connection.execute("UPDATE trace SET value = 'ffff' WHERE key = 'model_hash'")
        connection.commit()
    elif change == "rank":
        flags = ["--rank", "7"]
    elif change == "calls":
        connection = sqlite3.connect(simulated)
        connection.execute("UPDATE functions SET name = 'loss'")
        connection.commit()
    else:
        flags = ["-o", simulated]
    assert main(["compare", run, simulated, *flags]) == 1
    assert message in capfd.readouterr().err


def test_a_run_and_its_simulation(tools, tmp_path):
    model = Model(layers=1, hidden=32, heads=4, sequence=16, vocabulary=64, batch=8)
    library = tools.library(model, "row:2,col:1", "summa")
    run, simulated = tmp_path / "run.profile", tmp_path / "simulated.profile"
    data = tmp_path / "data.txt"
    data.write_bytes(bytes(i % 64 for i in range(2000)))
    tools.run("optimus-run", "train", library, "--data", data, "--steps", 4, "--profile", run)
    tools.run("optimus-simulate", library, "--profile", simulated)
    found = compare.Comparison([Profile(str(run))], Profile(str(simulated)))
    kinds = found.by_kind()
    assert {("gemm",), ("wait for broadcast over row",)} <= set(kinds)
    for side in range(2):
        assert sum(term[side] for term in kinds.values()) == pytest.approx(found.step[side])
    # Nothing but commands is simulated.
    assert kinds[(compare.BETWEEN,)].simulated == pytest.approx(0, abs=1)
    assert kinds[(compare.BETWEEN,)].run > 0

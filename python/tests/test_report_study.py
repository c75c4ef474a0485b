# ===- test_report_study.py - A search as figures --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-report study` follows from a study's journal: bars from attempts, fronts by
definition, influences of values that are known."""

import itertools
import json
import math
import random

import numpy as np
import pytest

import chromium
from optimus.report import study, study_page
from optimus.report.__main__ import main
from optimus.tune.study import Study
from test_report_run import data_of, refused

CLASS = {"cores": 1.0, "memory": 1000 << 20, "instructions": "avx2"}
KIND = "p-1c-1000M-avx2"


def records(trials=24, objectives=("eval_loss", "step_ms")):
    """On two workers; each tenth trial diverges, each tenth is infeasible, the fifth is
    lost once, every third is stopped on its rung. What counts is the learning rate."""
    draw = random.Random(5)
    yield {"kind": "study", "objectives": [*objectives], "trials": trials, "time": 0.0}
    for worker in ("w0", "w1"):
        yield {"kind": "worker", "worker": worker, "class": CLASS, "time": 0.0}
    now = 0.0
    for number in range(trials):
        rate = 10 ** draw.uniform(-4, -1)
        values = {"model.name": "gpt2", "model.layers": draw.randint(1, 2), "train.lr": rate}
        values["compile.optimizer"] = draw.choice(["adamw", "lion"])
        trial = {"trial": number, "time": now}
        yield {"kind": "given", "values": values, "space": "", **trial}
        if number % 10 == 8:
            why = "it fits nowhere"
            yield {"kind": "ended", "outcome": "infeasible", "message": why, **trial}
            continue
        prediction = {"rank_bytes": 50 << 20, "ranks": 2, "step_ms": 10.0}
        yield {"kind": "predicted", "prediction": prediction, **trial}
        started = {"kind": "started", "worker": "w%d" % (number % 2), "class": KIND}
        started["costs"] = {KIND: 4.0, "other": None}
        yield {**started, **trial}
        measured = {"step_ms": 12.0, "max_rss": 300 << 20, "seconds": 5.0}
        now += 5.0
        trial["time"] = now
        if number == 5:
            yield {"kind": "lost", "message": "signal 9 ended it", **trial}
            yield {**started, **trial}
            now += 5.0
            trial["time"] = now
        loss = abs(math.log10(rate) + 2.5)
        if number % 3 == 0:
            yield {"kind": "rung", "step": 10, "objective": loss + 1, "measured": measured, **trial}
            yield {"kind": "ended", "outcome": "stopped", "objectives": [loss + 1], **trial}
        else:
            outcome = "diverged" if number % 10 == 7 else "done"
            values = [None if outcome == "diverged" else loss, 10.0 - loss]
            end = {"kind": "ended", "outcome": outcome, "objectives": values[: len(objectives)]}
            yield {**end, "seconds": 5.0, "measured": measured, **trial}


def write(folder, these):
    folder.mkdir()
    lines = [json.dumps(record) for record in these]
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "s.study", records())


def page_of(folder):
    page = folder.parent / "page.html"
    assert main(["study", str(folder), "-o", str(page)]) == 0
    return page


def named(figure):
    return {curve.get("name"): curve for curve in figure["data"]}


def test_bars_are_attempts_and_outlines_predictions(folder):
    workers = named(data_of(page_of(folder))["figures"]["workers"])
    begun = [record for record in records() if record["kind"] == "started"]
    assert workers["predicted"]["base"] == [record["time"] for record in begun]
    assert set(workers["predicted"]["x"]) == {4.0}
    assert workers["predicted"]["width"] > workers["done"]["width"]
    bars = sum(len(curve["x"]) for name, curve in workers.items() if name != "predicted")
    assert bars == len(begun)
    assert workers["lost"]["base"] == [begun[5]["time"]] and workers["lost"]["x"] == [5.0]
    assert set(workers["rung"]["x"]) == set(workers["done"]["x"]) == {5.0}
    assert {*workers["rung"]["y"]} == {"w0", "w1"}


def test_an_attempt_that_goes_on(tmp_path):
    these = [record for record in records(4) if record["kind"] != "ended"]
    these.append({"kind": "worker", "worker": "w2", "class": CLASS, "time": 99.0})
    report = study.StudyReport(str(write(tmp_path / "s", these)))
    running = [each for each in report.attempts if each.how == "running"]
    assert [each.end for each in running] == [None, None]
    workers = named(data_of(page_of(tmp_path / "s"))["figures"]["workers"])
    assert workers["running"]["x"] == [99.0 - each.begin for each in running]


def test_history_and_front(folder):
    figures = data_of(page_of(folder))["figures"]
    history = named(figures["history"])
    ends = [record for record in records() if record.get("outcome") == "done"]
    assert history["done"]["x"] == [record["trial"] for record in ends]
    assert history["done"]["y"] == [record["objectives"][0] for record in ends]
    least = [*itertools.accumulate((record["objectives"][0] for record in ends), min)]
    assert history["best"]["y"][-1] == min(least) and sorted(
        set(least), reverse=True
    ) == history["best"]["y"][:-1]
    # What diverged stands above all others.
    assert min(history["diverged"]["y"]) > max(history["done"]["y"])
    # One objective falls as the other rises: all are on the front.
    front = named(figures["front"])["Pareto front"]
    assert sorted(front["y"]) == sorted(record["objectives"][0] for record in ends)


def test_pareto_fronts():
    draw = random.Random(1)
    places = [(draw.randint(0, 30), draw.randint(0, 30)) for _ in range(200)]

    def is_beaten(place):
        return any(
            other != place and other[0] <= place[0] and other[1] <= place[1]
            for other in places
        )

    expected = sorted({place for place in places if not is_beaten(place)})
    assert study_page.pareto(places) == expected
    assert study_page.pareto([]) == []


def test_a_search_with_one_objective(tmp_path):
    figures = data_of(page_of(write(tmp_path / "s", records(30, ["loss"]))))["figures"]
    assert figures["front"]["layout"]["xaxis"]["title"]["text"] == "seconds that a trial took"
    assert len(named(figures["front"])["Pareto front"]["x"]) == 1


def influence_of(values, losses):
    found = Study()
    found.apply({"kind": "study", "objectives": ["loss"], "trials": len(losses)})
    for number, loss in enumerate(losses):
        trial = {name: column[number] for name, column in values.items()}
        found.apply({"kind": "given", "trial": number, "values": trial, "space": ""})
        record = {"kind": "ended", "trial": number, "outcome": "done", "objectives": [loss]}
        found.apply(record)
    return {each.name: each.share for each in study.influences(found)}


def test_influences():
    draw = random.Random(2)
    count = 400
    values = {
        "rate": [draw.random() for _ in range(count)],
        "kind": [draw.choice("abc") for _ in range(count)],
        "noise": [draw.random() for _ in range(count)],
        "same": [1] * count,
    }
    # A third by the kind alone.
    found = influence_of(values, [abs(rate - 0.5) for rate in values["rate"]])
    assert [*found][0] == "rate" and found["rate"] > 0.8
    assert found["noise"] < 0.05 and found["kind"] < 0.05 and "same" not in found
    found = influence_of(values, [ord(kind) for kind in values["kind"]])
    assert found["kind"] == pytest.approx(1) and found["rate"] < 0.05
    # What is worth nothing has nothing on average, not a little.
    shares = []
    for seed in range(200):
        draw = random.Random(seed)
        losses = np.array([draw.random() for _ in range(40)])
        groups = np.array([draw.randrange(5) for _ in range(40)])
        within = sum(
            ((losses[groups == g] - losses[groups == g].mean()) ** 2).sum()
            for g in set(groups.tolist())
        )
        total = ((losses - losses.mean()) ** 2).sum()
        degrees = 40 - len(set(groups.tolist()))
        share = 1 - within / degrees * 39 / total
        assert study._explained(losses, groups) == pytest.approx(max(0, share))
        shares.append(share)
    # ε² has the mean 0 and about the deviation √(2·4)/35 here.
    assert abs(np.mean(shares)) < 4 * math.sqrt(8) / 35 / math.sqrt(200)


def test_infinite_values_have_ranks():
    values = {"rate": [*range(20)]}
    losses = [None if each > 10 else float(each) for each in range(20)]
    assert influence_of(values, losses)["rate"] > 0.8


def test_values_side_by_side(folder):
    figure = data_of(page_of(folder))["figures"]["parallel"]
    names = figure["layout"]["xaxis"]["ticktext"]
    assert names == ["model.layers", "train.lr", "compile.optimizer", "eval_loss"]
    judged = [record for record in records() if "outcome" in record]
    judged = [record for record in judged if record.get("objectives")]
    heights = {}
    for curve in figure["data"]:
        rows = np.array(curve["y"], float).reshape(-1, len(names) + 1)
        for row, number in zip(rows, curve["trials"][:: len(names) + 1]):
            heights[number] = row
    assert sorted(heights) == [record["trial"] for record in judged]
    rates = {
        record["trial"]: math.log(record["values"]["train.lr"])
        for record in records()
        if record["kind"] == "given" and record["trial"] in heights
    }
    low, high = min(rates.values()), max(rates.values())
    for number, rate in rates.items():
        assert heights[number][1] == pytest.approx((rate - low) / (high - low))
    labels = [note["text"] for note in figure["layout"]["annotations"]]
    assert "adamw" in labels and "lion" in labels


def test_memory_and_errors(folder, capfd):
    figures = data_of(page_of(folder))["figures"]
    memory = named(figures["memory"])
    assert set(memory["held"]["y"]) == {30.0} and set(memory["planned"]["y"]) == {10.0}
    errors = named(figures["errors"])
    assert errors["a step"]["y"] == pytest.approx([1.2] * len(memory["held"]["y"]))
    assert set(errors["an attempt"]["y"]) == {1.25}
    said = capfd.readouterr().out
    assert [line.split() for line in said.splitlines() if KIND in line] == [
        [KIND, "1.20", "20", "%", "1.25", "25", "%"]
    ]
    assert "24 of 24 trials ended" in said and "train.lr" in said


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_study_that_has_hardly_begun(tmp_path, count, capfd):
    page_of(write(tmp_path / "s", records(count)))
    assert "fewer than 8 trials have a value" in capfd.readouterr().out


def test_what_is_no_study(tmp_path, folder, capfd):
    assert "is no study" in refused(capfd, "study", tmp_path)
    (tmp_path / "journal.jsonl").write_text("")
    assert "its journal is empty" in refused(capfd, "study", tmp_path)
    (tmp_path / "journal.jsonl").write_text("[1]\n{}\n")
    assert "expected a JSON object" in refused(capfd, "study", tmp_path)
    header, *rest = records()
    # One of each kind and outcome.
    kinds = {(each["kind"], each.get("outcome")): each for each in reversed(rest)}
    for record in kinds.values():
        for key in record:
            if key in ("time", "message", "seconds", "measured", "space"):
                continue
            damaged = {name: value for name, value in record.items() if name != key}
            lines = [header, *rest[: rest.index(record)], damaged]
            text = "\n".join(map(json.dumps, lines)) + "\n"
            (tmp_path / "journal.jsonl").write_text(text)
            code = main(["study", str(tmp_path)])
            assert code in (0, 1), (record, key, capfd.readouterr().err)
    capfd.readouterr()
    journal = folder / "journal.jsonl"
    assert "is the file that is read" in refused(capfd, "study", folder, "-o", journal)


def test_names_are_text(tmp_path):
    evil = "</script><b id=evil>"
    these = [*records(12)]
    for record in these:
        if record["kind"] == "given":
            record["values"]["train.data"] = evil + str(record["trial"] % 2)
    text = page_of(write(tmp_path / "s", these)).read_text("utf-8")
    assert evil not in text and "&lt;b id=evil&gt;" in text


@pytest.mark.rotates
def test_a_page_of_many_trials(tmp_path):
    """It has less than 5 MB beside Plotly."""
    offline = pytest.importorskip("plotly.offline")
    page = page_of(write(tmp_path / "s", records(10_000)))
    assert page.stat().st_size - len(offline.get_plotlyjs()) < 5 << 20


@pytest.mark.rotates
def test_the_page_in_a_browser(folder):
    said = chromium.ask(
        page_of(folder),
        """return {drawn: Object.keys(data.figures).map((name) =>
          document.querySelectorAll('#' + name + ' .main-svg').length > 0),
          about: data.figures.history.data[0].text[0].split('<br>'),
          bars: document.querySelectorAll('#workers .bars .point').length,
          asked: performance.getEntriesByType('resource').length};""",
    )
    begun = sum(record["kind"] == "started" for record in records())
    (values,) = [
        record["values"]
        for record in records()
        if record["kind"] == "given" and record["trial"] == 1
    ]
    first, *its = said.pop("about")
    assert first.startswith("trial 1: eval_loss ")
    assert its == ["%s %s" % pair for pair in sorted(values.items())]
    assert said == {"drawn": [True] * 7, "bars": 2 * begun, "asked": 0}

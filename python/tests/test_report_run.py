# ===- test_report_run.py - Training runs side by side ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-report run` reads logs to the last bit, compares runs and their settings,
and draws every step."""

import base64
import json
import re
import time

import numpy as np
import pytest

import chromium
from optimus.report import training, training_log, training_page
from optimus.report.__main__ import main
from synthetic_log import beginning, ended, steps, write

WHOLE = [beginning(), *steps(1, 3000, eval_every=100), ended("done", 3000)]


def arrays(value):
    """A page's data, with its arrays as such."""
    if isinstance(value, list):
        return [*map(arrays, value)]
    if not isinstance(value, dict):
        return value
    if list(value) == ["f64"]:
        return np.frombuffer(base64.b64decode(value["f64"]), "<f8")
    return {key: arrays(each) for key, each in value.items()}


def data_of(page):
    pytest.importorskip("plotly")
    found = re.search(r"<script>const data = (.*);</script>\n", page.read_text("utf-8"))
    return arrays(json.loads(found[1]))


def refused(capfd, *arguments) -> str:
    assert main([*map(str, arguments)]) == 1
    out, error = capfd.readouterr()
    assert out == "" and error.count("\n") == 1
    assert error.startswith("optimus-report: error: ")
    return error


def test_every_number_is_read(tmp_path):
    """As JSON has them, whichever way lines are read: alike, with other numbers and
    keys among them, and without any that are alike."""
    noise = steps(1, 4000, eval_every=7)
    for line in noise[100:140]:
        line.update(loss=None, grad_norm=1e-300, lr=-2.5e22)
    for line in noise[2000:2500]:
        line["paging_ms"] = 3.5
    del noise[3000]["lr"]
    noise[3100]["ms"] = 5
    log = training_log.read(write(tmp_path / "log", [beginning(), *noise]))
    assert len(log) == 4000
    for name in {name for line in noise for name in line}:
        values = [line.get(name) for line in noise]
        expected = np.array([np.nan if each is None else each for each in values])
        np.testing.assert_array_equal(log[name], expected, name)
    assert np.isnan(log["of no step"]).all()


def test_a_log_that_goes_on(tmp_path):
    """Of a run that was stopped, and of another from its step 500 on."""
    records = [beginning(), *steps(1, 500), beginning(500), *steps(501, 700)]
    path = write(tmp_path / "log", records, '{"step":701,"lo')
    log = training_log.read(path)
    assert [each.after for each in log.beginnings] == [0, 500] and log.end is None
    assert log["step"].tolist() == [*range(1, 701)]
    assert training.tokens(log)[-1] == 700 * 1000
    # Each begins its time anew.
    np.testing.assert_allclose(training.seconds(log), 0.0125 * np.arange(1, 701))


def test_tokens_and_time_of_other_logs(tmp_path):
    """Of one that begins where a checkpoint was, without times since the beginning."""
    later = steps(501, 600)
    for line in later:
        del line["seconds"]
    log = training_log.read(write(tmp_path / "log", later))
    assert training.tokens(log)[0] == 501 * 1000
    np.testing.assert_allclose(training.seconds(log)[-1], 100 * 0.01)


def test_a_log_is_read_while_it_grows(tmp_path):
    path = write(tmp_path / "log", WHOLE[:100], '{"step":10')
    log = training_log.TrainingLog(path)
    assert log.update() and len(log) == 99
    assert not log.update()
    write(path, WHOLE[:2500])
    assert log.update() and len(log) == 2499
    assert log["loss"].tolist() == [line["loss"] for line in WHOLE[1:2500]]
    # A run that goes on from step 50 takes the other lines away.
    records = [*WHOLE[:51], beginning(50), *steps(51, 3000, seed=1), ended("done", 3000)]
    write(path, records)
    assert log.update() and len(log) == 3000
    assert log["loss"][50] == records[52]["loss"] and len(log.beginnings) == 2
    write(path, WHOLE[:10])
    assert log.update() and len(log) == 9
    log.close()


@pytest.mark.parametrize(
    "content, why",
    [
        (b"not a log\n", "line 1: expected a JSON object"),
        (b'{"step":1,"loss":2}\n[1]\n', "line 2"),
        (b'{"step":1,"loss":2}\n\n', "found nothing"),
        (b'{"step":1,"loss":1.2.3}\n', "line 1"),
        (b'{"step":1,"loss":1-2}\n', "line 1"),
        (b'{"step":-1}\n', "line 1"),
        (b'{"step":1.5}\n', "line 1"),
        (b'{"step":1,"loss":2}\n' * 2, "has step 1 twice"),
        (b'{"step":1,"loss":2}\n' + bytes(99) + b"\n", "line 2"),
        (b"[" * 60_000 + b"\n", "line 1"),
        (b"x" * 100_000, "line 1: expected a JSON object"),
        (b'{"step":1' * 50_000, "a line of more than 65536 bytes"),
        (b'{"step":1,"eval_loss":1%s}\n' % (400 * b"0"), "line 1: expected"),
        (b"", "has no step"),
        (b'{"began":"now","step":0}\n', "has no step"),
    ],
)
def test_what_is_no_log(tmp_path, capfd, content, why):
    (tmp_path / "log").write_bytes(content)
    page = tmp_path / "page.html"
    assert why in refused(capfd, "run", tmp_path / "log", "-o", page)
    assert not page.exists()


def test_what_cannot_be_read(tmp_path, capfd):
    assert "No such file" in refused(capfd, "run", tmp_path / "none")
    assert "Is a directory" in refused(capfd, "run", tmp_path)
    log = write(tmp_path / "log", WHOLE)
    assert "is the file that is read" in refused(capfd, "run", log, "-o", log)
    assert "is given twice" in refused(capfd, "run", log, tmp_path / "." / "log")


def test_settings_that_differ(tmp_path, capfd):
    changes = [{}, {"flags": {"--lr": "0.01", "--clip": "none"}}, {"strategy": "megatron"}]
    paths = []
    for number, change in enumerate(changes):
        (tmp_path / str(number)).mkdir()
        records = [beginning(**change), *steps(1, 10, number)]
        paths.append(write(tmp_path / str(number) / "log", records))
    paths.append(write(tmp_path / "old", steps(1, 10)))
    runs = training.named([training_log.read(path) for path in paths])
    assert [run.name for run in runs[:3]] == ["0/log", "1/log", "2/log"]
    found = training.differences(runs)
    rows = dict(zip(found.names, found.values))
    assert rows == {
        "strategy": ["summa", "summa", "megatron", "–"],
        "--lr": ["0.001", "0.01", "0.001", "–"],
        "--clip": ["–", "none", "–", "–"],
    }
    assert found.unknown == [runs[3].name]
    assert main(["run", *map(str, paths)]) == 0
    said = capfd.readouterr().out
    assert re.search(r"--lr +0.001 +0.01 +0.001", said) and "data" not in said
    assert "Settings are not known of %s" % runs[3].name in said
    assert main(["run", str(paths[0])]) == 0
    assert "differs" not in capfd.readouterr().out


def test_figures_of_a_run(tmp_path, capfd):
    message = "training diverged: at step 3001 the loss is nan"
    path = write(tmp_path / "log", [*WHOLE[:-1], ended("diverged", 3001, message)])
    assert main(["run", str(path)]) == 0
    header, row, said, *_ = capfd.readouterr().out.splitlines()
    losses = [line["eval_loss"] for line in WHOLE if "eval_loss" in line]
    shown = dict(zip(re.split(r" {2,}", header.strip()), re.split(r" {2,}", row.strip())))
    assert shown == {
        "Run": "log",
        "steps": "3,000",
        "loss": "%.4f" % WHOLE[3000]["loss"],
        "held-out": "%.4f" % min(losses),
        "at step": format(100 * (1 + int(np.argmin(losses))), ","),
        "ms": "10.00",
        "tokens/s": "100000",
        "exposed": "5.0 %",
        "memory": "3.00 MiB",
        "Ended": "diverged",
    }
    assert said == "log: " + message


def test_curves_of_a_short_run(tmp_path):
    """Every step is drawn where it is, over each axis."""
    path, page = write(tmp_path / "log", WHOLE[:701]), tmp_path / "page.html"
    assert main(["run", str(path), "-o", str(page)]) == 0
    data = data_of(page)
    curves = {curve["meta"]["column"]: curve for curve in data["figures"]["curves"]["data"]}
    assert [*curves] == ["loss", "eval_loss", "grad_norm", "lr", "tokens_per_s", "exposed"]
    for name in ("loss", "grad_norm", "lr"):
        assert curves[name]["y"].tolist() == [line[name] for line in WHOLE[1:701]]
    (places,) = data["runs"]
    assert places["loss"]["steps"].tolist() == [*range(1, 701)]
    assert places["loss"]["tokens"].tolist() == [1000 * step for step in range(1, 701)]
    np.testing.assert_allclose(places["loss"]["seconds"], 0.0125 * np.arange(1, 701))
    assert places["eval_loss"]["steps"].tolist() == [*range(100, 701, 100)]
    text = page.read_text("utf-8")
    assert "Every step is drawn." in text and "http" not in text.split("const data")[1]


def test_no_step_of_a_long_run_is_lost(tmp_path):
    """A spike of one step reaches the band; means are those of stretches."""
    records = steps(1, 10_000)
    records[5_432]["loss"] = 77.0
    records[6_000]["loss"] = None
    log = training_log.read(write(tmp_path / "log", records))
    pieces = training_page.Stretches(log["loss"])
    least, most = pieces.band()
    assert most.max() == 77.0 and len(most) == training_page.MOST_POINTS
    finite = np.array([line["loss"] for line in records if line["loss"] is not None])
    bounds = np.r_[pieces.begins, len(finite)]
    parts = [finite[begin:end] for begin, end in zip(bounds, bounds[1:])]
    np.testing.assert_allclose(pieces.means(), [part.mean() for part in parts])
    assert least.tolist() == [part.min() for part in parts]
    assert pieces.ends()[-1] == 9_999


def test_names_are_text(tmp_path):
    evil = "</script><b id=evil>"
    records = [beginning(library=evil), *steps(1, 9)]
    paths = [write(tmp_path / "a", records), write(tmp_path / "b<i>", WHOLE[:9])]
    page = tmp_path / "page.html"
    assert main(["run", *map(str, paths), "-o", str(page)]) == 0
    data_of(page)
    text = page.read_text("utf-8")
    assert evil not in text and "&lt;b id=evil&gt;" in text and "b<i>" not in text.split(
        "<h1>"
    )[1].split("<script>")[0]


@pytest.mark.rotates
def test_five_long_runs(tmp_path):
    """A page of them has less than 5 MB beside Plotly; the goal is 3 s of an idle
    core."""
    pytest.importorskip("plotly")
    first = write(tmp_path / "0", [beginning(), *steps(1, 100_000, eval_every=500)])
    paths = [first, *(tmp_path / str(number) for number in range(1, 5))]
    for path in paths[1:]:
        path.write_bytes(first.read_bytes())
    page = tmp_path / "page.html"
    began = time.process_time()
    assert main(["run", *map(str, paths), "-o", str(page)]) == 0
    took = time.process_time() - began
    from plotly.offline import get_plotlyjs

    assert page.stat().st_size - len(get_plotlyjs()) < 5 << 20
    # Several times what it takes here: not a moment's load, but reading anew.
    assert took < 15


@pytest.mark.rotates
def test_the_page_in_a_browser(tmp_path):
    pytest.importorskip("plotly")
    paths = [
        write(tmp_path / "a", WHOLE),
        write(tmp_path / "b", [beginning(flags={"--lr": "1"}), *steps(1, 2000, 1)]),
    ]
    page = tmp_path / "page.html"
    assert main(["run", *map(str, paths), "-o", str(page)]) == 0
    said = chromium.ask(
        page,
        """const graph = document.getElementById('curves');
        const last = () => Math.max(...graph.data[0].x);
        const places = [last()];
        for (const axis of ['tokens', 'seconds']) {
          await choose(axis);
          places.push(last());
        }
        return {places, title: graph.layout.xaxis.title.text,
          buttons: document.querySelectorAll('#axes input').length,
          drawn: document.querySelectorAll('.main-svg').length > 2,
          asked: performance.getEntriesByType('resource').length};""",
    )
    # 3,000 steps of 12.5 ms.
    assert said["places"] == [3000, 3_000_000, pytest.approx(37.5)]
    assert said["title"] == "Time, s" and said["buttons"] == 3
    assert said["drawn"] and said["asked"] == 0

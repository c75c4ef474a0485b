# ===- test_tune_view.py - A study on a terminal ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tables of any width, and plain lines where there is no terminal."""

import io
import random

import pytest

from optimus.tune import view
from optimus.tune.study import Study

CLASS = {
    "cores": 1.0,
    "memory": 1 << 30,
    "instructions": "avx2",
    "processor": "p",
    "version": "0",
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def records(count):
    yield {"kind": "worker", "worker": "w0", "class": CLASS}
    for trial in range(count):
        values = {
            "model.name": "gpt2",
            "train.lr": 0.5 + trial,
            "train.data": "a long name of a file.txt",
        }
        yield {"kind": "given", "trial": trial, "values": values, "space": "family=gpt"}
        yield {
            "kind": "started",
            "trial": trial,
            "worker": "w0",
            "class": "k",
            "costs": {"k": 75.0},
            "time": 1.0,
        }
        if trial % 3 == 2:
            yield {
                "kind": "lost",
                "trial": trial,
                "worker": "w0",
                "message": "its worker ended",
            }
        else:
            yield {
                "kind": "ended",
                "trial": trial,
                "outcome": "done",
                "objectives": [1.0 / (1 + trial)],
                "seconds": 61.0,
            }


def shown(stream, count=7):
    study = Study()
    watch = view.Watch(study, ["loss"], count, stream)
    for second, record in enumerate(records(count)):
        study.apply(record)
        watch(record, float(second))
    watch.close(100.0)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [20, 60, 200])
def test_a_table_is_as_wide_as_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "24")
    text = shown(Terminal())
    last = text.rpartition("\x1b[J")[2].splitlines()
    assert all(len(row) < columns for row in last) and len(last) < 24
    if columns == 60:
        assert last[0] == "5 of 7 trials ended; 1:40; best: trial 6, loss 0.1429; 2 w…"
        assert last[1] == "trial  outcome         loss  values"
        assert last[2] == "    6  done          0.1429  family=gpt, lr 6.5"
    # It is drawn over the table before.
    assert "\x1b[" in text and "F\x1b[J" in text


def test_without_a_terminal_there_are_plain_lines(monkeypatch):
    text = shown(io.StringIO())
    assert "\x1b" not in text
    lines = [line[12:] for line in text.splitlines()]
    assert lines[:3] == [
        "worker w0: 1 cores, 1024 MiB, avx2",
        "trial 0: on w0, about 1:15",
        "trial 0: loss 1 in 1:01",
    ]
    assert "trial 2: lost, begins again: its worker ended" in lines


def test_a_reader_that_ends_does_not_end_a_study():
    class Gone(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError

    assert shown(Gone()) == ""


@pytest.mark.parametrize(
    "seconds, text", [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (3725, "1:02:05")]
)
def test_clocks(seconds, text):
    assert view.clock(seconds) == text


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_front_is_kept_as_trials_end(count):
    study, draw = Study(), random.Random(0)
    for trial in range(60):
        study.apply({"kind": "given", "trial": trial, "values": {}, "space": ""})
        end = {"kind": "ended", "trial": trial, "outcome": draw.choice(["done", "failed"])}
        study.apply({**end, "objectives": [draw.randrange(8) for _ in range(count)]})
        found = [(each.objectives, each.number) for each in study.front()]
        done = [each for each in study.trials if each.outcome == "done"]
        assert found == sorted(
            (each.objectives, each.number)
            for each in done
            if not any(
                other.objectives != each.objectives
                and all(a <= b for a, b in zip(other.objectives, each.objectives))
                for other in done
            )
        )

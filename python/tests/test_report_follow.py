# ===- test_report_follow.py - Runs in a terminal, and for TensorBoard -----===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-report run --follow` fits into every terminal and ends with its run;
`--tensorboard` writes what TensorBoard reads back."""

import fcntl
import glob
import os
import re
import struct
import subprocess
import sys
import termios

import pytest

from optimus.report import ReportError, follow, training_log
from optimus.report.__main__ import main
from optimus.report.exports import tensorboard
from synthetic_log import beginning, ended, steps, write
from tools import PYTHON_FULL_CACHE

FIRST = beginning(flags={"--steps": "5000"})


def log_of(tmp_path, *records):
    return training_log.read(write(tmp_path / "log", [*records]))


def dots(lines):
    """Of a curve's characters, column by column, the heights from below."""
    rows = [line[follow.LABEL :] for line in lines[:-1]]
    width = max(map(len, rows))
    found = {}
    for row, text in enumerate(rows):
        for x, character in enumerate(text.ljust(width)):
            bits = ord(character) - 0x2800 if character > "\u2800" else 0
            for side, column in enumerate(follow._DOTS):
                for inside, bit in enumerate(column):
                    if bits & bit:
                        height = 4 * (len(rows) - row) - inside
                        found.setdefault(2 * x + side, []).append(height)
    return found


@pytest.mark.parametrize("columns", [20, 39, 79, 200])
@pytest.mark.parametrize("has_dots", [True, False])
def test_a_curve_fits_and_falls(tmp_path, columns, has_dots):
    log = log_of(tmp_path, FIRST, *steps(1, 700))
    lines = follow.curve(log, columns, 12, has_dots)
    assert len(lines) == 12 and max(map(len, lines)) <= columns
    assert lines[-1].split() == ["1", "700"]
    assert float(lines[0].split()[0]) > 5 and float(lines[10].split()[0]) < 2.5
    if has_dots:
        found = dots(lines)
        # A point in every column; the first is the highest, the last among the lowest.
        assert sorted(found) == [*range(2 * (columns - follow.LABEL))]
        assert max(found[0]) == 44 and max(found[max(found)]) < 6


def test_a_straight_curve(tmp_path):
    """A loss that falls by the same every step is a diagonal."""
    line = steps(1, 400)
    for each in line:
        each["loss"] = 400 - each["step"]
    found = dots(follow.curve(log_of(tmp_path, *line), follow.LABEL + 22, 12, True))
    for x, heights in found.items():
        assert abs(max(heights) - (44 - x)) <= 1


@pytest.mark.parametrize(
    "values", [[3.0], [3.0, 3.0], [None, None, 2.0], [1e30, 2.0, None]]
)
def test_few_losses(tmp_path, values):
    lines = steps(1, len(values))
    for line, value in zip(lines, values):
        line["loss"] = value
    log = log_of(tmp_path, *lines)
    shown = follow.curve(log, 39, 12, True)
    assert len(shown) in (0, 12) and all(len(line) <= 39 for line in shown)
    assert len(follow.state(log, 39, 0)) <= 39


def test_no_room(tmp_path):
    log = log_of(tmp_path, *steps(1, 50))
    assert follow.curve(log, 39, 3, True) == [] == follow.curve(log, 15, 12, True)


@pytest.mark.parametrize("columns", [*range(1, 100, 7)])
def test_the_line_of_state_fits(tmp_path, columns):
    records = [FIRST, *steps(1, 1200, eval_every=100)]
    states = [follow.state(log_of(tmp_path, *records), columns, 0)]
    states.append(follow.state(log_of(tmp_path, *records), columns, 1000))
    log = log_of(tmp_path, *records, ended("stopped", 1200))
    states.append(follow.state(log, columns, 0))
    assert all(len(state) <= columns for state in states)


def test_the_line_of_state(tmp_path):
    records = [FIRST, *steps(1, 1200, eval_every=100)]
    loss = "%.4f" % records[-1]["loss"]
    log = log_of(tmp_path, *records)
    assert follow.state(log, 39, 0) == "step 1200/5000 | loss %s | ETA 0:38" % loss
    wide = follow.state(log, 100, 0).split(" | ")
    assert wide[3:] == ["10 ms", "100000 tok/s", "ETA 0:38"]
    assert wide[2].startswith("held-out ")
    # Of a run that seems to be dead.
    assert follow.state(log, 39, 200).endswith("silent for 3:20")
    # Of one whose log does not say how long it goes on.
    assert follow.state(log_of(tmp_path, *records[1:]), 39, 0) == "step 1200 | loss " + loss
    log = log_of(tmp_path, *records, ended("diverged", 1200))
    assert follow.state(log, 39, 0) == "diverged after step 1200 | loss " + loss


def test_a_log_without_times_or_a_last_step(tmp_path):
    log = log_of(tmp_path, FIRST, {"step": 7, "loss": 2.5})
    assert follow.state(log, 79, 0) == "step 7/5000 | loss 2.5000"
    first = beginning(flags={"--steps": "²"})
    log = log_of(tmp_path, first, {"step": 7, "loss": 2.5, "ms": 10})
    assert follow.state(log, 79, 0) == "step 7 | loss 2.5000 | 10 ms"


def follow_in(columns, path, **environment):
    """What the program writes to a terminal of so many columns."""
    master, slave = os.openpty()
    size = struct.pack("HHHH", 24, columns, 0, 0)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    variables = {**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    for name in ("COLUMNS", "LINES"):
        variables.pop(name, None)
    command = [sys.executable, "-m", "optimus.report", "run", "--follow", str(path)]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, env={**variables, **environment}
    )
    os.close(slave)
    written = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:  # its end, as Linux says it
            piece = b""
        if not piece:
            break
        written += piece
    os.close(master)
    assert process.wait(60) == 0
    return written.decode().replace("\r\n", "\n")


def environment():
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_in_a_terminal_of_40_columns(tmp_path):
    path = write(tmp_path / "log", [FIRST, *steps(1, 5000), ended("done", 5000)])
    written = follow_in(40, path, **environment())
    lines = re.sub(r"\x1b\[[0-9]*[A-Z]|\r", "", written).splitlines()
    assert len(lines) == 17 and max(map(len, lines)) <= 39
    assert lines[-1].startswith("done after step 5000 | loss ")
    assert "\u28ff" >= max("".join(lines)) > "\u2800"
    # Without UTF-8 by stars.
    written = follow_in(40, path, **environment(), PYTHONIOENCODING="ascii")
    assert "*" in written and written.isascii()
    # A terminal that cannot draw has lines.
    assert "\x1b" not in follow_in(40, path, **environment(), TERM="dumb")


def test_where_there_is_no_terminal(tmp_path, capfd):
    path = write(tmp_path / "log", [FIRST, *steps(1, 50), ended("stopped", 50)])
    assert main(["run", "--follow", str(path)]) == 0
    assert capfd.readouterr().out.startswith("stopped after step 50 | loss ")


def test_lines_come_now_and_then(tmp_path, capfd):
    now = [0.0]
    lines = follow.Lines(clock=lambda: now[0])
    records = [FIRST]
    for step in range(1, 120):
        records = [*records, *steps(step, step)]
        now[0] += 0.1
        if step % 20 == 1:
            lines.show(log_of(tmp_path, *records), 0)
            lines.show(log_of(tmp_path, *records), 0)
    said = capfd.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in said] == [
        "step %d/5000" % step for step in (1, 61)
    ]


def test_wrong_arguments(tmp_path, capfd):
    path = str(write(tmp_path / "log", [FIRST, *steps(1, 50)]))
    for flags, why in [
        ([path, path, "--follow"], "expected one log, found 2"),
        ([path, "--follow", "-o", "page"], "expected --follow or -o"),
        ([path, "--follow", "--tensorboard", "x"], "expected --follow or --tensorboard"),
        ([str(tmp_path / "none"), "--follow"], "No such file"),
    ]:
        assert main(["run", *flags]) == 1
        out, error = capfd.readouterr()
        assert why in error and out == "" and error.count("\n") == 1


def test_without_tensorboard(tmp_path, capfd, monkeypatch):
    path = write(tmp_path / "log", [FIRST, *steps(1, 50)])
    monkeypatch.setenv("OPTIMUS_PYTHON_FULL_CACHE", str(tmp_path))
    # As a machine has it that lacks the package.
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert main(["run", str(path), "--tensorboard", str(tmp_path / "events")]) == 1
    out, error = capfd.readouterr()
    assert error.count("\n") == 1 and "scripts/setup --python=full" in error
    assert out == "" and not (tmp_path / "events").exists()


def test_tensorboard_reads_its_files(tmp_path, capfd):
    try:
        tensorboard.load()
    except ReportError as error:
        pytest.skip(str(error))
    sys.path.append(str(PYTHON_FULL_CACHE))
    from tensorboard.backend.event_processing import event_file_loader

    sys.path.remove(str(PYTHON_FULL_CACHE))
    records = steps(1, 500, eval_every=100)
    records[30]["loss"] = None
    path, folder = write(tmp_path / "log", [FIRST, *records]), tmp_path / "events"
    command = ["run", str(path), "--tensorboard", str(folder)]
    assert main(command) == 0
    (file,) = glob.glob(str(folder / "log" / "*tfevents*"))
    found = {}
    for event in event_file_loader.LegacyEventFileLoader(file).Load():
        for value in event.summary.value:
            place = found.setdefault(value.tag, {})
            place[event.step] = value.simple_value, event.wall_time
    for name, tag in tensorboard.TAGS.items():
        expected = {
            line["step"]: line[name] for line in records if line.get(name) is not None
        }
        assert {step: value for step, (value, _) in found[tag].items()} == pytest.approx(
            expected, rel=1e-6
        )
    # The beginning, 2026-01-02T03:04:05Z, and 500 steps.
    assert found["loss/training"][500][1] == pytest.approx(1767323045 + 500 * 0.0125)
    capfd.readouterr()
    assert main(command) == 1
    assert "exists; remove it" in capfd.readouterr().err
    assert [each.name for each in folder.iterdir()] == ["log"]

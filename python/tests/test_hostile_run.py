# ===- test_hostile_run.py - Runs in a hostile world ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Nothing that a user has is destroyed, nothing is lost, nothing is silent.

What needs no compiled model is in tools/optimus-run/unittests.
"""

import fcntl
import hashlib
import os
import pty
import re
import struct
import subprocess
import termios

import numpy as np
import pytest

from tools import Checkpoint, Model, call, losses, read_log, succeed

MODEL = Model(layers=1, hidden=24, heads=3, sequence=16, vocabulary=256, batch=6)
# A product of this size gains nothing from a second thread.
ONE = ["--threads-per-rank", 1]


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL)


@pytest.fixture(scope="module")
def accumulating(tools, tmp_path_factory):
    """The same model, which can add up microbatches."""
    path = tmp_path_factory.mktemp("accumulating") / "model.so"
    tools.run("optimus-compile", tools.program(MODEL), "--accumulate", "-o", path)
    return path


def train(tools, library, data, *flags):
    arguments = ["train", library, "--data", data, *ONE, *flags]
    return call(tools.command("optimus-run", *arguments))


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
    }


# ------------------------------------------------------------------ divergence


@pytest.mark.parametrize("rate", ["1e20", "1e38"])
def test_a_state_that_no_step_can_follow_is_not_saved(
    tools, library, text, tmp_path, rate
):
    """At 1e20 every number of the state is finite, and the next loss is not."""
    good = tmp_path / "good"
    succeed(train(tools, library, text, "--steps", 3, "--save", good))
    before = digests(good)
    flags = ["--load", good, "--steps", 9, "--lr", rate, "--save", good]
    result = train(tools, library, text, *flags, "--save-every", 1)
    assert result.returncode == 1
    assert "training diverged: after the update of step 4" in result.stderr
    assert "go on from step 3 with --load %s" % good in result.stderr
    assert digests(good) == before
    # At the end of a run too.
    flags[3] = 4
    result = train(tools, library, text, *flags)
    assert result.returncode == 1
    assert digests(good) == before


# ---------------------------------------------------------------------- resume


def test_a_run_goes_on_as_it_was_told_to_begin(tools, library, text, tmp_path):
    """Every hyperparameter is the checkpoint's, unless it is given."""
    chosen = ["--lr", 4e-3, "--warmup", 7, "--clip", 0.5, "--weight-decay", 0.3]
    chosen += ["--beta1", 0.8, "--beta2", 0.9, "--epsilon", 1e-6]
    chosen += ["--order", "sequential", "--seed", 5]
    whole, log, folder = (tmp_path / name for name in ("whole", "log", "folder"))
    succeed(train(tools, library, text, *chosen, "--steps", 8, "--log-json", whole))
    save = ["--save", folder, "--log-json", log]
    succeed(train(tools, library, text, *chosen, "--steps", 5, *save))
    out = succeed(train(tools, library, text, "--load", folder, "--steps", 8, *save))
    assert "unlike before: --steps 8 (was 5)\n" in out
    for key in ("step", "loss", "grad_norm", "lr"):
        assert [line[key] for line in read_log(log)] == [
            line[key] for line in read_log(whole)
        ]
    out = succeed(train(tools, library, text, "--load", folder, "--lr", 0.5))
    assert "unlike before: --lr 0.5 (was 0.004)" in out
    assert "nothing to train with --steps 8" in out


@pytest.mark.parametrize("order", ["sequential", "shuffled"])
def test_another_batch_reads_on_where_the_last_one_ended(
    tools, library, accumulating, text, tmp_path, order
):
    """6 sequences a step, 18, and 6 again read what 6 a step read all along."""
    # With a rate of 0 a loss is that of its windows under the initial state.
    still = ["--lr", 0, "--weight-decay", 0, "--order", order]
    expected = tmp_path / "expected"
    succeed(train(tools, library, text, *still, "--steps", 13, "--log-json", expected))
    expected = losses(read_log(expected))
    assert len(set(expected)) == 13, "batches cannot be told from one another"
    log, folder = tmp_path / "log", tmp_path / "folder"
    save = ["--save", folder, "--log-json", log]
    load = [*save, "--load", folder]
    succeed(train(tools, accumulating, text, *still, *save, "--steps", 4))
    assert Checkpoint(folder).state["data_position"] == 24
    flags = ["--steps", 6, "--microbatches", 3]
    result = train(tools, accumulating, text, *load, *flags)
    succeed(result)
    assert "warning" not in result.stdout + result.stderr
    assert Checkpoint(folder).state["data_position"] == 60
    # The library without sums must be told that there are none.
    result = train(tools, library, text, *load, "--steps", 9)
    assert result.returncode == 1
    assert "--microbatches 1 does without" in result.stderr
    flags = ["--steps", 9, "--microbatches", 1]
    succeed(train(tools, library, text, *load, *flags))
    assert Checkpoint(folder).state["data_position"] == 78
    found = losses(read_log(log))
    assert found[:4].tolist() == expected[:4].tolist()
    large = [expected[4:7].mean(), expected[7:10].mean()]
    np.testing.assert_allclose(found[4:6], large, rtol=1e-6)
    assert found[6:].tolist() == expected[10:].tolist()


def test_a_clip_of_none_clips_nothing(tools, library, text, tmp_path):
    """The same bits as with a limit that no norm reaches."""
    logs = []
    for clip in ("none", "3e38", "0.1"):
        log = tmp_path / clip
        flags = ["--clip", clip, "--lr", 0.01, "--steps", 6, "--log-json", log]
        succeed(train(tools, library, text, *flags))
        logs.append(losses(read_log(log)).tolist())
    none, huge, small = logs
    assert none == huge
    assert none != small


# -------------------------------------------------------------------- terminals


def on_terminal(command, kind, columns):
    """What a program writes to a terminal, character for character."""
    screen, own = pty.openpty()
    fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    environment = dict(os.environ, TERM=kind)
    process = subprocess.Popen(
        [str(part) for part in command],
        **{"stdin": own, "stdout": own, "stderr": own, "env": environment},
    )
    os.close(own)
    written = b""
    while True:
        try:
            piece = os.read(screen, 65536)
        except OSError:  # Nobody has the terminal any more.
            break
        written += piece
    os.close(screen)
    assert process.wait() == 0, written
    return written.decode().replace("\r\n", "\n")


def test_progress_fits_where_it_is_shown(tools, library, text):
    arguments = ["train", library, "--data", text, *ONE, "--steps", 200]
    command = tools.command("optimus-run", *arguments)
    erase = "\r\x1b[K"
    for columns in (200, 80, 50, 30):
        shown = on_terminal(command, "xterm", columns)
        assert erase in shown
        for line in shown.split(erase)[1:]:
            line = line.split("\n")[0]
            assert len(line) < columns and "ETA " in line, line
    whole = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f]*", re.DOTALL)
    for shown in (on_terminal(command, "dumb", 80), call(command).stdout):
        assert whole.fullmatch(shown), "control characters in %r" % shown
        assert "step 200/200 | loss" in shown and shown.endswith("\n")

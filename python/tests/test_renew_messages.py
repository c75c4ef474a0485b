# ===- test_renew_messages.py - Sentences of diagnostics ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""scripts/renew-messages mends prose in tests of diagnostics, and no fact."""

import os
import re
import subprocess

import pytest

from tools import REPOSITORY

TEST = REPOSITORY / "test/Dialect/Exec/verify-exec-invalid.mlir"


@pytest.fixture
def renew(tools, tmp_path):
    """Runs it on a copy of a test with some words replaced: its result, and the copy's
    text before and after."""

    def run(*replacements):
        text = TEST.read_text()
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        copy = tmp_path / TEST.name
        copy.write_text(text)
        result = subprocess.run(
            [str(REPOSITORY / "scripts/renew-messages"), str(copy)],
            env=dict(os.environ, OPTIMUS_BIN_DIR=str(tools.binaries)),
            capture_output=True,
            text=True,
        )
        return result, text, copy.read_text()

    return run


def test_what_is_right_stays(renew):
    result, before, after = renew()
    assert result.returncode == 0, result.stderr
    assert before == after == TEST.read_text()


def test_prose_is_renewed(renew):
    result, _, after = renew(("overlaps a buffer that is alive", "shares bytes with another"))
    assert result.returncode == 0, result.stdout
    assert re.match(r"[1-9]\d* sentences renewed, 0 ", result.stdout)
    assert "V3: overlaps a buffer that is alive" in after
    assert "shares bytes with another" not in after


@pytest.mark.parametrize(
    "old, new",
    [
        ("to be 256 together", "to be 257 together"),
        ("V3: overlaps", "V4: overlaps"),
        ("V7: expected 'exec.peak_bytes'", "V7: expected 'exec.lower_bytes'"),
    ],
    ids=["number", "label", "name"],
)
def test_a_fact_is_not(renew, old, new):
    result, before, after = renew((old, new))
    assert result.returncode == 1
    assert before == after
    assert "to be done by hand" in result.stdout


def test_a_test_that_is_not_there():
    command = [str(REPOSITORY / "scripts/renew-messages"), "no-such.mlir"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "no-such.mlir" in result.stderr or "build it first" in result.stderr

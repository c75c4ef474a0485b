# ===- test_bench.py - The benchmarks run and count right -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""bench/step, bench/mesh and bench/compile-time on a model too small to say anything."""

import json
import subprocess
import sys

import pytest

from tools import REPOSITORY, TIMEOUT_SECONDS

LAYERS, HIDDEN, HEADS, SEQUENCE, BATCH, VOCABULARY = 2, 32, 2, 16, 4, 64
SIZES = ["--layers", LAYERS, "--hidden", HIDDEN, "--heads", HEADS]
SIZES += ["--seq", SEQUENCE, "--batch", BATCH, "--vocab", VOCABULARY]

# Forward and twice backward, 2 operations each: twelve h² a layer, and the head.
GFLOP = 6e-9 * BATCH * SEQUENCE * (12 * HIDDEN**2 * LAYERS + VOCABULARY * HIDDEN)


def run_bench(name, tools, *arguments):
    command = [sys.executable, REPOSITORY / "bench" / name]
    command += ["--build", tools.binaries.parent, *SIZES, *arguments]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )


@pytest.mark.parametrize("mesh, ranks", [("", 1), ("row:2,col:2", 4)])
def test_step_accounts_for_the_products_and_the_time(tools, tmp_path, mesh, ranks):
    log = tmp_path / "rounds.json"
    arguments = ["--no-build", "--threads-per-rank", 1, "--json", log]
    arguments += ["--rounds", 2, "--warmup", 1]
    if mesh:
        arguments += ["--mesh", mesh]
    result = run_bench("step", tools, *arguments)
    assert result.returncode == 0, result.stderr
    assert "share of the step" in result.stdout
    assert ("alone: sgemm" in result.stdout) == (ranks == 1)
    rounds = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(rounds) == 2
    for entry in rounds:
        commands = entry["commands"].values()
        gflop = ranks * sum(spent["gflop"] for spent in commands)
        assert gflop == pytest.approx(GFLOP, rel=1e-12)
        # The commands of a rank come one after the other, within the step.
        assert 0 < sum(spent["ms"] for spent in commands) <= entry["ms"]


def test_compile_time_has_a_limit(tools):
    arguments = ["--runs", 1, "--mesh", "row:1,col:2"]
    within = run_bench("compile-time", tools, *arguments)
    assert within.returncode == 0, within.stderr
    assert f"{LAYERS} layers, hidden {HIDDEN}" in within.stdout
    beyond = run_bench("compile-time", tools, *arguments, "--limit", "0")
    assert beyond.returncode == 1
    assert "slower than the limit of 0 s" in beyond.stderr


def test_mesh_and_serial_step_print_one_loss(tools, tmp_path):
    log = tmp_path / "rounds.json"
    arguments = ["--no-build", "--peers", "none", "--rounds", 2, "--warmup", 1]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- mesh -->\nold\n<!-- /mesh -->\nafter\n")
    result = run_bench("mesh", tools, *arguments, "--json", log, "--write", page)
    assert result.returncode == 0, result.stderr
    rounds = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(rounds) == 2
    for entry in rounds:
        assert entry["mesh"]["loss"] == pytest.approx(entry["serial"]["loss"], rel=1e-5)
    assert rounds[1]["serial"]["loss"] < rounds[0]["serial"]["loss"]
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "old" not in text and "summa on 2×2" in text


def test_mesh_refuses_different_losses(tools):
    arguments = ["--no-build", "--peers", "none", "--rounds", 1, "--warmup", 0]
    # Even equal ones are not within a negative distance.
    result = run_bench("mesh", tools, *arguments, "--tolerance", "-1")
    assert result.returncode == 1
    assert "expected one loss" in result.stderr

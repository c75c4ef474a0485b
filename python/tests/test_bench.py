# ===- test_bench.py - The benchmarks run and count right -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""bench/step and bench/compile-time on a model too small to say anything."""

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

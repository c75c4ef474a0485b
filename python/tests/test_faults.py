# ===- test_faults.py - Ranks that die or stop ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A short run of `bench/run faults`, which checks the promises."""

import shutil
import subprocess
import sys

import pytest

from tools import REPOSITORY

pytestmark = pytest.mark.rotates


@pytest.mark.alone
@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
@pytest.mark.parametrize(
    "seed, flags",
    [
        (1, []),
        (2, []),
        (3, ["--backend", "tcp"]),
        pytest.param(4, ["--ranks", "64"], marks=pytest.mark.long),
        pytest.param(
            5, ["--ranks", "64", "--backend", "tcp"], marks=pytest.mark.long
        ),
    ],
)
def test_the_culprit_is_named_and_the_run_goes_on(tools, seed, flags):
    command = [sys.executable, REPOSITORY / "bench" / "run", "faults", "--no-build", *flags]
    command += ["--build", tools.binaries.parent, "--rounds", "2"]
    # The machine may do something else: limits follow from what a job takes
    # now. One of one step takes less than a second where nothing else runs.
    command += ["--seed", seed, "--slack", "20", "--patience", "4"]
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=800
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 of 2 rounds as they must be" in result.stdout

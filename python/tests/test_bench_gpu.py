# ===- test_bench_gpu.py - What measures a GPU, without one -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""bench/gpu packs tiny models and runs all of its checks on the fake driver."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from tools import REPOSITORY, TIMEOUT_SECONDS, call, succeed


@pytest.fixture(scope="module")
def pack(tools, session):
    """An unpacked pack, once for all workers."""

    def make(path):
        archive = path.with_suffix(".tar.gz")
        script = REPOSITORY / "bench/gpu/pack"
        flags = ["--fake", "--build", tools.binaries.resolve().parent, "-o", archive]
        succeed(call([str(part) for part in [sys.executable, script, *flags]]))
        assert archive.stat().st_size < 64 << 20
        path.mkdir()
        succeed(call(["tar", "xf", str(archive), "-C", str(path)]))

    return session.once("gpu-pack", make) / "optimus-gpu"


def run(pack, results, *flags):
    """The contents of the pack only, as on a machine without anything else of ours."""
    command = [sys.executable, pack / "run", "--results", results, *flags]
    return subprocess.run(
        [str(part) for part in command],
        cwd=pack,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_SECONDS,
    )


def test_every_check_runs_to_its_end(pack, tmp_path):
    results = tmp_path / "results"
    done = run(pack, results)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((results / "results.json").read_text())
    checks = found["checks"]
    assert found["fake"] is True
    assert {check["job"] for check in checks.values()} == {1, 2, 3}
    skipped = {name for name, check in checks.items() if check["status"] == "skipped"}
    assert {check["status"] for check in checks.values()} <= {"passed", "skipped"}
    # What a fake driver cannot do, each with its reason.
    assert all(re.match("(torch|largest/torch|sanitizer|machine)(/|-)", name) for name in skipped)
    assert all(checks[name]["reason"] for name in skipped)
    kernels = checks["kernels/gpt2-124m-b1"]["rows"]
    assert sum(row["ms a step"] for row in kernels) > 0
    assert any(row["GB/s"] for row in kernels)

    (largest,) = (each for name, each in checks.items() if re.fullmatch("largest/.*-largest", name))
    assert largest["figures"]["is_last"] and largest["figures"]["batch"] >= 8

    page = (results / "results.md").read_text()
    assert "Fake driver, not a measurement" in page
    assert "## Steps of gpt2-124m" in page and "Best batch: " in page
    assert sum(path.stat().st_size for path in results.iterdir()) < 16 << 20

    # What passed is not done again.
    again = run(pack, results, "--only", "gradients/*")
    assert (again.returncode, again.stdout) == (0, "")


def test_what_takes_too_long_is_ended_and_left_for_later(pack, tmp_path):
    check = "training/gpt2-f32-2x2"
    late = run(pack, tmp_path, "--only", check, "--minutes", 0.005)
    assert late.returncode == 1
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["checks"][check]["status"] == "timed out"
    none = run(pack, tmp_path / "none", "--job", 1, "--minutes", 0)
    assert none.returncode == 2
    assert re.search(r"^\d+ checks are left", none.stdout, re.M)


def test_a_wrong_gradient_fails(pack, tmp_path):
    """The library of another model in the place of the right one."""
    broken = tmp_path / "optimus-gpu"
    shutil.copytree(pack, broken)
    shutil.copy(pack / "models/llama-f32.so", broken / "models/gpt2-f32.so")
    result = run(broken, tmp_path / "results", "--only", "gradients/gpt2-f32")
    assert result.returncode == 1
    found = json.loads((tmp_path / "results/results.json").read_text())
    assert found["checks"]["gradients/gpt2-f32"]["status"] == "failed"


def test_a_machine_without_a_driver_says_so(pack, tmp_path):
    broken = tmp_path / "optimus-gpu"
    shutil.copytree(pack, broken)
    (broken / "lib/libfake_cuda.so").unlink()
    result = run(broken, tmp_path / "results", "--only", "properties")
    assert result.returncode == 1
    assert "cannot open CUDA's driver" in result.stdout

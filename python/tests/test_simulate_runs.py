# ===- test_simulate_runs.py - optimus-simulate by a run -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Programs simulated by the profile of a run: of their own, or of another plan."""

import contextlib
import json
import sqlite3

import pytest

from simulation import COMPUTE, MACHINE, MODEL, SHAPE, compile_model, refuse, simulate
from tools import Model

pytestmark = pytest.mark.rotates


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL, "row:2,col:2", "summa", "--accumulate")


def test_a_run_says_what_commands_take(tools, tmp_path, library):
    """Of a simulated run, whose machine is thereby told to another simulation."""
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps({**MACHINE, "gemm": [{**COMPUTE, "alpha_s": 2e-5}]}))
    run = tmp_path / "run.profile"
    ran = simulate(tools, library, "--machine-profile", machine, "--profile", run)
    found = simulate(tools, library, "--run", run)
    # What is under way on an axis at the same time has equal shares of the time.
    assert found["step_ms"] == pytest.approx(ran["step_ms"], rel=0.02)
    assert found["parts_ms"]["gemm"] == pytest.approx(ran["parts_ms"]["gemm"], rel=1e-3)
    share = found["run"]
    assert share["commands"] == share["measured"] > 100
    assert share["step_ms"] == pytest.approx(ran["step_ms"], rel=1e-5)
    assert share["unchanged_ms"] == found["step_ms"]
    assert found["prices"]["run"] == 1 and ran["prices"]["run"] == 0
    # Points of just that shape are of the profile's products alone.
    assert 0 <= ran["prices"]["points"] < 1
    assert sum(ran["prices"].values()) == pytest.approx(1)
    # Changes begin with what was measured.
    half = simulate(tools, library, "--run", run, "--scale", "gemm=0.5")
    assert half["parts_ms"]["gemm"] == pytest.approx(found["parts_ms"]["gemm"] / 2, rel=1e-6)
    assert half["run"]["unchanged_ms"] == found["step_ms"]
    links = simulate(tools, library, "--run", run, "--network", "bandwidth=1e6,latency=1e-6")
    assert links["comm_ms"] < found["comm_ms"] / 100


def test_a_run_has_late_neighbours(tools, tmp_path, library):
    """Each rank has its own times; where they contradict each other, that comes first."""
    late = tmp_path / "late.profile"
    ran = simulate(tools, library, "--straggler", "3=3", "--profile", late)
    found = simulate(tools, library, "--run", late)
    assert found["step_ms"] == pytest.approx(ran["step_ms"], rel=1e-3)
    computing = [[rank["computing_ms"] for rank in one["ranks"]] for one in (ran, found)]
    assert computing[1] == pytest.approx(computing[0], rel=1e-2)
    assert found["ranks"][3]["exposed_ms"] < found["ranks"][0]["exposed_ms"] / 2
    assert "beware" not in tools.run("optimus-simulate", library, "--run", late)
    # The others go on, and have not waited for another that came later.
    with contextlib.closing(sqlite3.connect(late)) as database:
        call, end, *spans = database.execute(
            "SELECT call, end - begin, commands, transfers FROM spans JOIN calls "
            "USING (call) WHERE rank = 0"
        ).fetchone()

        def delay(time):
            return int(end / 5 + 0.8 * time)

        commands, transfers = map(json.loads, spans)
        commands = [[delay(time) for time in one] for one in commands]
        transfers = [[one[0], *map(delay, one[1:])] for one in transfers]
        database.execute(
            "UPDATE spans SET commands = ?, transfers = ? WHERE call = ?",
            (json.dumps(commands), json.dumps(transfers), call),
        )
        database.commit()
    text = tools.run("optimus-simulate", library, "--run", late)
    assert text.startswith("beware       the unchanged program is simulated in ")


def test_a_run_of_another_plan_knows_what_both_have(tools, tmp_path):
    folders = [tmp_path / name for name in ("before", "after")]
    for folder, flags in zip(folders, ([], ["--recompute", "layer"])):
        folder.mkdir()
        compile_model(tools, MODEL, folder, *flags)
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps({**MACHINE, "gemm": [{**COMPUTE, "alpha_s": 2e-5}]}))
    run = tmp_path / "run.profile"
    flags = ["--machine-profile", machine, "--function", "train_step"]
    simulate(tools, folders[0] / "model.so", *flags, "--profile", run)
    real = simulate(tools, folders[1] / "model.so", *flags)
    told = simulate(tools, folders[1] / "model.so", "--function", "train_step", "--run", run)
    blind = simulate(tools, folders[1] / "model.so", "--function", "train_step")
    assert told["step_ms"] == pytest.approx(real["step_ms"], rel=0.02)
    assert blind["step_ms"] != pytest.approx(real["step_ms"], rel=0.1)
    assert "unchanged_ms" not in told["run"]
    assert 0.9 * told["run"]["commands"] < told["run"]["measured"]
    text = tools.run("optimus-simulate", folders[1] / "model.so", "--run", run)
    assert "was of another plan" in text


def test_runs_of_something_else_are_refused(tools, tmp_path, library):
    run = tmp_path / "run.profile"
    simulate(tools, tools.library(MODEL, "row:2,col:2", "summa", "--accumulate"), "--profile", run)
    other = Model(**{**SHAPE, "vocabulary": 96})
    for model, mesh, message in [
        (other, "row:2,col:2", "--run: expected a profile of the model "),
        (MODEL, "row:1,col:2", "--run: expected a profile of mesh row:1,col:2, as "),
    ]:
        another = tools.library(model, mesh, "summa")
        assert message in refuse(tools, "optimus-simulate", another, "--run", run)
    for flags, message in [
        (["--run", "nowhere"], "--run: profile 'nowhere': "),
        (["--run", library], "--run: profile "),
        (["--run", run, "--device", "none"], "--run: expected no other device beside it"),
        (["--device", "h100x8"], "--device: expected a profile of processors"),
        (["--straggler", "spread=9"], "--straggler: expected a spread from 1e-06 to 2"),
    ]:
        assert message in refuse(tools, "optimus-simulate", library, *flags)

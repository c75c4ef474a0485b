# ===- test_placement.py - Ranks lie on nodes as they were simulated ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A library that was laid out on a cluster names the ranks of a node; launchers that
fill one host after the other give each node a host, and others are told."""

import json
import shutil
import subprocess

import pytest

from simulation import simulate
from test_launchers import (
    MODEL,
    RANKS,
    by_hand,
    by_srun,
    by_torchrun,
    finish,
    needs_mpirun,
    nothing_is_left,
    saved,
    start,
)
from tools import call, mpirun, succeed

pytestmark = pytest.mark.usefixtures("nothing_is_left")

FLAGS = ["--threads-per-rank", 1]
COLUMNS = {"tile": {"row": 2, "col": 1}}
CLUSTER = {
    "version": 1,
    "nodes": {"devices": 2},
    "device_link": {"bytes_per_s": 1e11, "latency_s": 1e-6},
    "nic": {"bytes_per_s": 1e10, "latency_s": 1e-5},
}


def may_name_hosts():
    return shutil.which("unshare") and not subprocess.run(
        ["unshare", "--uts", "hostname", "a"], capture_output=True, check=False
    ).returncode


needs_hosts = pytest.mark.skipif(
    not may_name_hosts(), reason="hosts may not be named here (unshare --uts)"
)


def compile_on(tools, path, placement, generate=None):
    cluster = path.with_suffix(".json")
    cluster.write_text(json.dumps({**CLUSTER, **placement}))
    flags = ["--mesh", "row:2,col:2", "--strategy", "summa", "--cluster", cluster]
    program = tools.program(MODEL, generate=generate)
    tools.run("optimus-compile", program, *flags, "-o", path)
    return path


@pytest.fixture(scope="module")
def library(tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("placed") / "columns.so"
    return compile_on(tools, path, {"placement": COLUMNS})


def on_two_hosts(launcher):
    """Of the processes as the launcher numbers them, half on each."""

    def placed(rank, ranks, port):
        flags, variables = launcher(rank, ranks, port)
        return flags, {**variables, "HOST_OF_RANK": "ab"[rank * 2 // ranks]}

    return placed


RENAMED = ["unshare", "--uts", "sh", "-c", 'hostname $HOST_OF_RANK; exec "$@"', "sh"]


def test_the_manifest_has_the_placement(tools, library, tmp_path):
    inspect = ["optimus-run", "inspect", library]
    manifest = json.loads(tools.run(*inspect, "--json"))
    assert manifest["placement"] == {"tile": [2, 1]}
    assert "nodes, by their ranks: 0,2 | 1,3\n" in tools.run(*inspect)
    # Without a choice of the file's, the simulation's.
    report = tmp_path / "report.json"
    path = tmp_path / "chosen.plan"
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({**CLUSTER, "nodes": {"devices": 3}}))
    flags = ["--mesh", "row:2,col:2", "--cluster", cluster, "--plan", "-o", path]
    tools.run("optimus-compile", tools.program(MODEL), *flags, "--report-json", report)
    chosen = json.loads(report.read_text())["finalists"][0]["placement"]
    found = json.loads(tools.run("optimus-run", "inspect", path, "--json"))["placement"]
    if chosen:
        extents = [int(part.split(":")[1]) for part in chosen.split(",")]
        assert found == {"tile": extents}
    else:
        assert found == {"consecutive": 3}


def test_simulations_take_the_placement(tools, library, tmp_path):
    path = tmp_path / "cluster.json"

    def step(devices, *flags):
        path.write_text(json.dumps({**CLUSTER, "nodes": {"devices": devices}}))
        return simulate(tools, library, "--cluster", path, *flags)["step_ms"]

    assert step(2) == step(2, "--placement", "row:2,col:1")
    assert step(2) != step(2, "--placement", "row:1,col:2")
    # Two of four devices would have no rank.
    assert step(4) == step(4, "--placement", "row:2,col:2")


@needs_hosts
@pytest.mark.parametrize("launcher", [by_torchrun, by_srun, by_hand])
def test_nodes_are_hosts(tools, library, text, tmp_path, launcher):
    threads = tmp_path / "threads"
    succeed(call(tools.train_command(library, text, 2, *FLAGS, "--save", threads)))
    command = tools.train_command(library, text, 2, *FLAGS, "--save", tmp_path / "saved")
    results = finish(start([*RENAMED, *command], on_two_hosts(launcher)))
    assert [code for code, _, _ in results] == [0] * RANKS, results
    assert saved(tmp_path / "saved") == saved(threads)
    said = [line for line in results[0][2].splitlines() if "one node" in line]
    # Who gives ranks by hand has decided where each is.
    assert said == (
        [
            "optimus-run: warning: the library is laid out for ranks 0,2 on one node, "
            "and rank 0 runs on a, rank 2 on b: what they send takes other links than "
            "simulated; start 2 processes on each host, or compile with --cluster for "
            "these hosts"
        ]
        if launcher is by_hand
        else []
    )


@pytest.mark.variants
@needs_hosts
@needs_mpirun
@pytest.mark.parametrize("backend", ["mpi", "tcp"])
def test_nodes_are_hosts_under_mpirun(tools, library, text, tmp_path, backend):
    threads = tmp_path / "threads"
    succeed(call(tools.train_command(library, text, 2, *FLAGS, "--save", threads)))
    flags = [*FLAGS, "--backend", backend, "--save", tmp_path / "saved"]
    named = [part.replace("$HOST_OF_RANK", "h$((OMPI_COMM_WORLD_RANK / 2))")
             for part in RENAMED]
    result = call([*mpirun(RANKS), *named, *tools.train_command(library, text, 2, *flags)])
    assert "4 ranks (%s)" % backend in succeed(result)
    assert "one node" not in result.stderr
    assert saved(tmp_path / "saved") == saved(threads)


@needs_hosts
@pytest.mark.parametrize("name", ["train", "eval", "generate"])
def test_a_launch_on_other_nodes_is_told(tools, library, text, tmp_path, name):
    """A host for each process."""

    def apart(rank, ranks, port):
        flags, variables = by_torchrun(rank, ranks, port)
        return flags, {**variables, "HOST_OF_RANK": "host%d" % rank}

    given = ["--data", text]
    if name == "generate":
        extents = "slots=1,context=8,chunk=4"
        library = compile_on(
            tools, tmp_path / "texts.so", {"placement": COLUMNS}, generate=extents
        )
        given = ["--bytes", "ab", "--max-tokens", 1]
    command = tools.command("optimus-run", name, library, *given, *FLAGS)
    command += ["--steps", "1"] if name == "train" else []
    results = finish(start([*RENAMED, *command], apart))
    assert [code for code, _, _ in results] == [0] * RANKS, results
    told = [errors.count("laid out for ranks 0,2 on one node") for _, _, errors in results]
    assert told == [1, 0, 0, 0]
    assert "rank 0 runs on host0, rank 2 on host1" in results[0][2]

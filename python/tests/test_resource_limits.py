# ===- test_resource_limits.py - Runs in containers -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Threads and memory are those of the container, which here is files below a folder.

support/unittests/ResourceLimitsTest.cpp has the many shapes of cgroups.
"""

import json
import os
import re
import sys

import pytest

from tools import REPOSITORY, Model, call, command_line, succeed

MODEL = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
MIB = 1 << 20


class Machine:
    """8 cores and 64 GiB, and a cgroup of version 2 in a parent."""

    def __init__(self, root):
        self.root = root
        self.write("proc/meminfo", "MemTotal: 67108864 kB\n")
        self.write("proc/self/status", "Cpus_allowed_list:\t0-7\n")
        self.write("proc/self/cgroup", "0::/pod/job\n")
        self.write(
            "proc/self/mountinfo",
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        )
        self.limit("pod/job", "cpu.max", "max 100000")
        self.environment = dict(os.environ, OPTIMUS_SYSTEM_ROOT=str(root))

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def limit(self, group, name, text):
        self.write("sys/fs/cgroup/%s/%s" % (group, name), text + "\n")

    def call(self, tools, tool, *arguments):
        return call(tools.command(tool, *arguments), env=self.environment)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "root")


def threads_of(tools, machine, library, data, *flags):
    """Of each rank, and what standard error has."""
    command = tools.train_command(library, data, 1, "--lr", 1e-3, *flags)
    result = call(list(map(str, command)), env=machine.environment)
    output = succeed(result)
    return int(re.search(r"(\d+) threads? each", output)[1]), result.stderr


def test_quotas_of_all_parents_decide_threads(tools, text, machine):
    library = tools.library(MODEL)
    assert threads_of(tools, machine, library, text)[0] == 8
    machine.limit("pod/job", "cpu.max", "300000 100000")
    assert threads_of(tools, machine, library, text) == (3, "")
    machine.limit("pod", "cpu.max", "100000 100000")
    assert threads_of(tools, machine, library, text) == (1, "")
    machine.limit("pod", "cpu.max", "50000 100000")
    assert threads_of(tools, machine, library, text)[0] == 1


def test_ranks_share_what_a_container_allows(tools, text, machine):
    library = tools.library(MODEL, "data:2", "data")
    machine.limit("pod", "cpu.max", "400000 100000")
    assert threads_of(tools, machine, library, text) == (2, "")
    machine.write("proc/self/status", "Cpus_allowed_list:\t2,5\n")
    assert threads_of(tools, machine, library, text) == (1, "")


def test_more_threads_than_a_quota_are_said(tools, text, machine):
    machine.limit("pod", "cpu.max", "100000 100000")
    threads, said = threads_of(
        tools, machine, tools.library(MODEL), text, "--threads-per-rank", 2
    )
    assert threads == 2
    (line,) = said.splitlines()
    assert "1 rank with 2 threads shares 1 core" in line
    assert "/sys/fs/cgroup/pod/cpu.max" in line


def report(tools, machine, tmp_path, *flags):
    file = tmp_path / "report.json"
    arguments = [tools.program(MODEL), "--compile-to=place", "-o", os.devnull]
    result = machine.call(
        *(tools, "optimus-compile", *arguments, "--report-json", file, *flags)
    )
    return json.loads(file.read_text()) if result.returncode == 0 else result


def test_what_fits_is_what_a_container_holds(tools, machine, tmp_path):
    whole = report(tools, machine, tmp_path)
    assert whole["limits"] == [{"of": "this machine", "bytes": 64 << 30}]
    machine.limit("pod", "memory.max", str(48 * MIB))
    machine.limit("pod/job", "memory.max", "max")
    (limit,) = report(tools, machine, tmp_path, "--mesh", "data:2", "--strategy", "data")["limits"]
    assert limit == {"of": "this container", "bytes": 24 * MIB}
    arguments = [tools.program(MODEL), "--report", "-o", tmp_path / "model.so"]
    said = succeed(machine.call(tools, "optimus-compile", *arguments))
    assert "this container has 48.0 MiB: it fits" in said
    machine.limit("pod/job", "memory.high", str(whole["rank_bytes"] - 1))
    said = succeed(machine.call(tools, "optimus-compile", *arguments))
    assert "none of them fits" in said


def test_a_budget_may_be_what_there_is(tools, machine, tmp_path):
    auto = ["--memory-budget", "auto"]
    machine.limit("pod", "memory.max", str(64 * MIB))
    (limit,) = report(tools, machine, tmp_path, *auto, "--mesh", "data:2", "--strategy", "data")["limits"]
    assert limit == {"of": "the memory budget", "bytes": 32 * MIB}
    found = report(tools, machine, tmp_path, *auto, "--strategy", "auto", "--ranks", 4)
    assert found["limits"][0]["bytes"] == 16 * MIB
    machine.limit("pod", "memory.max", str(MIB // 16))
    refused = report(tools, machine, tmp_path, *auto)
    assert refused.returncode == 1 and "64.0 KiB" in refused.stderr


@pytest.mark.rotates
def test_the_largest_batch_is_what_a_container_holds(tools, machine):
    batches = []
    for mebibytes in (8, 16):
        machine.limit("pod/job", "memory.max", str(mebibytes * MIB))
        environment = dict(
            machine.environment,
            PATH="%s:%s" % (os.path.abspath(tools.binaries), os.environ["PATH"]),
            PYTHONPATH=str(REPOSITORY / "python"),
        )
        command = [sys.executable, "-m", "optimus.largest_batch", MODEL.KIND]
        command += [*command_line(MODEL._replace(batch=None)), "--"]
        output = succeed(call(command, env=environment))
        assert "a rank may hold %d.0 MiB: this container" % mebibytes in output
        batches.append(int(re.search(r"largest: batch (\d+):", output)[1]))
    assert batches[0] * 1.5 < batches[1]

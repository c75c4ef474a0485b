# ===- test_tune_machine.py - What a worker finds --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Cores, memory and instructions from made-up files of /proc and /sys, and the journal
on a disk that is full or went down."""

import errno
import os

import pytest

from optimus.tune import TuneError, jobs, journal, machine
from optimus.tune.domains import parse
from optimus.tune.spaces import Leaf, Space, Union

CPUINFO = "processor : 0\nmodel name : a processor\nflags : sse2 %s\n"


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Writes a file below the root of this test."""
    monkeypatch.setenv(machine.SYSTEM, str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)

    def write(path, text):
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n")

    write("/proc/cpuinfo", CPUINFO % "avx2 avx512f avx512_bf16")
    return write


def test_a_machine_without_control_groups(system):
    found = machine.describe()
    assert (found.cores, found.processor, found.instructions) == (
        8.0,
        "a processor",
        "avx512_bf16",
    )
    assert found.memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_control_groups_of_version_2(system):
    """The least of a group and those around it counts."""
    system("/proc/self/cgroup", "0::/a/b")
    system("/sys/fs/cgroup/cgroup.controllers", "cpu memory")
    system("/sys/fs/cgroup/a/cpu.max", "150000 100000")
    system("/sys/fs/cgroup/a/memory.max", "max")
    system("/sys/fs/cgroup/a/b/cpu.max", "max 100000")
    system("/sys/fs/cgroup/a/b/memory.max", str(1 << 30))
    assert machine.describe()[:2] == (1.5, 1 << 30)
    # Two workers share it, unless each is pinned to cores of its own.
    assert machine.describe(2)[:2] == (0.75, 1 << 29)
    assert machine.describe(2, is_pinned=True)[:2] == (1.5, 1 << 29)


def test_control_groups_of_version_1(system):
    system("/proc/self/cgroup", "5:cpuacct,cpu:/x\n4:memory:/y")
    system("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "10000")
    system("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000")
    system("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    system("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", str(512 << 20))
    system("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    assert machine.describe()[:2] == (0.1, 512 << 20)


@pytest.mark.parametrize(
    "flags, limit, expected",
    [
        ("avx2 avx512f", "", "avx512f"),
        ("avx2 avx512f avx512_bf16 amx_bf16", "AVX2", "avx2"),
        ("avx2 avx512f avx512_bf16 amx_bf16", "AVX512_CORE_BF16", "avx512_bf16"),
        ("", "", "sse2"),
    ],
)
def test_instructions(system, monkeypatch, flags, limit, expected):
    system("/proc/cpuinfo", CPUINFO % flags)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert machine.describe().instructions == expected


def records(count):
    return [{"kind": "given", "trial": each} for each in range(count)]


def test_half_a_line_is_removed_and_others_stay(tmp_path):
    writer = journal.Journal(str(tmp_path))
    for record in records(3):
        writer.append(record)
    writer.close()
    whole = (tmp_path / journal.NAME).read_bytes()
    for rest in (b"", b'{"kind":', b'{"kind":"ended"}', b"\0" * 40, b"\0\0\n"):
        (tmp_path / journal.NAME).write_bytes(whole + rest)
        assert journal.read(str(tmp_path)) == records(3)
        again = journal.Journal(str(tmp_path))
        assert again.records == records(3)
        again.append({"kind": "more"})
        again.close()
        assert (tmp_path / journal.NAME).read_bytes() == whole + b'{"kind":"more"}\n'


@pytest.mark.parametrize("line", [b"years of work", b"[1]", b'{"trial":1}', b"\xff"])
def test_what_is_no_journal_stays_as_it_is(tmp_path, line):
    text = b'{"kind":"study"}\n' + line + b'\n{"kind":"given","trial":0}\n'
    (tmp_path / journal.NAME).write_bytes(text)
    with pytest.raises(
        TuneError, match=":2: expected a JSON object.*the file stays as it is"
    ):
        journal.Journal(str(tmp_path))
    assert (tmp_path / journal.NAME).read_bytes() == text


def test_a_full_disk_ends_a_study_with_a_whole_journal(tmp_path, monkeypatch):
    writer = journal.Journal(str(tmp_path))
    writer.append(records(1)[0])
    room = [10]

    def pwrite(descriptor, data, offset, real=os.pwrite):
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: room.pop()], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(
        TuneError, match="No space left on device; the same command goes on"
    ):
        writer.append({"kind": "ended", "trial": 0})
    assert (tmp_path / journal.NAME).read_text() == '{"kind":"given","trial":0}\n'


def test_a_class_is_measured_with_the_ranks_of_meshes(monkeypatch):
    monkeypatch.setattr(jobs, "find_tool", lambda name: name)
    mesh = parse({"choice": ["row:2,col:2", "row:2", "row:1", "col:2"]})
    inner = Space((Leaf("compile.mesh", parse("data:8"), 2),))
    space = Space((Leaf("compile.mesh", mesh, 1),), (Union("kind", {"a": inner}, 2),))
    assert jobs.ranks_in(space) == [2, 4, 8]
    found = jobs.measure(jobs.Folder("/study"), "w0", {"cores": 4.0}, [2, 4])
    lines = [" ".join(each["argv"]) for each in found["commands"]]
    assert "bench --profile /study/classes/w0.new --gemm" in lines[0]
    assert lines[0].endswith("--threads-per-rank 4")
    assert ["--comm --ranks 2" in lines[1], "--comm --ranks 4" in lines[2]] == [True] * 2
    assert sum(int(each["argv"][1]) for each in found["commands"]) <= jobs.MOST_MEASURED

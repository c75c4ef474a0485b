# ===- test_dynamic_placement.py - Blocks that are placed in a run --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-run train --placement dynamic`: results are those of planned placement,
and the profile says where every block was, and when."""

import collections

import pytest

from test_hidden_device import hide
from test_profile import GPT2, MESH, STEPS, Profile, plain_losses, train
from tools import Checkpoint, call, losses, mpirun


@pytest.mark.variants
@pytest.mark.parametrize("case", ["serial", "threads", "mpi"])
def test_dynamic_placement(tools, text, tmp_path, case):
    mesh = {
        "serial": [],
        "threads": MESH,
        "mpi": ["row:1,col:2", "megatron", "--accumulate"],
    }[case]
    prefix = mpirun(2) if case == "mpi" else []
    flags = [] if case == "serial" else ["--microbatches", 2]
    library = tools.library(GPT2, *mesh)
    planned, placed = tmp_path / "planned", tmp_path / "placed"
    plain = plain_losses(tools, library, text, tmp_path, *flags, "--save", planned)
    flags = [*flags, "--placement", "dynamic", "--save", placed]
    log, profile = train(tools, library, text, tmp_path / "run", *flags, prefix=prefix)
    assert (losses(log) == plain).all()
    for kind in ("parameters", "moments"):
        expected = getattr(Checkpoint(planned), kind)
        found = getattr(Checkpoint(placed), kind)
        assert expected.keys() == found.keys()
        assert all((expected[name] == found[name]).all() for name in expected)
    profile = profile or Profile(tmp_path / "run" / "run.profile.1")
    profile.check()
    assert profile.trace["placement"] == "dynamic"
    check_allocations(profile)


def check_allocations(profile):
    """Each block of a call is there from its first command to its last, and no
    two share an address meanwhile."""
    rows = profile.rows(
        "SELECT call, rank, allocations.address, blocks.bytes, malloc_begin, malloc_end, free_begin, "
        "free_end, first.begin, last.end FROM calls "
        "JOIN blocks USING (function) "
        "LEFT JOIN allocations USING (call, block) "
        "JOIN times AS first USING (call) JOIN times AS last USING (call) "
        "WHERE first.command = blocks.first AND last.command = blocks.last"
    )
    assert rows
    alive = collections.defaultdict(list)
    for number, rank, address, size, *times in sorted(rows, key=lambda row: row[4]):
        malloc_begin, malloc_end, free_begin, free_end, first, last = times
        assert 0 < malloc_begin <= malloc_end <= first
        assert last <= free_begin <= free_end
        alive[rank] = [other for other in alive[rank] if other[2] > malloc_begin]
        for begin, end, _ in alive[rank]:
            assert address + size <= begin or end <= address
        alive[rank].append((address, address + size, free_end))


def test_dynamic_placement_needs_memory_of_the_host(tools, text, tmp_path):
    flags = ["--placement", "dynamic"]
    command = tools.train_command(tools.library(GPT2), text, STEPS, *flags)
    result = call(command, env=hide(tools, 1))
    assert result.returncode == 1
    assert "dynamic placement allocates memory of the host" in result.stderr
    assert "use planned placement" in result.stderr

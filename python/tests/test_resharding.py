# ===- test_resharding.py - The memory of loading and saving --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checkpoints on other meshes, of a model whose parameters and moments are
100 MB: the memory of processes as Linux counts it, and their refusals."""

import json
import shutil

import pytest

from tools import Model, call, mpirun, over_tcp, succeed

MODEL = Model(layers=2, hidden=512, heads=8, sequence=16, vocabulary=4096, batch=8)
FILES = ["model.safetensors", "optimizer.safetensors"]
MIB = 1 << 20

# Parameters and moments are sharded alike, sharded by `data` besides, and unevenly.
LAYOUTS = [
    ("row:2,col:2", "summa", 4),
    ("row:2,col:3", "summa", 6),
    ("data:2,row:1,col:3", "megatron", 6),
    ("data:2", "data", 2),
]


def command(tools, mesh, strategy, *flags):
    library = tools.library(MODEL, mesh, strategy)
    return tools.command("optimus-bench-reshard", library, *flags)


def reshard(*arguments, prefix=()):
    """What optimus-bench-reshard says of the model on this mesh."""
    return json.loads(succeed(call([*prefix, *command(*arguments)])))


def growth(process, phase):
    """How much more a process held at the peak of a phase than before it."""
    return process[phase]["peak"] - process[phase]["before"]["VmRSS"]


@pytest.fixture(scope="module")
def serial(tools, tmp_path_factory):
    """A checkpoint of the serial program, and what writing it took."""
    folder = tmp_path_factory.mktemp("serial") / "checkpoint"
    return folder, reshard(tools, None, "serial", "--save", folder)


def test_a_rank_holds_what_it_says(serial, measures_memory):
    _, report = serial
    assert report["state"] == 2 * report["parameters"] > 60 * MIB
    assert report["arena"] > 30 * MIB
    # Besides: libraries' data, their heaps, and two allocations in huge pages.
    held = report["processes"][0]["save"]["before"]["RssAnon"]
    assert 0 <= held - report["rank_bytes"] < 12 * MIB


@pytest.mark.rotates
@pytest.mark.parametrize("backend", ["mpi", "local"])
@pytest.mark.parametrize("mesh, strategy, ranks", LAYOUTS)
def test_loading_and_saving_take_little_memory(
    tools, serial, tmp_path, mesh, strategy, ranks, backend
):
    folder, _ = serial
    again = tmp_path / "again"
    flags = ["--load", folder, "--save", again]
    prefix = mpirun(ranks) if backend == "mpi" else []
    report = reshard(tools, mesh, strategy, *flags, prefix=prefix)
    assert report["ranks"] == ranks
    processes = report["processes"]
    assert len(processes) == (ranks if backend == "mpi" else 1)
    threads = ranks // len(processes)
    for index, process in enumerate(processes):
        # A window of 256 KiB a rank, and 1 MiB for the checksums; of a slab of
        # 4 MiB the sender has a part, the root all and what it receives. The
        # rest is MPI's, and code that runs for the first time.
        # Not of AddressSanitizer, which keeps freed memory.
        if not tools.has_address_sanitizer:
            assert growth(process, "load") < (1 + threads / 4 + 2) * MIB
            assert growth(process, "save") < ((8 if index == 0 else 4) + 3) * MIB
    for name in FILES:
        assert (again / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.mark.rotates
def test_a_checkpoint_of_many_ranks_loads_anywhere(tools, serial, tmp_path):
    folder, _ = serial
    flags = ["--load", folder, "--save", tmp_path / "a"]
    reshard(tools, "row:2,col:3", "summa", *flags, prefix=mpirun(6))
    for step, (mesh, strategy, _) in enumerate(LAYOUTS[2:] + [(None, "serial", 1)]):
        here, there = tmp_path / "abc"[step], tmp_path / "abcd"[step + 1]
        reshard(tools, mesh, strategy, "--load", here, "--save", there)
        for name in FILES:
            assert (there / name).read_bytes() == (folder / name).read_bytes()


def files(folder):
    """What state.json says of the others: checksums and all."""
    return json.loads((folder / "state.json").read_text())["files"]


@pytest.mark.variants
@pytest.mark.parametrize("start", [mpirun(4), over_tcp(4), []])
def test_many_writers_write_what_one_does(tools, serial, tmp_path, start):
    """Processes and threads, each its own pieces, beside the root alone."""
    folder, _ = serial
    again = tmp_path / "again"
    flags = ["--load", folder, "--save", again, "--rounds", 1]
    report = reshard(tools, "row:2,col:2", "summa", *flags, prefix=start)
    assert len(report["writers"]["together"]) == 1
    # Loading read all once; and state.json and what /proc says, small beside a piece.
    loaded = [process["load"]["read"] for process in report["processes"]]
    size = sum((folder / name).stat().st_size for name in FILES)
    assert size <= sum(loaded) < size + len(loaded) * MIB
    for name in FILES:
        assert (again / name).read_bytes() == (folder / name).read_bytes(), name
    assert files(again) == files(folder)
    pieces = files(again)["optimizer.safetensors"]["pieces"]
    assert len(pieces["xxh64"]) > 10 * 16 and pieces["size"] == 4 * MIB
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_who_does_not_see_the_folder_sends_its_part(tools, serial, tmp_path):
    """As on machines that share no file system: the others name a folder that
    is not the root's."""
    folder, _ = serial
    mesh = ("row:2,col:2", "summa")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    one, two = [
        command(tools, *mesh, "--load", folder, "--save", place / "ck")
        for place in (here, there)
    ]
    succeed(call([*mpirun(2), *one, ":", "-n", "2", *two]))
    assert list(there.iterdir()) == []
    for name in FILES:
        assert (here / "ck" / name).read_bytes() == (folder / name).read_bytes()
    assert files(here / "ck") == files(folder)


@pytest.fixture
def small(tools, text, tmp_path):
    """A small model's library on two ranks, and a checkpoint of it."""
    model = Model(layers=1, hidden=48, heads=6, sequence=32, vocabulary=256, batch=4)
    library = tools.library(model, "row:1,col:2", "summa")
    return library, tools.initial(library, text, tmp_path / "one").folder


def two_processes(tools, library, text, first, second):
    """Training where each of two processes loads another checkpoint."""
    one, two = [
        tools.train_command(library, text, 1, "--load", folder)
        for folder in (first, second)
    ]
    return call([*mpirun(1), *one, ":", "-n", "1", *two])


def test_processes_with_different_checkpoints_are_refused(
    tools, small, text, tmp_path
):
    library, one = small
    two = tools.initial(library, text, tmp_path / "two", seed=2).folder
    result = two_processes(tools, library, text, one, two)
    assert result.returncode == 1
    assert result.stderr.count("error:") == 1
    expected = "rank 1 and rank 0 disagree on the checkpoint of --load: step 0"
    assert expected in result.stderr


def test_copies_of_a_checkpoint_are_verified_each(tools, small, text, tmp_path):
    library, one = small
    copy = tmp_path / "copy"
    shutil.copytree(one, copy)
    succeed(two_processes(tools, library, text, one, copy))
    damaged = bytearray((copy / FILES[1]).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (copy / FILES[1]).write_bytes(damaged)
    result = two_processes(tools, library, text, one, copy)
    assert result.returncode == 1
    assert result.stderr.count("error:") == 1
    assert f"rank 1: {copy}/{FILES[1]} is damaged: its checksum is" in result.stderr
    # Whoever has the same files as another leaves it to that one.
    result = two_processes(tools, library, text, copy, copy)
    assert result.returncode == 1
    assert result.stderr.count("error:") == 1
    assert f"error: {copy}/{FILES[1]} is damaged: its checksum is" in result.stderr

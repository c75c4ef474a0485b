# ===- test_data.py - The data is the expected one ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ranks with different files, runs that go on with other data, and tokens of another
width: each is said by name. What needs no compiled model is in runtime/data/unittests
and tools/optimus-run/unittests."""

import re
import shutil
import struct
import subprocess

import numpy as np
import pytest

from test_launchers import by_hand, finish, needs_mpirun, ports
from tools import Checkpoint, LlamaModel, Model, call, losses, mpirun, read_log, succeed

# ------------------------------------------------- ranks that read other files

# 2,048 tokens a step.
MODEL = Model(layers=1, hidden=16, heads=2, sequence=64, vocabulary=256, batch=32)
# One shares the batch out, in the other both ranks read all of it.
MESHES = {"data": "data:2,row:1,col:1", "col": "row:1,col:2"}


@pytest.fixture(scope="module", params=sorted(MESHES))
def parallel(request, tools):
    return tools.library(MODEL, MESHES[request.param], "summa", "--accumulate")


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """A file, and copies with a difference of one byte, in no sample."""
    folder = tmp_path_factory.mktemp("copies")
    content = np.random.default_rng(1).integers(97, 123, 3_000_000).astype(np.uint8)
    good = folder / "good.txt"
    good.write_bytes(content.tobytes())

    def stale(offset):
        path = folder / ("stale-%d.txt" % offset)
        changed = content.copy()
        changed[offset] ^= 1
        path.write_bytes(changed.tobytes())
        return path

    return good, stale


def over_mpi(command, good, stale):
    """The job's exit code and what it said; its second process has the other file."""
    first, second = (
        [str(file) if part == "DATA" else part for part in command]
        for file in (good, stale)
    )
    result = call([*mpirun(1), *first, ":", "-n", "1", *second])
    return result.returncode, result.stdout, result.stderr


def over_tcp(command, good, stale):
    port, jobs = next(ports), []
    for rank, file in enumerate((good, stale)):
        flags, _ = by_hand(rank, 2, port)
        parts = [str(file) if part == "DATA" else part for part in command]
        pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        jobs.append(subprocess.Popen([*parts, *flags], stderr=subprocess.PIPE, **pipes))
    said = finish(jobs)
    assert said[0][0] == said[1][0]
    return said[0][0], said[0][1], said[0][2] + said[1][2]


def refused(said, good, stale, window):
    code, _, error = said
    assert code == 1, error
    assert error.count("error:") == 1, error
    expected = (
        "rank 1 and rank 0 have read different tokens in window %d (tokens %d to %d) "
        "of the data: %s on rank 1 differs from %s on rank 0"
        % (window, window * 64, window * 64 + 64, stale, good)
    )
    assert expected in error, error


@pytest.mark.rotates
@needs_mpirun
@pytest.mark.parametrize("run", [over_mpi, over_tcp])
# Rows of rank 0 and of rank 1 in the ninth batch, where ranks share it out.
@pytest.mark.parametrize("offset", [17_000, 18_000])
def test_a_stale_copy_ends_the_run_before_its_step(
    tools, parallel, copies, tmp_path, run, offset
):
    good, stale = copies[0], copies[1](offset)
    saved = tmp_path / "saved"
    command = tools.train_command(parallel, "DATA", 10, "--save", saved)
    said = run(command, good, stale)
    refused(said, good, stale, offset // 64)
    assert "the run ends after step 8" in said[2]
    assert Checkpoint(saved).state["step"] == 8


@pytest.mark.variants
@needs_mpirun
def test_every_microbatch_is_compared(tools, parallel, copies, tmp_path):
    good, stale = copies[0], copies[1](19_000)
    saved = tmp_path / "saved"
    flags = ["--microbatches", 2, "--save", saved]
    said = over_mpi(tools.train_command(parallel, "DATA", 6, *flags), good, stale)
    refused(said, good, stale, 19_000 // 64)
    # It is in the second microbatch of step 5, which is not taken.
    assert Checkpoint(saved).state["step"] == 4


@pytest.mark.rotates
@needs_mpirun
def test_an_evaluation_is_of_one_file(tools, parallel, copies):
    good, stale = copies[0], copies[1](18_000)
    command = tools.command("optimus-run", "eval", parallel, "--data", "DATA")
    refused(over_mpi(command, good, stale), good, stale, 18_000 // 64)
    # While training too, and a copy that is none is not refused.
    command = tools.train_command(parallel, good, 1, "--eval-data", "DATA")
    code, out, error = over_mpi(command, good, stale)
    assert code == 1
    assert "window %d " % (18_000 // 64) in error
    copy = stale.parent / "copy.txt"
    shutil.copy(good, copy)
    alike = over_mpi(tools.train_command(parallel, "DATA", 9), good, copy)
    shared = over_mpi(tools.train_command(parallel, "DATA", 9), good, good)
    assert alike[0] == shared[0] == 0, alike[2] + shared[2]
    final = re.compile("final loss ([0-9.]+)")
    assert final.search(alike[1]).group(1) == final.search(shared[1]).group(1)


@pytest.mark.variants
@needs_mpirun
def test_what_a_sample_sees_is_refused_before_the_first_step(tools, parallel, copies):
    good, stale = copies[0], copies[1](1_000)
    code, _, error = over_mpi(tools.train_command(parallel, "DATA", 2), good, stale)
    assert code == 1
    assert "rank 1 and rank 0 disagree on the data: 3000000 tokens of type u8" in error


# ------------------------------------------------------- runs that go on elsewhere

LLAMA = LlamaModel(
    *(1, 16, 2, 1, 24),
    sequence=16,
    vocabulary=256,
    batch=4,
)
STILL = ["--threads-per-rank", 1, "--lr", 0, "--weight-decay", 0]


@pytest.fixture
def begun(tools, text, tmp_path):
    """A library, and the checkpoint of three steps with it."""
    library, folder = tools.library(LLAMA), tmp_path / "begun"
    succeed(call(tools.train_command(library, text, 3, *STILL, "--save", folder)))
    return library, folder


def go_on(tools, library, data, begun, folder, *flags, steps=4):
    """The messages, the losses and the new state of a run that goes on."""
    log = folder.parent / "log"
    flags = [*STILL, "--load", begun, "--save", folder, "--overwrite", *flags]
    result = call(tools.train_command(library, data, steps, *flags, log=log))
    said = succeed(result) + result.stderr
    return said, losses(read_log(log)), Checkpoint(folder).state


def test_a_checkpoint_says_what_its_run_read(begun, text):
    state = Checkpoint(begun[1]).state
    data = state["data"]
    # A small file is its own sample.
    assert data.pop("sample") == data.pop("contents")
    assert data == {
        "file": "text.txt",
        "token_type": "u8",
        "tokens": text.stat().st_size,
        "sequence": 16,
        "batch": 4,
        "position": 3 * 4 * 16,
    }
    assert state["data_position"] == 12


def test_the_same_data_goes_on_in_silence(tools, begun, text, tmp_path):
    library, folder = begun
    moved = tmp_path / "moved.txt"
    shutil.copy(text, moved)
    said, _, state = go_on(tools, library, moved, folder, tmp_path / "on")
    assert "trained on" not in said and "--restart-data" not in said
    assert state["data_position"] == 16


def test_other_data_is_said(tools, begun, text, tmp_path):
    library, folder = begun
    for name, content in {
        "longer.txt": text.read_bytes() * 2,
        "edited.txt": text.read_bytes().replace(b"e", b"a", 1),
    }.items():
        other = tmp_path / name
        other.write_bytes(content)
        said, _, state = go_on(tools, library, other, folder, tmp_path / "on")
        assert "the data is not what %s was trained on: %s" % (folder, name) in said
        assert ("they have other contents" in said) == (name == "edited.txt")
        assert "reading goes on after 192 tokens, in epoch 1 at window 12 of" in said
        assert "--restart-data begins anew" in said
        assert state["data"]["file"] == name
        assert state["data_position"] == 16


def test_restarting_data_begins_with_its_first_window(tools, begun, text, tmp_path):
    library, folder = begun
    first = tmp_path / "first"
    flags = [*STILL, "--log-json", first]
    succeed(call(tools.train_command(library, text, 1, *flags)))
    said, found, state = go_on(
        tools, library, text, folder, tmp_path / "on", "--restart-data"
    )
    assert "--restart-data: reading begins anew" in said
    # With a rate of 0 the loss is that of the windows.
    assert found.tolist() == losses(read_log(first)).tolist()
    assert state["data_position"] == 4
    result = call(tools.train_command(library, text, 1, "--restart-data"))
    assert result.returncode == 1
    assert "--load" in result.stderr


def test_another_sequence_length_goes_on_at_the_same_token(
    tools, begun, text, tmp_path
):
    library, folder = begun
    shorter = tools.library(LLAMA._replace(sequence=8, batch=8))
    said, found, state = go_on(tools, shorter, text, folder, tmp_path / "on")
    assert "unlike before: sequences of 8 tokens (was 16)" in said
    assert "unlike before: a step reads 8 sequences (was 4)" in said
    assert "reading goes on after 192 tokens, in epoch 1 at window 24 of" in said
    assert state["data_position"] == 24 + 8
    assert state["data"]["position"] == 192 + 64
    # The same as from those tokens on.
    rest = tmp_path / "rest.txt"
    rest.write_bytes(text.read_bytes()[192:])
    flags = ["--restart-data"]
    _, expected, _ = go_on(tools, shorter, rest, folder, tmp_path / "again", *flags)
    assert found.tolist() == expected.tolist()


def test_a_difference_that_no_sample_sees_is_said_later(tools, copies, tmp_path):
    library = tools.library(LLAMA)
    good, stale = copies[0], copies[1](17_000)
    folder = tmp_path / "begun"
    # The hash of all is there after some steps, on a machine that is not busy.
    for steps in (200, 2_000, 20_000):
        flags = [*STILL, "--save", folder, "--overwrite", "--save-every", 100]
        succeed(call(tools.train_command(library, good, steps, *flags)))
        if "contents" in Checkpoint(folder).state["data"]:
            break
    last = Checkpoint(folder).state["step"]
    for steps in (200, 2_000, 20_000):
        flags = ["--load", folder, *STILL]
        result = call(tools.train_command(library, stale, last + steps, *flags))
        assert "reading goes on" not in succeed(result)
        if result.stderr:
            break
    said = "the data is not what %s was trained on: %s has other contents, with hash "
    assert said % (folder, stale) in result.stderr


# ------------------------------------------------------- tokens of another width


def test_wide_tokens_are_the_same_tokens(tools, tmp_path):
    model = Model(layers=1, hidden=16, heads=2, sequence=16, vocabulary=301, batch=4)
    library = tools.library(model)
    tokens = np.random.default_rng(5).integers(0, 301, 1500)
    narrow, wide = tmp_path / "narrow.bin", tmp_path / "wide.bin"
    narrow.write_bytes(tokens.astype("<u2").tobytes())
    wide.write_bytes(tokens.astype("<u4").tobytes())
    headed = tmp_path / "headed.bin"
    header = struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253)
    headed.write_bytes(header + narrow.read_bytes())

    def evaluate(data, *flags):
        flags = ["--data", data, "--json", *STILL[:2], *flags]
        return call(tools.command("optimus-run", "eval", library, *flags))

    expected = succeed(evaluate(narrow))
    assert succeed(evaluate(wide, "--token-type", "u32")) == expected
    assert succeed(evaluate(headed)) == expected
    result = evaluate(wide)
    assert result.returncode == 1
    assert "every second" in result.stderr and "--token-type u32" in result.stderr
    result = evaluate(narrow, "--token-type", "u32")
    assert result.returncode == 1
    assert "at offset 0" in result.stderr and "--token-type u16" in result.stderr
    (tmp_path / "wide.bin.json").write_text('{"token_type": "u32"}')
    assert succeed(evaluate(wide)) == expected
    result = evaluate(tmp_path / "text.txt", "--token-type", "u16")
    assert result.returncode == 1
    assert "expected a .bin file" in result.stderr


def test_a_large_vocabulary_needs_wide_tokens(tools, tmp_path):
    model = Model(layers=1, hidden=8, heads=2, sequence=4, vocabulary=65600, batch=2)
    library = tools.library(model)
    data = tmp_path / "tokens.bin"
    data.write_bytes(np.arange(65_560, 65_600, dtype="<u4").tobytes())
    result = call(tools.train_command(library, data, 1, *STILL))
    assert result.returncode == 1
    for part in ("65600 tokens", str(data), "--token-type u32", "tokens.bin.json"):
        assert part in result.stderr
    folder = tmp_path / "saved"
    flags = ["--token-type", "u32", "--save", folder]
    succeed(call(tools.train_command(library, data, 1, *STILL, *flags)))
    assert Checkpoint(folder).state["data"]["token_type"] == "u32"
    verify = ["verify", library, library, "--data", data, *STILL[:2]]
    result = tools.call("optimus-run", *verify)
    assert result.returncode == 1 and "--token-type u32" in result.stderr
    tools.run("optimus-run", *verify, "--token-type", "u32")

# ===- test_hostile_files.py - Outputs, limits and signals ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The compiler's tools destroy nothing that a user has and leave nothing behind:
on devices, links, full disks, without memory, and when a signal ends them."""

import os
import random
import resource
import signal
import stat
import time

import numpy as np
import pytest

from hostile import IDENTITY, accept, folder, left_in, program, refuse, run, start
from tools import TIMEOUT_SECONDS

pytestmark = pytest.mark.rotates

# Each tool that writes a file, with its arguments before the file's name.
WRITERS = {
    "compile": ("optimus-compile", "f.mlir", "--compile-to=input", "-o"),
    "opt": ("optimus-opt", "f.mlir", "-o"),
    "plan": ("optimus-plan", "ranges.csv", "-o"),
}
writers = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


# --------------------------------------------------------------------- outputs


@writers
def test_devices_are_written_to(tools, folder, writer):
    accept(run(tools, folder, *writer, "/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    refuse(run(tools, folder, *writer, "/dev/full"), "/dev/full", "No space left")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@writers
def test_links_are_followed(tools, folder, writer):
    (folder / "real").write_text("old")
    (folder / "link").symlink_to("real")
    accept(run(tools, folder, *writer, "link"))
    assert (folder / "link").is_symlink()
    assert (folder / "real").read_text() not in ("", "old")


@writers
def test_folders_are_refused(tools, folder, writer):
    refuse(run(tools, folder, *writer, "tmp"), "tmp", "folder")
    refuse(run(tools, folder, *writer, "absent/file"), "absent")


def test_a_library_is_written_as_every_output_is(tools, folder, program):
    accept(run(tools, folder, "optimus-compile", program, "-o", "/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    (folder / "real.so").write_text("old")
    (folder / "real.so").chmod(0o640)
    (folder / "link.so").symlink_to("real.so")
    accept(run(tools, folder, "optimus-compile", program, "-o", "link.so"))
    assert (folder / "link.so").is_symlink()
    assert (folder / "real.so").read_bytes().startswith(b"\x7fELF")
    # Who may read it may run it.
    assert stat.S_IMODE((folder / "real.so").stat().st_mode) == 0o750
    assert left_in(folder) == ["link.so", "real.so"]


def test_arrays_are_written_as_every_output_is(tools, folder):
    flags = ["f.mlir", "--function", "f", "--draw", 9, "--outputs"]
    (folder / "out").mkdir()
    (folder / "real.npy").write_text("old")
    (folder / "out" / "result0.npy").symlink_to("../real.npy")
    accept(run(tools, folder, "optimus-interpret", *flags, "out"))
    assert (folder / "out" / "result0.npy").is_symlink()
    assert (folder / "real.npy").read_bytes().startswith(b"\x93NUMPY")


def test_names_of_results_stay_in_the_folder(tools, folder):
    (folder / "away.mlir").write_text(
        IDENTITY.replace("-> tensor<2xf32>", '-> (tensor<2xf32> {optimus.binding = #optimus.buffer<role = "../x", lifetime = call>})')
    )
    flags = ["away.mlir", "--function", "f", "--draw", 9, "--outputs", "out"]
    refuse(run(tools, folder, "optimus-interpret", *flags), "../x")
    assert not (folder / "x.npy").exists()


# ----------------------------------------------------- outputs that are inputs


@writers
def test_an_input_is_no_output(tools, folder, writer):
    source = folder / writer[1]
    before = source.read_text()
    os.link(source, folder / "hard")
    (folder / "soft").symlink_to(source.name)
    for name in (source.name, "hard", "soft", "./tmp/../" + source.name):
        refuse(run(tools, folder, *writer, name), "same file")
    with source.open() as stream:
        through = [argument if argument != writer[1] else "-" for argument in writer]
        refuse(run(tools, folder, *through, "soft", stdin=stream), "same file")
    assert source.read_text() == before


def test_no_other_input_is_an_output(tools, folder):
    (folder / "profile.json").write_text('{"version": 1}')
    (folder / "dumps").mkdir()
    (folder / "dumps" / "00-input.mlir").write_text(IDENTITY)
    compile = ["optimus-compile", "f.mlir", "--compile-to=input"]
    profile = ["--machine-profile", "profile.json", "-o", "profile.json"]
    refuse(run(tools, folder, *compile, *profile), "--machine-profile", "same file")
    place = ["optimus-compile", "f.mlir", "--compile-to=place", "-o", "q.mlir"]
    for name in ("f.mlir", "q.mlir"):
        refuse(run(tools, folder, *place, "--report-json", name), "--report-json", "same file")
    dumped = ["optimus-compile", "dumps/00-input.mlir", "--compile-to=input"]
    dumps = ["--dump-phases-to", "dumps"]
    refuse(run(tools, folder, *dumped, *dumps), "--dump-phases-to", "same file")
    both = ["-o", "dumps/01-differentiate.mlir", *dumps]
    refuse(run(tools, folder, *compile, *both), "same file")
    assert (folder / "dumps" / "00-input.mlir").read_text() == IDENTITY
    assert (folder / "profile.json").read_text() == '{"version": 1}'


def test_results_do_not_replace_arguments(tools, folder):
    (folder / "same.mlir").write_text(
        IDENTITY.replace("-> tensor<2xf32>", '-> (tensor<2xf32> {optimus.binding = #optimus.buffer<role = "arg0", lifetime = call>})')
    )
    flags = ["optimus-interpret", "same.mlir", "--function", "f"]
    accept(run(tools, folder, *flags, "--draw", 9, "--outputs", "in"))
    before = (folder / "in" / "arg0.npy").read_bytes()
    again = run(tools, folder, *flags, "--inputs", "in", "--outputs", "in")
    refuse(again, "--outputs", "--inputs", "same file")
    assert (folder / "in" / "arg0.npy").read_bytes() == before


# ---------------------------------------------------------------------- limits


def test_a_limit_on_files(tools, folder, program):
    limits = {resource.RLIMIT_FSIZE: 4096}
    for flags in (["--compile-to=llvm"], []):
        command = ["optimus-compile", program, *flags, "-o", "out"]
        refuse(run(tools, folder, *command, limits=limits), "File too large")
    assert left_in(folder) == []


def test_the_linkers_words_are_passed_on(tools, folder, program):
    (folder / "ld").write_text("#!/bin/sh\necho the disk is tired >&2\nexit 3\n")
    (folder / "ld").chmod(0o755)
    path = {"environment": {"PATH": "%s:%s" % (folder, os.environ["PATH"])}}
    command = ["optimus-compile", program, "-o", "out"]
    result = run(tools, folder, *command, **path)
    refuse(result, folder / "ld", "failed with 3", "the disk is tired")
    assert left_in(folder) == ["ld"]


def test_an_assembler_that_is_too_old(tools, folder, program):
    (folder / "ptxas").write_text(
        "#!/bin/sh\n"
        "echo \"ptxas fatal   : Value 'sm_121' is not defined for option 'gpu-name'\" >&2\n"
        "exit 255\n"
    )
    (folder / "ptxas").chmod(0o755)
    path = {"environment": {"PATH": "%s:%s" % (folder, os.environ["PATH"])}}
    command = ["optimus-compile", program, "--target", "cuda", "--gpu-arch", "sm_121", "-o", "out"]
    refuse(run(tools, folder, *command, **path), folder / "ptxas", "does not know sm_121")
    assert left_in(folder) == ["ptxas"]


def test_a_limit_on_memory(tools, folder, program, limits_addresses):
    """However little there is, it is one message with the bytes asked for."""
    command = ["optimus-compile", program, "--compile-to=llvm", "-o", "out"]

    def compile(mebibytes):
        limits = {resource.RLIMIT_AS: mebibytes << 20}
        return run(tools, folder, *command, limits=limits)

    # What the dynamic linker needs is not ours to say.
    little, enough = 50, 4096
    accept(compile(enough))
    while enough - little > 1:
        middle = (little + enough) // 2
        result = compile(middle)
        if result.returncode == 0:
            enough = middle
            continue
        little = middle
        (folder / "out").unlink(missing_ok=True)
        assert left_in(folder) == []
        if result.returncode != 127:
            refuse(result, "out of memory", "bytes were asked for", "ulimit -v")
    for less in range(1, 12, 2):
        (folder / "out").unlink(missing_ok=True)
        result = compile(little - less)
        if result.returncode == 127:
            # The dynamic linker's three ways to say so.
            loading = "error while loading shared libraries" in result.stderr
            assert loading or result.stderr in (
                "out of memory\n",
                "cannot allocate TLS data structures for initial thread\n",
            )
            break
        refuse(result, "out of memory", "bytes were asked for", "ulimit -v")
        assert left_in(folder) == []
    else:
        less += 2
    assert less > 1, "no limit was reached by the compiler itself"


@pytest.mark.parametrize("kibibytes", [64, 1024])
def test_a_limit_on_stacks(tools, folder, program, kibibytes, limits_addresses):
    """The tools have stacks of their own, their threads too."""
    limits = {resource.RLIMIT_STACK: kibibytes << 10}
    np.save(folder / "arg0.npy", np.ones(2, np.float32))
    (folder / "text.txt").write_bytes(bytes(range(16)) * 40)
    train = ["train", "out.so", "--data", "text.txt", "--steps", "2", "--threads-per-rank", "2"]
    for command in (
        ["optimus-compile", program, "-o", "out.so"],
        ["optimus-opt", program, "--optimus-differentiate", "-o", "out.mlir"],
        ["optimus-plan", "ranges.csv"],
        ["optimus-interpret", "f.mlir", "--function", "f", "--inputs", "."],
        ["optimus-run", "inspect", "out.so"],
        ["optimus-run", *train],
    ):
        accept(run(tools, folder, *command, limits=limits))


def test_a_folder_for_temporary_files_that_is_not_there(tools, folder, program):
    nowhere = {"environment": {"TMPDIR": "/no/such/folder"}}
    command = ["optimus-compile", program, "-o", "out"]
    refuse(run(tools, folder, *command, **nowhere), "/no/such/folder", "TMPDIR")


def test_no_linker(tools, folder, program):
    (folder / "empty").mkdir()
    nowhere = {"environment": {"PATH": str(folder / "empty")}}
    command = ["optimus-compile", program, "-o", "out"]
    refuse(run(tools, folder, *command, **nowhere), "no linker", "PATH")


# --------------------------------------------------------------------- signals


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "TERM", "USR1", "XCPU"])
def test_a_signal_leaves_nothing(tools, folder, program, name):
    number = getattr(signal, "SIG" + name)
    moments = random.Random(name)
    killed = 0
    for _ in range(4):
        process = start(tools, folder, "optimus-compile", program, "-o", "out.so")
        time.sleep(moments.uniform(0.02, 0.35))
        process.send_signal(number)
        _, message = process.communicate(timeout=TIMEOUT_SECONDS)
        killed += process.returncode == -number
        # It is no crash.
        assert not message
        # The linker may live a little longer.
        for _ in range(100):
            if left_in(folder) in ([], ["out.so"]):
                break
            time.sleep(0.02)
        assert left_in(folder) in ([], ["out.so"])
        (folder / "out.so").unlink(missing_ok=True)
    assert killed > 0


def test_what_was_killed_is_cleaned_up_later(tools, folder, program):
    command = ["optimus-compile", program, "-o", "out.so"]
    process = start(tools, folder, *command)
    while process.poll() is None and not list((folder / "tmp").iterdir()):
        time.sleep(0.001)
    process.kill()
    process.communicate(timeout=TIMEOUT_SECONDS)
    (left,) = (folder / "tmp").iterdir()
    # Younger ones may belong to somebody who has just begun.
    os.utime(left, (time.time() - 100, time.time() - 100))
    accept(run(tools, folder, *command))
    assert left_in(folder) == ["out.so"]


def test_ignored_signals_stay_ignored(tools, folder, program):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    command = ["optimus-compile", program, "-o", "out.so"]
    process = start(tools, folder, *command, preexec=ignore)
    time.sleep(0.1)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0

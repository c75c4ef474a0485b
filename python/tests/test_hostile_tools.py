# ===- test_hostile_tools.py - What a machine and a user can do -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The compiler's tools destroy nothing that a user has, lose nothing, and are
not silent about it: on devices, links, full disks, without memory, and when a
signal ends them."""

import os
import random
import re
import resource
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tools import Model, TIMEOUT_SECONDS

MODEL = Model(layers=1, hidden=8, heads=2, sequence=8, vocabulary=16, batch=2)

IDENTITY = """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
"""
RANGES = "id,lower,upper,size\n0,0,2,64\n1,1,3,64\n"


@pytest.fixture
def program(tools):
    return tools.program(MODEL)


@pytest.fixture
def folder(tmp_path):
    """Where a tool works, with inputs and a TMPDIR of its own."""
    (tmp_path / "f.mlir").write_text(IDENTITY)
    (tmp_path / "ranges.csv").write_text(RANGES)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def start(tools, folder, tool, *arguments, limits={}, **options):
    """A tool in its folder; `limits` are resource limits."""

    def limit():
        for which, value in limits.items():
            resource.setrlimit(which, (value, value))

    environment = dict(os.environ, TMPDIR=str(folder / "tmp"))
    environment.update(options.pop("environment", {}))
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options}
    command = tools.command(tool, *arguments)
    return subprocess.Popen(
        [os.path.abspath(command[0]), *command[1:]],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=options.pop("preexec", limit),
        **options,
    )


def run(tools, folder, tool, *arguments, **options):
    process = start(tools, folder, tool, *arguments, **options)
    try:
        output, message = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(
        process.args, process.returncode, output, message
    )


def refuse(result, *words, tool="optimus-"):
    """One message of the tool's, exit code 1, and no trace of a crash."""
    assert result.returncode == 1, (result.returncode, result.stderr)
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1, result.stderr
    for word in words:
        assert str(word) in errors[0], result.stderr
    for trace in ("Stack dump", "LLVM ERROR", "terminate called", "internal error"):
        assert trace not in result.stderr


def accept(result):
    assert result.returncode == 0, result.stderr
    return result


def left_in(folder):
    """Files that a tool may have left, besides what the test put there."""
    known = {"f.mlir", "ranges.csv", "tmp"}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if str(path.relative_to(folder)) not in known
    )


# Each tool that writes a file, by what is called before the file's name.
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
        IDENTITY.replace("-> tensor<2xf32>", '-> (tensor<2xf32> {optimus.binding = "../x"})')
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
    dumped = ["optimus-compile", "dumps/00-input.mlir", "--compile-to=input"]
    dumps = ["--dump-phases-to", "dumps"]
    refuse(run(tools, folder, *dumped, *dumps), "--dump-phases-to", "same file")
    both = ["-o", "dumps/01-differentiate.mlir", *dumps]
    refuse(run(tools, folder, *compile, *both), "same file")
    assert (folder / "dumps" / "00-input.mlir").read_text() == IDENTITY
    assert (folder / "profile.json").read_text() == '{"version": 1}'


def test_results_do_not_replace_arguments(tools, folder):
    (folder / "same.mlir").write_text(
        IDENTITY.replace("-> tensor<2xf32>", '-> (tensor<2xf32> {optimus.binding = "arg0"})')
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


def test_a_limit_on_memory(tools, folder, program):
    """However little there is, it is one message that says what was asked for."""
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
            assert "error while loading shared libraries" in result.stderr
            break
        refuse(result, "out of memory", "bytes were asked for", "ulimit -v")
        assert left_in(folder) == []
    else:
        less += 2
    assert less > 1, "no limit was reached by the compiler itself"


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


# ---------------------------------------------------------------------- inputs

# Each tool that reads a file, by what is called around the file's name.
READERS = {
    "compile": ("optimus-compile", "--compile-to=input", "-o", "/dev/null"),
    "opt": ("optimus-opt", "-o", "/dev/null"),
    "interpret": ("optimus-interpret", "--function=f", "--draw=9"),
    "plan": ("optimus-plan",),
    "profile": (
        *("optimus-compile", "f.mlir", "--compile-to=input", "-o", "/dev/null"),
        "--machine-profile",
    ),
}
readers = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)


@readers
def test_what_never_ends_or_never_begins_is_refused(tools, folder, reader):
    os.mkfifo(folder / "pipe")
    for name in ("/dev/zero", "pipe", "tmp", "absent"):
        refuse(run(tools, folder, *reader, name), name)


def test_an_array_that_never_begins_is_refused(tools, folder):
    (folder / "in").mkdir()
    os.mkfifo(folder / "in" / "arg0.npy")
    flags = ["f.mlir", "--function", "f", "--inputs", "in"]
    refuse(run(tools, folder, "optimus-interpret", *flags), "arg0.npy")


def test_a_profile_may_come_from_a_pipe(tools, folder, program):
    # Every phase that predicts times reads it.
    reading, writing = os.pipe()
    os.write(writing, b'{"version": 1}')
    os.close(writing)
    flags = ["--machine-profile", "/dev/stdin", "--compile-to=place", "-o", "out"]
    accept(run(tools, folder, "optimus-compile", program, *flags, stdin=reading))
    os.close(reading)


@pytest.mark.parametrize("name", ['a "profile".json', "a 'b' {c}=d.json"])
def test_a_profile_may_have_any_name(tools, folder, program, name):
    (folder / name).write_text('{"version": 1}')
    flags = ["--machine-profile", name, "--compile-to=place", "-o", "out"]
    accept(run(tools, folder, "optimus-compile", program, *flags))


@pytest.mark.parametrize(
    "profile, words",
    [
        ("[" * 1_000_000, ["nested deeper"]),
        (
            '{"version": 1, "comm": [{"backend": "local", "ranks": 2, "collective": '
            '"reduce", "alpha_s": 1, "beta_s_per_byte": 1, "points": [{"bytes": -1, '
            '"seconds": 1}]}]}',
            ["profile.comm[0].points[0].bytes"],
        ),
    ],
    ids=["deep", "negative"],
)
def test_a_malformed_profile(tools, folder, profile, words):
    (folder / "profile.json").write_text(profile)
    reader = READERS["profile"]
    refuse(run(tools, folder, *reader, "profile.json"), "profile.json", *words)


@pytest.mark.parametrize("tool", ["compile", "opt", "interpret"])
@pytest.mark.parametrize(
    "text, word",
    [
        ("module {" * 100_000, "nested deeper"),
        ("\x7fELF\0\0\0", "binary"),
    ],
    ids=["deep", "binary"],
)
def test_a_program_that_is_none(tools, folder, tool, text, word):
    (folder / "bad.mlir").write_text(text)
    refuse(run(tools, folder, *READERS[tool], "bad.mlir"), "bad.mlir", word)


# ------------------------------------------------------------- standard output

PRINTERS = [
    ("optimus-compile", "--help"),
    ("optimus-compile", "--version"),
    ("optimus-compile", "f.mlir", "--compile-to=input"),
    ("optimus-compile", "f.mlir", "--compile-to=input", "-o", "/dev/stdout"),
    ("optimus-interpret", "--help"),
    ("optimus-interpret", "f.mlir", "--function=f", "--draw=9", "--print"),
    ("optimus-lsp-server", "--help"),
    ("optimus-opt", "--help"),
    ("optimus-opt", "--list-passes"),
    ("optimus-opt", "f.mlir"),
    ("optimus-plan", "--help"),
    ("optimus-plan", "--version"),
    ("optimus-plan", "ranges.csv", "--report"),
    ("optimus-plan", "ranges.csv", "-o", "-"),
]
printers = pytest.mark.parametrize("printer", PRINTERS, ids=" ".join)


@printers
def test_output_that_is_lost_is_an_error(tools, folder, printer):
    with open("/dev/full", "w") as full:
        result = run(tools, folder, *printer, stdout=full)
    refuse(result, "No space left on device")


@printers
def test_output_that_arrives_is_none(tools, folder, printer):
    assert accept(run(tools, folder, *printer)).stdout


@printers
def test_a_reader_may_leave(tools, folder, printer):
    reading, writing = os.pipe()
    os.close(reading)
    result = run(tools, folder, *printer, stdout=writing)
    os.close(writing)
    assert result.returncode == -signal.SIGPIPE
    assert result.stderr == ""


def test_a_report_that_is_lost(tools, folder, program):
    flags = ["--report", "--compile-to=place", "-o", "out"]
    with open("/dev/full", "w") as full:
        result = run(tools, folder, "optimus-compile", program, *flags, stdout=full)
    refuse(result, "standard output", "No space left on device")


# -------------------------------------------------------- whose fault it is: 1


def test_a_program_without_its_model(tools, folder, program):
    text = program.read_text().replace("optimus.model", "builder.model")
    (folder / "bare.mlir").write_text(text)
    refuse(run(tools, folder, "optimus-compile", "bare.mlir", "-o", "out"), "optimus.model")
    # What needs no manifest needs no model.
    flags = ["bare.mlir", "--compile-to=place", "-o", "out"]
    accept(run(tools, folder, "optimus-compile", *flags))


@pytest.mark.parametrize("extent", [2**40, 2**61 - 1])
def test_tensors_without_measure(tools, folder, extent):
    shape = "tensor<%dx%dxf32>" % (extent, 4)
    (folder / "vast.mlir").write_text(IDENTITY.replace("tensor<2xf32>", shape))
    flags = ["vast.mlir", "--compile-to=input"]
    if extent > 2**48:
        refuse(run(tools, folder, "optimus-compile", *flags), "2^50 bytes")
    flags = ["vast.mlir", "--function", "f", "--draw", 9]
    refuse(run(tools, folder, "optimus-interpret", *flags), "@f", "GiB")


def test_intermediate_values_without_measure(tools, folder):
    (folder / "outer.mlir").write_text(
        """func.func @f(%a: tensor<9000000x1xf32>, %b: tensor<1x9000000xf32>) -> tensor<9000000x9000000xf32> {
  %0 = optimus.matmul %a, %b : (tensor<9000000x1xf32>, tensor<1x9000000xf32>) -> tensor<9000000x9000000xf32>
  return %0 : tensor<9000000x9000000xf32>
}
"""
    )
    flags = ["outer.mlir", "--function", "f", "--draw", 9]
    refuse(run(tools, folder, "optimus-interpret", *flags), "9000000x9000000", "GiB")


# ----------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--stratgy=summa"], ["unknown option '--stratgy'", "'--strategy'"]),
        (["--mesh=nonsense", "--reprot"], ["unknown option '--reprot'", "'--report'"]),
        (["--strategy=sumna"], ["unknown strategy 'sumna'", "did you mean 'summa'?"]),
        (["--optimizer=adam"], ["unknown optimizer 'adam'", "did you mean 'adamw'?"]),
        (["--recompute=layers"], ["unknown policy 'layers'", "did you mean 'layer'?"]),
        (["--compile-to=plce"], ["unknown phase 'plce'", "did you mean 'place'?"]),
        (["--schedule=overlp"], ["unknown schedule", "did you mean 'overlap'?"]),
        (["--move=panel"], ["unknown way 'panel'", "did you mean 'panels'?"]),
        (["-o", "again"], ["-o is given twice"]),
        (["--report", "--report"], ["--report is given twice"]),
        (["--mesh"], ["--mesh: expected a value"]),
        (["--mesh="], ["--mesh: expected a value"]),
        (["--report=perhaps"], ["--report: expected true or false", "perhaps"]),
        (["other.mlir"], ["two inputs", "f.mlir", "other.mlir"]),
        (["@f.mlir"], ["@f.mlir", "not read from files"]),
        (["--strategy=auto", "--ranks=0"], ["--ranks: expected a number from 1 to 4096"]),
        (["--strategy=auto", "--ranks=many"], ["--ranks: expected", "many"]),
        (["--ranks=4"], ["--ranks is for --strategy auto"]),
        (["--panels=-1"], ["--panels: expected a number from 1 to 64"]),
        (["--report", "--compile-to=fuse"], ["--report: expected --compile-to place"]),
        (["--mesh=row:99999999999999999999"], ["--mesh"]),
        (["--memory-budget=9999999999GiB"], ["--memory-budget"]),
    ],
    ids=" ".join,
)
def test_mistakes_on_the_command_line(tools, folder, arguments, words):
    command = ["optimus-compile", "f.mlir", "-o", "out", *arguments]
    refuse(run(tools, folder, *command), *words)
    assert left_in(folder) == []


@pytest.mark.parametrize(
    "command, words",
    [
        (["optimus-opt", "--optimus-diferentiate"], ["'--optimus-differentiate'"]),
        (["optimus-opt", "f.mlir", "-o", "a", "-o", "b"], ["-o is given twice"]),
        (["optimus-interpret", "--functoin=f"], ["'--function'"]),
        (["optimus-interpret", "f.mlir", "--function=g"], ["@f"]),
        (["optimus-interpret", "f.mlir", "--draw=0"], ["--draw: expected a number"]),
        (["optimus-interpret", "f.mlir", "--seed=-1"], ["--seed: expected a number"]),
        (["optimus-interpret", "f.mlir", "--set=a=1", "--set=a=2"], ["'a' is given twice"]),
        (["optimus-interpret", "f.mlir", "--function=f", "--set=arg1=1"], ["'arg0'"]),
        (["optimus-lsp-server", "--lit-tset"], ["'--lit-test'"]),
        (["optimus-lsp-server", "f.mlir"], ["expected no file"]),
        (["optimus-plan", "--reprot", "ranges.csv"], ["'--report'"]),
        (["optimus-plan", "ranges.csv", "f.mlir"], ["f.mlir"]),
        (["optimus-plan", "ranges.csv", "--budget=1", "--budget=2"], ["given twice"]),
        (["optimus-plan", "ranges.csv", "--node-limit=-1"], ["--node-limit"]),
        (["optimus-plan"], ["FILE.csv"]),
    ],
    ids=" ".join,
)
def test_mistakes_on_other_command_lines(tools, folder, command, words):
    result = run(tools, folder, *command)
    refuse(result, *words)
    assert result.stderr.startswith(command[0] + ": error: ")


@pytest.mark.parametrize("name", ["compile", "interpret", "lsp-server", "opt", "plan"])
def test_help_and_version(tools, folder, name):
    tool = "optimus-" + name
    version = accept(run(tools, folder, tool, "--version")).stdout
    assert re.match(r"%s \d+\.\d+\.\d+\b" % tool, version)
    assert len(version.splitlines()) == 1
    text = accept(run(tools, folder, tool, "--help")).stdout
    assert tool in text and "--version" in text
    # LLVM has hundreds of flags.
    assert len(text.splitlines()) < 90
    assert "--x86-" not in text


# -------------------------------------------------- going on from what is there


@pytest.fixture(scope="module")
def dumps(tools, tmp_path_factory):
    """The phases of a compilation whose flags are not the defaults."""
    folder = tmp_path_factory.mktemp("dumps")
    (folder / "profile.json").write_text('{"version": 1}')
    flags = ["--mesh=row:1,col:2", "--strategy=megatron", "--optimizer=sgd"]
    flags += ["--recompute=layer", "--accumulate", "--schedule=none", "--move=whole"]
    command = [tools.program(MODEL), *flags, "--dump-phases-to", folder]
    tools.run("optimus-compile", *command, "-o", folder / "whole.so")
    return folder


@pytest.mark.parametrize("phase", ["00-input", "03-shard", "06-fuse", "09-place"])
def test_flags_need_not_be_repeated(tools, dumps, tmp_path, phase):
    name = phase.split("-")[1]
    command = [dumps / (phase + ".mlir"), "--compile-from", name]
    tools.run("optimus-compile", *command, "-o", tmp_path / "rest.so")
    assert (tmp_path / "rest.so").read_bytes() == (dumps / "whole.so").read_bytes()


@pytest.mark.parametrize(
    "flag, recorded",
    [
        ("--mesh=row:2,col:1", "row:1,col:2"),
        ("--strategy=summa", "megatron"),
        ("--optimizer=adamw", "sgd"),
        ("--recompute=none", "layer"),
        ("--accumulate=false", "true"),
        ("--no-pad", "false"),
        ("--move=panels", "whole"),
        ("--schedule=overlap", "none"),
        ("--extra-workspace=20%", "10%"),
    ],
)
def test_flags_cannot_contradict_what_is_done(tools, dumps, folder, flag, recorded):
    command = [dumps / "09-place.mlir", "--compile-from=place", flag, "-o", "out"]
    result = run(tools, folder, "optimus-compile", *command)
    refuse(result, flag.split("=")[0] + ":", "'%s'" % recorded)
    assert left_in(folder) == []


def test_what_is_not_done_yet_can_still_be_chosen(tools, dumps, folder):
    command = [dumps / "03-shard.mlir", "--compile-from=shard", "--strategy=megatron"]
    command += ["--schedule=overlap", "--compile-to=schedule", "-o", "out.mlir"]
    accept(run(tools, folder, "optimus-compile", *command))
    text = (folder / "out.mlir").read_text()
    assert 'schedule = "overlap"' in text and 'strategy = "megatron"' in text


def test_the_phase_must_be_the_one_that_is_there(tools, dumps, folder):
    wrong = [dumps / "03-shard.mlir", "--compile-from=fuse", "-o", "out"]
    refuse(run(tools, folder, "optimus-compile", *wrong), "--compile-from", "'shard'")
    none = [dumps / "03-shard.mlir", "-o", "out"]
    refuse(run(tools, folder, "optimus-compile", *none), "--compile-from=shard")


def test_a_record_that_is_spoilt(tools, dumps, folder):
    text = (dumps / "03-shard.mlir").read_text()
    for spoilt, word in (
        (text.replace('strategy = "megatron"', 'strategy = "magic"'), "magic"),
        (text.replace('phase = "shard"', "phase = 3 : i64"), "optimus.compilation"),
    ):
        (folder / "spoilt.mlir").write_text(spoilt)
        command = ["spoilt.mlir", "--compile-from=shard", "-o", "out"]
        refuse(run(tools, folder, "optimus-compile", *command), word)


# ---------------------------------------------------------------------- report


def report(tools, folder, program, *flags):
    flags = ["--report", "--compile-to=place", "-o", "/dev/null", *flags]
    return accept(run(tools, folder, "optimus-compile", program, *flags)).stdout


def in_bytes(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]


def test_the_report_adds_up_what_a_rank_holds(tools, folder, program):
    text = report(tools, folder, program, "--mesh=row:2,col:2")
    size = r"([\d.]+ [KMG]?i?B)"
    rows = re.findall(r"^(\w+) +" + " +".join([size] * 6) + "$", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["train_step", "eval_step", "grad_step"]
    for _, *sizes in rows:
        *parts, total = map(in_bytes, sizes)
        # Each is rounded to three digits.
        assert total == pytest.approx(sum(parts), rel=0.02)
    parameters, state, gradients = map(in_bytes, rows[0][1:4])
    assert state == pytest.approx(2 * parameters, rel=0.01) and gradients == 0
    total = in_bytes(re.search(r"^4 ranks need %s" % size, text, re.MULTILINE)[1])
    assert total == pytest.approx(4 * in_bytes(rows[0][6]), rel=0.02)
    assert "this machine has" in text and "all of them fit" in text


def test_the_report_says_why_a_rank_waits(tools, folder, program):
    text = report(tools, folder, program, "--mesh=row:2,col:2", "--schedule=none")
    step = text.split("eval_step")[0]
    (exposed,) = re.findall(r"([\d.]+) ms waiting for", step)
    (waits,) = re.findall(r"waits +(.*)", step)
    (because,) = re.findall(r"because +(.*)", step)
    assert re.search(r"ms of \d+ (all_reduce|broadcast|reduce) over (row|col)", waits)
    for line in (waits, because):
        numbers = [float(number) for number in re.findall(r"([\d.]+) ms", line)]
        assert sum(numbers) == pytest.approx(float(exposed), abs=0.005 * len(numbers) + 0.01)
    # Waited for where they start, all have nothing to compute meanwhile.
    assert because.endswith("have nothing to compute meanwhile") and "," not in because


def test_one_rank_waits_for_nothing(tools, folder, program):
    text = report(tools, folder, program)
    assert "waits" not in text and "because" not in text
    assert "it fits" in text


def test_a_budget_is_kept_without_a_choice(tools, folder, program):
    text = report(tools, folder, program, "--memory-budget=1GiB")
    assert "fits the memory budget of 1.00 GiB" in text
    command = ["optimus-compile", program, "--memory-budget=1KiB", "-o", "out"]
    refuse(run(tools, folder, *command), "no layout fits the memory budget")
    assert left_in(folder) == []

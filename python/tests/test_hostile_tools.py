# ===- test_hostile_tools.py - What is wrong is said ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The compiler's tools report wrong inputs, flags and streams in one message, and tell
the user's mistakes from faults of ours."""

import os
import re
import signal

import pytest

from hostile import IDENTITY, accept, folder, left_in, program, refuse, run

pytestmark = pytest.mark.rotates


# ---------------------------------------------------------------------- inputs

# Each tool that reads a file, with its arguments around the file's name.
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
        ("[" * 1_000_000, ["more than 64 deep"]),
        (
            '{"version": 1, "comm": [{"backend": "local", "ranks": 2, "collective": '
            '"reduce", "alpha_s": 1, "beta_s_per_byte": 1, "points": [{"bytes": -1, '
            '"seconds": 1}]}]}',
            ["': comm[0].points[0].bytes: expected"],
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


@pytest.mark.parametrize("tool", ["optimus-compile", "optimus-interpret"])
@pytest.mark.parametrize("before, after", [(0, 3000), (3000, 0), (3000, 3000)])
def test_of_a_long_line_only_the_place_is_quoted(tools, folder, tool, before, after):
    """Signatures in dumps have thousands of letters."""
    arguments = ["%%x%d: f32" % number for number in range(before // 10)]
    arguments += ["%wrong: f33"]
    arguments += ["%%y%d: f32" % number for number in range(after // 10)]
    text = "func.func @f(%s) { return }" % ", ".join(arguments)
    (folder / "long.mlir").write_text(text)
    flag = "-o=q.so" if tool == "optimus-compile" else "--function=f"
    result = run(tools, folder, tool, "long.mlir", flag)
    assert result.returncode == 1
    said, quoted, caret = result.stderr.splitlines()[:3]
    # MLIR points behind the token before.
    column = text.index(" f33")
    assert said.startswith("long.mlir:1:%d: error: " % (column + 1))
    assert quoted[caret.index("^") :].startswith(" f33")
    assert len(quoted) < 130


def test_a_diagnostic_is_not_the_program(tools, folder, program):
    """What a pass refuses is named; the program that it refuses is not printed."""
    flags = ["--optimus-shard=mesh=row:2,col:2 strategy=sumTa"]
    result = run(tools, folder, "optimus-opt", program, *flags)
    refuse(result, "unknown strategy 'sumTa'")
    assert len(result.stderr.splitlines()) == 3


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
    ("optimus-simulate", "--help"),
    ("optimus-simulate", "--version"),
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
        (["--schedule=balancd"], ["unknown schedule", "did you mean 'balanced'?"]),
        (["--move=panel"], ["unknown way 'panel'", "did you mean 'panels'?"]),
        (["-o", "again"], ["-o is given twice"]),
        (["--report", "--report"], ["--report is given twice"]),
        (["--mesh"], ["--mesh: expected a value"]),
        (["--mesh="], ["--mesh: expected a value"]),
        (["--report=perhaps"], ["--report: expected true or false", "perhaps"]),
        (["other.mlir"], ["two inputs", "f.mlir", "other.mlir"]),
        (["@f.mlir"], ["@f.mlir", "not read from files"]),
        (["--strategy=auto", "--ranks=0"], ["--ranks: expected a number from 1 to 16384"]),
        (["--strategy=auto", "--ranks=many"], ["--ranks: expected", "many"]),
        (["--ranks=4"], ["--ranks: expected --strategy auto beside it", "--mesh"]),
        (["--panels=-1"], ["--panels: expected a number from 1 to 64"]),
        (["--report", "--compile-to=fuse"], ["--report: expected --compile-to place"]),
        (["--mesh=row:99999999999999999999"], ["--mesh"]),
        (["--memory-budget=9999999999GiB"], ["--memory-budget"]),
        (["--offload=state="], ["--offload: expected a size of state", "'state='"]),
        (["--offload=state=-1"], ["--offload: expected a size of state", "'state=-1'"]),
        (["--offload=state=1KiB,state"], ["--offload: expected the state once", "'state'"]),
        (["--offload=parameters=1KiB"], ["--offload: expected", "'parameters=1KiB'"]),
        (["--offload=state,,"], ["--offload: expected", "found ''"]),
        (["--offload-bandwidth=1GiB,1GiB,1GiB"], ["--offload-bandwidth: expected", "two"]),
        (["--offload-bandwidth=,", "--memory-budget=1KiB"], ["--offload-bandwidth: expected"]),
        (["--target=cuda", "--offload-to=file"], ["--offload-to: expected host", "--target"]),
        (["--target=cuda", "--gpu-arch=sm_70"], ["--gpu-arch: expected sm_80 or newer", "sm_70"]),
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
        (["optimus-plan", "ranges.csv", "--capacity=1", "--capacity=2"], ["given twice"]),
        (["optimus-plan", "ranges.csv", "--node-limit=-1"], ["--node-limit"]),
        (["optimus-plan"], ["FILE.csv"]),
        (["optimus-simulate", "--sraggler=1=2", "f.so"], ["'--straggler'"]),
        (["optimus-simulate", "f.so"], ["f.so"]),
        (["optimus-simulate"], ["LIBRARY"]),
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
    assert len(text.splitlines()) < 140
    assert "--x86-" not in text


def test_the_longest_help_is_short(tools, folder):
    text = accept(run(tools, folder, "optimus-run", "train", "--help")).stdout
    assert "--microbatches" in text and len(text.splitlines()) < 140

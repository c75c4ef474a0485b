# ===- test_compile_records.py - Flags that IR carries, and the report ----===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""IR of a phase carries the flags that made it; the report names the bytes of a rank
and its waits."""

import re

import pytest

from hostile import MODEL, accept, folder, left_in, program, refuse, run


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


@pytest.mark.variants
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
        ("--precision=bf16", "f32"),
        ("--no-pad", "false"),
        ("--move=panels", "whole"),
        ("--schedule=time", "none"),
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
    command += ["--schedule=time", "--compile-to=schedule", "-o", "out.mlir"]
    accept(run(tools, folder, "optimus-compile", *command))
    text = (folder / "out.mlir").read_text()
    assert 'schedule = "time"' in text and 'strategy = "megatron"' in text


@pytest.mark.variants
@pytest.mark.parametrize("phase", ["00-input", "06-fuse", "09-place"])
def test_a_flag_may_rest_on_one_that_the_file_has(tools, folder, phase):
    """--deterministic and --attention cudnn are refused without --target cuda: the file
    has all three."""
    flags = ["--target=cuda", "--gpu-arch=sm_90", "--attention=cudnn", "--deterministic"]
    flags += ["--precision=bf16"]
    dumps = folder / "dumps"
    model = MODEL._replace(hidden=16)  # cuDNN wants heads of 8
    command = [tools.program(model), *flags, "--dump-phases-to", dumps]
    tools.run("optimus-compile", *command, "--compile-to=place", "-o", "/dev/null")
    start = ["%s.mlir" % (dumps / phase), "--compile-from", phase.split("-")[1]]
    if phase == "09-place":
        rest = ["--report", "--gpu-arch=emulated", "-o", "out.so"]
    else:
        rest = ["--compile-to=place", "-o", "out.mlir"]
    accept(run(tools, folder, "optimus-compile", *start, "--deterministic", *rest))
    # What the file says otherwise still does not agree.
    result = run(
        tools, folder, "optimus-compile", *start, "--deterministic", "--target=cpu", *rest
    )
    refuse(result, "--attention cudnn: expected --target cuda")


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
    rows = re.findall(r"^(\w+) +" + " +".join([size] * 7) + "$", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["train_step", "eval_step", "grad_step"]
    for _, *sizes in rows:
        *parts, total = map(in_bytes, sizes)
        # Each is rounded to three digits.
        assert total == pytest.approx(sum(parts), rel=0.02)
    parameters, state, gradients = map(in_bytes, rows[0][1:4])
    assert state == pytest.approx(2 * parameters, rel=0.01) and gradients == 0
    total = in_bytes(re.search(r"^4 ranks need %s" % size, text, re.MULTILINE)[1])
    assert total == pytest.approx(4 * in_bytes(rows[0][7]), rel=0.02)
    assert re.search("this (machine|container) has", text) and "all of them fit" in text


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

# ===- test_largest_batch.py - The largest batch before anything runs -------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.largest_batch` finds the largest batch that trains."""

import json
import os
import re
import sys

import pytest

from optimus.bisection import largest
from optimus.largest_batch import Trial, find_drop
from optimus.planning import Plan
from simulation import CLUSTER
from simulation import MODEL as SMALL
from tools import EMULATED, REPOSITORY, Model, call, command_line, succeed

# Most of what it holds are activations of its layers.
MODEL = Model(layers=3, hidden=32, heads=2, sequence=16, vocabulary=256, batch=1)
STEPS = 2
# Of which 32 MiB are the workspace of products.
GPU_BYTES = 35 << 20


def look(tools, model, *flags, options=(), more=()):
    """Runs it for a model, whatever its batch and with more of its flags, with flags
    of the compiler."""
    path = "%s:%s" % (os.path.abspath(tools.binaries), os.environ["PATH"])
    environment = dict(os.environ, PATH=path, PYTHONPATH=str(REPOSITORY / "python"))
    command = [sys.executable, "-m", "optimus.largest_batch", *options]
    command += [model.KIND, *command_line(model._replace(batch=None)), *more, "--", *flags]
    return call([str(part) for part in command], env=environment)


def find(tools, tmp_path, model, *flags, options=(), more=()):
    """What --json has, and standard output."""
    file = tmp_path / "found.json"
    output = succeed(look(tools, model, *flags, options=("--json", file, *options), more=more))
    return json.loads(file.read_text()), output


@pytest.fixture(scope="module")
def small_gpu(tmp_path_factory):
    """A machine profile of a GPU of GPU_BYTES."""
    return profile_of(tmp_path_factory.mktemp("gpu"), GPU_BYTES)


def profile_of(folder, memory):
    gpu = {"name": "a small GPU", "memory_bytes": memory, "reserved_bytes": 0}
    path = folder / "gpu.json"
    path.write_text(json.dumps({"version": 1, "gpu": gpu}))
    return path


def train(tools, text, batch, memory, *flags):
    """A run on a fake GPU with so much memory."""
    library = tools.library(MODEL._replace(batch=batch), None, "serial", *EMULATED, *flags)
    command = tools.train_command(library, text, STEPS)
    return call(command, env=tools.fake_gpu(bytes=memory))


def is_out_of_memory(result):
    return result.returncode == 1 and "cannot allocate" in result.stderr


@pytest.mark.rotates
def test_the_largest_batch_trains_and_the_next_does_not(tools, text, tmp_path, small_gpu):
    flags = (*EMULATED, "--machine-profile", small_gpu)
    found, output = find(tools, tmp_path, MODEL, *flags)
    batch = found["largest"]["batch"]
    assert found["limit"] == {"of": "a small GPU", "bytes": GPU_BYTES}
    assert batch > 8
    assert output.splitlines()[-1].startswith("largest: batch %d: " % batch)
    succeed(train(tools, text, batch, GPU_BYTES))
    assert is_out_of_memory(train(tools, text, batch + 1, GPU_BYTES))
    # Recomputation makes room for more, and the flag that asks for it is named.
    more = found["recomputing"]
    budget = "--memory-budget=%d" % GPU_BYTES
    assert more["fits"] and more["batch"] == 2 * batch
    assert "with %s: batch %d: " % (budget, 2 * batch) in output
    needed = more["report"]["rank_bytes"]
    assert needed <= GPU_BYTES
    succeed(train(tools, text, 2 * batch, needed, budget))
    assert is_out_of_memory(train(tools, text, 2 * batch, needed - 1, budget))


@pytest.mark.rotates
def test_the_largest_batch_of_bf16(tools, text, tmp_path, small_gpu):
    flags = ("--precision", "bf16", "--recompute", "none")
    given = (*EMULATED, *flags, "--machine-profile", small_gpu)
    found, _ = find(tools, tmp_path, MODEL, *given, options=("--multiple-of", 4))
    batch = found["largest"]["batch"]
    succeed(train(tools, text, batch, GPU_BYTES, *flags))
    assert is_out_of_memory(train(tools, text, batch + 4, GPU_BYTES, *flags))
    assert found["recomputing"] is None, "the user forbids it"


@pytest.mark.rotates
@pytest.mark.parametrize(
    "flags, unit",
    [([], 1), (["--mesh", "row:2,col:1", "--recompute", "none"], 2)],
    ids=["recomputed", "mesh"],
)
def test_budgets_of_processors(tools, tmp_path, flags, unit):
    """What is found compiles within the budget, and the next multiple does not."""
    budget = ("--memory-budget", "2MiB")
    found, _ = find(tools, tmp_path, MODEL, *flags, *budget)
    answer = found["largest"]
    # Batches are padded, so the largest one is a multiple of the mesh's size.
    assert answer["batch"] % unit == 0
    assert found["recomputing"] is None, "the compiler does that already"
    assert found["limit"] == {"of": "the memory budget", "bytes": 2 << 20}
    for batch, code in ((answer["batch"], 0), (answer["batch"] + 1, 1)):
        source = tools.program(MODEL._replace(batch=batch))
        result = tools.call("optimus-compile", source, *flags, *budget, "-o", tmp_path / "b.so")
        assert result.returncode == code, result.stderr
    # The answer's figures are those of the manifest and of the run.
    library = tmp_path / "b.so"
    figures = json.loads(tools.run("optimus-run", "bench", library, "--steps", 1, "--json"))
    memory = answer["report"]["memory"]["train_step"]
    assert figures["memory"]["arena"] == memory["arena"]
    assert memory["total"] <= 2 << 20


def test_the_most_slots_of_a_context(tools, tmp_path):
    """What is found compiles within the budget, and one slot more does not."""
    budget, extents = ("--memory-budget", "1MiB"), "slots=%s,context=16,chunk=8"
    found, output = find(
        tools, tmp_path, MODEL, *budget, more=("--generate", extents % "most")
    )
    answer = found["largest"]
    slots, report = answer["slots"], answer["report"]
    assert slots > 8
    assert output.splitlines()[-1].startswith("largest: slots %d: " % slots)
    assert answer["decode_ms"] == report["schedule"]["decode"]["predicted_step_ms"]
    assert answer["tokens_per_s"] == pytest.approx(1e3 * slots / answer["decode_ms"])
    for number, code in ((slots, 0), (slots + 1, 1)):
        source = tools.program(MODEL, functions=None, generate=extents % number)
        result = tools.call("optimus-compile", source, *budget, "-o", tmp_path / "g.so")
        assert result.returncode == code, result.stderr


def test_the_most_pages_of_slots(tools, tmp_path):
    """Up to whole contexts, in multiples of the slots."""
    model = MODEL._replace(sequence=128)
    extents = ("--generate", "slots=4,context=128,chunk=8,pages=most")
    found, output = find(tools, tmp_path, model, "--memory-budget", "64MiB", more=extents)
    assert [each["pages"] for each in found["tried"]] == [4, 8, 16, 12]
    assert found["largest"]["pages"] == 8
    assert "pages 12 is refused: " in output and "expected at most the 8 of 4 slots" in output
    result = look(tools, model, "--memory-budget", "64KiB", more=extents)
    assert result.returncode == 1 and "with 4 pages: " in result.stderr


@pytest.mark.rotates
def test_steps_on_a_cluster_are_simulated(tools, tmp_path):
    """The largest batch of a cluster, with what its steps take on the best placement."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(CLUSTER))
    flags = ("--mesh", "row:2,col:2", "--strategy", "summa", "--recompute", "none")
    flags += ("--memory-budget", "512KiB", "--cluster", path)
    found, output = find(tools, tmp_path, SMALL, *flags, options=("--multiple-of", 8))
    largest, report = found["largest"], found["largest"]["report"]
    assert largest["step_ms"] == report["finalists"][0]["step_ms"]
    assert {one["placement"] for one in report["finalists"]} == {"row:2,col:1", "row:1,col:2"}
    predicted = report["schedule"]["train_step"]["predicted_step_ms"]
    assert largest["step_ms"] != predicted
    assert "largest: batch %d: " % largest["batch"] in output


def test_memory_grows_with_the_batch(tools, tmp_path):
    """Every batch of a range, with heads in chunks that do not divide them."""
    model = MODEL._replace(layers=1, sequence=100)
    found, _ = find(tools, tmp_path, model, "--memory-budget", "8MiB", "--recompute", "none")
    assert found["largest"]["batch"] >= 8
    needs = []
    for batch in range(1, 9):
        source = tools.program(model._replace(batch=batch))
        flags = ("--compile-to=place", "-o", os.devnull, "--report-json", "-")
        needs.append(json.loads(tools.run("optimus-compile", source, *flags))["rank_bytes"])
    assert needs == sorted(needs) and needs[0] < needs[-1]
    tried = {each["batch"]: each for each in found["tried"] if each["batch"] < 9}
    assert {b: each["report"]["rank_bytes"] for b, each in tried.items()} == {
        batch: needs[batch - 1] for batch in tried
    }


@pytest.mark.rotates
def test_multiples_and_speed(tools, tmp_path):
    flags = ("--memory-budget", "2MiB", "--mesh", "row:2,col:2", "--no-pad")
    result = look(tools, MODEL, *flags)
    assert result.returncode == 1
    assert "with a batch of 1: no layout is possible: " in result.stderr
    assert "has size 1, which is no multiple of 2" in result.stderr
    found, output = find(tools, tmp_path, MODEL, *flags, options=("--multiple-of", 4))
    tried = [each for each in found["tried"]]
    assert all(each["batch"] % 4 == 0 for each in tried)
    assert found["largest"]["batch"] + 4 in {each["batch"] for each in tried}
    for each in tried:
        if "report" in each:
            tokens = each["batch"] * MODEL.sequence
            assert each["tokens_per_s"] == pytest.approx(1e3 * tokens / each["step_ms"])
    fitting = [each for each in tried if each["fits"]]
    assert found["fastest"] == max(fitting, key=lambda each: each["tokens_per_s"])
    # A row for each, and the refused ones with the compiler's reason.
    rows = re.findall(r"^ +(\d+)  +(\S+)", output, re.M)
    assert [int(batch) for batch, _ in rows] == [each["batch"] for each in tried]
    assert "no layout fits the memory budget of 2.00 MiB; the least" in output


@pytest.mark.parametrize("flags", [[], ["--recompute", "none"]], ids=["", "kept"])
def test_nothing_fits(tools, small_gpu, flags):
    """One message: the need, the present memory, and ways out."""
    large = MODEL._replace(hidden=128, layers=2)
    result = look(tools, large, *EMULATED, *flags, "--machine-profile", small_gpu)
    assert result.returncode == 1
    error = result.stderr
    assert len(re.findall(r"error: ", error)) == 1
    assert re.search(
        r"^optimus.largest_batch: error: not even a batch of 1 fits: a rank needs \d+ "
        r"bytes, a small GPU has %d; no layout fits the memory budget" % GPU_BYTES,
        error,
    )
    assert "give more memory, a smaller batch, --offload-bandwidth to keep values" in error
    assert "elsewhere between uses or another layout, of which these were compiled:" in error


def test_flags_of_the_compiler_stand_behind_dashes(tools):
    result = look(tools, MODEL, more=("--memory-budget", "2MiB"))
    assert result.returncode == 1
    assert "no option --memory-budget" in result.stderr
    assert "; flags of optimus-compile stand behind --" in result.stderr


def test_a_budget_that_nothing_fits(tools):
    result = look(tools, MODEL, "--memory-budget", "64KiB")
    assert result.returncode == 1
    assert "error: with a batch of 1: no layout fits the memory budget of 64.0 KiB" in result.stderr
    assert result.stdout == ""


def test_only_recomputation_fits(tools, tmp_path):
    """Then not even the smallest batch fits as it is asked for; the flag is named."""
    deep = MODEL._replace(sequence=256)
    flags = ("--compile-to=place", "-o", os.devnull, "--report-json", "-", *EMULATED)
    kept, least = (
        json.loads(
            tools.run("optimus-compile", tools.program(deep), *flags, "--recompute", policy)
        )["rank_bytes"]
        for policy in ("none", "layer")
    )
    between = (kept + least) // 2
    profile = profile_of(tmp_path, between)
    result = look(tools, deep, *EMULATED, "--machine-profile", profile)
    assert result.returncode == 1
    assert "not even a batch of 1 fits: a rank needs %d bytes, " % kept in result.stderr
    assert "it does with --memory-budget=%d, by recomputation" % between in result.stderr


def test_what_is_refused_for_another_reason(tools, tmp_path):
    """At most 4096 chunks of the head; memory would do."""
    model = MODEL._replace(layers=1, hidden=8, sequence=1024)
    found, output = find(
        *(tools, tmp_path, model, "--memory-budget", "16GiB"),
        options=("--multiple-of", 2048),
        more=("--chunk", 512),
    )
    assert found["largest"]["batch"] == 2048
    (refused,) = re.findall(r"^batch 4096 is refused: (.*)$", output, re.M)
    assert "expected at most 4096 chunks" in refused


def test_chunks_grow_with_the_batch(tools, tmp_path):
    """Where nobody says how large they are, they refuse no batch."""
    model = MODEL._replace(layers=1, hidden=8, sequence=1024)
    source = tools.program(model._replace(batch=4096))
    tools.run("optimus-compile", source, "--compile-to", "step", "-o", os.devnull)


@pytest.mark.parametrize(
    "options, flags, message",
    [
        ((), ["--mash", "row:2"], "unknown option '--mash'"),
        ((), ["--memory-budget", "much"], "--memory-budget: expected a size"),
        ((), ["-o", "gpt.so"], "-o"),
        (("--multiple-of", 0), [], "--multiple-of: expected 1 or more, found 0"),
        (("--multiple-of", "x"), [], "expected a whole number, found 'x'"),
        (("--jsn", "x"), [], "--jsn"),
    ],
)
def test_wrong_flags(tools, options, flags, message):
    result = look(tools, MODEL, *flags, options=options)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("optimus.largest_batch: error: ")
    assert message in result.stderr


def test_a_fault_of_the_compiler(tools, tmp_path):
    """It is passed on, and not taken for what does not fit."""
    broken = tmp_path / "optimus-compile"
    broken.write_text("#!/bin/sh\necho 'optimus-compile: error: broken' >&2\nexit 2\n")
    broken.chmod(0o755)
    environment = dict(os.environ, OPTIMUS_BIN_DIR=str(tmp_path), PATH=os.defpath)
    environment["PYTHONPATH"] = str(REPOSITORY / "python")
    flags = command_line(MODEL._replace(batch=None))
    command = [sys.executable, "-m", "optimus.largest_batch", MODEL.KIND, *flags]
    result = call(command, env=environment)
    assert result.returncode == 2
    assert "with a batch of 1: optimus-compile ended with exit code 2" in result.stderr
    assert "error: broken" in result.stderr
    broken.unlink()
    result = call(command, env=environment)
    assert result.returncode == 1
    assert "expected optimus-compile in %s, found none" % tmp_path in result.stderr


@pytest.mark.rotates
def test_no_case_is_planned_twice(tools, tmp_path):
    """A mesh pads batches: those that it pads to the same are one case."""
    flags = ("--memory-budget", "2MiB", "--mesh", "row:8,col:1", "--recompute", "none")
    found, output = find(tools, tmp_path, MODEL, *flags)
    padded = [-(-each["batch"] // 8) for each in found["tried"]]
    assert len(padded) > 3 and len(padded) == len(set(padded))
    assert found["largest"]["batch"] % 8 == 0
    assert found["largest"]["report"]["model"]["batch"] == found["largest"]["batch"]
    assert len(re.findall(r"^ +\d+  +\S+", output, re.M)) == len(padded)


def test_the_search():
    for most in range(0, 40):
        for unit in (1, 2, 3, 8):
            tried = []

            def fits(batch):
                tried.append(batch)
                return batch <= most

            assert largest(fits, unit) == most // unit * unit
            assert len(tried) == len(set(tried))
            assert all(batch % unit == 0 for batch in tried)


def test_a_drop_is_found():
    def trial(batch, size, recompute="none"):
        report = {"mesh": "", "strategy": "", "recompute": recompute, "offload": ""}
        return Trial(batch, Plan(dict(report, rank_bytes=size)))

    growing = [trial(1, 10), trial(8, 20), trial(4, 15), trial(16, 5, "layer"), Trial(32, Plan())]
    assert find_drop(growing) is None
    before, drop = find_drop([*growing, trial(6, 14)])
    assert (before.batch, drop.batch) == (4, 6)

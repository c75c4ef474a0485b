# ===- test_budget.py - Recomputation within a memory budget ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`--recompute=budget` chooses what to recompute value by value, to fit."""

import json
import re

import pytest

from test_auto import rows
from test_laws import often
from selection import covering
from tools import BertModel, LlamaModel, Model

SHAPE = dict(layers=4, hidden=48, heads=4, sequence=32, vocabulary=256, batch=8)
MODELS = {
    "gpt2": Model(dropout=0.1, **SHAPE),
    "bert": BertModel(ffn=100, dropout=0.1, **SHAPE),
    "llama": LlamaModel(kv_heads=2, ffn=100, **SHAPE),
}
FLAGS = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]


def policies(tools, model, mesh):
    """What the policies need on a layout, and how long a step takes."""
    flags = ["--mesh", mesh, "--recompute", "auto", "--compile-to", "input"]
    source = tools.program(model)
    output = tools.call("optimus-compile", source, *flags, "-o", "/dev/null")
    assert output.returncode == 0, output.stderr
    return {row.recompute: row for row in rows(output.stdout)}


def compile_within(tools, model, mesh, budget, path, *flags):
    """A budget in MiB."""
    flags = [*flags, "--mesh", mesh, "--recompute", "budget"]
    flags += ["--memory-budget", int(budget * 2**20)]
    source = tools.program(model)
    return tools.call("optimus-compile", source, *flags, "-o", path)


def results(log):
    return [(step["loss"], step["grad_norm"]) for step in log]


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, name", covering(["row:1,col:1", "row:2,col:2"], MODELS))
def test_budgets_train_the_same_bits(tools, text, tmp_path, mesh, name):
    model = MODELS[name]
    known = policies(tools, model, mesh)
    none, least = known["none"], known["layer"]
    kept = tools.library(model, mesh, "summa" if "2" in mesh else "serial")
    expected = results(tools.train(kept, text, 3, *FLAGS, log=tmp_path / "none"))
    for part in (0.2, 0.5, 0.8):
        budget = least.rank_mib + part * (none.rank_mib - least.rank_mib)
        path = tmp_path / ("%g.so" % part)
        result = compile_within(tools, model, mesh, budget, path)
        assert result.returncode == 0, result.stderr
        (chosen,) = [row for row in rows(result.stdout) if row.chosen]
        # The table has tenths.
        assert chosen.rank_mib <= budget + 0.05
        # No policy that fits is faster.
        fitting = [row for row in known.values() if row.rank_mib + 0.05 <= budget]
        assert chosen.step_ms <= min(row.step_ms for row in fitting)
        log = tools.train(path, text, 3, *FLAGS, log=tmp_path / str(part))
        assert results(log) == expected


@pytest.mark.rotates
def test_less_memory_takes_no_less_time(tools):
    """With a scratch file, down to what takes parameters out of memory, too."""
    model = Model(layers=2, hidden=256, heads=4, sequence=128, vocabulary=256, batch=8)
    known = policies(tools, model, "row:1,col:1")
    none, last = known["none"], 0
    for part in (1.01, 0.9, 0.8, 0.75, 0.7, 0.6, 0.5, 0.45, 0.4):
        budget = part * none.rank_mib
        flags = ["--offload-bandwidth", "256MiB", "--compile-to", "input"]
        result = compile_within(tools, model, "row:1,col:1", budget, "/dev/null", *flags)
        assert result.returncode == 0, result.stderr
        (chosen,) = [row for row in rows(result.stdout) if row.chosen]
        assert chosen.rank_mib <= budget + 0.05
        assert chosen.step_ms >= last, part
        fitting = [row.step_ms for row in known.values() if row.rank_mib + 0.05 <= budget]
        assert chosen.step_ms <= min(fitting, default=chosen.step_ms)
        last = chosen.step_ms


def test_a_budget_that_fits_recomputes_nothing(tools, tmp_path):
    path = tmp_path / "model.so"
    result = compile_within(tools, MODELS["gpt2"], "row:1,col:1", 1024, path)
    assert result.returncode == 0, result.stderr
    kept = tools.library(MODELS["gpt2"], "row:1,col:1")
    assert path.read_bytes() == kept.read_bytes()


def test_the_choice_is_the_same_each_time_and_goes_on(tools, tmp_path):
    model, mesh = MODELS["gpt2"], "row:1,col:1"
    known = policies(tools, model, mesh)
    budget = (known["none"].rank_mib + known["attention"].rank_mib) / 2
    paths = [tmp_path / name for name in ("one.so", "two.so")]
    dumps = tmp_path / "phases"
    for path in paths:
        flags = ["--dump-phases-to", dumps, "--report"]
        result = compile_within(tools, model, mesh, budget, path, *flags)
        assert result.returncode == 0, result.stderr
    assert paths[0].read_bytes() == paths[1].read_bytes()
    # The record of a phase has the values, not the budget.
    fuse = next(dumps.glob("*-fuse.mlir"))
    again = tmp_path / "again.so"
    tools.run("optimus-compile", fuse, "--compile-from", "fuse", "-o", again)
    assert again.read_bytes() == paths[0].read_bytes()
    report = re.search(r"recomputed +(.*)\n.*saves +(.*) at the peak", result.stdout)
    assert report and ":" in report[1], result.stdout


def test_a_budget_that_cannot_be_met(tools, tmp_path):
    path = tmp_path / "model.so"
    result = compile_within(tools, MODELS["gpt2"], "row:1,col:1", 2, path)
    assert result.returncode == 1 and not path.exists()
    error = result.stderr
    assert "no layout fits the memory budget of 2.00 MiB; the least" in error
    # The peak, by category and by value, with the builder's lines.
    assert re.search(r"most of the arena is alive at \S+ .*: .* of activation", error)
    assert re.search(r"KiB activation +h\.\d\.\S+:\d.* \(\S+\.py:\d+\)", error), error
    # What was compiled besides.
    ways = re.findall(r"--mesh (\S+) --strategy \S+ --recompute layer: ([\d.]+)", error)
    assert ways and {"row:1,col:2"} <= {mesh for mesh, _ in ways}


def test_a_budget_that_is_missed_by_a_byte(tools, tmp_path):
    """Rounded, need and budget are the same."""
    source, path = tools.program(MODELS["gpt2"]), tmp_path / "model.so"
    plan = ["--compile-to=place", "-o", "/dev/null", "--report-json", "-"]
    needed = json.loads(tools.run("optimus-compile", source, *plan))["rank_bytes"]
    flags = ["--recompute", "none", "--memory-budget", str(needed - 1)]
    result = tools.call("optimus-compile", source, *flags, "-o", path)
    assert result.returncode == 1
    expected = "no layout fits the memory budget of %d bytes; the least that was found is %d bytes a rank"
    assert expected % (needed - 1, needed) in result.stderr
    assert "--offload-bandwidth to keep values elsewhere between uses or another" in result.stderr


def least_named(tools, *command):
    """The bytes that a failing budget is told to have."""
    result = tools.call(*command)
    assert result.returncode == 1, result.stdout
    (least,) = re.findall(r"the least that was found is .*?(\d+) bytes", result.stderr)
    return int(least)


@pytest.mark.parametrize(
    "family, layout",
    often(
        [
            ("llama", "--mesh row:1,col:2 --strategy megatron"),
            ("llama", "--mesh row:1,col:2 --strategy megatron --recompute budget"),
            ("gpt2", "--mesh row:2,col:2"),
            ("gpt2", "--mesh row:2,col:2 --recompute budget"),
            ("gpt2", "--mesh row:2,col:2 --offload-bandwidth 8GiB"),
        ],
        ("llama", "--mesh row:1,col:2 --strategy megatron"),
    ),
)
def test_the_least_that_is_named_is_enough(tools, family, layout):
    """Below all that can be, and by a little: the least is the same."""
    plan = ["optimus-compile", tools.program(MODELS[family]), *layout.split()]
    plan += ["--compile-to=place", "-o", "/dev/null"]
    least = least_named(tools, *plan, "--memory-budget", "2KiB")
    assert least_named(tools, *plan, "--memory-budget", least - 1) == least
    report = tools.run(*plan, "--memory-budget", least, "--report-json", "-")
    assert json.loads(report)["rank_bytes"] <= least


def test_a_budget_judges_training_alone(tools):
    """Of replicas, `grad_step` has whole gradients where a step has a part of them."""
    flags = ["--mesh", "data:4", "--strategy", "data", "--compile-to=place", "-o", "/dev/null"]
    plan = ["optimus-compile", tools.program(Model(**SHAPE)._replace(batch=4)), *flags]
    report = json.loads(tools.run(*plan, "--report-json", "-"))
    totals = {name: row["total"] for name, row in report["memory"].items()}
    step, gradients = totals["train_step"], totals["grad_step"]
    assert max(totals["eval_step"], step) == report["rank_bytes"] < gradients
    for budget in (gradients, step):
        text = tools.run(*plan, "--report", "--memory-budget", budget)
        assert "fits the memory budget" in text
        said = re.search(r"^grad_step, for optimus-run verify alone, needs", text, re.M)
        assert bool(said) == (budget < gradients)


def test_a_budget_is_needed(tools, tmp_path):
    source, path = tools.program(MODELS["gpt2"]), tmp_path / "model.so"
    result = tools.call("optimus-compile", source, "--recompute", "budget", "-o", path)
    assert result.returncode == 1
    assert "--recompute budget: expected --memory-budget SIZE" in result.stderr


def test_values_by_name(tools, text, tmp_path):
    model = MODELS["gpt2"]
    path, source = tmp_path / "model.so", tools.program(MODELS["gpt2"])
    flags = ["--recompute", "h.*.mlp.gelu:*,h.0.ln_1:0"]
    tools.run("optimus-compile", source, *flags, "-o", path)
    kept = tools.library(model)
    logs = [
        tools.train(each, text, 3, *FLAGS, log=tmp_path / each.stem)
        for each in (kept, path)
    ]
    assert results(logs[0]) == results(logs[1])

    def arena(library):
        manifest = tools.run("optimus-run", "inspect", library, "--json")
        functions = json.loads(manifest)["functions"]
        return {each["name"]: each for each in functions}["train_step"]["arena_bytes"]

    assert arena(path) < arena(kept)
    result = tools.call("optimus-compile", source, "--recompute", "h.9:0", "-o", path)
    assert result.returncode == 1
    assert "found none that 'h.9:0' matches" in result.stderr

# ===- test_generation_layouts.py - Where weights of generation lie --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The layouts of functions of generation: the bytes of a @decode beside the formulas of
docs/inference.md, and which one --strategy auto takes. Nothing runs."""

import json
import re

import pytest

from test_generation import EXTENTS, MODELS
from tools import Model


def stationary_bytes(model, slots, rows, cols):
    """What ranks receive in a @decode of stationary weights, by axis; in f32."""
    hidden, wide = model.hidden, 4 * model.hidden
    # Sums of products that widen are scattered by slots, and gathered before the next;
    # a norm's moments, two of each row, are gathered.
    over_row = model.layers * slots * (rows - 1) * (3 * hidden + wide + hidden + wide)
    over_row += (2 * model.layers + 1) * slots * (rows - 1) * 2 * rows * cols
    over_col = model.layers * 2 * slots * (cols - 1) * 2 * hidden
    # Look-up, of words over all ranks, and the head, which reads whole rows.
    over_col += 2 * slots * (cols - 1) * hidden
    over_row += 2 * slots * (rows - 1) * hidden * cols
    return {"row": 4 * over_row, "col": 4 * over_col}


def decode_bytes(tools, tmp_path, model, slots, mesh, strategy):
    """What ranks receive in a @decode, by axis, as a plan counts it."""
    source = tools.program(model, None, "slots=%d,context=64,chunk=64" % slots)
    plan = tmp_path / "plan.so"
    tools.run("optimus-compile", source, "--mesh", mesh, "--strategy", strategy, "--plan",
              "-o", plan)
    manifest = json.loads(tools.run("optimus-run", "inspect", plan, "--json"))
    (decode,) = [f for f in manifest["functions"] if f["entry"]["kind"] == "decode"]
    return {axis["axis"]: axis["bytes"] for axis in decode["communication"]}


@pytest.mark.parametrize("rows, cols", [(2, 2), (2, 4), (4, 4)])
def test_decoding_moves_activations_alone(tools, tmp_path, rows, cols):
    model, slots = Model(2, 64, 8, sequence=64, vocabulary=256, batch=8), 8
    mesh = "row:%d,col:%d" % (rows, cols)
    moved = decode_bytes(tools, tmp_path, model, slots, mesh, "summa,decode=stationary")
    assert moved == stationary_bytes(model, slots, rows, cols)


def test_two_dimensions_move_about_half_of_one_on_64_ranks(tools, tmp_path):
    model, slots = Model(12, 256, 64, sequence=64, vocabulary=256, batch=64), 64
    stationary = "summa,decode=stationary"
    flat = decode_bytes(tools, tmp_path, model, slots, "row:1,col:64", "megatron")
    for rows, cols in (8, 8), (4, 16):
        mesh = "row:%d,col:%d" % (rows, cols)
        moved = decode_bytes(tools, tmp_path, model, slots, mesh, stationary)
        assert moved == stationary_bytes(model, slots, rows, cols)
        assert sum(moved.values()) <= 0.55 * sum(flat.values())


@pytest.mark.parametrize(
    "strategy, said",
    [
        ("summa,decode=sumna", "unknown strategy 'sumna' of decode; known is stationary"),
        ("summa,train=stationary", "expected ENTRY=NAME of prefill, decode or score"),
        ("megatron,decode=stationary", "found strategy 'megatron' for the program"),
    ],
)
def test_strategies_of_entries_are_checked(tools, tmp_path, strategy, said):
    source = tools.program(MODELS["gpt2"], None, EXTENTS)
    result = tools.call("optimus-compile", source, "--mesh", "row:2,col:2", "--strategy",
                        strategy, "-o", tmp_path / "model.so")
    assert result.returncode == 1 and said in result.stderr


def test_auto_takes_the_layout_of_the_fastest_decode(tools, tmp_path):
    source = tools.program(MODELS["llama"], None, EXTENTS)
    library = tmp_path / "chosen.so"
    command = ("optimus-compile", source, "--strategy", "auto", "--ranks", 4, "-o", library)
    result = tools.call(*command)
    assert result.returncode == 0, result.stderr
    rows = re.findall(
        r"^([* ]) (\S+) +(\S+) +none +([0-9.]+) ", result.stdout + result.stderr, re.M
    )
    (chosen,) = [row for row in rows if row[0] == "*"]
    assert len(rows) >= 4
    assert float(chosen[3]) == min(float(row[3]) for row in rows)
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    assert manifest["strategy"] == chosen[2]
    budget = tools.call(*command, "--memory-budget", "10KiB")
    assert budget.returncode == 1 and "no layout fits the memory budget" in budget.stderr

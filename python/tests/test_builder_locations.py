# ===- test_builder_locations.py - What builders say of where it comes from --===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Paths and lines of the programs that builders write."""

import inspect
import re

import pytest

from optimus import ProgramError, ir
from optimus.attributes import attribute_text
from optimus.models import bert, gpt2, llama
from tools import succeed

SHAPE = dict(layers=2, hidden=12, heads=3, sequence=8, vocabulary=50, batch=4)
PROGRAMS = {
    "gpt2": gpt2.build(gpt2.Config(**SHAPE)),
    "bert": bert.build(bert.Config(**SHAPE)),
    "llama": llama.build(llama.Config(kv_heads=3, ffn=24, **SHAPE)),
}


def locations_of(text):
    """(path, file, line) of each argument and operation, in order."""
    known = {
        alias: place
        for alias, *place in re.findall(
            r'^(#loc\d+) = loc\("([^"]*)"\("([^"]*)":(\d+):0\)\)$', text, re.M
        )
    }
    return [tuple(known[alias]) for alias in re.findall(r" loc\((#loc\d+)\),?$", text, re.M)]


@pytest.mark.parametrize("model", PROGRAMS)
def test_every_line_has_a_location(model):
    text = PROGRAMS[model].text()
    found = locations_of(text)
    assert len(found) == len(re.findall(r"^ +%.*(: tensor<| = optimus)", text, re.M))
    paths, files, _ = zip(*found)
    assert set(files) == {"gpt2.py" if model == "gpt2" else "transformer.py"}
    # Each names one thing: ids of values need no more.
    assert len(set(paths)) == len(paths)


def test_paths_are_module_names():
    def paths(model, layer):
        found = [path for path, _, _ in locations_of(PROGRAMS[model].text())]
        return [path[len(layer):] for path in found if path.startswith(layer)]

    layer = paths("gpt2", "h.1.")
    assert layer[-14:] == [
        "ln_1", "attn.qkv_product", "attn.qkv", "attn.heads", "attn.out_product",
        "attn.out", "attn.sum", "ln_2", "mlp.up_product", "mlp.up", "mlp.gelu",
        "mlp.down_product", "mlp.down", "mlp.sum",
    ]
    assert "attn.c_attn.weight" in layer
    assert "attention.self.query" in paths("bert", "bert.encoder.layer.0.")
    assert "self_attn.q_proj" in paths("llama", "model.layers.1.")


def build(names):
    """A program of somebody else's, in this file."""
    model = ir.LossFunction(dict(batch=2, sequence=4, vocabulary=8))
    tokens = model.input("tokens", (2, 4), ("batch", "sequence"))
    targets = model.input("targets", (2, 4), ("batch", "sequence"))
    with model.scope(names[0]):
        table = model.parameter(
            "table", (8, 4), ("vocabulary", "hidden"), ir.ZEROS
        )
        with model.scope(names[1]):
            x = model.embedding("rows", table, tokens)
    model.head_loss(model.gelu(names[2], x), table, targets, 8)
    return model


def line_of(text):
    source, first = inspect.getsourcelines(build)
    return first + next(i for i, line in enumerate(source) if text in line)


def test_own_builders_have_scopes_and_lines():
    found = {path: (file, int(line)) for path, file, line in
             locations_of(build(["body", "wte", "curve"]).text())}
    here = "test_builder_locations.py"
    assert found["body.table"][0] == found["curve"][0] == here
    assert found["body.wte.rows"] == (here, line_of("model.embedding"))
    assert found["curve"] == found["head"] == (here, line_of("model.head_loss"))


def test_a_scope_ends_with_an_error():
    model = ir.LossFunction({})
    with pytest.raises(ZeroDivisionError):
        with model.scope("lost"):
            1 / 0
    assert "%tokens" in str(model.input("tokens", (2,), ("batch",)))
    x = model.parameter("x", (2, 2), ("batch", "hidden"), ir.ONES)
    y = model.parameter("y", (3,), ("hidden",), ir.ONES)
    with model.scope("h.0"), model.scope("mlp"):
        with pytest.raises(ProgramError, match="^add 'h.0.mlp.sum': expected"):
            model.add("sum", x, y)


def test_any_name_can_be_written(tools, tmp_path):
    names = ['q"uo\\te', "é\n\t", "☃"]
    (tmp_path / "own.mlir").write_text(build(names).text())
    printed = succeed(
        tools.call("optimus-opt", "--mlir-print-debuginfo", tmp_path / "own.mlir")
    )
    escaped = [attribute_text(name)[1:-1] for name in names]
    assert '"%s.%s.rows"' % tuple(escaped[:2]) in printed.replace('\\"', "\\22").replace(
        "\\\\", "\\5C"
    )

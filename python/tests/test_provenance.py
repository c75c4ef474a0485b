# ===- test_provenance.py - Where commands and values come from -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Every command tells its path and its line; ids of values are the same whenever,
and for whichever mesh, a program is compiled (docs/provenance.md)."""

import re
import subprocess

import pytest

from locations import Program
from tools import BertModel, LlamaModel, Model

SHAPE = dict(layers=2, hidden=24, heads=2, sequence=12, vocabulary=50, batch=12)
MODELS = {
    "gpt2": Model(dropout=0.1, **SHAPE),
    "bert": BertModel(dropout=0.1, **SHAPE),
    "llama": LlamaModel(kv_heads=2, ffn=36, **SHAPE),
}
FILES = {"gpt2": "gpt2", "bert": "transformer", "llama": "transformer"}
LAYER = {"gpt2": "h.1.", "bert": "bert.encoder.layer.1.", "llama": "model.layers.1."}


def flags(mesh, strategy="summa", *more):
    rows, columns = mesh.split("x")
    mesh = "row:%s,col:%s" % (rows, columns)
    return ["--mesh", mesh, "--strategy", strategy, *more]


def compile_to(tools, phase, source, *flags):
    """The IR of a phase."""
    return tools.run("optimus-compile", source, *flags, "--compile-to", phase, "-o", "-")


def place(tools, model, *flags):
    return Program(compile_to(tools, "place", tools.program(MODELS[model]), *flags))


@pytest.mark.variants
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "settings",
    [
        flags("1x1"),
        flags("2x2"),
        flags("2x2", "summa", "--recompute", "layer", "--accumulate"),
        flags("2x2", "summa", "--move", "whole", "--optimizer", "lamb"),
        flags("2x3", "megatron-sp", "--optimizer", "sgd"),
    ],
    ids=lambda flags: " ".join(flags[3:]),
)
def test_every_command_has_a_path_and_a_line(tools, model, settings):
    program = place(tools, model, *settings)
    assert program.commands and program.values["train_step"]
    for command in program.commands:
        assert command.path, command.line
        assert re.search(r'"%s\.py":\d+:0' % FILES[model], command.location) or (
            # What the optimizer does for all parameters together.
            command.path in ("grad_norm", "clip")
        ), command
    phases = {command.phase for command in program.commands}
    expected = {"forward", "backward", "optimizer"}
    assert phases == expected | ({"recomputed"} if "layer" in settings else set())
    updates = {c.path for c in program.commands if re.search("adamw|sgd|lamb_upd", c.line)}
    assert LAYER[model] + "mlp.c_fc.weight" in updates or model != "gpt2"
    for function, values in program.values.items():
        # A panel is received anew for each product that it is a factor of.
        whole = [value for value in values if " panel " not in value]
        assert len(whole) == len(set(whole)), function


def whole_values(tools, model, settings):
    """The ids of values of the serial program that buffers of train_step hold:
    without the steps of operations that the mesh asks for."""
    values = place(tools, model, *settings).values["train_step"]
    return {value for value in values if re.fullmatch(r"\S+:\d+( backward)?", value)}


@pytest.mark.variants
@pytest.mark.parametrize("model", MODELS)
def test_meshes_agree_on_values(tools, model):
    serial = whole_values(tools, model, flags("1x1"))
    assert len(serial) > 40
    small, wide = (whole_values(tools, model, flags(mesh)) for mesh in ("2x2", "2x3"))
    # Panels and the padding that three columns need change nothing.
    assert small == wide
    # Except: a product with its epilogue is one operation on one rank, and its panels'
    # partial sums are a value of their own on many.
    for value in serial ^ small:
        assert re.search(r"(_product|_proj):0( backward)?$", value), value


@pytest.mark.variants
@pytest.mark.parametrize("model", MODELS)
def test_panels_do_not_change_values(tools, model):
    one = whole_values(tools, model, flags("2x2", "summa", "--move", "panels"))
    four = whole_values(
        tools, model, flags("2x2", "summa", "--move", "panels", "--panels", "4")
    )
    assert one == four


def test_compiled_twice_is_the_same(tools, tmp_path):
    settings = flags("2x2", "summa", "--recompute", "layer", "--accumulate")
    source = tools.program(MODELS["gpt2"])
    first = compile_to(tools, "place", source, *settings)
    assert first == compile_to(tools, "place", source, *settings)
    elsewhere = tmp_path / "elsewhere.mlir"
    elsewhere.write_text(source.read_text())
    again = Program(compile_to(tools, "place", elsewhere, *settings))
    assert again.values == Program(first).values


@pytest.fixture(scope="module")
def placed(tools):
    """A program after the last phase of exec, and what made it."""
    settings = flags("2x2", "summa", "--recompute", "layer", "--accumulate")
    source = tools.program(MODELS["bert"])
    return source, settings, compile_to(tools, "place", source, *settings)


@pytest.mark.variants
@pytest.mark.parametrize("phase", ["input", "step", "partition", "fuse", "schedule"])
def test_dumps_keep_locations(tools, tmp_path, placed, phase):
    source, settings, expected = placed
    dump = tmp_path / "dump.mlir"
    dump.write_text(compile_to(tools, phase, source, *settings))
    assert compile_to(tools, "place", dump, "--compile-from", phase) == expected


def test_a_program_without_paths_has_ids(tools, tmp_path):
    source = tools.program(MODELS["gpt2"]).read_text()
    bare = tmp_path / "bare.mlir"
    bare.write_text(re.sub(r" loc\(#loc\d+\)|#loc\d+ = .*\n", "", source))
    program = Program(compile_to(tools, "place", bare, *flags("2x2")))
    values = [v for v in program.values["train_step"] if " panel " not in v]
    assert len(values) == len(set(values))
    assert {"attention:0", "attention#1:0", "attention_grad#1:0 backward"} <= set(values)
    for command in program.commands:
        assert "bare.mlir" in command.location
        # Parameters have names, so that their updates have paths.
        assert command.path or command.phase != "optimizer", command


def test_errors_name_the_path(tools, tmp_path):
    source = compile_to(tools, "place", tools.program(MODELS["gpt2"]), *flags("2x2"))
    (tmp_path / "wrong.mlir").write_text(re.sub(r"\bid = 7 : i32", "id = 9 : i32", source))
    command = [tmp_path / "wrong.mlir", "--compile-from", "place"]
    result = tools.call("optimus-compile", *command, "-o", tmp_path / "out.so")
    assert result.returncode == 1
    assert re.search(
        r"^gpt2\.py:\d+:0: error: [\w.]+( backward)?: 'exec\.\w+' op V4: expected number 7, "
        r"found 9",
        result.stderr,
        re.MULTILINE,
    ), result.stderr


def test_files_that_locations_name_are_not_opened(tools, tmp_path):
    # Reading this one would never end.
    program = tmp_path / "far.mlir"
    program.write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = optimus.gelu %x : tensor<4xf32>\n"
        '  return %y : tensor<4xf32> loc("/dev/zero":1:1)\n} loc("/dev/zero":1:1)\n'
    )
    command = [program, "--compile-to=step", "-o", tmp_path / "out.mlir"]
    result = tools.call("optimus-compile", *command)
    assert result.returncode == 1
    assert "error: " in result.stderr and "fault of ours" not in result.stderr


def test_debuggers_see_kernels_by_name(tools):
    library = tools.library(MODELS["gpt2"], "row:2,col:2", "summa")
    names = subprocess.run(["nm", library], capture_output=True, text=True).stdout
    kernels = set(re.findall(r" t optimus\.kernel\.(\w+)", names))
    text = compile_to(tools, "place", tools.program(MODELS["gpt2"]), *flags("2x2"))
    launched = set(re.findall(r"exec\.launch @(\w+)", text))
    assert launched and launched <= kernels

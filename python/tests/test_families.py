# ===- test_families.py - Models that no rule was written for ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Phi, GPT-NeoX and the gated encoder mean what NumPy says, and train on every mesh as on
one rank.

Strategies have no word for them: what they do to them follows from their rules.
Bounds are those of test_gradients and, for training in f32, of test_meshes.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from families_reference import GatedEncoder, Neox, Phi, packed, unpacked
from finite_differences import check_central_differences
from interpreter import Interpreter, draw_batch, draw_parameters, strip
from optimus.models import ConfigError, gated_encoder, gpt_neox, phi
from test_gradients import STEP, TOLERANCE
from test_meshes import Run, agree
from tools import (
    REPOSITORY,
    Checkpoint,
    GatedEncoderModel,
    NeoxModel,
    PhiModel,
    call,
    run_builder,
    succeed,
)

MEANT = {
    # Two of four channels are rotated; the inner width is less than the hidden one.
    "phi": PhiModel(2, 12, 3, sequence=5, vocabulary=11, batch=2, rotary_dim=2, ffn=7),
    "phi-two-norms": PhiModel(1, 8, 2, 4, 9, 3, rotary_dim=4, ffn=9, norms=2),
    "gpt_neox": NeoxModel(2, 12, 3, sequence=5, vocabulary=11, batch=2, rotary_dim=2, ffn=7),
    "gpt_neox-sequential": NeoxModel(
        *(1, 8, 2, 4, 9, 3), rotary_dim=4, ffn=9, sequential=True, no_attention_bias=True, tied=True
    ),
    # The heads are narrower, together, than the residual stream.
    "gated-encoder": GatedEncoderModel(
        2, 10, heads=3, head_dim=2, ffn=7, sequence=6, vocabulary=9, batch=3
    ),
}
TRAINED = {
    # Heads do not divide by 4, nor the inner width by anything.
    "phi": PhiModel(2, 48, 6, sequence=32, vocabulary=256, batch=4, rotary_dim=4, ffn=101),
    "gpt_neox": NeoxModel(2, 48, 6, sequence=32, vocabulary=256, batch=4, rotary_dim=2, ffn=101),
    "gated-encoder": GatedEncoderModel(
        2, 48, heads=6, head_dim=6, ffn=101, sequence=32, vocabulary=257, batch=4
    ),
}
LAYOUTS = [
    ("row:2,col:2", "summa"),
    ("row:1,col:4", "megatron"),
    ("row:2,col:3", "summa-paper"),
    ("row:1,col:4", "megatron-sp"),
    ("data:4", "data"),
    *[("row:2,col:3", name) for name in ("summa", "megatron", "megatron-sp")],
    *[("row:2,col:2", name) for name in ("summa-paper", "megatron", "megatron-sp")],
    *[("row:1,col:4", name) for name in ("summa", "summa-paper")],
    ("data:2,row:1,col:2", "summa"),
]
STEPS = 10
# Written by bench/peers/transformers_checkpoints.py, which loads them there, too.
LISTED = json.loads((Path(__file__).parent / "transformers_classes.json").read_text())
CLASSES = LISTED["classes"]


def reference(model, parameters):
    if model.KIND == "phi":
        return Phi(parameters, model.heads, model.rotary_dim, model.rope_theta)
    if model.KIND == "gpt_neox":
        numbers = (model.heads, model.rotary_dim, model.rope_theta)
        return Neox(parameters, *numbers, parallel=not model.sequential)
    return GatedEncoder(parameters, model.heads)


@pytest.mark.parametrize("name", MEANT)
def test_loss_and_gradients_equal_numpy(tools, tmp_path, name):
    model = MEANT[name]
    parameters, batch = draw_parameters(model), draw_batch(model)
    if model.KIND == "gated-encoder":
        # Padding before the end would be looked up and yet not learn from that.
        # And a hidden token stands at the end of every other sequence.
        batch.tokens[1::2, -1] = 2
        seen = np.cumsum((batch.tokens != 0)[:, ::-1], axis=1)[:, ::-1] > 0
        batch.tokens[seen & (batch.tokens == 0)] = 1
        assert (batch.tokens == 0).any()
    numpy = reference(model, parameters)
    program = Interpreter(tools, tmp_path).lower(model, *STEP)
    arguments = {**unpacked(parameters, model.heads), **batch._asdict()}
    results = Interpreter(tools, tmp_path).run(program, "grad_step", arguments)
    loss, count = numpy.loss(*batch)
    assert results["real_count"] == count
    assert results["loss_sum"] == pytest.approx(loss, rel=TOLERANCE)
    gradients = {
        key: value.reshape(parameters[key].shape)
        for key, value in packed(strip(results, "grad:"), model.heads).items()
    }
    check_central_differences(
        lambda: numpy.loss(*batch)[0],
        *(parameters, gradients, np.random.default_rng(8)),
        draws=4,
    )


@pytest.fixture(scope="module")
def serial(tools, text, tmp_path_factory):
    """What a model does on one rank, each computed once."""
    known = {}

    def get(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            known[name] = Run(tools, tools.library(TRAINED[name]), text, folder, STEPS)
        return known[name]

    return get


@pytest.mark.variants
@pytest.mark.parametrize("name", TRAINED)
def test_the_compiled_loss_is_numpy_s(tools, text, text_tokens, serial, name):
    model, run = TRAINED[name], serial(name)
    assert {n: p.shape for n, p in run.initial.items()} == dict(model.parameter_shapes())
    assert run.log[-1]["loss"] < run.log[0]["loss"] - 0.3
    if model.KIND != "gated-encoder":
        # Step 0 reads the first windows of the text.
        numpy = reference(model, {n: p.astype(np.float64) for n, p in run.initial.items()})
        size = model.batch * model.sequence
        tokens = text_tokens[:size].reshape(model.batch, model.sequence)
        targets = text_tokens[1 : size + 1].reshape(model.batch, model.sequence)
        loss, count = numpy.loss(tokens, targets)
        assert run.log[0]["loss"] == pytest.approx(loss / count, abs=1e-5)


def cases():
    """Of each model the five strategies always run, the other meshes if asked."""
    for i, layout in enumerate(LAYOUTS):
        for name in TRAINED:
            marks = [] if i < 5 else [pytest.mark.long]
            yield pytest.param(*layout, name, marks=marks)


@pytest.mark.rotates
@pytest.mark.parametrize("mesh, strategy, name", cases())
def test_a_mesh_trains_as_one_rank(tools, text, serial, tmp_path, mesh, strategy, name):
    library = tools.library(TRAINED[name], mesh, strategy)
    agree(Run(tools, library, text, tmp_path, STEPS), serial(name))


@pytest.mark.variants
@pytest.mark.parametrize("name", TRAINED)
def test_auto_prices_them(tools, tmp_path, name):
    source = tools.program(TRAINED[name])
    options = ["--strategy", "auto", "--ranks", 4, "-o", tmp_path / "auto.so"]
    table = tools.run("optimus-compile", source, *options)
    for layout in (r"row:2,col:2 +summa", r"row:1,col:4 +megatron-sp", r"data:4 +data"):
        assert re.search(r"^[* ] %s +none +\d" % layout, table, re.MULTILINE), table


@pytest.mark.parametrize(
    "config, message",
    [
        (phi.Config(1, 12, 3, 4, 9, 2, rotary_dim=3), "rotary_dim is 3; expected an even"),
        (phi.Config(1, 12, 3, 4, 9, 2, rotary_dim=6), "from 2 to the 4 channels"),
        (phi.Config(1, 12, 3, 4, 9, 2, norms=3), "norms is 3; expected 1 or 2"),
        (phi.Config(1, 12, 5, 4, 9, 2), "not divisible by heads"),
        (gpt_neox.Config(1, 12, 3, 4, 9, 2, rotary_dim=6), "from 2 to the 4 channels"),
        (gpt_neox.Config(1, 12, 5, 4, 9, 2), "not divisible by heads"),
        (gated_encoder.Config(1, 12, 3, 4, 9, 2, head_width=0), "head_width is 0"),
        (gated_encoder.Config(1, 12, 3, 4, 9, 2, pad_token=9), "pad_token is 9"),
    ],
)
def test_bad_configurations(config, message):
    (builder,) = [one for one in (phi, gpt_neox, gated_encoder) if isinstance(config, one.Config)]
    with pytest.raises(ConfigError, match=re.escape(message)):
        builder.build(config)


# ----------------------------------------------------- the names of other classes


@pytest.mark.variants
@pytest.mark.parametrize("family", CLASSES)
def test_a_checkpoint_has_the_names_and_shapes_of_the_class(tools, text, tmp_path, family):
    program, library = tmp_path / "model.mlir", tmp_path / "model.so"
    succeed(run_builder(family, *CLASSES[family]["flags"], "-o", program))
    tools.run("optimus-compile", program, "-o", library)
    succeed(call(tools.train_command(library, text, 0, "--save", tmp_path / "ck")))
    tensors = Checkpoint(tmp_path / "ck").parameters
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    assert shapes == CLASSES[family]["tensors"], CLASSES[family]["class"]


def test_every_family_is_a_class_or_has_a_name_of_its_own():
    folder = REPOSITORY / "python" / "optimus" / "models"
    kinds = re.findall(r'^KIND = "(.*)"$', "\n".join(
        path.read_text() for path in sorted(folder.glob("*.py"))
    ), re.MULTILINE)
    assert set(kinds) == {*CLASSES, "gated-encoder"}
    assert LISTED["source"].startswith("Transformers ")


def test_heads_share_the_hidden_dimension_unless_told_otherwise():
    config = gated_encoder.Config(1, 12, 3, 4, 9, 2)
    given = gated_encoder.build(replace(config, head_width=4)).text()
    assert gated_encoder.build(config).text() == given

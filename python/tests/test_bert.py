# ===- test_bert.py - BERT against NumPy ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The meaning of the built BERT in f64, and the training data of its libraries."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from bert_reference import WORDS, Bert, parameter_shapes
from finite_differences import check_central_differences
from gpt2_reference import windows
from interpreter import (
    Interpreter,
    draw_batch,
    draw_parameters,
    relative_error,
    strip,
)
from optimus.models import ConfigError, bert
from philox import Dropout, masked
from test_gradients import STEP, TOLERANCE
from tools import BertModel, Checkpoint, losses

MODELS = {
    "even": BertModel(2, hidden=16, heads=4, sequence=8, vocabulary=19, batch=4),
    # Odd sizes: every dimension is something else.
    "odd": BertModel(1, 6, 3, sequence=5, vocabulary=7, batch=3, ffn=11),
    "dropout": BertModel(
        2, 6, 3, sequence=5, vocabulary=7, batch=4, dropout=0.3
    ),
}
# A byte is a token; the mask is none of them.
TRAINED = BertModel(
    layers=2, hidden=48, heads=6, sequence=32, vocabulary=257, batch=4
)
# Nothing divides by 2 or 3, but the head's width.
RAGGED = TRAINED._replace(
    layers=1, hidden=70, heads=7, sequence=16, batch=5, ffn=101, dropout=0.1
)


# ------------------------------------------------------------ the reference


def test_gradients_of_the_reference_equal_central_differences():
    model = MODELS["odd"]
    parameters, batch = draw_parameters(model), draw_batch(model)
    reference = Bert(parameters, model.heads)
    # Padding before the end would be looked up and yet not learn from that.
    batch.tokens[reference.seen(*batch) & (batch.tokens == 0)] = 1
    reference.dropout = Dropout(0.3, seed=1, step=1)
    _, _, gradients = reference.loss_and_gradients(*batch)
    check_central_differences(
        lambda: reference.loss(*batch)[0],
        parameters, gradients, np.random.default_rng(8), draws=6,
    )


def test_padding_is_not_seen():
    model = MODELS["even"]
    parameters, (tokens, targets) = draw_parameters(model), draw_batch(model)
    tokens[0, 3:], tokens[0, :3] = 0, 5
    targets[:], targets[0, :3] = -1, 2
    whole, _ = Bert(parameters, model.heads).loss(tokens, targets)
    short, _ = Bert(parameters, model.heads).loss(tokens[:1, :3], targets[:1, :3])
    assert whole == pytest.approx(short, rel=1e-13)


def test_padding_learns_from_the_head_only():
    model = MODELS["odd"]
    parameters, batch = draw_parameters(model), draw_batch(model)
    assert (batch.tokens == 0).any()
    gradients = [
        Bert(parameters, model.heads, pad).loss_and_gradients(*batch)[2][WORDS][0]
        for pad in (0, 6)
    ]
    assert gradients[0].any() and (gradients[0] != gradients[1]).any()


def test_a_hidden_token_is_no_padding():
    reference = Bert(draw_parameters(MODELS["odd"]), 3)
    tokens = np.array([[1, 2, 0, 0, 0]] * 2)
    targets = np.array([[-1] * 5, [-1, -1, 0, 3, -1]])
    assert reference.seen(tokens, targets).sum(axis=1).tolist() == [2, 4]


# -------------------------------------------------------------- the builder


def test_parameters_have_hugging_face_names_and_shapes():
    text = bert.build(bert.Config(2, 12, 3, 8, 50, 4)).text()
    found = []
    for name, type, attributes in re.findall(
        r'tensor<()(\S+)xf32> \{optimus.param = (.*)\} loc\(#loc\d+\),?$', text, re.M
    ):
        shape = tuple(map(int, type.split("x")))
        hf = re.search(r"hf_shape = array<i64: ([\d, ]+)>", attributes)
        if hf:
            shape = tuple(map(int, hf.group(1).split(", ")))
        found.append((re.match(r'"([^"]+)"', attributes).group(1), shape))
    assert found == parameter_shapes(2, 12, 8, 50, 48)
    assert 'objective = "masked_token", mask_token = 49 : i64, pad_token = 0' in text


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(heads=5), "not divisible by heads"),
        (dict(mask_token=50), "mask_token is 50; expected one of the vocabulary's 50"),
        (dict(pad_token=-1), "pad_token is -1"),
        (dict(mask_token=0), "mask_token and pad_token are both 0"),
        (dict(dropout=1.0), "dropout is 1.0"),
        (dict(init_std=0.0), "init_std is 0.0"),
        (dict(vocabulary=0), "vocabulary is 0"),
    ],
)
def test_bad_configurations(changes, message):
    config = replace(bert.Config(2, 12, 3, 8, 50, 4), **changes)
    with pytest.raises(ConfigError, match=re.escape(message)):
        bert.build(config)


# ---------------------------------------------------------- the interpreter


@pytest.mark.parametrize("fuse", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_equal_numpy(tools, tmp_path, name, fuse):
    model = MODELS[name]
    interpreter = Interpreter(tools, tmp_path)
    parameters, batch = draw_parameters(model), draw_batch(model)
    passes = STEP + (("--optimus-fuse",) if fuse else ())
    program = interpreter.lower(model, *passes)
    arguments = {**parameters, **batch._asdict()}
    reference = Bert(parameters, model.heads)
    evaluated = interpreter.run(program, "eval_step", arguments)
    loss, count = reference.loss(*batch)
    assert evaluated["real_count"] == count
    assert evaluated["loss_sum"] == pytest.approx(loss, rel=TOLERANCE)
    if model.dropout:
        reference.dropout = Dropout(model.dropout, seed=2**40 + 1, step=7)
        arguments["random"] = reference.dropout.words()
    results = interpreter.run(program, "grad_step", arguments)
    loss, count, gradients = reference.loss_and_gradients(*batch)
    assert results["real_count"] == count
    assert results["loss_sum"] == pytest.approx(loss, rel=TOLERANCE)
    found = strip(results, "grad:")
    assert found.keys() == gradients.keys()
    for key, expected in gradients.items():
        # Softmax does not see what adds to all of a query's scores: the keys'
        # bias has gradient 0, but for rounding.
        if key.endswith("self.key.bias"):
            scale = np.abs(gradients[key.replace("key", "query")]).max()
            assert np.abs(found[key]).max() < TOLERANCE * scale
        else:
            assert relative_error(found[key], expected) < TOLERANCE, key


# ------------------------------------------------------------- the libraries


@pytest.fixture(scope="module")
def padded_text(tmp_path_factory):
    """Words of different lengths, each in a window of its own."""
    random = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("padded") / "text.txt"
    tokens = random.integers(97, 105, (60, TRAINED.sequence))
    for row in tokens:
        row[random.integers(1, TRAINED.sequence + 1) :] = 0
    path.write_bytes(tokens.astype(np.uint8).tobytes() + b"x")
    return path


def batch_of(data, model, rows, positions, seed, step):
    tokens, _ = windows(np.frombuffer(data.read_bytes(), np.uint8), model.sequence)
    return masked(tokens[rows], positions, seed, step, model.vocabulary, 256, 0)


def in_f64(tensors):
    return {name: values.astype(np.float64) for name, values in tensors.items()}


def test_batches_are_masked_by_the_rule(tools, padded_text, tmp_path):
    # A loss hardly depends on single tokens at the start: the weights are large.
    model = TRAINED._replace(init_std=0.5)
    library = tools.library(model)
    seed = 0x8123456789ABCDEF
    parameters = tools.initial(library, padded_text, tmp_path / "start", seed).parameters
    reference = Bert(in_f64(parameters), model.heads)
    flags = ["--seed", seed, "--lr", 0, "--weight-decay", 0]
    log = tools.train(library, padded_text, 18, *flags, log=tmp_path / "log")
    for step in (0, 3, 17):
        # 60 windows, 15 steps an epoch: the same rows again, hidden otherwise.
        positions = step * model.batch + np.arange(model.batch)
        batch = batch_of(padded_text, model, positions % 60, positions, seed, 1)
        loss, count = reference.loss(*batch)
        # f32 against f64; see test_training.py.
        assert log[step]["loss"] == pytest.approx(loss / count, rel=1e-4)
    flags = ["--data", padded_text, "--load", tmp_path / "start", "--json"]
    found = json.loads(tools.run("optimus-run", "eval", library, *flags))
    rows = np.arange(60)
    loss, count = reference.loss(*batch_of(padded_text, model, rows, rows, 0, 0))
    assert found["tokens"] == count
    assert found["loss"] == pytest.approx(loss / count, rel=1e-4)


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", [(None, "serial"), ("row:2,col:2", "summa")])
def test_padding_in_the_place_of_tokens(tools, tmp_path, mesh, strategy):
    """Few tokens, so that padding often takes the place of a hidden one: it is seen
    by the others, also at the end, and learns nothing from that."""
    model = BertModel(1, 48, 6, sequence=8, vocabulary=5, batch=8, init_std=0.5)
    data = tmp_path / "text.txt"
    tokens = np.random.default_rng(3).integers(0, 4, 8 * model.sequence + 1)
    data.write_bytes(tokens.astype(np.uint8).tobytes())
    library = tools.library(model, mesh, strategy)
    rows, pad, mask, seed = np.arange(model.batch), 0, 4, 629
    parameters = tools.initial(library, data, tmp_path / "start", seed).parameters
    reference = Bert(in_f64(parameters), model.heads)
    inputs, _ = windows(tokens, model.sequence)
    inputs, targets = masked(inputs, rows, seed, 1, model.vocabulary, mask, pad)
    took = (inputs == pad) & (targets > pad)
    assert took[:, -1].any() and took[:, :-1].any()
    flags = ["--seed", seed, "--clip", 1e9, "--save", tmp_path / "end"]
    log = tools.train(library, data, 1, *flags, log=tmp_path / "log")
    loss, count, gradients = reference.loss_and_gradients(inputs, targets)
    assert log[0]["loss"] == pytest.approx(loss / count, rel=1e-6)
    # The first moment of AdamW is a tenth of the mean's gradient.
    moment = Checkpoint(tmp_path / "end").moments["exp_avg." + WORDS]
    assert relative_error(moment * 10 * count, gradients[WORDS]) < 1e-5


@pytest.fixture(scope="module")
def serial(tools, padded_text, tmp_path_factory):
    """Training runs on one rank, by model."""
    known = {}

    def run(model):
        if model not in known:
            folder = tmp_path_factory.mktemp("serial")
            known[model] = trained(tools, model, None, "serial", padded_text, folder)
        return known[model]

    return run


def trained(tools, model, mesh, strategy, data, folder):
    library = tools.library(model, mesh, strategy)
    flags = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]
    flags += ["--save", folder / "final"]
    log = tools.train(library, data, 20, *flags, log=folder / "log")
    return library, log, Checkpoint(folder / "final")


@pytest.mark.rotates
@pytest.mark.parametrize("model", [TRAINED, RAGGED], ids=["even", "ragged"])
@pytest.mark.parametrize(
    "mesh, strategy",
    [
        ("row:2,col:2", "summa"),
        ("row:2,col:3", "summa"),
        ("row:3,col:2", "summa-paper"),
        ("row:1,col:4", "megatron"),
    ],
)
def test_every_mesh_trains_as_one_rank(
    tools, padded_text, serial, tmp_path, mesh, strategy, model
):
    reference, expected, final = serial(model)
    assert losses(expected)[-1] < losses(expected)[0] - 1
    library, log, _ = trained(tools, model, mesh, strategy, padded_text, tmp_path)
    np.testing.assert_allclose(losses(log), losses(expected), rtol=1e-4)
    norms = [[line["grad_norm"] for line in each] for each in (log, expected)]
    np.testing.assert_allclose(*norms, rtol=1e-2)
    for flags in ([], ["--load", final.folder]):
        flags = ["--data", padded_text, *flags]
        tools.run("optimus-run", "verify", reference, library, *flags)

# ===- test_identity.py - Which model a checkpoint is of -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A model of the same shapes that computes something else is another model:
checkpoints keep the facts of the function, and a refusal names the difference."""

import json
import re

import pytest

import safetensors_file
from tools import call, run_builder, succeed

COMMON = "--layers 1 --hidden 24 --seq 8 --vocab 256 --batch 2 "
FAMILIES = {
    "gpt2": COMMON + "--heads 6",
    "bert": COMMON + "--heads 6 --mask-token 255 --pad-token 0",
    "llama": COMMON + "--heads 6 --kv-heads 3 --ffn 32 --rope-theta 10000 --norm-eps 1e-6",
    "phi": COMMON + "--heads 3 --rotary-dim 4 --rope-theta 10000",
    "gated-encoder": COMMON + "--heads 3 --head-dim 8 --ffn 32 --mask-token 255 --pad-token 0",
}
HASHES = {
    "gpt2": "037d677ab0170e42",
    "bert": "76e0f73088d5ae22",
    "llama": "9b9509787e314ec0",
    "phi": "9bfd8939a34c8f05",
    "gated-encoder": "0b2decfee67a5387",
}
"""Of version 1. Where the compiler, not a builder, changes one of them, checkpoints
that are there become those of another model: that needs another kVersion in
ModelFunction.cpp."""

# What is built otherwise: the flags, and what is said of it.
VARIANTS = [
    ("gpt2", "--heads 4", ["heads: checkpoint 6, library 4", "--heads 6"]),
    ("gpt2", "--heads 4 --dropout 0.1", ["heads: checkpoint 6, library 4"]),
    ("bert", "--heads 3", ["heads: checkpoint 6, library 3", "--heads 6"]),
    ("bert", "--mask-token 254", ["mask_token: checkpoint 255, library 254"]),
    ("bert", "--pad-token 1", ["pad_token: checkpoint 0, library 1", "--pad-token 0"]),
    (
        "llama",
        "--heads 4 --kv-heads 2",
        [
            "heads: checkpoint 6, library 4",
            "kv_heads: checkpoint 3, library 2",
            "--heads 6",
            "--kv-heads 3",
        ],
    ),
    (
        "llama",
        "--rope-theta 500000",
        ["rope_theta: checkpoint 10000, library 500000", "--rope-theta 10000"],
    ),
    ("llama", "--norm-eps 1e-5", ["norm_eps: checkpoint 1e-06, library 1e-05", "--norm-eps 1e-06"]),
    ("llama", "--window 3", ["window: checkpoint none, library 3"]),
    ("llama", "--tied", ["tied: checkpoint false, library true", "--untied"]),
    ("phi", "--rotary-dim 2", ["rotary_dim: checkpoint 4, library 2", "--rotary-dim 4"]),
    ("phi", "--rope-theta 9999", ["rope_theta: checkpoint 10000, library 9999"]),
    ("phi", "--heads 2 --rotary-dim 4", ["heads: checkpoint 3, library 2", "--heads 3"]),
    ("phi", "--norms 2", ["it has no parameter model.layers.0."]),
    (
        "gated-encoder",
        "--heads 2 --head-dim 12",
        ["heads: checkpoint 3, library 2", "head_dim: checkpoint 8, library 12"],
    ),
    ("gated-encoder", "--mask-token 1", ["mask_token: checkpoint 255, library 1"]),
]
# A few of each kind in a run; the others differ in what is compared alone.
ALWAYS = {"--heads 4", "--rope-theta 500000", "--norm-eps 1e-5", "--rotary-dim 2", "--pad-token 1"}


class Programs:
    """Programs and libraries, by the builder's flags."""

    def __init__(self, tools, folder):
        self._tools, self._folder = tools, folder
        self._known = {}

    def _once(self, key, make):
        if key not in self._known:
            self._known[key] = self._folder / str(len(self._known))
            make(self._known[key])
        return self._known[key]

    def program(self, family, flags):
        def make(path):
            succeed(run_builder(family, *flags.split(), "-o", path))

        return self._once((family, flags), make)

    def library(self, family, flags, *more):
        source = self.program(family, flags)
        return self.compile(source, *more)

    def compile(self, source, *more):
        def build(path):
            self._tools.run("optimus-compile", source, *more, "-o", path)

        return self._once((source, more), build)

    def record(self, source):
        """`optimus.function` of a program: the hash, and the text of the facts."""
        text = self._tools.run("optimus-opt", source, "--optimus-record-function")
        found = re.search(r'optimus.function = {.*?facts = {(.*?)}.*?hash = "(\w+)"', text)
        return found[2], found[1]


@pytest.fixture(scope="module")
def programs(tools, tmp_path_factory):
    return Programs(tools, tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def checkpoint_of(tools, programs, text, tmp_path_factory):
    """A family's checkpoint after two steps."""
    known = {}

    def train(family, *more):
        if (family, more) not in known:
            folder = tmp_path_factory.mktemp("checkpoints") / "saved"
            library = programs.library(family, FAMILIES[family], *more)
            flags = ["--threads-per-rank", 1, "--save", folder]
            succeed(call(tools.train_command(library, text, 2, *flags)))
            known[family, more] = folder
        return known[family, more]

    return train


def evaluate(tools, library, text, folder, *flags):
    flags = ["--threads-per-rank", 1, "--load", folder, *flags]
    return call(tools.command("optimus-run", "eval", library, "--data", text, *flags))


def refusal(result):
    assert result.returncode == 1, result.stdout
    assert result.stderr.count("error:") == 1, result.stderr
    return result.stderr


# ------------------------------------------------------------- other functions


@pytest.mark.parametrize(
    "family, flags, words",
    [
        pytest.param(*each, marks=[] if each[1] in ALWAYS else pytest.mark.long)
        for each in VARIANTS
    ],
)
def test_another_function_is_refused(
    tools, programs, checkpoint_of, text, family, flags, words
):
    folder = checkpoint_of(family)
    library = programs.library(family, FAMILIES[family] + " " + flags)
    before = (folder / "state.json").read_bytes()
    load = ["--threads-per-rank", 1, "--load", folder, "--save", folder]
    weights = ["--threads-per-rank", 1, "--load-weights", folder]
    for result in (
        evaluate(tools, library, text, folder),
        call(tools.train_command(library, text, 3, *load)),
        call(tools.train_command(library, text, 3, *weights)),
    ):
        message = refusal(result)
        assert "is of another model: " in message
        for word in words:
            assert word in message
    assert (folder / "state.json").read_bytes() == before


@pytest.mark.rotates
@pytest.mark.parametrize("family, flags, words", VARIANTS)
def test_records_differ_where_functions_do(programs, family, flags, words):
    """What is compared, without a compilation of each."""
    own = programs.record(programs.program(family, FAMILIES[family]))
    other = programs.record(programs.program(family, FAMILIES[family] + " " + flags))
    assert own != other
    # What stands for a hidden token is the data's, not an operation's.
    assert own[0] != other[0] or "--mask-token" in flags
    for name, value in re.findall(r"(\w+): checkpoint \S+, library ([\w.]+)", "\n".join(words)):
        assert re.search(r"\b%s = \"?%s" % (name, re.escape(value)[:1]), other[1]), other[1]
        assert own[1] != other[1]


@pytest.mark.variants
@pytest.mark.parametrize("family", FAMILIES)
def test_what_changes_no_function_changes_no_record(programs, family):
    flags = FAMILIES[family]
    own = programs.record(programs.program(family, flags))
    changes = ["--batch 4", "--chunk 3", "--init-std 0.5"]
    if family in ("gpt2", "bert"):
        changes.append("--dropout 0.25")
    if family in ("llama", "phi"):
        # Elsewhere it is the shape of a parameter.
        changes.append("--seq 16")
    for change in changes:
        assert programs.record(programs.program(family, flags + " " + change)) == own, change


def test_a_library_says_what_it_computes(tools, programs):
    library = programs.library("llama", FAMILIES["llama"])
    said = tools.run("optimus-run", "inspect", library)
    (line,) = re.findall("function: (.*)", said)
    for fact in ("heads 6", "kv_heads 3", "rope_theta 10000", "norm_eps 1e-06", "mask causal"):
        assert fact in line


@pytest.mark.parametrize("family", FAMILIES)
def test_hashes_are_those_of_their_version(programs, family):
    found, _ = programs.record(programs.program(family, FAMILIES[family]))
    assert found == HASHES[family]


# --------------------------------------------------------- programs by hand

PARAMETER = 'tensor<8x8xf32> {optimus.param = "%s", optimus.init = #optimus.init<normal, stddev = 0.1, stream = %d>}'
BY_HAND = """module attributes {optimus.model = {batch = 2 : i64, sequence = 4 : i64, vocabulary = 8 : i64}} {
  func.func @loss(%%table: %s, %%w: %s, %%v: %s,
      %%tokens: tensor<2x4xi32> {optimus.binding = "tokens"}, %%targets: tensor<2x4xi32> {optimus.binding = "targets"})
      -> (tensor<f32>, tensor<f32>) {
    %%x = optimus.embedding %%table, %%tokens : (tensor<8x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
BODY
    %%l, %%n = optimus.head_loss %%y, %%table, %%targets : (tensor<2x4x8xf32>, tensor<8x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
    return %%l, %%n : tensor<f32>, tensor<f32>
  }
}
""" % tuple(PARAMETER % (name, stream) for stream, name in enumerate(["table", "w", "v"]))
MATMUL = "%%%s = optimus.matmul %%%s, %%%s %s: (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>\n"
ADD = "%%%s = optimus.add %%%s, %%%s : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>\n"
OWN = MATMUL % ("a", "x", "w", "") + MATMUL % ("b", "x", "v", "") + ADD % ("y", "a", "b")

SAME_BY_HAND = {
    "other names": OWN.replace("%a", "%first").replace("%b", "%second"),
    "another order": MATMUL % ("b", "x", "v", "") + MATMUL % ("a", "x", "w", "") + ADD % ("y", "a", "b"),
    "something that is not used": MATMUL % ("unused", "x", "w", "") + OWN,
}
OTHER_BY_HAND = {
    "a transposed weight": OWN.replace("%x, %w ", "%x, %w {transpose_b} "),
    "one after the other": MATMUL % ("a", "x", "w", "") + MATMUL % ("b", "a", "v", "") + ADD % ("y", "a", "b"),
    "without one of them": MATMUL % ("a", "x", "w", "") + MATMUL % ("b", "x", "v", "") + ADD % ("y", "a", "a"),
}
# A sum in another order is the same function. A hash may call it another, never
# the opposite.
OTHER_BY_HAND["another place in a sum"] = OWN.replace("%a, %b", "%b, %a")


def by_hand(folder, name, body):
    path = folder / ("%s.mlir" % name.replace(" ", "-"))
    path.write_text(BY_HAND.replace("BODY", body))
    return path


def test_a_program_by_hand_is_known_by_what_computes_its_loss(programs, tmp_path):
    own, _ = programs.record(by_hand(tmp_path, "own", OWN))
    for name, body in SAME_BY_HAND.items():
        assert programs.record(by_hand(tmp_path, name, body))[0] == own, name
    others = {programs.record(by_hand(tmp_path, n, b))[0] for n, b in OTHER_BY_HAND.items()}
    assert own not in others
    assert len(others) == len(OTHER_BY_HAND)


def test_another_program_by_hand_is_refused(tools, programs, text, tmp_path):
    data = tmp_path / "data.txt"
    data.write_bytes(bytes(i * 5 % 8 for i in range(200)))
    own = programs.compile(by_hand(tmp_path, "own", OWN))
    folder = tmp_path / "saved"
    succeed(call(tools.train_command(own, data, 1, "--save", folder)))
    for name in ("a transposed weight", "one after the other"):
        library = programs.compile(by_hand(tmp_path, name, OTHER_BY_HAND[name]))
        message = refusal(evaluate(tools, library, data, folder))
        assert "what computes the loss: checkpoint has hash " in message
        assert "use a library of the program that wrote it" in message
        result = tools.call("optimus-run", "verify", own, library, "--data", data)
        assert "they are different models: what computes the loss" in refusal(result)
    same = programs.compile(by_hand(tmp_path, "names", SAME_BY_HAND["other names"]))
    expected = succeed(evaluate(tools, own, data, folder))
    assert succeed(evaluate(tools, same, data, folder)) == expected


# ------------------------------------------------- what changes no function


def test_what_is_compiled_otherwise_is_said(tools, programs, checkpoint_of, text, tmp_path):
    folder = checkpoint_of("gpt2")
    flags = FAMILIES["gpt2"] + " --batch 4 --dropout 0.1 --chunk 3"
    mesh = ["--mesh", "data:2", "--strategy", "data", "--precision", "bf16"]
    library = programs.library("gpt2", flags, *mesh)
    load = ["--threads-per-rank", 1, "--load", folder]
    said = succeed(call(tools.train_command(library, text, 3, *load)))
    assert "going on after step 2" in said
    (line,) = [line for line in said.splitlines() if "compiled otherwise" in line]
    for change in (
        "chunk 3 (was 512)",
        "dropout 0.1 (was none)",
        "mesh data:2 (was ",
        "precision bf16 (was f32)",
        "strategy data (was serial)",
    ):
        assert change in line
    # Where nothing differs nothing is said.
    same = programs.library("gpt2", FAMILIES["gpt2"])
    assert "otherwise" not in succeed(call(tools.train_command(same, text, 3, *load)))


# ------------------------------------------------------------ other optimizers


def test_evaluation_and_comparison_need_parameters_only(
    tools, programs, checkpoint_of, text
):
    folder = checkpoint_of("gpt2")
    own = programs.library("gpt2", FAMILIES["gpt2"])
    expected = succeed(evaluate(tools, own, text, folder))
    for optimizer in ("sgd", "lamb"):
        library = programs.library("gpt2", FAMILIES["gpt2"], "--optimizer", optimizer)
        assert succeed(evaluate(tools, library, text, folder)) == expected
        flags = ["--data", text, "--load", folder, "--threads-per-rank", 1]
        succeed(tools.call("optimus-run", "verify", own, library, *flags))


def test_weights_begin_a_new_run(tools, programs, checkpoint_of, text, tmp_path):
    """At step 0, with another optimizer or the same: its state is new."""
    folder = checkpoint_of("gpt2")
    for optimizer in ("lamb", "adamw"):
        library = programs.library("gpt2", FAMILIES["gpt2"], "--optimizer", optimizer)
        flags = ["--threads-per-rank", 1, "--seed", 3]
        if optimizer != "adamw":
            result = call(tools.train_command(library, text, 3, "--load", folder))
            message = refusal(result)
            assert "the state of the optimizer adamw" in message
            assert "--load-weights %s" % folder in message
        saved, log = tmp_path / optimizer, tmp_path / (optimizer + ".log")
        weights = [*flags, "--load-weights", folder]
        said = succeed(
            call(tools.train_command(library, text, 0, *weights, "--save", saved))
        )
        assert "a new state of the optimizer %s" % optimizer in said
        assert "step 0" in said
        model = "model.safetensors"
        assert (saved / model).read_bytes() == (folder / model).read_bytes()
        state = json.loads((saved / "state.json").read_text())
        assert (state["step"], state["data_position"], state["seed"]) == (0, 0, 3)
        moments = (saved / "optimizer.safetensors").read_bytes()
        assert not any(safetensors_file.split(moments)[1])
        # Steps that follow are those of a run from there.
        first = tools.train(library, text, 3, *weights, log=log)
        second = tools.train(library, text, 3, *flags, "--load", saved, log=log)
        assert [line["loss"] for line in first] == [line["loss"] for line in second]
        assert [line["step"] for line in first] == [1, 2, 3]
    result = call(tools.train_command(library, text, 1, *weights, "--load", folder))
    assert "excludes" in refusal(result)
    # Saving may not replace a partly loaded checkpoint.
    result = call(tools.train_command(library, text, 1, *weights, "--save", folder))
    assert "did not load" in refusal(result)

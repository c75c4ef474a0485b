# ===- test_builder.py - The model builders -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The program that `python3 -m optimus.models` writes, and its errors."""

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpt2_reference import parameter_shapes
from optimus import ProgramError, attributes, ir
from optimus.models import ConfigError, __main__ as command_line, bert, gpt2, llama, published
from published_configs import FAMILIES
from tools import default_signals, run_builder

PACKAGE = Path(__file__).resolve().parents[1]

SMALL = gpt2.Config(
    layers=2, hidden=12, heads=3, sequence=8, vocabulary=50, batch=4, chunk=16
)


def run_in_shell(script, arguments, folder):
    """`"$@"` is the program with its arguments."""
    # -S leaves nothing but the standard library to import.
    program = [sys.executable, "-S", "-m", "optimus.models", *map(str, arguments)]
    return subprocess.run(
        ["sh", "-c", script, "sh", *program],
        env={"PYTHONPATH": str(PACKAGE), "PATH": os.environ["PATH"]},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def flags(**changes):
    options = dict(layers=2, hidden=12, heads=3, seq=8, vocab=50, batch=4)
    options.update(changes)
    return [
        part
        for name, value in options.items()
        if value is not None
        for part in ("--" + name.replace("_", "-"), str(value))
    ]


def arguments_of(text):
    """(name, tensor type, attribute text) of each argument of @loss."""
    return re.findall(
        r"^ +%(\w+): tensor<(\S+)> \{(.*)\} loc\(#loc\d+\),?$", text, re.M
    )


def operations_of(text):
    """(mnemonic, line) of each operation of the body."""
    return re.findall(r"^    %.* = optimus\.(\w+) (.*) loc\(#loc\d+\)$", text, re.M)


def test_parameters_have_hugging_face_names_and_shapes():
    found = []
    for name, type, attributes in arguments_of(gpt2.build(SMALL).text())[:-2]:
        shape = tuple(map(int, type.split("x")[:-1]))
        hf = re.search(r"hf_shape = array<i64: ([\d, ]+)>", attributes)
        if hf:
            shape = tuple(map(int, hf.group(1).split(", ")))
        found.append((re.search(r'param = "([^"]+)"', attributes).group(1), shape))
    assert found == parameter_shapes(2, 12, 8, 50, 48)


def test_heads_are_a_dimension_of_their_own():
    types = {name: type for name, type, _ in arguments_of(gpt2.build(SMALL).text())}
    assert types["h0_attn_c_attn_weight"] == "12x3x3x4xf32"
    assert types["h0_attn_c_attn_bias"] == "3x3x4xf32"
    assert types["h0_attn_c_proj_weight"] == "3x4x12xf32"


def test_argument_attributes():
    attributes = {
        name: text for name, _, text in arguments_of(gpt2.build(SMALL).text())
    }
    assert attributes["wte_weight"] == (
        'optimus.param = "wte.weight", '
        "optimus.init = #optimus.init<normal, stddev = 0.02, stream = 0>, "
        'optimus.dims = ["vocabulary", "hidden"]'
    )
    assert attributes["h1_attn_c_attn_bias"] == (
        'optimus.param = "h.1.attn.c_attn.bias", '
        "optimus.hf_shape = array<i64: 36>, optimus.init = #optimus.init<zeros>, "
        'optimus.dims = ["three", "heads", "head_dim"]'
    )
    assert "#optimus.init<ones>" in attributes["ln_f_weight"]
    assert attributes["tokens"] == (
        'optimus.binding = "tokens", optimus.dims = ["batch", "sequence"]'
    )


def test_residual_projections_start_smaller():
    text = gpt2.build(SMALL._replace(init_std=0.5)).text()
    drawn = re.findall(
        r'param = "([^"]+)".*stddev = (\S+), stream = (\d+)>', text
    )
    # 0.5 / sqrt(2 * 2 layers) is exact.
    for name, stddev, _ in drawn:
        assert float(stddev) == (0.25 if "c_proj" in name else 0.5), name
    assert [int(stream) for _, _, stream in drawn] == list(range(2 + 4 * 2))


def test_body():
    text = gpt2.build(SMALL._replace(layers=1)).text()
    operations = operations_of(text)
    assert [mnemonic for mnemonic, _ in operations] == (
        "embedding add "
        "layer_norm matmul add attention matmul add add "
        "layer_norm matmul add gelu matmul add add "
        "layer_norm head_loss"
    ).split()
    assert operations[6][1] == (
        "%h0_attn_heads, %h0_attn_c_proj_weight "
        '{contracting = 2 : i64} : '
        "(tensor<4x8x3x4xf32>, tensor<3x4x12xf32>) -> tensor<4x8x12xf32>"
    )
    assert "{causal}" in operations[5][1]
    assert "{epsilon = 1.0e-05 : f64}" in operations[2][1]
    assert operations[-1][1].startswith(
        "%ln_f, %wte_weight, %targets {chunk = 16 : i64} : "
    )


def test_dropout():
    text = gpt2.build(SMALL._replace(dropout=0.1)).text()
    assert arguments_of(text)[-1] == (
        "random", "5xi32", 'optimus.binding = "random"'
    )
    # After the embedding, each attention and each feed-forward part.
    drawn = re.findall(r"%(\w+), %random \{rate = 0.1 : f64, stream = (\d+)", text)
    parts = ["h%d_%s" % (layer, part) for layer in (0, 1) for part in ("attn_out", "mlp_down")]
    assert [name for name, _ in drawn] == ["embedded_at", *parts]
    assert [int(stream) for _, stream in drawn] == [2**24 + i for i in range(5)]
    # What is drawn for the parameters stays.
    plain = gpt2.build(SMALL).text()
    assert "random" not in plain
    assert arguments_of(text)[:-3] == arguments_of(plain)[:-2]


@pytest.mark.parametrize("config", [SMALL, SMALL._replace(dropout=0.5)])
def test_every_value_is_defined_once_before_its_use(config):
    text = gpt2.build(config).text()
    defined = {name for name, _, _ in arguments_of(text)}
    assert len(defined) == len(arguments_of(text))
    for line in text.splitlines():
        results, equals, rest = line.strip().partition(" = optimus.")
        if equals:
            assert set(re.findall(r"%(\w+)", rest)) <= defined, line
            for name in re.findall(r"%(\w+)", results):
                assert name not in defined, line
                defined.add(name)


def test_module_describes_the_model():
    first = gpt2.build(SMALL).text().splitlines()[0]
    assert first == (
        'module attributes {optimus.model = {kind = "gpt2", batch = 4 : i64, '
        "sequence = 8 : i64, vocabulary = 50 : i64, layers = 2 : i64, "
        "hidden = 12 : i64, heads = 3 : i64, ffn = 48 : i64, config = "
        + attributes.string_text(published.text_of(published.config_of("gpt2", SMALL)))
        + "}} {"
    )


@pytest.mark.parametrize(
    "value, text",
    [
        (0.02, "0.02"),
        (1e-5, "1.0e-05"),
        (2.5e-7, "2.5e-07"),
        (1.0, "1.0"),
        (1e22, "1.0e+22"),
    ],
)
def test_floats_have_the_point_that_mlir_wants(value, text):
    assert attributes.float_text(value) == text
    assert float(text) == value


def test_file_and_standard_output_agree(tmp_path):
    path = tmp_path / "gpt.mlir"
    to_file = run_builder("gpt2", *flags(), "-o", path)
    assert (to_file.returncode, to_file.stdout, to_file.stderr) == (0, "", "")
    to_output = run_builder("gpt2", *flags(), "-o", "-")
    assert to_output.returncode == 0
    assert path.read_text() == to_output.stdout
    assert to_output.stdout == gpt2.build(SMALL._replace(chunk=512)).text()
    assert os.listdir(tmp_path) == ["gpt.mlir"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("family", FAMILIES)
def test_a_process_of_its_own_says_the_same(tmp_path, family):
    """With the standard library alone; of a family's flags, and of none."""
    for arguments in FAMILIES[family][1].split(), [family]:
        here = run_builder(*arguments)
        found = run_in_shell('"$@"', arguments, tmp_path)
        assert (found.returncode, found.stdout, found.stderr) == (
            here.returncode, here.stdout, here.stderr
        )
        assert bool(here.stdout) == (here.returncode == 0) == (not here.stderr)


def test_chunks_of_a_large_batch():
    """Left out, a chunk has so many tokens that the compiler takes their number."""
    for batch, chunk in ((2048, 512), (2049, 513), (8192, 2048)):
        large = SMALL._replace(sequence=1024, batch=batch, chunk=None)
        assert "{chunk = %d : i64}" % chunk in gpt2.build(large).text()


def test_output_may_be_a_device():
    assert run_builder("gpt2", *flags(), "-o", "/dev/null").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_output_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real.mlir").write_text("old")
    (tmp_path / "link.mlir").symlink_to("real.mlir")
    assert run_builder("gpt2", *flags(), "-o", tmp_path / "link.mlir").returncode == 0
    assert (tmp_path / "link.mlir").is_symlink()
    assert (tmp_path / "real.mlir").read_text().startswith("module")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (flags(heads=5), "--hidden (12) is not divisible by --heads (5)"),
        (flags(layers=0), "--layers is 0; expected a whole number from 1 to 4096"),
        (flags(layers=100000), "--layers is 100000; expected a whole number from 1 to"),
        (flags(batch=-1), "--batch is -1"),
        (flags(vocab=2**31), "--vocab is 2147483648"),
        (flags(batch=2**24, seq=2**24), "times --seq (16777216) is 281474976710656 to"),
        (flags(chunk=0), "--chunk is 0"),
        (flags(ffn=0), "--ffn is 0"),
        (flags(init_std=0), "--init-std is 0.0; expected a positive number"),
        (flags(init_std="nan"), "--init-std is nan"),
        (flags(init_std="x"), "argument --init-std: expected a number, found 'x'"),
        (flags(dropout=1), "--dropout is 1.0; expected a number from 0 to below 1"),
        (flags(dropout="nan"), "--dropout is nan"),
        (flags(seq="long"), "argument --seq: expected a whole number, found 'long'"),
        (flags(seq="1_0"), "argument --seq: expected a whole number, found '1_0'"),
        (flags(seq="9" * 5000), "argument --seq: expected a whole number, found '99"),
        (flags(seq=None), "gpt2 needs --seq (see --help)"),
        (flags(colour=1), "there is no option --colour (see --help)"),
        (flags(vocab=None, vocap=1), "no option --vocap; did you mean '--vocab'?"),
        (flags() + ["file"], "expected options after the model, found 'file'"),
    ],
)
def test_bad_arguments(arguments, message):
    result = run_builder("gpt2", *arguments)
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (flags(kv_heads=2, ffn=20), "--heads (3) is not divisible by --kv-heads (2)"),
        (flags(), "llama needs --ffn"),
        (flags(ffn=20, rope_theta=-1), "--rope-theta is -1.0; expected a positive"),
        (flags(ffn=20, window=0), "--window is 0; expected a whole number from 1 to"),
        (flags(ffn=20, norm_eps=0), "--norm-eps is 0.0; expected a positive"),
        (flags(ffn=20, hidden=9), "--hidden / --heads is 3; expected an even number"),
        (flags(ffn=20) + ["--tied", "--untied"], "not allowed with argument"),
        (flags(ffn=20, dropout=0.1), "there is no option --dropout"),
    ],
)
def test_bad_arguments_of_llama(arguments, message):
    result = run_builder("llama", *arguments)
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    "family, default", [("gpt2", "1.0e-05"), ("bert", "1.0e-12"), ("phi", "1.0e-05")]
)
def test_epsilon_of_the_norms_is_an_option(family, default):
    def epsilons(*more):
        text = run_builder(family, *flags(), *more).stdout
        return set(re.findall(r"epsilon = (\S+) :", text))

    assert epsilons() == {default}
    assert epsilons("--norm-eps", "1e-7") == {"1.0e-07"}
    refused = run_builder(family, *flags(), "--norm-eps", "0")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "--norm-eps is 0.0; expected a positive number" in refused.stderr


@pytest.mark.parametrize("tied", [False, True])
def test_llama_has_a_head_of_its_own_or_not(tied):
    result = run_builder("llama", *flags(ffn=20), "--tied" if tied else "--untied")
    assert (result.returncode, result.stderr) == (0, "")
    config = llama.Config(2, 12, 3, 8, 50, 4, kv_heads=3, ffn=20, tied=tied)
    assert result.stdout == llama.build(config).text()
    head = operations_of(result.stdout)[-1][1]
    table = "model_embed_tokens_weight" if tied else "lm_head_weight"
    assert head.startswith("%%model_norm, %%%s, %%targets" % table)
    assert ("lm_head" in result.stdout) is not tied


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["gpt3", *flags()], "no model 'gpt3'; there are gpt2, bert, llama, phi, "
                             "gpt_neox, gated-encoder, from-hf, to-gguf; did you mean 'gpt2'?"),
        ([], "expected a model, one of gpt2, bert, llama"),
        (["--layers"], "there is no option --layers"),
    ],
)
def test_unknown_model(arguments, message):
    result = run_builder(*arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_version():
    cmake = (PACKAGE.parent / "CMakeLists.txt").read_text()
    version = re.search(r"^project\(Optimus VERSION (\S+)", cmake, re.M)[1]
    assert run_builder("--version").stdout == "optimus.models %s\n" % version


@pytest.mark.parametrize("arguments", [["gpt2", "--help"], ["gpt2", *flags()]])
@pytest.mark.parametrize(
    "stream, why",
    [
        (">&-", "Bad file descriptor"),
        (">/dev/full", "No space left on device"),
        # `true` has ended before it writes.
        ("", "Broken pipe"),
    ],
)
def test_standard_output_that_takes_nothing(tmp_path, arguments, stream, why):
    script = '"$@" ' + stream
    if not stream:
        script = '{ sleep 0.2; "$@"; echo $? >code; } | true; exit $(cat code)'
    result = run_in_shell(script, arguments, tmp_path)
    assert result.returncode == 1
    assert result.stderr == (
        "optimus.models: error: cannot write to standard output: %s\n" % why
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_more(tmp_path, number):
    # A program larger than a pipe holds.
    command = [sys.executable, "-m", "optimus.models", "gpt2", *flags(layers=50)]
    process = subprocess.Popen(
        command,
        env={"PYTHONPATH": str(PACKAGE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=default_signals,
    )
    assert process.stdout.read(1) == b"m"
    process.send_signal(number)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (-number, b"")


def test_a_closed_standard_error_gets_into_no_file(tmp_path):
    assert run_in_shell('"$@" 2>&-', ["gpt3"], tmp_path).returncode == 1
    arguments = ["gpt2", *flags(), "-o", "gpt.mlir"]
    result = run_in_shell('"$@" >&- 2>&-', arguments, tmp_path)
    assert result.returncode == 0
    assert (tmp_path / "gpt.mlir").read_text().startswith("module")


def test_a_fault_of_ours_is_told_apart(monkeypatch, capfd):
    monkeypatch.setattr(gpt2, "build", lambda config: config.missing)
    assert command_line.main(["gpt2", *flags()]) == 2
    assert "this is a fault of ours" in capfd.readouterr().err


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda f, x, w: f.add("y", x, w), "add 'y': expected the last dim"),
        (lambda f, x, w: f.matmul("y", x, x), "matmul 'y': expected [8], what is"),
        (lambda f, x, w: f.matmul("y", w, x, 2), "matmul 'y': expected"),
        (lambda f, x, w: f.layer_norm("y", x, w, w, 1e-5),
         "layer_norm 'y', %w: expected the shape [8], found [6]"),
        (lambda f, x, w: f.rms_norm("y", x, w, 1e-5),
         "rms_norm 'y', %w: expected the shape [8], found [6]"),
        (lambda f, x, w: f.rotary("y", x, 1e4), "rotary 'y': expected the shape"),
        (lambda f, x, w: f.attention("y", [x], True), "attention 'y': expected qkv"),
        (lambda f, x, w: f.attention("y", [x, x], True), "found 2 inputs, the fir"),
        (lambda f, x, w: f.swiglu("y", x, w), "swiglu 'y', %w: expected the shape"),
        (lambda f, x, w: f.head_loss(x, x, w, 1), "head_loss, %x: expected the shape"),
        (lambda f, x, w: f.gelu("x", x), "%x: expected a name of its own"),
        (lambda f, x, w: f.text(), "@loss: expected head_loss as its last operation"),
        (lambda f, x, w: f.parameter("p", (2,), ("a", "b"), ir.ZEROS),
         "parameter 'p': expected a name for each of 1 dimensions, found ['a', 'b']"),
        (lambda f, x, w: f.parameter("p", (2,), ("a",), ir.ZEROS, (3,)),
         "parameter 'p': expected as many elements in hf_shape as in [2], found [3]"),
        (lambda f, x, w: f.parameter("p", (2,), ("a",), ir.Init("twos")),
         "parameter 'p': expected the initial values normal, zeros or ones, found twos"),
        (lambda f, x, w: f.parameter("p", (2,), ("a",), ir.Init.normal(1e999)),
         "expected a finite number, found inf"),
    ],
)
def test_programs_put_together_wrongly(build, message):
    function = ir.LossFunction({})
    x = function.parameter("x", (4, 8), ("a", "b"), ir.ZEROS)
    w = function.parameter("w", (6,), ("c",), ir.ZEROS)
    with pytest.raises(ProgramError, match=re.escape(message)):
        build(function, x, w)


@pytest.mark.parametrize("where", ["missing/gpt.mlir", "."])
def test_unwritable_output(tmp_path, where):
    result = run_builder("gpt2", *flags(), "-o", tmp_path / where)
    assert result.returncode == 1
    assert "cannot write '%s'" % (tmp_path / where) in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_config_errors_reach_python_callers():
    with pytest.raises(ConfigError, match="heads"):
        gpt2.build(SMALL._replace(heads=5))


def test_a_model_without_a_head_has_no_loss():
    config = bert.Config(1, 12, 3, 8, 50, 4, head=False)
    with pytest.raises(ProgramError, match="@loss: expected a model with a head"):
        bert.build(config)
    text = bert.build(config, ir.ForwardFunction).text()
    assert "objective" not in text and "cls." not in text

# ===- test_from_hf.py - Programs of folders that others wrote ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.models from-hf`: the program of a config.json is the builder's
for the same shape, and a field that would make it another one is refused by name."""

import json
import os
import re

import pytest

from published_configs import (
    BERT,
    FAMILIES,
    GPT2,
    LLAMA,
    MISTRAL,
    NEOX,
    PHI,
    PHI_MSFT,
    QWEN2,
    QWEN3,
    SHAPE,
)
from test_builder import run_in_shell
from tools import run_builder


@pytest.fixture
def folder(tmp_path):
    """Makes a folder with a configuration, or with a text in its place."""

    def make(config, weights="model.safetensors"):
        found = tmp_path / "hf"
        found.mkdir(exist_ok=True)
        text = config if isinstance(config, str) else json.dumps(config)
        (found / "config.json").write_text(text)
        (found / weights).touch()
        return found

    return make


def from_hf(folder, *more):
    return run_builder("from-hf", folder, "--batch", 3, *more)


def apart(text):
    """A program without the model's config.json, and its fields."""
    found = re.findall(r', config = "([^"]*)"', text)
    fields = [re.sub(r"\\([0-9A-F]{2})", lambda one: chr(int(one[1], 16)), one) for one in found]
    (config,) = map(json.loads, fields)
    return text.replace(', config = "%s"' % found[0], ""), config


def program(folder, *more):
    """Without the model's config.json."""
    result = from_hf(folder, *more)
    assert result.returncode == 0, result.stderr
    return apart(result.stdout)[0]


def built(*flags):
    result = run_builder(*flags)
    assert result.returncode == 0, result.stderr
    return apart(result.stdout)[0]


def refusal(result):
    assert (result.returncode, result.stdout) == (1, ""), result
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("family", FAMILIES)
def test_program_is_the_builders(folder, family):
    config, flags = FAMILIES[family]
    assert program(folder(config)) == built(*flags.split())


def test_a_process_of_its_own_says_the_same(folder, tmp_path):
    """With the standard library alone."""
    for config in LLAMA, dict(LLAMA, model_type="mamba"):
        here = from_hf(folder(config))
        arguments = ["from-hf", tmp_path / "hf", "--batch", 3]
        found = run_in_shell('"$@"', arguments, tmp_path)
        assert (found.returncode, found.stdout, found.stderr) == (
            here.returncode, here.stdout, here.stderr
        )


def test_published_configuration(folder):
    """Of openai-community/gpt2, with fields of old versions."""
    config = dict(
        activation_function="gelu_new",
        architectures=["GPT2LMHeadModel"],
        attn_pdrop=0.1,
        bos_token_id=50256,
        embd_pdrop=0.1,
        eos_token_id=50256,
        initializer_range=0.02,
        layer_norm_epsilon=1e-05,
        model_type="gpt2",
        n_ctx=1024,
        n_embd=768,
        n_head=12,
        n_layer=12,
        n_positions=1024,
        resid_pdrop=0.1,
        summary_activation=None,
        summary_first_dropout=0.1,
        summary_proj_to_labels=True,
        summary_type="cls_index",
        summary_use_proj=True,
        task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}},
        vocab_size=50257,
    )
    flags = "gpt2 --layers 12 --hidden 768 --heads 12 --seq 1024 --vocab 50257 --batch 3"
    assert program(folder(config)) == built(*flags.split())


# A field, its value, and what it does to the builder's flags.
USED = [
    (GPT2, "n_inner", 50, "--ffn 50"),
    (GPT2, "n_layer", 1, "--layers 1"),
    (GPT2, "n_head", 5, "--heads 5"),
    (GPT2, "n_embd", 66, "--hidden 66"),
    (GPT2, "vocab_size", 101, "--vocab 101"),
    (GPT2, "n_positions", 12, "--seq 12"),
    (GPT2, "layer_norm_epsilon", 1e-5, "--norm-eps 1e-5"),
    (GPT2, "initializer_range", 1, "--init-std 1"),
    (BERT, "intermediate_size", 50, "--ffn 50"),
    (BERT, "pad_token_id", 0, "--pad-token 0"),
    (BERT, "layer_norm_eps", 1e-12, "--norm-eps 1e-12"),
    (LLAMA, "num_key_value_heads", 6, "--kv-heads 6"),
    (LLAMA, "num_key_value_heads", None, "--kv-heads 6"),
    (MISTRAL, "num_key_value_heads", None, "--kv-heads 6"),
    (QWEN2, "num_key_value_heads", None, "--kv-heads 6"),
    (LLAMA, "head_dim", 14, "--head-dim 14"),
    (MISTRAL, "head_dim", 14, "--head-dim 14"),
    (QWEN3, "head_dim", 8, "--head-dim 8"),
    (LLAMA, "rms_norm_eps", 1e-6, "--norm-eps 1e-6"),
    (LLAMA, "tie_word_embeddings", False, "--untied"),
    (LLAMA, "rope_parameters", None, "--rope-theta 10000"),
    (PHI, "partial_rotary_factor", 1.0, "--rotary-dim 10"),
    (PHI, "partial_rotary_factor", 0.25, "--rotary-dim 2"),
    (PHI, "rope_theta", 500, "--rope-theta 500"),
    (NEOX, "rotary_pct", 0.25, "--rotary-dim 2"),
    (NEOX, "rotary_emb_base", 500, "--rope-theta 500"),
    (NEOX, "use_parallel_residual", False, "--sequential"),
    (NEOX, "attention_bias", False, "--no-attention-bias"),
    (NEOX, "tie_word_embeddings", True, "--tied"),
]


@pytest.mark.parametrize(
    "config, name, value, flags",
    USED,
    ids=["%s-%s-%s" % (one[0]["model_type"], one[1], one[2]) for one in USED],
)
def test_a_field_is_used(folder, config, name, value, flags):
    _, known = FAMILIES[config["model_type"]]
    known = known.replace(" --tied", "") if flags == "--untied" else known
    # argparse takes the last of two.
    found = program(folder(dict(config, **{name: value})))
    assert found == built(*known.split(), *flags.split())
    assert found != program(folder(config))


# Values without influence on the program.
@pytest.mark.parametrize(
    "config, name, value",
    [
        (GPT2, "activation_function", "gelu_pytorch_tanh"),
        (GPT2, "architectures", ["GPT2Model"]),
        (GPT2, "architectures", None),
        (GPT2, "n_ctx", 16),
        (GPT2, "reorder_and_upcast_attn", True),
        (GPT2, "quantization_config", None),
        (GPT2, "id2label", {str(i): "label" for i in range(1000)}),
        (LLAMA, "rope_scaling", None),
        (LLAMA, "rope_theta", 5000.0),
        (LLAMA, "eos_token_id", 2),
        (MISTRAL, "sliding_window", 16),
        (QWEN2, "sliding_window", 8),
        (QWEN2, "max_window_layers", 2),
        (QWEN2, "layer_types", None),
        (QWEN2, "use_mrope", False),
        (PHI, "num_key_value_heads", None),
        (NEOX, "architectures", ["GPTNeoXModel"]),
        (NEOX, "rope_theta", 10000.0),
        (NEOX, "partial_rotary_factor", 0.4),
    ],
)
def test_a_field_changes_nothing(folder, config, name, value):
    assert program(folder(config)) == program(folder(dict(config, **{name: value})))


def test_absent_heads_of_keys_are_the_familys(folder):
    config = dict(MISTRAL, num_attention_heads=16, head_dim=6, hidden_size=96)
    del config["num_key_value_heads"]
    known = FAMILIES["mistral"][1].replace("--hidden 60 --heads 6", "--hidden 96 --heads 16")
    expected = built(*known.replace("--kv-heads 2", "--kv-heads 8").split())
    assert program(folder(config)) == expected


def test_rope_in_fields_of_both_versions(folder):
    older = dict(LLAMA, rope_theta=5000.0, rope_scaling=None)
    del older["rope_parameters"]
    assert program(folder(older)) == program(folder(LLAMA))
    newer = dict(PHI, rope_parameters=dict(rope_theta=10000.0, partial_rotary_factor=0.4))
    del newer["rope_theta"], newer["partial_rotary_factor"], newer["rope_scaling"]
    assert program(folder(newer)) == program(folder(PHI))
    newer = dict(NEOX, rope_parameters=dict(rope_theta=10000.0, partial_rotary_factor=0.4))
    del newer["rotary_emb_base"], newer["rotary_pct"], newer["rope_scaling"]
    assert program(folder(newer)) == program(folder(NEOX))


def test_absent_fields_are_the_familys_and_listed(folder):
    config = dict(GPT2)
    del config["layer_norm_epsilon"], config["resid_pdrop"]
    result = from_hf(folder(config))
    known = FAMILIES["gpt2"][1].replace("1e-3", "1e-5")
    assert apart(result.stdout)[0] == built(*known.split())
    assert "lacks are gpt2's defaults: " in result.stderr
    assert "layer_norm_epsilon 1e-05" in result.stderr
    assert "resid_pdrop 0.1" in result.stderr
    assert "n_head" not in result.stderr


def test_dropout_is_the_command_lines(folder):
    result = from_hf(folder(GPT2), "--dropout", 0.25)
    known = FAMILIES["gpt2"][1] + " --dropout 0.25"
    assert apart(result.stdout)[0] == built(*known.split())
    assert "resid_pdrop 0.1, embd_pdrop 0.1, attn_pdrop 0.1" in result.stderr
    quiet = dict(GPT2, resid_pdrop=0, embd_pdrop=0.0, attn_pdrop=0.0)
    assert "pdrop" not in from_hf(folder(quiet)).stderr


def test_rows_are_added_to_tables_of_tokens(folder):
    found = folder(GPT2)
    made = from_hf(found, "--padded-vocabulary", 128)
    assert "padded_vocabulary = 128 : i64" in made.stdout
    assert "tables of tokens get 31 rows of zeros after the folder's 97" in made.stderr
    # The model is the folder's.
    assert apart(made.stdout)[1]["vocab_size"] == 97
    assert made.stdout.replace(", padded_vocabulary = 128 : i64", "") == from_hf(found).stdout
    assert from_hf(found, "--padded-vocabulary", 97).stdout == from_hf(found).stdout
    line = refusal(from_hf(found, "--padded-vocabulary", 96))
    assert "--padded-vocabulary is 96; expected at least 97, the vocab_size of %s" % found in line


def test_choices_of_the_command_line(folder):
    chosen = "--seq 8 --chunk 16 --within-documents --functions loss,forward"
    known = FAMILIES["gpt2"][1].replace("--seq 16", chosen)
    assert program(folder(GPT2), *chosen.split()) == built(*known.split())
    known = FAMILIES["bert"][1] + " --mask-token 7"
    assert program(folder(BERT), "--mask-token", 7) == built(*known.split())


@pytest.mark.parametrize(
    "config, more, message",
    [
        (GPT2, ["--seq", 17], "--seq is 17; {} has n_positions 16: no position beyond is"),
        (GPT2, ["--batch", 0], "{}: --batch is 0; expected a whole number from 1"),
        (GPT2, ["--mask-token", 1], "--mask-token is not for models of the type gpt2"),
        (LLAMA, ["--dropout", 0.1], "--dropout is not for models of the type llama"),
        (BERT, ["--within-documents"], "--within-documents is not for models of the type bert"),
        (BERT, ["--mask-token", 97], "{}: --mask-token is 97; expected one of the"),
    ],
)
def test_bad_choices(folder, config, more, message):
    found = folder(config)
    path = found / "config.json"
    assert message.format(path) in refusal(from_hf(found, *more))


ROPES = 'null, or rope_type "default" or "linear" or "llama3"'
REFUSED = [
    (GPT2, "activation_function", "relu", '"gelu_new" or "gelu_pytorch_tanh"'),
    (GPT2, "scale_attn_by_inverse_layer_idx", True, "false"),
    (GPT2, "scale_attn_weights", False, "true"),
    (GPT2, "tie_word_embeddings", False, "true"),
    (GPT2, "add_cross_attention", True, "false"),
    (GPT2, "n_ctx", 8, "16"),
    (GPT2, "n_head", 6.0, "a whole number from 1 on"),
    (GPT2, "n_head", "6", "a whole number from 1 on"),
    (GPT2, "n_layer", True, "a whole number from 1 on"),
    (GPT2, "n_layer", -1, "a whole number from 1 on"),
    (GPT2, "n_embd", 0, "a whole number from 1 on"),
    (GPT2, "vocab_size", None, "a whole number from 1 on"),
    (GPT2, "layer_norm_epsilon", 0, "a positive number"),
    (GPT2, "layer_norm_epsilon", "1e-5", "a positive number"),
    (GPT2, "resid_pdrop", 2, "a number from 0 to 1"),
    (GPT2, "pruned_heads", {"0": [1]}, "{} or null"),
    (GPT2, "quantization_config", {"bits": 4}, "null"),
    (GPT2, "auto_map", {"AutoModel": "code.py"}, "null"),
    (GPT2, "architectures", ["GPT2ForSequenceClassification"], "GPT2LMHeadModel or GPT2Model"),
    (GPT2, "architectures", "GPT2LMHeadModel", "GPT2LMHeadModel or GPT2Model"),
    (GPT2, "rope_theta", 10000.0, "no field of this name"),
    (BERT, "hidden_act", "gelu_new", '"gelu"'),
    (BERT, "type_vocab_size", 1, "2"),
    (BERT, "position_embedding_type", "relative_key", '"absolute"'),
    (BERT, "is_decoder", True, "false"),
    (
        *(BERT, "architectures", ["BertForQuestionAnswering"]),
        "BertForMaskedLM or BertForPreTraining or BertModel",
    ),
    (LLAMA, "hidden_act", "gelu", '"silu"'),
    (LLAMA, "attention_bias", True, "false"),
    (LLAMA, "mlp_bias", True, "false"),
    (QWEN2, "head_dim", 16, "hidden_size / num_attention_heads"),
    (QWEN3, "attention_bias", True, "false"),
    (QWEN3, "use_sliding_window", True, "false"),
    (LLAMA, "rope_theta", 10000.0, "5000.0"),
    (LLAMA, "rope_scaling", {"type": "yarn", "factor": 4.0}, "null"),
    (LLAMA, "rope_parameters", {"rope_type": "yarn"}, ROPES),
    (LLAMA, "rope_parameters", {"rope_theta": 1, "factor": 8}, ROPES),
    (LLAMA, "rope_parameters", {"rope_type": "linear", "type": "llama3", "factor": 2}, ROPES),
    (LLAMA, "rope_parameters", {"rope_type": "linear", "factor": 2, "beta_fast": 1}, ROPES),
    (LLAMA, "rope_parameters", {"type": "linear"}, "positive numbers for factor"),
    (LLAMA, "rope_parameters", {"type": "linear", "factor": -2}, "positive numbers for factor"),
    (
        *(LLAMA, "rope_parameters", {"rope_type": "llama3", "factor": 8.0}),
        "positive numbers for factor, low_freq_factor, high_freq_factor, "
        "original_max_position_embeddings",
    ),
    (LLAMA, "rope_parameters", {"rope_theta": -1}, "a positive rope_theta"),
    (LLAMA, "partial_rotary_factor", 0.5, "no field of this name"),
    (MISTRAL, "sliding_window", 0, "a whole number from 1 on"),
    (MISTRAL, "attention_bias", True, "false"),
    (QWEN2, "use_sliding_window", True, "false"),
    (QWEN2, "use_mrope", True, "false"),
    (
        *(QWEN2, "layer_types", ["full_attention", "sliding_attention"]),
        '"full_attention" for each layer',
    ),
    (PHI, "qk_layernorm", True, "false"),
    (PHI, "num_key_value_heads", 2, "6 or null"),
    (PHI, "partial_rotary_factor", 0, "a number above 0, at most 1"),
    (PHI, "rope_scaling", {"type": "linear", "factor": 2.0}, 'null, or rope_type "default"'),
    (NEOX, "hidden_act", "gelu_new", '"gelu"'),
    (NEOX, "rope_theta", 5000, "10000"),
    (NEOX, "partial_rotary_factor", 0.5, "0.4"),
    (NEOX, "rotary_pct", 1.5, "a number above 0, at most 1"),
    (NEOX, "rope_scaling", {"type": "linear", "factor": 2.0}, 'null, or rope_type "default"'),
]


@pytest.mark.parametrize(
    "config, name, value, supported",
    REFUSED,
    ids=["%s-%s-%d" % (one[0]["model_type"], one[1], i) for i, one in enumerate(REFUSED)],
)
def test_a_field_is_refused(folder, config, name, value, supported):
    found = folder(dict(config, **{name: value}))
    expected = "%s/config.json: %s is %s; supported: %s"
    shown = expected % (found, name, json.dumps(value), supported)
    assert refusal(from_hf(found)).endswith(shown)


def test_a_window_is_attentions_where_the_sequence_is_longer(folder):
    windowed = folder(dict(MISTRAL, sliding_window=8))
    known = FAMILIES["mistral"][1].replace("--seq 16", "--seq 8")
    assert program(windowed, "--seq", 8) == built(*known.split())
    known = FAMILIES["mistral"][1] + " --window 8"
    assert program(windowed) == built(*known.split())


def test_the_first_folders_of_phi(folder):
    text = program(folder(PHI_MSFT))
    # All queries come before all keys.
    key = '"transformer.h.1.mixer.Wqkv.weight", [180, 60], row = 10800, begin = 3600>'
    assert text.count("#optimus.packed<%s" % key) == 1
    changed = dict(PHI_MSFT, n_head_kv=2, rotary_dim=64)
    line = refusal(from_hf(folder(changed)))
    assert "n_head_kv is 2; supported: null or 6" in line
    # No more than a head has.
    assert "rotary_dim = 10" in program(folder(dict(changed, n_head_kv=6)))


def test_all_refused_fields_are_named_at_once(folder):
    config = dict(GPT2, scale_attn_weights=False, n_layer="two", flavour=["sour"] * 100)
    line = refusal(from_hf(folder(config)))
    for part in ("scale_attn_weights is false;", 'n_layer is "two";', "flavour is [", "…"):
        assert part in line
    assert len(line) < 1000


def test_mistakes_of_the_builder_have_the_fields_names(folder):
    found = folder(dict(GPT2, n_head=7))
    message = "n_embd (60) is not divisible by n_head (7)"
    assert "%s/config.json: %s" % (found, message) in refusal(from_hf(found))
    found = folder(dict(GPT2, n_embd=10**15, n_head=1))
    assert "n_embd is 1000000000000000; expected" in refusal(from_hf(found))
    found = folder(dict(PHI, partial_rotary_factor=0.3))
    assert "partial_rotary_factor is 3; expected an even number" in refusal(from_hf(found))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is not JSON: Expecting value"),
        ('{"model_type": "gpt2"', "is not JSON"),
        ("[" * 10000 + "]" * 10000, "nested more than 32 deep"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested more than 32 deep"),
        ('{"n_head": 2, "n_head": 2}', 'the field "n_head" is there twice'),
        ('{"rope": {"a": 1, "a": 2}}', 'the field "a" is there twice'),
        ('{"n_head": %s}' % ("9" * 5000), "a number has 5000 digits"),
        ('{"n_head": NaN}', "NaN is no number of JSON"),
        ("[]", "expected an object, found []"),
        ('{"a": "%s"}' % ("x" * (4 << 20)), "expected at most 4194304 bytes"),
        ('{"a": "' + '\\"' * (1 << 20), "is not JSON: Unterminated string"),
        ("{}", "model_type is null; supported: gpt2, bert, llama, mistral, qwen2, qwen3, phi, "
         "phi-msft, gpt_neox"),
        ('{"model_type": "t5"}', 'model_type is "t5"; supported: gpt2, bert'),
        ('{"model_type": ["gpt2"]}', 'model_type is ["gpt2"]; supported: gpt2'),
    ],
    ids=lambda value: value[:20],
)
def test_hostile_texts(folder, text, message):
    found = folder(text)
    line = refusal(from_hf(found))
    assert message in line and "%s/config.json" % found in line


def test_brackets_in_strings_are_no_nesting(folder):
    odd = dict(GPT2, id2label={"0": '[{"\\' * 100})
    assert program(folder(odd)) == program(folder(GPT2))


def test_other_files(folder, tmp_path):
    found = folder(GPT2)
    config = found / "config.json"
    assert "cannot read the folder" in refusal(from_hf(config))
    assert "cannot read the folder" in refusal(from_hf(tmp_path / "absent"))
    config.write_bytes(b'{"model_type": "\xff"}')
    assert "config.json is not UTF-8: byte 16" in refusal(from_hf(found))
    config.unlink()
    said = refusal(from_hf(found))
    assert "%s has no config.json; expected a folder in Hugging Face's format" % found in said
    (found / "adapter_config.json").write_text("{}")
    assert "it is an adapter's" in refusal(from_hf(found))
    config.mkdir()
    assert "cannot read %s: Is a directory" % config in refusal(from_hf(found))
    config.rmdir()
    os.mkfifo(config)
    assert "cannot read %s: it is not a regular file" % config in refusal(from_hf(found))


def test_pickles_are_refused(folder):
    found = folder(GPT2, weights="pytorch_model.bin")
    line = refusal(from_hf(found))
    assert "its weights as a pickle alone (pytorch_model.bin)" in line
    assert "executes" in line
    (found / "model.safetensors.index.json").touch()
    assert program(found)


# Of each class of Transformers that has a builder's layers.
OWN = {
    "gpt2": FAMILIES["gpt2"][1] + " --dropout 0.1",
    "bert": FAMILIES["bert"][1] + " --dropout 0.1",
    "llama": FAMILIES["llama"][1],
    "mistral": FAMILIES["mistral"][1] + " --window 7",
    "qwen2": FAMILIES["qwen2"][1],
    "qwen3": FAMILIES["qwen3"][1],
    # Of Qwen3 a head's width is 128 unless it is stated.
    "qwen3-plain": FAMILIES["qwen3"][1].replace("--head-dim 14", ""),
    "llama-stretched": FAMILIES["llama"][1] + " --rope-scaling llama3:8,1,4,16",
    "mistral-stretched": FAMILIES["mistral"][1] + " --window 7 --rope-scaling linear:2.5",
    "llama-wide": FAMILIES["llama"][1] + " --head-dim 14",
    "phi": FAMILIES["phi"][1],
    # A third of 12 channels is less than 4 in floats.
    "phi-thirds": "phi " + SHAPE.replace("60", "72") + "--rotary-dim 4",
    "gpt_neox": FAMILIES["gpt_neox"][1] + " --sequential --no-attention-bias --tied",
}


@pytest.mark.parametrize("name", OWN)
def test_the_configuration_of_a_builder_is_read_back(folder, name):
    flags = OWN[name].split()
    own, config = apart(run_builder(*flags).stdout)
    assert config["model_type"] == name.split("-")[0]
    dropout = ["--dropout", 0.1] * ("--dropout" in flags)
    result = from_hf(folder(dict(config, torch_dtype="float32")), *dropout)
    assert result.returncode == 0, result.stderr
    assert apart(result.stdout) == (own, config)
    # What is absent would be a default of the family's version.
    assert "max_position_embeddings" not in result.stderr


@pytest.mark.parametrize(
    "flags",
    [
        "phi --layers 1 --hidden 60 --heads 6 --seq 16 --vocab 97 --batch 3 --norms 2",
        "llama " + SHAPE + "--ffn 70 --qkv-bias --window 4",
        "llama " + SHAPE + "--ffn 70 --qk-norm --window 4",
        "llama " + SHAPE + "--ffn 70 --qkv-bias --head-dim 8",
        "gated-encoder " + SHAPE + "--ffn 70",
    ],
)
def test_a_model_without_a_class_has_no_configuration(flags):
    result = run_builder(*flags.split())
    assert result.returncode == 0, result.stderr
    assert ", config = " not in result.stdout


@pytest.mark.parametrize("family", FAMILIES)
def test_a_configuration_is_kept(folder, family):
    given = FAMILIES[family][0]
    _, config = apart(from_hf(folder(given)).stdout)
    rates = ("_pdrop", "attention_dropout", "dropout_prob", "hidden_dropout")
    off = {name: 0.0 for name in given if name.endswith(rates)}
    expected = dict(given, **off)
    # Whoever saves the weights knows their type.
    for name in ("torch_dtype", "dtype"):
        expected.pop(name, None)
    assert config == expected
    assert list(config) == list(expected)


def test_a_configuration_says_what_was_changed(folder):
    known = dict(GPT2, n_ctx=16)
    _, config = apart(from_hf(folder(known), "--seq", 12, "--dropout", 0.25).stdout)
    assert (config["n_positions"], config["n_ctx"]) == (12, 12)
    rates = [config[name] for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")]
    assert rates == [0.25, 0.25, 0]
    # Of a rotated position there is no table.
    _, config = apart(from_hf(folder(LLAMA), "--seq", 12).stdout)
    assert config["max_position_embeddings"] == 16
    for classes, written in [
        (["BertForPreTraining"], "BertForMaskedLM"),
        (None, "BertForMaskedLM"),
    ]:
        _, config = apart(from_hf(folder(dict(BERT, architectures=classes))).stdout)
        assert config["architectures"] == [written]
    _, config = apart(from_hf(folder(dict(GPT2, architectures=["GPT2Model"]))).stdout)
    assert config["architectures"] == ["GPT2Model"]


def test_an_encoder_has_a_forward_function_alone(folder):
    encoder = dict(BERT, architectures=["BertModel"])
    text, config = apart(from_hf(folder(encoder)).stdout)
    flags = FAMILIES["bert"][1] + " --no-head"
    assert text == built(*flags.split()) == program(folder(encoder), "--functions", "forward")
    assert "@loss" not in text and 'role = "hidden_states"' in text
    # It is not trained: dropout stays as it was.
    assert config == encoder
    assert apart(run_builder(*flags.split()).stdout)[1]["architectures"] == ["BertModel"]
    for more, message in [
        (["--functions", "loss"], "--functions loss needs a model with a head"),
        (["--functions", "loss,forward"], "--functions loss needs a model with a head"),
        (["--mask-token", 5], "--mask-token and --dropout are not for BertModel: it has no loss"),
        (["--dropout", 0.1], "--mask-token and --dropout are not for BertModel"),
    ]:
        assert message in refusal(from_hf(folder(encoder), *more))


@pytest.mark.parametrize(
    "scaling, flag",
    [
        (dict(rope_type="linear", factor=2.5), "linear:2.5"),
        (dict(type="linear", factor=4), "linear:4"),
        (
            dict(
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=8192,
            ),
            "llama3:8,1,4,8192",
        ),
    ],
)
@pytest.mark.parametrize("config", [LLAMA, MISTRAL, QWEN2, QWEN3], ids=lambda one: one["model_type"])
def test_stretched_positions_in_fields_of_both_versions(folder, config, scaling, flag):
    expected = built(*FAMILIES[config["model_type"]][1].split(), "--rope-scaling", flag)
    newer = dict(config, rope_parameters=dict(scaling, rope_theta=5000.0))
    assert program(folder(newer)) == expected
    older = dict(config, rope_scaling=scaling, rope_theta=5000.0)
    del older["rope_parameters"]
    assert program(folder(older)) == expected
    assert expected != built(*FAMILIES[config["model_type"]][1].split())


def test_mistakes_in_stretched_positions(folder):
    scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=4, high_freq_factor=1)
    scaling.update(original_max_position_embeddings=16)
    line = refusal(from_hf(folder(dict(LLAMA, rope_parameters=scaling))))
    assert "rope_scaling has low_freq_factor 4.0 and high_freq_factor 1.0; expected" in line
    result = run_builder("llama", *SHAPE.split(), "--ffn", 70, "--rope-scaling", "linear:0")
    assert "--rope-scaling has 0.0; expected positive numbers" in refusal(result)
    for text in ("linear", "linear:1,2", "llama3:8", "yarn:2", "linear:x"):
        result = run_builder("llama", *SHAPE.split(), "--ffn", 70, "--rope-scaling", text)
        assert "expected linear:FACTOR or llama3:FACTOR,LOW,HIGH,POSITIONS" in refusal(result)

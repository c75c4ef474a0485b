# ===- from_hf.py - Models in Hugging Face's folders ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the config.json of a folder that Transformers wrote, and writes the program
of its model. Nothing in the folder is executed, and no weights are read here:
`optimus-run --load DIR` takes them.
"""

import os
from types import ModuleType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from optimus.arguments import Mistake
from optimus.models import (
    bert,
    config_file,
    gpt2,
    gpt_neox,
    llama,
    phi,
    phi_msft,
    published,
    rope,
)
from optimus.models.config_file import Fields, shown

NAME = "from-hf"
"""On the command line."""
CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

CHANGE_NOTHING = (
    # Tokens, and how text is made or read.
    *("bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id"),
    *("forced_bos_token_id", "forced_eos_token_id", "bad_words_ids", "begin_suppress_tokens"),
    *("suppress_tokens", "max_length", "min_length", "do_sample", "early_stopping"),
    *("num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k"),
    *("top_p", "typical_p", "repetition_penalty", "length_penalty"),
    *("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "num_return_sequences"),
    *("exponential_decay_length_penalty", "remove_invalid_values", "prefix"),
    *("tokenizer_class", "use_cache", "task_specific_params"),
    # Labels of heads that are not there.
    *("id2label", "label2id", "num_labels", "problem_type", "finetuning_task"),
    *("classifier_dropout", "summary_type", "summary_use_proj", "summary_activation"),
    *("summary_proj_to_labels", "summary_first_dropout"),
    # How Transformers computes, keeps and returns it.
    *("torch_dtype", "dtype", "transformers_version", "_name_or_path", "name_or_path"),
    *("_attn_implementation", "attn_implementation", "_attn_implementation_autoset"),
    *("_experts_implementation", "_commit_hash", "torchscript"),
    *("output_attentions", "output_hidden_states", "output_scores", "return_dict"),
    *("return_dict_in_generate", "use_bfloat16", "tf_legacy_loss", "use_return_dict"),
    *("gradient_checkpointing", "pretraining_tp", "chunk_size_feed_forward"),
    "reorder_and_upcast_attn",
)
"""Of all families. Parts, chunks and upcasts round otherwise, and compute the same."""


class Choices(NamedTuple):
    """What the command line says and a configuration does not."""

    sequence: Optional[int]
    batch: int
    chunk: Optional[int]
    dropout: float
    within_documents: bool
    mask_token: Optional[int]
    padded_vocabulary: Optional[int]
    """Rows of the tables of tokens, if others than the folder's."""


class Import(NamedTuple):
    module: ModuleType
    """The builder."""
    config: Any
    """The builder's."""
    fields: Dict[str, str]
    """For messages: the fields that members of the config are from."""
    notes: List[str]
    published: Dict[str, Any]
    """The config.json of what is trained."""
    rows: int
    """Of the tables of tokens, zeros after the folder's."""

    @property
    def attributes(self) -> Dict[str, Any]:
        """Of the model, beside or in place of the builder's."""
        found: Dict[str, Any] = {"config": published.text_of(self.published)}
        if self.rows > self.config.vocabulary:
            found["padded_vocabulary"] = self.rows
        return found


class Family(NamedTuple):
    module: ModuleType
    architectures: Tuple[str, ...]
    read: Callable[[Fields, Choices], Tuple[Dict[str, Any], List[str]]]
    """Members of the builder's config, and notes."""
    fields: Dict[str, str]
    """By the member."""
    drops: bool = False
    """Whether the builder has dropout."""
    keeps_documents: bool = True
    hides: bool = False
    """Whether it learns from masked tokens."""
    positions: Tuple[str, ...] = ()
    """Fields for the rows of a table of positions, which a shorter sequence cuts."""
    dropped: Tuple[str, ...] = ()
    """Fields for the dropout that the builder has."""
    kept: Tuple[str, ...] = ()
    """Fields for the dropout of others, with which nothing is trained."""
    names_code: bool = False
    """Whether folders have an `auto_map`, of code that is in Transformers' place."""
    written: Tuple[str, ...] = ()
    """Classes with exactly the builder's parameters; by default all."""


def read(folder: str, choices: Choices) -> Import:
    """Raises Mistake."""
    path = os.path.join(folder, CONFIG)
    _check_folder(folder)
    given = config_file.read(path)
    kind = given.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        message = "%s: model_type is %s; supported: %s"
        raise Mistake(message % (path, shown(kind), ", ".join(FAMILIES)))
    _check_choices(kind, family, choices)
    fields = Fields(path, given)
    fields.skip(("model_type", *CHANGE_NOTHING))
    _check_common(fields, family)
    members, notes = family.read(fields, choices)
    absent = dict(fields.defaults)
    fields.finish()
    positions = members.pop("positions")
    sequence = positions if choices.sequence is None else choices.sequence
    if sequence > positions:
        message = "--seq is %d; %s has %s %d: no position beyond is trained"
        raise Mistake(message % (sequence, path, family.fields["positions"], positions))
    members.update(sequence=sequence, batch=choices.batch, chunk=choices.chunk)
    for name, is_known in [
        ("dropout", family.drops),
        ("within_documents", family.keeps_documents),
        ("mask_token", family.hides),
    ]:
        if is_known:
            members[name] = getattr(choices, name)
    if absent:
        listed = ", ".join("%s %s" % (name, shown(absent[name])) for name in absent)
        notes.append("fields that %s lacks are %s's defaults: %s" % (path, kind, listed))
    config = family.module.Config(**members)
    known = family.written or family.architectures
    rates = {
        **{name: float(choices.dropout) for name in family.dropped},
        **{name: 0.0 for name in family.kept if given.get(name) or family.drops},
    }
    # An encoder without a head is not trained.
    if not members.get("head", True):
        rates = {}
    out = published.kept(given, known[0], known, family.positions, sequence, rates)
    rows = _rows(path, family, config.vocabulary, choices, notes)
    return Import(family.module, config, family.fields, notes, out, rows)


def _rows(path: str, family: Family, tokens: int, choices: Choices, notes: List[str]) -> int:
    """Of the tables of a model with so many tokens."""
    rows = choices.padded_vocabulary or tokens
    if rows < tokens:
        name = family.fields["vocabulary"]
        message = "--padded-vocabulary is %d; expected at least %d, the %s of %s"
        raise Mistake(message % (rows, tokens, name, path))
    if rows > tokens:
        notes.append(
            "tables of tokens get %d rows of zeros after the folder's %d: these are never "
            "predicted nor trained, and checkpoints lack them" % (rows - tokens, tokens)
        )
    return rows


def _check_folder(folder: str) -> None:
    try:
        names = sorted(os.listdir(folder))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Mistake("cannot read the folder %s: %s" % (folder, why)) from None
    if CONFIG not in names:
        what = "%s has no %s" % (folder, CONFIG)
        if "adapter_config.json" in names:
            what += ": it is an adapter's; supported: folders of whole models"
        else:
            what += "; expected a folder in Hugging Face's format, with it and *.safetensors"
        raise Mistake(what)
    pickles = [name for name in names if name.endswith(PICKLES)]
    if pickles and not any(name in names for name in WEIGHTS):
        raise Mistake(
            "%s has its weights as a pickle alone (%s): reading one executes whatever "
            "code is in it; save the model with safetensors" % (folder, shown(pickles[0])[1:-1])
        )


def _check_choices(kind: str, family: Family, choices: Choices) -> None:
    for flag, is_given, is_known in [
        ("--dropout", choices.dropout != 0, family.drops),
        ("--within-documents", choices.within_documents, family.keeps_documents),
        ("--mask-token", choices.mask_token is not None, family.hides),
    ]:
        if is_given and not is_known:
            raise Mistake("%s is not for models of the type %s" % (flag, kind))


def _check_common(fields: Fields, family: Family) -> None:
    """Fields of all families."""
    classes = fields.get("architectures", None)
    if classes is not None and not (
        isinstance(classes, list)
        and classes
        and all(isinstance(one, str) and one in family.architectures for one in classes)
    ):
        fields.refuse("architectures", classes, " or ".join(family.architectures))
    for name in ("quantization_config", "cross_attention_hidden_size"):
        fields.only(name, None)
    if family.names_code:
        fields.skip(("auto_map",))
    else:
        fields.only("auto_map", None)
    fields.only("pruned_heads", {}, None)
    fields.only("is_encoder_decoder", False)
    fields.only("add_cross_attention", False)
    # Of most folders nothing of this is there; that says nothing to a reader.
    fields.defaults.clear()


def _dropouts(fields: Fields, defaults: Dict[str, float], drops: bool) -> List[str]:
    rates = {name: fields.rate(name, rate) for name, rate in defaults.items()}
    if not any(rates.values()):
        return []
    listed = ", ".join("%s %s" % (name, shown(rate)) for name, rate in rates.items())
    whose = "--dropout's" if drops else "0"
    return ["dropout in training is %s, not the configuration's: %s" % (whose, listed)]


def _read_gpt2(fields: Fields, choices: Choices):
    positions = fields.whole("n_positions", 1024)
    if fields.has("n_ctx"):
        fields.only("n_ctx", positions)
    fields.only("activation_function", "gelu_new", "gelu_pytorch_tanh")
    fields.only("scale_attn_weights", True)
    fields.only("scale_attn_by_inverse_layer_idx", False)
    fields.only("tie_word_embeddings", True)
    fields.skip(("pad_token_id", "is_decoder"))
    members = dict(
        _gpt_shape(fields, layers=12, hidden=768, heads=12, ffn=None, vocabulary=50257),
        positions=positions,
    )
    rates = {name: 0.1 for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    return members, _dropouts(fields, rates, drops=True)


def _read_bert(fields: Fields, choices: Choices):
    fields.only("hidden_act", "gelu")
    fields.only("type_vocab_size", 2)
    fields.only("position_embedding_type", "absolute")
    fields.only("is_decoder", False)
    fields.only("tie_word_embeddings", True)
    members = dict(
        **_common_shape(fields, layers=12, hidden=768, heads=12, ffn=3072, vocabulary=30522),
        epsilon=fields.positive("layer_norm_eps", 1e-12),
        pad_token=fields.whole("pad_token_id", 0, least=0),
        positions=fields.whole("max_position_embeddings", 512),
    )
    members["head"] = fields.get("architectures", None) != ["BertModel"]
    rates = {name: 0.1 for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")}
    notes = _dropouts(fields, rates, drops=True)
    if not members["head"]:
        notes = []
        if choices.mask_token is not None or choices.dropout:
            raise Mistake("--mask-token and --dropout are not for BertModel: it has no loss")
    elif choices.mask_token is None:
        last = members["vocabulary"] - 1
        notes.append(
            "the token of a hidden one is the vocabulary's last, %d; --mask-token N is the "
            "tokenizer's" % last
        )
    return members, notes


def _read_llama(fields: Fields, choices: Choices):
    return _read_rotary_decoder(fields, ffn=11008, kv_heads=None, positions=2048)


def _read_qwen2(fields: Fields, choices: Choices):
    members, notes = _read_rotary_decoder(
        fields, ffn=22016, kv_heads=32, positions=32768
    )
    members["qkv_bias"] = True
    if "head_width" in members:
        fields.refuse(
            "head_dim", members["head_width"], "hidden_size / num_attention_heads"
        )
    fields.only("use_mrope", False)
    _check_windows(fields, members["layers"])
    return members, notes


def _read_qwen3(fields: Fields, choices: Choices):
    members, notes = _read_rotary_decoder(
        fields, ffn=22016, kv_heads=32, positions=32768, head_dim=128
    )
    members["qk_norm"] = True
    _check_windows(fields, members["layers"])
    return members, notes


def _check_windows(fields: Fields, layers: int) -> None:
    """Without windows of Qwen's models, their fields change nothing."""
    fields.only("use_sliding_window", False)
    fields.skip(("sliding_window", "max_window_layers"))
    kinds = fields.get("layer_types", None)
    if kinds is not None and kinds != ["full_attention"] * layers:
        fields.refuse("layer_types", kinds, "\"full_attention\" for each layer")


def _read_mistral(fields: Fields, choices: Choices):
    members, notes = _read_rotary_decoder(fields, ffn=14336, kv_heads=8, positions=131072)
    window = fields.whole("sliding_window", 4096) if _has_window(fields) else None
    longest = members["positions"] if choices.sequence is None else choices.sequence
    # A longer one leaves nothing out.
    if window is not None and window < longest:
        members["window"] = window
    return members, notes


def _has_window(fields: Fields) -> bool:
    return not fields.has("sliding_window") or fields.get("sliding_window", None) is not None


def _read_rotary_decoder(
    fields: Fields,
    ffn: int,
    kv_heads: Optional[int],
    positions: int,
    head_dim: Optional[int] = None,
):
    """Llama and what has its layers."""
    fields.only("hidden_act", "silu")
    for name in ("attention_bias", "mlp_bias"):
        # Of Llama alone; others state none.
        if fields.has(name):
            fields.only(name, False)
    fields.skip(("pad_token_id", "is_decoder"))
    members = dict(
        **_common_shape(fields, layers=32, hidden=4096, heads=32, ffn=ffn, vocabulary=32000),
        epsilon=fields.positive("rms_norm_eps", 1e-6),
        **_rope(fields),
        tied=fields.only("tie_word_embeddings", False, True),
        positions=fields.whole("max_position_embeddings", positions),
    )
    heads = members["heads"]
    # Null is as many as of queries, whatever an absent field is.
    name = "num_key_value_heads"
    is_null = fields.has(name) and fields.get(name, None) is None
    members["kv_heads"] = heads if is_null else fields.whole(name, kv_heads) or heads
    width = fields.whole("head_dim", head_dim)
    if width is not None and width * heads != members["hidden"]:
        members["head_width"] = width
    return members, _dropouts(fields, {"attention_dropout": 0.0}, drops=False)


def _read_phi(fields: Fields, choices: Choices):
    fields.only("hidden_act", "gelu_new", "gelu_pytorch_tanh")
    fields.only("qk_layernorm", False)
    fields.only("tie_word_embeddings", False)
    fields.skip(("pad_token_id", "is_decoder"))
    members = dict(
        **_common_shape(fields, layers=24, hidden=2048, heads=32, ffn=8192, vocabulary=51200),
        epsilon=fields.positive("layer_norm_eps", 1e-5),
        rope_theta=_rope(fields, ("partial_rotary_factor",), kinds=())["rope_theta"],
        positions=fields.whole("max_position_embeddings", 2048),
    )
    heads = members["heads"]
    if fields.has("num_key_value_heads"):
        fields.only("num_key_value_heads", heads, None)
    members["rotary_dim"] = _rotated(fields, members, "partial_rotary_factor", 0.5)
    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attention_dropout": 0.0}
    return members, _dropouts(fields, rates, drops=False)


def _read_phi_msft(fields: Fields, choices: Choices):
    fields.only("activation_function", "gelu_new", "gelu_pytorch_tanh")
    fields.only("tie_word_embeddings", False)
    # How its code computes; a vocabulary is padded already.
    fields.skip(("flash_attn", "flash_rotary", "fused_dense", "pad_vocab_size_multiple"))
    fields.skip(("pad_token_id", "is_decoder"))
    members = dict(
        _gpt_shape(fields, layers=20, hidden=1024, heads=16, ffn=None, vocabulary=50304),
        positions=fields.whole("n_positions", 2048),
    )
    if fields.has("n_head_kv"):
        fields.only("n_head_kv", None, members["heads"])
    width = members["hidden"] // members["heads"]
    members["rotary_dim"] = min(fields.whole("rotary_dim", 32), width)
    rates = {name: 0.0 for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    return members, _dropouts(fields, rates, drops=False)


def _read_gpt_neox(fields: Fields, choices: Choices):
    fields.only("hidden_act", "gelu")
    fields.skip(("pad_token_id", "is_decoder"))
    base = "rotary_emb_base"
    members = dict(
        **_common_shape(fields, layers=44, hidden=6144, heads=64, ffn=24576, vocabulary=50432),
        epsilon=fields.positive("layer_norm_eps", 1e-5),
        rope_theta=_rope(fields, ("partial_rotary_factor",), kinds=(), base=base)["rope_theta"],
        parallel=fields.only("use_parallel_residual", True, False),
        attention_bias=fields.only("attention_bias", True, False),
        tied=fields.only("tie_word_embeddings", False, True),
        positions=fields.whole("max_position_embeddings", 2048),
    )
    members["rotary_dim"] = _rotated(fields, members, "rotary_pct", 0.25)
    # The last of Transformers 4 write both under the names of other families, too.
    for name, copied, default in [
        ("rope_theta", base, members["rope_theta"]),
        ("partial_rotary_factor", "rotary_pct", 0.25),
    ]:
        if fields.has(name):
            fields.only(name, fields.get(copied, default))
    rates = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    return members, _dropouts(fields, rates, drops=False)


def _rotated(fields: Fields, members: Dict[str, Any], name: str, default: float) -> int:
    """Channels of a head that are rotated: a share, in the field `name` or, of
    Transformers 5, in `rope_parameters`."""
    kept = fields.get("rope_parameters", None) if fields.has("rope_parameters") else None
    if isinstance(kept, dict) and "partial_rotary_factor" in kept:
        share = kept["partial_rotary_factor"]
        if fields.has(name):
            fields.only(name, share)
    else:
        share = fields.get(name, default)
    if type(share) not in (int, float) or not 0 < share <= 1:
        fields.refuse(name, share, "a number above 0, at most 1")
        share = default
    return int(members["hidden"] // members["heads"] * share)


def _common_shape(fields: Fields, **defaults: int) -> Dict[str, Any]:
    return dict(
        {
            member: fields.whole(SHAPE_FIELDS[member], default)
            for member, default in defaults.items()
        },
        init_std=fields.positive("initializer_range", 0.02),
    )


def _gpt_shape(fields: Fields, **defaults: Optional[int]) -> Dict[str, Any]:
    """The same, in the fields of GPT-2."""
    return dict(
        {
            member: fields.whole(_GPT_NAMES[member], default)
            for member, default in defaults.items()
        },
        epsilon=fields.positive("layer_norm_epsilon", 1e-5),
        init_std=fields.positive("initializer_range", 0.02),
    )


def _rope(
    fields: Fields,
    more: Tuple[str, ...] = (),
    kinds: Tuple[str, ...] = tuple(rope.NUMBERS),
    base: str = "rope_theta",
) -> Dict[str, Any]:
    """The base of rotary position embedding, a field called `base`, and how positions
    are scaled, if they are, by one of `kinds`. Transformers 5 writes both into
    `rope_parameters`; `more` are other names that may be in there."""
    fields_of = lambda value: value if isinstance(value, dict) else {}
    if not fields.has("rope_parameters"):
        scaling = fields.get("rope_scaling", None)
        found = _rope_scaling(fields, "rope_scaling", scaling, (), kinds)
        theta = fields.positive(base, 10000.0)
        return {"rope_theta": theta, **found}
    kept = fields.get("rope_parameters", None)
    fields.only("rope_scaling", None)
    found = _rope_scaling(fields, "rope_parameters", kept, ("rope_theta", *more), kinds)
    theta = fields_of(kept).get("rope_theta", 10000.0)
    if type(theta) not in (int, float) or not 0 < theta < float("inf"):
        fields.refuse("rope_parameters", kept, "a positive rope_theta")
        theta = 10000.0
    elif fields.has(base):
        fields.only(base, theta)
    return {"rope_theta": float(theta), **found}


def _rope_scaling(
    fields: Fields, name: str, value: Any, known: Tuple[str, ...], kinds: Tuple[str, ...]
) -> Dict[str, rope.Scaling]:
    """The member for scaled positions, if they are."""
    if value is None:
        return {}
    types = ("rope_type", "type")
    stated = [value[one] for one in types if one in value] if isinstance(value, dict) else []
    kind = stated[0] if stated else "default"
    numbers = rope.NUMBERS.get(kind, ()) if kind in kinds else ()
    if (
        not isinstance(value, dict)
        or any(one != kind for one in stated)
        or (kind != "default" and not numbers)
        or set(value) - {*types, *known, *numbers}
    ):
        names = " or ".join('"%s"' % one for one in ("default", *kinds))
        fields.refuse(name, value, "null, or rope_type %s" % names)
        return {}
    if not numbers:
        return {}
    found = [value.get(one) for one in numbers]
    if not all(type(one) in (int, float) and 0 < one < float("inf") for one in found):
        fields.refuse(name, value, "positive numbers for %s" % ", ".join(numbers))
        return {}
    return {"rope_scaling": rope.Scaling(kind, *map(float, found))}


SHAPE_FIELDS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "vocabulary": "vocab_size",
}

_NAMES = {
    **SHAPE_FIELDS,
    "kv_heads": "num_key_value_heads",
    "positions": "max_position_embeddings",
    "init_std": "initializer_range",
    "rope_theta": "rope_theta",
    "rope_scaling": "rope_scaling",
}

_GPT_NAMES = {
    "layers": "n_layer",
    "hidden": "n_embd",
    "heads": "n_head",
    "ffn": "n_inner",
    "vocabulary": "vocab_size",
    "positions": "n_positions",
    "epsilon": "layer_norm_epsilon",
    "init_std": "initializer_range",
}

FAMILIES: Dict[str, Family] = {
    "gpt2": Family(
        gpt2,
        ("GPT2LMHeadModel", "GPT2Model"),
        _read_gpt2,
        _GPT_NAMES,
        drops=True,
        positions=("n_positions", "n_ctx"),
        dropped=("resid_pdrop", "embd_pdrop"),
        kept=("attn_pdrop",),
    ),
    "bert": Family(
        bert,
        ("BertForMaskedLM", "BertForPreTraining", "BertModel"),
        _read_bert,
        {**_NAMES, "epsilon": "layer_norm_eps", "pad_token": "pad_token_id"},
        drops=True,
        keeps_documents=False,
        hides=True,
        positions=("max_position_embeddings",),
        dropped=("hidden_dropout_prob",),
        kept=("attention_probs_dropout_prob",),
        written=("BertForMaskedLM", "BertModel"),
    ),
    "llama": Family(
        llama,
        ("LlamaForCausalLM",),
        _read_llama,
        {**_NAMES, "epsilon": "rms_norm_eps", "head_width": "head_dim"},
        kept=("attention_dropout",),
    ),
    "mistral": Family(
        llama,
        ("MistralForCausalLM",),
        _read_mistral,
        {**_NAMES, "epsilon": "rms_norm_eps", "head_width": "head_dim"},
        kept=("attention_dropout",),
    ),
    "qwen2": Family(
        llama,
        ("Qwen2ForCausalLM",),
        _read_qwen2,
        {**_NAMES, "epsilon": "rms_norm_eps"},
        kept=("attention_dropout",),
    ),
    "qwen3": Family(
        llama,
        ("Qwen3ForCausalLM",),
        _read_qwen3,
        {**_NAMES, "epsilon": "rms_norm_eps", "head_width": "head_dim"},
        kept=("attention_dropout",),
    ),
    "phi": Family(
        phi,
        ("PhiForCausalLM",),
        _read_phi,
        {**_NAMES, "epsilon": "layer_norm_eps", "rotary_dim": "partial_rotary_factor"},
        kept=("resid_pdrop", "embd_pdrop", "attention_dropout"),
    ),
    "phi-msft": Family(
        phi_msft,
        ("PhiForCausalLM",),
        _read_phi_msft,
        {**_GPT_NAMES, "rotary_dim": "rotary_dim"},
        kept=("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        names_code=True,
    ),
    "gpt_neox": Family(
        gpt_neox,
        ("GPTNeoXForCausalLM", "GPTNeoXModel"),
        _read_gpt_neox,
        {
            **_NAMES,
            "epsilon": "layer_norm_eps",
            "rotary_dim": "rotary_pct",
            "rope_theta": "rotary_emb_base",
        },
        kept=("hidden_dropout", "attention_dropout"),
        written=("GPTNeoXForCausalLM",),
    ),
}
"""By model_type."""

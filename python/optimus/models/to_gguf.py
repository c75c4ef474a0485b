# ===- to_gguf.py - A folder of weights as a file of llama.cpp ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A folder of Hugging Face's format as a GGUF file, which llama.cpp and programs on top
of it read: GPT-2, Llama, Qwen2 or Qwen3."""

import importlib
import json
import math
import os
import re
import struct
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from optimus import output, small_file, wheels
from optimus.arguments import Mistake
from optimus.models import config_file, from_hf, rope

NAME = "to-gguf"

KINDS = ("gpt2", "llama", "qwen2", "qwen3")
TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
"""Of matrices, by safetensors' names; vectors are F32, as llama.cpp wants them."""
BLOCKS = {"q8_0": "Q8_0", "q4_0": "Q4_0"}
"""Of matrices that products read, and of the table of tokens; rows are whole blocks."""
POSITIONS = "position_embd.weight"

MOST_HEADER = 100 << 20

_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {_PIECES % "{1,3}": "llama-bpe", _PIECES % "": "qwen2"}
"""How text is split before merging, by the expression; llama.cpp knows these by name."""


def library() -> Any:
    """PyPI's `gguf`. Raises Mistake."""
    return wheels.load("gguf", "writes the file")


class Stored(NamedTuple):
    """A tensor of a safetensors file."""

    path: str
    type: str
    shape: Tuple[int, ...]
    begin: int

    def read(self) -> Any:
        """As f32."""
        np = importlib.import_module("numpy")
        stored = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[self.type]
        values = np.memmap(self.path, stored, "r", self.begin, self.shape)
        if self.type == "BF16":
            return (values.astype("<u4") << 16).view("<f4")
        return np.ascontiguousarray(values, "<f4")


def _tensors_of(path: str) -> Iterator[Tuple[str, Stored]]:
    """Raises Mistake for a file that is none."""
    damaged = lambda what: Mistake("%s is damaged: %s" % (path, what))
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            header = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if not 2 <= header <= min(size - 8, MOST_HEADER):
                raise damaged("its header does not fit in it")
            entries = json.loads(file.read(header))
    except OSError as error:
        raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
    except ValueError as error:
        raise damaged("its header is not JSON: %s" % error) from None
    if not isinstance(entries, dict):
        raise damaged("its header is no object")
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        try:
            kind, shape = entry["dtype"], tuple(map(int, entry["shape"]))
            begin, end = map(int, entry["data_offsets"])
        except (TypeError, ValueError, KeyError):
            raise damaged("%s has no type, shape and place" % name) from None
        if kind not in TYPES.values():
            raise Mistake("%s: %s is %s; supported: F32, F16, BF16" % (path, name, kind))
        width = 4 if kind == "F32" else 2
        count = math.prod(shape)
        if min(shape, default=1) < 1 or begin < 0 or end - begin != width * count:
            raise damaged("%s has other bytes than its shape" % name)
        if 8 + header + end > size:
            raise damaged("%s ends behind it" % name)
        yield name, Stored(path, kind, shape, 8 + header + begin)


def _weights_of(folder: str) -> Dict[str, Stored]:
    single, index = (os.path.join(folder, name) for name in from_hf.WEIGHTS)
    files = {os.path.basename(single)}
    if not os.path.exists(single):
        listed = config_file.read(index).get("weight_map")
        if not isinstance(listed, dict) or not listed:
            raise Mistake("%s: expected a weight_map of tensors" % index)
        files = set(listed.values())
    found: Dict[str, Stored] = {}
    for name in sorted(files):
        if not isinstance(name, str) or os.path.basename(name) != name:
            raise Mistake("%s: expected files of the same folder, found %r" % (index, name))
        found.update(_tensors_of(os.path.join(folder, name)))
    return found


def _interleaved(weight: Any, heads: int) -> Any:
    """Rows of each head in the order of llama.cpp's rotary positions, whose pairs are
    neighbours: Hugging Face has the first halves of all pairs before the second ones."""
    rows = weight.shape[0]
    halves = weight.reshape(heads, 2, rows // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


class Planned(NamedTuple):
    """A tensor of the file to write."""

    name: str
    stored: Stored
    change: Callable[[Any], Any]
    shape: Tuple[int, ...]
    """Behind the change."""


def _plan(kind: str, config: Any, name: str, known: str, stored: Stored) -> Planned:
    """`known` is the name in GGUF."""
    # GPT-2's linears are [in, out].
    if kind == "gpt2" and re.search(r"\.(c_attn|c_proj|c_fc)\.weight$", name):
        return Planned(known, stored, lambda values: values.T, stored.shape[::-1])
    projection = re.search(r"\.([qk])_proj\.weight$", name)
    if kind == "llama" and projection:
        heads = config.heads if projection[1] == "q" else config.groups
        turn = lambda values: _interleaved(values, heads)
        return Planned(known, stored, turn, stored.shape)
    return Planned(known, stored, lambda values: values, stored.shape)


def _plan_all(
    gguf: Any, folder: str, kind: str, config: Any, weights: Dict[str, Stored]
) -> List[Planned]:
    arch = {value: key for key, value in gguf.MODEL_ARCH_NAMES.items()}[kind]
    names = gguf.get_tensor_name_map(arch, config.layers)
    planned = []
    for name, stored in weights.items():
        is_copy = getattr(config, "tied", True) and name == "lm_head.weight"
        if is_copy or re.search(r"\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$", name):
            continue
        full = name
        if kind == "gpt2" and not name.startswith("transformer."):
            full = "transformer." + name
        known = names.get_name(full, try_suffixes=(".weight", ".bias"))
        if known is None:
            raise Mistake("%s: %s has no name in GGUF" % (folder, name))
        planned.append(_plan(kind, config, name, known, stored))
    return planned


def _describe(gguf: Any, writer: Any, kind: str, config: Any, width: str) -> None:
    """What llama.cpp must know beside the tensors."""
    writer.add_block_count(config.layers)
    writer.add_context_length(config.sequence)
    writer.add_embedding_length(config.hidden)
    writer.add_feed_forward_length(config.ffn or 4 * config.hidden)
    writer.add_head_count(config.heads)
    types = gguf.LlamaFileType
    writer.add_file_type(types.ALL_F32 if width == "F32" else types["MOSTLY_" + width])
    writer.add_vocab_size(config.vocabulary)
    if kind == "gpt2":
        return writer.add_layer_norm_eps(config.epsilon)
    channels = config.head_width or config.hidden // config.heads
    writer.add_head_count_kv(config.groups)
    writer.add_layer_norm_rms_eps(config.epsilon)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_rope_dimension_count(channels)
    writer.add_key_length(channels)
    writer.add_value_length(channels)
    if config.rope_scaling is not None and config.rope_scaling.kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_scaling.factor)


def _stretches(scaling: rope.Scaling, theta: float, channels: int) -> List[float]:
    """By how much llama3's scaling slows each pair down."""
    factors = []
    for pair in range(channels // 2):
        turns = scaling.original * theta ** (-2 * pair / channels) / (2 * math.pi)
        smooth = (turns - scaling.low) / (scaling.high - scaling.low)
        smooth = min(max(smooth, 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / scaling.factor + smooth))
    return factors


def _split_of(path: str, tokenizer: Dict[str, Any]) -> str:
    """llama.cpp's name for the way that text is split."""
    before = tokenizer.get("pre_tokenizer") or {}
    parts = before.get("pretokenizers", [before])
    kinds = [part.get("type") for part in parts if isinstance(part, dict)]
    if kinds == ["ByteLevel"] and parts[0].get("use_regex", True):
        return "gpt-2"
    if kinds == ["Split", "ByteLevel"]:
        pattern = (parts[0].get("pattern") or {}).get("Regex")
        if pattern in SPLITS:
            return SPLITS[pattern]
    raise Mistake(
        "%s: pre_tokenizer is %s; supported: those of GPT-2, Llama 3 and Qwen2; without "
        "the file, tokens have no text" % (path, config_file.shown(before))
    )


def _add_tokenizer(gguf: Any, writer: Any, folder: str, vocabulary: int, ends: Dict) -> str:
    """Of a folder's tokenizer.json; returns what was found. Raises Mistake."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        writer.add_tokenizer_model("none")
        return "no tokenizer.json: tokens have no text"
    try:
        tokenizer = json.loads(small_file.read(path, small_file.MOST_TOKENIZER))
    except OSError as error:
        raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
    except (ValueError, RecursionError) as error:
        raise Mistake("%s is not JSON: %s" % (path, error)) from None
    model = tokenizer.get("model") if isinstance(tokenizer, dict) else None
    if not isinstance(model, dict) or model.get("type") != "BPE" or model.get("byte_fallback"):
        raise Mistake("%s: expected BPE on bytes, as GPT-2's, Llama 3's or Qwen2's" % path)
    split = _split_of(path, tokenizer)
    added = {
        entry["id"]: (entry["content"], entry.get("special", False))
        for entry in tokenizer.get("added_tokens") or []
    }
    texts = {number: text for text, number in model["vocab"].items()}
    kinds = gguf.TokenType
    tokens, types = [], []
    for number in range(vocabulary):
        if number in added:
            text, is_special = added[number]
            kind = kinds.CONTROL if is_special else kinds.USER_DEFINED
        elif number in texts:
            text, kind = texts[number], kinds.NORMAL
        else:
            text, kind = "[PAD%d]" % number, kinds.UNUSED
        tokens.append(text)
        types.append(kind)
    if max([*added, *texts], default=0) >= vocabulary:
        raise Mistake("%s has tokens beyond the model's %d" % (path, vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    pairs = model.get("merges") or []
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in pairs])
    for name, add in [
        ("bos_token_id", writer.add_bos_token_id),
        ("eos_token_id", writer.add_eos_token_id),
    ]:
        found = ends.get(name)
        found = found[0] if isinstance(found, list) and found else found
        if isinstance(found, int) and 0 <= found < vocabulary:
            add(found)
    return "tokenizer.json: %d tokens, split as %s" % (len(tokens), split)


def write(folder: str, path: str, width: Optional[str]) -> List[str]:
    """Writes a file, whole or not at all; returns lines for people. Raises Mistake."""
    choices = from_hf.Choices(None, 1, None, 0.0, False, None, None)
    where = os.path.join(folder, from_hf.CONFIG)
    kind = config_file.read(where).get("model_type")
    if kind not in KINDS:
        message = "%s: model_type is %s; supported: %s"
        raise Mistake(message % (where, config_file.shown(kind), ", ".join(KINDS)))
    found = from_hf.read(folder, choices)
    weights = _weights_of(folder)
    if os.path.exists(os.path.join(folder, "adapter_model.safetensors")):
        raise Mistake("%s has adapters; merge them: optimus-run convert --merge" % folder)
    gguf = library()
    planned = _plan_all(gguf, folder, kind, found.config, weights)
    matrices = [one.type for one in weights.values() if len(one.shape) > 1]
    usual = max(matrices, key=matrices.count, default="F32")
    chosen = {**TYPES, **BLOCKS}[width] if width else usual
    types = {one.name: _type_of(gguf, folder, one, chosen) for one in planned}
    with output.replacing(path) as temporary:
        writer = gguf.GGUFWriter(temporary, kind)
        _describe(gguf, writer, kind, found.config, chosen)
        ends = found.published
        notes = [_add_tokenizer(gguf, writer, folder, found.config.vocabulary, ends)]
        _write_tensors(gguf, writer, planned, found.config, types)
        writer.close()
    size = os.path.getsize(path)
    notes.append("%s: %d tensors, %s, %d bytes" % (path, len(planned), chosen, size))
    return notes


def _type_of(gguf: Any, folder: str, one: Planned, chosen: str) -> Any:
    """What a tensor is stored as. Raises Mistake where its rows are no whole blocks."""
    kinds = gguf.GGMLQuantizationType
    is_apart = one.name == POSITIONS and chosen in BLOCKS.values()
    if len(one.shape) < 2 or is_apart:
        return kinds["F32"]
    elements, _ = gguf.GGML_QUANT_SIZES[kinds[chosen]]
    if one.shape[-1] % elements:
        message = "%s: %s sums %d elements; expected a multiple of %d, the block of %s"
        raise Mistake(message % (folder, one.name, one.shape[-1], elements, chosen))
    return kinds[chosen]


def _write_tensors(
    gguf: Any, writer: Any, planned: List[Planned], config: Any, types: Dict[str, Any]
) -> None:
    """One at a time in memory."""
    np = importlib.import_module("numpy")
    single = np.dtype("f4")
    for one in planned:
        elements, width = gguf.GGML_QUANT_SIZES[types[one.name]]
        size = math.prod(one.shape) // elements * width
        writer.add_tensor_info(
            one.name, one.shape, single, size, raw_dtype=types[one.name]
        )
    stretches = None
    scaling = getattr(config, "rope_scaling", None)
    if scaling is not None and scaling.kind == "llama3":
        channels = config.head_width or config.hidden // config.heads
        stretches = np.array(_stretches(scaling, config.rope_theta, channels), single)
        shape, size = stretches.shape, stretches.nbytes
        writer.add_tensor_info("rope_freqs.weight", shape, single, size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for one in planned:
        values = np.ascontiguousarray(one.change(one.stored.read()))
        writer.write_tensor_data(gguf.quantize(values, types[one.name]))
    if stretches is not None:
        writer.write_tensor_data(stretches)

# ===- families_reference.py - Losses of further families in NumPy ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The losses of Phi, GPT-NeoX and the gated encoder, from the models' equations.

Only forward: gradients are held against differences of these losses. Tensors have
the names and shapes of checkpoints, linear weights [out, in].
"""

import math
import re
from typing import Dict, List, Optional, Tuple

import numpy as np

from transformer_reference import Tensors, cross_entropy

Shapes = List[Tuple[str, Tuple[int, ...]]]


def gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Of [b, s, n, d]; `hidden` says of [b, 1, queries, keys] what is not seen."""
    scores = np.einsum("bsnd,btnd->bnst", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(np.where(hidden, -np.inf, scores))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = np.einsum("bnst,btnd->bsnd", weights, v)
    return mixed.reshape(*mixed.shape[:2], -1)


def rotate(x: np.ndarray, channels: int, theta: float) -> np.ndarray:
    """The first channels of each head of [b, s, n, d]: i and i + channels/2 are the
    parts of a complex number, which turns by its position."""
    half = channels // 2
    speeds = theta ** (-np.arange(half) / half)
    turn = np.exp(1j * np.outer(np.arange(x.shape[1]), speeds))[None, :, None]
    turned = (x[..., :half] + 1j * x[..., half:channels]) * turn
    return np.concatenate([turned.real, turned.imag, x[..., channels:]], axis=-1)


class Phi:
    """Attention and feed-forward part read the same normalised input."""

    def __init__(
        self,
        parameters: Tensors,
        heads: int,
        rotary_dim: int,
        theta: float,
        epsilon: float = 1e-5,
    ):
        self.p, self.heads, self.epsilon = parameters, heads, epsilon
        self.rotary_dim, self.theta = rotary_dim, theta

    def loss(self, tokens: np.ndarray, targets: np.ndarray) -> Tuple[float, int]:
        return cross_entropy(self.logits(tokens), targets)[:2]

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        x = self.p["model.embed_tokens.weight"][tokens]
        length = tokens.shape[1]
        later = np.triu(np.ones((length, length), bool), k=1)[None, None]
        layer = 0
        while "model.layers.%d.mlp.fc1.weight" % layer in self.p:
            x = x + self._parts(x, "model.layers.%d." % layer, later)
            layer += 1
        y = self._norm(x, "model.final_layernorm")
        return self._linear(y, "lm_head")

    def _parts(self, x, prefix, later):
        to_attention = to_ffn = self._norm(x, prefix + "input_layernorm")
        if prefix + "post_attention_layernorm.weight" in self.p:
            to_ffn = self._norm(x, prefix + "post_attention_layernorm")
        q, k, v = (
            self._linear(to_attention, prefix + "self_attn." + part).reshape(
                *x.shape[:2], self.heads, -1
            )
            for part in ("q_proj", "k_proj", "v_proj")
        )
        q, k = (rotate(part, self.rotary_dim, self.theta) for part in (q, k))
        mixed = attention(q, k, v, later)
        attended = self._linear(mixed, prefix + "self_attn.dense")
        fed = self._linear(gelu(self._linear(to_ffn, prefix + "mlp.fc1")), prefix + "mlp.fc2")
        return attended + fed

    def _linear(self, x, name):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def _norm(self, x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.epsilon)
        return x * self.p[name + ".weight"] + self.p[name + ".bias"]


class Neox(Phi):
    """GPT-NeoX: two norms, and q, k and v of each head side by side in one tensor."""

    def __init__(self, parameters: Tensors, *numbers, parallel: bool = True):
        super().__init__(parameters, *numbers)
        self.parallel = parallel

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        table = self.p["gpt_neox.embed_in.weight"]
        x = table[tokens]
        length = tokens.shape[1]
        later = np.triu(np.ones((length, length), bool), k=1)[None, None]
        layer = 0
        while "gpt_neox.layers.%d.mlp.dense_h_to_4h.weight" % layer in self.p:
            prefix = "gpt_neox.layers.%d." % layer
            attended = self._attended(self._norm(x, prefix + "input_layernorm"), prefix, later)
            y = x if self.parallel else x + attended
            y = self._norm(y, prefix + "post_attention_layernorm")
            x = x + attended + self._fed(y, prefix + "mlp.")
            layer += 1
        y = self._norm(x, "gpt_neox.final_layer_norm")
        return y @ self.p.get("embed_out.weight", table).T

    def _attended(self, y, prefix, later):
        packed = self._linear(y, prefix + "attention.query_key_value")
        packed = packed.reshape(*y.shape[:2], self.heads, 3, -1)
        q, k, v = (packed[..., part, :] for part in range(3))
        q, k = (rotate(part, self.rotary_dim, self.theta) for part in (q, k))
        return self._linear(attention(q, k, v, later), prefix + "attention.dense")

    def _fed(self, y, prefix):
        y = self._linear(y, prefix + "dense_h_to_4h")
        y = y / 2 * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
        return self._linear(y, prefix + "dense_4h_to_h")

    def _linear(self, x, name):
        y = x @ self.p[name + ".weight"].T
        return y + self.p[name + ".bias"] if name + ".bias" in self.p else y


NEOX_PARTS = ("query", "key", "value")


def unpacked(parameters: Tensors, heads: int) -> Tensors:
    """What GPT-NeoX has in one tensor, under the names of our parameters."""
    found: Tensors = {}
    for name, value in parameters.items():
        if ".query_key_value." not in name:
            found[name] = value
            continue
        folder, kind = name.rsplit(".", 1)
        parts = value.reshape(heads, 3, -1, *value.shape[1:])
        for number, part in enumerate(NEOX_PARTS):
            found["%s.%s.%s" % (folder, part, kind)] = np.ascontiguousarray(parts[:, number])
    return found


def packed(parameters: Tensors, heads: int) -> Tensors:
    """The other way."""
    found: Tensors = {}
    for name, value in parameters.items():
        folder, _, kind = name.rpartition(".")
        if folder.rpartition(".")[2] not in NEOX_PARTS:
            found[name] = value
        elif folder.endswith(".query"):
            folder = folder[: -len(".query")]
            parts = [parameters["%s.%s.%s" % (folder, part, kind)] for part in NEOX_PARTS]
            parts = [part.reshape(heads, -1, *part.shape[2:]) for part in parts]
            whole = np.stack(parts, axis=1)
            found["%s.%s" % (folder, kind)] = whole.reshape(-1, *whole.shape[3:])
    return found


class GatedEncoder:
    """Two embeddings besides the tokens', a gated feed-forward part, no biases."""

    def __init__(self, parameters: Tensors, heads: int):
        self.p, self.heads = parameters, heads

    def loss(self, tokens: np.ndarray, targets: np.ndarray) -> Tuple[float, int]:
        return cross_entropy(self.logits(tokens, targets), targets)[:2]

    def logits(self, tokens: np.ndarray, targets: Optional[np.ndarray] = None) -> np.ndarray:
        """Without targets nothing is hidden."""
        p = self.p
        x = p["tokens.weight"][tokens] + p["positions.weight"]
        x = x + p["segments.weight"][0]
        # The end of a sequence before tokens of it, those with targets, were hidden.
        real = tokens != 0
        if targets is not None:
            real |= targets >= 0
        padding = np.cumsum(real[:, ::-1], axis=1)[:, ::-1] == 0
        padding[:, 0] = False
        padding = padding[:, None, None]
        layer = 0
        while "layers.%d.attention_norm.weight" % layer in p:
            x = self._block(x, "layers.%d." % layer, padding)
            layer += 1
        y = self._norm(x, "norm")
        return y @ p["head.weight"].T

    def _block(self, x, prefix, padding):
        attend, feed = prefix + "attention.", prefix + "feed_forward."
        y = self._norm(x, prefix + "attention_norm")
        q, k, v = (
            (y @ self.p[attend + part + ".weight"].T).reshape(*y.shape[:2], self.heads, -1)
            for part in "qkv"
        )
        x = x + attention(q, k, v, padding) @ self.p[attend + "o.weight"].T
        y = self._norm(x, prefix + "feed_forward_norm")
        gate, up = (y @ self.p[feed + name + ".weight"].T for name in ("gate", "up"))
        return x + (gelu(gate) * up) @ self.p[feed + "down.weight"].T

    def _norm(self, x, name):
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)
        return x * self.p[name + ".weight"]


def phi_shapes(layers: int, hidden: int, ffn: int, vocabulary: int, norms: int) -> Shapes:
    """Names and shapes of PhiForCausalLM, and of a second norm where there is one."""

    def linear(name, outs, ins):
        return [(name + ".weight", (outs, ins)), (name + ".bias", (outs,))]

    def norm(name):
        return [(name + ".weight", (hidden,)), (name + ".bias", (hidden,))]

    shapes: Shapes = [("model.embed_tokens.weight", (vocabulary, hidden))]
    for layer in range(layers):
        prefix = "model.layers.%d." % layer
        for name in ["input_layernorm", "post_attention_layernorm"][:norms]:
            shapes += norm(prefix + name)
        for name in ["q_proj", "k_proj", "v_proj", "dense"]:
            shapes += linear(prefix + "self_attn." + name, hidden, hidden)
        shapes += linear(prefix + "mlp.fc1", ffn, hidden)
        shapes += linear(prefix + "mlp.fc2", hidden, ffn)
    return shapes + norm("model.final_layernorm") + linear("lm_head", vocabulary, hidden)


PHI_FIRST_NAMES = {
    "model.embed_tokens": "transformer.embd.wte",
    "model.layers.N.input_layernorm": "transformer.h.N.ln",
    "model.layers.N.self_attn.q_proj": "transformer.h.N.mixer.Wqkv",
    "model.layers.N.self_attn.dense": "transformer.h.N.mixer.out_proj",
    "model.layers.N.mlp.fc1": "transformer.h.N.mlp.fc1",
    "model.layers.N.mlp.fc2": "transformer.h.N.mlp.fc2",
    "model.final_layernorm": "lm_head.ln",
    "lm_head": "lm_head.linear",
}
"""Modules of PhiForCausalLM, and what its first checkpoints call them."""


def _renamed(name: str, names: Dict[str, str]) -> str:
    module, kind = name.rsplit(".", 1)
    layer = re.search(r"\.(\d+)\.", module)
    known = names[re.sub(r"\.\d+\.", ".N.", module)]
    return "%s.%s" % (known.replace("N", layer[1]) if layer else known, kind)


def phi_packed_shapes(shapes: Shapes) -> Shapes:
    """Names and shapes of the first checkpoints, for those of PhiForCausalLM."""
    return [
        (
            _renamed(name, PHI_FIRST_NAMES),
            (3 * shape[0], *shape[1:]) if ".q_proj." in name else shape,
        )
        for name, shape in shapes
        if ".k_proj." not in name and ".v_proj." not in name
    ]


def phi_unpacked(parameters: Tensors) -> Tensors:
    """Tensors of the first checkpoints, under the names of PhiForCausalLM."""
    names = {first: name for name, first in PHI_FIRST_NAMES.items()}
    found = {_renamed(name, names): value for name, value in parameters.items()}
    for name in [name for name in found if ".q_proj." in name]:
        for part, third in zip("qkv", np.split(found[name], 3)):
            found[name.replace("q_proj", part + "_proj")] = third
    return found


def neox_shapes(model) -> Shapes:
    """Names and shapes of GPTNeoXForCausalLM."""
    hidden, ffn = model.hidden, model.ffn
    has_bias = not model.no_attention_bias

    def linear(name, outs, ins, has_bias=True):
        return [(name + ".weight", (outs, ins)), (name + ".bias", (outs,))][: 1 + has_bias]

    def norm(name):
        return [(name + ".weight", (hidden,)), (name + ".bias", (hidden,))]

    table = (model.vocabulary, hidden)
    shapes: Shapes = [("gpt_neox.embed_in.weight", table)]
    for layer in range(model.layers):
        prefix = "gpt_neox.layers.%d." % layer
        shapes += norm(prefix + "input_layernorm") + norm(prefix + "post_attention_layernorm")
        attend = prefix + "attention."
        shapes += linear(attend + "query_key_value", 3 * hidden, hidden, has_bias)
        shapes += linear(attend + "dense", hidden, hidden, has_bias)
        shapes += linear(prefix + "mlp.dense_h_to_4h", ffn, hidden)
        shapes += linear(prefix + "mlp.dense_4h_to_h", hidden, ffn)
    shapes += norm("gpt_neox.final_layer_norm")
    return shapes if model.tied else shapes + [("embed_out.weight", table)]


def gated_encoder_shapes(
    layers: int, hidden: int, inner: int, ffn: int, sequence: int, vocabulary: int
) -> Shapes:
    """Names and shapes of the gated encoder; `inner` is the width of all heads."""
    shapes: Shapes = [
        ("tokens.weight", (vocabulary, hidden)),
        ("positions.weight", (sequence, hidden)),
        ("segments.weight", (2, hidden)),
    ]
    for layer in range(layers):
        shapes += [
            ("layers.%d.%s.weight" % (layer, name), shape)
            for name, shape in [
                ("attention_norm", (hidden,)),
                ("attention.q", (inner, hidden)),
                ("attention.k", (inner, hidden)),
                ("attention.v", (inner, hidden)),
                ("attention.o", (hidden, inner)),
                ("feed_forward_norm", (hidden,)),
                ("feed_forward.gate", (ffn, hidden)),
                ("feed_forward.up", (ffn, hidden)),
                ("feed_forward.down", (hidden, ffn)),
            ]
        ]
    return shapes + [
        ("norm.weight", (hidden,)),
        ("head.weight", (vocabulary, hidden)),
    ]

# ===- llama_reference.py - Llama in NumPy --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Llama and its gradients in NumPy, written from the model's equations.

It shares nothing with the compiler: tensors have Hugging Face's names and
shapes, linear weights [out, in], and every gradient is derived by hand.
"""

from typing import List, Optional, Tuple

import numpy as np

from transformer_reference import (
    Tensors,
    Transformer,
    attention,
    attention_gradient,
    join,
    later,
    split,
)

HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"


class Llama(Transformer):
    """The loss of a batch and its gradients, in the dtype of `parameters`.

    The output head is the token embedding where there is no lm_head.weight. Linears
    have the biases, queries and keys the norms that are there.
    """

    def __init__(
        self,
        parameters: Tensors,
        heads: int,
        kv_heads: int,
        theta: float = 10000.0,
        epsilon: float = 1e-6,
        window: Optional[int] = None,
        speeds: Optional[np.ndarray] = None,
    ):
        self.p = parameters
        self.speeds = speeds
        """Of each pair of channels from one position to the next; by theta if absent."""
        self.heads, self.kv_heads = heads, kv_heads
        self.theta, self.epsilon, self.window = theta, epsilon, window
        self.layers = sum(name.endswith("input_layernorm.weight") for name in parameters)
        self.head = HEAD if HEAD in parameters else EMBEDDING

    # -------------------------------------------------------------- forward

    def _logits(self, tokens, _targets):
        x = self.p[EMBEDDING][tokens]
        blocks = []
        for layer in range(self.layers):
            x, saved = self._block(x, "model.layers.%d." % layer)
            blocks.append(saved)
        x, final_norm = self._norm(x, "model.norm")
        return x @ self.p[self.head].T, (blocks, final_norm, x)

    def _block(self, x, prefix):
        a, m = prefix + "self_attn.", prefix + "mlp."
        y, norm_1 = self._norm(x, prefix + "input_layernorm")
        q = split(self._linear(y, a + "q_proj"), self.heads)
        k = split(self._linear(y, a + "k_proj"), self.kv_heads)
        v = split(self._linear(y, a + "v_proj"), self.kv_heads)
        q, norm_q = self._head_norm(q, a + "q_norm")
        k, norm_k = self._head_norm(k, a + "k_norm")
        mixed, attention = self._attention(self._rotate(q), self._rotate(k), v)
        attention = (attention, norm_q, norm_k)
        x = x + self._linear(mixed, a + "o_proj")
        z, norm_2 = self._norm(x, prefix + "post_attention_layernorm")
        gate, up = self._linear(z, m + "gate_proj"), self._linear(z, m + "up_proj")
        sigmoid = 1 / (1 + np.exp(-gate))
        hidden = gate * sigmoid * up
        x = x + self._linear(hidden, m + "down_proj")
        return x, (y, norm_1, mixed, attention, z, norm_2, gate, up, sigmoid, hidden)

    def _norm(self, x, name):
        rstd = 1 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.epsilon)
        return x * rstd * self.p[name + ".weight"], (x * rstd, rstd)

    def _head_norm(self, x, name):
        """Over the channels of each head, where there is one."""
        return self._norm(x, name) if name + ".weight" in self.p else (x, None)

    def _rotate(self, x, sign=1):
        """Channels i and i + d/2 are the parts of a complex number, which turns
        by its position."""
        length, half = x.shape[-2], x.shape[-1] // 2
        speeds = self.theta ** (-np.arange(half) / half)
        if self.speeds is not None:
            speeds = self.speeds
        turn = np.exp(sign * 1j * np.outer(np.arange(length), speeds))
        turned = (x[..., :half] + 1j * x[..., half:]) * turn
        return np.concatenate([turned.real, turned.imag], axis=-1)

    def _attention(self, q, k, v):
        share = self.heads // self.kv_heads
        k, v = np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)
        length = q.shape[2]
        hidden = later(length)
        if self.window is not None:
            hidden |= np.tril(np.ones((length, length), bool), k=-self.window)
        mixed, saved = attention(q, k, v, hidden)
        return join(mixed), saved

    # ------------------------------------------------------------- backward

    def _backward(self, tokens, tape, d_logits) -> Tensors:
        blocks, final_norm, x = tape
        g: Tensors = {EMBEDDING: np.zeros_like(self.p[EMBEDDING])}
        flat = (-1, x.shape[-1])
        d_head = d_logits.reshape(-1, d_logits.shape[-1]).T @ x.reshape(flat)
        g[self.head] = d_head
        dx = self._norm_gradient(
            d_logits @ self.p[self.head], final_norm, "model.norm", g
        )
        for layer in reversed(range(self.layers)):
            dx = self._block_gradient(dx, blocks[layer], "model.layers.%d." % layer, g)
        np.add.at(g[EMBEDDING], tokens.reshape(-1), dx.reshape(flat))
        return g

    def _block_gradient(self, dx, saved, prefix, g):
        y, norm_1, mixed, attention, z, norm_2, gate, up, sigmoid, hidden = saved
        a, m = prefix + "self_attn.", prefix + "mlp."
        d = self._linear_gradient(dx, hidden, m + "down_proj", g)
        d_gate = d * up * (sigmoid + gate * sigmoid * (1 - sigmoid))
        d_up = d * gate * sigmoid
        d = self._linear_gradient(d_gate, z, m + "gate_proj", g)
        d = d + self._linear_gradient(d_up, z, m + "up_proj", g)
        dx = dx + self._norm_gradient(d, norm_2, prefix + "post_attention_layernorm", g)
        d = self._linear_gradient(dx, mixed, a + "o_proj", g)
        attention, norm_q, norm_k = attention
        dq, dk, dv = self._attention_gradient(d, attention)
        dq, dk = self._rotate(dq, -1), self._rotate(dk, -1)
        if norm_q:
            dq = self._norm_gradient(dq, norm_q, a + "q_norm", g)
            dk = self._norm_gradient(dk, norm_k, a + "k_norm", g)
        d = 0
        for gradient, name in [(dq, "q_proj"), (dk, "k_proj"), (dv, "v_proj")]:
            d = d + self._linear_gradient(join(gradient), y, a + name, g)
        return dx + self._norm_gradient(d, norm_1, prefix + "input_layernorm", g)

    def _norm_gradient(self, dy, saved, name, g):
        x_hat, rstd = saved
        g[name + ".weight"] = (dy * x_hat).sum(axis=tuple(range(dy.ndim - 1)))
        d = dy * self.p[name + ".weight"]
        return rstd * (d - x_hat * (d * x_hat).mean(axis=-1, keepdims=True))

    def _attention_gradient(self, d, saved):
        dq, dk, dv = attention_gradient(split(d, self.heads), saved)
        return dq, self._shared(dk), self._shared(dv)

    def _shared(self, x):
        """The sum over the heads of queries that share a head of keys."""
        b, n, s, d = x.shape
        return x.reshape(b, self.kv_heads, n // self.kv_heads, s, d).sum(axis=2)


def llama3_speeds(theta, half, factor, low, high, original):
    """Of Transformers' _compute_llama3_parameters, by wavelengths as there."""
    speeds = theta ** (-np.arange(half) / half)
    lengths = 2 * np.pi / speeds
    smooth = (original / lengths - low) / (high - low)
    between = (1 - smooth) * speeds / factor + smooth * speeds
    stretched = np.where(lengths > original / low, speeds / factor, speeds)
    is_between = (lengths >= original / high) & (lengths <= original / low)
    return np.where(is_between, between, stretched)


def parameter_shapes(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocabulary: int,
    tied: bool,
    qkv_bias: bool = False,
    head_dim: Optional[int] = None,
    qk_norm: bool = False,
) -> List[Tuple[str, Tuple[int, ...]]]:
    """Names and shapes of Hugging Face's LlamaForCausalLM, as they are used, or, with
    biases, of its Qwen2ForCausalLM, with norms of Qwen3ForCausalLM."""
    head_dim = head_dim or hidden // heads
    q_hidden, kv_hidden = head_dim * heads, head_dim * kv_heads
    shapes = [(EMBEDDING, (vocabulary, hidden))]
    for layer in range(layers):
        shapes += [
            ("model.layers.%d.%s.weight" % (layer, name), shape)
            for name, shape in [
                ("input_layernorm", (hidden,)),
                ("self_attn.q_proj", (q_hidden, hidden)),
                ("self_attn.k_proj", (kv_hidden, hidden)),
                ("self_attn.v_proj", (kv_hidden, hidden)),
                ("self_attn.o_proj", (hidden, q_hidden)),
                *[
                    ("self_attn.%s_norm" % part, (head_dim,))
                    for part in ("q", "k")
                    if qk_norm
                ],
                ("post_attention_layernorm", (hidden,)),
                ("mlp.gate_proj", (ffn, hidden)),
                ("mlp.up_proj", (ffn, hidden)),
                ("mlp.down_proj", (hidden, ffn)),
            ]
        ]
        if qkv_bias:
            shapes += [
                ("model.layers.%d.self_attn.%s_proj.bias" % (layer, name), (width,))
                for name, width in [("q", q_hidden), ("k", kv_hidden), ("v", kv_hidden)]
            ]
    shapes.append(("model.norm.weight", (hidden,)))
    return shapes if tied else shapes + [(HEAD, (vocabulary, hidden))]

#!/usr/bin/env python3
# ===- jax_gpt2.py - A 2D-sharded training step of GPT-2 in JAX ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps of GPT-2 in JAX on the CPU, on a mesh of host devices.

The layout is that of our strategy summa: activations [batch, sequence, hidden]
at [row, -, col], weights [in, out] at [row, col], the down projection at
[col, row], heads sharded by col. `jit` with these shardings for its arguments and
the residual stream; XLA's partitioner does the rest. See work.py for the work.
"""

import os
import re
import time

import work


def parse():
    parser = work.parser(__doc__)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--cols", type=int, default=2)
    return parser.parse_args()


OPTIONS = parse()
# Read when JAX makes its devices.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + f" --xla_force_host_platform_device_count={OPTIONS.rows * OPTIONS.cols}"
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

DEVICES = jax.devices()[: OPTIONS.rows * OPTIONS.cols]
MESH = Mesh(
    __import__("numpy").array(DEVICES).reshape(OPTIONS.rows, OPTIONS.cols),
    ("row", "col"),
)
RESIDUAL = P("row", None, "col")


def spec(name):
    """Where a parameter lies; c_attn is [hidden, 3, heads, head size]."""
    for pattern, result in [
        (r"wte", P("col", "row")),
        (r"wpe", P(None, "col")),
        (r"c_attn\.weight", P("row", None, "col", None)),
        (r"c_attn\.bias", P(None, "col", None)),
        (r"mlp\.c_proj\.weight", P("col", "row")),
        (r"(c_fc|c_proj)\.weight", P("row", "col")),
        (r"", P("col")),
    ]:
        if re.search(pattern, name):
            return result
    raise AssertionError(name)


def sharding(spec):
    return NamedSharding(MESH, spec)


def constrain(x, spec=RESIDUAL):
    return jax.lax.with_sharding_constraint(x, sharding(spec))


def layer_norm(x, p, name):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(variance + work.NORM_EPSILON)
    return centred * scale * p[name + ".weight"] + p[name + ".bias"]


def attention(x, p, name):
    weight, bias = p[name + ".c_attn.weight"], p[name + ".c_attn.bias"]
    qkv = jnp.einsum("bsh,htnd->tbnsd", x, weight) + bias[:, None, :, None, :]
    q, k, v = constrain(qkv, P(None, "row", "col", None, None))
    scores = jnp.einsum("bnqd,bnkd->bnqk", q, k) / q.shape[-1] ** 0.5
    length = x.shape[1]
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bnqk,bnkd->bqnd", jax.nn.softmax(scores), v)
    mixed = constrain(mixed.reshape(x.shape))
    return mixed @ p[name + ".c_proj.weight"] + p[name + ".c_proj.bias"]


def mlp(x, p, name):
    up = constrain(x @ p[name + ".c_fc.weight"] + p[name + ".c_fc.bias"])
    up = jax.nn.gelu(up, approximate=True)
    return up @ p[name + ".c_proj.weight"] + p[name + ".c_proj.bias"]


def loss(p, tokens, targets, layers):
    x = constrain(p["wte.weight"][tokens] + p["wpe.weight"])
    for layer in range(layers):
        name = f"h.{layer}"
        x = constrain(x + attention(layer_norm(x, p, name + ".ln_1"), p, name + ".attn"))
        x = constrain(x + mlp(layer_norm(x, p, name + ".ln_2"), p, name + ".mlp"))
    logits = constrain(layer_norm(x, p, "ln_f") @ p["wte.weight"].T)
    picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def update(p, m, v, g, step, lr):
    """AdamW, clipped by the norm of all gradients."""
    norm = jnp.sqrt(sum(jnp.sum(x * x) for x in g.values()))
    factor = jnp.minimum(1.0, work.CLIP / (norm + 1e-6))
    beta1, beta2 = work.BETAS
    for name in p:
        gradient = g[name] * factor
        m[name] = beta1 * m[name] + (1 - beta1) * gradient
        v[name] = beta2 * v[name] + (1 - beta2) * gradient * gradient
        first = m[name] / (1 - beta1**step)
        second = v[name] / (1 - beta2**step)
        decay = work.DECAY if name.endswith("weight") and ".ln_" not in name else 0
        decay = 0 if name.startswith("ln_f") else decay
        delta = first / (jnp.sqrt(second) + work.EPSILON) + decay * p[name]
        p[name] = p[name] - lr * delta
    return p, m, v


def main():
    tensors = work.parameters(OPTIONS)
    sequence, hidden = tensors["wpe.weight"].shape
    head = (OPTIONS.heads, hidden // OPTIONS.heads)
    for name in tensors:
        if ".c_attn." in name:
            whole = tensors[name]
            tensors[name] = whole.reshape(whole.shape[:-1] + (3,) + head)
    windows = work.Windows(OPTIONS, sequence)
    layers = work.num_layers(tensors)
    at = {name: sharding(spec(name)) for name in tensors}
    p = {name: jax.device_put(tensors[name], at[name]) for name in tensors}
    m = {name: jax.device_put(0 * tensors[name], at[name]) for name in tensors}
    v = {name: jax.device_put(0 * tensors[name], at[name]) for name in tensors}
    batch_at = sharding(P("row", None))

    def train_step(p, m, v, tokens, targets, step):
        value, gradients = jax.value_and_grad(loss)(p, tokens, targets, layers)
        return value, *update(p, m, v, gradients, step, OPTIONS.lr)

    compiled = jax.jit(
        train_step,
        donate_argnums=(0, 1, 2),
        in_shardings=(at, at, at, batch_at, batch_at, None),
        out_shardings=(None, at, at, at),
    )
    compiled = compiled.lower(
        p, m, v, *windows.batch(0), jnp.float32(1)
    ).compile()
    work.emit(
        ready=True,
        peer=f"JAX {jax.__version__}",
        how=f"jit, {OPTIONS.rows}x{OPTIONS.cols} host devices",
    )

    def step(k):
        nonlocal p, m, v
        tokens, targets = (jax.device_put(x, batch_at) for x in windows.batch(k))
        begin = time.perf_counter()
        value, p, m, v = compiled(p, m, v, tokens, targets, jnp.float32(k + 1))
        jax.block_until_ready((value, p))
        return 1e3 * (time.perf_counter() - begin), float(value)

    work.serve(step)


if __name__ == "__main__":
    main()

# ===- test_torch_program.py - Programs of PyTorch's graphs --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Graphs as torch.export writes them become programs, or are refused by their lines.
PyTorch itself exports modules and trains beside in bench/peers/torch_programs.py."""

import re

import pytest

from optimus import ProgramError
from optimus.models.functions import functions_of
from optimus.ir import module_text
from optimus.torch_program import Graph, Node, Ref, _Builder
from tools import succeed

B, S, H, N, D, F, V = 2, 4, 12, 3, 4, 20, 9
SHAPES = {
    "wte": (V, H), "wpe": (S, H), "gain": (H,), "shift": (H,), "c_attn": (3 * H, H),
    "c_attn_bias": (3 * H,), "proj": (H, H), "up": (F, H), "down": (H, F),
}


def node(name, op, args, shape, line=0, path="", **kwargs):
    op = op if "<" in op else "aten." + op
    return Node(name, op, args, kwargs, shape, ("net.py", line), path)


def graph(nodes, output="logits", **ranges):
    parameters = {"p_" + name: name for name in SHAPES}
    return Graph(nodes, Ref("tokens"), parameters, ranges, SHAPES, (Ref(output),))


def refs(*names):
    return tuple(Ref(name) for name in names)


EMBEDDED = [
    node("x", "embedding.default", refs("p_wte", "tokens"), (B, S, H), 3),
    node("arange", "arange.default", (S,), (S,), 4),
    node("at", "embedding.default", refs("p_wpe", "arange"), (S, H), 4),
    node("sum", "add.Tensor", refs("x", "at"), (B, S, H), 5),
]
HEAD = node("logits", "linear.default", refs("y", "p_wte"), (B, S, V), 30)


def attention(scale=None, cut=H, **more):
    """One linear for queries, keys and values, and its readers."""
    args = refs("x", "p_c_attn", "p_c_attn_bias")
    yield node("qkv", "linear.default", args, (B, S, 3 * H), 10, "h.attn")
    yield node("parts", "split.Tensor", (Ref("qkv"), cut, 2), (), 11)
    for index, part in enumerate("qkv"):
        yield node(part, "<built-in function getitem>", (Ref("parts"), index), (B, S, H), 11)
        yield node(part + "_cut", "view.default", (Ref(part), [B, S, N, D]), (B, S, N, D), 12)
        moved = (Ref(part + "_cut"), 1, 2)
        yield node(part + "_moved", "transpose.int", moved, (B, N, S, D), 12)
    args = refs("q_moved", "k_moved", "v_moved")
    name = "scaled_dot_product_attention.default"
    how = dict(is_causal=True, scale=scale, **more)
    yield node("heads", name, args, (B, N, S, D), 13, "h.attn", **how)
    yield node("back", "transpose.int", (Ref("heads"), 1, 2), (B, S, N, D), 14)
    yield node("merged", "view.default", (Ref("back"), [B, S, H]), (B, S, H), 14)
    yield node("y", "linear.default", refs("merged", "p_proj"), (B, S, H), 15)


def test_heads_become_dimensions(tools, tmp_path):
    nodes = [*EMBEDDED[:1], *attention(), HEAD]
    functions = functions_of(_Builder, graph(nodes), ["loss", "forward"])
    text = module_text(functions)
    assert re.search(r"%c_attn: tensor<3x3x4x12xf32> .*hf_shape = array<i64: 36, 12>", text)
    assert re.search(r"%proj: tensor<12x3x4xf32> .*hf_shape = array<i64: 12, 12>", text)
    # One tensor is the embedding's table and the head's.
    assert text.count("%wte: tensor<9x12xf32>") == 2 and "head_loss %linear, %wte" in text
    assert '"h.attn.linear"("net.py":10:0)' in text
    (tmp_path / "net.mlir").write_text(text)
    succeed(tools.call("optimus-opt", tmp_path / "net.mlir"))


def test_positions_are_rows_of_a_table():
    nodes = [*EMBEDDED, node("y", "gelu.default", refs("sum"), (B, S, H)), HEAD]
    text = _Builder.build(graph(nodes)).text()
    assert re.search(r"optimus.add %embedding, %wpe : \(tensor<2x4x12xf32>, tensor<4x12xf32>", text)
    assert "optimus.gelu %add {exact}" in text


REFUSED = {
    "other operations, all at once": (
        [
            *EMBEDDED[:1],
            node("a", "cumsum.default", (Ref("x"), 1), (B, S, H), 7, "mix"),
            node("b", "add.Tensor", refs("x", "a"), (B, S, H), 8),
            node("y", "tanh.default", refs("b"), (B, S, H), 9),
            HEAD,
        ],
        "2 of 5 calls have no equivalent:\n"
        "  net.py:7: aten.cumsum.default, in mix: not supported\n"
        "  net.py:9: aten.tanh.default: not supported",
    ),
    "another scale": (
        [*EMBEDDED[:1], *attention(scale=1.0), HEAD],
        "net.py:13: aten.scaled_dot_product_attention.default, in h.attn: the scale is 1.0",
    ),
    "a mask": (
        [*EMBEDDED[:1], *attention(attn_mask=1), HEAD],
        "in h.attn: with a mask or dropout; is_causal=True is",
    ),
    "dropout of probabilities": (
        [*EMBEDDED[:1], *attention(dropout_p=0.1), HEAD],
        "in h.attn: with a mask or dropout; is_causal=True is",
    ),
    "an argument of later versions": (
        [*EMBEDDED[:1], node("y", "gelu.default", refs("x"), (B, S, H), 6, steep=1), HEAD],
        "net.py:6: aten.gelu.default: with these arguments: ",
    ),
    "other parts than thirds": (
        [*EMBEDDED[:1], *attention(cut=H // 2), HEAD],
        "net.py:11: aten.split.Tensor: a linear's output alone is split, into three equal",
    ),
    "fewer tokens than positions": (
        [*EMBEDDED[:1], node("arange", "arange.default", (S - 1,), (S - 1,)), EMBEDDED[2], HEAD],
        "of 4 positions, 3 are looked up; give an example of as many tokens",
    ),
    "logits that no linear makes": (
        [
            *EMBEDDED[:1],
            HEAD._replace(name="z", args=refs("x", "p_wte")),
            node("logits", "gelu.default", refs("z"), (B, S, V), 40),
        ],
        "net.py:40: aten.gelu.default: expected a linear that makes the logits",
    ),
    "a narrower type": (
        [*EMBEDDED[:1], node("y", "to.dtype", (Ref("x"), "torch.bfloat16"), (B, S, H), 6), HEAD],
        "net.py:6: aten.to.dtype: to torch.bfloat16; the compiler's --precision narrows",
    ),
    "heads before the sequence by a view, which takes channels of other tokens": (
        [
            *EMBEDDED[:1],
            *list(attention())[:3],
            node("y", "view.default", (Ref("q"), [B, N, S, D]), (B, N, S, D), 12),
            HEAD,
        ],
        "net.py:12: aten.view.default: to [2, 3, 4, 4]; heads alone are cut and merged",
    ),
    "merged heads that are moved": (
        [
            *EMBEDDED[:1],
            *list(attention())[:-1],
            node("y", "transpose.int", (Ref("merged"), 1, 2), (B, H, S), 15),
            HEAD,
        ],
        "net.py:15: aten.transpose.int: heads alone are moved before the sequence",
    ),
    "heads without attention": (
        [
            *EMBEDDED[:1],
            *list(attention())[:4],
            node("y", "gelu.default", refs("q_cut"), (), 16),
            HEAD,
        ],
        "net.py:16: aten.gelu.default: heads, positions and the like are for attention",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    nodes, message = REFUSED[case]
    with pytest.raises(ProgramError) as raised:
        _Builder.build(graph(nodes))
    assert message in str(raised.value)


def test_a_module_makes_logits():
    with pytest.raises(ProgramError, match=r"logits \[batch, sequence, vocabulary\], found \[4, 12\]"):
        _Builder.build(graph(EMBEDDED, "at"))

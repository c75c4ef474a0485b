# ===- torch_program.py - Programs of PyTorch's modules ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes the program of a module of PyTorch, by the graph of `torch.export`.

A graph has shapes that our operations have not: heads are cut out of a linear's output,
moved before the sequence, and back again. Here a linear is written once its readers are
known, with the heads as dimensions of its weight:

    linear → split → view → transpose → scaled_dot_product_attention
    optimus.matmul with a weight [3, heads, head_dim, in] → optimus.attention

so no element moves, and meshes have heads to shard.
"""

import math
import os
import re
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from optimus import ProgramError
from optimus.ir import ONES, ZEROS, Init, LossFunction, Value
from optimus.models.functions import functions_of
from optimus.models.parts import Dims, FunctionMaker

if TYPE_CHECKING:
    import numpy as np

KIND = "torch"
INIT = Init.normal(0.02)
"""Of weights that nobody assigns: the module's own are in TorchModel.weights."""

EMBEDDING = "aten.embedding.default"


class Ref(NamedTuple):
    """The value of another node."""

    name: str


class Node(NamedTuple):
    """Of the graph: what a call of PyTorch computes."""

    name: str
    op: str
    """As "aten.linear.default"."""
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    shape: Tuple[int, ...]
    """The result's, if it is one tensor."""
    place: Tuple[str, int] = ("", 0)
    """The file and the line of the call in the module's source."""
    path: str = ""
    """The module's, within the whole one."""


class Graph(NamedTuple):
    nodes: List[Node]
    tokens: Ref
    parameters: Dict[str, str]
    """The names in checkpoints, by that of a node. Tied ones have one name."""
    ranges: Dict[str, int]
    """Nodes that are a constant 0, 1, 2, …, and how long."""
    shapes: Dict[str, Tuple[int, ...]]
    """Of parameters, by their names."""
    output: Any


class TorchModel(NamedTuple):
    functions: List[LossFunction]
    """For compile()."""
    weights: "Dict[str, np.ndarray]"
    """The module's parameters, float32, by their names in its state_dict()."""

    def assign(self, session: Any) -> None:
        """Gives a session the module's parameters."""
        for name, values in self.weights.items():
            session.parameters[name] = values


def from_torch(
    module: Any, example: Any, functions: Sequence[str] = ("loss", "forward")
) -> TorchModel:
    """The functions of a module that makes logits [batch, sequence, vocabulary] of tokens
    [batch, sequence], and its parameters. `example` are such tokens; their shape is the
    program's. The loss is the cross-entropy with targets, of which negative ones do not
    count.

    Raises ProgramError with each call that has no equivalent, by its line.
    """
    graph, weights = _export(module, example)
    return TorchModel(functions_of(_Builder, graph, functions), weights)


def _export(module: Any, example: Any) -> "Tuple[Graph, Dict[str, np.ndarray]]":
    import torch

    exported = torch.export.export(module, (example,))
    kinds = torch.export.graph_signature.InputKind
    # Tied parameters are one tensor under several names: the first is that of all.
    first: Dict[int, str] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        first.setdefault(id(tensor), name)
    named = dict(module.named_parameters(remove_duplicate=False))
    parameters, ranges, tokens = {}, {}, []
    read = {each.name for each in exported.graph.nodes if each.users}
    for spec in exported.graph_signature.input_specs:
        if spec.arg.name not in read:
            continue
        if spec.kind is kinds.PARAMETER:
            parameters[spec.arg.name] = first[id(named[spec.target])]
        elif spec.kind is kinds.USER_INPUT:
            tokens.append(spec.arg.name)
        else:
            known = {**exported.state_dict, **exported.constants}
            flat = known[spec.target].flatten()
            if flat.equal(torch.arange(len(flat), dtype=flat.dtype)):
                ranges[spec.arg.name] = len(flat)
    weights = {name: named[name].detach().float().numpy() for name in parameters.values()}
    shapes = {name: tuple(values.shape) for name, values in weights.items()}
    refer = lambda given: torch.fx.node.map_arg(given, lambda node: Ref(node.name))
    nodes, output = [], None
    for each in exported.graph.nodes:
        if each.op == "output":
            output = refer(each.args[0])
        elif each.op == "call_function":
            nodes.append(_node(each, refer))
    if len(tokens) != 1:
        raise ProgramError("from_torch: expected a module that reads its tokens")
    return Graph(nodes, Ref(tokens[0]), parameters, ranges, shapes, output), weights


def _node(each: Any, refer: Callable[[Any], Any]) -> Node:
    made = each.meta.get("val")
    lines = re.findall(r'File "([^"]*)", line (\d+)', each.meta.get("stack_trace") or "")
    # PyTorch's own modules are not where a reader looks.
    own = [place for place in lines if "%storch%snn%s" % (os.sep, os.sep, os.sep) not in place[0]]
    file, line = (own or lines or [("", "0")])[-1]
    stack = list((each.meta.get("nn_module_stack") or {"": ("",)}).values())
    return Node(
        each.name,
        str(each.target),
        tuple(refer(list(each.args))),
        dict(refer(dict(each.kwargs))),
        tuple(made.shape) if hasattr(made, "shape") else (),
        (os.path.basename(file), int(line)),
        stack[-1][0],
    )


class _Unsupported(Exception):
    """Why a node has no equivalent."""


_UNKNOWN = object()
"""What depends on a node without an equivalent."""


class _Range(NamedTuple):
    """0, 1, …, one for each token of a sequence."""

    length: int


class _Weight(NamedTuple):
    name: str


class _Rows(NamedTuple):
    """One row of a table for each token of a sequence."""

    table: str


class _Silu(NamedTuple):
    x: Any


class _Linear(NamedTuple):
    """Not yet written, since its readers say what dimensions its output has."""

    node: Node
    x: Any
    weight: str
    bias: Optional[str]


class _Third(NamedTuple):
    """The queries (0), keys (1) or values (2) of a linear."""

    linear: _Linear
    index: int


class _Heads(NamedTuple):
    """A linear's output or a third of it as [batch, sequence, heads, head_dim] or, moved,
    [batch, heads, sequence, head_dim]."""

    source: Any
    heads: int
    width: int
    is_moved: bool = False


class _Attended(NamedTuple):
    """Attention's output, [batch, sequence, heads, head_dim], which may be moved, or
    merged: [batch, sequence, heads * head_dim]. Its heads may be in groups."""

    value: Value
    dims: Dims
    is_moved: bool = True
    is_merged: bool = False


class _Builder:
    """As the modules of optimus.models are, for functions_of()."""

    def __init__(self, graph: Graph, model: LossFunction, tokens: Value):
        self._graph, self._model, self._tokens = graph, model, tokens
        self._written: Dict[str, Value] = {}
        self._parameters: Dict[Tuple[str, Tuple[int, ...]], Value] = {}
        self._names: set = set()
        self._values: Dict[str, Any] = {graph.tokens.name: tokens}
        for name, parameter in graph.parameters.items():
            self._values[name] = _Weight(parameter)
        for name, length in graph.ranges.items():
            self._values[name] = _Range(length)
        self._wrong: List[str] = []
        embedded = [each.shape[-1] for each in graph.nodes if each.op == EMBEDDING]
        self._hidden = embedded[0] if embedded else 0

    @staticmethod
    def build(graph: Graph, make: FunctionMaker = LossFunction) -> LossFunction:
        shapes = {each.name: each.shape for each in graph.nodes}
        result = graph.output[0] if len(graph.output) == 1 else None
        logits = shapes.get(result.name, ()) if isinstance(result, Ref) else ()
        if len(logits) != 3:
            raise ProgramError(
                "from_torch: expected a module whose output are logits [batch, sequence, "
                "vocabulary], found %s" % (list(logits) if logits else "another output")
            )
        batch, sequence, vocabulary = logits
        model = make(
            dict(kind=KIND, batch=batch, sequence=sequence, vocabulary=vocabulary)
        )
        shape, dims = (batch, sequence), ("batch", "sequence")
        tokens = model.input("tokens", shape, dims)
        targets = model.input("targets", shape, dims)
        _Builder(graph, model, tokens)._run(result, targets)
        return model

    def _run(self, result: Ref, targets: Value) -> None:
        for node in self._graph.nodes:
            self._values[node.name] = self._attempt(node, self._convert, node)
        (last,) = [each for each in self._graph.nodes if each.name == result.name]
        if self._values[last.name] is not _UNKNOWN:
            self._attempt(last, self._end, self._values[last.name], targets)
        if self._wrong:
            raise ProgramError(
                "from_torch: %d of %d calls have no equivalent:\n  %s"
                % (len(self._wrong), len(self._graph.nodes), "\n  ".join(self._wrong))
            )

    def _attempt(self, node: Node, act: Callable[..., Any], *given: Any) -> Any:
        """What `act` makes of a node, or a note of why it cannot."""
        self._node = node
        try:
            with self._model.written_at(*node.place):
                return act(*given)
        except (_Unsupported, ProgramError) as error:
            within = ", in %s" % node.path if node.path else ""
            self._wrong.append("%s:%d: %s%s: %s" % (*node.place, node.op, within, error))
            return _UNKNOWN

    def _end(self, head: Any, targets: Value) -> None:
        if not isinstance(head, _Linear):
            raise _Unsupported("expected a linear that makes the logits")
        x, table = self._plain(head.x), self._matrix(head.weight)
        bias = self._vector(head.bias, ZEROS) if head.bias else None
        self._model.head_loss(x, table, targets, bias=bias)

    def _convert(self, node: Node) -> Any:
        convert = CONVERSIONS.get(node.op)
        if convert is None:
            raise _Unsupported("not supported")
        found: List[Any] = []
        args, kwargs = self._resolve(node.args, found), self._resolve(node.kwargs, found)
        if any(each is _UNKNOWN for each in found):
            return _UNKNOWN
        try:
            return convert(self, *args, **kwargs)
        except TypeError as error:
            raise _Unsupported("with these arguments: %s" % error) from None

    def _resolve(self, given: Any, found: List[Any]) -> Any:
        if isinstance(given, Ref):
            found.append(self._values.get(given.name, _UNKNOWN))
            return found[-1]
        if isinstance(given, dict):
            return {name: self._resolve(each, found) for name, each in given.items()}
        if isinstance(given, (list, tuple)):
            return [self._resolve(each, found) for each in given]
        return given

    # ------------------------------------------------------- what is written

    def _name(self, node: Node) -> str:
        """The module's path with the name of the operation, or of the node."""
        at = node.path + "." if node.path else ""
        short = node.op.split(".")[1] if "." in node.op else node.op
        name = at + short if at + short not in self._names else at + node.name
        self._names.add(name)
        return name

    def _parameter(self, name: str, shape: Sequence[int], dims: Sequence[str], init: Init):
        key = name, tuple(shape)
        if key not in self._parameters:
            if any(name == other for other, _ in self._parameters):
                raise _Unsupported("the parameter %s is read in two shapes" % name)
            self._parameters[key] = self._model.parameter(
                name, shape, dims, init, hf_shape=self._graph.shapes[name]
            )
        return self._parameters[key]

    def _dim(self, extent: int) -> str:
        """The residual stream's, as wide as tokens' embedding, or another one."""
        return "hidden" if extent == self._hidden else "ffn"

    def _vector(self, name: str, init: Init) -> Value:
        shape = self._graph.shapes[name]
        return self._parameter(name, shape, [self._dim(each) for each in shape], init)

    def _matrix(self, name: str) -> Value:
        """A table, with a row for each token."""
        shape = self._graph.shapes[name]
        return self._parameter(name, shape, ("vocabulary", self._dim(shape[1])), INIT)

    def _write_linear(self, linear: _Linear, outs: Dims) -> Value:
        """Once, with the output's dimensions after those of tokens."""
        name = linear.node.name
        shape = tuple(extent for _, extent in outs)
        if name in self._written:
            if self._written[name].shape[2:] != shape:
                raise _Unsupported("a linear's output is read in two shapes")
            return self._written[name]
        if isinstance(linear.x, _Attended) and linear.x.is_merged:
            x = linear.x.value
            ins = linear.x.dims
        else:
            x = self._plain(linear.x)
            ins = [(self._dim(x.shape[-1]), x.shape[-1])]
        names, extents = zip(*outs, *ins)
        weight = self._parameter(linear.weight, extents, names, INIT)
        path = self._name(linear.node)
        product = path + "_product" if linear.bias else path
        with self._model.written_at(*linear.node.place):
            y = self._model.matmul(product, x, weight, len(ins), transpose_b=True)
            if linear.bias:
                bias = self._parameter(linear.bias, shape, [dim for dim, _ in outs], ZEROS)
                y = self._model.add(path, y, bias)
        self._written[name] = y
        return y

    def _plain(self, x: Any) -> Value:
        """A value of the program, with the shape that the graph has."""
        if isinstance(x, Value):
            return x
        if isinstance(x, _Linear):
            out = self._graph.shapes[x.weight][0]
            return self._write_linear(x, [(self._dim(out), out)])
        if isinstance(x, (_Weight, _Rows)):
            raise _Unsupported("expected it on the right of a sum")
        raise _Unsupported("heads, positions and the like are for attention and linears")

    # ----------------------------------------------------------- operations

    def _embedding(self, weight, tokens, padding=-1, by_frequency=False, sparse=False):
        if by_frequency or sparse:
            raise _Unsupported("scaled by frequency, or sparse")
        rows, width = self._graph.shapes[weight.name]
        if isinstance(tokens, _Range):
            if tokens.length != rows:
                raise _Unsupported(
                    "of %d positions, %d are looked up; give an example of as many tokens"
                    % (rows, tokens.length)
                )
            return _Rows(weight.name)
        if tokens is not self._tokens:
            raise _Unsupported("expected the module's tokens, or positions from 0 on")
        pad = None if padding < 0 else padding
        return self._model.embedding(self._name(self._node), self._matrix(weight.name), tokens, pad)

    def _linear(self, x, weight, bias=None):
        if not isinstance(weight, _Weight):
            raise _Unsupported("expected a parameter for a weight")
        return _Linear(self._node, x, weight.name, bias and bias.name)

    def _add(self, x, y, alpha=1):
        if alpha != 1:
            raise _Unsupported("alpha is %r" % alpha)
        if isinstance(x, (_Weight, _Rows)):
            x, y = y, x
        left = self._plain(x)
        if isinstance(y, _Rows):
            shape = self._graph.shapes[y.table]
            dims = ("sequence", self._dim(shape[1]))
            right = self._parameter(y.table, shape, dims, INIT)
        elif isinstance(y, _Weight):
            right = self._vector(y.name, ZEROS)
        elif isinstance(y, (int, float)):
            raise _Unsupported("of a number")
        else:
            right = self._plain(y)
        return self._model.add(self._name(self._node), left, right)

    def _mul(self, x, y):
        if isinstance(y, _Silu):
            x, y = y, x
        if isinstance(y, (int, float)) or isinstance(x, (int, float)):
            raise _Unsupported("with a number")
        if isinstance(x, _Silu):
            gate, up = self._plain(x.x), self._plain(y)
            return self._model.swiglu(self._name(self._node), gate, up)
        return self._model.mul(self._name(self._node), self._plain(x), self._plain(y))

    def _gelu(self, x, approximate="none"):
        exact = approximate == "none"
        return self._model.gelu(self._name(self._node), self._plain(x), exact)

    def _layer_norm(self, x, shape, weight=None, bias=None, epsilon=1e-5, fast=True):
        if len(shape) != 1 or weight is None or bias is None:
            raise _Unsupported("expected one dimension, a weight and a bias")
        gain, shift = self._vector(weight.name, ONES), self._vector(bias.name, ZEROS)
        x = self._plain(x)
        return self._model.layer_norm(self._name(self._node), x, gain, shift, epsilon)

    def _rms_norm(self, x, shape, weight=None, epsilon=None):
        if len(shape) != 1 or weight is None:
            raise _Unsupported("expected one dimension and a weight")
        gain = self._vector(weight.name, ONES)
        epsilon = 2.0**-23 if epsilon is None else epsilon
        return self._model.rms_norm(self._name(self._node), self._plain(x), gain, epsilon)

    def _dropout(self, x, rate, training):
        if not training:
            return x
        return self._model.dropout(self._name(self._node), self._plain(x), rate)

    def _arange(self, *numbers, **how):
        start, end, step = {1: (0, *numbers, 1), 2: (*numbers, 1)}.get(len(numbers), numbers)
        if start != 0 or step != 1:
            raise _Unsupported("expected 0, 1, 2, …")
        return _Range(end)

    def _reshape(self, x, *_):
        """Between [batch, sequence, heads * head_dim] and heads apart."""
        shape = self._node.shape
        if isinstance(x, _Range) and math.prod(shape) == x.length:
            return x
        tokens = self._tokens.shape
        if isinstance(x, (_Linear, _Third)) and len(shape) == 4 and shape[:2] == tokens:
            return _Heads(x, *shape[2:])
        if isinstance(x, _Attended) and not x.is_moved:
            if shape == x.value.shape[:2] + (math.prod(x.value.shape[2:]),):
                return x._replace(is_merged=True)
        if isinstance(x, Value) and x.shape == shape:
            return x
        raise _Unsupported("to %s; heads alone are cut and merged" % list(shape))

    def _transpose(self, x, *dims):
        moves = tuple(each % 4 for each in dims) if len(dims) == 2 else tuple(dims[0])
        is_apart = isinstance(x, _Heads) or (isinstance(x, _Attended) and not x.is_merged)
        if is_apart and moves in ((1, 2), (2, 1), (0, 2, 1, 3)):
            return x._replace(is_moved=not x.is_moved)
        raise _Unsupported("heads alone are moved before the sequence")

    def _split(self, x, size, dim=0):
        whole = self._graph.shapes[x.weight][0] if isinstance(x, _Linear) else 0
        sizes = [size] * 3 if isinstance(size, int) else size
        if not whole or dim not in (-1, 2) or list(sizes) != [whole // 3] * 3 or whole % 3:
            raise _Unsupported("a linear's output alone is split, into three equal parts")
        return [_Third(x, index) for index in range(3)]

    def _chunk(self, x, chunks, dim=0):
        whole = self._graph.shapes[x.weight][0] if isinstance(x, _Linear) else 0
        return self._split(x, whole // chunks, dim)

    def _attention(
        self,
        q,
        k,
        v,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    ):
        for each in (q, k, v):
            if not isinstance(each, _Heads) or not each.is_moved:
                raise _Unsupported("expected a linear's output as [batch, heads, …]")
        if attn_mask is not None or dropout_p:
            raise _Unsupported("with a mask or dropout; is_causal=True is")
        if scale is not None and not math.isclose(scale, q.width**-0.5, rel_tol=1e-6):
            raise _Unsupported("the scale is %r, not 1 / √head_dim" % scale)
        if q.heads % k.heads or k.heads != v.heads or (q.heads != k.heads and not enable_gqa):
            raise _Unsupported("of %d heads with %d" % (q.heads, k.heads))
        model, inputs = self._model, []
        thirds = [each.source for each in (q, k, v)]
        dims = [("heads", q.heads), ("head_dim", q.width)]
        if all(isinstance(each, _Third) for each in thirds):
            linears = {each.linear.node.name for each in thirds}
            if len(linears) > 1 or [each.index for each in thirds] != [0, 1, 2]:
                raise _Unsupported("expected queries, keys and values in this order")
            inputs = [self._write_linear(thirds[0].linear, [("three", 3), *dims])]
        elif not all(isinstance(each, _Linear) for each in thirds):
            raise _Unsupported("expected one linear for all, or three")
        elif q.heads == k.heads:
            inputs = [self._write_linear(each, dims) for each in thirds]
        else:
            kv = [("kv_heads", k.heads), ("head_dim", k.width)]
            dims = [kv[0], ("queries", q.heads // k.heads), kv[1]]
            shapes = zip(thirds, (dims, kv, kv))
            inputs = [self._write_linear(each, shape) for each, shape in shapes]
        return _Attended(model.attention(self._name(self._node), inputs, is_causal), dims)

    def _same(self, x, *_, **__):
        return x

    def _to(self, x, type, *_, **__):
        if x is not self._tokens and not isinstance(x, _Range) and str(type) != "torch.float32":
            raise _Unsupported("to %s; the compiler's --precision narrows" % type)
        return x

    def _item(self, values, index):
        return values[index]


CONVERSIONS: Dict[str, Callable[..., Any]] = {
    EMBEDDING: _Builder._embedding,
    "aten.linear.default": _Builder._linear,
    "aten.add.Tensor": _Builder._add,
    "aten.add_.Tensor": _Builder._add,
    "aten.mul.Tensor": _Builder._mul,
    "aten.gelu.default": _Builder._gelu,
    "aten.silu.default": lambda _, x: _Silu(x),
    "aten.layer_norm.default": _Builder._layer_norm,
    "aten.rms_norm.default": _Builder._rms_norm,
    "aten.dropout.default": _Builder._dropout,
    "aten.arange.default": _Builder._arange,
    "aten.arange.start": _Builder._arange,
    "aten.arange.start_step": _Builder._arange,
    "aten.view.default": _Builder._reshape,
    "aten.reshape.default": _Builder._reshape,
    "aten.unsqueeze.default": _Builder._reshape,
    "aten.unflatten.int": _Builder._reshape,
    "aten.flatten.using_ints": _Builder._reshape,
    "aten.transpose.int": _Builder._transpose,
    "aten.permute.default": _Builder._transpose,
    "aten.split.Tensor": _Builder._split,
    "aten.split_with_sizes.default": _Builder._split,
    "aten.chunk.default": _Builder._chunk,
    "aten.scaled_dot_product_attention.default": _Builder._attention,
    "aten.contiguous.default": _Builder._same,
    "aten.clone.default": _Builder._same,
    "aten.alias.default": _Builder._same,
    "aten.to.dtype": _Builder._to,
    "aten._assert_tensor_metadata.default": _Builder._same,
    "<built-in function getitem>": _Builder._item,
}
"""By the name of PyTorch's operation."""

# ===- ir.py - Writing programs of the optimus dialect ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes the textual IR of functions in the `optimus` dialect.

A `LossFunction` is filled in program order: parameters and inputs become
arguments, and each operation's method returns the value it yields. Result
shapes are inferred, so a model states only what it computes. The same calls fill
a `ForwardFunction`. Standard library only.
"""

import math
import re
from typing import ContextManager, Dict, List, Optional, Sequence, Tuple, Union

from optimus import ProgramError
from optimus.attributes import (
    UNIT,
    Attribute,
    Raw,
    dictionary_text,
    float_text,
    int_array,
    optional_dictionary_text,
)
from optimus.expectations import expect, expect_shape
from optimus.locations import Locations
from optimus.values import ONES as ONES, PAGE, ZEROS as ZEROS, Init, Packed, TensorType, Value


_Argument = Tuple[Value, Dict[str, Attribute], str]
"""Its attributes and its location."""

FIRST_DROPOUT_STREAM = 1 << 24
"""Dropouts number their streams from here, so that a model starts from the
same parameters with and without them."""

RANDOM_WORDS = 5
"""The seed (2), the step (2) and the microbatch."""

LEAST_CHUNK = 512
MOST_CHUNKS = 4096
"""Of a head: the tokens of one where nobody asks for a number, and the compiler's
bound of their number."""


class LossFunction:
    """The function `@loss(params…, inputs…) -> (loss_sum, real_count)`.

    Names of parameters and values are within the scopes that are open:

        with model.scope("h.0"), model.scope("mlp"):
            y = model.gelu("gelu", y)     # h.0.mlp.gelu

    That is the path of the computation, used in messages of the compiler and the
    runtime together with the line of the builder's call.
    """

    def __init__(
        self, model: Dict[str, Attribute], beside: Optional["LossFunction"] = None
    ):
        """`model` becomes the module's `optimus.model` attribute. A function stands in
        one module with the one that it is `beside`."""
        self._model = model
        self._parameters: List[_Argument] = []
        self._inputs: List[_Argument] = []
        self._body: List[str] = []
        self._results: Tuple[Value, ...] = ()
        self._names = set()
        self._locations = Locations(beside._locations if beside else None)
        self._streams = 0
        self._random: Optional[_Argument] = None
        self._dropouts = 0

    NAME = "loss"

    def scope(self, name: str) -> ContextManager[None]:
        """Puts `name` before the names of what is made inside."""
        return self._locations.scope(name)

    def written_at(self, file: str, line: int) -> ContextManager[None]:
        """Gives what is made inside this line for its place, instead of the call's."""
        return self._locations.at(file, line)

    # ------------------------------------------------------------- arguments

    def parameter(
        self,
        name: str,
        shape: Sequence[int],
        dims: Sequence[str],
        init: Init,
        hf_shape: Optional[Sequence[int]] = None,
        packed: Optional[Packed] = None,
    ) -> Value:
        """A trained tensor, under its scopes and `name` in checkpoints.

        `hf_shape` is its shape there if that differs: the same elements in the
        same order. `packed` is its place there in a tensor of several. Random ones
        get the next stream of the counter-based generator, so the order of calls
        decides the initial values.
        """
        name = self._locations.path(name)
        rank = "a name for each of %d dimensions" % len(shape)
        expect(len(shape) == len(dims), "parameter '%s'" % name, rank, list(dims))
        expect(
            init.kind in ("normal", "zeros", "ones"),
            "parameter '%s'" % name,
            "the initial values normal, zeros or ones",
            init.kind,
        )
        init_text = "#optimus.init<%s>" % init.kind
        if init.kind == "normal":
            init_text = "#optimus.init<normal, stddev = %s, stream = %d>" % (
                float_text(init.stddev),
                self._streams,
            )
            self._streams += 1
        attributes: Dict[str, Attribute] = {"optimus.param": name}
        if hf_shape is not None and tuple(hf_shape) != tuple(shape):
            expect(
                math.prod(hf_shape) == math.prod(shape),
                "parameter '%s'" % name,
                "as many elements in hf_shape as in %s" % list(shape),
                list(hf_shape),
            )
            attributes["optimus.hf_shape"] = int_array(hf_shape)
        if packed is not None:
            tensor = self._locations.path(packed.name)
            attributes["optimus.packed"] = Raw(packed.text(tensor))
        attributes["optimus.init"] = Raw(init_text)
        attributes["optimus.dims"] = list(dims)
        value = self._define(name, TensorType(tuple(shape)))
        self._parameters.append((value, attributes, self._locations.text(name)))
        return value

    def input(self, binding: str, shape: Sequence[int], dims: Sequence[str]) -> Value:
        """An i32 tensor that the runtime passes at every step."""
        attributes = {"optimus.binding": binding, "optimus.dims": list(dims)}
        value = self._define(binding, TensorType(tuple(shape), "i32"))
        self._inputs.append((value, attributes, self._locations.text(binding)))
        return value

    def positions(
        self, shape: Sequence[int], dims: Sequence[str], within_documents: bool
    ) -> Optional[Value]:
        """Where tokens stand, if that is more than their order in the sequence: in
        their documents, where these are kept apart."""
        return self.input("positions", shape, dims) if within_documents else None

    def random(self) -> Value:
        """The words that random numbers depend on, the last of the inputs."""
        if self._random is None:
            value = self._define("random", TensorType((RANDOM_WORDS,), "i32"))
            attributes = {"optimus.binding": "random"}
            self._random = value, attributes, self._locations.text("random")
        return self._random[0]

    # ------------------------------------------------------------ operations
    #
    # `name` names the result.

    def embedding(
        self,
        name: str,
        table: Value,
        tokens: Value,
        pad: Optional[int] = None,
    ) -> Value:
        """Rows of `table` [v, h] chosen by `tokens`; looking row `pad` up gives it
        no gradient."""
        results = [(name, tokens.shape + table.shape[1:])]
        attributes = {} if pad is None else {"pad": pad}
        return self._emit("embedding", results, [table, tokens], attributes)[0]

    def add(self, name: str, lhs: Value, rhs: Value) -> Value:
        """The sum, `rhs` repeated over leading dimensions."""
        expect(
            lhs.shape[max(len(lhs.shape) - len(rhs.shape), 0) :] == rhs.shape,
            self._named("add", name),
            "the last dimensions of %s on the right" % list(lhs.shape),
            list(rhs.shape),
        )
        return self._emit("add", [(name, lhs.shape)], [lhs, rhs])[0]

    def dropout(self, name: str, x: Value, rate: float) -> Value:
        """Zeroes elements with probability `rate`; `x` itself if that is 0.

        Each call gets the next stream, also where the rate is 0.
        """
        stream = FIRST_DROPOUT_STREAM + self._dropouts
        self._dropouts += 1
        if rate == 0:
            return x
        attributes = {"rate": float(rate), "stream": stream}
        operands = [x, self.random()]
        return self._emit("dropout", [(name, x.shape)], operands, attributes)[0]

    def matmul(
        self,
        name: str,
        a: Value,
        b: Value,
        contracting: int = 1,
        transpose_b: bool = False,
    ) -> Value:
        """[M…, K…] times [K…, N…] with `contracting` dimensions in K.

        With `transpose_b`, `b` is [N…, K…].
        """
        rows = len(a.shape) - contracting
        columns = len(b.shape) - contracting
        if transpose_b:
            inner, outer = b.shape[columns:], b.shape[:columns]
        else:
            inner, outer = b.shape[:contracting], b.shape[contracting:]
        expect(
            rows >= 0 and a.shape[rows:] == inner,
            self._named("matmul", name),
            "%s, what is summed over on the left, on the right too" % list(a.shape[rows:]),
            list(inner),
        )
        shape = a.shape[:rows] + outer
        attributes: Dict[str, Attribute] = {}
        if contracting != 1:
            attributes["contracting"] = contracting
        if transpose_b:
            attributes["transpose_b"] = UNIT
        return self._emit("matmul", [(name, shape)], [a, b], attributes)[0]

    def layer_norm(
        self,
        name: str,
        x: Value,
        gamma: Value,
        beta: Value,
        epsilon: float,
    ) -> Value:
        """Layer normalisation over the last dimension."""
        for value in (gamma, beta):
            what = "%s, %s" % (self._named("layer_norm", name), value)
            expect_shape(what, value, x.shape[-1:])
        rows = x.shape[:-1]
        results = [(name, x.shape), (name + "_mean", rows), (name + "_rstd", rows)]
        attributes = {"epsilon": float(epsilon)}
        return self._emit("layer_norm", results, [x, gamma, beta], attributes)[0]

    def rms_norm(
        self, name: str, x: Value, gamma: Value, epsilon: float
    ) -> Value:
        """Normalisation by the root mean square over the last dimension."""
        what = "%s, %s" % (self._named("rms_norm", name), gamma)
        expect_shape(what, gamma, x.shape[-1:])
        results = [(name, x.shape), (name + "_rstd", x.shape[:-1])]
        attributes = {"epsilon": float(epsilon)}
        return self._emit("rms_norm", results, [x, gamma], attributes)[0]

    def rotary(
        self,
        name: str,
        x: Value,
        theta: float,
        channels: Optional[int] = None,
        parts: Optional[int] = None,
        positions: Optional[Value] = None,
        capacity: Optional[int] = None,
        frequencies: Optional[Sequence[float]] = None,
    ) -> Value:
        """Rotates pairs of channels of x [b, s, …, d] by their position: of all of
        a head's or the first `channels`, of all heads or, where x is
        [b, s, 3, n, d], those of the first `parts` of the three. `positions` are
        [b, s], below `capacity` or else s; those in the sequence if absent. With
        `frequencies` a pair turns by that angle from one position to the next."""
        rotated = x.shape[-1] if channels is None else channels
        expect(
            len(x.shape) >= 3 and rotated % 2 == 0 and rotated <= x.shape[-1],
            self._named("rotary", name),
            "the shape [b, s, …, d] with an even number of channels to rotate, at most d",
            "%s and %d" % (list(x.shape), rotated),
        )
        attributes: Dict[str, Attribute] = {"theta": float(theta)}
        if channels is not None:
            attributes["channels"] = channels
        if parts is not None:
            attributes["parts"] = parts
        if capacity is not None:
            attributes["capacity"] = capacity
        if frequencies is not None:
            found = len(frequencies)
            what = self._named("rotary", name)
            expect(found == rotated // 2, what, "a frequency for each pair", found)
            listed = ", ".join(map(float_text, frequencies))
            attributes["frequencies"] = Raw("array<f64: %s>" % listed)
        self._expect_positions("rotary", name, positions, x)
        # Its type is that of x, so it is written in this form.
        groups = {"positions": positions}
        return self._elementwise("rotary", name, [x], attributes, groups)

    def attention(
        self,
        name: str,
        inputs: Sequence[Value],
        causal: bool,
        lengths: Optional[Value] = None,
        positions: Optional[Value] = None,
        window: Optional[int] = None,
        cached: bool = False,
        pages: Optional[Value] = None,
    ) -> Value:
        """Attention on `inputs`, which are one of

        * qkv [b, s, 3, n, d]; yields [b, s, n, d];
        * q [b, s, n, d] or [b, s, g, r, d], and k and v [b, s, g, d], each head
          of which serves r heads of queries; yields q's shape.

        `lengths` [b] are how many tokens of each sequence are seen; all if
        absent. `positions` [b, s] are those of tokens in their documents, which
        see themselves alone. With a `window` a token sees so many keys at most, the
        last ones. Attention with either is causal.

        Keys and values of `cached` attention are [b, c, g, d], where key j is that
        of position j: `lengths` are how many of them are filled, and `positions`
        where the queries are. Those of one sequence, [1, c, g, d], serve queries
        [b, 1, …], all tokens of it. With `pages` [b, p] a sequence has p of the
        cache's pages of 64 positions, and one query.
        """
        shape = inputs[0].shape
        self._expect_positions("attention", name, positions, inputs[0])
        if len(inputs) == 1:
            expect(
                len(shape) == 5 and shape[2] == 3,
                self._named("attention", name),
                "qkv of shape [b, s, 3, n, d]",
                list(shape),
            )
            shape = shape[:2] + shape[3:]
        else:
            expect(
                len(inputs) == 3 and len(shape) in (4, 5),
                self._named("attention", name),
                "qkv, or q of shape [b, s, n, d] or [b, s, g, r, d], k and v",
                "%d inputs, the first of shape %s" % (len(inputs), list(shape)),
            )
            keys = shape[:3] + shape[-1:]
            if cached:
                of_one = inputs[1].shape[:1] == (1,) and shape[1] == 1
                sequences = (1,) if of_one else shape[:1]
                keys = sequences + inputs[1].shape[1:2] + keys[2:]
            for value in inputs[1:]:
                what = "%s, %s" % (self._named("attention", name), value)
                expect_shape(what, value, keys)
        lse = shape[:1] + shape[2:-1] + shape[1:2]
        if cached and keys[0] != shape[0]:
            lse = shape[1:2] + shape[2:-1] + shape[:1]
        results = [(name, shape), (name + "_lse", lse)]
        attributes: Dict[str, Attribute] = {"causal": UNIT} if causal else {}
        if window is not None:
            expect(
                window >= 1 and causal,
                self._named("attention", name),
                "a window of at least 1, with the causal mask",
                window,
            )
            attributes["window"] = window
        if cached:
            expect(
                causal and lengths is not None and positions is not None,
                self._named("attention", name),
                "the causal mask, lengths and positions for keys of a cache",
                "not all of them",
            )
            attributes["cached"] = UNIT
        groups = {"lengths": lengths, "positions": positions, "pages": pages}
        return self._emit("attention", results, inputs, attributes, groups)[0]

    def cache_append(
        self,
        name: str,
        cache: Value,
        rows: Value,
        positions: Value,
        slot: Optional[Value] = None,
        pages: Optional[Value] = None,
    ) -> Value:
        """The cache [b, c, …] with rows [b, s, …] at `positions` [b, s]; negative
        ones have no place. With a `slot` [1] rows [n, s, …] are all of that slot, and
        with `pages` [b, p] a slot has p of the cache's pages of 64 positions."""
        what = "%s, %s" % (self._named("cache_append", name), rows)
        sequences = cache.shape[:1] if slot is None else rows.shape[:1]
        expect_shape(what, rows, sequences + rows.shape[1:2] + cache.shape[2:])
        self._expect_positions("cache_append", name, positions, rows)
        results = [(name, cache.shape)]
        operands = [cache, rows, positions]
        groups = {"slot": slot, "pages": pages}
        return self._emit("cache_append", results, operands, None, groups)[0]

    def take(
        self,
        name: str,
        x: Value,
        index: Value,
        length: Optional[Value] = None,
        pages: Optional[Value] = None,
    ) -> Value:
        """Entry `index` [1] of the first dimension of x, [1, …]; zeros where that is
        negative. With a `length` [1] the second dimension has so many real entries.
        With `pages` [b, p] x is a cache of pages of 64 positions, and the result has
        those of the entry in their order, [1, 64·p, …]."""
        what = "%s, %s" % (self._named("take", name), index)
        expect_shape(what, index, (1,))
        rows = x.shape[1:2] if pages is None else (pages.shape[1] * PAGE,)
        results = [(name, (1,) + rows + x.shape[2:])]
        groups = {"length": length, "pages": pages}
        return self._emit("take", results, [x, index], None, groups)[0]

    def best(self, name: str, logits: Value, count: int) -> Value:
        """The `count` highest of each row, and behind them their tokens, as numbers."""
        what = self._named("best", name)
        found = "%d of %s" % (count, list(logits.shape))
        expect(1 <= count <= logits.shape[-1], what, "as many as the row has, at most", found)
        results = [(name, logits.shape[:-1] + (2 * count,))]
        return self._emit("best", results, [logits], {"count": count})[0]

    def log_probabilities(self, name: str, logits: Value, targets: Value) -> Value:
        """Those of `targets` by logits, with one dimension more; 0 where negative."""
        what = "%s, %s" % (self._named("log_probabilities", name), targets)
        expect_shape(what, targets, logits.shape[:-1])
        results = [(name, targets.shape)]
        return self._emit("log_probabilities", results, [logits, targets])[0]

    def part(self, name: str, packed: Value, index: int) -> Value:
        """Queries (0), keys (1) or values (2) of qkv [b, s, 3, n, d]."""
        shape = packed.shape
        expect(
            len(shape) >= 4 and 0 <= index < shape[2],
            self._named("part", name),
            "an index below the third of four dimensions or more",
            "%d of %s" % (index, list(shape)),
        )
        results = [(name, shape[:2] + shape[3:])]
        return self._emit("part", results, [packed], {"index": index})[0]

    def _expect_positions(
        self, op: str, name: str, positions: Optional[Value], x: Value
    ) -> None:
        if positions is not None:
            what = "%s, %s" % (self._named(op, name), positions)
            expect_shape(what, positions, x.shape[:2])

    def gelu(self, name: str, x: Value, exact: bool = False) -> Value:
        """GELU in its tanh form, or `exact`, with erf."""
        attributes = {"exact": UNIT} if exact else {}
        return self._elementwise("gelu", name, [x], attributes)

    def mul(self, name: str, lhs: Value, rhs: Value) -> Value:
        """The product, element by element."""
        what = "%s, %s" % (self._named("mul", name), rhs)
        expect_shape(what, rhs, lhs.shape)
        return self._emit("mul", [(name, lhs.shape)], [lhs, rhs])[0]

    def swiglu(self, name: str, gate: Value, up: Value) -> Value:
        """silu(gate) * up."""
        what = "%s, %s" % (self._named("swiglu", name), up)
        expect_shape(what, up, gate.shape)
        return self._elementwise("swiglu", name, [gate, up])

    def lengths(self, name: str, tokens: Value, targets: Value, pad: int) -> Value:
        """How many tokens of each sequence [b, s] come before its padding; where
        there is a target, the token was hidden and is none."""
        results = [(name, TensorType(tokens.shape[:1], "i32"))]
        groups = {"targets": targets}
        return self._emit("lengths", results, [tokens], {"pad": pad}, groups)[0]

    def row(self, name: str, table: Value, index: int) -> Value:
        """Row `index` of `table` [v, h]."""
        results = [(name, table.shape[1:])]
        return self._emit("row", results, [table], {"index": index})[0]

    def head_loss(
        self,
        h: Value,
        table: Value,
        targets: Value,
        chunk: Optional[int] = None,
        bias: Optional[Value] = None,
    ) -> None:
        """The head h·tableᵀ + bias and its cross-entropy; ends the function. Without a
        `chunk`, chunks are as small as a step may have."""
        expect_shape("head_loss, %s" % (h,), h, targets.shape + table.shape[1:])
        results = [("loss_sum", ()), ("real_count", ())]
        if chunk is None:
            chunk = max(LEAST_CHUNK, -(-math.prod(targets.shape) // MOST_CHUNKS))
        operands, attributes = [h, table, targets], {"chunk": chunk}
        self._results = tuple(
            self._emit(
                "head_loss", results, operands, attributes, {"bias": bias}, "head"
            )
        )

    def hidden_states(self, h: Value) -> None:
        """Ends the function of a model without a head, whose output `h` is."""
        expect(False, "@" + self.NAME, "a model with a head", "one without")

    # --------------------------------------------------------------- writing

    def text(self) -> str:
        """A module with this function alone."""
        return module_text([self])

    def _lines(self) -> List[str]:
        """The function, within its module."""
        what = "@" + self.NAME
        expect(bool(self._results), what, "head_loss as its last operation", "none")
        inputs = list(self._inputs)
        if self._random is not None:
            inputs.append(self._random)
        arguments = ",\n".join(
            "      %s: %s %s %s" % (value, value.type, dictionary_text(attributes), at)
            for value, attributes, at in self._parameters + inputs
        )
        types = ", ".join(str(value.type) for value in self._results)
        return [
            "  func.func %s(" % what,
            arguments,
            "  ) -> (%s)%s {" % self._signature(types),
            *("    " + line for line in self._body),
            "    return %s : %s" % (", ".join(map(str, self._results)), types),
            "  }",
        ]

    def _signature(self, types: str) -> Tuple[str, str]:
        """The results and their attributes, and the attributes of the function."""
        return types, ""

    def _named(self, mnemonic: str, name: str) -> str:
        """An operation, in errors."""
        return "%s '%s'" % (mnemonic, self._locations.path(name))

    def _define(self, path: str, type: TensorType) -> Value:
        """A new value whose name is made from a dotted one."""
        # "h.3.ln_1.weight" reads as %h3_ln_1_weight.
        name = path.replace("h.", "h", 1) if path.startswith("h.") else path
        name = re.sub(r"^(?=[0-9])|[^A-Za-z0-9_$]", "_", name)
        expect(name not in self._names, "%" + name, "a name of its own", "two values")
        self._names.add(name)
        return Value(name, type)

    def _elementwise(
        self,
        mnemonic: str,
        name: str,
        operands: Sequence[Value],
        attributes: Optional[Dict[str, Attribute]] = None,
        groups: Optional[Dict[str, Optional[Value]]] = None,
    ) -> Value:
        """An operation whose operands and result have one type. `groups` are optional
        operands by their keywords, of any type."""
        type = operands[0].type
        path = self._locations.path(name)
        result = self._define(path, type)
        self._body.append(
            "%s = optimus.%s %s%s%s : %s %s"
            % (
                result,
                mnemonic,
                ", ".join(map(str, operands)),
                "".join(
                    " %s(%s : %s)" % (keyword, value, value.type)
                    for keyword, value in (groups or {}).items()
                    if value is not None
                ),
                optional_dictionary_text(attributes),
                type,
                self._locations.text(path),
            )
        )
        return result

    def _emit(
        self,
        mnemonic: str,
        results: Sequence[Tuple[str, Union[TensorType, Tuple[int, ...]]]],
        operands: Sequence[Value],
        attributes: Optional[Dict[str, Attribute]] = None,
        groups: Optional[Dict[str, Optional[Value]]] = None,
        called: Optional[str] = None,
    ) -> List[Value]:
        """Writes an operation; `results` have shapes of f32 or types, `groups`
        are optional operands by the keyword that they follow. Its path ends with
        the name of its first result, or with `called`."""
        path = self._locations.path
        values = [
            self._define(path(name), of if isinstance(of, TensorType) else TensorType(of))
            for name, of in results
        ]
        given = {name: value for name, value in (groups or {}).items() if value}
        result_types = ", ".join(str(value.type) for value in values)
        if len(values) != 1:
            result_types = "(%s)" % result_types
        self._body.append(
            "%s = optimus.%s %s%s : (%s) -> %s %s"
            % (
                ", ".join(map(str, values)),
                mnemonic,
                " ".join(
                    [
                        ", ".join(map(str, operands)),
                        *("%s(%s)" % group for group in given.items()),
                    ]
                ),
                optional_dictionary_text(attributes),
                ", ".join(str(value.type) for value in [*operands, *given.values()]),
                result_types,
                self._locations.text(path(called or results[0][0])),
            )
        )
        return values


class ForwardFunction(LossFunction):
    """The function `@forward(params…, tokens) -> logits` of the model whose loss the same
    calls write: without targets, nor randomness. Of a model without a head the output
    are `hidden_states`."""

    NAME = "forward"
    _output = "logits"

    def input(
        self, binding: str, shape: Sequence[int], dims: Sequence[str]
    ) -> Optional[Value]:
        return None if binding == "targets" else super().input(binding, shape, dims)

    def dropout(self, name: str, x: Value, rate: float) -> Value:
        return x

    def lengths(
        self, name: str, tokens: Value, targets: Optional[Value], pad: int
    ) -> Value:
        return super().lengths(name, tokens, None, pad)

    def head_loss(
        self,
        h: Value,
        table: Value,
        targets: Optional[Value],
        chunk: Optional[int] = None,
        bias: Optional[Value] = None,
    ) -> None:
        """The head alone; ends the function."""
        results = [("logits", h.shape[:-1] + table.shape[:1])]
        self._results = tuple(
            self._emit("head", results, [h, table], None, {"bias": bias}, "head")
        )

    def hidden_states(self, h: Value) -> None:
        self._output, self._results = "hidden_states", (h,)

    def _signature(self, types: str) -> Tuple[str, str]:
        buffer = '#optimus.buffer<role = "%s", lifetime = call>' % self._output
        entry = "#optimus.entry<forward, batch = %d, sequence = %d>" % tuple(
            self._inputs[0][0].shape
        )
        return (
            "%s %s" % (types, dictionary_text({"optimus.binding": Raw(buffer)})),
            " attributes " + dictionary_text({"optimus.entry": Raw(entry)}),
        )


def module_text(functions: Sequence[LossFunction]) -> str:
    """A module of functions, each but the first beside one before. Raises ProgramError."""
    for function in functions[1:]:
        if not function._locations.are_beside(functions[0]._locations):
            raise ProgramError(
                "@%s: expected a function beside @%s, whose locations are numbered "
                "together; optimus.models.functions makes several so"
                % (function.NAME, functions[0].NAME)
            )
    attributes = {"optimus.model": functions[0]._model}
    lines = ["module attributes %s {" % dictionary_text(attributes)]
    for function in functions:
        lines += function._lines()
    return "\n".join([*lines, "}", *functions[0]._locations.lines()]) + "\n"

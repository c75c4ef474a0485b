# ===- generation.py - Functions that generate text ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What generates text with a model: `@prefill` and `@decode`, with a cache of keys and
values.

The calls that write a loss into a `LossFunction` write these two into a
`CachedFunction`. A cache has slots, each for a sequence of its own. `@prefill` takes a
chunk of a sequence's tokens for each slot and leaves their keys and values there;
`@decode` takes one token a slot, and has the logits of the next ones. The last token of
a prompt is `@decode`'s, so a chunk needs no logits. Slots without a token have the
position -1. Standard library only.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from optimus.attributes import Attribute, Raw
from optimus.ir import ForwardFunction, LossFunction
from optimus.models import ConfigError
from optimus.values import TensorType, Value


class Generation(NamedTuple):
    """The extents of `@prefill` and `@decode`."""

    slots: int
    """Sequences that are generated side by side."""
    context: int
    """Tokens of each at most, prompt and answer together."""
    chunk: int
    """Tokens of a prompt that one call takes in, of each slot."""

    def check(self, positions: Optional[int] = None) -> None:
        """Raises ConfigError unless functions can be built. `positions` are those
        that the model knows, where it has learned them."""
        for name, extent in self._asdict().items():
            if not 1 <= extent <= MOST[name]:
                raise ConfigError(
                    "{generate}: %s is %d; expected a number from 1 to %d"
                    % (name, extent, MOST[name])
                )
        if self.chunk > self.context:
            raise ConfigError(
                "{generate}: chunk is %d; expected at most the %d tokens of the context"
                % (self.chunk, self.context)
            )
        if positions is not None and self.context > positions:
            raise ConfigError(
                "{generate}: context is %d; expected at most {sequence} (%d), for each "
                "of which the model has learned a position" % (self.context, positions)
            )


MOST = {"slots": 1 << 12, "context": 1 << 24, "chunk": 1 << 16}


def _buffer(role: str, lifetime: str, more: str = "") -> Raw:
    return Raw('#optimus.buffer<role = "%s", lifetime = %s%s>' % (role, lifetime, more))


class CachedFunction(ForwardFunction):
    """The function `@KIND(params…, tokens, positions, lengths, caches…) ->
    (logits, caches…)`, of tokens that see those of earlier calls too.

    Arguments of the kinds differ in shape, so each has tokens and positions of its
    own; `lengths` are how many tokens of each slot are seen.
    """

    def __init__(
        self,
        kind: str,
        count: int,
        generation: Generation,
        model: Dict[str, Attribute],
        beside: Optional[LossFunction] = None,
    ):
        """For `count` tokens a slot."""
        super().__init__(model, beside)
        self.NAME = kind
        self._shape = (generation.slots, count)
        self._generation = generation
        self._caches: List[Value] = []
        self._positions: Optional[Value] = None
        self._lengths: Optional[Value] = None

    def _host_input(self, role: str, dims: Tuple[str, ...]) -> Value:
        shape = self._shape[: len(dims)]
        filled = ", filled_by = host"
        named = {"optimus.dims": list(dims)}
        return self._argument(
            role, TensorType(shape, "i32"), role, "call", filled, **named
        )

    def _argument(
        self, name: str, type: TensorType, role: str, lifetime: str, more: str, **others
    ) -> Value:
        value = self._define(name, type)
        attributes = {"optimus.binding": _buffer(role, lifetime, more), **others}
        self._inputs.append((value, attributes, self._locations.text(name)))
        return value

    def input(
        self, binding: str, shape: Sequence[int], dims: Sequence[str]
    ) -> Optional[Value]:
        if binding == "targets":
            return None
        return self._host_input("%s_%s" % (self.NAME, binding), ("slots", "chunk"))

    def positions(
        self, shape: Sequence[int], dims: Sequence[str], within_documents: bool
    ) -> Value:
        """Documents are not told apart: what is generated is one."""
        self._positions = self.input("positions", shape, dims)
        self._lengths = self._host_input("lengths", ("slots",))
        return self._positions

    def rotary(self, name: str, x: Value, theta: float, **how: Any) -> Value:
        how.update(positions=self._positions, capacity=self._generation.context)
        return super().rotary(name, x, theta, **how)

    def attention(
        self, name: str, inputs: Sequence[Value], causal: bool, **how: Any
    ) -> Value:
        if len(inputs) == 1:
            parts = enumerate(("queries", "new_keys", "new_values"))
            inputs = [self.part(part, inputs[0], index) for index, part in parts]
        q, k, v = inputs
        keys, values = self._append("keys", k), self._append("values", v)
        how.update(lengths=self._lengths, positions=self._positions, cached=True)
        return super().attention(name, [q, keys, values], causal, **how)

    def _append(self, name: str, rows: Value) -> Value:
        """The cache of this layer's `rows`, with them."""
        path = self._locations.path(name)
        shape = (self._generation.slots, self._generation.context)
        cache = self._argument(
            path,
            TensorType(shape + rows.shape[2:]),
            path,
            "sequence",
            ", init = <zeros>, reset = sequence",
            # Behind the logits.
            **{"optimus.donates": self._first_cache() + len(self._caches)}
        )
        self._caches.append(
            self.cache_append(name + "_filled", cache, rows, self._positions)
        )
        return self._caches[-1]

    def _first_cache(self) -> int:
        """The result that is the first cache."""
        return 1

    def head_loss(self, *given: Any, **named: Any) -> None:
        super().head_loss(*given, **named)
        self._results += tuple(self._caches)

    def _signature(self, types: str) -> Tuple[str, str]:
        results = [str(value.type) for value in self._results]
        if len(results) > len(self._caches):
            results[0] += " {optimus.binding = %s}" % _buffer("next_logits", "call")
        entry = "#optimus.entry<%s, batch = %d, sequence = %d>" % (self.NAME, *self._shape)
        return ", ".join(results), " attributes {optimus.entry = %s}" % entry


class DecodeFunction(CachedFunction):
    """One token a slot, and the logits of the next."""

    def __init__(self, generation: Generation, model, beside=None):
        super().__init__("decode", 1, generation, model, beside)


class PrefillFunction(CachedFunction):
    """A chunk of tokens a slot, of which the keys and values alone are kept."""

    def __init__(self, generation: Generation, model, beside=None):
        super().__init__("prefill", generation.chunk, generation, model, beside)

    def _first_cache(self) -> int:
        return 0

    def head_loss(self, *given: Any, **named: Any) -> None:
        """Ends the function; what the caches do not need, the compiler leaves out."""
        self._results = tuple(self._caches)

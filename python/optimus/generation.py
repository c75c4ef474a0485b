# ===- generation.py - Functions that generate text ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What generates text with a model: `@prefill`, `@decode` and `@score`, with a cache of
keys and values.

The calls that write a loss into a `LossFunction` write these into a `CachedFunction`. A
cache has slots, each for a sequence of its own. `@prefill` takes a chunk of one
sequence's tokens, leaves their keys and values in its slot, and has the logits behind
one of them, the last; `@decode` takes one token a slot, and has the logits of the next
ones. Slots without a token have the position -1, and so have tokens beyond a chunk.
Instead of a context for each slot, a cache may have pages of 64 tokens, and a table of
those that each slot has.
`@score` is a prefill with the log-probabilities of given tokens. Standard library only.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from optimus.attributes import Attribute, Raw
from optimus.ir import ForwardFunction, LossFunction
from optimus.models import ConfigError
from optimus.values import PAGE, TensorType, Value


class Generation(NamedTuple):
    """The extents of the functions that generate."""

    slots: int
    """Sequences that are generated side by side."""
    context: int
    """Tokens of each at most, prompt and answer together."""
    chunk: int
    """Tokens of a prompt that one call takes in."""
    pages: Optional[int] = None
    """Pages of 64 tokens that slots share, in all; None: each has its context."""
    best: Optional[int] = None
    """Most probable tokens that functions say beside the logits; None: they do not."""

    @property
    def share(self) -> int:
        """Tokens of the cache that there are for each slot, on average."""
        return self.context if self.pages is None else self.pages // self.slots * PAGE

    def check(self, positions: Optional[int] = None) -> None:
        """Raises ConfigError unless functions can be built. `positions` are those
        that the model knows, where it has learned them."""
        for name, extent in self._asdict().items():
            if extent is not None and not 1 <= extent <= MOST[name]:
                raise ConfigError(
                    "{generate}: %s is %d; expected a number from 1 to %d"
                    % (name, extent, MOST[name])
                )
        if self.chunk > self.context:
            raise ConfigError(
                "{generate}: chunk is %d; expected at most the %d tokens of the context"
                % (self.chunk, self.context)
            )
        if self.pages is not None:
            self._check_pages()
        if positions is not None and self.context > positions:
            raise ConfigError(
                "{generate}: context is %d; expected at most {sequence} (%d), for each "
                "of which the model has learned a position" % (self.context, positions)
            )

    def _check_pages(self) -> None:
        if self.context % PAGE != 0:
            raise ConfigError(
                "{generate}: context is %d; expected whole pages of %d tokens, as %d"
                % (self.context, PAGE, -(-self.context // PAGE) * PAGE)
            )
        if self.pages % self.slots != 0:
            more = -(-self.pages // self.slots) * self.slots
            raise ConfigError(
                "{generate}: pages is %d; expected as many for each of %d slots, as %d: "
                "they lie on ranks as slots do" % (self.pages, self.slots, more)
            )
        whole = self.slots * self.context // PAGE
        if self.pages > whole:
            raise ConfigError(
                "{generate}: pages is %d; expected at most the %d of %d slots with %d "
                "tokens each" % (self.pages, whole, self.slots, self.context)
            )


MOST = {
    "slots": 1 << 12, "context": 1 << 24, "chunk": 1 << 16, "pages": 1 << 24, "best": 64
}  # fmt: skip


def _buffer(role: str, lifetime: str, more: str = "") -> Raw:
    return Raw('#optimus.buffer<role = "%s", lifetime = %s%s>' % (role, lifetime, more))


class CachedFunction(ForwardFunction):
    """The function `@KIND(params…, tokens, positions, lengths, caches…) ->
    (logits, caches…)`, of tokens that see those of earlier calls too.

    Arguments of the kinds differ in shape, so each has tokens and positions of its
    own; `lengths` are how many tokens of each slot are seen.
    """

    OUTPUTS: Tuple[str, ...] = ("next_logits",)
    """What it has behind tokens."""
    BEST: Optional[str] = "next_best"
    """The most probable tokens of the first, if it has them."""

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
        if generation.best and self.BEST:
            self.OUTPUTS += (self.BEST,)
        self._caches: List[Value] = []
        self._positions: Optional[Value] = None
        self._lengths: Optional[Value] = None
        self._pages: Optional[Value] = None
        """The table of slots' pages, where there are any."""

    def _host_input(self, role: str, **dims: int) -> Value:
        filled = ", filled_by = host"
        named = {"optimus.dims": list(dims)}
        return self._argument(
            role, TensorType((*dims.values(),), "i32"), role, "call", filled, **named
        )

    def _tokens_input(self, binding: str) -> Value:
        slots, chunk = self._shape
        return self._host_input("%s_%s" % (self.NAME, binding), slots=slots, chunk=chunk)

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
        return self._tokens_input(binding)

    def positions(
        self, shape: Sequence[int], dims: Sequence[str], within_documents: bool
    ) -> Value:
        """Documents are not told apart: what is generated is one."""
        self._positions = self.input("positions", shape, dims)
        self._lengths = self._lengths_input()
        extents = self._generation
        if extents.pages is not None:
            dims = {"slots": extents.slots, "pages": extents.context // PAGE}
            self._pages = self._host_input("pages", **dims)
        return self._positions

    def _lengths_input(self) -> Value:
        return self._host_input("lengths", slots=self._shape[0])

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
        keys, values = self._cached("keys", k), self._cached("values", v)
        how.update(lengths=self._lengths, positions=self._positions, cached=True)
        how.update(pages=self._pages_seen())
        return super().attention(name, [q, keys, values], causal, **how)

    def _cached(self, name: str, rows: Value) -> Value:
        """What queries see: all rows of this layer so far, `rows` too."""
        return self._append(name, rows)

    def _pages_seen(self) -> Optional[Value]:
        """Where queries see them."""
        return self._pages

    def _append(
        self,
        name: str,
        rows: Value,
        places: Optional[Value] = None,
        slot: Optional[Value] = None,
    ) -> Value:
        """The cache of this layer's `rows`, with them at their positions or `places`."""
        path = self._locations.path(name)
        shape = (self._generation.slots, self._generation.share)
        cache = self._argument(
            path,
            TensorType(shape + rows.shape[2:]),
            path,
            "sequence",
            ", init = <zeros>, reset = sequence",
            # Behind the outputs.
            **{"optimus.donates": len(self.OUTPUTS) + len(self._caches)}
        )
        self._caches.append(
            self.cache_append(
                name + "_filled",
                cache,
                rows,
                places or self._positions,
                slot,
                self._pages,
            )
        )
        return self._caches[-1]

    def head_loss(self, *given: Any, **named: Any) -> None:
        super().head_loss(*given, **named)
        if self.BEST in self.OUTPUTS:
            logits = self._results[0]
            count = min(self._generation.best, logits.shape[-1])
            self._results += (self.best("best", logits, count),)
        self._results += tuple(self._caches)

    def _signature(self, types: str) -> Tuple[str, str]:
        results = [str(value.type) for value in self._results]
        for index, output in enumerate(self.OUTPUTS):
            results[index] += " {optimus.binding = %s}" % _buffer(output, "call")
        entry = "#optimus.entry<%s, batch = %d, sequence = %d>" % (self.NAME, *self._shape)
        return ", ".join(results), " attributes {optimus.entry = %s}" % entry


class DecodeFunction(CachedFunction):
    """One token a slot, and the logits of the next."""

    def __init__(self, generation: Generation, model, beside=None):
        super().__init__("decode", 1, generation, model, beside)


class ChunkFunction(CachedFunction):
    """The function `@KIND(params…, tokens, positions, slot, length, …, caches…) ->
    (output, caches…)`, of a chunk of one slot's tokens, [chunk, 1]: they are shared out
    among ranks as the sequences of a batch are."""

    _slot: Optional[Value] = None
    _places: Optional[Value] = None
    """The positions, whole on every rank: each slot's own gets rows of all."""

    def __init__(self, kind: str, generation: Generation, model, beside=None):
        super().__init__(kind, generation.chunk, generation, model, beside)
        self._shape = (1, generation.chunk)

    def _tokens_input(self, binding: str) -> Value:
        role = "%s_%s" % (self.NAME, binding)
        return self._host_input(role, chunk=self._generation.chunk, slot=1)

    def _number_input(self, name: str) -> Value:
        return self._host_input("%s_%s" % (self.NAME, name), slot=1)

    def _lengths_input(self) -> Value:
        self._places = self._tokens_input("places")
        self._slot = self._number_input("slot")
        return self._number_input("length")

    def _cached(self, name: str, rows: Value) -> Value:
        cache = self._append(name, rows, self._places, self._slot)
        of_slot = name + "_of_slot"
        return self.take(of_slot, cache, self._slot, self._lengths, self._pages)

    def _pages_seen(self) -> Optional[Value]:
        """None: the slot's keys and values are in order."""
        return None


class PrefillFunction(ChunkFunction):
    """The logits behind token `last` of the chunk, an index."""

    OUTPUTS = ("prompt_logits",)
    BEST = "prompt_best"

    def __init__(self, generation: Generation, model, beside=None):
        super().__init__("prefill", generation, model, beside)

    def head_loss(self, h: Value, *given: Any, **named: Any) -> None:
        last = self.take("last", h, self._number_input("last"))
        super().head_loss(last, *given, **named)


class ScoreFunction(ChunkFunction):
    """The log-probability behind each token of its target, 0 where that is negative,
    and the logits: the most probable tokens are found in them."""

    OUTPUTS = ("log_probabilities", "scored_logits")
    BEST = None

    def __init__(self, generation: Generation, model, beside=None):
        super().__init__("score", generation, model, beside)

    def input(
        self, binding: str, shape: Sequence[int], dims: Sequence[str]
    ) -> Optional[Value]:
        return self._tokens_input(binding)

    def head_loss(
        self, h: Value, table: Value, targets: Optional[Value], *given: Any, **named: Any
    ) -> None:
        super().head_loss(h, table, targets, *given, **named)
        logits, *caches = self._results
        found = self.log_probabilities("log_probabilities", logits, targets)
        self._results = (found, logits, *caches)

# ===- transformer.py - The transformer of all families -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A transformer whose configuration says its norms, positions, attention, feed-forward
part, biases, order and head. Families are presets of it (`bert.py`, `llama.py`, …): a
subclass of Config with what they fix, and their names of parameters.

Linear weights are [out, in], as published; products transpose them, so that no element
ever moves. `gpt2.py`, whose weights are [in, out], is written out for readers.
"""

from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Dict, NamedTuple, Optional, Tuple

from optimus.ir import ZEROS, LossFunction, Value
from optimus.models import ConfigError, rope
from optimus.models.checks import (
    MOST,
    check_dropout,
    check_extents,
    check_heads,
    check_masking,
    check_positive,
    check_rotated,
)
from optimus.models.parts import (
    FunctionMaker,
    Parts,
    Product,
    Third,
    begin,
    positions_of,
)

COMMON = ("layers", "hidden", "heads", "sequence", "vocabulary", "batch")
COMMON += ("ffn", "chunk", "init_std", "epsilon")
"""Fields of every family."""

SEGMENTS = 2
"""Kinds of tokens, where these have a table. Sequences are of one, the first."""


class Names(NamedTuple):
    """Of parameters, and of values in the paths that messages show. Those of a layer are
    below it."""

    table: str
    """Of tokens."""
    layer: str
    """With its number's place."""
    norms: Tuple[str, str]
    """Attention's and the feed-forward part's."""
    attention: str
    """What holds the values of attention."""
    qkv: Tuple[str, str, str]
    output: str
    feed_forward: str
    """What holds the values of the feed-forward part."""
    up: Tuple[str, ...]
    """The linear into it; of a gated one the gate's, then the other one."""
    down: str
    sums: Tuple[str, str]
    """What stands before "sum", "biased" and "dropped" where a part goes into the
    residual stream."""
    biased: Optional[Tuple[str, str]] = None
    """The parts' outputs with their biases, if these are not called after the sums."""
    norm: str = ""
    """After the last layer, if there is one."""
    head: str = ""
    transform: str = ""
    """What holds the head's own layer, if it has one."""
    packed: str = ""
    """A checkpoint's tensor of queries, keys and values, if it is one."""
    embedded: str = "embedded"
    positions: Tuple[str, ...] = ()
    """A learned table, and the sum with it."""
    segments: Tuple[str, ...] = ()
    """A learned table, its dimension, the row that is taken, and the sum with it."""
    embedding_norm: str = ""


@dataclass(frozen=True)
class Config:
    """Of any transformer: fields are given, the rest is a family's."""

    layers: int
    hidden: int
    heads: int
    """Heads of queries."""
    sequence: int
    vocabulary: int
    batch: int
    """Sequences in the global batch."""
    ffn: Optional[int] = None
    """Width of the feed-forward part; 4 * hidden if absent."""
    chunk: Optional[int] = None
    """Tokens whose logits exist at one time; 512, or more in a large batch, if absent."""
    init_std: float = 0.02
    epsilon: float = 1e-5
    """Of the norms."""
    kv_heads: Optional[int] = None
    """Heads of keys and values; each serves heads / kv_heads heads of queries. As many
    as of queries if absent."""
    head_width: Optional[int] = None
    """Channels of a head; heads * head_width need not be hidden. hidden / heads if
    absent."""
    window: Optional[int] = None
    """How many tokens a token sees, itself and those before it; all of them if
    absent. Mistral's sliding_window."""
    rope_theta: float = 10000.0
    """The base of the angles of rotary positions."""
    rope_scaling: Optional[rope.Scaling] = None
    """How positions were stretched after training; not at all if absent."""
    rotary_dim: Optional[int] = None
    """Channels of a head that are rotated; the even part of the family's share if
    absent."""
    qk_norm: bool = False
    """Queries and keys have norms, each over a head's channels, as in Qwen3."""
    qkv_bias: bool = False
    """Queries, keys and values have biases; for families without others."""
    attention_bias: bool = True
    """Queries, keys, values and attention's output have biases; for families with
    others."""
    norms: int = 2
    """Of a layer: one for both parts, or one each."""
    parallel: bool = False
    """The feed-forward part reads the layer's input, not what attention left."""
    tied: bool = False
    """The output head is the token embedding's table."""
    head: bool = True
    """Whether there is one, and a loss."""
    dropout: float = 0.0
    """Of the embeddings and of what enters the residual stream."""
    within_documents: bool = False
    """Positions begin anew with each document, and nothing is seen of others."""
    mask_token: Optional[int] = None
    """The token in the place of a hidden one; the vocabulary's last one if absent."""
    pad_token: int = 0
    """The token at the end of a shorter sequence."""

    kind: ClassVar[str]
    names: ClassVar[Names]
    options: ClassVar[Tuple[str, ...]]
    """Fields of the family that are not of all."""
    described: ClassVar[Tuple[str, ...]]
    """The attributes of the model beside those of all."""
    norm: ClassVar[str] = "layer"
    """Or "rms"."""
    order: ClassVar[str] = "norms before"
    """A part's norm comes before it or, "norms after", after its sum. Of a parallel layer
    both may come first, "norms first"."""
    causal: ClassVar[bool] = True
    """A token sees those before it, and the next one is learnt. Or a token sees all
    that are no padding, and hidden ones are learnt."""
    rotary: ClassVar[int] = 0
    """One over the share of a head's channels that are rotated; 0 for none."""
    packs_heads: ClassVar[bool] = True
    """Whether a packed tensor has queries, keys and values head by head, or first all
    queries."""
    grouped: ClassVar[bool] = False
    """Whether a head of queries has a dimension for its group."""
    activation: ClassVar[str] = "gelu"
    """Or "exact gelu", "gated gelu", "swiglu"."""
    biased: ClassVar[bool] = True
    """Whether linears have biases."""
    head_bias: ClassVar[bool] = False

    @property
    def biases(self) -> Tuple[bool, bool, bool]:
        """Of queries, keys and values; attention's output; the feed-forward part."""
        attention = self.biased and self.attention_bias
        return attention or self.qkv_bias, attention, self.biased

    @property
    def ffn_width(self) -> int:
        return 4 * self.hidden if self.ffn is None else self.ffn

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        return self.hidden // self.heads if self.head_width is None else self.head_width

    @property
    def groups(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def rotated(self) -> int:
        """Channels of a head."""
        if self.rotary_dim is not None:
            return self.rotary_dim
        return max(self.head_dim // (2 * max(self.rotary, 1)) * 2, 2)

    @property
    def mask(self) -> int:
        return self.vocabulary - 1 if self.mask_token is None else self.mask_token

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        defaults = {each.name: each.default for each in fields(self)}
        for name in given:
            if name not in COMMON + self.options and given[name] != defaults[name]:
                raise ConfigError("{%s} is not for %s" % (name, self.kind))
        if self.rope_scaling is not None:
            self.rope_scaling.check()
        check_positive({name: given[name] for name in ("rope_theta", "epsilon", "init_std")})
        needed = lambda name: given[name] is not None or defaults[name] is MISSING
        given["ffn"] = self.ffn_width
        check_extents({name: given[name] for name in given if name in MOST and needed(name)})
        if self.head_width is None:
            check_heads(self.hidden, self.heads)
        if self.rotary == 1 and self.head_dim % 2:
            what = "{hidden} / {heads}" if self.head_width is None else "{head_width}"
            raise ConfigError(
                what + " is %d; expected an even number, since the "
                "position embedding rotates pairs of channels" % self.head_dim
            )
        if self.rotary:
            check_rotated(self.rotated, self.head_dim)
        if self.heads % self.groups:
            raise ConfigError(
                "{heads} (%d) is not divisible by {kv_heads} (%d); each head of keys "
                "and values serves heads / kv_heads heads of queries"
                % (self.heads, self.groups)
            )
        if self.norms not in (1, 2):
            raise ConfigError("{norms} is %r; expected 1 or 2" % self.norms)
        check_dropout(self.dropout)
        if not self.causal:
            check_masking(self.mask, self.pad_token, self.vocabulary)

    def attributes(self) -> Dict[str, Any]:
        """Of the model, beside those of all."""
        known = dict(
            kv_heads=self.groups,
            head_dim=self.head_dim,
            ffn=self.ffn_width,
            rotary_dim=self.rotated,
            rope_theta=float(self.rope_theta),
            norm_eps=float(self.epsilon),
            tied=self.tied,
            pad_token=self.pad_token,
        )
        if self.head:
            known.update(objective="masked_token", mask_token=self.mask)
        return {name: known[name] for name in self.described if name in known}


def build(config: Config, make: FunctionMaker = LossFunction) -> LossFunction:
    """The loss of a model on a batch, or what `make` makes of the same body. Raises
    ConfigError."""
    config.check()
    return _Builder(config, make).build()


class _Builder:
    def __init__(self, c: Config, make: FunctionMaker):
        self.c, self.names = c, c.names
        self.model, self.tokens, self.targets = begin(make, c.kind, c, **c.attributes())
        self.parts = Parts(self.model, c, c.epsilon)
        # What is bound to a name is located at its call.
        self.norm = self.parts.rms_norm if c.norm == "rms" else self.parts.layer_norm
        self.hidden, self.words = [("hidden", c.hidden)], [("vocabulary", c.vocabulary)]
        self.lengths = self.positions = None

    def build(self) -> LossFunction:
        c, model, names = self.c, self.model, self.names
        if not c.causal:
            lengths = model.lengths("lengths", self.tokens, self.targets, c.pad_token)
            self.lengths = lengths
        table = self.parts.weight(names.table, self.words, self.hidden)
        x = self.embed(table)
        for layer in range(c.layers):
            with model.scope(names.layer % layer):
                x = self.layer(x)
        if names.norm:
            x = self.norm(names.norm, x)
        if c.head:
            self.head(x, table)
        else:
            model.hidden_states(x)
        return model

    def embed(self, table: Value) -> Value:
        c, model, names = self.c, self.model, self.names
        if c.causal:
            self.positions = positions_of(model, c)
        if names.positions:
            rows = [("sequence", c.sequence)]
            positions = self.parts.weight(names.positions[0], rows, self.hidden)
        if names.segments:
            rows = [(names.segments[1], SEGMENTS)]
            segments = self.parts.weight(names.segments[0], rows, self.hidden)
        # Padding learns as an output only, as with Hugging Face's padding_idx.
        pad = None if c.causal else c.pad_token
        x = model.embedding(names.embedded, table, self.tokens, pad=pad)
        if names.positions:
            x = model.add(names.positions[1], x, positions)
        if names.segments:
            x = model.add(names.segments[3], x, model.row(names.segments[2], segments, 0))
        if names.embedding_norm:
            x = self.norm(names.embedding_norm, x)
        within = names.embedded.rpartition(".")[0]
        return model.dropout(".".join(filter(None, [within, "dropped"])), x, c.dropout)

    def layer(self, x: Value) -> Value:
        c, names, norm = self.c, self.names, self.norm
        if c.order == "norms after":
            x = norm(names.norms[0], self.add(0, self.attention(x), x))
            return norm(names.norms[1], self.add(1, self.feed_forward(x), x))
        y = norm(names.norms[0], x)
        if not c.parallel:
            x = self.add(0, self.attention(y), x)
            return self.add(1, self.feed_forward(norm(names.norms[1], x)), x)
        if c.order == "norms first":
            z = y if c.norms == 1 else norm(names.norms[1], x)
            return self.add_both(self.attention(y), self.feed_forward(z), x)
        attended = self.attention(y)
        return self.add_both(attended, self.feed_forward(norm(names.norms[1], x)), x)

    def attention(self, y: Value) -> Product:
        c, model, names = self.c, self.model, self.names
        channels, hidden = ("head_dim", c.head_dim), self.hidden
        heads = queries = [("heads", c.heads), channels]
        if c.grouped:
            # Heads of keys and values come first, since they are sharded: heads of
            # queries lie in the published order, group by group.
            heads = [("kv_heads", c.groups), channels]
            queries = [heads[0], ("queries", c.heads // c.groups), channels]
        qkv = []
        for part, (name, dims) in enumerate(zip(names.qkv, (queries, heads, heads))):
            third = Third(names.packed, part, c.packs_heads) if names.packed else None
            product = self.parts.product(name, y, dims, hidden, c.biases[0], third)
            qkv.append(product.value if product.bias is None else model.add(name, *product))
        q, k, v = qkv
        with model.scope(names.attention):
            if c.qk_norm:
                q = self.norm("q_norm", q, channels)
                k = self.norm("k_norm", k, channels)
            if c.rotary:
                turn = dict(
                    positions=self.positions,
                    channels=None if c.rotary == 1 else c.rotated,
                    frequencies=rope.frequencies(c.rope_theta, c.rotated, c.rope_scaling),
                )
                q = model.rotary("q_rotated", q, c.rope_theta, **turn)
                k = model.rotary("k_rotated", k, c.rope_theta, **turn)
            seen = dict(lengths=self.lengths, positions=self.positions, window=c.window)
            y = model.attention("heads", [q, k, v], c.causal, **seen)
        return self.parts.product(names.output, y, hidden, queries, c.biases[1])

    def feed_forward(self, y: Value) -> Product:
        c, model, names, within = self.c, self.model, self.names, self.names.feed_forward
        ffn, biased = [("ffn", c.ffn_width)], c.biases[2]
        linear = self.parts.biased_linear if biased else self.parts.linear
        first = linear(names.up[0], y, ffn, self.hidden)
        if c.activation == "swiglu":
            up = linear(names.up[1], y, ffn, self.hidden)
            y = model.swiglu(within + ".gated", first, up)
        elif c.activation == "gated gelu":
            gate = model.gelu(within + ".gelu", first)
            y = model.mul(within + ".gated", gate, linear(names.up[1], y, ffn, self.hidden))
        else:
            y = model.gelu(within + ".gelu", first, exact=c.activation == "exact gelu")
        return self.parts.product(names.down, y, self.hidden, ffn, biased)

    def add(self, part: int, product: Product, x: Value) -> Value:
        """What attention, 0, or the feed-forward part, 1, adds to the residual stream."""
        model, names, at = self.model, self.names, self.names.sums[part]
        y, bias = product
        if bias is not None:
            y = model.add(names.biased[part] if names.biased else at + "biased", y, bias)
        y = model.dropout(at + "dropped", y, self.c.dropout)
        return model.add(at + "sum", y, x)

    def add_both(self, attended: Product, fed: Product, x: Value) -> Value:
        """Of a layer whose parts read the same. The products are added first, so that one
        reduction serves both if they are partial sums."""
        model, at = self.model, self.names.sums
        y = model.add("parts", attended.value, fed.value)
        for place, bias in zip(at, (attended.bias, fed.bias)):
            if bias is not None:
                y = model.add(place + "biased", y, bias)
        return model.add(at[1] + "sum", y, x)

    def head(self, x: Value, table: Value) -> None:
        c, model, names = self.c, self.model, self.names
        if not c.tied:
            table = self.parts.weight(names.head, self.words, self.hidden)
        bias = None
        if c.head_bias:
            shape, dims = (c.vocabulary,), ("vocabulary",)
            bias = model.parameter(names.head + ".bias", shape, dims, ZEROS)
        if not names.transform:
            return model.head_loss(x, table, self.targets, c.chunk, bias)
        with model.scope(names.head):
            with model.scope(names.transform):
                # Square, so that the activation moves as little as the residual stream's.
                x = self.parts.biased_linear("dense", x, self.hidden, self.hidden)
                x = model.gelu("gelu", x, exact=True)
                x = self.norm("LayerNorm", x)
            model.head_loss(x, table, self.targets, c.chunk, bias)

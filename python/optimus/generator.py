# ===- generator.py - Texts, token by token --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Texts that a session generates, several at a time (docs/python.md)."""

import operator
import weakref
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple
from typing import Optional, Sequence, Tuple, Union

from optimus.errors import ArgumentTypeError, Error, InvalidArgumentError

if TYPE_CHECKING:
    from optimus.session import Session


class Score(NamedTuple):
    """How probable a token was in its place, by the logits as they are."""

    logprob: float
    """The logarithm of the token's probability."""
    best: Dict[int, float]
    """The same of the most probable tokens, the most probable one first."""


class Text(Iterator[int]):
    """Tokens of a session. `tokens` are those so far; iteration has one after the
    other, and takes steps. `finish` says why it has ended:
    "stop", "length" or "cancelled"; None while it has not. A text that is dropped is
    cancelled.
    """

    def __init__(self, generator: "Generator", number: int, is_scored: bool):
        self.finish: Optional[str] = None
        self.tokens: List[int] = []
        self.number = number
        self._generator = generator
        self._scores: Optional[List[Score]] = [] if is_scored else None
        self._next = 0

    @property
    def scores(self) -> List[Score]:
        """One for each of `tokens`, if they were asked for by `logprobs`."""
        return (self._scores or [])[: len(self.tokens)]

    def _take(
        self, tokens: List[int], finish: Optional[str], score: float, best: List[Tuple[int, float]]
    ) -> None:
        self.tokens += tokens
        if self._scores is not None and finish != "cancelled":
            self._scores.append(Score(score, dict(best)))
        self.finish = finish

    def __next__(self) -> int:
        while self._next == len(self.tokens):
            if self.finish:
                raise StopIteration
            self._generator.step()
        self._next += 1
        return self.tokens[self._next - 1]

    def cancel(self) -> None:
        """Ends it before the next step. Nothing where it has ended."""
        if not self.finish:
            self._generator._bound.cancel_text(self.number)

    def __del__(self) -> None:
        if not self.finish and not self._generator._bound.closed:
            try:
                self.cancel()
            except Error:
                pass


def tokens_of(name: str, given: Sequence[int]) -> List[int]:
    """As whole numbers. Raises ArgumentTypeError or InvalidArgumentError."""
    try:
        tokens = [operator.index(token) for token in given]
    except TypeError:
        message = "%s: expected a sequence of whole numbers, found %r"
        raise ArgumentTypeError(message % (name, given)) from None
    for token in tokens:
        if not 0 <= token < 2**31:
            message = "%s: expected tokens from 0 on, found %d"
            raise InvalidArgumentError(message % (name, token))
    return tokens


class Generator:
    """The texts of a session, whose library was built with --generate.

    Texts are submitted, and each step adds a token to those in the cache's slots; the
    others wait. A text's tokens depend on its own request alone. In a job of several
    processes all make the same calls. Between two steps an interrupt, as of Ctrl-C,
    loses nothing: the next step goes on.
    """

    def __init__(self, session: "Session"):
        self._bound = session._bound
        self._texts: "weakref.WeakValueDictionary[int, Text]" = weakref.WeakValueDictionary()
        self._parts: List[Tuple[Any, ...]] = []

    def submit(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int = 0,
        stops: Sequence[Sequence[int]] = (),
        logit_bias: Optional[Mapping[int, float]] = None,
        copying_source: Optional[Sequence[int]] = None,
        copying_exceptions: Sequence[int] = (),
        continuation: Sequence[int] = (),
        logprobs: Optional[int] = None,
        **sampling: Union[int, float, None],
    ) -> Text:
        """Queues a text that follows a prompt; see Session.generate."""
        number = self._bound.add_text(
            tokens_of("prompt", prompt),
            max_tokens=max_tokens,
            stops=[tokens_of("stops", stop) for stop in stops],
            logit_bias=dict(logit_bias or {}),
            copying_source=copying_source
            if copying_source is None
            else tokens_of("copying_source", copying_source),
            copying_exceptions=set(tokens_of("copying_exceptions", copying_exceptions)),
            continuation=tokens_of("continuation", continuation),
            logprobs=logprobs,
            **sampling,
        )
        text = Text(self, number, logprobs is not None)
        self._texts[number] = text
        return text

    def step(self) -> List[Text]:
        """Adds a token to each text in a slot, or puts a chunk of its prompt into the
        cache. Returns the texts with something new.

        Raises UnavailableError and InvalidArgumentError, in every process of a job, for
        a failure of any; of texts before it nothing is lost.
        """
        self._bound.generate_step(self._parts)
        # After an interrupt a text has two of them.
        changed = {}
        while self._parts:
            number, *made = self._parts.pop(0)
            text = self._texts.get(number)
            if text:
                text._take(*made)
                changed[number] = text
        return list(changed.values())

    @property
    def has_work(self) -> bool:
        """Whether a text has not ended."""
        return bool(self._parts) or self._bound.has_texts

    @property
    def counters(self) -> Dict[str, int]:
        """Since the session's making: `prompt_tokens` and `generated_tokens`, and calls
        of both functions, `prefills` and `decodes`. Of a cache with pages also
        `shared_tokens`, of prompts in pages of other texts, and the pages now:
        `pages_held`, of these `pages_shared` by several texts or beams, `pages_free`,
        and besides `pages_on_host`, to which `moved_pages` have been moved. These take
        at most `host_bytes` of memory, of all ranks together."""
        return self._bound.generation_counters()

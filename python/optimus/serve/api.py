# ===- api.py - Bodies to requests, answers to bodies ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The bodies of /v1/completions and /v1/chat/completions, as OpenAI's clients write and
read them. What is not supported is refused by name."""

import json
import secrets
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from optimus.arguments import Mistake
from optimus.serve.limits import Limits
from optimus.text import requests
from optimus.text.chat import ChatError
from optimus.text.codec import Codec
from optimus.text.fields import FieldError, Fields
from optimus.text.model import Model
from optimus.text.requests import Request
from optimus.text.streaming import Piece, Spoken

DEFAULT_TOKENS = 16
"""Of /v1/completions, as its clients expect."""
MOST_USER = 256


class UnknownModel(FieldError):
    """A body for a model that is not here."""


class Naming(NamedTuple):
    """What clients call the model."""

    name: str

    def check(self, fields: Fields) -> None:
        """The fields `model` and `user`. Raises FieldError."""
        name = fields.text("model")
        if name is not None and name != self.name:
            message = "there is no model %.100r; there is %r"
            raise UnknownModel("model", message % (name, self.name))
        if len(fields.text("user", "")) > MOST_USER:
            raise FieldError("user", "user: expected at most %d characters" % MOST_USER)


class Asked(NamedTuple):
    """What a body asks for."""

    kind: "Kind"
    prompts: List[List[int]]
    n: int
    requests: List[Request]
    """The texts of every prompt, one prompt after the other; behind them the scored
    prompts, if these are asked for."""
    is_streamed: bool
    has_usage: bool
    """At the end of a stream."""
    echoed: List[str]
    """The texts of prompts, if they come before the answers."""
    logprobs: Optional[int]
    seed: int

    @property
    def texts(self) -> int:
        return len(self.prompts) * self.n


class Reader:
    """Reads bodies for one model."""

    def __init__(self, model: Model, naming: Naming, limits: Limits):
        self._model = model
        self._naming = naming
        self._limits = limits

    def completion(self, body: Dict[str, Any]) -> Asked:
        """Raises FieldError."""
        fields = Fields(body)
        self._naming.check(fields)
        texts = fields.prompts("prompt", self._limits.texts)
        prompts = [self._encode(prompt) for prompt in texts]
        is_echoed = fields.boolean("echo")
        logprobs = fields.whole("logprobs", most=requests.MOST_BEST)
        most = fields.whole("max_tokens")
        asked = self._asked(COMPLETION, fields, prompts, most, logprobs, DEFAULT_TOKENS)
        if logprobs is not None:
            # Each new token has an entry, an end too: evaluations leave out the last.
            ended = [each._replace(has_end=True) for each in asked.requests]
            asked = asked._replace(requests=ended)
        if not is_echoed:
            return self._bounded(asked)
        codec = self._model.codec
        echoed = [
            prompt if isinstance(prompt, str) else codec.decode(prompt) for prompt in texts
        ]
        scored = []
        if logprobs is not None:
            scored = [
                Request(prompt, 0, [], [], {}, logprobs, is_scored=True)
                for prompt in prompts
                if len(prompt) > 1
            ]
        return self._bounded(asked._replace(echoed=echoed, requests=asked.requests + scored))

    def chat(self, body: Dict[str, Any]) -> Asked:
        """Raises FieldError."""
        fields = Fields(body)
        self._naming.check(fields)
        messages = requests.messages_of(fields)
        try:
            tokens = self._model.codec.encode_chat(self._model.template.render(messages))
        except (ChatError, Mistake, ValueError) as error:
            raise FieldError("messages", str(error)) from None
        most = fields.whole("max_tokens")
        most = fields.whole("max_completion_tokens", most)
        best = fields.whole("top_logprobs", most=requests.MOST_BEST)
        has_logprobs = fields.boolean("logprobs")
        if best is not None and not has_logprobs:
            raise FieldError("top_logprobs", "top_logprobs: expected logprobs to be true, too")
        logprobs = (best or 0) if has_logprobs else None
        return self._bounded(self._asked(CHAT, fields, [tokens], most, logprobs))

    def _bounded(self, asked: Asked) -> Asked:
        """Raises FieldError for more log-probabilities than may be held."""
        tokens = sum(
            len(request.prompt) if request.is_scored else request.max_tokens
            for request in asked.requests
        )
        if asked.logprobs is None or tokens * (1 + asked.logprobs) <= self._limits.numbers:
            return asked
        message = "logprobs: expected at most %d log-probabilities, found %d for each of %d tokens"
        said = (self._limits.numbers, 1 + asked.logprobs, tokens)
        raise FieldError("logprobs", message % said)

    def _asked(
        self,
        kind: "Kind",
        fields: Fields,
        prompts: List[List[int]],
        most: Optional[int],
        logprobs: Optional[int],
        default: Optional[int] = None,
    ) -> Asked:
        """Without a number of tokens there are `default` or, as without that, as many as the
        context has place for."""
        limits = self._limits
        n = fields.whole("n", 1, 1, limits.texts)
        if n * len(prompts) > limits.texts:
            message = "n: expected at most %d texts of a request, found %d"
            raise FieldError("n", message % (limits.texts, n * len(prompts)))
        if fields.whole("best_of", n, 1) != n:
            raise FieldError("best_of", "best_of is not supported, but for the number n")
        is_streamed = fields.boolean("stream")
        has_usage = self._stream_options(fields, is_streamed)
        stop = requests.stops_of(fields)
        stop_tokens = requests.stop_tokens_of(fields, self._model.folder.ends)
        defaults = {"temperature": 1.0, "seed": secrets.randbits(53)}
        sampling = requests.sampling_of(fields, defaults)
        fields.end()
        asked = [
            Request(
                prompt,
                self._most_tokens(prompt, most, default),
                *(stop, stop_tokens, sampling, logprobs),
            ).alternative(index)
            for prompt in prompts
            for index in range(n)
        ]
        if most == 0:
            asked = []
        return Asked(
            *(kind, prompts, n, asked, is_streamed, has_usage, [], logprobs),
            sampling["seed"],
        )

    def _most_tokens(
        self, prompt: List[int], most: Optional[int], default: Optional[int]
    ) -> int:
        context = self._model.extents.context
        if not 1 <= len(prompt) <= context:
            expected = "prompt: expected 1 to %d tokens, the library's context, found %d"
            raise FieldError("prompt", expected % (context, len(prompt)))
        place = context - len(prompt) + 1
        if most is not None and most > place:
            expected = (
                "max_tokens: expected at most %d behind a prompt of %d in a context of %d, "
                "found %d"
            )
            raise FieldError("max_tokens", expected % (place, len(prompt), context, most))
        if most is None:
            return place if default is None else min(default, place)
        return most

    def _stream_options(self, fields: Fields, is_streamed: bool) -> bool:
        given = fields.take("stream_options", {})
        if not isinstance(given, dict) or (given and not is_streamed):
            expected = "an object beside a true stream"
            raise fields.refuse("stream_options", expected, given)
        options = Fields(given, "stream_options: ")
        has_usage = options.boolean("include_usage")
        options.end()
        return has_usage

    def _encode(self, prompt: Any) -> List[int]:
        if not isinstance(prompt, str):
            return prompt
        try:
            return self._model.codec.encode(prompt)
        except ValueError as error:
            raise FieldError("prompt", "prompt: %s" % error) from None


class Kind(NamedTuple):
    """How answers look."""

    prefix: str
    whole: str
    part: str


COMPLETION = Kind("cmpl-", "text_completion", "text_completion")
CHAT = Kind("chatcmpl-", "chat.completion", "chat.completion.chunk")


class Writer:
    """The answer to a body, in parts or whole."""

    def __init__(self, asked: Asked, codec: Codec, name: str):
        self.completion_tokens = 0
        self._asked = asked
        self._codec = codec
        self._common = {
            "id": asked.kind.prefix + secrets.token_hex(12),
            "created": int(time.time()),
            "model": name,
        }
        self._frames: Dict[int, Tuple[bytes, bytes]] = {}
        self._echoed = [len(text) for text in asked.echoed] or [0] * len(asked.prompts)

    # ------------------------------------------------------------------- choices

    def choice(self, index: int, piece: Piece, finish: Optional[str]) -> Dict[str, Any]:
        """Of a whole answer."""
        self._count(piece)
        logprobs = self._logprobs(index, piece.tokens)
        if self._asked.kind is CHAT:
            message = {"role": "assistant", "content": piece.text}
            return self._choice(index, finish, logprobs, message=message)
        return self._choice(index, finish, logprobs, text=piece.text)

    def part(self, index: int, piece: Piece, finish: Optional[str]) -> Dict[str, Any]:
        """Of a stream."""
        if self._asked.kind is not CHAT:
            return self.choice(index, piece, finish)
        self._count(piece)
        delta = {"content": piece.text} if piece.text or piece.tokens else {}
        return self._choice(index, finish, self._logprobs(index, piece.tokens), delta=delta)

    def _count(self, piece: Piece) -> None:
        self.completion_tokens += sum(not one.is_end for one in piece.tokens)

    def _choice(
        self, index: int, finish: Optional[str], logprobs: Any, **said: Any
    ) -> Dict[str, Any]:
        return {"index": index, **said, "logprobs": logprobs, "finish_reason": finish}

    def first_part(self, index: int) -> Optional[Dict[str, Any]]:
        """Of a stream, before any token."""
        if self._asked.kind is CHAT:
            return self._choice(index, None, None, delta={"role": "assistant", "content": ""})
        return None

    def echo(self, index: int, scored: Optional[List[Spoken]]) -> Dict[str, Any]:
        """The prompt of an answer, with the scores of all its tokens but the first."""
        number = index // self._asked.n
        text, tokens = self._asked.echoed[number], self._asked.prompts[number]
        logprobs = None
        if self._asked.logprobs is not None:
            scores = [None, *(one.score for one in scored or [])]
            logprobs = self._listed(tokens, scores, self._offsets(tokens))
        return self._choice(index, None, logprobs, text=text)

    def _offsets(self, tokens: List[int]) -> List[int]:
        """Of a prompt's tokens in its text."""
        offsets, length = [], 0
        for token in tokens:
            offsets.append(length)
            length += len(self._codec.decode([token]))
        return offsets

    def _logprobs(self, index: int, tokens: List[Spoken]) -> Any:
        if self._asked.logprobs is None:
            return None
        if self._asked.kind is CHAT:
            return {"content": [self._chat_score(one) for one in tokens]}
        first = self._echoed[index // self._asked.n]
        return self._listed(
            [one.token for one in tokens],
            [one.score for one in tokens],
            [first + one.offset for one in tokens],
        )

    def _listed(self, tokens: List[int], scores: List[Any], offsets: List[int]) -> Any:
        label = self._codec.token
        return {
            "tokens": [label(token) for token in tokens],
            "token_logprobs": [score and score.logprob for score in scores],
            "top_logprobs": [
                score and {label(token): number for token, number in score.best.items()}
                for score in scores
            ],
            "text_offset": offsets,
        }

    def _chat_score(self, one: Spoken) -> Dict[str, Any]:
        best = [self._scored(token, number) for token, number in one.score.best.items()]
        return {**self._scored(one.token, one.score.logprob), "top_logprobs": best}

    def _scored(self, token: int, logprob: float) -> Dict[str, Any]:
        known = self._codec.bytes_of(token)
        return {"token": self._codec.token(token), "logprob": logprob, "bytes": known}

    # -------------------------------------------------------------------- bodies

    def body(self, choices: List[Dict[str, Any]]) -> Dict[str, Any]:
        return {
            **self._common,
            "object": self._asked.kind.whole,
            "choices": choices,
            "usage": self.usage,
            "seed": self._asked.seed,
        }

    def chunk(self, choices: List[Dict[str, Any]], usage: bool = False) -> Dict[str, Any]:
        more = {"usage": self.usage if usage else None} if self._asked.has_usage else {}
        return {**self._common, "object": self._asked.kind.part, "choices": choices, **more}

    def chunk_of(self, index: int, piece: Piece, finish: Optional[str]) -> bytes:
        """A stream's chunk with one part, as JSON."""
        if finish or not piece.text or self._asked.logprobs is not None:
            return json.dumps(self.chunk([self.part(index, piece, finish)])).encode()
        # Of a token all is known but its text.
        self._count(piece)
        before, behind = self._frame(index)
        return b"".join((before, json.dumps(piece.text).encode(), behind))

    def _frame(self, index: int) -> Tuple[bytes, bytes]:
        """The bytes around the text of a part without anything else."""
        if index not in self._frames:
            # Nobody can foresee it, and so it is in no name.
            text = secrets.token_hex(16)
            if self._asked.kind is CHAT:
                part = self._choice(index, None, None, delta={"content": text})
            else:
                part = self._choice(index, None, None, text=text)
            before, behind = json.dumps(self.chunk([part])).split(json.dumps(text))
            self._frames[index] = before.encode(), behind.encode()
        return self._frames[index]

    @property
    def usage(self) -> Dict[str, int]:
        prompt = sum(map(len, self._asked.prompts))
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.completion_tokens,
            "total_tokens": prompt + self.completion_tokens,
        }


def joined(first: Dict[str, Any], rest: Dict[str, Any]) -> Dict[str, Any]:
    """An echoed prompt and its answer, as one choice."""
    logprobs = first["logprobs"] and {
        name: first["logprobs"][name] + rest["logprobs"][name] for name in first["logprobs"]
    }
    return {**rest, "text": first["text"] + rest["text"], "logprobs": logprobs}

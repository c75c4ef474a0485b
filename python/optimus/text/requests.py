# ===- requests.py - What is asked of a model ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Requests for texts, of which lines of optimus-generate and bodies of optimus-serve
have the same fields."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from optimus.text.fields import FieldError, Fields

MOST_STOPS = 16
MOST_OF_A_STOP = 256
MOST_BIASES = 1024
MOST_BEST = 20
"""Of the most probable tokens that a place can show."""
MOST_MESSAGES = 4096

NUMBERS = (
    *("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty"),
    *("frequency_penalty", "copying_penalty", "length_penalty"),
)
WHOLE_NUMBERS = ("top_k", "seed", "beams")


class Request(NamedTuple):
    """A prompt, and how it is followed."""

    prompt: List[int]
    max_tokens: int
    """0: as many as the context has place for."""
    stop: List[str]
    stop_tokens: List[int]
    sampling: Dict[str, Any]
    """Arguments of Generator.submit."""
    logprobs: Optional[int] = None
    is_scored: bool = False
    """Nothing is generated: the prompt's own tokens, each after those before it."""
    has_end: bool = False
    """The stop token that ends the answer is among its tokens, without a text."""

    def alternative(self, number: int) -> "Request":
        """One of several texts that follow the same prompt."""
        return self._replace(sampling={**self.sampling, "alternative": number})

    def arguments(self) -> Dict[str, Any]:
        """All of Generator.submit's but the prompt."""
        stops = [] if self.has_end else [[token] for token in self.stop_tokens]
        return {
            **self.sampling,
            "max_tokens": self.max_tokens,
            "stops": stops,
            "logprobs": self.logprobs,
        }


def sampling_of(fields: Fields, defaults: Dict[str, Any]) -> Dict[str, Any]:
    """The fields of sampling, with the defaults of a tool."""
    sampling = dict(defaults)
    for name in NUMBERS:
        value = fields.number(name)
        if value is not None:
            sampling[name] = value
    for name in WHOLE_NUMBERS:
        value = fields.whole(name)
        if value is not None:
            sampling[name] = value
    bias = fields.bias("logit_bias", MOST_BIASES)
    if bias:
        sampling["logit_bias"] = bias
    return sampling


def messages_of(fields: Fields) -> List[Dict[str, str]]:
    """The field `messages`: of each a role and a text."""
    given = fields.take("messages")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_MESSAGES:
        expected = "a list of 1 to %d messages" % MOST_MESSAGES
        raise fields.refuse("messages", expected, given)
    return [_message(number, message) for number, message in enumerate(given)]


def _message(number: int, given: Any) -> Dict[str, str]:
    where = "messages: %d: " % number
    if not isinstance(given, dict):
        raise FieldError("messages", where + "expected an object with role and content")
    fields = Fields(given, where)
    try:
        message = {"role": fields.text("role"), "content": _content(fields)}
        name = fields.text("name")
        fields.end()
    except FieldError as error:
        raise FieldError("messages", str(error)) from None
    if not message["role"]:
        raise FieldError("messages", where + "expected a role, found none")
    if name is not None:
        message["name"] = name
    return message


def _content(fields: Fields) -> str:
    """A text, or parts that are texts."""
    content = fields.take("content")
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {} for part in content]
        if all(
            part.get("type") == "text" and isinstance(part.get("text"), str) and len(part) == 2
            for part in parts
        ):
            return "".join(part["text"] for part in parts)
    if not isinstance(content, str):
        raise fields.refuse("content", "a text, or a list of parts of the type text", content)
    return content


def stops_of(fields: Fields) -> List[str]:
    return fields.texts("stop", MOST_STOPS, MOST_OF_A_STOP)


def stop_tokens_of(fields: Fields, ends: Sequence[int]) -> List[int]:
    """With the ends of the model's own."""
    return [*ends, *fields.tokens("stop_tokens", MOST_STOPS)]

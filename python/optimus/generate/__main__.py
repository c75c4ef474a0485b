# ===- __main__.py - The command line of optimus-generate ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""optimus-generate: text that follows prompts (docs/inference.md).

Exit codes: 0 done, 1 the arguments, an input or the output are wrong, 2 a fault of
ours.
"""

import argparse
import json
import sys
from typing import Any, Dict, Iterator, List, Optional

from optimus import __version__, arguments, output, small_file
from optimus.arguments import Mistake, Parser, real_number, whole_number_from
from optimus.errors import Error
from optimus.models import config_file
from optimus.numpy_check import need_numpy_for

need_numpy_for("optimus-generate")

from optimus.text import model as models
from optimus.text import requests
from optimus.text.chat import ChatError
from optimus.text.fields import Fields
from optimus.text.requests import Request

PROGRAM = "optimus-generate"
MOST_TEXT = 64 << 20
"""Bytes of standard input, or of a file of prompts."""
MOST_ALTERNATIVES = 1024
_COUNT = whole_number_from(0)

HELP = {
    "temperature": "0 takes the most probable token (default)",
    "top_p": "draw among the most probable tokens of this probability together",
    "min_p": "drop tokens less probable than this times the most probable one",
    "repetition_penalty": "for tokens of the text so far",
    "presence_penalty": "for tokens of the answer so far, once each",
    "frequency_penalty": "for tokens of the answer so far, as often as they came",
    "copying_penalty": "below 1 the answer copies less of the prompt",
    "length_penalty": "with --beams: scores are divided by the length to this power",
}


def _parser() -> Parser:
    parser = Parser(prog=PROGRAM, description="Text that follows prompts.")
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    models.add_arguments(parser)
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="- is standard input")
    parser.add_argument(
        "--prompts",
        metavar="FILE.jsonl",
        help="a prompt a line, a text or an object with prompt, tokens or messages, and "
        "options of its own; answers are lines of JSON",
    )
    parser.add_argument(
        "--chat",
        action="store_true",
        help="write prompts by the folder's chat template; without a PROMPT each line of "
        "standard input is a turn of one chat",
    )
    parser.add_argument("--system", metavar="TEXT", help="the chat's first message")
    parser.add_argument(
        "--max-tokens",
        type=_COUNT,
        metavar="N",
        help="new tokens at most (default: as many as the context has place for)",
    )
    parser.add_argument(
        "--stop",
        metavar="TEXT",
        action="append",
        help="end before this text; may be given again",
    )
    for name in requests.NUMBERS:
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=real_number, metavar="X", help=HELP[name])
    parser.add_argument(
        "--top-k", type=_COUNT, metavar="N", help="draw among the N most probable tokens"
    )
    parser.add_argument(
        "--beams",
        type=_COUNT,
        metavar="N",
        help="go on with the N most probable beginnings, each in a slot; print the best text",
    )
    parser.add_argument("--seed", type=_COUNT, metavar="N", help="of draws (default: 0)")
    parser.add_argument(
        "--n", type=_COUNT, default=1, metavar="N", help="answers to each prompt, as JSON"
    )
    parser.add_argument(
        "--logprobs",
        type=_COUNT,
        metavar="K",
        help="with --json: the log-probability of each token, and the K most probable ones",
    )
    parser.add_argument("--echo", action="store_true", help="print the prompt first")
    parser.add_argument("--json", action="store_true", help="answers as lines of JSON")
    return parser


def _options(given: Optional[List[str]]) -> argparse.Namespace:
    """Raises Mistake."""
    # The prompt may come behind flags.
    options = _parser().parse_intermixed_args(given)
    _check(options)
    return options


def _check(options: argparse.Namespace) -> None:
    if options.prompts is not None and options.prompt is not None:
        raise Mistake("expected a PROMPT or --prompts, found both")
    if options.prompts is None and options.prompt is None and not options.chat:
        raise Mistake("expected a PROMPT, --prompts or --chat, found none")
    if not 1 <= options.n <= MOST_ALTERNATIVES:
        raise Mistake("--n: expected a number from 1 to %d" % MOST_ALTERNATIVES)
    options.is_json = options.json or options.prompts is not None or options.n > 1
    if options.logprobs is not None and not options.is_json:
        raise Mistake("--logprobs goes with --json")
    if options.logprobs is not None and options.logprobs > requests.MOST_BEST:
        raise Mistake("--logprobs: expected a number from 0 to %d" % requests.MOST_BEST)
    if options.echo and (options.is_json or options.chat):
        raise Mistake("--echo goes with neither JSON nor --chat")
    if options.system is not None and not options.chat:
        raise Mistake("--system goes with --chat")
    if options.chat and options.prompt is None and options.prompts is None and options.is_json:
        raise Mistake("a chat of several turns is printed as text: expected no --json, no --n")


class Prompts:
    """Requests of the command line, of a file, and of turns of a chat."""

    def __init__(self, options: argparse.Namespace, model: models.Model):
        self._options = options
        self._model = model

    def of_text(self, text: str) -> Request:
        """Raises Mistake."""
        if not self._options.chat:
            return self._request(self._model.codec.encode(text), Fields({}))
        return self.of_messages([*self.first_messages(), _user(text)], Fields({}))

    def first_messages(self) -> List[Dict[str, str]]:
        system = self._options.system
        return [] if system is None else [{"role": "system", "content": system}]

    def of_messages(self, messages: List[Dict[str, str]], fields: Fields) -> Request:
        """Raises Mistake."""
        try:
            tokens = self._model.codec.encode_chat(self._model.template.render(messages))
        except (ChatError, ValueError) as error:
            raise Mistake(str(error)) from None
        return self._request(tokens, fields)

    def of_file(self, path: str) -> Iterator[Request]:
        """Raises Mistake."""
        # splitlines() would split at characters that JSON's texts may have as they are.
        for number, line in enumerate(_read(path).split("\n"), 1):
            if not line.strip():
                continue
            try:
                yield self._of_line(line)
            except (ValueError, Mistake) as error:
                raise Mistake("--prompts %s: line %d: %s" % (path, number, error)) from None

    def _of_line(self, line: str) -> Request:
        if not line.lstrip().startswith("{"):
            # A text by itself, which the reader of objects does not take.
            line = '{"prompt": %s}' % line
        fields = Fields(config_file.parse(line))
        prompt, messages = fields.text("prompt"), fields.take("messages")
        tokens = fields.tokens("tokens", self._model.extents.context)
        if sum((prompt is not None, messages is not None, bool(tokens))) != 1:
            raise ValueError("expected one of prompt, tokens and messages")
        if messages is not None:
            return self.of_messages(requests.messages_of(Fields({"messages": messages})), fields)
        if prompt is None:
            return self._request(tokens, fields)
        if self._options.chat:
            return self.of_messages([*self.first_messages(), _user(prompt)], fields)
        return self._request(self._model.codec.encode(prompt), fields)

    def _request(self, tokens: List[int], fields: Fields) -> Request:
        options = self._options
        names = (*requests.NUMBERS, *requests.WHOLE_NUMBERS)
        given = {name: getattr(options, name) for name in names}
        defaults = {name: value for name, value in given.items() if value is not None}
        max_tokens = fields.whole("max_tokens", options.max_tokens or 0)
        stop = requests.stops_of(fields) or options.stop or []
        stop_tokens = requests.stop_tokens_of(fields, self._model.folder.ends)
        sampling = requests.sampling_of(fields, defaults)
        fields.end("is no option of a prompt")
        return Request(tokens, max_tokens, stop, stop_tokens, sampling, options.logprobs)


def _user(text: str) -> Dict[str, str]:
    return {"role": "user", "content": text}


def _read(path: str) -> str:
    """Raises Mistake."""
    try:
        if path == "-":
            content = small_file.rest_of(sys.stdin.buffer, path, MOST_TEXT)
        else:
            content = small_file.read_or_wait(path, MOST_TEXT)
        return content.decode("utf-8")
    except OSError as error:
        raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
    except UnicodeDecodeError as error:
        raise Mistake("%s is not UTF-8: byte %d" % (path, error.start)) from None


class Printer:
    """Answers in the order of prompts, or one of them as it comes."""

    def __init__(self, options: argparse.Namespace, model: models.Model):
        self._is_json = options.is_json
        self._codec = model.codec

    def stream(self, text: str) -> None:
        if text:
            output.write_bytes("-", text.encode("utf-8", "surrogateescape"))

    def line(self, request: Request, index: int, said: List[Any], finish: str) -> None:
        """An answer that has ended, of its pieces."""
        spoken = [one for piece in said for one in piece.tokens]
        line: Dict[str, Any] = {
            "prompt_tokens": len(request.prompt),
            "index": index,
            "text": "".join(piece.text for piece in said),
            "tokens": [one.token for one in spoken],
            "finish_reason": finish,
        }
        if request.logprobs is not None:
            line["logprobs"] = [one.score.logprob for one in spoken]
            line["top_logprobs"] = [
                {str(token): number for token, number in one.score.best.items()}
                for one in spoken
            ]
        output.write("-", json.dumps(line, ensure_ascii=False) + "\n")


def _stream(speaker: Any, request: Request, printer: Printer) -> str:
    """Prints an answer as it comes, and returns it."""
    said = []
    speaker.submit(request)
    while speaker.has_work:
        for one in speaker.step():
            printer.stream(one.piece.text)
            said.append(one.piece.text)
    printer.stream("\n")
    return "".join(said)


def _print_all(speaker: Any, asked: List[Request], n: int, printer: Printer) -> None:
    """Lines of JSON in the order of prompts, each as soon as those before it are."""
    waiting = []
    for number, request in enumerate(asked):
        for index in range(n):
            alternative = request.alternative(index) if n > 1 else request
            try:
                answer = speaker.submit(alternative)
            except Error as error:
                raise Mistake("prompt %d: %s" % (number + 1, error)) from None
            waiting.append((answer, request, index))
    pieces: Dict[Any, List[Any]] = {answer: [] for answer, _, _ in waiting}
    finished: Dict[Any, str] = {}
    while waiting:
        for one in speaker.step():
            pieces[one.answer].append(one.piece)
            if one.finish:
                finished[one.answer] = one.finish
        while waiting and waiting[0][0] in finished:
            answer, request, index = waiting.pop(0)
            printer.line(request, index, pieces.pop(answer), finished[answer])


def _chat(speaker: Any, prompts: Prompts, printer: Printer) -> None:
    """A turn for each line of standard input."""
    messages = prompts.first_messages()
    for turn in _turns():
        messages.append(_user(turn))
        reply = _stream(speaker, prompts.of_messages(messages, Fields({})), printer)
        messages.append({"role": "assistant", "content": reply})


def _turns() -> Iterator[str]:
    """Lines of standard input, as they come. Raises Mistake."""
    number = 0
    while line := sys.stdin.buffer.readline(MOST_TEXT + 1):
        number += 1
        if len(line) > MOST_TEXT:
            message = "standard input: line %d: expected at most %d bytes"
            raise Mistake(message % (number, MOST_TEXT))
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            message = "standard input: line %d is not UTF-8: byte %d"
            raise Mistake(message % (number, error.start)) from None


def _speak(options: argparse.Namespace, model: models.Model, speaker: Any) -> None:
    prompts, printer = Prompts(options, model), Printer(options, model)
    if options.prompts is None and options.prompt is None:
        return _chat(speaker, prompts, printer)
    if options.prompts is not None:
        asked = list(prompts.of_file(options.prompts))
    else:
        text = _read("-") if options.prompt == "-" else options.prompt
        try:
            asked = [prompts.of_text(text)]
        except ValueError as error:
            raise Mistake("the prompt: %s" % error) from None
    if options.is_json:
        return _print_all(speaker, asked, options.n, printer)
    if options.echo:
        printer.stream(text)
    _stream(speaker, asked[0], printer)


def _generate(options: argparse.Namespace) -> int:
    from optimus.text.leading import Leader, follow
    from optimus.text.speaker import Speaker

    model = models.Model(options)
    session, notes = model.open()
    if session.world.first_rank != 0:
        return follow(session)
    for note in notes:
        output.say(note)
    leader = Leader(session)
    exit_code = 1
    try:
        _speak(options, model, Speaker(leader, model.codec))
        exit_code = 0
    finally:
        model.close()
        leader.end(exit_code)
    return exit_code


def main(given: Optional[List[str]] = None) -> int:
    return arguments.outcome(PROGRAM, lambda: _generate(_options(given)), Error)


if __name__ == "__main__":
    arguments.run(main)

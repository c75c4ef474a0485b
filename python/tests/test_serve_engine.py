# ===- test_serve_engine.py - What a server runs, without a model ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Whoever waits for an answer hears of a failure, and addresses that are none are
refused."""

import asyncio
import gc
import http.client
import itertools
import json
import threading
import time
import types

import pytest

from optimus.errors import UnavailableError
from optimus.text.pooling import Pooling

pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
from optimus.serve import api  # noqa: E402
from optimus.serve.app import Access, App, Served  # noqa: E402
from optimus.serve.embedding import EmbeddingEngine  # noqa: E402
from optimus.serve.engine import Event  # noqa: E402
from optimus.serve.limits import Limits  # noqa: E402
from optimus.serve.metrics import Metrics  # noqa: E402
from optimus.serve.protocol import DIRECT, H11Protocol, HttpServer, listen  # noqa: E402
from optimus.text.codec import Codec  # noqa: E402
from optimus.text.fields import FieldError  # noqa: E402
from optimus.text.streaming import Piece, Spoken  # noqa: E402


def make_reader():
    model = types.SimpleNamespace(
        codec=Codec(),
        extents=types.SimpleNamespace(context=20),
        folder=types.SimpleNamespace(ends=[]),
    )
    return api.Reader(model, api.Naming('the "tiny" one'), Limits())


@pytest.mark.parametrize("length, most", [(4, 16), (5, 16), (18, 3), (20, 1)])
def test_a_completion_without_a_number_of_tokens_fits_the_context(length, most):
    reader = make_reader()
    (request,) = reader.completion({"prompt": [1] * length}).requests
    assert request.max_tokens == most
    with pytest.raises(FieldError, match="expected at most %d behind" % (21 - length)):
        reader.completion({"prompt": [1] * length, "max_tokens": 18})


@pytest.mark.parametrize(
    "path, body, words",
    [
        ("completion", {"n": 4}, "n: expected a whole number from 1 to 3"),
        ("completion", {"prompt": [[1]] * 4}, "a list of at most 3 of either"),
        ("completion", {"prompt": [[1]] * 2, "n": 2}, "expected at most 3 texts"),
        ("completion", {"max_tokens": 17, "n": 2, "logprobs": 2},
         "at most 100 log-probabilities, found 3 for each of 34 tokens"),
        ("completion", {"prompt": [1] * 101, "max_tokens": 0, "logprobs": 0, "echo": True},
         "found 1 for each of 101 tokens"),
        ("completion", {"logit_bias": {str(i): 0 for i in range(1025)}}, "at most 1024 tokens"),
        ("completion", {"stop_tokens": [1] * 17}, "a list of at most 16 tokens"),
        ("completion", {"stop": ["a"] * 17}, "at most 16"),
        ("completion", {"stop": "a" * 257}, "1 to 256 characters"),
        ("completion", {"user": "a" * 257}, "at most 256 characters"),
        ("completion", {"logprobs": 21}, "from 0 to 20"),
        ("chat", {"messages": [{"role": "user", "content": "a"}] * 4097}, "a list of 1 to 4096"),
    ],
)  # fmt: skip
def test_every_field_has_a_bound(path, body, words):
    model = types.SimpleNamespace(
        extents=types.SimpleNamespace(context=200),
        folder=types.SimpleNamespace(ends=[]),
        codec=types.SimpleNamespace(decode=lambda tokens: "a" * len(tokens)),
    )
    reader = api.Reader(model, api.Naming("tiny"), Limits(texts=3, numbers=100))
    given = body if path == "chat" else {"prompt": [1], **body}
    with pytest.raises(FieldError, match=words):
        getattr(reader, path)(given)


class LostLeader:
    def forward(self, rows):
        raise UnavailableError("rank 1 is lost")


def test_a_failed_step_is_told_to_its_sentences():
    """A request within the step, one with a sentence outside, and one behind."""
    extents = types.SimpleNamespace(batch=2, sequence=4, pad=0)
    model = types.SimpleNamespace(encoder=extents, pooling=Pooling())
    engine = EmbeddingEngine(LostLeader(), model, 100, Metrics(2))
    told = {name: [] for name in ("within", "split", "waits")}
    engine.submit([[1]], told["within"].append)
    engine.submit([[2], [3]], told["split"].append)
    engine.submit([[4, 5]], told["waits"].append)
    with pytest.raises(UnavailableError):
        engine.run()
    for events in told.values():
        accepted, failed = events
        assert accepted.failure is None and failed.failure == "rank 1 is lost"


def piece(text):
    return Piece(text, [Spoken(ord(one), place, None) for place, one in enumerate(text)])


@pytest.mark.parametrize("kind", [api.COMPLETION, api.CHAT])
@pytest.mark.parametrize("has_usage", [False, True])
def test_the_chunk_of_a_token_is_that_of_its_parts(kind, has_usage):
    """Made from a frame, byte by byte as without, usage counted alike."""
    asked = make_reader().completion({"prompt": ["a", "b"], "stream": True})
    asked = asked._replace(kind=kind, has_usage=has_usage)
    writer = api.Writer(asked, Codec(), 'the "tiny" one')
    said = ['"', "\\\n\u2028", "é\U0001f600", "", "x" * 70]
    for text, index, finish in itertools.product(said, range(2), [None, "stop"]):
        by_parts = json.dumps(writer.chunk([writer.part(index, piece(text), finish)]))
        counted = writer.completion_tokens
        assert writer.chunk_of(index, piece(text), finish) == by_parts.encode()
        assert writer.completion_tokens == counted + len(text)


class TellingEngine:
    """Tells of two texts, some tokens at a time, while the connections' thread is
    anywhere."""

    def __init__(self):
        self.failure, self.is_ending = None, False
        self.wake = None

    def submit(self, requests, deliver, is_streamed):
        def tell():
            deliver(Event())
            self.wake()
            for place, token in enumerate("In the beginning was the word."):
                for index in range(2):
                    deliver(Event(index, piece(token)))
                if place % 3 != 1:
                    self.wake()
            for index in range(2):
                deliver(Event(index, piece("!"), "stop"))
                self.wake()

        threading.Thread(target=tell).start()

    def cancel(self, ticket):
        raise AssertionError("the client is there")


class Reader:
    """A client that keeps up, or now and then does not."""

    def __init__(self, pauses):
        self.body, self.directly = b"", 0
        self._pauses = itertools.cycle(pauses)

    async def send(self, message):
        await asyncio.sleep(0)
        self.body += message.get("body", b"")

    def can_write(self):
        return not next(self._pauses)

    def write(self, body):
        self.directly += 1
        self.body += body


@pytest.mark.parametrize("pauses", [None, [False], [True], [False, False, True]])
def test_a_stream_is_the_same_however_it_is_written(pauses):
    """By a server without the extension, too, which `pauses` of None is."""
    engine, metrics = TellingEngine(), Metrics(2)
    served = Served("tiny", 0, make_reader(), None, Codec(), engine, metrics, Access([]),
                    Limits(), lambda said: None, False)
    app = App(served)
    reader = Reader(pauses or [True])
    body = json.dumps({"prompt": "a", "n": 2, "stream": True}).encode()
    scope = {"type": "http", "method": "POST", "path": "/v1/completions"}
    headers = {b"host": b"localhost", b"content-type": b"application/json"}
    headers[b"content-length"] = str(len(body)).encode()
    scope["headers"] = list(headers.items())
    if pauses is not None:
        scope["extensions"] = {DIRECT: reader}

    async def run():
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await asyncio.Event().wait()

        await asyncio.wait_for(app(scope, receive, reader.send), 60)

    asyncio.run(run())
    *events, end, nothing = reader.body.decode().split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    texts = ["", ""]
    for event in events:
        (choice,) = json.loads(event[len("data: "):])["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == ["In the beginning was the word.!"] * 2
    if pauses == [False]:
        # But for the head and the ends, of which the task takes care.
        assert 0 < reader.directly
    if pauses in (None, [True]):
        assert reader.directly == 0


def test_nothing_is_kept_of_a_closed_connection():
    """Not even until it would have been idle for too long."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    listening = listen("127.0.0.1", 0, 8)
    server = HttpServer(app, listening, Limits(idle_seconds=600))
    server.start()
    try:
        for _ in range(5):
            client = http.client.HTTPConnection(*listening.getsockname())
            client.request("GET", "/")
            assert client.getresponse().read() == b"ok"
            client.close()
        end = time.monotonic() + 30
        while [one for one in gc.get_objects() if isinstance(one, H11Protocol)]:
            assert time.monotonic() < end
            time.sleep(0.05)
            gc.collect()
    finally:
        server.stop()


@pytest.mark.parametrize("host", ["a" * 70, "a..b"])
def test_an_address_that_is_no_name(host):
    with pytest.raises(OSError) as raised:
        listen(host, 0, 1)
    assert raised.value.strerror == "expected an address or the name of a host"

# ===- app.py - Paths, keys, bodies and streams ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The server as an application of ASGI, an interface of many servers."""

import asyncio
import collections
import hashlib
import hmac
import json
import time
from typing import Any, Awaitable, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from optimus.models import config_file
from optimus.serve import api
from optimus.serve.embedding import EmbeddingReader
from optimus.serve.engine import Closed, Engine, Event, Full, Ticket
from optimus.serve.limits import Limits
from optimus.serve.metrics import TYPE as METRICS_TYPE
from optimus.serve.metrics import Metrics
from optimus.serve.protocol import DIRECT
from optimus.text.codec import Codec
from optimus.text.fields import FieldError
from optimus.text.streaming import Piece

JSON = b"application/json"
Message = Dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Take = Callable[[List[Event]], None]


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        message: str,
        param: Optional[str] = None,
        headers: Tuple[Tuple[bytes, bytes], ...] = (),
    ):
        super().__init__(message)
        self.status = status
        self.param = param
        self.headers = headers

    def body(self) -> Dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": None}}


class Left(Exception):
    """The client has left."""


class Access:
    """Who may ask. Without keys the server listens to this machine alone, and a page of
    a browser, whose host has another name, is none of it."""

    LOCAL = ("127.0.0.1", "localhost", "[::1]")

    def __init__(self, keys: List[str]):
        self._keys = [hashlib.sha256(key.encode()).digest() for key in keys]

    def check(self, headers: Dict[bytes, bytes]) -> None:
        """Raises Refusal."""
        if not self._keys:
            host = headers.get(b"host", b"").decode("latin-1")
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in self.LOCAL:
                raise Refusal(403, "expected a host of %s, found %.100r" % (self.LOCAL, host))
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        found = hashlib.sha256(given.strip()).digest()
        # Each is compared, and takes as long whether it is equal or not.
        equal = [hmac.compare_digest(found, key) for key in self._keys]
        if scheme.lower() != b"bearer" or True not in equal:
            said = "expected Authorization: Bearer and a key of this server"
            raise Refusal(401, said, headers=((b"www-authenticate", b"Bearer"),))


class Served(NamedTuple):
    """What the application serves."""

    name: str
    created: int
    reader: Optional[api.Reader]
    """Of bodies for texts."""
    embedder: Optional[EmbeddingReader]
    """Of bodies for an encoder; one of both is there."""
    codec: Codec
    engine: Engine
    metrics: Metrics
    access: Access
    limits: Limits
    log: Callable[[str], None]
    logs_prompts: bool


class Mailbox:
    """Events of the engine's thread for that of connections."""

    def __init__(self) -> None:
        self._told: Deque[Tuple[Take, Event]] = collections.deque()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def box(self, take: Take) -> Callable[[Event], None]:
        """For any thread: `take` is called in this one, once it was woken, with all that
        was told since."""
        self._loop = asyncio.get_running_loop()
        return lambda event: self._told.append((take, event))

    def wake(self) -> None:
        """For any thread."""
        if self._loop is None or not self._told:
            return
        try:
            self._loop.call_soon_threadsafe(self._empty)
        # The loop has ended, and with it all connections.
        except RuntimeError:
            pass

    def _empty(self) -> None:
        told: Dict[Take, List[Event]] = {}
        while self._told:
            take, event = self._told.popleft()
            told.setdefault(take, []).append(event)
        for take, events in told.items():
            take(events)


class App:
    def __init__(self, served: Served):
        self._served = served
        self._mailbox = Mailbox()
        served.engine.wake = self._mailbox.wake
        self._routes = {
            ("GET", "/health"): self._health,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/v1/models"): self._models,
        }
        if served.reader is not None:
            self._routes["POST", "/v1/completions"] = self._completions
            self._routes["POST", "/v1/chat/completions"] = self._chat
        if served.embedder is not None:
            self._routes["POST", "/v1/embeddings"] = self._embeddings
        self._paths = {path for _, path in self._routes}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        call = Call(scope, receive, send, self._served.limits)
        try:
            await self._answer(call)
        except Refusal as refusal:
            # What is left of a body is not waited for.
            close = ((b"connection", b"close"),) if call.has_unread else ()
            await call.send_json(refusal.status, refusal.body(), refusal.headers + close)
        except Left:
            call.note("client left")
            self._served.metrics.left.inc()
        self._log(call)

    async def _answer(self, call: "Call") -> None:
        route = self._routes.get((call.method, call.path))
        if route is None and call.path in self._paths:
            raise Refusal(405, "%s is not for %.20r" % (call.path, call.method))
        if route is None:
            known = ", ".join(sorted(self._paths))
            raise Refusal(404, "there is no %.100r; there are %s" % (call.path, known))
        if call.path != "/health":
            self._served.access.check(call.headers)
        await route(call)

    def _log(self, call: "Call") -> None:
        path = call.path if call.path in self._paths else "other"
        self._served.metrics.requests.labels(path, str(call.status or "left")).inc()
        if path not in ("/health", "/metrics"):
            self._served.log(call.line())

    # -------------------------------------------------------------------- small

    async def _health(self, call: "Call") -> None:
        engine = self._served.engine
        if engine.failure is not None:
            raise Refusal(503, "the server has failed: %s" % engine.failure)
        if engine.is_ending:
            raise Refusal(503, "the server is ending")
        await call.send_json(200, {"status": "ok"})

    async def _metrics(self, call: "Call") -> None:
        await call.send_whole(200, self._served.metrics.text(), METRICS_TYPE.encode())

    async def _models(self, call: "Call") -> None:
        served = self._served
        model = {"id": served.name, "object": "model", "created": served.created}
        model["owned_by"] = "optimus"
        await call.send_json(200, {"object": "list", "data": [model]})

    # -------------------------------------------------------------------- texts

    async def _completions(self, call: "Call") -> None:
        await self._texts(call, self._served.reader.completion)

    async def _chat(self, call: "Call") -> None:
        await self._texts(call, self._served.reader.chat)

    async def _embeddings(self, call: "Call") -> None:
        embedder = self._served.embedder
        asked = await self._read(call, embedder.read)
        vectors: List[Any] = [None] * len(asked.tokens)
        async with self._converse(call, asked.tokens, len(vectors), False) as events:
            for _ in vectors:
                event = await events.next()
                vectors[event.index] = event.vector
        call.note("%d tokens" % sum(map(len, asked.tokens)))
        await call.send_json(200, embedder.body(asked, vectors))

    async def _read(self, call: "Call", read: Callable[[Dict[str, Any]], Any]) -> Any:
        """What a body asks for. Raises Refusal or Left."""
        body = await call.read_object()
        loop = asyncio.get_running_loop()
        try:
            # Tokenizers and templates take their time, in which others are heard.
            asked = await loop.run_in_executor(None, read, body)
        except api.UnknownModel as error:
            raise Refusal(404, str(error), error.name) from None
        except FieldError as error:
            raise Refusal(400, str(error), error.name) from None
        if self._served.logs_prompts:
            self._served.log("%s %s" % (call.path, json.dumps(body)))
        return asked

    async def _texts(self, call: "Call", read: Callable[[Dict[str, Any]], api.Asked]) -> None:
        asked = await self._read(call, read)
        writer = api.Writer(asked, self._served.codec, self._served.name)
        try:
            generated = sum(not request.is_scored for request in asked.requests)
            made = self._converse(call, asked.requests, generated, asked.is_streamed)
            async with made as events:
                if asked.is_streamed:
                    await self._stream(call, asked, writer, events)
                else:
                    await self._whole(call, asked, writer, events)
        finally:
            usage = writer.usage
            call.note("%(prompt_tokens)d + %(completion_tokens)d tokens" % usage)

    def _converse(
        self, call: "Call", requests: List[Any], generated: int, is_streamed: bool
    ) -> "Conversation":
        engine = self._served.engine
        return Conversation(engine, self._mailbox, requests, generated, call, is_streamed)

    async def _whole(
        self, call: "Call", asked: api.Asked, writer: api.Writer, events: "Conversation"
    ) -> None:
        whole = [Piece("", [])] * len(asked.requests)
        finished: List[Optional[str]] = [None] * len(asked.requests)
        while None in finished:
            event = await events.next()
            whole[event.index], finished[event.index] = event.piece, event.finish
        scored = events.scored_prompts(asked.prompts, whole)
        choices = []
        for index in range(asked.texts):
            # Of no token at all it is the length that ends a text.
            piece, finish = Piece("", []), "length"
            if index < events.generated:
                piece, finish = whole[index], finished[index]
            choice = writer.choice(index, piece, finish)
            if asked.echoed:
                choice = api.joined(writer.echo(index, scored[index // asked.n]), choice)
            choices.append(choice)
        await call.send_json(200, writer.body(choices))

    async def _stream(
        self, call: "Call", asked: api.Asked, writer: api.Writer, events: "Conversation"
    ) -> None:
        await call.begin_stream()
        held: List[Event] = []
        if asked.echoed:
            scored, held = await events.scores(asked.prompts)
            for index in range(asked.texts):
                await call.send_event(writer.chunk([writer.echo(index, scored[index // asked.n])]))
        for index in range(asked.texts):
            first = writer.first_part(index)
            if first is not None:
                await call.send_event(writer.chunk([first]))
        await call.send_parts(_parts(writer, held))
        left = events.generated - sum(event.finish is not None for event in held)

        def write(pieces: List[Event]) -> bool:
            if call.can_write:
                call.write_parts(_parts(writer, pieces))
                return True
            return False

        events.write_pieces = write
        while left:
            event = await events.next()
            left -= event.finish is not None
            await call.send_parts(_parts(writer, [event]))
        for index in range(events.generated, asked.texts):
            await call.send_event(writer.chunk([writer.part(index, Piece("", []), "length")]))
        if asked.has_usage:
            await call.send_event(writer.chunk([], usage=True))
        await call.end_stream()


def _parts(writer: api.Writer, events: List[Event]) -> List[bytes]:
    """The events of a stream that tell its reader something."""
    return [
        writer.chunk_of(event.index, event.piece, event.finish)
        for event in events
        if event.piece.text or event.piece.tokens or event.finish
    ]


class Conversation:
    """The events of a request, as long as its client is there."""

    write_pieces: Callable[[List[Event]], bool] = staticmethod(lambda pieces: False)
    """Takes pieces of texts that go on, each text's as one, while nothing waits before
    them; returns whether it has taken them. To wake a task for each token of each stream
    would take more of a processor than all else that a token costs here."""

    def __init__(
        self,
        engine: Engine,
        mailbox: Mailbox,
        requests: List[Any],
        generated: int,
        call: "Call",
        is_streamed: bool,
    ):
        """Behind so many texts that are generated come prompts with scores."""
        self.generated = generated
        self._engine = engine
        self._mailbox = mailbox
        self._requests = requests
        self._call = call
        self._is_streamed = is_streamed
        self._events: List[Event] = []
        self._merged: List[Event] = []
        self._ticket: Optional[Ticket] = None
        self._is_waiting = False
        self._is_over = False

    async def __aenter__(self) -> "Conversation":
        if not self._requests:
            return self

        def take(events: List[Event]) -> None:
            goes_on = all(event.piece and not event.finish for event in events)
            is_first = self._is_waiting and not self._events
            if goes_on and is_first and self.write_pieces(_merge(events)):
                return
            self._events += events
            self._call.wake.set()

        deliver = self._mailbox.box(take)
        try:
            self._ticket = self._engine.submit(self._requests, deliver, self._is_streamed)
        except Full as full:
            wait = ((b"retry-after", str(full.seconds).encode()),)
            raise Refusal(429, str(full), headers=wait) from None
        except Closed as closed:
            raise Refusal(503, str(closed)) from None
        try:
            await self.next()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticket is not None and not self._is_over:
            self._engine.cancel(self._ticket)

    async def next(self) -> Event:
        """Raises Refusal or Left."""
        while not self._merged:
            self._is_waiting = True
            await self._call.wait_for_news()
            self._is_waiting = False
            events, self._events = self._events, []
            self._merged = _merge(events)
        event = self._merged.pop(0)
        if event.refusal is not None:
            self._is_over = True
            raise Refusal(400, event.refusal)
        if event.failure is not None:
            self._is_over = True
            raise Refusal(503, event.failure)
        return event

    async def scores(self, prompts: List[List[int]]) -> Tuple[List[Any], List[Event]]:
        """Those of prompts, if they are asked for; and the events that came meanwhile."""
        pieces: List[List[Piece]] = [[] for _ in self._requests]
        held, left = [], len(self._requests) - self.generated
        while left:
            event = await self.next()
            if event.index < self.generated:
                held.append(event)
                continue
            pieces[event.index].append(event.piece)
            left -= event.finish is not None
        return self.scored_prompts(prompts, [*map(Piece.joined, pieces)]), held

    def scored_prompts(self, prompts: List[List[int]], whole: List[Piece]) -> List[Any]:
        """For each prompt the scores of all tokens but the first."""
        scored = iter(whole[self.generated :])
        has_scores = len(self._requests) > self.generated
        return [
            next(scored).tokens if has_scores and len(prompt) > 1 else []
            for prompt in prompts
        ]


def _merge(events: List[Event]) -> List[Event]:
    """The pieces of each text as one: a reader slower than the model gets more at a
    time."""
    if len(events) == 1:
        return events
    merged: List[Event] = []
    places: Dict[int, int] = {}
    for event in events:
        place = places.setdefault(event.index, len(merged))
        if place == len(merged) or event.piece is None:
            merged.append(event)
            continue
        piece = Piece.joined([merged[place].piece, event.piece])
        merged[place] = Event(event.index, piece, event.finish)
    return merged


class Call:
    """A request of HTTP, and its answer."""

    def __init__(self, scope: Message, receive: Receive, send: Send, limits: Limits):
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: Dict[bytes, bytes] = dict(scope["headers"])
        self.status = 0
        self.has_unread = True
        self._client = (scope.get("client") or ("?",))[0]
        self._receive = receive
        self._send = send
        self._limits = limits
        self._since = time.monotonic()
        self._notes: List[str] = []
        self._is_stream = False
        self._direct: Any = scope.get("extensions", {}).get(DIRECT)
        self._leaving: "Optional[asyncio.Future[Message]]" = None
        self.wake = asyncio.Event()
        """Set for events, and by a client that leaves."""

    def note(self, said: str) -> None:
        """For the log."""
        self._notes.append(said)

    def line(self) -> str:
        seconds = time.monotonic() - self._since
        parts = [*self._notes, "%.3f s" % seconds]
        status = str(self.status or "-")
        known = "%s %s %s %s" % (self._client, self.method, json.dumps(self.path)[1:-1], status)
        return "%s, %s" % (known[:200], ", ".join(parts))

    # --------------------------------------------------------------------- body

    async def read_object(self) -> Dict[str, Any]:
        """The body. Raises Refusal or Left."""
        kind = self.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != JSON:
            raise Refusal(415, "expected a body of the type application/json, found %.60r"
                          % kind.decode("latin-1"))
        try:
            body = await asyncio.wait_for(self._read(), self._limits.body_seconds)
        except asyncio.TimeoutError:
            message = "expected a body within %g s" % self._limits.body_seconds
            raise Refusal(408, message) from None
        try:
            return config_file.parse(body.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise Refusal(400, "the body is not UTF-8: byte %d" % error.start) from None
        except ValueError as error:
            raise Refusal(400, "the body is no object of JSON: %s" % error) from None

    async def _read(self) -> bytes:
        most = self._limits.body_bytes
        said = self.headers.get(b"content-length", b"0")
        # h11 has seen that it is a number.
        if len(said) > 15 or int(said) > most:
            raise Refusal(413, "expected a body of at most %d bytes" % most)
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Left
            body += message["body"]
            if len(body) > most:
                raise Refusal(413, "expected a body of at most %d bytes" % most)
            if not message["more_body"]:
                self.has_unread = False
                return bytes(body)

    async def wait_for_news(self) -> None:
        """Until `wake` is set. Raises Left once the client has left. After the body."""
        if self._leaving is None:
            self._leaving = asyncio.ensure_future(self._receive())
            self._leaving.add_done_callback(lambda _: self.wake.set())
        await self.wake.wait()
        self.wake.clear()
        if self._leaving.done():
            raise Left

    # ------------------------------------------------------------------- answer

    async def send_json(
        self, status: int, body: Any, headers: Tuple[Tuple[bytes, bytes], ...] = ()
    ) -> None:
        """Within a stream that has begun, its last event."""
        if self._is_stream:
            await self.send_event(body)
            return await self.end_stream()
        await self.send_whole(status, json.dumps(body).encode(), JSON, headers)

    async def send_whole(
        self,
        status: int,
        body: bytes,
        kind: bytes,
        headers: Tuple[Tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.status = status
        length = (b"content-length", str(len(body)).encode())
        sent = [(b"content-type", kind), length, *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})
        await self._send({"type": "http.response.body", "body": body})
        self._stop_listening()

    async def begin_stream(self) -> None:
        self.status, self._is_stream = 200, True
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def send_event(self, event: Any) -> None:
        """Raises Left."""
        await self.send_parts([json.dumps(event).encode()])

    async def send_parts(self, parts: List[bytes]) -> None:
        """Events that are JSON already. Raises Left."""
        if self._leaving is not None and self._leaving.done():
            raise Left
        if not parts:
            return
        if self.can_write:
            return self.write_parts(parts)
        body = _framed(parts)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    @property
    def can_write(self) -> bool:
        """Whether write_parts() may be called: the server has such an extension, the
        stream has begun, and its reader keeps up."""
        return self._direct is not None and self._direct.can_write()

    def write_parts(self, parts: List[bytes]) -> None:
        if parts:
            self._direct.write(_framed(parts))

    async def end_stream(self) -> None:
        await self._send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
        self._stop_listening()

    def _stop_listening(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()


def _framed(parts: List[bytes]) -> bytes:
    return b"".join(b"data: %s\n\n" % part for part in parts)

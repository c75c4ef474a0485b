# ===- protocol.py - HTTP within bounds ------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs an ASGI application by uvicorn and h11, on a thread of its own. h11 bounds
headers and chunks (16 KiB); connections and their times are bounded here."""

import asyncio
import errno
import logging
import socket
import threading
from typing import Any, Callable, Optional, Type

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from optimus.serve.limits import Limits

MOST_UNSENT = 1 << 17
"""Bytes of an answer in the kernel."""
DIRECT = "optimus.direct"
"""The extension of ASGI for parts of a stream, which no task has to wait for:
can_write() and write()."""
STOP_SECONDS = 5.0
"""That connections have to send the last of their answers."""


def bounded(limits: Limits) -> Type[H11Protocol]:
    """uvicorn's protocol, for connections that may be slow or never end."""

    class BoundedProtocol(H11Protocol):
        _header_timer: Optional[asyncio.TimerHandle] = None
        _write_timer: Optional[asyncio.TimerHandle] = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                return transport.abort()
            # Of a client whose machine is gone nobody hears.
            connected = transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # The kernel would hold megabytes for one that does not read.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_UNSENT)
            connected.setsockopt(
                socket.IPPROTO_TCP,
                socket.TCP_USER_TIMEOUT,
                int(1000 * limits.write_seconds),
            )
            self._watch_header()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_header()

        def handle_events(self) -> None:
            super().handle_events()
            # Before the application runs, which is a task of the loop's.
            if self.scope is not None:
                self.scope.setdefault("extensions", {})[DIRECT] = self

        def can_write(self) -> bool:
            """Whether a part of an answer that has begun may be written at once."""
            is_open = self.conn.our_state is h11.SEND_BODY and not self.transport.is_closing()
            return is_open and not self.flow.write_paused

        def write(self, body: bytes) -> None:
            # As h11 frames a stream, but in less time.
            if self.conn.their_http_version == b"1.1":
                body = b"%x\r\n%b\r\n" % (len(body), body)
            self.transport.write(body)

        def _watch_header(self) -> None:
            if self.conn.their_state is not h11.IDLE:
                self._header_timer = _stopped(self._header_timer)
            elif self._header_timer is None:
                self._header_timer = self.loop.call_later(
                    limits.header_seconds, self.transport.abort
                )

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._write_timer is None:
                self._write_timer = self.loop.call_later(
                    limits.write_seconds, self.transport.abort
                )

        def resume_writing(self) -> None:
            super().resume_writing()
            self._write_timer = _stopped(self._write_timer)

        def connection_lost(self, exc: Optional[Exception]) -> None:
            self._header_timer = _stopped(self._header_timer)
            self._write_timer = _stopped(self._write_timer)
            # The timer of idle connections would keep this one until it ends.
            self._unset_keepalive_if_required()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            # Behind the head of an answer there is no place for another.
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
            else:
                self.transport.abort()

    return BoundedProtocol


def _stopped(timer: Optional[asyncio.TimerHandle]) -> None:
    if timer is not None:
        timer.cancel()


class HttpServer:
    """Answers on a listening socket, from start() to stop()."""

    def __init__(self, app: Callable[..., Any], listening: socket.socket, limits: Limits):
        config = uvicorn.Config(
            app,
            http=bounded(limits),
            loop="asyncio",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.idle_seconds,
        )
        # What a client does wrong is no news, and told to it.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._server = uvicorn.Server(config)
        self._socket = listening
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)
        self._server.force_exit = True
        self._thread.join(STOP_SECONDS)


def listen(host: str, port: int, connections: int) -> socket.socket:
    """Raises OSError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except UnicodeError:
        # A part of it is empty, or longer than names may be.
        raise OSError(errno.EINVAL, "expected an address or the name of a host") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(connections)
    except OSError:
        listening.close()
        raise
    return listening

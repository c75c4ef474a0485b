# ===- __main__.py - The command line of optimus-serve ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""optimus-serve: a compiled model behind HTTP (docs/inference.md#a-server).

Exit codes: 0 ended by SIGTERM or SIGINT, 1 the arguments or an input are wrong or the
model cannot go on, 2 a fault of ours.
"""

import argparse
import os
import signal
import sys
import time
from typing import Any, List, Optional

from optimus import __version__, arguments, output, runtime, small_file
from optimus.arguments import Mistake, Parser, whole_number_from
from optimus.errors import Error
from optimus.numpy_check import need_numpy_for

need_numpy_for("optimus-serve")

from optimus.serve.limits import Limits
from optimus.text import model as models

PROGRAM = "optimus-serve"
LOCAL = ("127.0.0.1", "localhost", "::1")
MOST_KEYS = 1 << 16
"""Bytes of a file of keys."""
LEAST_OF_A_KEY = 16
SWITCH_SECONDS = 0.0005
MOST_COUNT = 1 << 40
"""Of what a limit counts."""

BOUNDS = {
    "body_bytes": "of a request's body",
    "connections": "open at a time",
    "texts": "of a request: prompts times n",
    "numbers": "of log-probabilities that an answer may have",
    "queue_tokens": "of prompts and answers that wait (default: what all slots hold, four "
    "times)",
    "header_seconds": "until a request's header is there",
    "body_seconds": "until its body is",
    "write_seconds": "that an answer may wait for its reader",
    "idle_seconds": "between two requests of a connection",
    "grace_seconds": "that requests have to end after SIGTERM",
}


def _parser() -> Parser:
    parser = Parser(prog=PROGRAM, description="A model behind HTTP.")
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    models.add_arguments(parser)
    parser.add_argument(
        "--host",
        default=LOCAL[0],
        help="the address to listen at; any but %s needs keys (default: %%(default)s)"
        % LOCAL[0],
    )
    parser.add_argument(
        "--port",
        type=whole_number_from(0, 65535),
        default=8000,
        metavar="N",
        help="0 for any (default: %(default)s)",
    )
    parser.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="keys of clients, a line each, of %d characters at least" % LEAST_OF_A_KEY,
    )
    parser.add_argument(
        "--name", help="of the model, for clients (default: the library's, without .so)"
    )
    parser.add_argument(
        "--log-prompts", action="store_true", help="print the bodies of requests, too"
    )
    for name, said in BOUNDS.items():
        default = getattr(Limits(), name)
        kind = _seconds if isinstance(default, float) else whole_number_from(1, MOST_COUNT)
        # Whole numbers in full.
        known = "%g" % default if isinstance(default, float) else str(default)
        shown = said if default == 0 else "%s (default: %s)" % (said, known)
        flag = "--most-" + name.replace("_", "-")
        flag = "--grace" if name == "grace_seconds" else flag
        parser.add_argument(
            flag, dest=name, type=kind, default=default, metavar="N", help=shown
        )
    return parser


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if 0 <= number <= 86400:
        return number
    raise argparse.ArgumentTypeError("expected seconds, up to 86400, found '%s'" % text)


def _keys(path: Optional[str], host: str) -> List[str]:
    """Raises Mistake."""
    if path is None:
        if host not in LOCAL:
            raise Mistake(
                "--host %s: others could reach the server; expected --api-key-file, too" % host
            )
        return []
    try:
        content = small_file.read_or_wait(path, MOST_KEYS)
        keys = [line.strip() for line in content.decode("ascii").splitlines() if line.strip()]
    except OSError as error:
        raise Mistake("--api-key-file %s: %s" % (path, error.strerror)) from None
    except UnicodeDecodeError:
        raise Mistake("--api-key-file %s: expected ASCII" % path) from None
    if not keys or min(map(len, keys)) < LEAST_OF_A_KEY:
        message = "--api-key-file %s: expected lines of at least %d characters"
        raise Mistake(message % (path, LEAST_OF_A_KEY))
    return keys


def _limits(options: argparse.Namespace, extents: Any) -> Limits:
    limits = Limits(**{name: getattr(options, name) for name in BOUNDS})
    if not limits.queue_tokens:
        limits = limits._replace(queue_tokens=4 * extents.tokens)
    return limits


def _log(said: str) -> None:
    output.say("%s: %s" % (PROGRAM, said))


def _serve(options: argparse.Namespace) -> int:
    keys = _keys(options.api_key_file, options.host)
    model = models.Model(options, may_embed=True)
    session, notes = model.open()
    if session.world.first_rank != 0:
        return _follow(session)
    for note in notes:
        output.say(note)
    try:
        return _lead(options, keys, model, session)
    finally:
        model.close()


def _follow(session: Any) -> int:
    from optimus.text.leading import follow

    # The process of rank 0 says when all end; a launcher tells everybody.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    return follow(session)


def _lead(
    options: argparse.Namespace, keys: List[str], model: models.Model, session: Any
) -> int:
    from optimus.serve.api import Naming, Reader
    from optimus.serve.app import Access, App, Served
    from optimus.serve.embedding import EmbeddingEngine, EmbeddingReader
    from optimus.serve.engine import Engine, TextEngine
    from optimus.serve.metrics import Metrics
    from optimus.serve.protocol import HttpServer, listen
    from optimus.text.leading import Leader

    leader = Leader(session)
    exit_code = 1
    try:
        extents = model.encoder or model.extents
        limits = _limits(options, extents)
        try:
            listening = listen(options.host, options.port, limits.connections)
        except OSError as error:
            message = "cannot listen at %s, port %d: %s"
            raise Mistake(message % (options.host, options.port, error.strerror)) from None
        name = options.name or os.path.splitext(os.path.basename(options.library))[0]
        pages = 0 if model.encoder else model.extents.pages
        metrics, naming = Metrics(extents.places, pages), Naming(name)
        engine: Engine
        if model.encoder:
            engine = EmbeddingEngine(leader, model, limits.queue_tokens, metrics)
        else:
            engine = TextEngine(leader, model.codec, limits.queue_tokens, metrics)
        served = Served(
            name=name,
            created=int(time.time()),
            reader=None if model.encoder else Reader(model, naming, limits),
            embedder=EmbeddingReader(model, naming, limits) if model.encoder else None,
            codec=model.codec,
            engine=engine,
            metrics=metrics,
            access=Access(keys),
            limits=limits,
            log=_log,
            logs_prompts=options.log_prompts,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: engine.end(limits.grace_seconds))
        # A lost rank ends this process; clients hear of it.
        runtime.module().at_end(engine.fail)
        # A step that ends waits so long at most for the thread of connections.
        sys.setswitchinterval(SWITCH_SECONDS)
        server = HttpServer(App(served), listening, limits)
        server.start()
        host, port = listening.getsockname()[:2]
        host = "[%s]" % host if ":" in host else host
        said = (name, host, port, extents.places, os.getpid())
        _log("%s at http://%s:%d, %d slots; SIGTERM to process %d ends it" % said)
        try:
            engine.run()
        finally:
            server.stop()
            runtime.module().at_end(None)
        exit_code = 0
    finally:
        leader.end(exit_code)
    return exit_code


def main(given: Optional[List[str]] = None) -> int:
    def act() -> int:
        options = _parser().parse_args(given)
        try:
            return _serve(options)
        except ImportError as error:
            needed = "Debian's python3-uvicorn and python3-prometheus-client"
            raise Mistake("%s; it needs %s" % (error, needed)) from None

    return arguments.outcome(PROGRAM, act, Error)


if __name__ == "__main__":
    arguments.run(main)

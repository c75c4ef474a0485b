# ===- chat.py - Chats as a model's template writes them -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Makes the text of a prompt of messages, by the template of a model's folder."""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from optimus.arguments import Mistake

SECONDS = 2.0
"""Of a processor, that a template may take."""
MOST_WAIT = 30.0
"""Seconds, on however busy a machine."""
MOST_CHARACTERS = 4 << 20
WORKER = Path(__file__).with_name("template_worker.py")


class ChatError(Exception):
    """Why there is no prompt of these messages."""


class ChatTemplate:
    """Runs in a process of its own (template_worker.py), which is started anew after a
    text was late. Several threads may call it; they wait for each other."""

    def __init__(
        self,
        source: str,
        names: Dict[str, str],
        special: Sequence[str] = (),
        most_characters: int = MOST_CHARACTERS,
    ):
        """`names` are what a template is told of the tokenizer, as `bos_token`;
        `special` are names that no message may have. Raises Mistake."""
        self._source = source
        self._names = names
        self._special = sorted(special)
        self._most = most_characters
        self._process: Optional[subprocess.Popen] = None
        self._lock = threading.Lock()
        with self._lock:
            try:
                self._start()
            except ChatError as error:
                self._stop()
                raise Mistake("the chat template cannot be used: %s" % error) from None

    def render(self, messages: List[Dict[str, str]]) -> str:
        """The prompt that an answer follows. Raises ChatError."""
        for number, message in enumerate(messages):
            for name in self._special:
                if name in message["content"]:
                    raise ChatError(
                        "message %d has the name of a special token, %s, which the model "
                        "would take for the token" % (number, name)
                    )
        chat = {**self._names, "messages": messages, "add_generation_prompt": True}
        with self._lock:
            if self._process is None:
                self._start()
            return self._ask(chat)

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is ours alone.
            start_new_session=True,
            env={"PATH": os.defpath, "OPENBLAS_NUM_THREADS": "1"},
        )
        settings = {
            "template": self._source,
            "most_characters": self._most,
            "seconds": SECONDS,
        }
        self._ask(settings)

    def _ask(self, said: Any) -> str:
        assert self._process is not None
        try:
            # A character is up to twelve bytes of JSON, as two halves.
            most = 12 * self._most + 1024
            line = _exchange(self._process, json.dumps(said).encode() + b"\n", most)
            found = json.loads(line)
        except (OSError, ValueError):
            raise ChatError(self._reason_of_end()) from None
        if "error" in found:
            raise ChatError("the template refuses these messages: %s" % found["error"])
        return found["text"]

    def _reason_of_end(self) -> str:
        """Of the process, which is ended."""
        process = self._process
        self._stop()
        if process is not None and process.returncode == -signal.SIGPROF:
            return "the template takes more than %g s of a processor" % SECONDS
        return "the template gives no answer"

    def _stop(self) -> None:
        if self._process is None:
            return
        # One that is ending by itself keeps its reason.
        if not _has_ended(self._process):
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        self._process.wait()
        self._process = None


def _has_ended(process: subprocess.Popen) -> bool:
    try:
        process.wait(timeout=0.2)
        return True
    except subprocess.TimeoutExpired:
        return False


def _exchange(process: subprocess.Popen, said: bytes, most: int) -> bytes:
    """Writes a line, and reads one. Raises OSError where that takes too long or the
    process ends, and ValueError for more bytes than `most`."""
    end = time.monotonic() + MOST_WAIT
    heard = bytearray()
    with selectors.DefaultSelector() as selector:
        for pipe, event in (
            (process.stdin, selectors.EVENT_WRITE),
            (process.stdout, selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe.fileno(), event)
        while not heard.endswith(b"\n"):
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, event in ready:
                if event & selectors.EVENT_WRITE:
                    said = said[os.write(key.fd, said) :]
                    if not said:
                        selector.unregister(key.fd)
                    continue
                some = os.read(key.fd, 1 << 16)
                if not some:
                    raise ConnectionError
                heard += some
                if len(heard) > most:
                    raise ValueError
    return bytes(heard)

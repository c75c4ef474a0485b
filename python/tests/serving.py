# ===- serving.py - A server and its clients -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs optimus-serve as a user would, and talks to it as clients do, good and bad."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence

TIMEOUT_SECONDS = 120


class Server:
    """One process, or several below a launcher."""

    def __init__(
        self,
        command: Sequence[str],
        prefix: Sequence[str] = (),
        env: Optional[Dict[str, str]] = None,
    ):
        self._process = subprocess.Popen(
            [*prefix, *command, "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.log: List[str] = []
        self.port = 0
        for line in self._process.stderr:
            self.log.append(line)
            found = re.search(r" at http://\S+:(\d+), .* process (\d+) ends it", line)
            if found:
                self.port, self._speaker = map(int, found.groups())
                break
        else:
            raise AssertionError("no server: %s" % "".join(self.log))
        # A full pipe would stop it.
        self._reader = threading.Thread(target=lambda: self.log.extend(self._process.stderr))
        self._reader.start()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Returns the exit code."""
        self.signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self._process.wait(TIMEOUT_SECONDS)
        self._reader.join()
        return code

    @property
    def pid(self) -> int:
        """Of the process of rank 0."""
        return self._speaker

    def count_sockets(self) -> int:
        """That this process has."""
        folder = "/proc/%d/fd" % self._speaker
        return sum(os.readlink(entry.path).startswith("socket:") for entry in os.scandir(folder))

    def signal(self, number: int) -> None:
        """To the process of rank 0; a launcher would end all at once."""
        if self._process.poll() is None:
            os.kill(self._speaker, number)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()

    # ------------------------------------------------------------------- clients

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_SECONDS)

    def get(self, path: str, **headers: str) -> "Reply":
        return self._ask("GET", path, None, headers)

    def post(self, path: str, body: Any, **headers: str) -> "Reply":
        """`body` is sent as it is where it is bytes, else as JSON."""
        said = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask("POST", path, said, {"content-type": "application/json", **headers})

    def _ask(
        self, method: str, path: str, body: Optional[bytes], headers: Dict[str, str]
    ) -> "Reply":
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def complete(self, **body: Any) -> Dict[str, Any]:
        """Of /v1/completions, which must answer."""
        reply = self.post("/v1/completions", body)
        assert reply.status == 200, reply.text
        return reply.json()

    def figures(self) -> Dict[str, float]:
        """/metrics."""
        lines = self.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.replace("optimus_", "", 1): float(value) for name, value in pairs}

    def until(self, name: str, value: float) -> None:
        """Waits for a figure."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while self.figures()[name] != value:
            assert time.monotonic() < end, "%s is %g" % (name, self.figures()[name])
            time.sleep(0.01)


class Reply:
    def __init__(self, response: http.client.HTTPResponse):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> Dict[str, Any]:
        return self.json()["error"]


class Stream:
    """The events of an answer, until it or its client ends."""

    def __init__(self, server: Server, path: str, **body: Any):
        self._connection = server.connect()
        self._connection.request(
            "POST",
            path,
            json.dumps({**body, "stream": True}),
            {"content-type": "application/json"},
        )
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.is_done = False

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return self

    def __next__(self) -> Dict[str, Any]:
        while not self.is_done:
            line = self._response.readline().decode()
            assert line, "the stream has ended without an end"
            if line == "data: [DONE]\n":
                self.is_done = True
            elif line.startswith("data: "):
                return json.loads(line[len("data: ") :])
        self._connection.close()
        raise StopIteration

    def leave(self) -> None:
        self._response.close()
        self._connection.close()


def text_of(events: Sequence[Dict[str, Any]], index: int = 0) -> str:
    choices = (choice for event in events for choice in event["choices"])
    return "".join(
        choice.get("text") or choice.get("delta", {}).get("content") or ""
        for choice in choices
        if choice["index"] == index
    )

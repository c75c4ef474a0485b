# ===- connected.py - Workers that connect to their scheduler ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Workers that a cluster starts. Each connects to the scheduler over TCP, proves that it
knows the secret of this execution, and is given trials. They share the study's folder, or
are sent their files (files.py)."""

import abc
import contextlib
import functools
import json
import os
import secrets
import shutil
import socket
import struct
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Listener, answer_challenge, deliver_challenge
from typing import Any, Dict, Iterable, List, Optional, Tuple

import optimus
from optimus.tune import TuneError, connect, files
from optimus.tune.executor import Event, Events, Executor, Start, Takes, said

SECONDS = 30.0
"""For a greeting."""
CLOSE = 12.0
"""Seconds in which workers may save at the end."""
SAID = 2000
"""Bytes of a worker's output that are handed on."""
MOST_WORKERS = 4096


SHARED, SENT = "shared", "sent"
"""What a pool's `files` may be."""


def check_files(path: str, table: Dict[str, Any]) -> None:
    """Raises TuneError."""
    if table.get("files", SHARED) not in (SHARED, SENT):
        raise TuneError(
            "%s: files: expected %s or %s, found %s" % (path, SHARED, SENT, table["files"])
        )


class Task:
    """A worker's job at the cluster, from its submission to its end."""

    def __init__(self, serial: int):
        self.serial = serial
        self.job: Any = None
        """As the cluster knows it; none before it was submitted."""
        self.socket: Optional[socket.socket] = None
        self.deadline: Optional[float] = None
        self.is_gone = False
        self.ended = threading.Event()
        """Its connection is."""
        self.missed = 0
        """Looks at the queue that did not find it."""
        self.mutex = threading.Lock()
        """Of what is sent."""
        self.sender: Optional[files.Sender] = None
        self.is_idle = threading.Event()
        """All that it was given to do has its result."""


class ConnectedPool(Executor):
    """`kind` names the folder of its files in the study's; `place` is another one for
    them. With `spec_folder` that folder's files and the study's are sent."""

    def __init__(
        self,
        kind: str,
        folder: str,
        starts: List[Start],
        events: Events,
        host: Optional[str],
        wall_seconds: Optional[float],
        poll_seconds: float,
        spec_folder: Optional[str] = None,
        place: Optional[str] = None,
    ):
        self._events, self._poll_seconds = events, poll_seconds
        self._spec_folder, self._study = spec_folder, folder
        self._hashes = files.Hashes()
        self._names = [start.name for start in starts]
        self._tasks: Dict[str, Task] = {}
        self._serial = 0
        self._mutex = threading.Lock()
        self._closing = threading.Event()
        self._folder = os.path.expanduser(place or os.path.join(folder, kind))
        self._incoming = os.path.join(folder, "incoming")
        os.makedirs(self._folder, exist_ok=True)
        self._name = "optimus-tune-" + secrets.token_hex(6)
        self._secret = secrets.token_hex(32)
        self._listener = Listener(("0.0.0.0", 0), "AF_INET", backlog=128)
        self._file = os.path.join(self._folder, self._name + ".json")
        self._write_address(host, wall_seconds)
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            self._start(range(len(starts)))
        except TuneError:
            self.close()
            raise
        threading.Thread(target=self._look, daemon=True).start()

    # What a cluster does.

    @abc.abstractmethod
    def _launch(self, tasks: Dict[int, Task], worker: List[str]) -> None:
        """Submits jobs by their places, each of which runs the command `worker` with its
        output in `_log`, and notes them. Raises TuneError."""

    @abc.abstractmethod
    def _lost(self, waiting: List[Tuple[str, Task]]) -> Iterable[str]:
        """The names of those that have not connected yet, and never will.
        Raises TuneError where that cannot be known now."""

    @abc.abstractmethod
    def _end_all(self) -> None:
        """Ends the jobs that wait for a node, or do not end. Raises TuneError."""

    def _write_address(self, host: Optional[str], wall_seconds: Optional[float]) -> None:
        found = {
            "host": host or socket.gethostname(),
            "port": self._listener.address[1],
            "secret": self._secret,
            "wall_seconds": wall_seconds,
            "files": self._name if self._spec_folder else None,
        }
        descriptor = os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(found, file)

    @property
    def capacity(self) -> int:
        return len(self._names)

    def _start(self, places: Iterable[int]) -> None:
        self._serial += 1
        tasks = {place: Task(self._serial) for place in places}
        # Before a worker can say hello.
        with self._mutex:
            self._tasks.update((self._names[place], task) for place, task in tasks.items())
        source = os.path.dirname(os.path.dirname(optimus.__file__))
        paths = ":".join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        worker = ["env", "PYTHONPATH=" + paths, sys.executable, "-m"]
        worker += ["optimus.tune.worker", "--connect", self._file]
        self._launch(tasks, [*worker, "--serial", str(self._serial)])

    def _log(self, place: str, serial: int) -> str:
        return os.path.join(self._folder, "%s-%d-%s.txt" % (self._name, serial, place))

    def restart(self, start: Start) -> None:
        self._start([self._names.index(start.name)])

    def _accept(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(OSError):
                connection = self._listener.accept()
                # A stranger that says nothing holds up nobody else.
                threading.Thread(
                    target=self._greet, args=(connection,), daemon=True
                ).start()

    def _greet(self, connection) -> None:
        key = self._secret.encode()
        with socket.socket(fileno=os.dup(connection.fileno())) as peer:
            _wait_for(peer, int(SECONDS))
            try:
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
            except (OSError, EOFError, AuthenticationError):
                return
            finally:
                connection.close()
            _wait_for(peer, 0)
            connect.notice_loss(peer)
            with peer.makefile("rb") as lines:
                self._listen(peer, lines)

    def _listen(self, peer: socket.socket, lines) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            message = json.loads(lines.readline())
            name = self._names[message["task"]]
            with self._mutex:
                task = self._tasks[name]
                if task.serial != message["serial"] or task.socket or task.is_gone:
                    return
                task.socket = peer
                left = message.get("seconds_left")
                if left is not None:
                    task.deadline = time.monotonic() + left - _spare(left)
            if self._spec_folder:
                task.sender = files.Sender(
                    {files.SPEC: self._spec_folder, files.STUDY: self._study},
                    self._hashes,
                    os.path.join(self._incoming, "%s-%d" % (name, task.serial)),
                )
            self._events.put(said(name, message))
            with contextlib.suppress(OSError, ValueError, KeyError, EOFError):
                for line in lines:
                    self._hear(name, task, json.loads(line), lines)
            task.ended.set()
            self._is_gone(name, task)

    def _hear(self, name: str, task: Task, message: Dict[str, Any], lines) -> None:
        if task.sender and ("fetch" in message or "kept" in message):
            task.sender.serve(
                message,
                lines,
                functools.partial(_send, task),
                # Whoever sends or receives lives.
                lambda: self._events.put(said(name, {"beat": True})),
            )
            return
        if "job" in message:
            task.is_idle.set()
        self._events.put(said(name, message))

    def _is_gone(self, name: str, task: Task) -> None:
        with self._mutex:
            said_before, task.is_gone = task.is_gone, True
        if not said_before:
            self._events.put(Event("gone", name, 1))

    def _look(self) -> None:
        """For workers that ended before they connected. A look that fails says nothing."""
        while not self._closing.wait(self._poll_seconds):
            with self._mutex:
                waiting = [
                    (name, task)
                    for name, task in self._tasks.items()
                    if task.job is not None and not task.socket and not task.is_gone
                ]
            if not waiting:
                continue
            try:
                lost = set(self._lost(waiting))
            except TuneError:
                continue
            for name, task in waiting:
                task.missed += 1
                if name not in lost or task.socket:
                    task.missed = 0
                elif task.missed > 1:
                    self.said = self._last_words(name, task.serial)
                    self._is_gone(name, task)

    def _last_words(self, name: str, serial: int) -> str:
        path = self._log(str(self._names.index(name)), serial)
        with contextlib.suppress(OSError), open(path, "rb") as file:
            said = file.read()[-SAID:].decode("utf-8", "replace").strip()
            said = said or "it said nothing"
            return "worker %s ended before it connected: %s" % (name, said)
        if self._spec_folder:
            return "worker %s ended before it connected; where it ran, '%s' says why" % (
                name,
                os.path.join("$TMPDIR", os.path.basename(path)),
            )
        return (
            "worker %s ended before it connected, and '%s' was not written: the study's "
            "folder must be one that nodes share with the scheduler" % (name, path)
        )

    def seen(self, path: str) -> str:
        if not self._spec_folder:
            return path
        return os.path.normpath(
            os.path.join(files.SEEN, os.path.relpath(path, self._study))
        )

    def submit(self, name: str, job: Dict[str, Any], takes: Takes) -> None:
        task = self._tasks[name]
        if task.sender:
            beside = {
                files.SPEC + "/" + path
                for values in takes.values
                for path in files.inputs_of(values, self._spec_folder)
            }
            keeps = [files.STUDY + "/" + path for path in takes.writes]
            try:
                more = task.sender.describe([*sorted(beside), *keeps], keeps)
            except OSError as error:
                raise TuneError(
                    "cannot read '%s': %s; the same command goes on from here"
                    % (error.filename, error.strerror)
                ) from None
            job = {**job, **more, "cwd": os.curdir}
        task.is_idle.clear()
        self._tell(name, job)

    def take(self, name: str) -> None:
        task = self._tasks[name]
        if task.sender:
            task.sender.take()

    def stop(self, name: str) -> None:
        self._tell(name, {"stop": True})

    def _tell(self, name: str, message: Dict[str, Any]) -> None:
        """A worker that is gone already says so by its event."""
        with contextlib.suppress(OSError):
            _send(self._tasks[name], message)

    def kill(self, name: str) -> None:
        """It ends by itself where its connection does, once what it runs has saved."""
        task = self._tasks[name]
        with self._mutex:
            task.is_gone = True
        if task.socket:
            with contextlib.suppress(OSError):
                task.socket.shutdown(socket.SHUT_RDWR)

    def expiring(self) -> List[str]:
        now = time.monotonic()
        with self._mutex:
            return [
                name
                for name, task in self._tasks.items()
                if task.socket and not task.is_gone
                if task.deadline is not None and now >= task.deadline
            ]

    def close(self) -> None:
        self._closing.set()
        connected = [task for task in self._tasks.values() if task.socket]
        self._take_rest()
        for task in connected:
            # It reads the end of what it is told, and saves.
            with contextlib.suppress(OSError):
                task.socket.shutdown(socket.SHUT_WR)
        end = time.monotonic() + CLOSE
        for task in connected:
            task.ended.wait(max(0.0, end - time.monotonic()))
        with contextlib.suppress(OSError):
            self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._file)
        with contextlib.suppress(TuneError):
            self._end_all()
        shutil.rmtree(self._incoming, ignore_errors=True)

    def _take_rest(self) -> None:
        """What workers save at the end, where it has to be sent."""
        busy = [
            name
            for name, task in self._tasks.items()
            if task.sender and not task.is_gone and not task.is_idle.is_set()
        ]
        for name in busy:
            self.stop(name)
        end = time.monotonic() + CLOSE
        for name in busy:
            if self._tasks[name].is_idle.wait(max(0.0, end - time.monotonic())):
                with contextlib.suppress(OSError):
                    self.take(name)


def _send(task: Task, message: Dict[str, Any], data: bytes = b"") -> None:
    with task.mutex:
        task.socket.sendall((json.dumps(message) + "\n").encode() + data)


def _wait_for(peer: socket.socket, seconds: int) -> None:
    """So long for what is read; 0: for ever."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def _spare(left: float) -> float:
    """Of a worker's wall time, what is left unused."""
    return min(60.0, left / 10)

# ===- journal.py - What happened, a line each -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The journal of a study, its only truth: a file of JSON lines that is appended to by
one writer, and synced before anything follows from a line.

A killed writer leaves half a line at most, which the next one removes. The lock on the
study is shared with the processes of its workers: whoever opens the study again waits
until the last of them is gone.
"""

import fcntl
import json
import os
import time
from typing import Any, Dict, List

from optimus.tune import TuneError

NAME = "journal.jsonl"
LOCK = "lock"
PATIENCE = 20.0
"""Seconds for which the workers of a killed scheduler may still be saving."""

Record = Dict[str, Any]


def read(folder: str) -> List[Record]:
    """The whole lines of a study's journal. Raises TuneError."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise TuneError(
            "%s is no study: cannot read its %s: %s; optimus-tune run makes one"
            % (folder, NAME, error.strerror)
        ) from None
    return [record for record, _ in _parse(data, path)]


def _parse(data: bytes, path: str):
    """Each whole line and where it ends."""
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
                raise ValueError
        except ValueError:
            # Zeros, as a machine that went down leaves them, are the end.
            if end == len(data) and not line.strip(b"\0\n"):
                break
            raise TuneError(
                '%s:%d: expected a JSON object with a "kind", found %r; '
                "the file stays as it is" % (path, number, line[:60])
            ) from None
        yield record, end


class Lock:
    """Of a study's folder, held while the object and processes with its descriptor
    live. Raises TuneError where others hold it."""

    def __init__(self, folder: str, patience: float = PATIENCE):
        self.descriptor = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o666)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                holder = os.pread(self.descriptor, 100, 0).decode(errors="replace").strip()
                if _is_alive(holder) or time.monotonic() > deadline:
                    os.close(self.descriptor)
                    raise TuneError(
                        "%s is in use by process %s; wait for its end"
                        % (folder, holder or "unknown")
                    ) from None
                time.sleep(0.1)
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, b"%d\n" % os.getpid(), 0)

    def close(self) -> None:
        os.close(self.descriptor)


def _is_alive(pid: str) -> bool:
    """Whether a scheduler is there; otherwise only its workers hold the lock."""
    try:
        os.kill(int(pid), 0)
    except (ValueError, OSError):
        return False
    return True


class Journal:
    """The one writer. The caller holds the lock."""

    def __init__(self, folder: str):
        self.path = os.path.join(folder, NAME)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with open(self.path, "rb") as file:
            data = file.read()
        self.records: List[Record] = []
        self._end = 0
        for record, self._end in _parse(data, self.path):
            self.records.append(record)
        os.ftruncate(self._descriptor, self._end)

    def append(self, record: Record) -> None:
        """Returns when the record is safe. Raises TuneError where there is no room: the
        line is not there then."""
        line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
        try:
            rest, at = memoryview(line), self._end
            while rest:
                put = os.pwrite(self._descriptor, rest, at)
                rest, at = rest[put:], at + put
            os.fdatasync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._end)
            raise TuneError(
                "cannot write %s: %s; the same command goes on from here"
                % (self.path, error.strerror)
            ) from None
        self._end = at

    def close(self) -> None:
        os.close(self._descriptor)

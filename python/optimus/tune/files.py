# ===- files.py - Files by their hashes --------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Files between a scheduler and workers that share no folder, over their connection.

A job names its files by SHA-256. A worker asks for those it lacks, and offers its job's
outputs; the scheduler asks for those it lacks:

    → {"job": 7, …, "files": {"spec/text.txt": [HASH, 4000]}, "keeps": ["study/trials/7/"]}
    ← {"fetch": HASH}
    → {"piece": 4000} and so many bytes
    ← {"kept": {"study/trials/7/log.jsonl": [HASH, 80]}}
    → {"want": ["study/trials/7/log.jsonl"]}
    ← {"file": "study/trials/7/log.jsonl"} and 80 bytes
    ← {"job": 7, …, "code": 0}

Paths begin with `spec/`, the specification's folder, or `study/`, the study's. A worker
has both in a folder of its own, and runs in the first. What trials read alone, data and
programs, is kept once a machine.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from optimus.tune import TuneError

SPEC, STUDY = "spec", "study"
SEEN = os.path.join(os.pardir, STUDY)
"""The study's folder, as a worker sees it from the specification's."""
PIECE = 1 << 20
"""Bytes that are sent at a time: a word to stop a job waits for no more."""
TRIALS = STUDY + "/trials/"
"""What is there is written again; all else a worker reads alone."""

Manifest = Dict[str, Tuple[str, int]]
"""Hashes and sizes by path."""
Send = Callable[[Dict[str, Any], bytes], None]
"""Of a line, and of bytes behind it."""
Beat = Callable[[], None]


def hash_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def walk(root: str, path: str) -> Iterator[str]:
    """The files at a path below a root, or in the folder there, but for hidden ones, which
    are half written."""
    whole = os.path.join(root, path)
    if os.path.isfile(whole):
        yield path.rstrip("/")
    elif os.path.isdir(whole):
        for name in sorted(os.listdir(whole)):
            if not name.startswith("."):
                yield from walk(root, os.path.join(path, name))


def is_within(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of these, or lies in those that end with a slash."""
    if os.path.normpath(path) != path or os.path.isabs(path):
        return False
    return any(
        path.startswith(place) if place.endswith("/") else path == place
        for place in places
    )


def inputs_of(values: Dict[str, Any], folder: str) -> Iterator[str]:
    """The files and folders that a trial's flags name, below a specification's folder.
    Raises TuneError for others."""
    for name in sorted(values):
        value = values[name]
        for word in value.split(",") if isinstance(value, str) else ():
            for path in {word, word.partition("=")[2]} - {""}:
                if not os.path.exists(os.path.join(folder, path)):
                    continue
                path = os.path.normpath(path)
                if os.path.isabs(path) or path.split(os.sep)[0] == os.pardir:
                    raise TuneError(
                        '%s: expected a path in %s, whose files are sent to workers by '
                        'files = "sent", found %s; a link in it does' % (name, folder, path)
                    )
                if path != os.curdir:
                    yield path
                    if os.path.exists(os.path.join(folder, path + ".json")):
                        yield path + ".json"


class Hashes:
    """Of files here, computed once as long as they stay as they are."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[str, int, int, int], str] = {}

    def of(self, path: str) -> Tuple[str, int]:
        found = os.stat(path)
        key = (path, found.st_ino, found.st_size, found.st_mtime_ns)
        if key not in self._known:
            self._known[key] = hash_of(path)
        return self._known[key], found.st_size


class Sender:
    """The scheduler's side of one connection."""

    def __init__(self, roots: Dict[str, str], hashes: Hashes, staged: str):
        """`roots` are the folders here, by SPEC and STUDY. What a job wrote stays in
        `staged` until `take`."""
        self._roots, self._hashes, self._staged = roots, hashes, staged
        self._offered: Dict[str, str] = {}
        """Files here by the hashes of a job."""
        self._keeps: List[str] = []
        self.error: Optional[OSError] = None
        """Why something could not be kept."""

    def _real(self, path: str) -> str:
        root, _, rest = path.partition("/")
        return os.path.join(self._roots[root], rest)

    def describe(self, takes: Iterable[str], keeps: List[str]) -> Dict[str, Any]:
        """What a job's message has beside. Raises OSError."""
        files: Manifest = {}
        for place in takes:
            root, _, rest = place.partition("/")
            for path in walk(self._roots[root], rest):
                files[root + "/" + path] = self._hashes.of(self._real(root + "/" + path))
        self._offered = {each[0]: self._real(path) for path, each in files.items()}
        self._keeps = keeps
        return {"files": files, "keeps": keeps}

    def serve(self, message: Dict[str, Any], lines: Any, send: Send, beat: Beat) -> None:
        """Answers one message, with a beat for each piece. Raises ValueError, KeyError or
        EOFError for what no job of ours says."""
        if "fetch" in message:
            self._give(self._offered[message["fetch"]], send, beat)
        else:
            self._keep(message["kept"], lines, send, beat)

    @staticmethod
    def _give(path: str, send: Send, beat: Beat) -> None:
        try:
            with open(path, "rb") as file:
                while piece := file.read(PIECE):
                    send({"piece": len(piece)}, piece)
                    beat()
        except FileNotFoundError:
            pass  # as one that is shorter now
        send({"piece": 0}, b"")

    def _keep(self, kept: Manifest, lines: Any, send: Send, beat: Beat) -> None:
        shutil.rmtree(self._staged, ignore_errors=True)
        self.error, want = None, []
        for path, (digest, size) in kept.items():
            if not is_within(path, self._keeps):
                raise ValueError("no job keeps %s" % path)
            place = os.path.join(self._staged, path)
            try:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                real = self._real(path)
                if os.path.isfile(real) and self._hashes.of(real) == (digest, size):
                    os.link(real, place)
                    continue
            except OSError as error:
                self.error = error
            want.append(path)
        send({"want": want}, b"")
        for path in want:
            digest, size = kept[path]
            while (found := json.loads(lines.readline())) != {"file": path}:
                if "beat" not in found:
                    raise ValueError("expected %s, found %s" % (path, found))
            self._receive(os.path.join(self._staged, path), digest, size, lines, beat)

    def _receive(self, place: str, digest: str, size: int, lines: Any, beat: Beat) -> None:
        """What cannot be written is read all the same: more follows on the connection."""
        found, file = hashlib.sha256(), self._attempt(open, place, "wb")
        with file or contextlib.nullcontext():
            while size:
                piece = lines.read(min(size, PIECE))
                if not piece:
                    raise EOFError
                size -= len(piece)
                found.update(piece)
                beat()
                if not self.error:
                    self._attempt(file.write, piece)
            if not self.error:
                self._attempt(_finish, file)
        if found.hexdigest() != digest:
            raise ValueError("a file does not have its hash")

    def _attempt(self, act: Callable[..., Any], *given: Any) -> Any:
        """Notes why it could not be done."""
        try:
            return act(*given)
        except OSError as error:
            self.error = error
            return None

    def take(self) -> None:
        """Puts what a job wrote in its place: a checkpoint at once. Raises OSError."""
        if self.error:
            raise self.error
        for keep in self._keeps:
            staged, real = os.path.join(self._staged, keep), self._real(keep)
            if not keep.endswith("/"):
                if os.path.isfile(staged):
                    os.makedirs(os.path.dirname(real), exist_ok=True)
                    os.replace(staged, real)
                continue
            os.makedirs(real, exist_ok=True)
            names = sorted(os.listdir(staged)) if os.path.isdir(staged) else []
            # Files first: a log may have steps beyond its checkpoint, which lack none.
            names.sort(key=lambda name: os.path.isdir(os.path.join(staged, name)))
            for name in names:
                _put(os.path.join(staged, name), os.path.join(real, name))
        shutil.rmtree(self._staged, ignore_errors=True)


def _finish(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _put(new: str, place: str) -> None:
    if not os.path.isdir(new):
        os.replace(new, place)
        return
    old = place + ".old"
    shutil.rmtree(old, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.rename(place, old)
    os.rename(new, place)
    shutil.rmtree(old, ignore_errors=True)


class Missing(Exception):
    """The scheduler has a file no longer as it was."""


class Mirror:
    """A worker's folder, with a job's files. `name` is that of the scheduler's execution;
    its workers on a machine share what they only read."""

    def __init__(self, name: str):
        base = os.path.join(tempfile.gettempdir(), "optimus-tune-%d" % os.getuid())
        with contextlib.suppress(FileExistsError):
            os.mkdir(base, mode=0o700)
        # Another user may have made it, or a link to a folder of this one: what lies
        # there is removed.
        found = os.lstat(base)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise OSError(
                "expected a folder of this user at '%s', found another user's, or a link; "
                "remove it, or set TMPDIR" % base
            )
        _sweep(base)
        self._common = os.path.join(base, name)
        self._objects = os.path.join(self._common, "objects")
        self._lock = self._hold()
        os.makedirs(self._objects, exist_ok=True)
        self.root = tempfile.mkdtemp(dir=self._common)
        for folder in (SPEC, STUDY + "/trials", STUDY + "/programs", STUDY + "/classes"):
            os.makedirs(os.path.join(self.root, folder))
        self._has: Manifest = {}

    def _hold(self) -> int:
        """Keeps others from removing it, as they do once nobody does."""
        path = os.path.join(self._common, "lock")
        while True:
            os.makedirs(self._common, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                lock = os.open(path, os.O_RDWR | os.O_CREAT)
                fcntl.flock(lock, fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(lock), os.stat(path)):
                    return lock
                os.close(lock)  # of a folder that was removed meanwhile

    @property
    def folder(self) -> str:
        """In which jobs run."""
        return os.path.join(self.root, SPEC)

    def close(self) -> None:
        """The last worker of a machine leaves nothing."""
        shutil.rmtree(self.root, ignore_errors=True)
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self._common, ignore_errors=True)
        os.close(self._lock)

    def prepare(self, job: Dict[str, Any], fetch: Callable[[str, Any], None],
                has: Callable[[Any], bool]) -> bool:
        """Has the files of a job, and no other trial's. `fetch` writes one, by its hash,
        into a file; `has` waits for a lock. False where the job was stopped.
        Raises Missing, OSError."""
        files = {path: tuple(each) for path, each in job["files"].items()}
        for path in set(self._has) - set(files):
            if path.startswith(TRIALS):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.root, path))
                del self._has[path]
        for path, (digest, size) in files.items():
            if not is_within(path, (SPEC + "/", STUDY + "/")):
                raise Missing("%s is no path of a job" % path)
            place = os.path.join(self.root, path)
            if self._has.get(path) == (digest, size) and os.path.exists(place):
                continue
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if path.startswith(TRIALS):
                self._write(place, digest, fetch)
            elif not self._share(place, digest, fetch, has):
                return False
            self._has[path] = (digest, size)
        for keep in job["keeps"]:
            if keep.endswith("/"):
                os.makedirs(os.path.join(self.root, keep), exist_ok=True)
        return True

    @staticmethod
    def _write(place: str, digest: str, fetch) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
        with open(place, "wb") as file:
            fetch(digest, file)

    def _share(self, place: str, digest: str, fetch, has) -> bool:
        """One worker of a machine fetches what several read."""
        common = os.path.join(self._objects, digest)
        with open(common + ".lock", "w", encoding="ascii") as lock:
            if not has(lock):
                return False
            if not os.path.exists(common):
                self._write(common + ".new", digest, fetch)
                os.rename(common + ".new", common)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
        os.link(common, place)
        return True

    def kept(self, job: Dict[str, Any]) -> Manifest:
        """What a job wrote, or has not changed."""
        found: Manifest = {}
        for keep in job["keeps"]:
            for path in walk(self.root, keep):
                place = os.path.join(self.root, path)
                found[path] = (hash_of(place), os.path.getsize(place))
        self._has.update(found)
        return found


def _sweep(base: str) -> None:
    """Removes what killed workers of other executions have left."""
    for name in os.listdir(base):
        path = os.path.join(base, name)
        with contextlib.suppress(OSError), open(os.path.join(path, "lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)

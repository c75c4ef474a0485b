# ===- preparing.py - Text into a store -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prepares a store: documents are read in order, encoded by all cores, and written in
order. What is written depends on the texts alone.

The work is in STORE.preparing, with a record of how far it is; a killed preparation goes
on from there, to the same bytes. In the end the folder becomes STORE.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from optimus import __version__, output
from optimus.arguments import Mistake
from optimus.data import documents, store
from optimus.data.encoding import Interrupted, Labels, Task, Team, is_held_out
from optimus.data.hashing import hash64, to_hex
from optimus.data.inputs import Input, Stream
from optimus.data.meter import Meter
from optimus.data.store import SPLITS, SplitWriter
from optimus.data.tokenizer import FILE, Tokenizer

PROGRESS = "progress.json"
LOCK = "lock"
OURS = {PROGRESS, PROGRESS + ".new", LOCK, FILE, FILE + ".new", store.INDEX}
OURS |= {store.INDEX + ".new", *SPLITS}
SECONDS_BETWEEN_RECORDS = 2.0


class Request(NamedTuple):
    """What is wanted."""

    inputs: List[Input]
    documents: documents.Choice
    labels: Labels
    held_out: float
    shard_tokens: int

    def identity(self, tokenizer: str, end: Optional[str]) -> Dict[str, Any]:
        """All that the store's bytes depend on."""
        return {
            "version": __version__,
            "inputs": [one.identity() for one in self.inputs],
            "formats": [[one.is_lines, *one.fields] for one in self.inputs],
            "documents": list(self.documents),
            "labels": list(self.labels),
            "held_out": self.held_out,
            "shard_tokens": self.shard_tokens,
            "tokenizer": tokenizer,
            "document_end": end,
        }


class Place(NamedTuple):
    """Between two documents, or two pieces of one."""

    file: int = 0
    """The number of the input."""
    offset: int = 0
    line: int = 0
    held: Optional[bool] = None
    """Within a document: whether it is held out."""


class Workshop:
    """The folder of a store in the making, of this process alone."""

    def __init__(self, target: str, identity: Dict[str, Any], can_resume: bool):
        """Waits where another process does the same. Raises Mistake where there is a store
        already, or a process that does something else."""
        self.target = target.rstrip("/")
        if not self.target:
            raise Mistake("--output '%s': expected the name of a folder to make" % target)
        self.folder = self.target + ".preparing"
        self._identity = identity
        self.record: Optional[Dict[str, Any]] = None
        """Of a preparation to go on with."""
        self.is_made_elsewhere = False
        """By a process with the same work, while this one waited."""
        self._has_waited = False
        try:
            self._claim(can_resume)
        except OSError as error:
            raise output.OutputError(self.target, error) from None

    def _claim(self, can_resume: bool) -> None:
        while not self._lock_folder(can_resume):
            pass
        if self.is_made_elsewhere:
            return
        found = self._read_record()
        if found is None:
            return self._clear()
        if found["identity"] == self._identity and can_resume:
            self.record = found
            return
        why = "is of another command or of other files"
        if found["identity"] == self._identity:
            why = "cannot go on with standard input"
        output.say("%s %s; preparing begins anew" % (self.folder, why))
        self._clear()

    def _lock_folder(self, can_wait: bool) -> bool:
        """Whether the folder is this process's, or its work is done."""
        if os.path.lexists(self.target):
            if self._has_waited:
                self.is_made_elsewhere = True
                return True
            message = "there is a %s already; remove it, or name another output"
            raise Mistake(message % self.target)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder)
        try:
            others = set(os.listdir(self.folder)) - OURS
            if others:
                message = "%s is no unfinished store: it has %s; move it away"
                raise Mistake(message % (self.folder, sorted(others)[0]))
            self._lock = open(self.path(LOCK), "a+b")
        # Whoever made it has finished, or given up.
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(can_wait)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._lock.fileno()), os.stat(self.path(LOCK))):
                self._lock.truncate(0)
                self._lock.write(self._name())
                self._lock.flush()
                return True
        self._lock.close()
        return False

    def _wait(self, can_wait: bool) -> None:
        """For another process with the same work. Raises Mistake for any other."""
        # Its owner is about to write what it does.
        while not os.fstat(self._lock.fileno()).st_size:
            time.sleep(0.01)
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._lock.seek(0)
        if not can_wait or self._lock.read() != self._name():
            raise Mistake("%s is prepared by another process" % self.target) from None
        if not self._has_waited:
            message = "%s is prepared by another process with the same command; waiting for it"
            output.say(message % self.target)
        self._has_waited = True
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _name(self) -> bytes:
        """Of the work."""
        return to_hex(hash64(json.dumps(self._identity).encode())).encode()

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _read_record(self) -> Optional[Dict[str, Any]]:
        try:
            with open(self.path(PROGRESS), encoding="utf-8") as file:
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return None

    def __enter__(self) -> "Workshop":
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        """After a mistake in what is read nothing is left. Somebody may go on after
        everything else, as a full disk."""
        if isinstance(error, Mistake) and not isinstance(error, Interrupted):
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()
        if isinstance(error, OSError):
            why = "%s; run the command again to go on" % error.strerror
            raise output.OutputError(self.folder, why) from None

    def begin_anew(self) -> None:
        self._clear()
        self.record = None

    def _clear(self) -> None:
        for name in OURS - {LOCK, *SPLITS}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(name))
        for split in SPLITS:
            shutil.rmtree(self.path(split), ignore_errors=True)

    def write_record(self, place: Place, writers: Dict[str, SplitWriter]) -> None:
        states = {split: writer.state() for split, writer in writers.items()}
        record = {"identity": self._identity, "place": place, "splits": states}
        store.write_json(self.path(PROGRESS), record)

    def finish(self, index: Dict[str, Any]) -> None:
        store.write_json(self.path(store.INDEX), index)
        for name in (PROGRESS, LOCK):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(name))
        os.rename(self.folder, self.target)
        sync_folder(os.path.dirname(os.path.abspath(self.target)))


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def prepare(
    request: Request, tokenizer: Tokenizer, shop: Workshop, jobs: int
) -> Dict[str, Any]:
    """Fills the shop and makes a store of it; its index. Raises Mistake."""
    place, writers = _begin(request, tokenizer, shop)
    meter = Meter([one.size for one in request.inputs])
    threshold = int(request.held_out * (1 << 64))
    recorded = time.monotonic()
    with Team(tokenizer, threshold, request.labels, jobs) as team:
        for result, place in team.encode(_tasks(request, place, threshold, meter)):
            for split, *parts in zip(SPLITS, *result):
                writers[split].append(*parts)
            if time.monotonic() - recorded >= SECONDS_BETWEEN_RECORDS:
                shop.write_record(place, writers)
                recorded = time.monotonic()
            meter.show(sum(writer.num_tokens() for writer in writers.values()))
    meter.end()
    shards = {split: writer.finish() for split, writer in writers.items()}
    if not shards["train"]:
        raise Mistake(
            "no document is left for training, of %d; expected one at least: --documents "
            "says what one is, --held-out how many are for evaluation"
            % sum(shard.documents for shard in shards["held-out"])
        )
    description = store.Description(
        tokenizer.type,
        tokenizer.vocabulary,
        tokenizer.name,
        tokenizer.hash,
        tokenizer.special,
        tokenizer.end,
        request.held_out,
        not request.labels.are_all,
    )
    index = store.index_of(description, shards)
    shop.finish(index)
    return index


def _begin(
    request: Request, tokenizer: Tokenizer, shop: Workshop
) -> Tuple[Place, Dict[str, SplitWriter]]:
    """Where reading begins, and what is written to."""

    def make(states: Dict[str, Any]) -> Dict[str, SplitWriter]:
        how = tokenizer.type, request.shard_tokens, not request.labels.are_all
        return {
            split: SplitWriter(shop.folder, split, *how, states.get(split))
            for split in SPLITS
        }

    if shop.record:
        try:
            place = Place(*shop.record["place"])
            writers = make(shop.record["splits"])
            output.say(
                "going on with %s, after byte %d of %s"
                % (shop.folder, place.offset, request.inputs[place.file].path)
            )
            return place, writers
        except (ValueError, OSError) as error:
            output.say("%s: %s; preparing begins anew" % (shop.folder, error))
            shop.begin_anew()
    if tokenizer.content:
        with open(shop.path(FILE), "wb") as file:
            file.write(tokenizer.content)
            os.fsync(file.fileno())
    writers = make({})
    shop.write_record(Place(), writers)
    return Place(), writers


def _tasks(
    request: Request, place: Place, threshold: int, meter: Meter
) -> Iterator[Tuple[Task, Place]]:
    """The documents from a place on, each with the place after it."""
    for number in range(place.file, len(request.inputs)):
        source = request.inputs[number]
        if number != place.file:
            place = Place(number)
        splitter = request.documents.splitter(source.is_lines)
        with Stream(source, place.offset) as stream:
            held = place.held
            parts = documents.split(stream.read, splitter, place.offset, held is not None)
            line, before = place.line, place.offset
            for batch in _naming(source.path, parts):
                task = Task(batch.texts, held, batch.ends, source, before, line)
                if batch.ends:
                    held = None
                elif held is None or len(batch.texts) > 1:
                    held = is_held_out(batch.texts[-1], threshold)
                line, before = line + len(batch.texts), batch.after
                meter.read(number, stream.consumed())
                yield task, Place(number, batch.after, line, held)
            stream.check_unchanged()


def _naming(path: str, batches: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from batches
    except Mistake as error:
        message = str(error)
        raise Mistake(message if path in message else "%s: %s" % (path, message)) from None

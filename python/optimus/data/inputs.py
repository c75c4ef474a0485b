# ===- inputs.py - Files that texts come from -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Opens what somebody wants prepared: files, compressed ones, standard input."""

import gzip
import os
import stat
import sys
import zlib
from typing import Any, BinaryIO, Dict, List, NamedTuple, Optional, Tuple

from optimus.arguments import Mistake
from optimus.data import parquet, zstd

STANDARD_INPUT = "-"


class Input(NamedTuple):
    """A source of text, of one format."""

    path: str
    is_lines: bool
    """One object of JSON a line."""
    size: Optional[int]
    """In bytes, as it lies on the disk; of standard input nobody knows."""
    written: int
    """When, in nanoseconds."""
    fields: Tuple[str, ...] = ()
    """Of an object: that of its text, or those of a prompt and a completion."""

    def identity(self) -> Dict[str, Any]:
        path = os.path.abspath(self.path)
        return {"path": path, "size": self.size, "written": self.written}


PARQUET = ".parquet"
COMPRESSED = ".gz", ".zst"
EXPECTED = "%s: expected text or .jsonl, either also as .gz or .zst, or .parquet; "


def find(
    paths: List[str], file_format: Optional[str], fields: Tuple[str, ...]
) -> List[Input]:
    """What is at these paths. Raises Mistake."""
    if paths.count(STANDARD_INPUT) > 1:
        raise Mistake("standard input (-) is given twice; it can be read once")
    return [_find(path, file_format)._replace(fields=fields) for path in paths]


def _find(path: str, file_format: Optional[str]) -> Input:
    name = path
    for suffix in COMPRESSED:
        name = name[: -len(suffix)] if name.endswith(suffix) else name
    is_lines = name.endswith((".jsonl", ".ndjson", PARQUET))
    if file_format and not path.endswith(PARQUET):
        is_lines = file_format == "jsonl"
    if path == STANDARD_INPUT:
        return Input(path, is_lines, None, 0)
    if path.endswith((".xz", ".bz2", ".lz4")):
        tool = {"xz": "xz", "bz2": "bzip2", "lz4": "lz4"}
        message = EXPECTED + "decompress it on the way: %s -dc FILE | python3 -m optimus.data prepare - …"
        raise Mistake(message % (path, tool[path.rpartition(".")[2]]))
    if path.endswith((".zip", ".tar", ".tgz", ".pdf", ".arrow")):
        raise Mistake(EXPECTED % path + "extract its texts first")
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Mistake("cannot read %s: %s" % (path, reason)) from None
    if stat.S_ISDIR(found.st_mode):
        raise Mistake("%s is a folder; expected files, for instance %s/*.txt" % (path, path))
    if not stat.S_ISREG(found.st_mode):
        raise Mistake("%s: expected a regular file, or - for standard input" % path)
    return Input(path, is_lines, found.st_size, found.st_mtime_ns)


class Stream:
    """The bytes of an input, decompressed."""

    def __init__(self, source: Input, offset: int):
        """Begins after so many bytes."""
        self._source = source
        try:
            self._raw = self._open()
            self._file: Any = self._reader()
            if source.size is not None and self._file is self._raw:
                self._file.seek(offset)
                offset = 0
        except OSError as error:
            raise self._mistake(error) from None
        while offset:
            offset -= len(self.read(min(offset, 1 << 20))) or offset

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._source.size is not None:
            self._raw.close()

    def _open(self) -> BinaryIO:
        if self._source.size is None:
            return sys.stdin.buffer
        return open(self._source.path, "rb", buffering=0)

    def _reader(self) -> Any:
        path = self._source.path
        if path.endswith(".gz"):
            return gzip.GzipFile(fileobj=self._raw)
        if path.endswith(".zst"):
            return zstd.Reader(self._raw)
        if path.endswith(PARQUET):
            return parquet.Reader(self._raw, self._source.fields)
        return self._raw

    def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end. Raises Mistake."""
        try:
            return self._file.read(count)
        except (OSError, EOFError, zlib.error) as error:
            raise self._mistake(error) from None

    def consumed(self) -> int:
        """Bytes of the disk that were read."""
        if self._source.size is None:
            return 0
        if isinstance(self._file, parquet.Reader):
            return int(self._source.size * self._file.share_read())
        return self._raw.tell()

    def check_unchanged(self) -> None:
        """Raises Mistake where somebody has written to the file since find()."""
        if self._source.size is None:
            return
        now = os.fstat(self._raw.fileno())
        if (now.st_size, now.st_mtime_ns) != (self._source.size, self._source.written):
            message = "%s changed while it was read; prepare it when it is finished"
            raise Mistake(message % self._source.path)

    def _mistake(self, error: BaseException) -> Mistake:
        reason = getattr(error, "strerror", None) or error
        return Mistake("cannot read %s: %s" % (self._source.path, reason))

# ===- parquet.py - Rows of Parquet --------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the columns of a Parquet file as lines of JSON, by PyPI's pyarrow."""

import json
from typing import Any, BinaryIO, Iterator, Sequence

from optimus import wheels

ROWS = 256
"""That are read at a time."""


def library() -> Any:
    """Raises Mistake."""
    return wheels.load("pyarrow.parquet", "reads Parquet", "--python=full")


class Reader:
    """A line for each row, an object of the columns."""

    def __init__(self, raw: BinaryIO, columns: Sequence[str]):
        """Raises OSError, of which pyarrow's errors and a missing column are some."""
        parquet = library()
        try:
            file = parquet.ParquetFile(raw)
        except ValueError as error:
            raise OSError(" ".join(str(error).split())) from None
        there = file.schema_arrow.names
        for column in columns:
            if column not in there:
                message = "it has no column %s, but %s; --field names one"
                raise OSError(message % (column, ", ".join(there)[:200]))
        self._total = file.metadata.num_rows
        self._done = 0
        self._lines = self._read(file, list(columns))
        self._rest = b""

    def _read(self, file: Any, columns: Sequence[str]) -> Iterator[bytes]:
        for batch in file.iter_batches(ROWS, columns=columns):
            rows = batch.to_pylist()
            self._done += len(rows)
            yield b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end. Raises OSError."""
        try:
            while not self._rest:
                self._rest = next(self._lines)
        except StopIteration:
            return b""
        # A value that JSON has not, as a date, is no text.
        except (TypeError, ValueError) as error:
            raise OSError(" ".join(str(error).split())) from None
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def share_read(self) -> float:
        return self._done / self._total if self._total else 1

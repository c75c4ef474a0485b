# ===- training_log.py - The log of a training run -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What `optimus-run train --log-json FILE` wrote, as columns; also while it is written.

A log has a JSON object a line: of each run that wrote it how it began, then its steps,
in the end how it ended. Lines of steps that look alike are most of it, and are read
many at a time."""

import json
import re
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from optimus import small_file
from optimus.report import ReportError

PIECE = 1 << 18  # bytes that are read at once
MOST_OF_A_LINE = 1 << 16

_NUMBER = rb"-?[0-9][0-9.e+-]*"
_STEP = re.compile(rb'\{"step":[0-9]+(,"[a-z_]+":%s)*\}' % _NUMBER)
# Letters and signs around numbers, but for the e that numbers have, too.
_AROUND = b'abcdfghijklmnopqrstuvwxyz_"{}'
_SPACES = bytes.maketrans(b",\n", b"  ")


class Beginning(NamedTuple):
    """Of a run that wrote some of the log."""

    after: int  # the step of the checkpoint that it goes on from, or 0
    facts: Dict[str, Any]


class TrainingLog:
    """A log as far as it was written when update() read it last."""

    def __init__(self, path: str):
        self.path = path
        self._file = _open(path)
        self._forget()

    def close(self) -> None:
        self._file.close()

    def _forget(self) -> None:
        self.beginnings: List[Beginning] = []
        self.end: Optional[Dict[str, Any]] = None
        self._position = 0  # of what is not read yet
        self._lines = 0
        self._last = b""  # line that was read
        self._parts: List[Tuple[Tuple[str, ...], np.ndarray]] = []
        self._columns: Dict[str, np.ndarray] = {}

    def update(self) -> bool:
        """Reads what was added; says whether anything was. Where a run that goes on has
        taken steps away, all is read again. Raises ReportError."""
        anew = not self._is_as_it_was()
        if anew:
            self._forget()
        before = self._position
        for piece in self._pieces():
            self._add(piece)
        return anew or self._position != before

    def _is_as_it_was(self) -> bool:
        self._file.seek(self._position - len(self._last))
        return self._file.read(len(self._last)) == self._last

    def _pieces(self) -> Iterator[bytes]:
        """Whole lines; half a line at the end is being written, or was."""
        while True:
            self._file.seek(self._position)
            data = self._file.read(PIECE)
            end = data.rfind(b"\n") + 1
            if not end and len(data) > MOST_OF_A_LINE:
                raise self._wrong(self._lines + 1, "a line of more than %d bytes" % MOST_OF_A_LINE)
            if not end:
                return
            piece = data[:end]
            self._position += end
            self._last = piece[piece.rfind(b"\n", 0, end - 1) + 1 :]
            yield piece

    def _add(self, piece: bytes) -> None:
        lines = piece[:-1].split(b"\n")
        others = [i for i, line in enumerate(lines) if _stands_out(line)]
        alike = lines
        if others:
            left_out = set(others)
            alike = [line for i, line in enumerate(lines) if i not in left_out]
        names, table = _table(alike)
        if names:
            self._parts.append((names, table))
        for i in others if names else range(len(lines)):
            self._add_line(self._lines + 1 + i, lines[i])
        self._lines += len(lines)
        self._columns = {}

    def _add_line(self, number: int, line: bytes) -> None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise self._wrong(number, _shown(line)) from None
        step = record.get("step") if isinstance(record, dict) else None
        if type(step) is not int or not 0 <= step < 1 << 53:
            raise self._wrong(number, _shown(line))
        if "began" in record:
            self.beginnings.append(Beginning(step, record))
            self.end = None
        elif "ended" in record:
            self.end = record
        else:
            values = {
                name: float("nan") if value is None else value
                for name, value in record.items()
                if value is None or type(value) in (int, float)
            }
            try:
                table = np.array([[*values.values()]], float)
            # Of a whole number beyond all f64.
            except OverflowError:
                raise self._wrong(number, _shown(line)) from None
            self._parts.append((tuple(values), table))

    def _wrong(self, number: int, found: str) -> ReportError:
        return ReportError(
            "'%s' is no log of optimus-run train --log-json: line %d: expected a JSON "
            'object with a "step", found %s' % (self.path, number, found)
        )

    def __len__(self) -> int:
        """How many steps there are."""
        return sum(len(table) for _, table in self._parts)

    def __getitem__(self, name: str) -> np.ndarray:
        """A column by its name in the log: a number for each step, in order; NaN where
        the log has none. Raises ReportError where a step is there twice."""
        if not self._columns:
            self._columns = self._join()
        empty = np.full(len(self._columns["step"]), np.nan)
        return self._columns.get(name, empty)

    def _join(self) -> Dict[str, np.ndarray]:
        names = {name for part, _ in self._parts for name in part} | {"step"}
        columns = {name: np.full(len(self), np.nan) for name in names}
        at = 0
        for part, table in self._parts:
            for name, values in zip(part, table.T):
                columns[name][at : at + len(table)] = values
            at += len(table)
        order = np.argsort(columns["step"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        twice = np.flatnonzero(np.diff(columns["step"]) == 0)
        if len(twice):
            raise ReportError(
                "'%s' has step %d twice; expected the log of one run"
                % (self.path, columns["step"][twice[0]])
            )
        return columns


def read(path: str) -> TrainingLog:
    """A whole log. Raises ReportError for a file that is none, or has no step."""
    log = TrainingLog(path)
    try:
        log.update()
    finally:
        log.close()
    if not len(log):
        raise ReportError(
            "'%s' has no step; expected the log of a run that has taken some" % path
        )
    return log


def _stands_out(line: bytes) -> bool:
    """Whether it is not one of those that are alike."""
    return b'"eval_' in line or not line.startswith(b'{"step":')


def _table(lines: List[bytes]) -> Tuple[Tuple[str, ...], np.ndarray]:
    """Names and values of lines that differ in digits alone; no names if they do not."""
    none: Tuple[Tuple[str, ...], np.ndarray] = ((), np.empty((0, 0)))
    if not lines or not _STEP.fullmatch(lines[0]):
        return none
    block = b"\n".join(lines)
    frame = block.translate(None, b"0123456789.+-").replace(b":e", b":")
    if frame + b"\n" != (frame.partition(b"\n")[0] + b"\n") * len(lines):
        return none
    numbers = block.translate(_SPACES, _AROUND)
    while b"e:" in numbers:
        numbers = numbers.replace(b"e:", b":")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            names = tuple(json.loads(lines[0]))
            values = np.fromstring(numbers.replace(b":", b""), sep=" ")
            return names, values.reshape(len(lines), len(names))
        except (ValueError, DeprecationWarning):
            return none


def _open(path: str):
    try:
        return small_file.open_regular(path)
    except OSError as error:
        raise ReportError("cannot read '%s': %s" % (path, error.strerror)) from None


def _shown(line: bytes) -> str:
    text = line[:40].decode("utf-8", "backslashreplace")
    return "'%s%s'" % (text, "…" if len(line) > 40 else "") if line else "nothing"

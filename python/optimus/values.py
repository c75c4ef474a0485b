# ===- values.py - What programs are about ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Values, their types, and how parameters start."""

from typing import NamedTuple, Sequence, Tuple

from optimus.attributes import string_text


class TensorType(NamedTuple):
    """A ranked tensor: `shape` in elements, `element` an MLIR type name."""

    shape: Tuple[int, ...]
    element: str = "f32"

    def __str__(self) -> str:
        return "tensor<%s>" % "x".join([*map(str, self.shape), self.element])


class Value(NamedTuple):
    """An SSA value; `name` is without its percent sign."""

    name: str
    type: TensorType

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.type.shape

    def __str__(self) -> str:
        return "%" + self.name


class Init(NamedTuple):
    """How a parameter starts: "normal" (mean 0), "zeros" or "ones"."""

    kind: str
    stddev: float = 0.0

    @staticmethod
    def normal(stddev: float) -> "Init":
        return Init("normal", stddev)


PAGE = 64
"""Positions of a page of a cache."""
ZEROS = Init("zeros")
ONES = Init("ones")


class Packed(NamedTuple):
    """Where a checkpoint has a parameter in a tensor with others: rows of `row`
    elements, of each of which it has those from `begin` on."""

    name: str
    """The tensor's, within the open scopes."""
    shape: Sequence[int]
    """The tensor's."""
    row: int
    begin: int

    def text(self, path: str) -> str:
        """As an attribute; `path` is the tensor's name with its scopes."""
        extents = ", ".join(map(str, self.shape))
        place = "row = %d, begin = %d" % (self.row, self.begin)
        return "#optimus.packed<%s, [%s], %s>" % (string_text(path), extents, place)

# ===- attributes.py - Attributes in MLIR's syntax --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Numbers, strings, lists and dictionaries as attributes of the textual IR."""

import math
import re
from typing import Dict, Optional, Sequence, Union

from optimus import ProgramError


class Raw(str):
    """Attribute text that is written as it is."""


UNIT = Raw("")
"""The unit attribute, written as its name alone."""


def float_text(value: float) -> str:
    """The shortest text that reads back as `value`; MLIR wants a point."""
    if not math.isfinite(value):
        raise ProgramError("attribute: expected a finite number, found %r" % value)
    text = repr(float(value))
    mantissa, exponent, power = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + exponent + power


def string_text(value: str) -> str:
    """A string in quotes; MLIR writes bytes that are not printed as two digits."""
    escape = lambda found: "".join("\\%02X" % byte for byte in found[0].encode("utf-8"))
    return '"%s"' % re.sub(r'[^ !#-\[\]-~]', escape, value)


Attribute = Union[Raw, bool, int, float, str, Sequence, Dict[str, "Attribute"]]


def attribute_text(value: Attribute) -> str:
    """An attribute in MLIR's syntax: integers are i64, floats f64."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return "%d : i64" % value
    if isinstance(value, float):
        return float_text(value) + " : f64"
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, dict):
        return dictionary_text(value)
    return "[%s]" % ", ".join(map(attribute_text, value))


def dictionary_text(attributes: Dict[str, Attribute]) -> str:
    entries = []
    for name, value in attributes.items():
        unit = isinstance(value, Raw) and not value
        entries.append(name if unit else "%s = %s" % (name, attribute_text(value)))
    return "{%s}" % ", ".join(entries)


def optional_dictionary_text(attributes: Optional[Dict[str, Attribute]]) -> str:
    """After a space; nothing where there are none."""
    return " " + dictionary_text(attributes) if attributes else ""


def int_array(values: Sequence[int]) -> Raw:
    return Raw("array<i64: %s>" % ", ".join(map(str, values)))

# ===- formulas.py - Values that follow from others ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Formulas of dependent values: numbers, names as `model.kv-heads`, + - * / // % **, min,
max and parentheses."""

import ast
import operator
import re
from typing import Any, Dict, List

from optimus.tune import TuneError

NAME = re.compile(r"\b(?:model|compile|train)\.[a-z][a-z0-9]*(?:-[a-z0-9]+)*\b")
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
FUNCTIONS = {"min": min, "max": max}
LONGEST = 200


class Formula:
    """A formula over names. Raises TuneError where it is none."""

    def __init__(self, text: str):
        self.text = text
        self.names: List[str] = sorted(set(NAME.findall(text)))
        # Names have hyphens and dots, which Python would read as operators.
        self._places = {name: "_%d" % place for place, name in enumerate(self.names)}
        code = NAME.sub(lambda found: self._places[found[0]], text)
        try:
            if len(text) > LONGEST:
                raise ValueError
            self._tree = ast.parse(code.strip(), mode="eval").body
            self._check(self._tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise TuneError(
                "expected a formula of numbers, names as model.hidden, + - * / // %% **, "
                "min and max, found '%s'" % text
            ) from None

    def __repr__(self) -> str:
        return "Formula(%r)" % self.text

    def value(self, values: Dict[str, Any]) -> Any:
        """Raises TuneError where a value has no part in arithmetic."""
        known = {self._places[name]: values[name] for name in self.names}
        try:
            found = self._value(self._tree, known)
            if isinstance(found, complex):
                raise ValueError("it is complex")
        except (ArithmeticError, TypeError, ValueError) as error:
            raise TuneError("'%s' has no value: %s" % (self.text, error)) from None
        return found

    def _check(self, node: ast.AST) -> None:
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            parts = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts = [node.operand]
        elif isinstance(node, ast.Call) and not node.keywords and node.args:
            if getattr(node.func, "id", None) not in FUNCTIONS:
                raise ValueError
            parts = node.args
        elif isinstance(node, ast.Name) and node.id in self._places.values():
            parts = []
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            parts = []
        else:
            raise ValueError
        for part in parts:
            self._check(part)

    def _value(self, node: ast.AST, known: Dict[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return known[node.id]
        if isinstance(node, ast.UnaryOp):
            return -self._value(node.operand, known)
        if isinstance(node, ast.Call):
            return FUNCTIONS[node.func.id](
                *(self._value(each, known) for each in node.args)
            )
        left, right = self._value(node.left, known), self._value(node.right, known)
        if isinstance(left, str) or isinstance(right, str):
            raise TypeError("a text is no number")
        if isinstance(node.op, ast.Pow) and abs(right) > 64:
            raise ValueError("the exponent %s is beyond 64" % right)
        return OPERATORS[type(node.op)](left, right)

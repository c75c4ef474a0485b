# ===- domains.py - What one flag may be -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Domains of values, and choosers, which draw from them.

    uniform, log-uniform             [low, high], bounds of the value
    ln-, log2-, log10-uniform        [low, high], bounds of the value's logarithm
    normal, ln-, log2-, log10-normal [mean, deviation], of the value or its logarithm
    randint                          [low, high] with both ends, and a step
    choice                           one of a list
    exhaustive                       all of a list, one trial after the other
    sequential                       one value of each domain, joined by commas
    repeat                           1 to n values of a domain, joined by commas
    dependent                        follows from other values

A chooser has

    real(name, low, high, is_log)  a number
    whole(name, low, high, step)   a whole one
    pick(name, options)            an index
    quantile(name)                 a number between 0 and 1
    turn(name, count)              an index; trial after trial it goes round
"""

import math
from statistics import NormalDist
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from optimus.tune import TuneError
from optimus.tune.formulas import Formula

DIGITS = 6
"""Of numbers that are drawn: flags can be read, and typed again."""

BASES: Dict[str, Tuple[Callable[[float], float], float]] = {
    "ln-": (math.exp, 700.0),
    "log2-": (lambda power: 2.0**power, 1000.0),
    "log10-": (lambda power: 10.0**power, 300.0),
}
"""The inverse of each logarithm, and the largest argument it is taken of."""


def rounded(value: float) -> float:
    return float("%.*g" % (DIGITS, value))


class Uniform(NamedTuple):
    low: float
    high: float
    is_log: bool = False
    base: str = ""

    def draw(self, chooser, name: str) -> float:
        value = chooser.real(name, self.low, self.high, self.is_log)
        value = BASES[self.base][0](value) if self.base else value
        low, high = self.bounds
        return min(max(rounded(value), low), high)

    @property
    def bounds(self) -> Tuple[float, float]:
        """Of the value."""
        inverse = BASES[self.base][0] if self.base else float
        return inverse(self.low), inverse(self.high)


class Normal(NamedTuple):
    mean: float
    deviation: float
    base: str = ""

    def draw(self, chooser, name: str) -> float:
        value = NormalDist(self.mean, self.deviation).inv_cdf(chooser.quantile(name))
        if not self.base:
            return rounded(value)
        inverse, most = BASES[self.base]
        return rounded(inverse(max(-most, min(most, value))))


class Whole(NamedTuple):
    low: int
    high: int
    step: int = 1

    def draw(self, chooser, name: str) -> int:
        return chooser.whole(name, self.low, self.high, self.step)


class Choice(NamedTuple):
    options: Tuple[Any, ...]

    def draw(self, chooser, name: str) -> Any:
        return self.options[chooser.pick(name, list(self.options))]


class Exhaustive(NamedTuple):
    options: Tuple[Any, ...]

    def draw(self, chooser, name: str) -> Any:
        return self.options[chooser.turn(name, len(self.options))]


class Fixed(NamedTuple):
    value: Any

    def draw(self, _chooser, _name: str) -> Any:
        return self.value


class Sequential(NamedTuple):
    parts: Tuple[Any, ...]

    def draw(self, chooser, name: str) -> str:
        values = [
            part.draw(chooser, "%s[%d]" % (name, place))
            for place, part in enumerate(self.parts)
        ]
        return ",".join(map(text_of, values))


class Repeat(NamedTuple):
    part: Any
    least: int
    most: int

    def draw(self, chooser, name: str) -> str:
        count = chooser.whole(name + ".length", self.least, self.most, 1)
        return Sequential((self.part,) * count).draw(chooser, name)


class Dependent(NamedTuple):
    """Follows from other values, by a formula or a table."""

    formula: Formula
    table: Optional[Dict[str, Any]] = None
    """From the formula's value, as text, to a value or a domain."""

    def value(self, chooser, name: str, values: Dict[str, Any]) -> Any:
        found = self.formula.value(values)
        if self.table is None:
            return found
        key = text_of(found)
        if key not in self.table:
            raise TuneError(
                "%s: expected a row for %s = %s, found rows for %s"
                % (name, self.formula.text, key, ", ".join(self.table))
            )
        return self.table[key].draw(chooser, "%s(%s)" % (name, key))


def text_of(value: Any) -> str:
    """As a flag has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return "%d" % value
    return str(value)


# How domains are read. Each function gets what stands behind its name.


def _numbers(found: Any, names: str, whole: bool = False) -> List[Any]:
    kind = "whole numbers" if whole else "numbers"
    right = (
        isinstance(found, list)
        and len(found) == 2
        and all(
            isinstance(each, (int,) if whole else (int, float))
            and not isinstance(each, bool)
            and (isinstance(each, int) or math.isfinite(each))
            for each in found
        )
    )
    if not right:
        raise TuneError("expected two %s, [%s], found %s" % (kind, names, found))
    return found


def _check_range(low: float, high: float) -> None:
    if low > high:
        raise TuneError("expected a range with low ≤ high, found [%s, %s]" % (low, high))


def _uniform(found: Any, is_log: bool = False, base: str = "") -> Uniform:
    low, high = map(float, _numbers(found, "low, high"))
    _check_range(low, high)
    if is_log and low <= 0:
        raise TuneError(
            "expected bounds above 0, since their logarithms are taken, found [%g, %g]; "
            "log10-uniform takes logarithms" % (low, high)
        )
    if base and max(abs(low), abs(high)) > BASES[base][1]:
        raise TuneError(
            "expected logarithms of at most %g, found [%g, %g]; log-uniform takes the "
            "values themselves" % (BASES[base][1], low, high)
        )
    return Uniform(low, high, is_log, base)


def _normal(found: Any, base: str = "") -> Normal:
    mean, deviation = map(float, _numbers(found, "mean, deviation"))
    if deviation <= 0:
        raise TuneError("expected a deviation above 0, found %g" % deviation)
    return Normal(mean, deviation, base)


def _randint(found: Any, step: Any = 1) -> Whole:
    low, high = _numbers(found, "low, high", whole=True)
    _check_range(low, high)
    if not isinstance(step, int) or isinstance(step, bool) or step < 1:
        raise TuneError("expected a step of 1 or more, found %s" % step)
    return Whole(low, low + (high - low) // step * step, step)


def _options(found: Any) -> Tuple[Any, ...]:
    if not isinstance(found, list) or not found:
        raise TuneError("expected a list of values, found %s" % (found or "an empty one"))
    for each in found:
        _check_value(each)
    texts = [text_of(each) for each in found]
    for text in texts:
        if texts.count(text) > 1:
            raise TuneError("expected values that differ, found %s twice" % text)
    return tuple(found)


def _check_value(value: Any) -> None:
    if not isinstance(value, (bool, int, float, str)):
        raise TuneError("expected a number, a text, true or false, found %s" % value)
    if isinstance(value, float) and not math.isfinite(value):
        raise TuneError("expected a finite number, found %s" % value)


def _sequential(found: Any) -> Sequential:
    if not isinstance(found, list) or not found:
        raise TuneError("expected a list of domains, found %s" % found)
    return Sequential(tuple(map(_inner, found)))


def _repeat(found: Any, most: Any = None, least: Any = 1) -> Repeat:
    for name, value in (("most", most), ("least", least)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise TuneError("repeat: expected %s = N, 1 or more, found %s" % (name, value))
    _check_range(least, most)
    return Repeat(_inner(found), least, most)


def _inner(found: Any) -> Any:
    domain = parse(found)
    if isinstance(domain, (Dependent, Exhaustive)):
        raise TuneError(
            "expected a domain that is drawn, found %s within another" % next(iter(found))
        )
    return domain


def _dependent(found: Any, table: Any = None) -> Dependent:
    if not isinstance(found, str):
        raise TuneError("expected a formula, as 'model.hidden * 4', found %s" % found)
    if table is None:
        return Dependent(Formula(found))
    if not isinstance(table, dict) or not table:
        raise TuneError("expected a table of values, found %s" % table)
    return Dependent(Formula(found), {key: _inner(row) for key, row in table.items()})


KINDS: Dict[str, Callable[..., Any]] = {
    "uniform": _uniform,
    "log-uniform": lambda found: _uniform(found, is_log=True),
    "normal": _normal,
    "randint": _randint,
    "choice": lambda found: Choice(_options(found)),
    "exhaustive": lambda found: Exhaustive(_options(found)),
    "sequential": _sequential,
    "repeat": _repeat,
    "dependent": _dependent,
    **{
        base + "uniform": lambda found, base=base: _uniform(found, base=base)
        for base in BASES
    },
    **{base + "normal": lambda found, base=base: _normal(found, base) for base in BASES},
}
MORE = {"randint": {"step"}, "repeat": {"most", "least"}, "dependent": {"table"}}
"""What may stand beside a kind."""


def parse(found: Any) -> Any:
    """A domain as TOML has it: a value, or a table with a kind. Raises TuneError."""
    if not isinstance(found, dict):
        _check_value(found)
        return Fixed(found)
    kinds = [name for name in found if name in KINDS]
    if len(kinds) != 1:
        from optimus.tune.names import suggestion

        unknown = next((name for name in found if name not in KINDS), "")
        raise TuneError(
            "expected one kind of domain, of %s, found %s%s"
            % (", ".join(KINDS), ", ".join(found) or "none", suggestion(unknown, KINDS))
        )
    kind = kinds[0]
    more = {name: value for name, value in found.items() if name != kind}
    for name in more:
        if name not in MORE.get(kind, ()):
            allowed = ", ".join(sorted(MORE.get(kind, ()))) or "nothing"
            raise TuneError("expected %s beside %s, found %s" % (allowed, kind, name))
    return KINDS[kind](found[kind], **more)

# ===- arguments.py - Command lines of our programs ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Parsers of command lines, of which each mistake is one line."""

import argparse
import difflib
import re
import signal
import sys
from typing import Any, Callable, Iterable, NoReturn, Optional, Sequence, Type

from optimus import output


class Mistake(Exception):
    """Arguments that are wrong; the message says how."""


class Parser(argparse.ArgumentParser):
    """Raises a mistake instead of leaving the program. A misspelt word is named before a
    missing one, which it may be."""

    def error(self, message: str) -> NoReturn:
        raise Mistake("%s (see --help)" % message)

    def parse_args(self, args=None, namespace=None):
        given = sys.argv[1:] if args is None else list(args)
        self.check_words(given)
        return super().parse_args(given, namespace)

    def check_words(self, given: Sequence[str]) -> None:
        """Raises Mistake for a command or an option that is none."""
        chosen = self
        for action in self._actions:
            if action.nargs == argparse.REMAINDER:
                return
            if isinstance(action, argparse._SubParsersAction):
                # Options before it have no values.
                word = next((each for each in given if not each.startswith("-")), None)
                chosen = self._command(action, word, bool(given))
        known = {*self._option_string_actions, *chosen._option_string_actions}
        for word in given:
            if word == "--":
                return
            flag = word.partition("=")[0]
            if not re.match("--?[a-zA-Z]", flag) or " " in flag:
                continue
            # -oFILE, and what argparse completes.
            is_known = flag[:2] in known
            if flag.startswith("--"):
                is_known = any(each.startswith(flag) for each in known)
            if not is_known:
                chosen.error("there is no option %s%s" % (flag, suggestion(flag, known)))

    def _command(self, action: Any, word: Optional[str], is_more: bool) -> "Parser":
        kind, names = action.metavar.lower(), ", ".join(action.choices)
        if word in action.choices:
            return action.choices[word]
        if word is not None:
            near = suggestion(word, action.choices)
            self.error("there is no %s '%s'; there are %s%s" % (kind, word, names, near))
        if not is_more:
            self.error("expected a %s, one of %s" % (kind, names))
        return self

    def _print_message(self, message: str, file=None) -> None:
        # Help and version; argparse would ignore that they cannot be written.
        output.write("-", message)


def suggestion(word: str, known: Iterable[str]) -> str:
    """What a misspelt word may have meant, for the end of a message."""
    near = difflib.get_close_matches(word, list(known), 1)
    return "; did you mean '%s'?" % near[0] if near else ""


def whole_number(text: str) -> int:
    # int() takes 1_000 and other scripts' digits too.
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        raise argparse.ArgumentTypeError("expected a whole number, found '%s'" % text)
    return int(text)


def whole_number_from(least: int, most: Optional[int] = None) -> Callable[[str], int]:
    """A type of arguments: whole numbers from `least` on, to `most` where there is one."""
    bounds = "from %d on" % least if most is None else "from %d to %d" % (least, most)

    def parse(text: str) -> int:
        number = whole_number(text)
        if number < least or (most is not None and number > most):
            message = "expected a number %s, found '%s'"
            raise argparse.ArgumentTypeError(message % (bounds, text))
        return number

    return parse


def real_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("expected a number, found '%s'" % text) from None


def folder_name(text: str) -> str:
    """Of a folder to make; - would be standard output."""
    if text in ("", "-"):
        message = "expected the name of a folder to make, found '%s'"
        raise argparse.ArgumentTypeError(message % text)
    return text


def outcome(
    program: str, act: Callable[[], Optional[int]], *mistakes: Type[Exception]
) -> int:
    """The exit code of a program around `act`: act's own or 0; 1 after a message where the
    user's input, one of `mistakes` or the system is the reason; 2 after a traceback."""
    output.open_missing_streams()
    try:
        return act() or 0
    except (Mistake, output.OutputError, *mistakes) as error:
        return output.fail(program, str(error))
    except OSError as error:
        return output.fail_with(program, error)
    except Exception:
        return output.fault(program)


def run(main: Callable[[], int]) -> NoReturn:
    """Runs a program. An interrupt is the end, and no traceback; a caller that
    ignores the signal is heeded."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())

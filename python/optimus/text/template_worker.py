# ===- template_worker.py - Where chat templates run -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Renders a folder's chat template, which nobody vouches for: in a process of its own,
by Jinja's immutable sandbox, with little time and memory, no files to write and no
descendants.

Reads lines of JSON, the template first and then a chat each; answers each by a line,
{"text": …} or {"error": …}. A template that takes too much of a processor ends the
process by SIGPROF. Imports the standard library and Jinja alone.
"""

import datetime
import importlib
import json
import resource
import signal
import sys
from typing import Any

MOST_MEMORY = 256 << 20
MOST_DESCRIPTORS = 16


class TooLong(Exception):
    """An output beyond what was allowed."""


def limit() -> None:
    """Of the process, for good."""
    for what, most in (
        (resource.RLIMIT_AS, MOST_MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, MOST_DESCRIPTORS),
    ):
        resource.setrlimit(what, (most, most))


def compile(source: str) -> Any:
    """As Transformers does, whose templates these are."""
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, ensure_ascii: bool = False, indent: Any = None, **how: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **how)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = datetime.datetime.now().strftime
    return environment.from_string(source)


def render(template: Any, variables: Any, most: int) -> str:
    """Raises TooLong, and whatever the template does."""
    pieces, length = [], 0
    for piece in template.generate(**variables):
        length += len(piece)
        if length > most:
            raise TooLong("the text has more than %d characters" % most)
        pieces.append(piece)
    return "".join(pieces)


def answer(work: Any, seconds: float) -> Any:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return {"text": work()}
    except MemoryError:
        return {"error": "it needs more than %d MiB of memory" % (MOST_MEMORY >> 20)}
    # A template raises what it likes.
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        return {"error": said[:200]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    first = json.loads(sys.stdin.readline())
    template = None

    def start() -> str:
        limit()
        importlib.import_module("jinja2.sandbox")
        return ""

    def prepare() -> str:
        nonlocal template
        template = compile(first["template"])
        return ""

    def say(said: Any) -> None:
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()

    # Importing is no template's doing, and takes a cold machine long.
    started = answer(start, 0)
    say(started if "error" in started else answer(prepare, first["seconds"]))
    if template is None:
        return
    for line in sys.stdin:
        variables = json.loads(line)
        say(answer(lambda: render(template, variables, first["most_characters"]), first["seconds"]))


if __name__ == "__main__":
    main()

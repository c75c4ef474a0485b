# ===- leading.py - One process decides ------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""In a job of several processes that of rank 0 adds and cancels texts, and asks for
steps. It tells the others once a step, and they make the same calls."""

import json
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

import numpy as np

from optimus.generator import Text

if TYPE_CHECKING:
    from optimus.session import Session


class Leader:
    """A session's generator, or its forward function, for the process of rank 0."""

    def __init__(self, session: "Session"):
        self._session = session
        self._generator = session.generator
        self._commands: List[Any] = []
        self._is_alone = session.world.size == session.world.local_ranks

    def submit(self, prompt: Sequence[int], **how: Any) -> Text:
        """As Generator.submit."""
        text = self._generator.submit(prompt, **how)
        # Names in JSON are no numbers.
        bias = list(how.pop("logit_bias", {}).items())
        self._commands.append(["submit", list(prompt), bias, how])
        return text

    def cancel(self, text: Text) -> None:
        text.cancel()
        self._commands.append(["cancel", text.number])

    def step(self) -> List[Text]:
        """As Generator.step."""
        self._commands.append(["step"])
        self._tell()
        return self._generator.step()

    def forward(self, rows: List[List[int]]) -> np.ndarray:
        """As Session.forward."""
        self._commands.append(["forward", rows])
        self._tell()
        return self._session.forward(np.array(rows, np.int32))

    @property
    def has_work(self) -> bool:
        return self._generator.has_work

    @property
    def counters(self) -> Dict[str, int]:
        return self._generator.counters

    def end(self, exit_code: int) -> None:
        """Lets the others go, who end with this exit code."""
        self._commands = [["end", exit_code]]
        self._tell()

    def _tell(self) -> None:
        if not self._is_alone:
            self._session.share(json.dumps(self._commands).encode())
        self._commands.clear()


def follow(session: "Session") -> int:
    """What the other processes do, until the end; returns the exit code."""
    generator = session.generator
    # Whoever drops a text cancels it.
    texts: Dict[int, Text] = {}
    while True:
        for command, *given in json.loads(session.share(b"")):
            if command == "end":
                return given[0]
            if command == "submit":
                prompt, bias, how = given
                text = generator.submit(prompt, logit_bias=dict(bias), **how)
                texts[text.number] = text
            elif command == "cancel" and given[0] in texts:
                texts[given[0]].cancel()
            elif command == "forward":
                session.forward(np.array(given[0], np.int32))
            elif command == "step":
                for text in generator.step():
                    if text.finish:
                        del texts[text.number]

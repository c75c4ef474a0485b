# ===- __init__.py - Model builders -----------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Builders that write a model's program for the compiler.

From a shell: `python3 -m optimus.models gpt2 --layers 4 … -o gpt.mlir`.
"""

import re
from typing import Callable


class ConfigError(ValueError):
    """A model that cannot be built as asked; the message says why.

    In `text`, {layers} is the member `layers` of a Config.
    """

    def __init__(self, text: str):
        self._text = text
        super().__init__(self.naming(str))

    def naming(self, name_of: Callable[[str], str]) -> str:
        """The message with other names for members, such as flags."""
        return re.sub(r"\{(\w+)\}", lambda member: name_of(member[1]), self._text)

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


class ConfigError(ValueError):
    """A model that cannot be built as asked; the message says why."""

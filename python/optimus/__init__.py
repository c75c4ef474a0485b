# ===- __init__.py - The optimus package -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Front ends of the Optimus compiler."""

__version__ = "0.1.0"


class ProgramError(ValueError):
    """A program that a model builder has put together wrongly."""

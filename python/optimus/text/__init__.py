# ===- __init__.py - Text of models ----------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Text of models that speak: tokens of a prompt, a chat by the model's template, and an
answer that comes token by token. optimus-generate and optimus-serve share it.
"""

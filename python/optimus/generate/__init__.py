# ===- __init__.py - optimus-generate --------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Text that follows prompts, by a compiled model and the tokenizer of its folder
(docs/inference.md). Run `optimus-generate --help`.
"""

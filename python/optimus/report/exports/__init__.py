# ===- __init__.py - What other tools read --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Profiles in the formats of other tools: each module has a `render`.

memory_viz  PyTorch's memory snapshot, for pytorch.org/memory_viz
perfetto    Chrome's trace events, for ui.perfetto.dev and chrome://tracing
minimalloc  live ranges as CSV, for optimus-plan and other planners

chakra      execution traces of MLCommons Chakra, a folder, which `write` makes
"""

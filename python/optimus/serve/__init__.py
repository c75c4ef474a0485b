# ===- __init__.py - optimus-serve -----------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A compiled model behind HTTP, by the interfaces that OpenAI's clients know
(docs/inference.md#a-server). Run `optimus-serve --help`.

    protocol.py, by uvicorn and h11  bytes, times and connections
    app.py                           paths, keys, bodies, streams, clients that leave
    api.py                           bodies to requests, answers to bodies
    embedding.py                     the same of encoders
    engine.py                        requests to the session, on its own thread
"""

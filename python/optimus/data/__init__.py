# ===- __init__.py - Text becomes tokens ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.data prepare` makes a store of tokens of somebody's text, with
somebody's tokenizer. optimus-run reads it wherever it reads data (docs/data.md).

    STORE/index.json          what is there, and how it was made
    STORE/tokenizer.json      of whoever made the tokens, byte for byte
    STORE/train/00000.bin     tokens, little-endian, one after the other
    STORE/train/00000.ends    where documents end there
    STORE/held-out/00000.bin  of documents for evaluation
"""

# ===- safetensors_file.py - Reading safetensors --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads safetensors files, knowing only their published format.

A file is the little-endian 64-bit size of a JSON header, the header, and the
tensors' bytes; the header maps each name to its dtype, shape and byte range.
"""

import json
import struct
from pathlib import Path
from typing import Dict, Union

import numpy as np

_DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}


def read(path: Union[str, Path]) -> Dict[str, np.ndarray]:
    """All tensors of a file, in the order in which they lie."""
    data = Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    tensors = {}
    end = 0
    for name, entry in sorted(
        header.items(), key=lambda item: item[1]["data_offsets"]
    ):
        begin, stop = entry["data_offsets"]
        # The format allows neither holes nor overlaps.
        assert begin == end, "%s begins at %d, not %d" % (name, begin, end)
        end = stop
        values = np.frombuffer(body[begin:stop], _DTYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"]).copy()
    assert end == len(body), "%d bytes follow the last tensor" % (len(body) - end)
    return tensors

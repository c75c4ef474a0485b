# ===- safetensors_file.py - Reading and writing safetensors ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads and writes safetensors files, knowing only their published format.

A file is the little-endian 64-bit size of a JSON header, the header, and the
tensors' bytes; the header maps each name to its dtype, shape and byte range.
"""

import json
import struct
from pathlib import Path
from typing import Dict, Iterable, Tuple, Union

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


def write(path: Union[str, Path], tensors: Iterable[Tuple[str, str, np.ndarray]], pad: int = 0):
    """Tensors (name, dtype, values) in this order, the header `pad` spaces longer."""
    header, body = {}, b""
    for name, dtype, values in tensors:
        data = encode(dtype, values)
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": offsets}
        body += data
    text = json.dumps(header).encode() + b" " * pad
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def encode(dtype: str, values: np.ndarray) -> bytes:
    """BF16 cuts the lower half of F32 off."""
    if dtype == "BF16":
        bits = np.ascontiguousarray(values, "<f4").view("<u4")
        return (bits >> 16).astype("<u2").tobytes()
    types = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "U8": "u1"}
    return np.ascontiguousarray(values).astype(types[dtype]).tobytes()


def representable(dtype: str, values: np.ndarray) -> np.ndarray:
    """The values that `encode` writes, as F32."""
    if dtype == "BF16":
        return (np.asarray(values, "<f4").view("<u4") & 0xFFFF0000).view("<f4")
    return np.asarray(values).astype({"F32": "<f4", "F16": "<f2"}[dtype]).astype("<f4")

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

_DTYPES = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}


def split(data: bytes) -> Tuple[Dict[str, dict], bytes]:
    """The entries of a file's header, and the bytes of its tensors."""
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return header, data[8 + size :]


def read(path: Union[str, Path]) -> Dict[str, np.ndarray]:
    """All tensors of a file, in the order in which they lie; BF16 as F32."""
    header, body = split(Path(path).read_bytes())
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
        if entry["dtype"] == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        tensors[name] = values.reshape(entry["shape"]).copy()
    assert end == len(body), "%d bytes follow the last tensor" % (len(body) - end)
    return tensors


def dtypes(path: Union[str, Path]) -> Dict[str, str]:
    """The element types of all tensors of a file."""
    header, _ = split(Path(path).read_bytes())
    return {name: entry["dtype"] for name, entry in header.items()}


def read_folder(folder: Path) -> Dict[str, np.ndarray]:
    """All tensors of a model in one file, or in those that its index names."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read(folder / "model.safetensors")
    files = json.loads(index.read_text())["weight_map"]
    tensors: Dict[str, np.ndarray] = {}
    for name in sorted(set(files.values())):
        found = read(folder / name)
        assert all(files[tensor] == name for tensor in found)
        tensors.update(found)
    assert tensors.keys() == files.keys()
    return tensors


def rounded(dtype: str, values: np.ndarray) -> np.ndarray:
    """F32 to the nearest number of a type, ties to even, as F32."""
    if dtype == "BF16":
        bits = np.ascontiguousarray(values, "<f4").view("<u4").astype(np.uint64)
        bits = bits + 0x7FFF + (bits >> 16 & 1)
        return (bits & 0xFFFF0000).astype("<u4").view("<f4")
    return values.astype({"F32": "<f4", "F16": "<f2"}[dtype]).astype("<f4")


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

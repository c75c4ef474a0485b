# ===- cublaslt.py - cuBLASLt, called from Python ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The products of a step as `optimus-run` gives them to cuBLASLt (runtime/device/cuda/
Products.cpp), without our runtime."""

import ctypes
import dataclasses
import re
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

# Values of cublasLt.h and library_types.h.
TYPES = {"f32": 0, "f16": 2, "bf16": 14}
COMPUTE_F32, TRANS_A, TRANS_B, EPILOGUE, BIAS_POINTER, BIAS_TYPE = 68, 3, 4, 7, 8, 26
PLAIN_EPILOGUE, BIAS_EPILOGUE, BIAS_GRADIENT_EPILOGUE = 1, 4, 256
WORKSPACE, REDUCTIONS, REDUCE_COMPUTE_TYPE = 1, 3, 2
ALIGNMENTS = (5, 6, 7, 8)
WORKSPACE_BYTES = 32 << 20


class CublasLtError(Exception):
    """What cuBLASLt said."""


class Heuristic(ctypes.Structure):
    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


@dataclasses.dataclass(frozen=True)
class Product:
    """c[m,n] = a · b by rows, with the distances between rows."""

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    trans_a: bool = False
    trans_b: bool = False
    bias: bool = False
    """Added, or with `bias_grad` written: the sum of the rows of b."""
    bias_grad: bool = False
    ld_added: int = 0
    factors: str = "bf16"
    result: str = "bf16"

    @property
    def name(self):
        flags = [
            name
            for name, is_set in (
                ("trans_a", self.trans_a),
                ("trans_b", self.trans_b),
                ("bias", self.bias and not self.bias_grad),
                ("bias_grad", self.bias_grad),
                ("add", self.ld_added),
            )
            if is_set
        ]
        return " ".join([f"{self.m}x{self.n}x{self.k}", *flags, f"{self.factors} to {self.result}"])


def read_products(text):
    """Those in what `optimus-run inspect --commands` prints, once each."""
    found = {}
    for line in text.splitlines():
        sizes = re.match(r"\d+ \w+: gemm (\d+)x(\d+)x(\d+)((?: \w+)*?) (?:read|write|update) ", line)
        if not sizes:
            continue
        m, n, k = (int(each) for each in sizes.groups()[:3])
        flags = sizes[4].split()
        operands = {
            name: (int(ld) if ld else None, kind)
            for name, ld, kind in re.findall(r" (\w+)=\w+\[\d+\]:\d+(?:x\d+)?(?:/(\d+))?([a-z]+\d+)", line)
        }
        trans_a, trans_b = "trans_a" in flags, "trans_b" in flags
        product = Product(
            m,
            n,
            k,
            operands["a"][0] or (m if trans_a else k),
            operands["b"][0] or (k if trans_b else n),
            operands["c"][0] or n,
            trans_a,
            trans_b,
            "bias" in operands,
            "bias_grad" in flags,
            (operands["extra"][0] or n) if "add" in flags else 0,
            operands["a"][1],
            operands["c"][1],
        )
        found[product] = None
    return list(found)


class CublasLt:
    """An opened cuBLASLt with a handle."""

    def __init__(self, path):
        try:
            self._library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CublasLtError(f"cannot open cuBLASLt: {error}") from error
        self._handle = c_void_p()
        self._call("cublasLtCreate", byref(self._handle))

    def _call(self, name, *arguments):
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise CublasLtError(f"{name}: status {result}")

    def version(self):
        parts = []
        for number in range(3):
            part = c_int()
            self._call("cublasLtGetProperty", c_int(number), byref(part))
            parts.append(str(part.value))
        return ".".join(parts)

    def _set(self, call, thing, attribute, value):
        self._call(call, thing, c_int(attribute), byref(value), c_size_t(ctypes.sizeof(value)))

    def _layout(self, kind, rows, cols, ld):
        # By columns, rows are what here are columns.
        layout = c_void_p()
        self._call(
            "cublasLtMatrixLayoutCreate", byref(layout), c_int(TYPES[kind]), c_uint64(cols), c_uint64(rows), c_int64(ld)
        )
        return layout

    def describe(self, product, alignment=256, bias=0x1000):
        """An operation and its layouts: b, a, what is added, and the result. `bias` is
        where it lies; the heuristic looks at its alignment."""
        operation = c_void_p()
        self._call("cublasLtMatmulDescCreate", byref(operation), c_int(COMPUTE_F32), c_int(TYPES["f32"]))
        attribute = "cublasLtMatmulDescSetAttribute"
        self._set(attribute, operation, TRANS_A, c_int(product.trans_b))
        self._set(attribute, operation, TRANS_B, c_int(product.trans_a))
        epilogue = BIAS_EPILOGUE if product.bias else PLAIN_EPILOGUE
        if product.bias_grad:
            epilogue = BIAS_GRADIENT_EPILOGUE
        self._set(attribute, operation, EPILOGUE, c_uint32(epilogue))
        if product.bias:
            self._set(attribute, operation, BIAS_POINTER, c_void_p(bias))
            self._set(attribute, operation, BIAS_TYPE, c_int(TYPES[product.result]))
        m, n, k = product.m, product.n, product.k
        a = self._layout(product.factors, *((k, m) if product.trans_a else (m, k)), product.lda)
        b = self._layout(product.factors, *((n, k) if product.trans_b else (k, n)), product.ldb)
        c = self._layout(product.result, m, n, product.ldc)
        added = self._layout(product.result, m, n, product.ld_added or product.ldc)
        preference = c_void_p()
        self._call("cublasLtMatmulPreferenceCreate", byref(preference))
        attribute = "cublasLtMatmulPreferenceSetAttribute"
        self._set(attribute, preference, WORKSPACE, c_size_t(WORKSPACE_BYTES))
        self._set(attribute, preference, REDUCTIONS, c_uint32(REDUCE_COMPUTE_TYPE))
        for number in ALIGNMENTS:
            self._set(attribute, preference, number, c_uint32(alignment))
        return operation, (b, a, added, c), preference

    def algorithms(self, described, most=8):
        """What the heuristic names, the most promising first."""
        operation, layouts, preference = described
        found, returned = (Heuristic * most)(), c_int()
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._handle,
            operation,
            *layouts,
            preference,
            c_int(most),
            found,
            byref(returned),
        )
        return [each for each in found[: returned.value] if each.state == 0]

    def run(self, described, algorithm, operands, workspace, stream):
        """c = a · b, of the addresses of a, b and c."""
        operation, layouts, _ = described
        a, b, c = operands
        one, zero = c_float(1), c_float(0)
        layout_b, layout_a, layout_added, layout_c = layouts
        self._call(
            "cublasLtMatmul",
            self._handle,
            operation,
            byref(one),
            c_void_p(b),
            layout_b,
            c_void_p(a),
            layout_a,
            byref(zero),
            c_void_p(c),
            layout_added,
            c_void_p(c),
            layout_c,
            byref(algorithm),
            c_void_p(workspace),
            c_size_t(WORKSPACE_BYTES),
            stream,
        )

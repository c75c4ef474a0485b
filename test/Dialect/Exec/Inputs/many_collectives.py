# ===- many_collectives.py - A program with many collectives ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prints a device program with COUNT collectives that could all start at once,
each behind a product of its own, and whose results are used at the end.

    many_collectives.py COUNT
"""

import sys

COUNT = int(sys.argv[1])
print('optimus.mesh @mesh <["row" = 2]>')
print(
    "func.func @many(%%a: memref<4096xf32>, %%b: memref<%dxf32>, %%c: memref<4096xf32>) {"
    % COUNT
)
for i in range(COUNT):
    print("  %%b%d = exec.slice %%b[%d] : memref<%dxf32> to memref<1xf32>" % (i, i, COUNT))
    print("  %%a%d = exec.slice %%a[%d] : memref<4096xf32> to memref<1xf32>" % (i, i))
    print(
        '  %%t%d = exec.collective_start all_reduce sum over "row", %%a%d to %%b%d'
        " {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64}"
        " : memref<1xf32>, memref<1xf32>" % (i, i, i)
    )
    print("  exec.wait %%t%d" % i)
    print(
        "  exec.gemm %a, %a, %c {m = 64 : i64, n = 64 : i64, k = 64 : i64,"
        " lda = 64 : i64, ldb = 64 : i64, ldc = 64 : i64}"
        " : memref<4096xf32>, memref<4096xf32>, memref<4096xf32>"
    )
print(
    "  exec.copy %%c from %%b : memref<%dxf32>"
    " {rows = 1 : i64, cols = %d : i64, src_ld = %d : i64, dst_ld = %d : i64}"
    " : memref<4096xf32>" % (COUNT, COUNT, COUNT, COUNT)
)
print("  return\n}")

//===- ExecComputeOps.td - Products, kernels and attention -*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_COMPUTEOPS
#define OPTIMUS_DIALECT_EXEC_COMPUTEOPS

include "mlir/IR/SymbolInterfaces.td"
include "optimus/Dialect/Exec/IR/ExecBase.td"
include "optimus/Dialect/Optimus/IR/OptimusInterfaces.td"

def Exec_GemmOp : Exec_Command<"gemm", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<WorkOpInterface>], ["needsOperandsApart"]> {
  let summary = "A product of two matrices";
  let description = [{
    `C[m,n] = (accumulate ? C : 0) + op(A)[m,k]·op(B)[k,n] + bias[n]`, then
    `epilogue`: with `add`, plus `extra`; with `mul`, times `extra`, which is [m,n].
    With `trans_a`, A is stored as [k,m]; with `trans_b`, B as [n,k]. With `packed_b`, B is
    what an `exec.pack` of k rows and n columns wrote, with the same `blocks`, and `ldb` counts its elements. Products are
    summed in f32, and a narrow C is rounded once, after the epilogue.

    With `bias_grad` nothing is added and `bias` is a result, the sum of B's rows:
    the gradient of a bias, beside a weight's C = Xᵀ·dY. Where a device's library
    cannot do so, `kernel` sums them.

    `live` are i32, one a row: nobody reads the rows of C where they are negative, as those
    of slots without a token, and a device may leave them out.

    ```mlir
    exec.gemm %a, %b, %c {m = 128, n = 64, k = 32, lda = 32, ldb = 64, ldc = 64}
      : memref<4096xf32>, memref<2048xf32>, memref<8192xf32>
    ```

    Constraints: (C1) m, n and k are positive; (C2) leading dimensions are at
    least the row's length where there is more than one row, and from 0 to 2^48; (C3) every buffer holds its matrix, bias n
    elements; (C4) `extra` is there exactly if the epilogue is `add` or `mul`;
    (C5) C is none of the inputs; (C6) a packed B is not transposed and has as
    many elements as op(B) at least, or the words of its blocks; (C7) A and B have one element type, blocks
    are i32, C has A's type or f32, and bias and extra have C's or f32; (C8) with `bias_grad`, and only
    then, there is a kernel: C is not accumulated, B lies in rows one after the other, and there is
    a bias of C's type; (C9) live has m elements, and A is not transposed with it, nor B summed.
  }];
  let arguments = (ins Exec_FloatBuffer:$a, Exec_WeightBuffer:$b, Exec_FloatBuffer:$c,
                       Optional<Exec_FloatBuffer>:$bias,
                       Optional<Exec_FloatBuffer>:$extra,
                       Optional<Exec_IndexBuffer>:$live,
                       I64Attr:$m, I64Attr:$n, I64Attr:$k,
                       I64Attr:$lda, I64Attr:$ldb, I64Attr:$ldc,
                       DefaultValuedAttr<I64Attr, "0">:$ld_extra,
                       UnitAttr:$trans_a, UnitAttr:$trans_b, UnitAttr:$accumulate,
                       DefaultValuedAttr<Exec_EpilogueAttr, "::mlir::exec::Epilogue::None">:$epilogue,
                       UnitAttr:$packed_b,
                       DefaultValuedAttr<Exec_BlocksAttr, "::mlir::exec::Blocks::None">:$blocks,
                       OptionalAttr<FlatSymbolRefAttr>:$kernel,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $a `,` $b `,` $c (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`extra` `(` $extra^ `:` type($extra) `)`)?
    (`live` `(` $live^ `:` type($live) `)`)? attr-dict
    `:` type($a) `,` type($b) `,` type($c)
  }];
  let hasVerifier = 1;
}

def Exec_PackOp : Exec_Command<"pack", [DeclareOpInterfaceMethods<WorkOpInterface>],
    ["needsOperandsApart"]> {
  let summary = "Writes B of products in the device's own layout";
  let description = [{
    op(src) is [rows,cols]; with `trans`, src is stored as [cols,rows]. The
    layout follows from the size and the device. It takes at most all of dst,
    sized by the target. With `blocks`, dst has the words of blocks of 32 rows in few
    bits, or of panels of bf16, which are the same on every device (`optimus-support/WeightBlocks.h`).

    ```mlir
    exec.pack %w into %p {rows = 32, cols = 60, ld = 60} : memref<1920xf32>, memref<2048xf32>
    exec.pack %w into %q {rows = 32, cols = 60, ld = 60, blocks = #exec<blocks int8>} : memref<1920xf32>, memref<510xi32>
    ```

    Constraints: (C1) rows and cols are positive; (C2) src holds its matrix, and the leading
    dimension is as C2 of `exec.gemm` says; (C3) dst has at least as many elements as op(src);
    (C4) src and dst differ; (C5) dst is i32 exactly where there are blocks: then src is f32, rows of few bits are a
    multiple of 32, and dst has as many words as their blocks.
  }];
  let arguments = (ins Exec_FloatBuffer:$src, Exec_WeightBuffer:$dst,
                       I64Attr:$rows, I64Attr:$cols, I64Attr:$ld, UnitAttr:$trans,
                       DefaultValuedAttr<Exec_BlocksAttr, "::mlir::exec::Blocks::None">:$blocks,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = "$src `into` $dst attr-dict `:` type($src) `,` type($dst)";
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_Command<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a compiled kernel over an iteration space";
  let description = [{
    Calls `kernel(begin, end, buffers…, scalars…)`, a function of the module,
    on ranges that split [0, extent); iterations are independent, and fewer than
    `grain` of them are not worth a task. Every buffer is marked `read`, `write` or
    `update` (both); a buffer may appear twice, and then the kernel reads each
    element only in the iteration that writes it. Extent and grain are missing
    until `--optimus-build-kernels` has written the kernel.

    ```mlir
    exec.launch @gelu extent 64 grain 8
      (read %x : memref<4096xf32>, write %y : memref<4096xf32>)
    exec.launch @embedding extent 64 grain 8 (read %table : memref<4096xf32>,
      read %tokens : memref<64xi32>, write %y : memref<4096xf32>) scalars (%offset : i64)
    ```

    Constraints: (C1) extent and grain are positive, or both missing; (C2) there is one access
    for each buffer; (C3) the kernel is a function whose arguments are
    (index or i64) begin and end, then those of the buffers, then those of the scalars.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       OptionalAttr<I64Attr>:$extent, OptionalAttr<I64Attr>:$grain,
                       Variadic<Exec_Buffer>:$buffers,
                       Variadic<Exec_Scalar>:$scalars,
                       DenseI32ArrayAttr:$access,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $kernel (`extent` $extent^ `grain` $grain)?
    `(` custom<LaunchBuffers>($buffers, type($buffers), $access) `)`
    (`scalars` `(` $scalars^ `:` type($scalars) `)`)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Bits of `access`.
    enum : int32_t { Read = 1, Write = 2, Update = Read | Write };
  }];
  let hasVerifier = 1;
}

class Exec_AttentionCommand<string mnemonic>
    : Exec_Command<mnemonic, [AttrSizedOperandSegments,
                              DeclareOpInterfaceMethods<WorkOpInterface>]> {
  let hasVerifier = 1;
}

def Exec_AttentionOp : Exec_AttentionCommand<"attention"> {
  let summary = "Multi-head and grouped-query attention";
  let description = [{
    Each token has `heads` heads of q and `kv_heads` of k and v, of head_dim
    elements and next to each other; from one token to the next there are `q_ld`
    elements of q and `kv_ld` of k and of v, so that the three may be
    slices of one buffer. out is [batch, seq, heads, head_dim], lse [batch, heads, seq].
    With `lengths`, the tokens of a sequence see its first ones only, as many as
    its length says, which is from 1 to seq. With `positions` [batch, seq] a token sees
    keys from so many tokens earlier on, and with a `window` so many keys at most. With a
    `capacity`, k and v are a cache of [batch, capacity, kv_heads, head_dim], as
    `optimus.attention` has it. `workspace` is all that a device's library may use
    besides, where it needs any.

    ```mlir
    exec.attention %q, %k, %v, %out, %lse
      {batch = 1, seq = 8, heads = 2, kv_heads = 1, head_dim = 4, q_ld = 8, kv_ld = 4, causal}
      : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
    ```

    Constraints: (C1) extents are positive and the buffers hold them; (C2)
    kv_heads divides heads; (C3) q_ld and kv_ld hold a token's heads and are at most 2^48; (C4)
    there is a length for each sequence; (C5) all buffers but lse, which is f32, and lengths
    have one element type; (C6) there is a position for each token, and attention with
    them is causal; (C7) window is positive, and attention with it is causal; (C8)
    capacity is positive, and attention with it is causal, with lengths and positions.
  }];
  let arguments = (ins Exec_FloatBuffer:$q, Exec_FloatBuffer:$k, Exec_FloatBuffer:$v,
                       Exec_FloatBuffer:$out, Exec_F32Buffer:$lse,
                       Optional<Exec_IndexBuffer>:$lengths, Optional<Exec_IndexBuffer>:$positions,
                       Optional<Exec_F32Buffer>:$workspace,
                       I64Attr:$batch, I64Attr:$seq, I64Attr:$heads, I64Attr:$kv_heads,
                       I64Attr:$head_dim, I64Attr:$q_ld, I64Attr:$kv_ld,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window,
                       OptionalAttr<I64Attr>:$capacity, Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    (`positions` `(` $positions^ `:` type($positions) `)`)?
    (`workspace` `(` $workspace^ `:` type($workspace) `)`)? attr-dict `:`
    type($q) `,` type($k) `,` type($v) `,` type($out) `,` type($lse)
  }];
}

def Exec_AttentionGradOp : Exec_AttentionCommand<"attention_grad"> {
  let summary = "The gradient of attention";
  let description = [{
    Shapes are those of `exec.attention`; dout is like out and dq, dk and dv
    are like q, k and v. A `deterministic` one adds in the same order always, which costs a
    device's library time and workspace.

    Constraints: those of `exec.attention`.
  }];
  let arguments = (ins Exec_FloatBuffer:$dout, Exec_FloatBuffer:$q, Exec_FloatBuffer:$k, Exec_FloatBuffer:$v,
                       Exec_FloatBuffer:$out, Exec_F32Buffer:$lse,
                       Exec_FloatBuffer:$dq, Exec_FloatBuffer:$dk, Exec_FloatBuffer:$dv,
                       Optional<Exec_IndexBuffer>:$lengths, Optional<Exec_IndexBuffer>:$positions,
                       Optional<Exec_F32Buffer>:$workspace,
                       I64Attr:$batch, I64Attr:$seq, I64Attr:$heads, I64Attr:$kv_heads,
                       I64Attr:$head_dim, I64Attr:$q_ld, I64Attr:$kv_ld,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window, UnitAttr:$deterministic,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $dout `,` $q `,` $k `,` $v `,` $out `,` $lse `,` $dq `,` $dk `,` $dv
    (`lengths` `(` $lengths^ `:` type($lengths) `)`)?
    (`positions` `(` $positions^ `:` type($positions) `)`)?
    (`workspace` `(` $workspace^ `:` type($workspace) `)`)? attr-dict `:`
    type($dout) `,` type($q) `,` type($k) `,` type($v) `,` type($out) `,` type($lse) `,`
    type($dq) `,` type($dk) `,` type($dv)
  }];
}

#endif // OPTIMUS_DIALECT_EXEC_COMPUTEOPS

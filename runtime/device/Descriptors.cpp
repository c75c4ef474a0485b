//===- Descriptors.cpp - What commands are told ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Descriptors.h"

#include "optimus-support/Sizes.h"
#include "optimus-support/WeightBlocks.h"

#include <algorithm>

using namespace optrt;
using optimus_support::CheckedSize;
using optimus_support::kMaxElements;

std::string optrt::describe(const optrt_gemm_desc &d) {
  return concat("gemm of m ", d.m, ", n ", d.n, ", k ", d.k,
                d.trans_a ? ", A transposed" : "",
                d.trans_b ? ", B transposed" : "",
                d.blocks != 0 ? ", B of few bits"
                : d.packed_b  ? ", B packed"
                              : "");
}
std::string optrt::describe(const optrt_pack_desc &d) {
  return concat("pack of ", d.rows, " x ", d.cols, " into ", d.elements,
                " elements");
}
std::string optrt::describe(const optrt_attention_desc &d) {
  return concat(d.causal ? "causal " : "", "attention in ", d.batch,
                " sequences of ", d.seq, " tokens, with ", d.heads,
                " heads of ", d.head_dim, " for queries and ", d.kv_heads,
                " for keys", d.has_lengths ? ", up to the length of each" : "",
                d.has_positions && d.capacity == 0 ? ", each document by itself"
                                                   : "",
                d.window != 0 ? concat(", in a window of ", d.window) : "",
                d.capacity != 0 ? concat(", in caches of ", d.capacity) : "",
                d.pool != 0 ? concat(", in ", d.pool, " pages") : "");
}

namespace {

/// Checks the layout of a matrix with sizes not negative, and that its end can
/// be computed.
template <typename Desc>
Status checkMatrix(const Desc &d, const char *name, int64_t rows, int64_t cols,
                   int64_t ld) {
  if (ld < cols)
    return invalidArgument(concat(describe(d), ": the leading dimension of ",
                                  name, " must be at least ", cols, ", found ",
                                  ld));
  const CheckedSize extent = optimus_support::matrixExtent(rows, cols, ld);
  if (rows > 0 && !extent.isAtMost(kMaxElements))
    return invalidArgument(
        concat(describe(d), ": ", name, " ends ", extent.toString(),
               " elements after it begins; expected at most ", kMaxElements));
  return okStatus();
}

/// That a packed matrix can be in so many elements.
template <typename Desc>
Status checkPacked(const Desc &d, int64_t elements) {
  const optimus_support::BlockLayout layout = layoutOf(d);
  if (d.blocks != 0) {
    const CheckedSize words = layout.words();
    return d.blocks == int64_t(layout.blocks) &&
                   layout.blocks <= optimus_support::WeightBlocks::BF16 &&
                   layout.takesRows() &&
                   words.isAtMost(std::min(elements, kMaxElements))
               ? okStatus()
               : invalidArgument(
                     concat(describe(d), ": blocks have ", words.toString(),
                            " words, and of few bits a multiple of ",
                            optimus_support::kBlockElements, " rows; found ",
                            elements, " words"));
  }
  const CheckedSize all = CheckedSize(layout.k) * layout.n;
  return all.isAtMost(std::min(elements, kMaxElements))
             ? okStatus()
             : invalidArgument(concat(describe(d), ": a packed B has at least ",
                                      all.toString(), " elements, found ",
                                      elements));
}

} // namespace

Status optrt::check(const optrt_pack_desc &d, const float *src,
                    const float *dst) {
  if (d.rows < 1 || d.cols < 1)
    return invalidArgument(
        concat(describe(d), ": expected sizes of at least 1"));
  OPTRT_RETURN_IF_ERROR(checkMatrix(d, "src", d.trans ? d.cols : d.rows,
                                    d.trans ? d.rows : d.cols, d.ld));
  if (!src || !dst)
    return invalidArgument(concat(describe(d), ": an operand is null"));
  return checkPacked(d, d.elements);
}

Status optrt::check(const optrt_gemm_desc &d, const void *a, const void *b,
                    const void *c, const void *bias, const void *extra) {
  if (d.m < 0 || d.n < 0 || d.k < 0)
    return invalidArgument(
        concat(describe(d), ": expected sizes of at least 0"));
  OPTRT_RETURN_IF_ERROR(
      checkMatrix(d, "A", d.trans_a ? d.k : d.m, d.trans_a ? d.m : d.k, d.lda));
  if (d.packed_b && (d.trans_b || d.k < 1))
    return invalidArgument(
        concat(describe(d),
               ": a packed B is not transposed and has at least one row"));
  if (layoutOf(d).blocks == optimus_support::WeightBlocks::BF16 &&
      d.factor_type != OPTRT_BF16)
    return invalidArgument(
        concat(describe(d), ": a B in panels of bf16 expects an A of bf16"));
  OPTRT_RETURN_IF_ERROR(d.packed_b ? checkPacked(d, d.ldb)
                                   : checkMatrix(d, "B", d.trans_b ? d.n : d.k,
                                                 d.trans_b ? d.k : d.n, d.ldb));
  OPTRT_RETURN_IF_ERROR(checkMatrix(d, "C", d.m, d.n, d.ldc));
  if (d.epilogue < OPTRT_EPILOGUE_NONE || d.epilogue > OPTRT_EPILOGUE_BIAS_GRAD)
    return invalidArgument(
        concat(describe(d), ": unknown epilogue ", d.epilogue));
  const bool takesExtra =
      d.epilogue == OPTRT_EPILOGUE_ADD || d.epilogue == OPTRT_EPILOGUE_MUL;
  if (takesExtra)
    OPTRT_RETURN_IF_ERROR(
        checkMatrix(d, "the extra operand", d.m, d.n, d.ld_extra));
  if (d.m == 0 || d.n == 0)
    return okStatus();
  if (!c || (d.k > 0 && (!a || !b)) || (d.has_bias && !bias) ||
      (takesExtra && !extra))
    return invalidArgument(concat(describe(d), ": an operand is null"));
  if (d.epilogue == OPTRT_EPILOGUE_BIAS_GRAD &&
      (!d.has_bias || d.accumulate || d.packed_b || d.trans_b || d.ldb != d.n ||
       d.bias_type != d.result_type || !d.row_sum_kernel))
    return invalidArgument(
        concat(describe(d), ": the sum of B's rows expects a bias of C's type, "
                            "a kernel, rows one after the other, and a C that "
                            "is not accumulated"));
  if (takesExtra && extra == c &&
      (d.epilogue == OPTRT_EPILOGUE_MUL || d.accumulate || d.ld_extra != d.ldc))
    return invalidArgument(concat(
        describe(d), ": only a matrix that is plainly added may be C itself"));
  return okStatus();
}

Status optrt::check(const optrt_copy_desc &d, const void *src,
                    const void *dst) {
  const int64_t rows = d.rows, cols = d.cols, srcLd = src ? d.src_ld : cols;
  if (rows < 0 || cols < 0 || d.element_bytes < 1 ||
      (rows > 1 && (srcLd < cols || d.dst_ld < cols)))
    return invalidArgument(concat(
        "copy expects sizes >= 0, elements of bytes and leading dimensions of "
        "at least one row; found ",
        rows, " x ", cols, " of ", d.element_bytes,
        " bytes with leading dimensions ", d.src_ld, " and ", d.dst_ld));
  if (rows == 0 || cols == 0)
    return okStatus();
  for (int64_t ld : {srcLd, d.dst_ld})
    if (CheckedSize extent =
            optimus_support::matrixExtent(rows, cols, rows > 1 ? ld : cols);
        !extent.isAtMost(kMaxElements))
      return invalidArgument(concat("copy expects matrices of at most ",
                                    kMaxElements, " elements; found ", rows,
                                    " x ", cols, ", which ends after ",
                                    extent.toString()));
  return dst ? okStatus()
             : invalidArgument("copy expects a destination; found null");
}

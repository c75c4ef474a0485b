//===- NarrowProducts.h - Products of bf16, block by block -------*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of bf16 by others that leave f32: results are narrowed from memory
// of bounded size, into which factors are widened where the processor
// multiplies only f32. The arithmetic is exact but for the sums in f32 and the
// one rounding of the stored result; with wide factors it is slower than f32.
//
// A B in blocks of few bits is widened, columns of it at a time, on every
// processor, and A with it where that is bf16. Panels of bf16 are as other
// factors of bf16.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_NARROWPRODUCTS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_NARROWPRODUCTS_H

#include "Buffer.h"
#include "NarrowRows.h"
#include "Team.h"

#include "device/Descriptors.h"

#include <functional>
#include <vector>

namespace optrt {

class NarrowProducts {
public:
  /// A and B have the type that the descriptor gives factors, C is f32.
  using Gemm = std::function<Status(const optrt_gemm_desc &, const void *a,
                                    const void *b, float *c)>;

  /// With `widens` factors of products become f32 before they are multiplied,
  /// because the processor does not multiply bf16. They do in `scratch`.
  NarrowProducts(const Team &team, Buffer &scratch, bool widens)
      : team(team), scratch(scratch), widens(widens) {}

  /// Makes room for such a product, which gemm() needs.
  Status prepare(const optrt_gemm_desc &desc);
  /// What gemm() will ask of `multiply` for such a product.
  std::vector<optrt_gemm_desc> productsOf(const optrt_gemm_desc &desc) const;

  /// Makes the blocks of a weight.
  void writeBlocks(const optrt_pack_desc &desc, const float *src,
                   void *dst) const;

  /// Makes a product of bf16 factors of blocks that `multiply` leaves in f32. C
  /// is bf16 or f32, bias and extra are of type f32 or bf16.
  Status gemm(const optrt_gemm_desc &desc, const void *a, const void *b,
              NarrowMatrix c, NarrowMatrix bias, NarrowMatrix extra,
              const Gemm &multiply);

private:
  /// A part of a product, and where it begins: it adds so much of the depth to
  /// a block of C.
  struct Block {
    optrt_gemm_desc desc;
    int64_t row, col, depth;
    bool isLast; ///< of those that add to its block of C
  };
  std::vector<Block> blocksOf(const optrt_gemm_desc &desc) const;
  /// What is multiplied at a time.
  struct Extents {
    int64_t rows, cols, depth;
  };
  Extents mostOf(const optrt_gemm_desc &desc) const;
  static bool hasFewBits(const optrt_gemm_desc &desc) {
    return isFewBits(layoutOf(desc).blocks);
  }
  /// Whether a product is finished before it goes to C.
  static bool isApart(const optrt_gemm_desc &desc) {
    return desc.result_type == OPTRT_BF16 || hasFewBits(desc);
  }
  /// Whether the factors of a product are widened.
  bool widensA(const optrt_gemm_desc &desc) const {
    return desc.factor_type != OPTRT_F32 && (widens || hasFewBits(desc));
  }
  bool widensB(const optrt_gemm_desc &desc) const {
    return widens || hasFewBits(desc);
  }
  /// Where a block's part of panels of bf16 begins, and with more depth the
  /// rows of each.
  static const uint32_t *panelsAt(const optrt_gemm_desc &desc, const void *b,
                                  int64_t depth, int64_t col);
  /// A block's part of B, in f32, as the product of the block reads it.
  void widenB(const optrt_gemm_desc &desc, const void *b, const Block &at,
              float *to) const;
  void widen(const uint16_t *from, int64_t fromLd, int64_t rows, int64_t cols,
             float *to) const;
  void finish(const optrt_gemm_desc &desc, float *product, int64_t productLd,
              NarrowMatrix c, NarrowMatrix bias, NarrowMatrix extra) const;

  const Team &team;
  Buffer &scratch;
  const bool widens;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_NARROWPRODUCTS_H

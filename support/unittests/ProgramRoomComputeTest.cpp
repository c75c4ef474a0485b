//===- ProgramRoomComputeTest.cpp - Computation that nothing emits yet ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The features with room in docs/programs.md: each is written, and is refused
// where it is wrong.
//
//===----------------------------------------------------------------------===//

#include "ProgramRoom.h"

using namespace program_room;

namespace {

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

class PackedProduct : public ProgramRoom {
protected:
  PackedProduct() {
    gemm.m = 2;
    gemm.n = pack.cols = 3;
    gemm.k = pack.rows = 4;
    gemm.packed_b = true;
  }
  void multiply(View b) {
    f.gemm(gemm, {.a = part(0, 8), .b = b, .c = part(8, 6)});
  }

  GemmT gemm;
  PackMatrixT pack;
  View packed = part(32, 16);
};

TEST_F(PackedProduct, ReadsWhatWasPacked) {
  pack.trans = true;
  f.pack(pack, part(16, 12), packed);
  multiply(packed);
  accept("0 compute: pack 4x3 trans read src=arena0[64]:12f32 write "
         "dst=arena0[128]:16f32 bytes=112\n"
         "1 compute: gemm 2x3x4 packed_b read a=arena0[0]:8f32 read "
         "b=arena0[128]:16f32 write c=arena0[32]:6f32 flops=48 bytes=120\n");
}

TEST_F(PackedProduct, SaysHowItsWeightIsHeld) {
  View panels = f.argument(ElementType::I32, 1024);
  pack.blocks = gemm.blocks = WeightBlocks::BF16;
  f.pack(pack, part(16, 12), panels);
  f.gemm(gemm,
         {.a = part(0, 8, ElementType::BF16), .b = panels, .c = part(8, 6)});
  accept("pack 4x3 bf16 read src=arena0[64]:12f32 write dst=arg1[0]:1024i32 "
         "bytes=4144\n1 compute: gemm 2x3x4 packed_b bf16 read a=");
}

TEST_F(PackedProduct, IsPackedBefore) {
  multiply(packed);
  f.pack(pack, part(16, 12), packed);
  refuse("command 0 (gemm) reads a packed B of 4 x 3 in 16 elements; expected "
         "an earlier pack of such a one at the same address");
}

TEST_F(PackedProduct, IsPackedAtItsAddress) {
  f.pack(pack, part(16, 12), packed);
  multiply(part(40, 16));
  refuse("command 1 (gemm) reads a packed B");
}

TEST_F(PackedProduct, IsPackedForItsShape) {
  f.pack(pack, part(16, 12), packed);
  std::swap(pack.rows, pack.cols);
  f.pack(pack, part(16, 12), packed);
  multiply(packed);
  refuse("command 2 (gemm) reads a packed B of 4 x 3");
}

TEST_F(PackedProduct, HasRoomForTheMatrix) {
  f.pack(pack, part(16, 12), part(32, 11));
  refuse("command 0 (pack): packs 4 x 3 elements into 11");
}

TEST_F(PackedProduct, EndsInItsArena) {
  f.pack(pack, part(16, 12), part(50, 16));
  refuse("operand 1: touches bytes [200, 264) of a base of 256");
}

TEST_F(PackedProduct, HasSizesThatArePositive) {
  pack.rows = 0;
  f.pack(pack, part(16, 12), packed);
  refuse("has sizes or leading dimensions that are not positive, or do not fit");
}

TEST_F(PackedProduct, IsOfOneType) {
  f.pack(pack, part(16, 12), part(32, 16, ElementType::BF16));
  refuse("operand 1 is of bf16; expected f32, as operand 0 is");
}

TEST_F(PackedProduct, IsNotTransposedAgain) {
  gemm.trans_b = true;
  f.pack(pack, part(16, 12), packed);
  multiply(packed);
  refuse("command 1 (gemm): has a packed B that is transposed");
}

TEST_F(PackedProduct, LiesApartFromTheMatrix) {
  f.pack(pack, part(16, 12), part(20, 16));
  refuse("command 0 (pack) writes memory of operand 1 that it touches as "
         "operand 0");
}

/// Products with rows that nobody reads.
class LiveRows : public ProgramRoom {
protected:
  void multiply(GemmT gemm, View live) {
    gemm.m = 3;
    gemm.n = gemm.k = 2;
    f.gemm(gemm,
           {.a = part(0, 6), .b = part(8, 4), .c = part(16, 6), .live = live});
  }
};

TEST_F(LiveRows, AreGivenByANumberEach) {
  multiply({}, f.at(numbers, 1, 3));
  accept("read a=arena0[0]:6f32 read b=arena0[32]:4f32 write "
         "c=arena0[64]:6f32 read live=");
}

TEST_F(LiveRows, AreAsManyAsThoseOfTheProduct) {
  multiply({}, f.at(numbers, 6, 3));
  refuse("operand 5: touches bytes [24, 36) of a base of 32");
}

TEST_F(LiveRows, AreIntegers) {
  multiply({}, part(24, 3));
  refuse("operand live: expected 1 rows of 12 bytes, 0 apart, that are read; "
         "found 1 of 12, 0 apart, of f32");
}

TEST_F(LiveRows, AreOfAnAThatIsNotTransposed) {
  GemmT gemm;
  gemm.trans_a = true;
  multiply(gemm, f.at(numbers, 0, 3));
  refuse("leaves out rows; expected an A that is not transposed");
}

/// Products of narrow factors, and attention in a narrow type.
class NarrowTypes : public ProgramRoom {
protected:
  void multiply(ElementType c, ElementType bias) {
    GemmT gemm;
    gemm.m = gemm.n = gemm.k = 2;
    f.gemm(gemm, {.a = part(0, 4, ElementType::BF16),
                  .b = part(4, 4, ElementType::BF16),
                  .c = part(8, 4, c),
                  .bias = part(16, 2, bias)});
  }
  void attend(ElementType out, ElementType lse) {
    AttentionShapeT shape;
    shape.batch = shape.seq = shape.heads = shape.kv_heads = 1;
    shape.head_dim = shape.q_ld = shape.kv_ld = 4;
    View q = part(0, 4, ElementType::BF16);
    f.attention(shape, {.q = q,
                        .k = q,
                        .v = q,
                        .out = part(8, 4, out),
                        .lse = part(16, 1, lse)});
  }
};

TEST_F(NarrowTypes, ProductsAreNarrowOrF32) {
  multiply(ElementType::F32, ElementType::F32);
  accept("read a=arena0[0]:4bf16 read b=arena0[16]:4bf16 write "
         "c=arena0[32]:4f32 read bias=arena0[64]:2f32");
}

TEST_F(NarrowTypes, NarrowProductsTakeNarrowBiases) {
  multiply(ElementType::BF16, ElementType::BF16);
  accept("write c=arena0[32]:4bf16 read bias=arena0[64]:2bf16");
}

TEST_F(NarrowTypes, ProductsKeepTheirType) {
  multiply(ElementType::F16, ElementType::F32);
  refuse("operand 2 is of f16; expected bf16, as operand 0 is");
}

TEST_F(NarrowTypes, WideProductsTakeNoNarrowBias) {
  multiply(ElementType::F32, ElementType::BF16);
  refuse("operand 3 is of bf16; expected f32, as operand 2 is");
}

TEST_F(NarrowTypes, AttentionKeepsItsTypeAndSumsInF32) {
  attend(ElementType::BF16, ElementType::F32);
  accept("write out=arena0[32]:4bf16 write lse=arena0[64]:1f32");
}

TEST_F(NarrowTypes, AttentionHasOneType) {
  attend(ElementType::F32, ElementType::F32);
  refuse("operand 5 is of f32; expected bf16, as operand 0 is");
}

TEST_F(NarrowTypes, SumsOfAttentionAreF32) {
  attend(ElementType::BF16, ElementType::BF16);
  refuse("operand 6 is of bf16; expected f32");
}

class Workspace : public ProgramRoom {
protected:
  void attendWith(View workspace) {
    AttentionShapeT shape;
    shape.batch = shape.seq = shape.heads = shape.kv_heads = 1;
    shape.head_dim = shape.q_ld = shape.kv_ld = 4;
    f.attention(shape, {.q = part(0, 4),
                        .k = part(0, 4),
                        .v = part(0, 4),
                        .out = part(4, 4),
                        .lse = part(8, 1),
                        .workspace = workspace});
  }
};

TEST_F(Workspace, IsOfAnySize) {
  attendWith(part(16, 13));
  accept("update workspace=arena0[64]:13f32");
}

TEST_F(Workspace, IsNothingElse) {
  attendWith(part(7, 13));
  refuse("command 0 (attention) writes memory of operand 5 that it touches as "
         "operand 7");
}

/// Two sequences of two tokens.
class Documents : public ProgramRoom {
protected:
  void attend(bool causal, int64_t numPositions = 4, int64_t window = 0) {
    AttentionShapeT shape;
    shape.window = window;
    shape.batch = shape.seq = 2;
    shape.heads = shape.kv_heads = 1;
    shape.head_dim = shape.q_ld = shape.kv_ld = 2;
    shape.causal = causal;
    f.attention(shape,
                {.q = part(0, 8),
                 .k = part(8, 8),
                 .v = part(16, 8),
                 .positions =
                     numPositions > 0 ? f.at(numbers, 0, numPositions) : View(),
                 .out = part(24, 8),
                 .lse = part(32, 4)});
  }
};

TEST_F(Documents, HaveAPositionOfEachToken) {
  attend(true);
  accept("read positions=arg0[0]:4i32");
}

TEST_F(Documents, AreRefusedWithoutTheCausalMask) {
  attend(false);
  refuse(
      "command 0 (attention): has positions; expected a causal one with them");
}

TEST_F(Documents, HaveWindows) {
  attend(true, 4, 1);
  accept("causal window=1");
}

TEST_F(Documents, HaveWindowsOfATokenAtLeast) {
  attend(true, 4, -1);
  refuse("command 0 (attention): has window -1; expected at least 1, or 0 for "
         "none");
}

TEST_F(Documents, HaveNoWindowsWithoutTheCausalMask) {
  attend(false, 0, 1);
  refuse("command 0 (attention): has a window; expected a causal one with it");
}

/// Two slots of four keys, and a query in each.
class Caches : public ProgramRoom {
protected:
  AttentionViews views() {
    return {.q = part(0, 4),
            .k = part(4, 16),
            .v = part(20, 16),
            .lengths = f.at(numbers, 0, 2),
            .positions = f.at(numbers, 2, 2),
            .out = part(36, 4),
            .lse = part(40, 2)};
  }
  void attend(const AttentionViews &operands, int64_t capacity = 4) {
    AttentionShapeT shape;
    shape.batch = 2;
    shape.seq = shape.heads = shape.kv_heads = 1;
    shape.head_dim = shape.q_ld = shape.kv_ld = 2;
    shape.causal = true;
    shape.capacity = capacity;
    f.attention(shape, operands);
  }
};

TEST_F(Caches, HaveKeysForTheirCapacity) {
  attend(views());
  accept("causal capacity=4 read q=arena0[0]:4f32 read k=arena0[16]:16f32");
}

TEST_F(Caches, AreNotEmpty) {
  attend(views(), -4);
  refuse(
      "command 0 (attention): has capacity -4; expected at least 1, or 0 for "
      "no cache");
}

TEST_F(Caches, HavePositions) {
  AttentionViews operands = views();
  operands.positions = {};
  attend(operands);
  refuse("command 0 (attention): is of a cache; expected lengths and positions "
         "with it");
}

/// Two slots of two pages at most, of a pool of two, and a query in each.
class Pools : public ProgramRoom {
protected:
  AttentionViews views() {
    return {.q = part(0, 4),
            .k = f.at(keys, 0, 256),
            .v = f.at(keys, 256, 256),
            .lengths = f.at(numbers, 0, 2),
            .positions = f.at(numbers, 2, 2),
            .out = part(36, 4),
            .lse = part(40, 2),
            .pages = f.at(numbers, 4, 4)};
  }
  void attend(const AttentionViews &operands, int64_t pool = 2,
              int64_t capacity = 128) {
    AttentionShapeT shape;
    shape.batch = 2;
    shape.seq = shape.heads = shape.kv_heads = 1;
    shape.head_dim = shape.q_ld = shape.kv_ld = 2;
    shape.causal = true;
    shape.capacity = capacity;
    shape.pool = pool;
    f.attention(shape, operands);
  }
  View keys = f.argument(ElementType::F32, 512);
};

TEST_F(Pools, HaveKeysForTheirPages) {
  attend(views());
  accept(
      "causal capacity=128 pool=2 read q=arena0[0]:4f32 read k=arg1[0]:256f32");
}

TEST_F(Pools, HaveAsManyPagesForEachSequence) {
  attend(views(), 3);
  refuse("command 0 (attention): has a pool of 3 pages; expected as many for "
         "each of 2 sequences");
}

TEST_F(Pools, AreOfWholePages) {
  attend(views(), 2, 100);
  refuse("command 0 (attention): has pages; expected a cache of whole ones of "
         "64 positions, and one query");
}

TEST_F(Pools, HaveATable) {
  AttentionViews operands = views();
  operands.pages = {};
  attend(operands);
  refuse("command 0 (attention): operand pages is missing");
}

TEST_F(Pools, HaveATableOfAllPages) {
  AttentionViews operands = views();
  operands.pages = f.at(numbers, 6, 2);
  attend(operands);
  refuse("command 0 (attention): operand 8: touches bytes [24, 40) of a base "
         "of 32");
}

} // namespace

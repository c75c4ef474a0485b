//===- AttentionKernelsTest.cpp - Attention and its gradients ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionCase.h"
#include "KernelTest.h"

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;
using attention_test::Accuracy;
using attention_test::Case;
using attention_test::Result;

namespace {
/// A buffer of f32 or of bf16.
class Elements {
public:
  Elements(const Floats &values, bool isNarrow) : isNarrow(isNarrow) {
    if (isNarrow)
      halves = narrow(values);
    else
      floats = values;
  }

  void *at(int64_t element) {
    return isNarrow ? static_cast<void *>(halves.data() + element)
                    : floats.data() + element;
  }
  size_t getBytes(int64_t elements) const {
    return elements * (isNarrow ? sizeof(uint16_t) : sizeof(float));
  }
  Floats read() const { return isNarrow ? widen(halves) : floats; }

private:
  bool isNarrow;
  Floats floats;
  Halves halves;
};

/// The launches of a problem.
class Launches {
public:
  Launches(CompiledKernels &kernels, Case what, bool isNarrow)
      : kernels(kernels), x(std::move(what)), isNarrow(isNarrow) {
    const optrt_attention_desc &d = x.desc;
    extents = {d.batch,
               d.seq,
               d.heads,
               d.kv_heads,
               d.head_dim,
               d.q_ld,
               d.kv_ld,
               d.causal != 0,
               !x.lengths.empty(),
               !x.positions.empty(),
               d.window != 0 ? std::optional(d.window) : std::nullopt};
    std::vector<std::string> types;
    if (isNarrow)
      types = {"q", "k", "v", "out", "dout", "dq", "dk", "dv"};
    forward = kernels.add(Attention{extents}, {}, types);
    queryGrad = kernels.add(AttentionQueryGrad{extents}, {}, types);
    keyGrad = kernels.add(AttentionKeyGrad{extents}, {}, types);
    if (isNarrow)
      for (Floats *values : {&x.inputs, &x.dout})
        *values = widen(narrow(*values));
  }

  const Case &getCase() const { return x; }

  /// Each gradient has a buffer of its own: what lies in between stays NaN.
  Result run() {
    Elements inputs(x.inputs, isNarrow), dout(x.dout, isNarrow);
    Elements out(unset(extents.getOutSize()), isNarrow);
    const int64_t sizes[] = {extents.getQSize(), extents.getKvSize(),
                             extents.getKvSize()};
    std::vector<Elements> grads;
    for (int64_t size : sizes)
      grads.emplace_back(unset(size), isNarrow);
    Floats lse = unset(extents.getRows()), delta = unset(extents.getRows());
    using Buffer = std::pair<void *, size_t>;
    auto wide = [](Floats &values) -> Buffer {
      return {values.data(), values.size() * sizeof(float)};
    };
    auto input = [&](int part) -> Buffer {
      return {inputs.at(x.begin(part)), inputs.getBytes(sizes[part])};
    };
    auto grad = [&](int part) -> Buffer {
      return {grads[part].at(0), grads[part].getBytes(sizes[part])};
    };
    Buffer result = {out.at(0), out.getBytes(extents.getOutSize())},
           dresult = {dout.at(0), dout.getBytes(extents.getOutSize())};
    auto launch = [&](size_t number, std::vector<Buffer> read,
                      std::vector<Buffer> written) {
      if (!x.lengths.empty())
        read.emplace_back(x.lengths.data(), x.lengths.size() * sizeof(int32_t));
      if (!x.positions.empty())
        read.emplace_back(x.positions.data(),
                          x.positions.size() * sizeof(int32_t));
      read.insert(read.end(), written.begin(), written.end());
      std::vector<void *> buffers;
      std::vector<size_t> bytes;
      for (auto [data, size] : read) {
        buffers.push_back(data);
        bytes.push_back(size);
      }
      runLaunch(kernels, number, buffers, bytes);
    };
    launch(forward, {input(0), input(1), input(2)}, {result, wide(lse)});
    launch(queryGrad,
           {dresult, input(0), input(1), input(2), result, wide(lse)},
           {grad(0), wide(delta)});
    launch(keyGrad,
           {dresult, input(0), input(1), input(2), wide(lse), wide(delta)},
           {grad(1), grad(2)});
    return collect(out.read(), lse,
                   {grads[0].read(), grads[1].read(), grads[2].read()});
  }

private:
  Result collect(const Floats &out, const Floats &lse,
                 const std::vector<Floats> &grads) {
    Result result = attention_test::emptyResult(x);
    result.out = out;
    result.lse = lse;
    for (int part : {0, 1, 2}) {
      const int64_t width = part == 0 ? x.hidden() : x.kvHidden();
      const int64_t stride = part == 0 ? x.desc.q_ld : x.desc.kv_ld;
      for (int64_t i = 0; i < int64_t(grads[part].size()); ++i) {
        if (i % stride < width)
          result.grads[x.begin(part) + i] = grads[part][i];
        else
          EXPECT_TRUE(std::isnan(grads[part][i])) << "part " << part;
      }
    }
    return result;
  }

  CompiledKernels &kernels;
  Case x;
  bool isNarrow;
  AttentionExtents extents;
  size_t forward, queryGrad, keyGrad;
};

Case withLengths(Case x, Ints lengths) {
  x.lengths = std::move(lengths);
  return x;
}

/// Of each sequence the lengths of its documents.
Case withDocuments(Case x, const std::vector<Ints> &sequences) {
  for (const Ints &lengths : sequences)
    for (int32_t length : lengths)
      for (int32_t i = 0; i < length; ++i)
        x.positions.push_back(i);
  return x;
}

Case withWindow(Case x, int64_t window) {
  x.desc.window = window;
  return x;
}

/// Every head size and mask, keys and values for one head of queries and for
/// several, side by side and apart, whole sequences and parts.
std::vector<Case> makeCases() {
  using attention_test::makeCase;
  return {
      makeCase(1, 1, 1, 1, true),
      makeCase(2, 5, 2, 3, true),
      makeCase(1, 9, 3, 5, false),
      makeCase(1, 19, 4, 8, true, 2),
      makeCase(1, 12, 4, 16, true, 1, /*sideBySide=*/false),
      withLengths(makeCase(2, 9, 2, 12, false), {4, 9}),
      withLengths(makeCase(2, 7, 4, 20, true, 2), {1, 5}),
      makeCase(1, 10, 1, 64, true),
      makeCase(1, 6, 2, 128, false),
      // More rows than a block does at a time, and more than it shares.
      makeCase(1, 70, 1, 16, true),
      withLengths(makeCase(2, 67, 2, 16, true, 1), {33, 67}),
      withLengths(makeCase(1, 40, 1, 48, false), {37}),
      // Whole tiles alone; several that nothing masks, with shared keys; and
      // tiles of 32 rows, whose keys are held in registers or are not.
      makeCase(1, 128, 1, 32, false),
      makeCase(1, 200, 2, 16, true, 1),
      withLengths(makeCase(1, 100, 1, 96, true), {90}),
      makeCase(1, 100, 1, 112, true),
      // Documents within a tile and over several, whose rows see nothing of the
      // first tiles; and ones that are padding.
      withDocuments(makeCase(2, 9, 2, 12, true), {{4, 1, 4}, {9}}),
      withDocuments(makeCase(2, 200, 2, 16, true, 1),
                    {{70, 130}, {1, 64, 135}}),
      withDocuments(withLengths(makeCase(1, 100, 1, 96, true), {60}),
                    {{40, 40, 20}}),
      // Windows within a tile and over several, of documents too; and ones
      // behind the end, which see nothing.
      withWindow(makeCase(2, 9, 2, 12, true), 1),
      withWindow(withDocuments(makeCase(1, 9, 2, 12, true), {{4, 5}}), 3),
      withWindow(makeCase(1, 200, 1, 16, true), 70),
      withWindow(withDocuments(makeCase(1, 140, 2, 16, true, 1), {{90, 50}}),
                 65),
      withWindow(makeCase(1, 128, 1, 64, true), 40),
      withWindow(withLengths(makeCase(1, 100, 1, 96, true), {40}), 20),
  };
}
} // namespace

// A row may meet keys one by one: what was summed is multiplied by an
// exponential and added to for each. Where tensor cores take them, P and T are
// bf16.
TEST_P(KernelTest, AttentionAndItsGradients) {
  std::vector<Launches> all;
  for (bool isNarrow : {false, true})
    for (const Case &x : makeCases())
      all.emplace_back(kernels, x, isNarrow);
  ASSERT_EQ(kernels.compile(), "");
  for (auto [number, launches] : llvm::enumerate(all)) {
    bool isNarrow = number >= all.size() / 2;
    double narrow = isNarrow ? 0x1p-8 : 0;
    Accuracy accuracy = {.roundings = 4, .stored = narrow, .factors = narrow};
    ASSERT_NO_FATAL_FAILURE(
        expectAll(launches.getCase(), launches.run(), accuracy))
        << "case " << number;
  }
}

// Queries of a cache have what they have in a whole sequence; those of an empty
// slot have zeros.
TEST_P(KernelTest, AttentionOfCaches) {
  using attention_test::makeCase;
  constexpr int64_t kQueries = 3, kSlots = 2;
  std::vector<Launches> wholes;
  std::vector<size_t> launches;
  std::vector<std::pair<size_t, size_t>> pieces;
  std::vector<AttentionExtents> all;
  for (int64_t window : {0, 6}) {
    Case x = withWindow(makeCase(1, 40, 4, 16, true, 2, false), window);
    wholes.emplace_back(kernels, x, /*isNarrow=*/false);
    AttentionExtents extents = {kSlots, kQueries, 4,    2,    16,
                                64,     32,       true, true, true};
    if (window != 0)
      extents.window = window;
    extents.capacity = 40;
    all.push_back(extents);
    launches.push_back(kernels.add(Attention{extents}));
    // Three pieces, the last one shorter; windows leave some empty.
    pieces.push_back({kernels.add(AttentionPieces{extents, 16}),
                      kernels.add(AttentionOfPieces{extents, 16})});
  }
  ASSERT_EQ(kernels.compile(), "");
  Ints positions = {7, 39, 20, -1, -1, -1}, lengths = {40, 0};
  for (size_t number = 0; number != launches.size(); ++number) {
    const AttentionExtents &extents = all[number];
    const Case &x = wholes[number].getCase();
    const int64_t width = x.hidden(), kvWidth = x.kvHidden();
    Result whole = wholes[number].run();
    Floats q, caches[2], out = unset(extents.getOutSize()),
                         lse = unset(extents.getRows());
    for (int32_t position : positions) {
      auto row = x.inputs.begin() + std::max(position, 0) * width;
      q.insert(q.end(), row, row + width);
    }
    for (int part : {1, 2}) {
      Floats &cache = caches[part - 1];
      auto begin = x.inputs.begin() + x.begin(part);
      cache.assign(begin, begin + 40 * kvWidth);
      cache.resize(kSlots * 40 * kvWidth,
                   std::numeric_limits<float>::quiet_NaN());
    }
    std::vector<void *> buffers = {
        q.data(),         caches[0].data(), caches[1].data(), lengths.data(),
        positions.data(), out.data(),       lse.data()};
    std::vector<size_t> bytes;
    for (size_t count :
         {q.size(), caches[0].size(), caches[1].size(), lengths.size(),
          positions.size(), out.size(), lse.size()})
      bytes.push_back(count * 4);
    runLaunch(kernels, launches[number], buffers, bytes);
    Floats parts = unset(AttentionPieces{extents, 16}.getSize()),
           outOfPieces = unset(out.size()), lseOfPieces = unset(lse.size());
    buffers.resize(5);
    bytes.resize(5);
    buffers.push_back(parts.data());
    bytes.push_back(parts.size() * 4);
    runLaunch(kernels, pieces[number].first, buffers, bytes);
    runLaunch(kernels, pieces[number].second,
              {parts.data(), outOfPieces.data(), lseOfPieces.data()},
              {parts.size() * 4, out.size() * 4, lse.size() * 4});
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(outOfPieces[i], out[i],
                  4 * 1.5 * (8 * 40 + 200) * attention_test::u);
    for (size_t i = 0; i < lse.size(); ++i)
      ASSERT_NEAR(lseOfPieces[i], lse[i],
                  4 * (4 * 40 + 100) * attention_test::u);
    for (int64_t i = 0; i < kSlots * kQueries; ++i)
      for (int64_t c = 0; c < width; ++c) {
        const int32_t position = positions[i];
        const float expected =
            position < 0 ? 0 : whole.out[position * width + c];
        // Values are below 1.5 and scores below 9: twice the bound on out.
        ASSERT_NEAR(out[i * width + c], expected,
                    2 * 1.5 * (8 * 40 + 200) * attention_test::u)
            << number << " " << i << " " << c;
      }
    for (int64_t n = 0; n < 4; ++n)
      for (int64_t i = 0; i < kQueries; ++i) {
        ASSERT_NEAR(lse[n * kQueries + i], whole.lse[n * 40 + positions[i]],
                    2 * (4 * 40 + 100) * attention_test::u);
        ASSERT_EQ(lse[(4 + n) * kQueries + i], 0);
      }
  }
}

// In pages keys are those of their positions, to the bit; an entry beyond the
// pool is its nearest page.
TEST_P(KernelTest, AttentionOfPages) {
  constexpr int64_t kPage = optimus_support::kPageTokens, kSlots = 2;
  AttentionExtents whole = {kSlots, 1, 4, 2, 16, 64, 32, true, true, true};
  whole.capacity = 2 * kPage;
  AttentionExtents paged = whole;
  paged.pool = 4;
  const size_t launches[] = {kernels.add(Attention{whole}),
                             kernels.add(Attention{paged})};
  const size_t pieces[] = {kernels.add(AttentionPieces{whole, kPage}),
                           kernels.add(AttentionPieces{paged, kPage})};
  ASSERT_EQ(kernels.compile(), "");
  const int64_t size = kPage * whole.kvStride;
  Floats q = random(whole.getQSize());
  Floats pools[2] = {random(4 * size), random(4 * size)}, caches[2];
  // Pages 3 and 0, and 1 and 3.
  Ints positions = {100, 70}, lengths = {101, 71}, pages = {3, 0, -1, 99};
  for (int part : {0, 1})
    for (int64_t page : {3, 0, 1, 3})
      caches[part].insert(caches[part].end(), pools[part].begin() + page * size,
                          pools[part].begin() + (page + 1) * size);
  Floats out[2], lse[2], parts[2];
  for (int i : {0, 1}) {
    out[i] = unset(whole.getOutSize());
    lse[i] = unset(whole.getRows());
    Floats *keys = i == 0 ? caches : pools;
    std::vector<void *> buffers = {
        q.data(),         keys[0].data(), keys[1].data(), lengths.data(),
        positions.data(), pages.data(),   out[i].data(),  lse[i].data()};
    std::vector<size_t> bytes;
    for (size_t count :
         {q.size(), keys[0].size(), keys[1].size(), lengths.size(),
          positions.size(), pages.size(), out[i].size(), lse[i].size()})
      bytes.push_back(count * 4);
    if (i == 0) {
      buffers.erase(buffers.begin() + 5);
      bytes.erase(bytes.begin() + 5);
    }
    runLaunch(kernels, launches[i], buffers, bytes);
    parts[i].resize(AttentionPieces{whole, kPage}.getSize());
    buffers.resize(buffers.size() - 2);
    bytes.resize(bytes.size() - 2);
    buffers.push_back(parts[i].data());
    bytes.push_back(parts[i].size() * 4);
    runLaunch(kernels, pieces[i], buffers, bytes);
  }
  EXPECT_EQ(parts[1], parts[0]);
  EXPECT_EQ(out[1], out[0]);
  EXPECT_EQ(lse[1], lse[0]);
}

namespace {
/// Unattended positions have no gradient, and their contents do not matter.
void expectPaddingLeftOut(CompiledKernels &kernels, const Case &x,
                          bool isNarrow) {
  Case other = x;
  for (int64_t b = 0; b < x.desc.batch; ++b)
    for (int64_t i = x.lengths[b]; i < x.desc.seq; ++i)
      for (int part : {1, 2})
        for (int64_t c = 0; c < x.kvHidden(); ++c)
          other
              .inputs[x.begin(part) + (b * x.desc.seq + i) * x.desc.kv_ld + c] =
              std::numeric_limits<float>::infinity();
  Launches launches(kernels, x, isNarrow), others(kernels, other, isNarrow);
  ASSERT_EQ(kernels.compile(), "");
  Result result = launches.run(), otherResult = others.run();
  EXPECT_EQ(result.out, otherResult.out);
  EXPECT_EQ(result.lse, otherResult.lse);
  EXPECT_EQ(result.grads, otherResult.grads);
  for (int64_t b = 0; b < x.desc.batch; ++b)
    for (int64_t i = x.lengths[b]; i < x.desc.seq; ++i)
      for (int part : {1, 2})
        for (int64_t c = 0; c < x.kvHidden(); ++c)
          EXPECT_EQ(result.grads[x.begin(part) +
                                 (b * x.desc.seq + i) * x.desc.kv_ld + c],
                    0);
}
} // namespace

TEST_P(KernelTest, AttentionLeavesPaddingOut) {
  using attention_test::makeCase;
  expectPaddingLeftOut(
      kernels, withLengths(makeCase(2, 9, 2, 8, false, 1), {4, 7}), false);
}

TEST_P(KernelTest, NarrowAttentionLeavesPaddingOut) {
  using attention_test::makeCase;
  expectPaddingLeftOut(
      kernels, withLengths(makeCase(2, 70, 2, 16, false, 1), {4, 68}), true);
}

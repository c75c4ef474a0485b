//===- ShardFileTest.cpp - Shards out of a file of whole tensors ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../ShardFile.h"

#include "CheckpointFixture.h"

#include <numeric>

using namespace optrt;
using namespace optimus_support;

namespace {
class ShardFile : public CheckpointTest {
protected:
  /// A file with `skip` bytes and then elements 0, 1, 2, ...
  std::vector<float> writeElements(int64_t count, size_t skip) {
    std::vector<float> whole(count);
    std::iota(whole.begin(), whole.end(), 0.0f);
    std::string bytes(skip, '!');
    bytes.append(reinterpret_cast<const char *>(whole.data()),
                 whole.size() * sizeof(float));
    writeFile(root + "/file", bytes);
    return whole;
  }

  InputFile open() {
    auto file = InputFile::open(root + "/file", StatusCode::InvalidArgument);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(*file) : InputFile();
  }
};
} // namespace

// Runs of a few bytes and of a megabyte, gaps read through or not, windows that
// end within a row.
TEST_F(ShardFile, ShardsAreThoseOfTheWholeTensor) {
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<std::vector<int>> axes;
  };
  const Tensor tensors[] = {
      {{700, 1000}, {{0}, {1}}}, // rows beside each other
      {{700, 1000}, {{1}, {0}}}, //
      {{9, 60000}, {{}, {0}}},   // long runs, long gaps
      {{40, 3, 12, 50}, {{0}, {}, {1}, {}}},
      {{300000}, {{0, 1}}},     // one run
      {{100001, 3}, {{}, {1}}}, // runs of one element
      {{3, 5}, {{0}, {1}}},     // more ranks than elements
      {{}, {}},
  };
  constexpr size_t skip = 24;
  for (auto [rows, cols] : {std::pair(1, 1), {2, 3}, {4, 4}}) {
    Mesh mesh({{"row", rows}, {"col", cols}});
    for (const Tensor &tensor : tensors) {
      ShardLayout layout{tensor.shape, tensor.shape, tensor.axes};
      for (size_t d = 0; d < tensor.shape.size(); ++d) {
        int64_t parts = mesh.combinedSize(tensor.axes[d]);
        layout.localShape[d] = (tensor.shape[d] + parts - 1) / parts;
      }
      std::vector<float> whole = writeElements(layout.numElements(), skip);
      InputFile file = open();
      for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
        std::vector<float> expected(layout.numLocalElements());
        layout.slice(mesh, rank, whole.data(), expected.data());
        std::vector<float> found(expected.size(), -1.0f);
        Status read = readShard(file, skip, layout, mesh, rank, 0, found);
        ASSERT_TRUE(read.ok()) << read.message();
        ASSERT_EQ(found == expected, true)
            << shapeToString(tensor.shape) << " rank " << rank << " of "
            << mesh.toString();
        // In three pieces, of which only the first begins with a row.
        std::ranges::fill(found, -1.0f);
        for (size_t begin = 0, size = expected.size() / 3 + 1;
             begin < expected.size(); begin += size) {
          auto piece = std::span(found).subspan(
              begin, std::min(size, expected.size() - begin));
          read = readShard(file, skip, layout, mesh, rank, begin, piece);
          ASSERT_TRUE(read.ok()) << read.message();
        }
        ASSERT_EQ(found == expected, true)
            << "in pieces: " << shapeToString(tensor.shape) << " rank " << rank
            << " of " << mesh.toString();
      }
    }
  }
}

TEST_F(ShardFile, AFileThatShrinksWhileItIsReadIsNamed) {
  std::vector<float> whole = writeElements(1000, 0);
  InputFile file = open();
  EXPECT_TRUE(file.checkUnchanged().ok());
  std::filesystem::resize_file(root + "/file", 1996);
  Mesh mesh({{"row", 1}});
  ShardLayout layout{{1000}, {1000}, {{}}};
  Status read = readShard(file, 0, layout, mesh, 0, 0, whole);
  EXPECT_EQ(read.code(), StatusCode::DataLoss);
  EXPECT_EQ(read.message(),
            root + "/file changed while it was read: it ends at byte 1996, it "
                   "had 4000 bytes when it was opened");
  EXPECT_EQ(file.checkUnchanged().code(), StatusCode::DataLoss);
}

TEST_F(ShardFile, AFileThatIsWrittenToIsNoticed) {
  writeElements(10, 0);
  InputFile file = open();
  // Times of files advance with the kernel's clock tick.
  std::filesystem::last_write_time(
      root + "/file",
      std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
  Status changed = file.checkUnchanged();
  EXPECT_EQ(changed.code(), StatusCode::DataLoss);
  EXPECT_NE(changed.message().find("file changed while it was read"),
            std::string::npos)
      << changed.message();
  // To delete its name is not to change it: savers replace whole folders.
  InputFile again = open();
  std::filesystem::remove(root + "/file");
  EXPECT_TRUE(again.checkUnchanged().ok());
}

// Linux has one regular file whose first byte cannot be read.
TEST_F(ShardFile, WhatTheDiskSaysIsPassedOn) {
  auto file = InputFile::open("/proc/self/mem", StatusCode::InvalidArgument);
  if (!file.ok())
    GTEST_SKIP() << file.status().message();
  float value;
  Status read = file->read(0, &value, sizeof(value));
  EXPECT_EQ(read.code(), StatusCode::DataLoss);
  EXPECT_EQ(read.message(), "cannot read /proc/self/mem from byte 0 on: "
                            "Input/output error");
}

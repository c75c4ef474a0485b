//===- StoreFuzzer.cpp - Indexes of stores of tokens ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An input is index.json; beside it lie shards of 8, 24 and 16 bytes, and one
// of 8 held out. Of an index that is accepted every token must be readable.
//
//===----------------------------------------------------------------------===//

#include "TensorFolder.h"
#include "optimus-runtime/Dataset.h"

#include <fstream>
#include <vector>

using namespace optimus_fuzz;
using namespace optrt;

static void writeShard(const std::string &name, size_t bytes) {
  std::filesystem::create_directories(
      std::filesystem::path(folder() + "/" + name).parent_path());
  std::ofstream(folder() + "/" + name) << std::string(bytes, '\1');
}

static void readAll(const Dataset &data) {
  const int64_t windows = data.numWindows();
  std::vector<int32_t> tokens(data.sequence()), targets(data.sequence());
  if (data.numTokens() > 48 || windows < 1)
    std::abort();
  for (int64_t window = 0; window != windows; ++window) {
    // A vocabulary may be smaller than the tokens that are there.
    Status status =
        data.fillBatch(window, 1, 0, 1, tokens.data(), targets.data());
    if (!status.ok() && status.code() != StatusCode::DataLoss)
      std::abort();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool written = [] {
    writeShard("train/00000.bin", 8);
    writeShard("train/00001.bin", 24);
    writeShard("train/00002.bin", 16);
    writeShard("held-out/00000.bin", 8);
    // Of tokens of a byte.
    writeShard("train/00000.labels", 1);
    writeShard("train/00001.labels", 3);
    writeShard("train/00002.labels", 2);
    writeShard("held-out/00000.labels", 1);
    return true;
  }();
  (void)written;
  std::ofstream(folder() + "/index.json", std::ios::binary)
      << std::string_view(reinterpret_cast<const char *>(data), size);
  for (StoreSplit split : {StoreSplit::Train, StoreSplit::HeldOut}) {
    auto opened = Dataset::open(folder(), /*sequence=*/1, /*vocabulary=*/70000,
                                DataOrder::Shuffled, /*seed=*/1, std::nullopt,
                                std::nullopt, split);
    if (opened.ok())
      readAll(**opened);
  }
  return 0;
}

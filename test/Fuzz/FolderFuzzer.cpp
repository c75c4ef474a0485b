//===- FolderFuzzer.cpp - Folders of weights that others wrote ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// An input is config.json, a line "====", the JSON header of a file of tensors,
// another such line and that of a second file, and then an index, which names
// them a.safetensors and b.safetensors. Without an index the first file is
// model.safetensors. What is accepted is written again, and must be read then.
//
//===----------------------------------------------------------------------===//

#include "TensorFolder.h"
#include "optimus-runtime/WeightExport.h"

#include <fstream>

using namespace optimus_fuzz;
using namespace optrt;

namespace {

void put(const std::string &name, std::string_view contents) {
  std::ofstream(folder() + "/hf/" + name, std::ios::binary) << contents;
}

/// Writes what was opened, and opens it.
void writeAgain(const Checkpoint &weights, WeightExportOptions options) {
  const std::string out = folder() + "/out";
  options.shardLimitBytes = 64;
  const bool written = exportWeights(weights, out, options).ok();
  if (written && !Checkpoint::open(out).ok())
    std::abort();
  std::filesystem::remove_all(out);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::filesystem::remove_all(folder() + "/hf");
  std::filesystem::create_directory(folder() + "/hf");
  std::string_view text(reinterpret_cast<const char *>(data), size);
  put("config.json", takePart(text));
  const std::string first = safetensors(takePart(text));
  const std::string second = safetensors(takePart(text));
  if (const std::string_view index = takePart(text); index.empty()) {
    put("model.safetensors", first);
  } else {
    put("a.safetensors", first);
    put("b.safetensors", second);
    put("model.safetensors.index.json", index);
  }

  auto weights = Checkpoint::open(folder() + "/hf");
  if (!weights.ok())
    return 0;
  writeAgain(**weights, {});
  ExpectedModel model;
  const std::span<const TensorInfo> found =
      (*weights)->tensors(CheckpointFile::Model);
  model.params.assign(found.begin(), found.end());
  model.record.function = ModelFunction{
      1,
      "9f86d081884c7d65",
      {{"heads", {"2", "--heads"}}, {"rope_theta", {"10000.0", ""}}}};
  if (!(*weights)->findParameters(model).ok())
    return 0;
  for (const TensorInfo &param : model.params)
    if (!(*weights)->readTensor(param.name).ok())
      std::abort();
  WeightExportOptions options;
  options.type = optimus_support::ElementType::BF16;
  writeAgain(**weights, options);
  return 0;
}

//===- CheckpointFuzzer.cpp - Checkpoints whose checksums are right -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// An input is state.json, a line "====", the JSON header of model.safetensors,
// another such line and that of optimizer.safetensors. The files that they make
// get the sizes and checksums that state.json must list, or nothing beyond the
// first check would ever be reached.
//
//===----------------------------------------------------------------------===//

#include "TensorFolder.h"
#include "checkpoint/CheckpointState.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-support/Hash.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace optimus_fuzz;
using namespace optrt;
using nlohmann::json;

namespace {

std::string hashOf(std::string_view bytes) {
  return optimus_support::hashToHex(optimus_support::hash64(bytes));
}

/// Writes a file of the checkpoint and what state.json must say of it: piece by
/// piece, where it says something of pieces.
void put(const std::string &name, const std::string &contents, json &state) {
  std::ofstream(folder() + "/" + name, std::ios::binary) << contents;
  json *files =
      state.is_object() && state.contains("files") ? &state["files"] : nullptr;
  if (!files || !files->is_object() || !files->contains(name))
    return;
  json &record = (*files)[name];
  json pieceBytes;
  if (record.is_object() && record.contains("pieces") &&
      record["pieces"].is_object())
    pieceBytes = record["pieces"].value("size", json());
  if (!pieceBytes.is_number_unsigned() || pieceBytes == 0) {
    record = {{"size", contents.size()}, {"xxh64", hashOf(contents)}};
    return;
  }
  const size_t size = pieceBytes, dataBegin = contents.size() - kDataBytes;
  std::string hashes;
  for (size_t begin = dataBegin, bytes; begin < contents.size();
       begin += bytes) {
    bytes = std::min(size - begin % size, contents.size() - begin);
    hashes += hashOf(std::string_view(contents).substr(begin, bytes));
  }
  const std::string header = hashOf(contents.substr(0, dataBegin));
  record = {{"size", contents.size()},
            {"header", {{"size", dataBegin}, {"xxh64", header}}},
            {"pieces", {{"size", size}, {"xxh64", hashes}}}};
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  std::string_view stateText = takePart(text);
  json state = json::parse(stateText, nullptr, /*allow_exceptions=*/false);
  put("model.safetensors", safetensors(takePart(text)), state);
  put("optimizer.safetensors", safetensors(takePart(text)), state);
  put("config.json", std::string(kDataBytes, ' '), state);
  std::string repaired(stateText);
  if (state.is_object()) {
    state.erase("xxh64");
    try {
      state["xxh64"] =
          optimus_support::hashToHex(optimus_support::hash64(state.dump()));
      repaired = state.dump();
    } catch (const json::exception &) {
      // Not UTF-8: as it is.
    }
  }
  std::ofstream(folder() + "/state.json", std::ios::binary) << repaired;

  auto checkpoint = Checkpoint::open(folder());
  if (!checkpoint.ok() || !(*checkpoint)->readCompanions().ok())
    return 0;
  for (CheckpointFile file : {CheckpointFile::Model, CheckpointFile::Optimizer})
    for (const TensorInfo &info : (*checkpoint)->tensors(file))
      if (!(*checkpoint)->readTensor(info.name).ok())
        std::abort();
  return 0;
}

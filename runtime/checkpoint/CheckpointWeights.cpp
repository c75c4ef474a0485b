//===- CheckpointWeights.cpp - Folders of weights alone -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointImpl.h"

#include "Safetensors.h"
#include "WeightConfig.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Shard.h"

#include <algorithm>
#include <filesystem>
#include <utility>

using namespace optrt;
using namespace optimus_support;

Status Checkpoint::Impl::openWeights(const CheckpointReaderOptions &options) {
  weights.emplace();
  state.order = "shuffled";
  OPTRT_ASSIGN_OR_RETURN(WeightFiles found,
                         openWeightFiles(path, options.base));
  std::string identity;
  for (InputFile &file : found.tensors) {
    const std::string name = std::filesystem::path(file.path()).filename();
    OPTRT_ASSIGN_OR_RETURN(std::string header, readSafetensorsHeader(file));
    identity +=
        concat(name, " ", file.size(), " ", hashToHex(hash64(header)), "\n");
    weights->headers.push_back(std::move(header));
    files.push_back(
        {{name, static_cast<int64_t>(file.size())}, std::move(file)});
  }
  if (found.config)
    identity += hashToHex(hash64(found.config->text));
  fingerprint = hashToHex(hash64(identity));
  weights->config = std::move(found.config);
  weights->base = std::move(found.base);
  weights->index = std::move(found.index);
  return okStatus();
}

Status Checkpoint::Impl::readWeightHeaders() {
  const std::vector<std::string> headers = std::exchange(weights->headers, {});
  for (size_t i = 0; i != files.size(); ++i) {
    const InputFile &file = files[i].file;
    OPTRT_ASSIGN_OR_RETURN(
        std::vector<TypedTensor> found,
        readTypedSafetensors(headers[i], file.size(), file.path()));
    for (TypedTensor &tensor : found) {
      TensorInfo &info = tensor.extent.info;
      OPTRT_RETURN_IF_ERROR(addTensor(info, weights->stored.size(),
                                      CheckpointFile::Model, files[i]));
      weights->stored.push_back(
          {std::move(info), std::move(tensor.type), i, tensor.extent.offset});
    }
  }
  // Files may have more tensors than their index names.
  return weights->index ? checkIndex(*weights->index).status() : okStatus();
}

Status Checkpoint::Impl::matchParameters(const ExpectedModel &expected,
                                         std::span<const std::string> ignored) {
  if (weights->config)
    OPTRT_RETURN_IF_ERROR(
        checkWeightConfig(weights->config->text, weights->config->path,
                          expected.record.function, expected.config));
  OPTRT_RETURN_IF_ERROR(checkAdapter(expected));
  OPTRT_ASSIGN_OR_RETURN(
      WeightMatch match,
      matchWeights(path, weights->stored, expected.params, ignored));
  for (const WeightMatch::Tie &tie : match.ties)
    OPTRT_RETURN_IF_ERROR(checkTie(tie));

  weights->notes = std::move(match.notes);
  infos[int(CheckpointFile::Model)].clear();
  tensors.clear();
  for (size_t i = 0; i != files.size(); ++i) {
    // In the file's order, so that reading goes forward.
    std::vector<size_t> chosen;
    for (size_t param = 0; param != expected.params.size(); ++param)
      if (match.tensors[param] != WeightMatch::kNone &&
          weights->stored[match.tensors[param]].file == i)
        chosen.push_back(param);
    std::ranges::sort(chosen, {}, [&](size_t param) {
      return weights->stored[match.tensors[param]].offset;
    });
    TensorFileExtent extent{
        CheckpointFile::Model, 0, 0, kDefaultPieceBytes, {}};
    for (size_t param : chosen) {
      const TensorInfo &info = expected.params[param];
      const size_t bytes =
          size_t(optimus_support::numElements(info.shape)) * sizeof(float);
      extent.tensors.push_back({info, extent.bytes, bytes});
      extent.bytes += bytes;
      tensors[info.name] = {weights->numbers.size(), CheckpointFile::Model,
                            infos[int(CheckpointFile::Model)].size(),
                            files[i].record.name};
      infos[int(CheckpointFile::Model)].push_back(info);
      weights->numbers.push_back(match.tensors[param]);
    }
    pieces.addFile(std::move(extent));
    tensorFiles.push_back(&files[i]);
  }
  return okStatus();
}

Status Checkpoint::Impl::readWeight(size_t number, int64_t begin,
                                    std::span<float> elements,
                                    std::vector<std::byte> &stored) const {
  const StoredWeight &weight = weights->stored[number];
  const ElementType type = *findWeightType(weight.type);
  const InputFile &file = files[weight.file].file;
  const size_t offset = weight.offset + size_t(begin * elementBytes(type));
  if (type == ElementType::F32)
    return file.read(offset, elements.data(), elements.size_bytes());
  stored.resize(elements.size() * size_t(elementBytes(type)));
  OPTRT_RETURN_IF_ERROR(file.read(offset, stored.data(), stored.size()));
  widen(type, stored, elements);
  return okStatus();
}

Status Checkpoint::Impl::readElements(size_t piece, size_t begin,
                                      std::span<float> elements,
                                      std::vector<std::byte> &stored) const {
  for (const TensorPart &part : pieces.parts(piece, begin, elements.size())) {
    OPTRT_RETURN_IF_ERROR(readWeight(weights->numbers[part.tensor], part.begin,
                                     elements.first(part.count), stored));
    elements = elements.subspan(part.count);
  }
  return okStatus();
}

Status Checkpoint::Impl::checkTie(const WeightMatch::Tie &tie) const {
  const StoredWeight &copy = weights->stored[tie.copy],
                     &original = weights->stored[tie.original];
  const int64_t count = numElements(copy.info.shape);
  std::vector<float> first, second;
  std::vector<std::byte> stored;
  for (int64_t begin = 0; begin < count; begin += int64_t(first.size())) {
    first.resize(
        std::min(size_t(count - begin), kDefaultPieceBytes / sizeof(float)));
    second.resize(first.size());
    OPTRT_RETURN_IF_ERROR(readWeight(tie.copy, begin, first, stored));
    OPTRT_RETURN_IF_ERROR(readWeight(tie.original, begin, second, stored));
    auto [one, other] = std::ranges::mismatch(first, second);
    if (one != first.end())
      return invalidArgument(
          concat("the weights in ", path, " are of another model: element ",
                 begin + (one - first.begin()), " of ", copy.info.name, " is ",
                 *one, ", of ", original.info.name, " ", *other,
                 "; the model has one tensor for both"));
  }
  return okStatus();
}

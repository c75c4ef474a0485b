//===- CheckpointWriter.cpp - Saving a model in training ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFolder.h"
#include "CheckpointState.h"
#include "Finite.h"
#include "Safetensors.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-support/Hash.h"
#include "optimus-support/NewFile.h"
#include "optimus-support/Shard.h"

#include <nlohmann/json.hpp>

#include <unordered_map>

using namespace optrt;
using optimus_support::NewFile;

namespace {

/// A file of the checkpoint, and what lies where in it.
struct TensorFile {
  std::string name;
  CheckpointFile kind;
  SafetensorsLayout layout;
  NewFile file;
  optimus_support::Hash64 hash;

  Status append(const void *data, size_t bytes) {
    hash.update(data, bytes);
    return file.append(data, bytes);
  }
};

/// What comes next in the files of one kind.
struct Position {
  size_t file = 0, tensor = 0;
  int64_t element = 0;
};

} // namespace

struct CheckpointWriter::Impl {
  CheckpointWriterOptions options;
  std::unique_ptr<StagingFolder> folder;
  std::vector<TensorInfo> declared[2]; ///< by CheckpointFile
  std::unordered_map<std::string, CheckpointFile> kinds;

  bool laidOut = false;
  Status failure; ///< of the first write that failed: it is final
  std::vector<TensorFile> files;
  Position positions[2]; ///< by CheckpointFile

  Status layOut();
  Status createFile(CheckpointFile kind, const std::string &name,
                    const std::vector<TensorInfo> &tensors);
  Status createFiles();
  /// The tensor that the next element of this kind belongs to; null when all
  /// are whole.
  const TensorExtent *nextTensor(CheckpointFile kind);
  StatusOr<FileRecord> writeSmallFile(const std::string &name,
                                      const std::string &text);
  StatusOr<FileRecord> writeIndex();
};

Status
CheckpointWriter::Impl::createFile(CheckpointFile kind, const std::string &name,
                                   const std::vector<TensorInfo> &tensors) {
  TensorFile &file = files.emplace_back();
  file.name = name;
  file.kind = kind;
  OPTRT_ASSIGN_OR_RETURN(file.layout, layOutSafetensors(tensors));
  OPTRT_ASSIGN_OR_RETURN(
      file.file,
      NewFile::create(folder->path() + "/" + name, file.layout.fileBytes));
  return file.append(file.layout.header.data(), file.layout.header.size());
}

Status CheckpointWriter::Impl::createFiles() {
  const auto &model = declared[int(CheckpointFile::Model)];
  const auto &optimizer = declared[int(CheckpointFile::Optimizer)];
  if (model.empty())
    return internal("a checkpoint without a parameter");

  std::vector<std::vector<TensorInfo>> shards(1);
  int64_t room = options.shardLimitBytes;
  for (const TensorInfo &tensor : model) {
    int64_t bytes =
        optimus_support::numElements(tensor.shape) * int64_t(sizeof(float));
    if (bytes > room && !shards.back().empty()) {
      shards.emplace_back();
      room = options.shardLimitBytes;
    }
    room -= bytes;
    shards.back().push_back(tensor);
  }
  for (size_t i = 0; i < shards.size(); ++i)
    OPTRT_RETURN_IF_ERROR(createFile(
        CheckpointFile::Model,
        shards.size() == 1 ? kModelFile : modelShardName(i, shards.size()),
        shards[i]));
  if (!optimizer.empty())
    OPTRT_RETURN_IF_ERROR(
        createFile(CheckpointFile::Optimizer, kOptimizerFile, optimizer));
  return okStatus();
}

Status CheckpointWriter::Impl::layOut() {
  if (!laidOut) {
    laidOut = true;
    failure = createFiles();
  }
  return failure;
}

const TensorExtent *CheckpointWriter::Impl::nextTensor(CheckpointFile kind) {
  Position &position = positions[int(kind)];
  for (; position.file < files.size(); ++position.file, position.tensor = 0)
    if (files[position.file].kind == kind &&
        position.tensor < files[position.file].layout.tensors.size())
      return &files[position.file].layout.tensors[position.tensor];
  return nullptr;
}

StatusOr<FileRecord>
CheckpointWriter::Impl::writeSmallFile(const std::string &name,
                                       const std::string &text) {
  OPTRT_ASSIGN_OR_RETURN(
      NewFile file,
      NewFile::create(folder->path() + "/" + name, text.size()));
  OPTRT_RETURN_IF_ERROR(file.append(text.data(), text.size()));
  OPTRT_RETURN_IF_ERROR(file.sync());
  return FileRecord{name, int64_t(text.size()), optimus_support::hash64(text)};
}

/// Writes Hugging Face's index of a sharded model.
StatusOr<FileRecord> CheckpointWriter::Impl::writeIndex() {
  nlohmann::json index;
  int64_t total = 0;
  for (const TensorFile &file : files) {
    if (file.kind != CheckpointFile::Model)
      continue;
    for (const TensorExtent &tensor : file.layout.tensors) {
      index["weight_map"][tensor.info.name] = file.name;
      total += tensor.bytes;
    }
  }
  index["metadata"]["total_size"] = total;
  return writeSmallFile(kModelIndexFile, index.dump(2) + "\n");
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}
CheckpointWriter::~CheckpointWriter() = default;

StatusOr<std::unique_ptr<CheckpointWriter>>
CheckpointWriter::create(const std::string &dir,
                         CheckpointWriterOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  OPTRT_ASSIGN_OR_RETURN(impl->folder, StagingFolder::create(dir));
  return std::unique_ptr<CheckpointWriter>(
      new CheckpointWriter(std::move(impl)));
}

Status CheckpointWriter::addTensor(CheckpointFile file, const std::string &name,
                                   std::span<const int64_t> shape) {
  if (impl->laidOut)
    return internal(
        concat("the tensor ", name, " is declared after writing has begun"));
  if (!impl->kinds.emplace(name, file).second)
    return internal(
        concat("a checkpoint cannot hold two tensors called ", name));
  if (optimus_support::numElements(shape) < 1)
    return internal(concat("the tensor ", name, " has no elements"));
  impl->declared[int(file)].push_back({name, {shape.begin(), shape.end()}});
  return okStatus();
}

Status CheckpointWriter::append(const std::string &name,
                                std::span<const float> elements) {
  OPTRT_RETURN_IF_ERROR(impl->layOut());
  auto found = impl->kinds.find(name);
  if (found == impl->kinds.end())
    return internal(concat("the tensor ", name,
                           " is written to a checkpoint but not declared"));
  CheckpointFile kind = found->second;
  const TensorExtent *next = impl->nextTensor(kind);
  if (!next || next->info.name != name)
    return internal(concat("the tensor ", name,
                           " is written to a checkpoint where ",
                           next ? next->info.name : "nothing", " comes next"));
  Position &position = impl->positions[int(kind)];
  int64_t count = int64_t(elements.size());
  int64_t size = optimus_support::numElements(next->info.shape);
  if (count > size - position.element)
    return internal(concat("cannot write ", count, " elements from ",
                           position.element, " on of the tensor ", name,
                           ", which has ", size));
  if (const float *bad = findNotFinite(elements))
    return impl->failure = invalidArgument(
               concat("the tensor ", name,
                      " has an element that is not finite (", *bad, ")"));
  position.element += count;
  TensorFile &file = impl->files[position.file];
  if (position.element == size) {
    ++position.tensor;
    position.element = 0;
  }
  return impl->failure = file.append(elements.data(), elements.size_bytes());
}

Status CheckpointWriter::commit(const TrainingState &state) {
  OPTRT_RETURN_IF_ERROR(impl->layOut());
  for (CheckpointFile kind : {CheckpointFile::Model, CheckpointFile::Optimizer})
    if (const TensorExtent *next = impl->nextTensor(kind))
      return internal(concat("of the tensor ", next->info.name, ", ",
                             impl->positions[int(kind)].element,
                             " elements were written to the checkpoint, not ",
                             optimus_support::numElements(next->info.shape)));

  std::vector<FileRecord> records;
  size_t modelFiles = 0;
  for (TensorFile &file : impl->files) {
    modelFiles += file.kind == CheckpointFile::Model;
    records.push_back(
        {file.name, int64_t(file.layout.fileBytes), file.hash.digest()});
    OPTRT_RETURN_IF_ERROR(file.file.sync());
  }
  if (modelFiles > 1) {
    OPTRT_ASSIGN_OR_RETURN(FileRecord index, impl->writeIndex());
    records.push_back(index);
  }
  OPTRT_RETURN_IF_ERROR(
      impl->writeSmallFile(kStateFile, formatState(state, records)).status());
  impl->files.clear();
  return impl->folder->place(impl->options.useExchange);
}

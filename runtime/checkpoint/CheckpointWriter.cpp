//===- CheckpointWriter.cpp - Saving a model in training ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFolder.h"
#include "CheckpointState.h"
#include "Safetensors.h"
#include "core/MappedFile.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Shard.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>

using namespace optrt;

namespace {

/// A file of the checkpoint, and what lies where in it.
struct TensorFile {
  std::string name;
  SafetensorsLayout layout;
  MappedFile file;
};

struct Slot {
  float *data = nullptr;
  int64_t elements = 0;
  std::atomic<int64_t> written = 0;
};

} // namespace

struct CheckpointWriter::Impl {
  CheckpointWriterOptions options;
  std::unique_ptr<StagingFolder> folder;
  std::vector<TensorInfo> declared[2]; ///< by CheckpointFile
  std::unordered_map<std::string, Slot> slots;

  std::mutex mutex; ///< of the first layOut
  std::atomic<bool> laidOut = false;
  Status layOutStatus;
  std::vector<TensorFile> files;

  Status layOut();
  Status createFile(const std::string &name,
                    const std::vector<TensorInfo> &tensors);
  Status createFiles();
  StatusOr<Slot *> findSlot(const std::string &name);
  StatusOr<FileRecord> writeSmallFile(const std::string &name,
                                      const std::string &text);
  StatusOr<FileRecord> writeIndex();
};

Status
CheckpointWriter::Impl::createFile(const std::string &name,
                                   const std::vector<TensorInfo> &tensors) {
  TensorFile &file = files.emplace_back();
  file.name = name;
  OPTRT_ASSIGN_OR_RETURN(file.layout, layOutSafetensors(tensors));
  OPTRT_ASSIGN_OR_RETURN(
      file.file,
      MappedFile::create(folder->path() + "/" + name, file.layout.fileBytes));
  std::memcpy(file.file.mutableData(), file.layout.header.data(),
              file.layout.header.size());
  for (const TensorExtent &tensor : file.layout.tensors)
    slots.at(tensor.info.name).data =
        reinterpret_cast<float *>(file.file.mutableData() + tensor.offset);
  return okStatus();
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
        shards.size() == 1 ? kModelFile : modelShardName(i, shards.size()),
        shards[i]));
  if (!optimizer.empty())
    OPTRT_RETURN_IF_ERROR(createFile(kOptimizerFile, optimizer));
  return okStatus();
}

Status CheckpointWriter::Impl::layOut() {
  if (laidOut.load(std::memory_order_acquire))
    return layOutStatus;
  std::lock_guard<std::mutex> lock(mutex);
  if (!laidOut.load(std::memory_order_relaxed)) {
    layOutStatus = createFiles();
    laidOut.store(true, std::memory_order_release);
  }
  return layOutStatus;
}

StatusOr<Slot *> CheckpointWriter::Impl::findSlot(const std::string &name) {
  OPTRT_RETURN_IF_ERROR(layOut());
  auto found = slots.find(name);
  if (found == slots.end())
    return internal(concat("the tensor ", name,
                           " is written to a checkpoint but not declared"));
  return &found->second;
}

StatusOr<FileRecord>
CheckpointWriter::Impl::writeSmallFile(const std::string &name,
                                       const std::string &text) {
  OPTRT_ASSIGN_OR_RETURN(
      MappedFile file,
      MappedFile::create(folder->path() + "/" + name, text.size()));
  std::memcpy(file.mutableData(), text.data(), text.size());
  OPTRT_RETURN_IF_ERROR(file.sync());
  return FileRecord{name, int64_t(text.size()), optimus_support::hash64(text)};
}

/// Writes Hugging Face's index of a sharded model.
StatusOr<FileRecord> CheckpointWriter::Impl::writeIndex() {
  nlohmann::json index;
  int64_t total = 0;
  for (const TensorFile &file : files) {
    if (!isModelFileName(file.name))
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
  Slot &slot = impl->slots[name];
  if (slot.elements != 0)
    return internal(
        concat("a checkpoint cannot hold two tensors called ", name));
  slot.elements = optimus_support::numElements(shape);
  if (slot.elements < 1)
    return internal(concat("the tensor ", name, " has no elements"));
  impl->declared[int(file)].push_back({name, {shape.begin(), shape.end()}});
  return okStatus();
}

Status CheckpointWriter::write(const std::string &name, int64_t offset,
                               const float *data, int64_t count) {
  OPTRT_ASSIGN_OR_RETURN(Slot * slot, impl->findSlot(name));
  if (offset < 0 || count < 0 || offset > slot->elements - count)
    return internal(concat("cannot write ", count, " elements from ", offset,
                           " on of the tensor ", name, ", which has ",
                           slot->elements));
  std::memcpy(slot->data + offset, data, count * sizeof(float));
  slot->written += count;
  return okStatus();
}

StatusOr<std::span<float>> CheckpointWriter::buffer(const std::string &name) {
  OPTRT_ASSIGN_OR_RETURN(Slot * slot, impl->findSlot(name));
  slot->written = slot->elements;
  return std::span<float>(slot->data, slot->elements);
}

Status CheckpointWriter::commit(const TrainingState &state) {
  OPTRT_RETURN_IF_ERROR(impl->layOut());
  for (const auto &[name, slot] : impl->slots)
    if (slot.written != slot.elements)
      return internal(concat("of the tensor ", name, ", ", slot.written,
                             " elements were written to the checkpoint, not ",
                             slot.elements));

  std::vector<FileRecord> records;
  size_t modelFiles = 0;
  for (TensorFile &file : impl->files) {
    modelFiles += isModelFileName(file.name);
    records.push_back(
        {file.name, int64_t(file.file.size()),
         optimus_support::hash64(file.file.data(), file.file.size())});
    OPTRT_RETURN_IF_ERROR(file.file.sync());
  }
  if (modelFiles > 1) {
    OPTRT_ASSIGN_OR_RETURN(FileRecord index, impl->writeIndex());
    records.push_back(index);
  }
  OPTRT_RETURN_IF_ERROR(
      impl->writeSmallFile(kStateFile, formatState(state, records)).status());
  impl->files.clear();
  impl->slots.clear();
  return impl->folder->place(impl->options.useExchange);
}

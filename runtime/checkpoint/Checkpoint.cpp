//===- Checkpoint.cpp - Loading a model in training -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Checkpoint.h"

#include "CheckpointFolder.h"
#include "CheckpointState.h"
#include "Safetensors.h"
#include "core/JsonCursor.h"
#include "core/MappedFile.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Shard.h"

#include <filesystem>
#include <map>
#include <unordered_map>

using namespace optrt;
using namespace optimus_support;

namespace {

/// A tensor in a mapped file.
struct MappedTensor {
  std::span<const float> values;
  CheckpointFile file;
  size_t index; ///< in the file's TensorInfos
  std::string fileName;
};

} // namespace

struct Checkpoint::Impl {
  std::string path;
  TrainingState state;
  std::vector<MappedFile> files;
  std::vector<TensorInfo> infos[2]; ///< by CheckpointFile
  std::unordered_map<std::string, MappedTensor> tensors;

  StatusOr<MappedFile> openRecorded(const FileRecord &record,
                                    bool verifyChecksum) const;
  Status addTensors(const MappedFile &file, const std::string &name);
  Status checkIndex(const MappedFile &file, const std::string &name) const;

  /// Null if there is none of that name in that file.
  const TensorInfo *find(CheckpointFile file, const std::string &name) const;
  std::string describeDifference(std::span<const TensorInfo> params) const;
};

/// Maps a file that state.json lists, of the size and checksum it says.
StatusOr<MappedFile> Checkpoint::Impl::openRecorded(const FileRecord &record,
                                                    bool verifyChecksum) const {
  std::string filePath = path + "/" + record.name;
  OPTRT_ASSIGN_OR_RETURN(MappedFile file,
                         MappedFile::open(filePath, StatusCode::DataLoss));
  if (int64_t(file.size()) != record.size)
    return dataLoss(concat(filePath, " is damaged: it has ", file.size(),
                           " bytes, state.json says ", record.size,
                           "; use another checkpoint"));
  if (!verifyChecksum)
    return file;
  uint64_t hash = hash64(file.data(), file.size());
  if (hash != record.hash)
    return dataLoss(concat(filePath, " is damaged: its checksum is ",
                           hashToHex(hash), ", state.json says ",
                           hashToHex(record.hash), "; use another checkpoint"));
  return file;
}

Status Checkpoint::Impl::addTensors(const MappedFile &file,
                                    const std::string &name) {
  std::string filePath = path + "/" + name;
  OPTRT_ASSIGN_OR_RETURN(std::vector<TensorExtent> extents,
                         readSafetensors(file.data(), file.size(), filePath));
  CheckpointFile kind = name == kOptimizerFile ? CheckpointFile::Optimizer
                                               : CheckpointFile::Model;
  for (const TensorExtent &extent : extents) {
    MappedTensor tensor{
        {reinterpret_cast<const float *>(file.data() + extent.offset),
         extent.bytes / sizeof(float)},
        kind,
        infos[int(kind)].size(),
        name};
    if (!tensors.emplace(extent.info.name, tensor).second)
      return dataLoss(concat(filePath, " is damaged: the tensor ",
                             extent.info.name, " is also in another file"));
    infos[int(kind)].push_back(extent.info);
  }
  return okStatus();
}

/// Checks that the index of a sharded model names the file of each tensor.
Status Checkpoint::Impl::checkIndex(const MappedFile &file,
                                    const std::string &name) const {
  std::string_view text(reinterpret_cast<const char *>(file.data()),
                        file.size());
  JsonDocument document(text, concat(path, "/", name, " is damaged"),
                        StatusCode::DataLoss);
  size_t found = 0;
  for (const auto &[tensor, cursor] : document.root()["weight_map"].members()) {
    auto entry = tensors.find(tensor);
    if (entry == tensors.end() || entry->second.fileName != cursor.string())
      cursor.fail(concat("the tensor is not in \"", cursor.string(), "\""));
    ++found;
  }
  OPTRT_RETURN_IF_ERROR(document.status());
  if (found != infos[int(CheckpointFile::Model)].size())
    return dataLoss(concat(path, "/", name, " is damaged: it lists ", found,
                           " tensors, the files have ",
                           infos[int(CheckpointFile::Model)].size()));
  return okStatus();
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;

StatusOr<std::unique_ptr<Checkpoint>>
Checkpoint::open(const std::string &dir, CheckpointReaderOptions options) {
  auto impl = std::make_unique<Impl>();
  OPTRT_ASSIGN_OR_RETURN(impl->path, findCheckpoint(dir));

  std::string statePath = impl->path + "/" + kStateFile;
  std::error_code error;
  if (!std::filesystem::exists(statePath, error))
    return invalidArgument(
        concat(dir, " is not a checkpoint: it has no ", kStateFile));
  OPTRT_ASSIGN_OR_RETURN(MappedFile stateFile,
                         MappedFile::open(statePath, StatusCode::DataLoss));
  std::string_view text(reinterpret_cast<const char *>(stateFile.data()),
                        stateFile.size());
  OPTRT_ASSIGN_OR_RETURN(ParsedState parsed, parseState(text, statePath));
  impl->state = parsed.state;

  size_t index = parsed.files.size();
  for (const FileRecord &record : parsed.files) {
    OPTRT_ASSIGN_OR_RETURN(MappedFile file,
                           impl->openRecorded(record, options.verifyChecksums));
    if (record.name == kModelIndexFile)
      index = impl->files.size();
    else
      OPTRT_RETURN_IF_ERROR(impl->addTensors(file, record.name));
    impl->files.push_back(std::move(file));
  }
  if (index < impl->files.size())
    OPTRT_RETURN_IF_ERROR(
        impl->checkIndex(impl->files[index], kModelIndexFile));
  if (impl->infos[int(CheckpointFile::Model)].empty())
    return dataLoss(concat(statePath, " is damaged: it lists no file with "
                                      "parameters"));
  return std::unique_ptr<Checkpoint>(new Checkpoint(std::move(impl)));
}

const std::string &Checkpoint::path() const { return impl->path; }
const TrainingState &Checkpoint::state() const { return impl->state; }
std::span<const TensorInfo> Checkpoint::tensors(CheckpointFile file) const {
  return impl->infos[int(file)];
}

const TensorInfo *Checkpoint::Impl::find(CheckpointFile file,
                                         const std::string &name) const {
  auto found = tensors.find(name);
  if (found == tensors.end() || found->second.file != file)
    return nullptr;
  return &infos[int(file)][found->second.index];
}

/// How the parameters differ from `params`, or nothing.
std::string
Checkpoint::Impl::describeDifference(std::span<const TensorInfo> params) const {
  std::unordered_map<std::string, bool> expected;
  for (const TensorInfo &param : params) {
    expected[param.name] = true;
    const TensorInfo *found = find(CheckpointFile::Model, param.name);
    if (!found)
      return concat("it has no parameter ", param.name);
    if (found->shape != param.shape)
      return concat("parameter ", param.name, " has shape ",
                    shapeToString(found->shape), ", the model's is ",
                    shapeToString(param.shape));
  }
  for (const TensorInfo &info : infos[int(CheckpointFile::Model)])
    if (!expected.count(info.name))
      return concat("it has a parameter ", info.name,
                    ", which the model does not");
  return "";
}

Status Checkpoint::checkModel(const std::string &modelHash,
                              std::span<const TensorInfo> params,
                              std::span<const std::string_view> states) const {
  std::string difference = impl->describeDifference(params);
  if (impl->state.modelHash != modelHash) {
    if (difference.empty())
      difference = "the parameters are the same, but their order or the "
                   "optimizer is not";
    return invalidArgument(concat(
        "the checkpoint ", impl->path, " is of another model (hash ",
        impl->state.modelHash, ", expected ", modelHash, "): ", difference));
  }
  if (!difference.empty())
    return dataLoss(
        concat("the checkpoint ", impl->path, " is damaged: ", difference));
  for (const TensorInfo &param : params)
    for (std::string_view state : states) {
      std::string name = stateName(state, param.name);
      const TensorInfo *found = impl->find(CheckpointFile::Optimizer, name);
      if (!found)
        return dataLoss(concat("the checkpoint ", impl->path, " is damaged: ",
                               kOptimizerFile, " lacks ", name));
      if (found->shape != param.shape)
        return dataLoss(concat("the checkpoint ", impl->path, " is damaged: ",
                               name, " has shape ", shapeToString(found->shape),
                               ", expected ", shapeToString(param.shape)));
    }
  return okStatus();
}

StatusOr<std::span<const float>>
Checkpoint::readTensor(const std::string &name) const {
  auto found = impl->tensors.find(name);
  if (found == impl->tensors.end())
    return dataLoss(
        concat("the checkpoint ", impl->path, " has no tensor called ", name));
  return found->second.values;
}

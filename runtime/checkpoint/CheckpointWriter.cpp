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
#include "WeightConfig.h"
#include "WeightFiles.h"
#include "WeightTypes.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-support/Hash.h"
#include "optimus-support/NewFile.h"
#include "optimus-support/Shard.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <unordered_set>

using namespace optrt;
using optimus_support::elementBytes;
using optimus_support::ElementType;
using optimus_support::NewFile;

namespace {

/// A file of the checkpoint. What lies where in it the pieces know.
struct TensorFile {
  std::string name, header;
  size_t bytes = 0;
  NewFile file;
};

} // namespace

struct CheckpointWriter::Impl {
  CheckpointWriterOptions options;
  std::unique_ptr<StagingFolder> folder; ///< null where this one has joined
  std::vector<TensorInfo> declared[2];   ///< by CheckpointFile
  std::unordered_set<std::string> names;

  std::vector<TensorFile> files;
  std::vector<CompanionFile> companions;
  CheckpointPieces pieces;
  std::vector<uint64_t> checksums;        ///< one a piece
  std::vector<std::atomic<bool>> isKnown; ///< likewise

  std::mutex mutex;
  Status failure; ///< of the first write that failed: it is final

  Status layOut();
  Status addFile(CheckpointFile kind, std::string name,
                 const std::vector<TensorInfo> &tensors);
  Status createFiles();
  StatusOr<FileRecord> writeSmallFile(const std::string &name,
                                      const std::string &text);
  StatusOr<FileRecord> writeIndex();

  Status fail(Status status) {
    std::lock_guard guard(mutex);
    if (failure.ok())
      failure = std::move(status);
    return failure;
  }
  Status failed() {
    std::lock_guard guard(mutex);
    return failure;
  }
  void know(size_t piece, uint64_t checksum) {
    checksums[piece] = checksum;
    isKnown[piece] = true;
  }
};

Status CheckpointWriter::Impl::addFile(CheckpointFile kind, std::string name,
                                       const std::vector<TensorInfo> &tensors) {
  const ElementType type =
      kind == CheckpointFile::Model ? options.modelType : ElementType::F32;
  OPTRT_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                         layOutSafetensors(tensors, type));
  pieces.addFile({kind, layout.header.size(), layout.fileBytes,
                  options.pieceBytes, std::move(layout.tensors),
                  size_t(elementBytes(type))});
  files.push_back(
      {std::move(name), std::move(layout.header), layout.fileBytes, {}});
  return okStatus();
}

/// Decides where everything lies, from what is declared alone.
Status CheckpointWriter::Impl::layOut() {
  if (!files.empty())
    return internal("a checkpoint is begun twice");
  std::vector<TensorInfo> model, adapters;
  for (const TensorInfo &tensor : declared[int(CheckpointFile::Model)])
    (isAdapterTensor(tensor.name) ? adapters : model).push_back(tensor);
  const auto &optimizer = declared[int(CheckpointFile::Optimizer)];
  if (model.empty() && adapters.empty())
    return internal("a checkpoint without a parameter");

  std::vector<std::vector<TensorInfo>> shards(1);
  int64_t room = options.shardLimitBytes;
  for (const TensorInfo &tensor : model) {
    int64_t bytes = optimus_support::numElements(tensor.shape) *
                    elementBytes(options.modelType);
    if (bytes > room && !shards.back().empty()) {
      shards.emplace_back();
      room = options.shardLimitBytes;
    }
    room -= bytes;
    shards.back().push_back(tensor);
  }
  OPTRT_RETURN_IF_ERROR(
      checkNumModelFiles(shards.size(), options.shardLimitBytes));
  for (size_t i = 0; !model.empty() && i < shards.size(); ++i)
    OPTRT_RETURN_IF_ERROR(addFile(
        CheckpointFile::Model,
        shards.size() == 1 ? kModelFile : modelShardName(i, shards.size()),
        shards[i]));
  if (!adapters.empty())
    OPTRT_RETURN_IF_ERROR(
        addFile(CheckpointFile::Model, kAdapterFile, adapters));
  if (!optimizer.empty())
    OPTRT_RETURN_IF_ERROR(
        addFile(CheckpointFile::Optimizer, kOptimizerFile, optimizer));
  checksums.resize(pieces.size());
  isKnown = std::vector<std::atomic<bool>>(pieces.size());
  return okStatus();
}

Status CheckpointWriter::Impl::createFiles() {
  OPTRT_RETURN_IF_ERROR(layOut());
  size_t bytes = 0;
  for (const TensorFile &file : files)
    bytes += file.bytes;
  OPTRT_RETURN_IF_ERROR(folder->checkRoom(bytes));
  for (TensorFile &file : files) {
    OPTRT_ASSIGN_OR_RETURN(
        file.file,
        NewFile::create(folder->path() + "/" + file.name, file.header.size()));
    OPTRT_RETURN_IF_ERROR(
        file.file.append(file.header.data(), file.header.size()));
    if (file.file.isInMemory())
      OPTRT_RETURN_IF_ERROR(file.file.resize(file.bytes));
  }
  return okStatus();
}

StatusOr<FileRecord>
CheckpointWriter::Impl::writeSmallFile(const std::string &name,
                                       const std::string &text) {
  OPTRT_ASSIGN_OR_RETURN(
      NewFile file, NewFile::create(folder->path() + "/" + name, text.size()));
  OPTRT_RETURN_IF_ERROR(file.append(text.data(), text.size()));
  OPTRT_RETURN_IF_ERROR(file.sync());
  return FileRecord{
      name, int64_t(text.size()), optimus_support::hash64(text), {}};
}

/// Writes Hugging Face's index of a sharded model.
StatusOr<FileRecord> CheckpointWriter::Impl::writeIndex() {
  std::vector<std::pair<std::string, std::string>> places;
  int64_t total = 0;
  for (size_t i = 0; i != files.size(); ++i) {
    if (!isModelFileName(files[i].name))
      continue;
    for (const TensorExtent &tensor : pieces.files()[i].tensors) {
      places.emplace_back(tensor.info.name, files[i].name);
      total += int64_t(tensor.bytes);
    }
  }
  return writeSmallFile(kModelIndexFile, formatIndex(places, total));
}

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : impl(std::make_unique<Impl>()) {
  impl->options = options;
}
CheckpointWriter::~CheckpointWriter() = default;

StatusOr<std::unique_ptr<CheckpointWriter>>
CheckpointWriter::create(const std::string &dir,
                         CheckpointWriterOptions options) {
  auto writer = std::make_unique<CheckpointWriter>(options);
  OPTRT_ASSIGN_OR_RETURN(writer->impl->folder, StagingFolder::create(dir));
  return writer;
}

Status CheckpointWriter::addTensor(CheckpointFile file, const std::string &name,
                                   std::span<const int64_t> shape) {
  if (!impl->files.empty())
    return internal(
        concat("the tensor ", name, " is declared after writing has begun"));
  if (!impl->names.insert(name).second)
    return internal(
        concat("a checkpoint cannot hold two tensors called ", name));
  if (optimus_support::numElements(shape) < 1)
    return internal(concat("the tensor ", name, " has no elements"));
  impl->declared[int(file)].push_back({name, {shape.begin(), shape.end()}});
  return okStatus();
}

Status CheckpointWriter::addFile(CompanionFile file) {
  if (!isCompanionFileName(file.name))
    return internal(concat("a checkpoint has no file called ", file.name));
  if (file.name == kConfigFile)
    file.text = withElementType(file.text, impl->options.modelType);
  impl->companions.push_back(std::move(file));
  return okStatus();
}

Status CheckpointWriter::layOut() { return impl->layOut(); }

Status CheckpointWriter::begin() {
  if (Status created = impl->createFiles(); !created.ok())
    return impl->fail(std::move(created));
  return okStatus();
}

std::string CheckpointWriter::folder() const {
  return std::filesystem::path(impl->folder->path()).filename();
}

bool CheckpointWriter::join(const std::string &dir, const std::string &folder) {
  const std::optional<std::string> path = findStagingFolder(dir, folder);
  if (!path)
    return false;
  for (TensorFile &file : impl->files) {
    StatusOr<NewFile> joined = NewFile::join(*path + "/" + file.name);
    if (!joined.ok())
      return false;
    file.file = std::move(*joined);
  }
  return true;
}

const CheckpointPieces &CheckpointWriter::pieces() const {
  return impl->pieces;
}

Status CheckpointWriter::sync() {
  OPTRT_RETURN_IF_ERROR(impl->failed());
  for (TensorFile &file : impl->files)
    if (Status synced = file.file.sync(); !synced.ok())
      return impl->fail(std::move(synced));
  return okStatus();
}

uint64_t CheckpointWriter::checksum(size_t piece) const {
  return impl->checksums[piece];
}

void CheckpointWriter::setChecksum(size_t piece, uint64_t checksum) {
  impl->know(piece, checksum);
}

Status CheckpointWriter::commit(const TrainingState &state) {
  OPTRT_RETURN_IF_ERROR(impl->failed());
  const CheckpointPieces &pieces = impl->pieces;
  if (!impl->folder || impl->files.empty())
    return internal("a checkpoint is put in place that was not begun");
  for (size_t piece = 0; piece != pieces.size(); ++piece)
    if (!impl->isKnown[piece])
      return internal(
          concat("piece ", piece, " of ", pieces.size(),
                 " was not written to the checkpoint: ",
                 pieces.tensor(pieces.parts(piece, 0, 1)[0].tensor).info.name));
  OPTRT_RETURN_IF_ERROR(sync());

  std::vector<FileRecord> records;
  size_t modelFiles = 0;
  for (size_t i = 0; i != impl->files.size(); ++i) {
    const TensorFile &file = impl->files[i];
    const auto first = impl->checksums.begin();
    modelFiles += isModelFileName(file.name);
    records.push_back(
        {file.name, int64_t(file.bytes), 0,
         PieceChecksums{file.header.size(),
                        optimus_support::hash64(file.header),
                        impl->options.pieceBytes,
                        {first + int64_t(pieces.firstOf(i)),
                         first + int64_t(pieces.firstOf(i + 1))}}});
  }
  if (modelFiles > 1) {
    OPTRT_ASSIGN_OR_RETURN(FileRecord index, impl->writeIndex());
    records.push_back(index);
  }
  for (const CompanionFile &file : impl->companions) {
    OPTRT_ASSIGN_OR_RETURN(FileRecord record,
                           impl->writeSmallFile(file.name, file.text));
    records.push_back(record);
  }
  OPTRT_RETURN_IF_ERROR(
      impl->writeSmallFile(kStateFile, formatState(state, records)).status());
  impl->files.clear();
  return impl->folder->place(impl->options.useExchange);
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

struct PieceWriter::Impl {
  CheckpointWriter::Impl &writer;
  size_t piece;
  PieceExtent extent;
  size_t done = 0; ///< elements
  optimus_support::Hash64 hash;
  std::vector<std::byte> narrowed; ///< elements that are not written as F32

  Status refuse(size_t element, const std::string &what);
};

/// For an element of a slab that cannot be written.
Status PieceWriter::Impl::refuse(size_t element, const std::string &what) {
  const TensorPart part =
      writer.pieces.parts(piece, done + element, /*count=*/1)[0];
  return writer.fail(invalidArgument(
      concat("the tensor ", writer.pieces.tensor(part.tensor).info.name,
             " has an element that is ", what)));
}

PieceWriter::PieceWriter(CheckpointWriter &writer, size_t piece)
    : impl(new Impl{
          *writer.impl, piece, writer.impl->pieces[piece], 0, {}, {}}) {}
PieceWriter::~PieceWriter() = default;

size_t PieceWriter::numLeft() const {
  return impl->extent.numElements() - impl->done;
}

Status PieceWriter::append(std::span<const float> elements) {
  CheckpointWriter::Impl &writer = impl->writer;
  OPTRT_RETURN_IF_ERROR(writer.failed());
  if (elements.size() > numLeft())
    return internal(concat("cannot write ", elements.size(),
                           " elements to a piece that has room for ",
                           numLeft()));
  const PieceExtent &extent = impl->extent;
  const NewFile &file = writer.files[extent.file].file;
  // Disks give blocks for a piece at once faster than for its slabs.
  if (impl->done == 0)
    if (Status reserved = file.reserve(extent.offset, extent.bytes);
        !reserved.ok())
      return writer.fail(std::move(reserved));
  if (const float *bad = findNotFinite(elements))
    return impl->refuse(size_t(bad - elements.data()),
                        concat("not finite (", *bad, ")"));
  std::span<const std::byte> bytes = std::as_bytes(elements);
  if (extent.elementBytes != sizeof(float)) {
    const ElementType type = writer.options.modelType;
    const auto beyond = std::ranges::find_if_not(
        elements, [&](float element) { return fits(type, element); });
    if (beyond != elements.end())
      return impl->refuse(size_t(beyond - elements.begin()),
                          concat("beyond the range of ", nameOfWeightType(type),
                                 " (", *beyond, ")"));
    impl->narrowed.resize(elements.size() * extent.elementBytes);
    narrow(type, elements, impl->narrowed);
    bytes = impl->narrowed;
  }
  if (Status written =
          file.write(extent.offset + impl->done * extent.elementBytes,
                     bytes.data(), bytes.size());
      !written.ok())
    return writer.fail(std::move(written));
  impl->hash.update(bytes.data(), bytes.size());
  impl->done += elements.size();
  if (numLeft() == 0)
    writer.know(impl->piece, impl->hash.digest());
  return okStatus();
}

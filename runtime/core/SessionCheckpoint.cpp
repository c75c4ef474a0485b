//===- SessionCheckpoint.cpp - Loading and saving a session ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "TensorGather.h"
#include "optimus-runtime/RankTeam.h"
#include "optimus-support/InputFile.h"

#include <algorithm>

namespace optrt {

namespace {

std::vector<TensorInfo> savedTensors(const Manifest &manifest,
                                     CheckpointFile file) {
  std::vector<TensorInfo> infos;
  for (const Buffer &buffer : manifest.buffers)
    if (buffer.saved && buffer.saved->file == file)
      infos.push_back({buffer.saved->name, buffer.saved->shape});
  return infos;
}

} // namespace

ExpectedModel expectedModel(const Manifest &manifest) {
  return {manifest.modelHash, savedTensors(manifest, CheckpointFile::Model),
          savedTensors(manifest, CheckpointFile::Optimizer), manifest.record()};
}

StatusOr<std::unique_ptr<Checkpoint>> openCheckpoint(ControlPlane &control,
                                                     const std::string &dir,
                                                     std::string_view flag) {
  std::unique_ptr<Checkpoint> checkpoint;
  auto openFiles = [&]() -> Status {
    if (dir.empty())
      return okStatus();
    OPTRT_ASSIGN_OR_RETURN(checkpoint, Checkpoint::openFiles(dir));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agree(openFiles()));
  const Setting same[] = {
      {concat("the checkpoint of ", flag),
       checkpoint
           ? concat("step ", checkpoint->state().step,
                    " with state.json of checksum ", checkpoint->fingerprint())
           : "none"}};
  OPTRT_RETURN_IF_ERROR(control.checkSame(same));
  if (!checkpoint)
    return checkpoint;

  // Of the processes that have opened the same files, the first reads all of
  // them: once a machine, whether they are shared or copies.
  std::string own =
      concat(optimus_support::machineIdentity(), " ", checkpoint->identity());
  std::vector<std::string> all = control.allGather(own);
  std::ptrdiff_t process = control.firstRank() / control.numLocalRanks();
  bool verifies =
      std::find(all.begin(), all.end(), own) - all.begin() == process;
  Status verified = verifies ? checkpoint->verifyChecksums() : okStatus();
  if (!verified.ok() && !control.isRoot())
    verified = verified.withContext(concat("rank ", control.firstRank()));
  OPTRT_RETURN_IF_ERROR(control.agree(verified));
  OPTRT_RETURN_IF_ERROR(control.agree(checkpoint->readHeaders()));
  return checkpoint;
}

Status Session::load(const Checkpoint &checkpoint) {
  return loadFiles(checkpoint,
                   {CheckpointFile::Model, CheckpointFile::Optimizer},
                   checkpoint.state().seed);
}

Status Session::loadParameters(const Checkpoint &checkpoint, uint64_t seed) {
  return loadFiles(checkpoint, {CheckpointFile::Model}, seed);
}

Status Session::loadFiles(const Checkpoint &checkpoint,
                          std::initializer_list<CheckpointFile> files,
                          uint64_t seed) {
  OPTRT_RETURN_IF_ERROR(team->run([&](int i) -> Status {
    RankBuffers &buffers = ranks[i]->buffers;
    for (int64_t index : held) {
      const Buffer &buffer = manifest().buffers[index];
      if (buffer.saved && std::find(files.begin(), files.end(),
                                    buffer.saved->file) != files.end())
        OPTRT_RETURN_IF_ERROR(buffers.load(index, checkpoint));
      else if (buffer.init)
        OPTRT_RETURN_IF_ERROR(buffers.initialize(index, seed));
    }
    return okStatus();
  }));
  return checkpoint.checkUnchanged();
}

Status Session::save(const std::string &dir, TrainingState state) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a checkpoint was saved"));
  state.modelHash = manifest().modelHash;
  state.model = manifest().record();
  std::vector<int64_t> saved;
  for (std::size_t i = 0; i != manifest().buffers.size(); ++i) {
    const Buffer &buffer = manifest().buffers[i];
    int64_t index = static_cast<int64_t>(i);
    if (!buffer.saved)
      continue;
    if (isHeld(index))
      saved.push_back(index);
    else if (buffer.saved->file == CheckpointFile::Model)
      return internal(concat("the chosen functions do not use ", buffer.name,
                             ", which a checkpoint must have"));
  }
  std::unique_ptr<CheckpointWriter> writer;
  auto prepare = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(writer, CheckpointWriter::create(dir));
    for (int64_t index : saved) {
      const SavedTensor &tensor = *manifest().buffers[index].saved;
      OPTRT_RETURN_IF_ERROR(
          writer->addTensor(tensor.file, tensor.name, tensor.shape));
    }
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(
      control.agree(control.isRoot() ? prepare() : okStatus()));

  // After a failure the root goes on receiving, or the others would wait.
  Status written;
  TensorGather gather(control, manifest().mesh);
  for (int64_t index : saved) {
    const Buffer &buffer = manifest().buffers[index];
    Status gathered =
        gatherBuffer(gather, index, [&](std::span<const float> slab) {
          if (written.ok())
            written = writer->append(buffer.saved->name, slab);
        });
    if (written.ok())
      written = gathered;
  }
  if (control.isRoot() && written.ok())
    written = writer->commit(state);
  return control.agree(written);
}

} // namespace optrt

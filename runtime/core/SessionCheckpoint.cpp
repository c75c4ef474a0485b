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

#include <algorithm>
#include <fstream>

namespace optrt {

std::vector<TensorInfo> tensorInfos(const Manifest &manifest) {
  std::vector<TensorInfo> infos;
  for (const Param &param : manifest.params)
    infos.push_back({param.name, param.hfShape});
  return infos;
}

std::vector<std::string_view> stateNames(const Manifest &manifest) {
  std::vector<std::string_view> names;
  for (ArgKind state : manifest.optimizerState)
    names.push_back(toString(state));
  return names;
}

namespace {

/// Differs between machines that run at the same time.
std::string machineIdentity() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

} // namespace

StatusOr<std::unique_ptr<Checkpoint>> openCheckpoint(World &world,
                                                     const std::string &dir) {
  std::unique_ptr<Checkpoint> checkpoint;
  auto openFiles = [&]() -> Status {
    if (dir.empty())
      return okStatus();
    OPTRT_ASSIGN_OR_RETURN(checkpoint, Checkpoint::openFiles(dir));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(world.agree(openFiles()));
  const Setting same[] = {
      {"the checkpoint of --load",
       checkpoint
           ? concat("step ", checkpoint->state().step,
                    " with state.json of checksum ", checkpoint->fingerprint())
           : "none"}};
  OPTRT_RETURN_IF_ERROR(world.checkSame(same));
  if (!checkpoint)
    return checkpoint;

  // Of the processes that have opened the same files, the first reads all of
  // them: once a machine, whether they are shared or copies.
  std::string own = concat(machineIdentity(), " ", checkpoint->identity());
  std::vector<std::string> all = world.allGather(own);
  std::ptrdiff_t process = world.firstRank() / world.numLocalRanks();
  bool verifies =
      std::find(all.begin(), all.end(), own) - all.begin() == process;
  Status verified = verifies ? checkpoint->verifyChecksums() : okStatus();
  if (!verified.ok() && !world.isRoot())
    verified = verified.withContext(concat("rank ", world.firstRank()));
  OPTRT_RETURN_IF_ERROR(world.agree(verified));
  OPTRT_RETURN_IF_ERROR(world.agree(checkpoint->readHeaders()));
  return checkpoint;
}

Status Session::load(const Checkpoint &checkpoint) {
  const Manifest &manifest = library.manifest();
  ++parameterVersion;
  OPTRT_RETURN_IF_ERROR(team->run([&](int i) -> Status {
    LocalRank &rank = *ranks[i];
    auto read = [&](const ShardLayout &layout, const std::string &name,
                    float *shard) {
      return checkpoint.readShard(name, layout, manifest.mesh,
                                  rank.context.rank, shard);
    };
    for (std::size_t p = 0; p != manifest.params.size(); ++p) {
      const Param &param = manifest.params[p];
      OPTRT_RETURN_IF_ERROR(read(param.layout, param.name, rank.params[p]));
      for (auto &[kind, tensors] : rank.states)
        OPTRT_RETURN_IF_ERROR(read(
            param.state, stateName(toString(kind), param.name), tensors[p]));
    }
    parametersChanged(rank);
    return okStatus();
  }));
  return checkpoint.checkUnchanged();
}

Status Session::save(const std::string &dir, const TrainingState &state) {
  const Manifest &manifest = library.manifest();
  std::unique_ptr<CheckpointWriter> writer;
  auto prepare = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(writer, CheckpointWriter::create(dir));
    for (const Param &param : manifest.params)
      OPTRT_RETURN_IF_ERROR(
          writer->addTensor(CheckpointFile::Model, param.name, param.hfShape));
    if (keepsStates)
      for (const Param &param : manifest.params)
        for (std::string_view state : stateNames(manifest))
          OPTRT_RETURN_IF_ERROR(writer->addTensor(CheckpointFile::Optimizer,
                                                  stateName(state, param.name),
                                                  param.hfShape));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(world.agree(world.isRoot() ? prepare() : okStatus()));

  // After a failure the root goes on receiving, or the others would wait.
  Status written;
  TensorGather gather(world, manifest.mesh);
  auto saveTensor = [&](const ShardLayout &layout, const std::string &name,
                        const TensorGather::ShardOf &shardOf) {
    Status gathered =
        gather.gather(layout, shardOf, [&](std::span<const float> slab) {
          if (written.ok())
            written = writer->append(name, slab);
        });
    if (written.ok())
      written = gathered;
  };
  for (std::size_t p = 0; p != manifest.params.size(); ++p) {
    const Param &param = manifest.params[p];
    saveTensor(param.layout, param.name,
               [&](int local) { return ranks[local]->params[p]; });
    if (!keepsStates)
      continue;
    for (ArgKind state : manifest.optimizerState)
      saveTensor(param.state, stateName(toString(state), param.name),
                 [&](int local) { return ranks[local]->states[state][p]; });
  }
  if (world.isRoot() && written.ok())
    written = writer->commit(state);
  return world.agree(written);
}

StatusOr<std::vector<float>> Session::gatherGradient(int64_t param) {
  const ShardLayout &layout = library.manifest().params[param].layout;
  std::vector<float> whole;
  if (world.isRoot())
    whole.reserve(layout.numElements());
  TensorGather gather(world, library.manifest().mesh);
  OPTRT_RETURN_IF_ERROR(gather.gather(
      layout, [&](int local) { return ranks[local]->grads[param]; },
      [&](std::span<const float> slab) {
        whole.insert(whole.end(), slab.begin(), slab.end());
      }));
  return whole;
}

} // namespace optrt

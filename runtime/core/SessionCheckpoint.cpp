//===- SessionCheckpoint.cpp - Loading and saving a session ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "optimus-runtime/RankTeam.h"

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

Status Session::load(const Checkpoint &checkpoint) {
  const Manifest &manifest = library.manifest();
  ++parameterVersion;
  return team->run([&](int i) -> Status {
    LocalRank &rank = *ranks[i];
    auto take = [&](const ShardLayout &layout, const std::string &name,
                    float *shard) -> Status {
      OPTRT_ASSIGN_OR_RETURN(std::span<const float> whole,
                             checkpoint.readTensor(name));
      layout.slice(manifest.mesh, rank.context.rank, whole.data(), shard);
      return okStatus();
    };
    for (std::size_t p = 0; p != manifest.params.size(); ++p) {
      const Param &param = manifest.params[p];
      OPTRT_RETURN_IF_ERROR(take(param.layout, param.name, rank.params[p]));
      for (auto &[kind, tensors] : rank.states)
        OPTRT_RETURN_IF_ERROR(take(
            param.state, stateName(toString(kind), param.name), tensors[p]));
    }
    parametersChanged(rank);
    return okStatus();
  });
}

Status Session::gatherShards(
    const ShardLayout &layout, const std::function<float *(LocalRank &)> &shard,
    const std::function<void(int64_t, const float *)> &place) {
  const Mesh &mesh = library.manifest().mesh;
  std::size_t count = layout.numLocalElements();
  std::vector<float> received;
  for (int rank = 0; rank != world.size(); ++rank) {
    if (!layout.isCanonicalOwner(mesh, rank))
      continue;
    int local = rank - world.firstRank();
    float *data = nullptr;
    if (local >= 0 && local < world.numLocalRanks()) {
      data = shard(*ranks[local]);
    } else if (world.isRoot()) {
      received.resize(count);
      data = received.data();
    }
    OPTRT_RETURN_IF_ERROR(world.sendToRoot(rank, data, count));
    if (world.isRoot())
      place(rank, data);
  }
  return okStatus();
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
  auto saveTensor = [&](const ShardLayout &layout, const std::string &name,
                        const std::function<float *(LocalRank &)> &shard) {
    std::span<float> whole;
    if (world.isRoot() && written.ok()) {
      StatusOr<std::span<float>> buffer = writer->buffer(name);
      if (buffer.ok())
        whole = *buffer;
      else
        written = buffer.status();
    }
    Status gathered =
        gatherShards(layout, shard, [&](int64_t rank, const float *data) {
          if (written.ok())
            layout.place(manifest.mesh, rank, data, whole.data());
        });
    if (written.ok())
      written = gathered;
  };
  for (std::size_t p = 0; p != manifest.params.size(); ++p) {
    const Param &param = manifest.params[p];
    saveTensor(param.layout, param.name,
               [p](LocalRank &r) { return r.params[p]; });
    if (!keepsStates)
      continue;
    for (ArgKind state : manifest.optimizerState)
      saveTensor(param.state, stateName(toString(state), param.name),
                 [=](LocalRank &r) { return r.states[state][p]; });
  }
  if (world.isRoot() && written.ok())
    written = writer->commit(state);
  return world.agree(written);
}

StatusOr<std::vector<float>> Session::gatherGradient(int64_t param) {
  const ShardLayout &layout = library.manifest().params[param].layout;
  std::vector<float> whole;
  if (world.isRoot())
    whole.resize(layout.numElements());
  OPTRT_RETURN_IF_ERROR(gatherShards(
      layout, [param](LocalRank &rank) { return rank.grads[param]; },
      [&](int64_t rank, const float *data) {
        layout.place(library.manifest().mesh, rank, data, whole.data());
      }));
  return whole;
}

} // namespace optrt

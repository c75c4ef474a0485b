//===- CollectiveMover.cpp - Collectives that are timed -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveMover.h"

#include "core/CollectiveStaging.h"

#include <chrono>

using namespace optrt;

namespace optimus_run {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Between addresses of the process.
class HostMover final : public CollectiveMover {
public:
  explicit HostMover(Communicator &comm) : comm(comm) {}

  Status run(const optrt_collective_desc &desc, const float *src,
             float *dst) override {
    OPTRT_RETURN_IF_ERROR(comm.start({0}, desc, src, dst));
    return comm.wait({0});
  }

  StatusOr<double> time(const optrt_collective_desc &desc, const float *src,
                        float *dst) override {
    auto begin = Clock::now();
    OPTRT_RETURN_IF_ERROR(run(desc, src, dst));
    return secondsSince(begin);
  }

private:
  Communicator &comm;
};

/// Between GPUs by way of the host, as programs do where the back-end moves
/// what the host can address.
class StagedMover final : public CollectiveMover {
public:
  static StatusOr<std::unique_ptr<CollectiveMover>>
  create(const DeviceFactory &factory, Communicator &comm, int64_t maxBytes) {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                           factory.create(/*threads=*/1));
    std::unique_ptr<StagedMover> mover(
        new StagedMover(std::move(device), comm));
    // A part of a tensor may be rounded up to an element for each rank.
    const int64_t bytes = maxBytes + comm.size() * int64_t(sizeof(float));
    for (DeviceMemory *memory : {&mover->source, &mover->destination}) {
      OPTRT_ASSIGN_OR_RETURN(
          *memory, mover->device->allocate(bytes, "a collective's operands"));
    }
    return std::unique_ptr<CollectiveMover>(std::move(mover));
  }

  Status run(const optrt_collective_desc &desc, const float *src,
             float *dst) override {
    const int64_t written = desc.dst_ld * int64_t(sizeof(float));
    OPTRT_RETURN_IF_ERROR(device->write(kCompute, source.data(), src,
                                        desc.src_ld * int64_t(sizeof(float))));
    // What a rank does not receive stays.
    OPTRT_RETURN_IF_ERROR(
        device->write(kCompute, destination.data(), dst, written));
    OPTRT_RETURN_IF_ERROR(move(desc));
    OPTRT_RETURN_IF_ERROR(
        device->read(kCompute, dst, destination.data(), written));
    return device->synchronize();
  }

  StatusOr<double> time(const optrt_collective_desc &desc, const float *,
                        float *) override {
    auto begin = Clock::now();
    OPTRT_RETURN_IF_ERROR(move(desc));
    return secondsSince(begin);
  }

private:
  StagedMover(std::unique_ptr<Device> made, Communicator &comm)
      : comm(comm), device(std::move(made)), staging(*device) {}

  Status move(const optrt_collective_desc &desc) {
    const CommandId id{0};
    OPTRT_ASSIGN_OR_RETURN(
        const CollectiveStaging::Staged *staged,
        staging.begin(kCompute, id, desc,
                      {comm.size(), comm.index() == desc.root}, source.data(),
                      destination.data()));
    OPTRT_RETURN_IF_ERROR(device->call(kCompute, [&]() -> Status {
      OPTRT_RETURN_IF_ERROR(
          comm.start(id, staged->desc, staged->from, staged->to));
      return comm.wait(id);
    }));
    OPTRT_RETURN_IF_ERROR(staging.finish(kCompute, id));
    OPTRT_RETURN_IF_ERROR(device->synchronize());
    staging.restart();
    return okStatus();
  }

  Communicator &comm;
  std::unique_ptr<Device> device;
  CollectiveStaging staging;
  DeviceMemory source, destination;
};

} // namespace

StatusOr<Movers> Movers::open(const std::string &device) {
  Movers movers;
  if (device != "cuda")
    return movers;
  OPTRT_ASSIGN_OR_RETURN(movers.factory, DeviceFactory::open(device));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> first,
                         movers.factory->create(/*threads=*/1));
  movers.properties = first->properties();
  return movers;
}

StatusOr<std::unique_ptr<CollectiveMover>>
Movers::create(Communicator &comm, int64_t maxBytes) const {
  if (!factory)
    return std::unique_ptr<CollectiveMover>(std::make_unique<HostMover>(comm));
  return StagedMover::create(*factory, comm, maxBytes);
}

} // namespace optimus_run

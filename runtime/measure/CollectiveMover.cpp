//===- CollectiveMover.cpp - Collectives that are timed -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveMover.h"

#include "optimus-runtime/QueuedCollectives.h"
#include "program/GpuChoice.h"
#include "program/HostStaging.h"

#include <chrono>

namespace optrt {
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

/// Between memory of GPUs, as a back-end moves it.
class DeviceMover : public CollectiveMover {
public:
  /// For tensors of so many bytes among so many ranks.
  Status allocate(int64_t maxBytes, int64_t ranks) {
    // A part of a tensor may be rounded up to an element for each rank.
    const int64_t bytes = maxBytes + ranks * int64_t(sizeof(float));
    for (DeviceMemory *memory : {&source, &destination}) {
      OPTRT_ASSIGN_OR_RETURN(
          *memory, device->allocate(bytes, "a collective's operands"));
    }
    return okStatus();
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

protected:
  explicit DeviceMover(std::unique_ptr<Device> made)
      : device(std::move(made)) {}
  /// From the source to the destination; returns when it is done.
  virtual Status move(const optrt_collective_desc &desc) = 0;

  std::unique_ptr<Device> device;
  DeviceMemory source, destination;
};

/// By way of the host, where the back-end moves host memory only.
class StagedMover final : public DeviceMover {
public:
  StagedMover(std::unique_ptr<Device> made, Communicator &comm)
      : DeviceMover(std::move(made)), comm(comm), staging(*device) {}

private:
  Status move(const optrt_collective_desc &desc) override {
    const CommandId id{0};
    OPTRT_ASSIGN_OR_RETURN(
        const HostStaging::Staged *staged,
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
  HostStaging staging;
};

/// On a queue of the GPU.
class QueuedMover final : public DeviceMover {
public:
  QueuedMover(std::unique_ptr<Device> made,
              std::unique_ptr<QueuedCollectives> connected)
      : DeviceMover(std::move(made)), collectives(std::move(connected)) {}

private:
  Status move(const optrt_collective_desc &desc) override {
    const PlannedCollective planned[] = {{0, &desc}};
    OPTRT_RETURN_IF_ERROR(device->synchronize());
    collectives->beginCall(0, planned);
    const QueuedCollective one{0, &desc, source.data(), destination.data()};
    OPTRT_RETURN_IF_ERROR(collectives->enqueue(kCompute, {&one, 1}));
    Status status = device->synchronize();
    OPTRT_RETURN_IF_ERROR(collectives->endCall());
    return status;
  }

  std::unique_ptr<QueuedCollectives> collectives;
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

Status Movers::chooseGpus(ControlPlane &control, bool hasEachItsOwn) {
  gpus.assign(control.numLocalRanks(), 0);
  if (!hasEachItsOwn)
    return okStatus();
  if (!factory)
    return control.agree(invalidArgument(
        "--backend nccl moves tensors between GPUs: add --device cuda to "
        "measure that"));
  OPTRT_ASSIGN_OR_RETURN(gpus, optrt::chooseGpus(control, factory->gpus()));
  return okStatus();
}

StatusOr<std::unique_ptr<CollectiveMover>>
Movers::create(World &world, int index, int64_t maxBytes,
               double timeoutSeconds) const {
  const int rank = world.control->firstRank() + index;
  Collectives &collectives = *world.collectives;
  if (!factory)
    return std::unique_ptr<CollectiveMover>(
        std::make_unique<HostMover>(collectives.communicator(rank, 0)));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                         factory->create(/*threads=*/1, gpus[index]));
  std::unique_ptr<DeviceMover> mover;
  if (collectives.needsGpus()) {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<QueuedCollectives> connected,
                           collectives.connect(rank, *device, timeoutSeconds));
    mover =
        std::make_unique<QueuedMover>(std::move(device), std::move(connected));
  } else {
    mover = std::make_unique<StagedMover>(std::move(device),
                                          collectives.communicator(rank, 0));
  }
  OPTRT_RETURN_IF_ERROR(mover->allocate(maxBytes, world.control->size()));
  return std::unique_ptr<CollectiveMover>(std::move(mover));
}

} // namespace optrt

//===- MpiWorld.cpp - One rank a process, over MPI ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plugin: only this shared object links MPI. Reductions exchange data and
// add in rank order themselves, so that their bits equal the local back-end's:
// each rank receives one part of the elements from everybody, reduces it, and
// hands the result on. Small tensors go to everybody at once, in one round.
//
//===----------------------------------------------------------------------===//

#include "../RankOrderReduction.h"
#include "optimus-runtime/World.h"

#include <mpi.h>

#include <cassert>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace optrt {
namespace {

Status mpiError(const char *call, int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return internal(std::string(call) + " failed: " + std::string(text, length));
}

#define OPTIMUS_MPI_CHECK(call, ...)                                           \
  do {                                                                         \
    if (int code = call(__VA_ARGS__); code != MPI_SUCCESS)                     \
      return mpiError(#call, code);                                            \
  } while (false)

/// A matrix of f32 as an MPI type. `columns` of every row are sent, rows lie
/// `ld` apart, and the next item of the type starts `columns` further right.
class MatrixType {
public:
  MatrixType(int64_t rows, int64_t columns, int64_t ld) {
    MPI_Datatype vector;
    MPI_Type_vector(static_cast<int>(rows), static_cast<int>(columns),
                    static_cast<int>(ld), MPI_FLOAT, &vector);
    MPI_Type_create_resized(vector, 0, columns * sizeof(float), &type);
    MPI_Type_free(&vector);
    MPI_Type_commit(&type);
  }
  // MPI keeps a freed type until the operations that use it are complete.
  ~MatrixType() { MPI_Type_free(&type); }
  MatrixType(const MatrixType &) = delete;
  MatrixType &operator=(const MatrixType &) = delete;

  operator MPI_Datatype() const { return type; }

private:
  MPI_Datatype type;
};

/// Elements up to which a reduction sends everything to everybody: one round
/// of small messages instead of two.
constexpr int64_t kOneRoundElements = 1024;

void packMatrix(float *dst, const float *src, int64_t ld, int64_t outer,
                int64_t inner) {
  for (int64_t row = 0; row != outer; ++row)
    std::memcpy(dst + row * inner, src + row * ld, inner * sizeof(float));
}

void unpackMatrix(float *dst, int64_t ld, const float *src, int64_t outer,
                  int64_t inner) {
  for (int64_t row = 0; row != outer; ++row)
    std::memcpy(dst + row * ld, src + row * inner, inner * sizeof(float));
}

class MpiCommunicator final : public Communicator {
public:
  /// Takes ownership of `comm`.
  explicit MpiCommunicator(MPI_Comm comm) : comm(comm) {
    MPI_Comm_size(comm, &numRanks);
    MPI_Comm_rank(comm, &rankIndex);
  }
  ~MpiCommunicator() override { MPI_Comm_free(&comm); }
  MpiCommunicator(const MpiCommunicator &) = delete;
  MpiCommunicator &operator=(const MpiCommunicator &) = delete;

  int size() const override { return numRanks; }
  int index() const override { return rankIndex; }

  Status start(uint32_t id, const optrt_collective_desc &desc, const float *src,
               float *dst) override {
    if (desc.outer * std::max(desc.src_ld, desc.dst_ld) > INT_MAX ||
        desc.outer * desc.inner * numRanks > INT_MAX)
      return internal(
          "command " + std::to_string(id) +
          " moves 2^31 elements or more, which MPI's counts cannot express");
    Operation *operation = nullptr;
    for (std::unique_ptr<Operation> &candidate : operations)
      if (!candidate->active)
        operation = candidate.get();
    if (!operation) {
      if (operations.size() == kMaxInFlight)
        return internal("command " + std::to_string(id) +
                        " starts a collective while " +
                        std::to_string(kMaxInFlight) +
                        " others on its axis are not waited for");
      operations.push_back(std::make_unique<Operation>());
      operation = operations.back().get();
    }
    operation->active = true;
    operation->id = id;
    operation->desc = desc;
    operation->src = src;
    operation->dst = dst;
    operation->request = MPI_REQUEST_NULL;
    if (desc.outer == 0 || desc.inner == 0)
      return okStatus();
    return begin(*operation);
  }

  Status wait(uint32_t id) override {
    for (std::unique_ptr<Operation> &operation : operations) {
      if (!operation->active || operation->id != id)
        continue;
      OPTIMUS_MPI_CHECK(MPI_Wait, &operation->request, MPI_STATUS_IGNORE);
      Status status = okStatus();
      if (operation->desc.outer != 0 && operation->desc.inner != 0)
        status = complete(*operation);
      operation->active = false;
      return status;
    }
    return internal("command " + std::to_string(id) +
                    " is waited for but was not started");
  }

private:
  struct Operation {
    bool active = false;
    uint32_t id;
    optrt_collective_desc desc;
    const float *src;
    float *dst;
    MPI_Request request;
    // Kept between uses: fresh pages are slow.
    std::vector<float> packed, received;
    std::vector<int> counts, offsets, sameCounts, receiveOffsets;
  };

  static float *reserve(std::vector<float> &buffer, std::size_t count) {
    if (buffer.size() < count)
      buffer.resize(count);
    return buffer.data();
  }

  static bool isOneRound(const optrt_collective_desc &desc) {
    return desc.outer * desc.inner <= kOneRoundElements;
  }

  Status begin(Operation &op) {
    const optrt_collective_desc &desc = op.desc;
    int64_t outer = desc.outer, inner = desc.inner;
    int64_t count = outer * inner;
    switch (desc.kind) {
    case OPTRT_BROADCAST: {
      bool isRoot = rankIndex == desc.root;
      if (isRoot && op.dst && op.dst != op.src)
        for (int64_t row = 0; row != outer; ++row)
          std::memcpy(op.dst + row * desc.dst_ld, op.src + row * desc.src_ld,
                      inner * sizeof(float));
      MatrixType type(outer, inner, isRoot ? desc.src_ld : desc.dst_ld);
      OPTIMUS_MPI_CHECK(MPI_Ibcast,
                        isRoot ? const_cast<float *>(op.src) : op.dst, 1, type,
                        desc.root, comm, &op.request);
      return okStatus();
    }
    case OPTRT_ALL_GATHER: {
      MatrixType from(outer, inner, desc.src_ld), to(outer, inner, desc.dst_ld);
      OPTIMUS_MPI_CHECK(MPI_Iallgather, op.src, 1, from, op.dst, 1, to, comm,
                        &op.request);
      return okStatus();
    }
    case OPTRT_REDUCE_SCATTER: {
      MatrixType from(outer, inner, desc.src_ld);
      float *received = reserve(op.received, numRanks * count);
      OPTIMUS_MPI_CHECK(MPI_Ialltoall, op.src, 1, from, received,
                        static_cast<int>(count), MPI_FLOAT, comm, &op.request);
      return okStatus();
    }
    case OPTRT_REDUCE:
    case OPTRT_ALL_REDUCE: {
      float *packed = reserve(op.packed, count);
      packMatrix(packed, op.src, desc.src_ld, outer, inner);
      if (isOneRound(desc)) {
        float *received = reserve(op.received, numRanks * count);
        if (desc.kind == OPTRT_REDUCE)
          OPTIMUS_MPI_CHECK(MPI_Igather, packed, static_cast<int>(count),
                            MPI_FLOAT, received, static_cast<int>(count),
                            MPI_FLOAT, desc.root, comm, &op.request);
        else
          OPTIMUS_MPI_CHECK(MPI_Iallgather, packed, static_cast<int>(count),
                            MPI_FLOAT, received, static_cast<int>(count),
                            MPI_FLOAT, comm, &op.request);
        return okStatus();
      }
      // Rank r reduces the elements [offsets[r], offsets[r] + counts[r]).
      op.counts.resize(numRanks);
      op.offsets.resize(numRanks);
      for (int r = 0; r != numRanks; ++r) {
        op.offsets[r] = static_cast<int>(count * r / numRanks);
        op.counts[r] =
            static_cast<int>(count * (r + 1) / numRanks) - op.offsets[r];
      }
      int mine = op.counts[rankIndex];
      op.sameCounts.assign(numRanks, mine);
      op.receiveOffsets.resize(numRanks);
      for (int r = 0; r != numRanks; ++r)
        op.receiveOffsets[r] = r * mine;
      float *received =
          reserve(op.received, static_cast<std::size_t>(numRanks) * mine);
      OPTIMUS_MPI_CHECK(MPI_Ialltoallv, packed, op.counts.data(),
                        op.offsets.data(), MPI_FLOAT, received,
                        op.sameCounts.data(), op.receiveOffsets.data(),
                        MPI_FLOAT, comm, &op.request);
      return okStatus();
    }
    }
    assert(false && "the kind was checked at the start");
    return okStatus();
  }

  /// What is left after the first exchange has arrived.
  Status complete(Operation &op) {
    const optrt_collective_desc &desc = op.desc;
    int64_t outer = desc.outer, inner = desc.inner;
    int64_t count = outer * inner;
    switch (desc.kind) {
    case OPTRT_REDUCE_SCATTER: {
      // `packed` holds the sum, row after row.
      float *result = reserve(op.packed, count);
      reduceReceived(op, count, result);
      unpackMatrix(op.dst, desc.dst_ld, result, outer, inner);
      return okStatus();
    }
    case OPTRT_REDUCE:
    case OPTRT_ALL_REDUCE: {
      bool wantsResult =
          desc.kind == OPTRT_ALL_REDUCE || rankIndex == desc.root;
      if (isOneRound(desc)) {
        if (wantsResult)
          reduceReceived(op, count, op.packed.data());
      } else {
        // The parts were sent off: their place takes the result.
        reduceReceived(op, op.counts[rankIndex],
                       op.packed.data() + op.offsets[rankIndex]);
        if (desc.kind == OPTRT_ALL_REDUCE)
          OPTIMUS_MPI_CHECK(MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL,
                            op.packed.data(), op.counts.data(),
                            op.offsets.data(), MPI_FLOAT, comm);
        else if (wantsResult)
          OPTIMUS_MPI_CHECK(MPI_Gatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL,
                            op.packed.data(), op.counts.data(),
                            op.offsets.data(), MPI_FLOAT, desc.root, comm);
        else
          OPTIMUS_MPI_CHECK(MPI_Gatherv,
                            op.packed.data() + op.offsets[rankIndex],
                            op.counts[rankIndex], MPI_FLOAT, nullptr, nullptr,
                            nullptr, MPI_FLOAT, desc.root, comm);
      }
      if (wantsResult)
        unpackMatrix(op.dst, desc.dst_ld, op.packed.data(), outer, inner);
      return okStatus();
    }
    default:
      return okStatus();
    }
  }

  /// Adds the parts of `count` elements received from all ranks.
  void reduceReceived(const Operation &op, int64_t count, float *result) {
    for (int64_t begin = 0; begin < count; begin += kReductionBlock)
      reduceBlock(
          op.desc.reduction, numRanks,
          [&](int r) { return op.received.data() + r * count + begin; },
          result + begin, std::min<int64_t>(kReductionBlock, count - begin));
  }

  MPI_Comm comm;
  int numRanks, rankIndex;
  std::vector<std::unique_ptr<Operation>> operations;
};

class MpiWorld final : public World {
public:
  MpiWorld() {
    MPI_Comm_size(MPI_COMM_WORLD, &numRanks);
    MPI_Comm_rank(MPI_COMM_WORLD, &worldRank);
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &host);
    MPI_Comm_size(host, &hostRanks);
    MPI_Comm_free(&host);
  }

  ~MpiWorld() override {
    communicators.clear();
    MPI_Finalize();
  }

  std::string_view name() const override { return "mpi"; }

  Status configure(std::span<const int64_t> axisSizes) override {
    int64_t product = 1;
    std::string mesh;
    for (int64_t axisSize : axisSizes) {
      product *= axisSize;
      mesh = concat(mesh, mesh.empty() ? "" : "x", axisSize);
    }
    if (product != numRanks)
      return invalidArgument("the library is compiled for a mesh of " + mesh +
                             " = " + std::to_string(product) +
                             " ranks, but MPI started " +
                             std::to_string(numRanks) + "; run `mpirun -n " +
                             std::to_string(product) + "`");
    communicators.clear();
    int64_t stride = product;
    for (int64_t axisSize : axisSizes) {
      stride /= axisSize;
      int index = static_cast<int>(worldRank / stride % axisSize);
      MPI_Comm comm;
      OPTIMUS_MPI_CHECK(MPI_Comm_split, MPI_COMM_WORLD,
                        static_cast<int>(worldRank - index * stride), index,
                        &comm);
      communicators.push_back(std::make_unique<MpiCommunicator>(comm));
    }
    return okStatus();
  }

  int size() const override { return numRanks; }
  int firstRank() const override { return worldRank; }
  int numLocalRanks() const override { return 1; }
  int ranksOnThisHost() const override { return hostRanks; }

  Communicator &communicator(int, int axis) override {
    return *communicators[axis];
  }

  /// Other processes cannot be woken out of MPI: exitJob() ends them.
  void abort() override {}

  std::vector<std::string> allGather(const std::string &own) override {
    int length = static_cast<int>(own.size());
    std::vector<int> lengths(numRanks), offsets(numRanks);
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT,
                  MPI_COMM_WORLD);
    int total = 0;
    for (int r = 0; r != numRanks; ++r) {
      offsets[r] = total;
      total += lengths[r];
    }
    std::string text(total, '\0');
    MPI_Allgatherv(own.data(), length, MPI_CHAR, text.data(), lengths.data(),
                   offsets.data(), MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> all;
    for (int r = 0; r != numRanks; ++r)
      all.push_back(text.substr(offsets[r], lengths[r]));
    return all;
  }

  Status sendToRoot(int rank, float *data, std::size_t count) override {
    if (rank == 0 || (worldRank != 0 && worldRank != rank))
      return okStatus();
    // In pieces, because MPI counts in int.
    constexpr std::size_t kPiece = std::size_t(1) << 28;
    for (std::size_t begin = 0; begin < count; begin += kPiece) {
      int length = static_cast<int>(std::min(kPiece, count - begin));
      if (worldRank == 0)
        OPTIMUS_MPI_CHECK(MPI_Recv, data + begin, length, MPI_FLOAT, rank, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      else
        OPTIMUS_MPI_CHECK(MPI_Send, data + begin, length, MPI_FLOAT, 0, 0,
                          MPI_COMM_WORLD);
    }
    return okStatus();
  }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

private:
  int numRanks, worldRank, hostRanks;
  std::vector<std::unique_ptr<MpiCommunicator>> communicators;
};

} // namespace
} // namespace optrt

extern "C" __attribute__((visibility("default"))) optrt::World *
optimus_ccl_create(char *error, std::size_t errorSize) {
  // Ranks that share cores must let each other run while they wait.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/0);
  int provided;
  if (int code =
          MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
      code != MPI_SUCCESS) {
    std::snprintf(error, errorSize, "MPI_Init_thread failed with code %d",
                  code);
    return nullptr;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return new optrt::MpiWorld();
}

//===- Operation.cpp - A collective in flight over MPI --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operation.h"

#include "../RankOrderReduction.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstring>

namespace optrt {
namespace {

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

/// Elements from which a chain pays: its many messages cost less than what
/// the tree or the star loses in link time.
constexpr int64_t kChainElements = 1 << 14;

/// Elements of a segment: short enough that the chain fills soon, long enough
/// that messages are few.
int64_t segmentLength(int64_t count) {
  return std::clamp<int64_t>(count / 64, 1 << 13, 1 << 16);
}

/// Calls body(row, column, offset, length) for the rows of the elements
/// [begin, begin + length) of a matrix with `inner` columns.
template <typename Body>
void forEachRow(int64_t begin, int64_t length, int64_t inner, Body body) {
  for (int64_t done = 0; done != length;) {
    int64_t row = (begin + done) / inner, column = (begin + done) % inner;
    int64_t some = std::min(inner - column, length - done);
    body(row, column, done, some);
    done += some;
  }
}

void pack(float *packed, const float *matrix, int64_t ld, int64_t inner,
          int64_t begin, int64_t length) {
  forEachRow(begin, length, inner,
             [&](int64_t row, int64_t column, int64_t at, int64_t some) {
               std::memcpy(packed + at, matrix + row * ld + column,
                           some * sizeof(float));
             });
}

void unpack(float *matrix, int64_t ld, const float *packed, int64_t inner,
            int64_t begin, int64_t length) {
  forEachRow(begin, length, inner,
             [&](int64_t row, int64_t column, int64_t at, int64_t some) {
               std::memcpy(matrix + row * ld + column, packed + at,
                           some * sizeof(float));
             });
}

Status tooLarge() {
  return internal(
      "it moves 2^31 elements or more, which MPI's counts cannot express");
}

float *reserve(std::vector<float> &buffer, std::size_t count) {
  if (buffer.size() < count)
    buffer.resize(count);
  return buffer.data();
}

} // namespace

Status Operation::begin(const Members &newMembers, int newTag,
                        const optrt_collective_desc &newDesc,
                        const float *newSrc, float *newDst) {
  members = newMembers;
  desc = newDesc;
  src = newSrc;
  dst = newDst;
  tag = newTag;
  requests.assign(1, MPI_REQUEST_NULL);
  hasResult = false;
  done = count() == 0;
  if (done)
    return okStatus();
  if (desc.kind == OPTRT_BROADCAST)
    return beginBroadcast();
  if (desc.kind == OPTRT_REDUCE && count() >= kChainElements &&
      members.size > 1)
    return beginChainReduce();
  return beginExchange();
}

Status Operation::beginBroadcast() {
  const int n = members.size, index = members.index;
  bool isRoot = index == desc.root;
  if (isRoot && dst && dst != src)
    for (int64_t row = 0; row != desc.outer; ++row)
      std::memcpy(dst + row * desc.dst_ld, src + row * desc.src_ld,
                  desc.inner * sizeof(float));
  if (n == 1) {
    done = true;
    return okStatus();
  }
  float *matrix = isRoot ? const_cast<float *>(src) : dst;
  int64_t ld = isRoot ? desc.src_ld : desc.dst_ld;
  if (count() < kChainElements || !members.chainBroadcast) {
    if (desc.outer * ld > INT_MAX)
      return tooLarge();
    stage = Stage::Exchange;
    MatrixType type(desc.outer, desc.inner, ld);
    OPTIMUS_MPI_CHECK(MPI_Ibcast, matrix, 1, type, desc.root, members.comm,
                      requests.data());
    return okStatus();
  }

  stage = Stage::Chain;
  Pipeline::Plan plan;
  plan.comm = members.comm;
  plan.fromTag = plan.toTag = tag;
  if (!isRoot)
    plan.from = (index + n - 1) % n;
  if ((index + 1) % n != desc.root)
    plan.to = (index + 1) % n;
  plan.count = count();
  // Between two ranks there is nothing to hand on.
  plan.segmentLength =
      n == 2 ? std::min<int64_t>(count(), INT_MAX) : segmentLength(count());
  if (isDense(ld)) {
    plan.inRing = false;
    plan.place = [matrix, length = plan.segmentLength](int64_t k) {
      return matrix + k * length;
    };
    plan.process = [](int64_t, int64_t, float *) { return true; };
  } else {
    float *ring = reserve(received, Pipeline::kWindow * plan.segmentLength);
    plan.place = [ring, length = plan.segmentLength](int64_t k) {
      return ring + k % Pipeline::kWindow * length;
    };
    plan.process = [=, inner = desc.inner](int64_t begin, int64_t length,
                                           float *data) {
      if (isRoot)
        pack(data, matrix, ld, inner, begin, length);
      else
        unpack(matrix, ld, data, inner, begin, length);
      return true;
    };
  }
  chain.begin(std::move(plan));
  return advance();
}

Status Operation::beginChainReduce() {
  const int n = members.size, index = members.index;
  const int last = n - 1;
  stage = Stage::Chain;
  Pipeline::Plan plan;
  plan.comm = members.comm;
  plan.fromTag = tag;
  if (index != 0)
    plan.from = index - 1;
  if (index != last)
    plan.to = index + 1;
  else if (desc.root != last)
    plan.to = desc.root;
  plan.toTag = index == last ? tag + 1 : tag;
  plan.count = count();
  plan.segmentLength = segmentLength(count());
  float *ring = reserve(received, Pipeline::kWindow * plan.segmentLength);
  plan.place = [ring, length = plan.segmentLength](int64_t k) {
    return ring + k % Pipeline::kWindow * length;
  };
  bool keeps = index == last && desc.root == last;
  plan.process = [this, keeps](int64_t begin, int64_t length, float *data) {
    if (members.index == 0) {
      pack(data, src, desc.src_ld, desc.inner, begin, length);
      return true;
    }
    // `data` holds the sum of all ranks before this one.
    forEachRow(begin, length, desc.inner,
               [&](int64_t row, int64_t column, int64_t at, int64_t some) {
                 accumulate(desc.reduction, data + at,
                            src + row * desc.src_ld + column, some);
               });
    if (keeps)
      unpack(dst, desc.dst_ld, data, desc.inner, begin, length);
    return true;
  };
  int64_t length = plan.segmentLength;
  chain.begin(std::move(plan));

  hasResult = index == desc.root && index != last;
  if (hasResult) {
    Pipeline::Plan arriving;
    arriving.comm = members.comm;
    arriving.from = last;
    arriving.fromTag = tag + 1;
    arriving.count = count();
    arriving.segmentLength = length;
    float *results = reserve(packed, Pipeline::kWindow * length);
    arriving.place = [results, length](int64_t k) {
      return results + k % Pipeline::kWindow * length;
    };
    // What arrives contains this rank's part, so that was read before and may
    // be overwritten in place.
    arriving.process = [this](int64_t begin, int64_t some, float *data) {
      unpack(dst, desc.dst_ld, data, desc.inner, begin, some);
      return true;
    };
    result.begin(std::move(arriving));
  }
  return advance();
}

bool Operation::isOneRound() const { return count() <= kOneRoundElements; }

Status Operation::beginExchange() {
  const int n = members.size;
  MPI_Comm comm = members.comm;
  int64_t outer = desc.outer, inner = desc.inner;
  if (outer * std::max(desc.src_ld, desc.dst_ld) > INT_MAX ||
      count() * n > INT_MAX)
    return tooLarge();
  int whole = static_cast<int>(count());
  stage = Stage::Exchange;
  switch (desc.kind) {
  case OPTRT_ALL_GATHER: {
    MatrixType from(outer, inner, desc.src_ld), to(outer, inner, desc.dst_ld);
    OPTIMUS_MPI_CHECK(MPI_Iallgather, src, 1, from, dst, 1, to, comm,
                      requests.data());
    return okStatus();
  }
  case OPTRT_REDUCE_SCATTER: {
    MatrixType from(outer, inner, desc.src_ld);
    reserve(received, n * count());
    OPTIMUS_MPI_CHECK(MPI_Ialltoall, src, 1, from, received.data(), whole,
                      MPI_FLOAT, comm, requests.data());
    return okStatus();
  }
  case OPTRT_REDUCE:
  case OPTRT_ALL_REDUCE: {
    reserve(packed, count());
    pack(packed.data(), src, desc.src_ld, inner, 0, count());
    if (isOneRound()) {
      reserve(received, n * count());
      if (desc.kind == OPTRT_REDUCE)
        OPTIMUS_MPI_CHECK(MPI_Igather, packed.data(), whole, MPI_FLOAT,
                          received.data(), whole, MPI_FLOAT, desc.root, comm,
                          requests.data());
      else
        OPTIMUS_MPI_CHECK(MPI_Iallgather, packed.data(), whole, MPI_FLOAT,
                          received.data(), whole, MPI_FLOAT, comm,
                          requests.data());
      return okStatus();
    }
    // Rank r reduces the elements [offsets[r], offsets[r] + counts[r]).
    counts.resize(n);
    offsets.resize(n);
    receiveOffsets.resize(n);
    for (int r = 0; r != n; ++r) {
      offsets[r] = static_cast<int>(count() * r / n);
      counts[r] = static_cast<int>(count() * (r + 1) / n) - offsets[r];
    }
    int mine = counts[members.index];
    sameCounts.assign(n, mine);
    for (int r = 0; r != n; ++r)
      receiveOffsets[r] = r * mine;
    reserve(received, static_cast<std::size_t>(n) * mine);
    OPTIMUS_MPI_CHECK(MPI_Ialltoallv, packed.data(), counts.data(),
                      offsets.data(), MPI_FLOAT, received.data(),
                      sameCounts.data(), receiveOffsets.data(), MPI_FLOAT, comm,
                      requests.data());
    return okStatus();
  }
  }
  assert(false && "the kind was checked at the start");
  return okStatus();
}

Status Operation::advance() {
  if (done)
    return okStatus();
  if (stage == Stage::Chain) {
    OPTRT_RETURN_IF_ERROR(chain.advance());
    if (hasResult)
      OPTRT_RETURN_IF_ERROR(result.advance());
    done = chain.isDone() && (!hasResult || result.isDone());
    return okStatus();
  }
  int arrived = 0;
  OPTIMUS_MPI_CHECK(MPI_Testall, static_cast<int>(requests.size()),
                    requests.data(), &arrived, MPI_STATUSES_IGNORE);
  if (!arrived)
    return okStatus();
  if (stage == Stage::Exchange)
    return afterExchange();
  if (desc.kind == OPTRT_ALL_REDUCE || members.index == desc.root)
    unpack(dst, desc.dst_ld, packed.data(), desc.inner, 0, count());
  done = true;
  return okStatus();
}

Status Operation::afterExchange() {
  int64_t inner = desc.inner;
  switch (desc.kind) {
  case OPTRT_REDUCE_SCATTER:
    // `packed` holds the sum, row after row.
    reduceReceived(count(), reserve(packed, count()));
    unpack(dst, desc.dst_ld, packed.data(), inner, 0, count());
    break;
  case OPTRT_REDUCE:
  case OPTRT_ALL_REDUCE:
    if (isOneRound()) {
      if (desc.kind == OPTRT_ALL_REDUCE || members.index == desc.root) {
        reduceReceived(count(), packed.data());
        unpack(dst, desc.dst_ld, packed.data(), inner, 0, count());
      }
      break;
    }
    // The parts were sent off: their place takes the result.
    float *own = packed.data() + offsets[members.index];
    reduceReceived(counts[members.index], own);
    return handOn();
  }
  done = true;
  return okStatus();
}

/// Sends this rank's part of the result to all, or to the root. MPI's own
/// collectives would have to be called in the same order by all ranks, but
/// these begin whenever the parts have arrived.
Status Operation::handOn() {
  stage = Stage::HandOn;
  requests.clear();
  const int n = members.size, index = members.index;
  auto wants = [&](int r) {
    return desc.kind == OPTRT_ALL_REDUCE || r == desc.root;
  };
  auto post = [&](auto call, int part, int peer) -> Status {
    requests.push_back(MPI_REQUEST_NULL);
    OPTIMUS_MPI_CHECK(call, packed.data() + offsets[part], counts[part],
                      MPI_FLOAT, peer, tag + 1, members.comm, &requests.back());
    return okStatus();
  };
  // Each rank begins with another peer, so that no link has all at once.
  for (int i = 1; i != n && wants(index); ++i)
    OPTRT_RETURN_IF_ERROR(
        post(MPI_Irecv, (index + n - i) % n, (index + n - i) % n));
  for (int i = 1; i != n; ++i)
    if (wants((index + i) % n))
      OPTRT_RETURN_IF_ERROR(post(MPI_Isend, index, (index + i) % n));
  return advance();
}

/// Adds the parts of `length` elements received from all ranks.
void Operation::reduceReceived(int64_t length, float *sum) const {
  for (int64_t begin = 0; begin < length; begin += kReductionBlock)
    reduceBlock(
        desc.reduction, members.size,
        [&](int r) { return received.data() + r * length + begin; },
        sum + begin, std::min<int64_t>(kReductionBlock, length - begin));
}

} // namespace optrt

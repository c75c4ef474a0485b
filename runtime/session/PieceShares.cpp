//===- PieceShares.cpp - The pieces of a checkpoint by process ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PieceShares.h"

#include "base/Thread.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <string_view>
#include <unordered_map>

using namespace optrt;

PieceList optrt::allPieces(const CheckpointPieces &pieces) {
  PieceList all(pieces.size());
  std::iota(all.begin(), all.end(), std::size_t(0));
  return all;
}

std::size_t optrt::numElements(const CheckpointPieces &pieces,
                               const PieceList &list) {
  std::size_t count = 0;
  for (std::size_t piece : list)
    count += pieces[piece].numElements();
  return count;
}

/// Fills gaps in a row with no buffer's elements.
static TensorMembers inOrder(TensorMembers members, int64_t row) {
  std::ranges::sort(members, {}, &TensorMember::begin);
  TensorMembers filled;
  int64_t end = 0;
  auto fillTo = [&](int64_t begin) {
    if (begin > end)
      filled.push_back({BufferPart::kNoBuffer, end, begin - end});
  };
  for (const TensorMember &member : members) {
    fillTo(member.begin);
    filled.push_back(member);
    end = member.begin + member.count;
  }
  fillTo(row);
  return filled;
}

std::vector<TensorMembers>
optrt::membersOf(const Manifest &manifest, const CheckpointPieces &pieces,
                 const std::function<bool(int64_t)> &takes) {
  struct Known {
    TensorMembers members;
    int64_t row = 0;
  };
  std::unordered_map<std::string_view, Known> byName;
  for (std::size_t i = 0; i != manifest.buffers.size(); ++i) {
    const std::optional<SavedTensor> &saved = manifest.buffers[i].saved;
    const auto index = static_cast<int64_t>(i);
    if (!saved || !takes(index))
      continue;
    const int64_t elements = manifest.buffers[i].layout.numElements();
    Known &known = byName[saved->name];
    known.row = saved->row ? saved->row : elements;
    known.members.push_back({index, saved->begin, elements / saved->numRows()});
  }
  std::vector<TensorMembers> tensors;
  for (std::size_t i = 0; i != pieces.numTensors(); ++i) {
    const TensorInfo &info = pieces.tensor(i).info;
    auto found = byName.find(info.name);
    tensors.push_back(
        found == byName.end()
            ? inOrder({}, optimus_support::numElements(info.shape))
            : inOrder(std::move(found->second.members), found->second.row));
  }
  return tensors;
}

/// Appends elements [begin, begin + count) of a tensor.
static void append(const TensorMembers &members, int64_t begin, int64_t count,
                   Slab &slab) {
  const int64_t row = members.back().begin + members.back().count;
  const int64_t end = begin + count;
  for (int64_t number = begin / row; begin < end; ++number)
    for (const TensorMember &member : members) {
      const int64_t at = number * row + member.begin;
      const int64_t stop = std::min(end, at + member.count);
      if (begin >= stop)
        continue;
      slab.push_back(
          {member.buffer, number * member.count + begin - at, stop - begin});
      begin = stop;
    }
}

Slab PieceSlabs::slab(std::size_t piece, std::size_t begin,
                      std::size_t count) const {
  Slab slab;
  for (const TensorPart &part : checkpoint.parts(piece, begin, count))
    append(tensors[part.tensor], part.begin, part.count, slab);
  return slab;
}

BufferPart PieceSlabs::sampleOf(std::size_t piece) const {
  // Anywhere: of a piece that many ranks hold columns of, each rank's turn
  // comes.
  const std::size_t count = checkpoint[piece].numElements();
  const std::size_t element = piece * std::size_t(0x9E3779B97F4A7C15) % count;
  return slab(piece, element, 1)[0];
}

Status PieceSlabs::forEach(std::size_t piece, const Visit &visit) const {
  std::vector<float> memory(
      std::min(checkpoint[piece].numElements(), std::size_t(kSlabElements)));
  return forEach(piece, memory, visit);
}

Status PieceSlabs::forEach(std::size_t piece, std::span<float> memory,
                           const Visit &visit) const {
  const std::size_t size = checkpoint[piece].numElements();
  for (std::size_t begin = 0, count; begin < size; begin += count) {
    count = std::min(size - begin, std::size_t(kSlabElements));
    const std::size_t at = memory.size() == size ? begin : 0;
    OPTRT_RETURN_IF_ERROR(
        visit(slab(piece, begin, count), memory.subspan(at, count)));
  }
  return okStatus();
}

void optrt::shareOut(const ShardExchange &exchange, const PieceSlabs &slabs,
                     std::span<const int> processes, const PieceList &pieces,
                     std::vector<PieceList> &lists) {
  const std::size_t most =
      (pieces.size() + processes.size() - 1) / processes.size();
  std::vector<bool> takesPart(lists.size());
  for (int process : processes)
    takesPart[process] = true;
  std::size_t next = 0; // of those that may have room
  for (std::size_t piece : pieces) {
    int process = exchange.holderOf(slabs.sampleOf(piece), int64_t(piece));
    if (process < 0 || !takesPart[process] || lists[process].size() >= most) {
      while (lists[processes[next]].size() >= most)
        ++next;
      process = processes[next];
    }
    lists[process].push_back(piece);
  }
}

void optrt::spreadOut(std::vector<PieceList> &lists, std::size_t threads) {
  for (std::size_t process = 0; process != lists.size(); ++process) {
    PieceList &list = lists[process];
    std::ranges::rotate(
        list,
        list.begin() + std::ptrdiff_t(list.size() * process / lists.size()));
    const std::size_t stride = (list.size() + threads - 1) / threads;
    PieceList spread;
    for (std::size_t i = 0; i != stride; ++i)
      for (std::size_t at = i; at < list.size(); at += stride)
        spread.push_back(list[at]);
    list = std::move(spread);
  }
}

void optrt::shareOutReading(const ShardExchange &exchange,
                            const PieceSlabs &slabs,
                            std::span<const int> readers, int first,
                            std::vector<PieceList> &lists) {
  std::vector<int> processes;
  for (std::size_t process = 0; process != readers.size(); ++process)
    if (readers[process] == first)
      processes.push_back(static_cast<int>(process));
  PieceList needed;
  for (std::size_t piece = 0; piece != slabs.pieces().size(); ++piece) {
    const Slab whole = slabs.whole(piece);
    if (std::ranges::any_of(processes, [&](int process) {
          return exchange.isPartOf(whole, process);
        }))
      needed.push_back(piece);
  }
  shareOut(exchange, slabs, processes, needed, lists);
}

Status optrt::onEachPiece(RankTeam &team, int threadsOfRank,
                          const PieceList &pieces,
                          const std::function<Status(std::size_t)> &fn) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  Status failure;
  auto work = [&] {
    for (std::size_t i; (i = next++) < pieces.size();)
      if (Status status = fn(pieces[i]); !status.ok()) {
        next = pieces.size();
        std::lock_guard guard(mutex);
        if (failure.ok())
          failure = std::move(status);
      }
  };
  Status ran = team.run([&](int) {
    std::vector<std::thread> others;
    const auto most = std::min(std::size_t(threadsOfRank), pieces.size());
    for (std::size_t i = 1; i < most; ++i) {
      StatusOr<std::thread> one =
          startThread("a thread for pieces of a checkpoint", work);
      if (!one.ok())
        break;
      others.push_back(std::move(one).value());
    }
    work();
    for (std::thread &one : others)
      one.join();
    return okStatus();
  });
  return failure.ok() ? ran : failure;
}

SlabRounds::SlabRounds(const PieceSlabs &slabs,
                       const std::vector<PieceList> &lists)
    : all(slabs), lists(lists), cursors(lists.size()), current(lists.size()) {
  for (std::size_t process = 0; process != lists.size(); ++process)
    look(process);
}

void SlabRounds::look(std::size_t process) {
  Cursor &cursor = cursors[process];
  cursor.count = 0;
  current[process].clear();
  if (cursor.index == lists[process].size())
    return;
  const std::size_t piece = lists[process][cursor.index];
  cursor.count = std::min(all.pieces()[piece].numElements() - cursor.begin,
                          std::size_t(kSlabElements));
  current[process] = all.slab(piece, cursor.begin, cursor.count);
}

bool SlabRounds::done() const {
  return std::ranges::all_of(
      cursors, [](const Cursor &cursor) { return cursor.count == 0; });
}

void SlabRounds::advance() {
  for (std::size_t process = 0; process != lists.size(); ++process) {
    Cursor &cursor = cursors[process];
    if (cursor.count == 0)
      continue;
    cursor.begin += cursor.count;
    if (cursor.begin ==
        all.pieces()[lists[process][cursor.index]].numElements())
      cursor.begin = 0, ++cursor.index;
    look(process);
  }
}

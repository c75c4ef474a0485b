//===- SharedGpuGroup.cpp - Collectives within a GPU ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedGpuRank.h"

#include "ccl/Agreement.h"

#include "optimus-support/ElementType.h"

#include <algorithm>

namespace optrt {

static int64_t elementBytesOf(const optrt_collective_desc &desc) {
  return optimus_support::elementBytes(optimus_support::ElementType(desc.type));
}

static char *at(const void *matrix, int64_t elements,
                const optrt_collective_desc &desc) {
  return static_cast<char *>(const_cast<void *>(matrix)) +
         elements * elementBytesOf(desc);
}

Status SharedGpuGroup::start(int index, const Posting &posting) {
  postings[index] = posting;
  return gpu.meet(meeting, index, [this] { return startForAll(); });
}

Status SharedGpuGroup::checkPostings() const {
  const Posting &first = postings.front();
  for (size_t member = 1; member != postings.size(); ++member) {
    const Posting &other = postings[member];
    auto started = [&](size_t index, const Posting &posting, size_t number) {
      const QueuedCollective &one = posting.together[number];
      return StartedCollective{
          meeting.ranks[index], {one.command, posting.function}, *one.desc};
    };
    for (size_t number = 0;
         number != std::min(first.together.size(), other.together.size());
         ++number)
      OPTRT_RETURN_IF_ERROR(checkAgreement(control, started(0, first, number),
                                           started(member, other, number)));
    if (first.together.size() != other.together.size())
      return internal(
          concat("ranks disagree: rank ", meeting.ranks[0], " starts ",
                 first.together.size(), " collectives together where rank ",
                 meeting.ranks[member], " starts ", other.together.size()));
  }
  return okStatus();
}

Status SharedGpuGroup::startForAll() {
  OPTRT_RETURN_IF_ERROR(checkPostings());
  const Posting &first = postings.front();
  for (const Posting &other : std::span(postings).subspan(1))
    OPTRT_RETURN_IF_ERROR(
        first.device->follow(first.queue, *other.device, other.queue));
  for (size_t number = 0; number != first.together.size(); ++number)
    OPTRT_RETURN_IF_ERROR(move(number));
  for (const Posting &other : std::span(postings).subspan(1))
    OPTRT_RETURN_IF_ERROR(
        other.device->follow(other.queue, *first.device, first.queue));
  return okStatus();
}

Status SharedGpuGroup::move(size_t number) {
  const QueuedCollective &first = postings.front().together[number];
  const optrt_collective_desc &desc = *first.desc;
  auto of = [&](int64_t member) -> const QueuedCollective & {
    return postings[member].together[number];
  };
  // Copies a block of one member's source to a place of another's destination.
  auto give = [&](int64_t from, int64_t block, int64_t to, int64_t place) {
    const optrt_collective_desc &source = *of(from).desc,
                                &target = *of(to).desc;
    void *destination = at(of(to).dst, place * desc.inner, desc);
    const void *origin = at(of(from).src, block * desc.inner, desc);
    return origin == destination ? okStatus()
                                 : postings.front().device->copy(
                                       postings.front().queue,
                                       {desc.outer, desc.inner, source.src_ld,
                                        target.dst_ld, elementBytesOf(desc)},
                                       origin, destination);
  };
  if (addsUp(desc.kind) && size() == 1)
    return give(0, 0, 0, 0);
  std::vector<void *> results;
  switch (desc.kind) {
  case OPTRT_REDUCE:
    results.push_back(of(desc.root).dst);
    return reduce(number, 0, results);
  case OPTRT_ALL_REDUCE:
    for (int64_t member = 0; member != size(); ++member)
      results.push_back(of(member).dst);
    return reduce(number, 0, results);
  case OPTRT_REDUCE_SCATTER:
    for (int64_t member = 0; member != size(); ++member) {
      results = {of(member).dst};
      OPTRT_RETURN_IF_ERROR(reduce(number, member * desc.inner, results));
    }
    return okStatus();
  default:
    break;
  }
  for (int64_t from = 0; from != size(); ++from)
    for (int64_t to = 0; to != size(); ++to) {
      const bool exchanges = desc.kind == OPTRT_ALL_TO_ALL;
      if (desc.kind == OPTRT_BROADCAST && from != desc.root)
        continue;
      OPTRT_RETURN_IF_ERROR(give(from, exchanges ? to : 0, to,
                                 desc.kind == OPTRT_BROADCAST ? 0 : from));
    }
  return okStatus();
}

Status SharedGpuGroup::reduce(size_t number, int64_t offset,
                              std::span<void *const> results) {
  const Posting &first = postings.front();
  const QueuedCollective &one = first.together[number];
  std::vector<void *> arguments;
  for (const Posting &posting : postings)
    arguments.push_back(at(posting.together[number].src, offset, *one.desc));
  arguments.insert(arguments.end(), results.begin(), results.end());
  const optrt_launch_desc launch{one.kernel->name,
                                 one.desc->outer * one.desc->inner,
                                 /*grain=*/1, int32_t(arguments.size()),
                                 /*num_scalars=*/0};
  return first.device->launch(first.queue, launch, *one.kernel,
                              arguments.data());
}

} // namespace optrt

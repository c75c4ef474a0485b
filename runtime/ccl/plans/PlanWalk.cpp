//===- PlanWalk.cpp - A member on its way through a plan ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanWalk.h"

#include "../RankOrderReduction.h"
#include "base/Subnormals.h"
#include "optimus-support/ElementType.h"

#include <cstring>

using namespace optrt;
using namespace optimus_support;

CollectiveShape optrt::shapeOf(const optrt_collective_desc &desc) {
  return {program::CollectiveKind(desc.kind), desc.outer, desc.inner,
          desc.src_ld, desc.dst_ld};
}

CollectivePlan optrt::planOf(const optrt_collective_desc &desc, int index,
                             int size, CollectiveRoute route,
                             CollectivePlan former) {
  return isMessage(desc.kind)
             ? planMessage(shapeOf(desc), desc.kind == OPTRT_SEND, desc.root,
                           std::move(former))
             : planCollective(shapeOf(desc), desc.root, index, size, route,
                              std::move(former));
}

std::vector<int64_t> PlanWalk::bufferBytes(const CollectivePlan &plan,
                                           const PlanLimits &limits,
                                           const optrt_collective_desc &desc) {
  std::vector<int64_t> bytes;
  for (int64_t elements : roomFor(plan, limits))
    bytes.push_back(elements *
                    optimus_support::elementBytes(ElementType(desc.type)));
  return bytes;
}

Status PlanWalk::begin(CollectivePlan newPlan, const PlanLimits &newLimits,
                       const optrt_collective_desc &newDesc, const void *newSrc,
                       void *newDst) {
  plan = std::move(newPlan);
  limits = newLimits;
  desc = newDesc;
  src = static_cast<std::byte *>(const_cast<void *>(newSrc));
  dst = static_cast<std::byte *>(newDst);
  flushes = flushesSubnormals();
  elementBytes = optimus_support::elementBytes(ElementType(desc.type));
  ringLength = limits.ringLength(plan);
  const CollectiveRoom room = roomFor(plan, limits);
  for (std::size_t i = 0; i != buffers.size(); ++i)
    buffers[i].reserve(room[i] * elementBytes);
  progress.clear();
  for (Channel &channel : channels) {
    channel.sends.clear();
    channel.next = channel.inFlight = 0;
  }
  for (const Step &step : plan.steps) {
    if (step.kind == Step::Send)
      channels[step.channel].sends.push_back(static_cast<int>(progress.size()));
    progress.push_back({(step.count - 1) / limits.segment + 1});
  }
  stepsLeft = static_cast<int>(plan.steps.size());
  return work();
}

Status PlanWalk::advance() {
  // What ended without a new message leaves nothing to look at.
  for (hasPosted = true; hasPosted && !isDone();) {
    hasPosted = false;
    ended.clear();
    OPTRT_RETURN_IF_ERROR(test(ended));
    for (const Message &message : ended)
      end(message);
    if (!ended.empty())
      OPTRT_RETURN_IF_ERROR(work());
  }
  return okStatus();
}

Status PlanWalk::work() {
  for (bool hasRun = true; hasRun;) {
    hasRun = false;
    for (int i = 0; i != static_cast<int>(plan.steps.size()); ++i) {
      const Step &step = plan.steps[i];
      const Progress &own = progress[i];
      while (step.kind != Step::Send && isReady(i)) {
        if (step.kind == Step::Receive) {
          if (own.started - own.done == limits.receives)
            break;
          OPTRT_RETURN_IF_ERROR(post(start(i)));
          hasPosted = true;
          continue;
        }
        const Message segment = start(i);
        const int64_t begin = segment.segment * limits.segment;
        step.kind == Step::Add ? add(step, begin, segment.elements)
                               : copy(step, begin, segment.elements);
        end(segment);
        hasRun = true;
      }
    }
    for (Channel &channel : channels)
      OPTRT_RETURN_IF_ERROR(postSends(channel));
  }
  if (isDone())
    doneAt = Communicator::Clock::now();
  return okStatus();
}

Status PlanWalk::postSends(Channel &channel) {
  const std::size_t size = channel.sends.size();
  for (std::size_t refused = 0;
       refused != size && channel.inFlight != limits.sends; ++refused) {
    const int step = channel.sends[channel.next];
    channel.next = (channel.next + 1) % size;
    if (!isReady(step))
      continue;
    ++channel.inFlight;
    OPTRT_RETURN_IF_ERROR(post(start(step)));
    hasPosted = true;
    refused = 0;
  }
  return okStatus();
}

/// Whether a step has a next segment, and all for it is there.
bool PlanWalk::isReady(int i) const {
  const Step &step = plan.steps[i];
  const int64_t next = progress[i].started;
  if (next == progress[i].segments)
    return false;
  for (int before : plan.stepsBefore(step))
    if (progress[before].done <= next)
      return false;
  return step.release == Step::kNone ||
         next - progress[step.release].done < limits.receives;
}

PlanWalk::Message PlanWalk::start(int i) {
  const Step &step = plan.steps[i];
  const int64_t segment = progress[i].started++,
                begin = segment * limits.segment;
  return {i, segment, at(step.kind == Step::Send ? step.from : step.to, begin),
          std::min(limits.segment, step.count - begin)};
}

void PlanWalk::end(const Message &message) {
  const Step &step = stepOf(message);
  if (step.kind == Step::Send)
    --channels[step.channel].inFlight;
  Progress &own = progress[message.step];
  own.early |= uint64_t(1) << (message.segment - own.done);
  for (; own.early & 1; own.early >>= 1)
    ++own.done;
  stepsLeft -= own.done == own.segments;
}

void PlanWalk::add(const Step &step, int64_t begin, int64_t length) {
  const SubnormalScope scope(flushes);
  withElement(desc.type, [&](auto element) {
    using T = decltype(element);
    // Of rows that lie apart, and of a sum where it may not be written yet: in
    // place it would be over a term that is not the first.
    alignas(64) T packed[kReductionBlock], sum[kReductionBlock];
    for (const int64_t end = begin + length; begin != end;) {
      const int64_t some = std::min<int64_t>(kReductionBlock, end - begin);
      T *result = sum;
      if (shapeOf(desc).isTogether(step.to) &&
          (dst != src || at(step.to, begin) == at(plan.terms[0], begin)))
        result = reinterpret_cast<T *>(at(step.to, begin));
      reduceBlock(
          desc.reduction, static_cast<int>(plan.terms.size()),
          [&](int member) {
            const T *term = packed;
            forEachRun(plan.terms[member], begin, some,
                       [&](std::byte *run, int64_t offset, int64_t count) {
                         if (count == some)
                           term = reinterpret_cast<T *>(run);
                         else
                           std::memcpy(packed + offset, run, count * sizeof(T));
                       });
            return term;
          },
          result, some);
      if (result == sum)
        forEachRun(step.to, begin, some,
                   [&](std::byte *run, int64_t offset, int64_t count) {
                     std::memcpy(run, sum + offset, count * sizeof(T));
                   });
      begin += some;
    }
  });
}

void PlanWalk::copy(const Step &step, int64_t begin, int64_t length) {
  // What a root gives lies in its destination, or is not wanted there.
  if (step.from.place == View::Source && step.to.place == View::Destination &&
      (!dst || dst == src))
    return;
  forEachRun(step.to, begin, length,
             [&](std::byte *to, int64_t first, int64_t some) {
               forEachRun(step.from, begin + first, some,
                          [&](std::byte *from, int64_t offset, int64_t count) {
                            std::memcpy(to + offset * elementBytes, from,
                                        count * elementBytes);
                          });
             });
}

std::byte *PlanWalk::at(const View &view, int64_t element) const {
  if (view.place == View::Passing)
    return buffers[2].data() +
           (view.begin * ringLength + element % ringLength) * elementBytes;
  element += view.begin;
  if (view.place > View::Destination)
    return buffers[view.place - View::Slots].data() + element * elementBytes;
  const bool isSource = view.place == View::Source;
  if (!shapeOf(desc).isTogether(view))
    element = element / desc.inner * (isSource ? desc.src_ld : desc.dst_ld) +
              element % desc.inner;
  return (isSource ? src : dst) + (view.column + element) * elementBytes;
}

template <typename Body>
void PlanWalk::forEachRun(const View &view, int64_t begin, int64_t length,
                          Body body) const {
  const bool isTogether = shapeOf(desc).isTogether(view);
  for (int64_t done = 0, some; done != length; done += some) {
    some = length - done;
    if (!isTogether)
      some =
          std::min(some, desc.inner - (view.begin + begin + done) % desc.inner);
    body(at(view, begin + done), done, some);
  }
}

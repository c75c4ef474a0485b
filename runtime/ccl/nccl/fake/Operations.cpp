//===- Operations.cpp - What a fake NCCL does on a stream -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operations.h"

#include "ccl/RankOrderReduction.h"
#include "optimus-runtime/Collectives.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace optrt::nccl::fake {

std::string Call::toString() const {
  return concat(collectiveName(kind), " of ", count, " elements of type ", type,
                ", reduction ", reduction, ", root ", root);
}

//===----------------------------------------------------------------------===//
// One
//===----------------------------------------------------------------------===//

std::string Operation::name() const {
  return std::string(collectiveName(call.kind));
}

bool Operation::isMessage() const { return optrt::isMessage(call.kind); }

bool Operation::sends() const {
  return call.kind == OPTRT_BROADCAST ? isRoot() : call.kind != OPTRT_RECEIVE;
}

size_t Operation::elementBytes() const {
  return optimus_support::elementBytes(optimus_support::ElementType(call.type));
}

std::string Operation::letter() const {
  if (!isMessage())
    return concat(number);
  return concat(call.kind == OPTRT_SEND ? "to-" : "from-", call.root, "-",
                number);
}

void *Operation::touch(const void *at, size_t bytes, bool isWrite) const {
  return optimus_fake_gpu_touch({at, int64_t(bytes), 1, 0, isWrite},
                                collectiveName(call.kind).data());
}

/// Whether a variable GPU:N names the Nth operation of a communicator there.
static bool isMeant(const char *variable, int gpu, uint64_t number) {
  const char *text = std::getenv(variable);
  return text && concat(gpu, ":", number) == text;
}

cuda::Result Operation::begin() {
  const uint64_t place = ++comm->begun;
  number = isMessage() ? ++comm->messages[{call.kind, call.root}]
                       : ++comm->collectives;
  hangs = isMeant("OPTIMUS_FAKE_NCCL_HANG", comm->gpu, place);
  fails = isMeant("OPTIMUS_FAKE_NCCL_FAIL", comm->gpu, place);
  std::string text(reinterpret_cast<const char *>(&call), sizeof(call));
  if (sends()) {
    const size_t parts = call.kind == OPTRT_REDUCE_SCATTER ? comm->size : 1;
    const size_t bytes = parts * call.count * elementBytes();
    void *from = touch(src, bytes, /*isWrite=*/false);
    if (!from)
      return cuda::kIllegalAddress;
    text.append(static_cast<const char *>(from), bytes);
  }
  comm->mailbox.put(letter(), comm->index, text);
  return cuda::kSuccess;
}

bool Operation::canEnd() {
  if (fails && comm->error == kSuccess) {
    comm->lastError = "the network of this fake GPU is broken";
    comm->error = kSystemError;
  }
  if (hangs || fails)
    return false;
  if (!isMessage())
    return comm->mailbox.hasAll(letter(), comm->size);
  // Neither end goes on before the other has begun.
  return comm->mailbox.has(concat(call.kind == OPTRT_SEND ? "from-" : "to-",
                                  comm->index, "-", number),
                           call.root);
}

cuda::Result Operation::end() {
  if (call.kind == OPTRT_SEND)
    return cuda::kSuccess;
  if (call.kind == OPTRT_RECEIVE)
    return receiveMessage();
  std::vector<std::string> texts;
  for (int member = 0; member != comm->size; ++member) {
    texts.push_back(comm->mailbox.get(letter(), member));
    Call other;
    std::memcpy(&other, texts.back().data(), sizeof(other));
    if (other != call)
      return optimus_fake_gpu_fail(
          concat("ranks of an NCCL communicator differ in collective ", number,
                 ": rank ", comm->index, " has ", call.toString(), "; rank ",
                 member, " has ", other.toString()));
  }
  if (!addsUp(call.kind))
    return receiveMoved(texts);
  return withElement(call.type, [&](auto element) {
    return receiveSum<decltype(element)>(texts);
  });
}

cuda::Result Operation::receiveMessage() {
  const std::string text =
      comm->mailbox.get(concat("to-", comm->index, "-", number), call.root);
  Call sent;
  std::memcpy(&sent, text.data(), sizeof(sent));
  if (sent.type != call.type || sent.count != call.count)
    return optimus_fake_gpu_fail(concat(
        "rank ", call.root, " of an NCCL communicator sends ", sent.count,
        " elements of type ", sent.type, " to rank ", comm->index,
        ", which expects ", call.count, " of type ", call.type));
  const size_t bytes = call.count * elementBytes();
  void *to = touch(dst, bytes, /*isWrite=*/true);
  if (!to)
    return cuda::kIllegalAddress;
  std::memcpy(to, text.data() + sizeof(Call), bytes);
  return cuda::kSuccess;
}

cuda::Result Operation::receiveMoved(const std::vector<std::string> &texts) {
  // In place, a root's own data does not move.
  if (call.kind == OPTRT_BROADCAST && isRoot() && src == dst)
    return cuda::kSuccess;
  const size_t bytes = call.count * elementBytes();
  const bool isBroadcast = call.kind == OPTRT_BROADCAST;
  const size_t first = isBroadcast ? call.root : 0,
               parts = isBroadcast ? 1 : texts.size();
  auto *to = static_cast<char *>(touch(dst, parts * bytes, /*isWrite=*/true));
  if (!to)
    return cuda::kIllegalAddress;
  for (size_t part = 0; part != parts; ++part)
    std::memcpy(to + part * bytes, texts[first + part].data() + sizeof(Call),
                bytes);
  return cuda::kSuccess;
}

template <typename T>
cuda::Result Operation::receiveSum(const std::vector<std::string> &texts) {
  if (call.kind == OPTRT_REDUCE && !isRoot())
    return cuda::kSuccess;
  auto *to =
      static_cast<T *>(touch(dst, call.count * sizeof(T), /*isWrite=*/true));
  if (!to)
    return cuda::kIllegalAddress;
  auto sent = [&](size_t member, size_t at) {
    return reinterpret_cast<const T *>(texts[member].data() + sizeof(Call)) +
           at;
  };
  const size_t first =
      call.kind == OPTRT_REDUCE_SCATTER ? comm->index * call.count : 0;
  for (size_t at = 0; at < call.count; at += kReductionBlock)
    reduceBlock<T>(
        call.reduction, int(texts.size()),
        [&](int member) { return sent(size_t(member), first + at); }, to + at,
        std::min(kReductionBlock, call.count - at));
  return cuda::kSuccess;
}

//===----------------------------------------------------------------------===//
// Several
//===----------------------------------------------------------------------===//

std::string Together::name() const {
  std::string names;
  for (const Operation &one : operations)
    names += (names.empty() ? "" : ", ") + one.name();
  return names;
}

cuda::Result Together::begin() {
  place.take();
  if (comm().isAborted)
    return cuda::kSuccess;
  if (std::exchange(comm().isUnderWay, true))
    return optimus_fake_gpu_fail(
        concat("a communicator of GPU ", comm().gpu, " begins ", name(),
               " while another collective is under way"));
  for (Operation &one : operations)
    if (cuda::Result result = one.begin(); result != cuda::kSuccess)
      return result;
  return cuda::kSuccess;
}

bool Together::canEnd() {
  return comm().isAborted ||
         std::all_of(operations.begin(), operations.end(),
                     [](Operation &one) { return one.canEnd(); });
}

cuda::Result Together::end() {
  place.leave();
  if (comm().isAborted)
    return cuda::kSuccess;
  comm().isUnderWay = false;
  for (Operation &one : operations)
    if (cuda::Result result = one.end(); result != cuda::kSuccess)
      return result;
  // All have begun what all take part in, and so ended all before.
  if (!std::all_of(operations.begin(), operations.end(),
                   [](const Operation &one) { return one.isMessage(); }))
    for (const std::string &letter : std::exchange(comm().letters, {}))
      comm().mailbox.remove(letter, comm().index);
  for (const Operation &one : operations)
    comm().letters.push_back(one.letter());
  return cuda::kSuccess;
}

} // namespace optrt::nccl::fake

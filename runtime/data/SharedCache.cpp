//===- SharedCache.cpp - Bytes of data that a machine keeps ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedCache.h"

#include "optimus-support/Hash.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace optrt;

/// Zeros are an empty cache, so that nobody has to write one first.
struct SharedCache::Header {
  std::atomic<int64_t> kept; ///< bytes, with those in work
  /// Behind it.
  std::atomic<uint8_t> *states() {
    return reinterpret_cast<std::atomic<uint8_t> *>(this + 1);
  }
};

static_assert(std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<uint8_t>::is_always_lock_free);

int64_t SharedCache::headerBytes() const {
  constexpr int64_t page = 4096;
  const int64_t size = int64_t(sizeof(Header)) + numPieces();
  return (size + page - 1) / page * page;
}

StatusOr<std::unique_ptr<SharedCache>>
SharedCache::open(const std::string &folder, const std::string &name,
                  int64_t bytes, int64_t limit) {
  std::unique_ptr<SharedCache> cache(new SharedCache);
  cache->bytes = bytes;
  cache->limit = std::min(limit, bytes);
  const std::string what = concat("cache 1 of ", kPieceBytes, " ", getuid(),
                                  " ", limit, " ", bytes, " ", name);
  cache->path =
      concat(folder, "/optimus-data-",
             optimus_support::hashToHex(optimus_support::hash64(what)));
  auto fail = [&](const char *why) {
    return invalidArgument(concat("cannot ", why, " ", cache->path,
                                  ", a cache of data: ", strerror(errno)));
  };
  while (true) {
    cache->descriptor = ::open(cache->path.c_str(),
                               O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (cache->descriptor < 0)
      return fail("open");
    struct stat found = {};
    if (flock(cache->descriptor, LOCK_SH) != 0 ||
        fstat(cache->descriptor, &found) != 0)
      return fail("lock");
    if (found.st_nlink > 0)
      break;
    // Its last user has removed it meanwhile.
    ::close(cache->descriptor);
  }
  const int64_t size = cache->headerBytes() + bytes;
  if (ftruncate(cache->descriptor, size) != 0)
    return fail("size");
  // A store into the mapping must find its page.
  if (int error = posix_fallocate(cache->descriptor, 0, cache->headerBytes())) {
    errno = error;
    return fail("take memory for");
  }
  void *mapped = mmap(nullptr, cache->headerBytes(), PROT_READ | PROT_WRITE,
                      MAP_SHARED, cache->descriptor, 0);
  if (mapped == MAP_FAILED)
    return fail("map");
  cache->header = static_cast<Header *>(mapped);
  return cache;
}

SharedCache::~SharedCache() {
  if (header)
    munmap(header, headerBytes());
  if (descriptor < 0)
    return;
  // Nobody else has it.
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    ::unlink(path.c_str());
  ::close(descriptor);
}

/// Where the piece does not become present, whoever wants it reads it again.
Status SharedCache::fill(int64_t piece, const Read &read) {
  const int64_t begin = piece * kPieceBytes;
  const int64_t count = std::min(kPieceBytes, bytes - begin);
  if (header->kept.fetch_add(count) + count > limit) {
    header->kept -= count;
    return okStatus();
  }
  uint8_t expected = Absent;
  if (!header->states()[piece].compare_exchange_strong(expected, InWork)) {
    header->kept -= count;
    return okStatus();
  }
  std::vector<char> content(count);
  Status status = read(begin, content.data(), count);
  // Unlike a store into a mapping, a write says that memory is short.
  const bool isKept =
      status.ok() && pwrite(descriptor, content.data(), count,
                            headerBytes() + begin) == ssize_t(count);
  if (!isKept)
    header->kept -= count;
  header->states()[piece] = isKept ? Present : Absent;
  return status;
}

Status SharedCache::get(int64_t begin, char *to, int64_t count,
                        const Read &read) {
  while (count > 0) {
    const int64_t piece = begin / kPieceBytes;
    const int64_t part = std::min(count, (piece + 1) * kPieceBytes - begin);
    const bool isHit = header->states()[piece] == Present;
    (isHit ? hits : misses) += part;
    if (!isHit && header->states()[piece] == Absent && header->kept < limit)
      OPTRT_RETURN_IF_ERROR(fill(piece, read));
    if (header->states()[piece] != Present ||
        pread(descriptor, to, part, headerBytes() + begin) != ssize_t(part))
      OPTRT_RETURN_IF_ERROR(read(begin, to, part));
    begin += part;
    to += part;
    count -= part;
  }
  return okStatus();
}

CacheUse SharedCache::use() const {
  return {std::min<int64_t>(header->kept, limit), hits, misses};
}

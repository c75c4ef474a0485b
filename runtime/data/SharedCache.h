//===- SharedCache.h - Bytes of data that a machine keeps -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file in the machine's memory (/dev/shm), of all processes with the same data
// and the same limit. Pieces are kept in the order in which somebody reads them
// first, until the limit is reached, and never given up. A shuffled epoch reads
// everything once: a cache that evicts would keep nothing of it. After CoorDL's
// MinIO (Mohan et al., VLDB 2021).
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_SHAREDCACHE_H
#define OPTIMUS_RUNTIME_DATA_SHAREDCACHE_H

#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Status.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace optrt {

/// Its functions may be called from several threads at once. The last process
/// that closes it removes the file; after a kill the next one does.
class SharedCache {
public:
  static constexpr int64_t kPieceBytes = 16 << 10;
  using Read = std::function<Status(int64_t begin, char *to, int64_t count)>;

  /// Of `bytes` in all, of which `limit` are kept. `name` is that of the data.
  ///
  /// Errors: InvalidArgument where `folder` takes no file of this size.
  static StatusOr<std::unique_ptr<SharedCache>> open(const std::string &folder,
                                                     const std::string &name,
                                                     int64_t bytes,
                                                     int64_t limit);
  ~SharedCache();
  SharedCache(const SharedCache &) = delete;
  SharedCache &operator=(const SharedCache &) = delete;

  /// Bytes [begin, begin + count). `read` has those that are not there; its
  /// errors are returned. Memory that is short ends the filling, not the run.
  Status get(int64_t begin, char *to, int64_t count, const Read &read);

  CacheUse use() const;

private:
  SharedCache() = default;
  struct Header;
  enum State : uint8_t { Absent, InWork, Present };
  int64_t numPieces() const { return (bytes + kPieceBytes - 1) / kPieceBytes; }
  /// Bytes of the file before the first piece.
  int64_t headerBytes() const;
  Status fill(int64_t piece, const Read &read);

  std::string path;
  int descriptor = -1;
  int64_t bytes = 0, limit = 0;
  Header *header = nullptr; ///< mapped
  std::atomic<int64_t> hits = 0, misses = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_SHAREDCACHE_H

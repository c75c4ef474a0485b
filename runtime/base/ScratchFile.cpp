//===- ScratchFile.cpp - Memory that lies in a file -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScratchFile.h"

#include "optimus-support/Pages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace optrt;

static constexpr int64_t pageBytes = optimus_support::kPageBytes;
static constexpr int64_t bounceBytes = 256 * pageBytes;

static std::string reasonOf(int error) { return std::strerror(error); }

StatusOr<std::unique_ptr<ScratchFile>>
ScratchFile::create(const std::string &folder, int64_t bytes,
                    const std::string &purpose) {
  std::unique_ptr<ScratchFile> scratch(new ScratchFile);
  std::string path = folder + "/optimus-scratch-XXXXXX";
  scratch->file = mkostemp(path.data(), O_CLOEXEC);
  if (scratch->file < 0)
    return unavailable(concat("cannot make a scratch file in '", folder,
                              "': ", reasonOf(errno),
                              "; name a folder on a disk with --scratch DIR"));
  unlink(path.c_str());
  scratch->size = (bytes + pageBytes - 1) / pageBytes * pageBytes;
  if (int error = posix_fallocate(scratch->file, 0, scratch->size))
    return unavailable(concat("cannot keep ", bytes, " bytes for ", purpose,
                              " in a scratch file in '", folder,
                              "': ", reasonOf(error),
                              "; free some space, or name a folder on a larger "
                              "disk with --scratch DIR"));
  // A file system that knows no direct access goes through its cache.
  fcntl(scratch->file, F_SETFL, fcntl(scratch->file, F_GETFL) | O_DIRECT);
  scratch->bounce.reset(
      static_cast<char *>(std::aligned_alloc(pageBytes, bounceBytes)));
  void *addresses = mmap(nullptr, scratch->size, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!scratch->bounce || addresses == MAP_FAILED)
    return unavailable(
        concat("cannot reserve ", bytes, " addresses for ", purpose));
  scratch->addresses = static_cast<char *>(addresses);
  return scratch;
}

ScratchFile::~ScratchFile() {
  if (addresses)
    munmap(addresses, size);
  if (file >= 0)
    close(file);
}

StatusOr<int64_t> ScratchFile::offsetOf(const void *address,
                                        int64_t bytes) const {
  const int64_t offset = static_cast<const char *>(address) - addresses;
  if (!contains(address) || bytes < 0 || bytes > size - offset)
    return internal(concat("touches ", bytes, " bytes at byte ", offset,
                           " of a scratch file of ", size));
  return offset;
}

Status ScratchFile::read(const void *address, void *to, int64_t bytes) {
  OPTRT_ASSIGN_OR_RETURN(int64_t offset, offsetOf(address, bytes));
  return transfer(/*writes=*/false, offset, static_cast<char *>(to), bytes);
}

Status ScratchFile::write(void *address, const void *from, int64_t bytes) {
  OPTRT_ASSIGN_OR_RETURN(int64_t offset, offsetOf(address, bytes));
  return transfer(/*writes=*/true, offset,
                  const_cast<char *>(static_cast<const char *>(from)), bytes);
}

Status ScratchFile::transfer(bool writes, int64_t offset, char *memory,
                             int64_t bytes) {
  const bool isAligned = offset % pageBytes == 0 &&
                         reinterpret_cast<uintptr_t>(memory) % pageBytes == 0;
  const int64_t whole = isAligned ? bytes / pageBytes * pageBytes : 0;
  OPTRT_RETURN_IF_ERROR(transferPages(writes, offset, memory, whole));
  return transferParts(writes, offset + whole, memory + whole, bytes - whole);
}

Status ScratchFile::transferParts(bool writes, int64_t offset, char *memory,
                                  int64_t bytes) {
  if (bytes == 0)
    return okStatus();
  std::lock_guard lock(mutex);
  while (bytes > 0) {
    const int64_t skipped = offset % pageBytes, begin = offset - skipped;
    const int64_t part = std::min(bytes, bounceBytes - skipped);
    const int64_t pages =
        (skipped + part + pageBytes - 1) / pageBytes * pageBytes;
    // Of pages that are written by half the rest stays.
    if (!writes || skipped != 0 || part % pageBytes != 0)
      OPTRT_RETURN_IF_ERROR(
          transferPages(/*writes=*/false, begin, bounce.get(), pages));
    if (writes) {
      std::memcpy(bounce.get() + skipped, memory, part);
      OPTRT_RETURN_IF_ERROR(
          transferPages(/*writes=*/true, begin, bounce.get(), pages));
    } else {
      std::memcpy(memory, bounce.get() + skipped, part);
    }
    offset += part;
    memory += part;
    bytes -= part;
  }
  return okStatus();
}

Status ScratchFile::transferPages(bool writes, int64_t offset, char *memory,
                                  int64_t bytes) const {
  while (bytes > 0) {
    const ssize_t done = writes ? pwrite(file, memory, bytes, offset)
                                : pread(file, memory, bytes, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return unavailable(
          concat("cannot ", writes ? "write" : "read", " ", bytes,
                 " bytes at byte ", offset, " of a scratch file: ",
                 done < 0 ? reasonOf(errno) : std::string("it ends there")));
    offset += done;
    memory += done;
    bytes -= done;
  }
  return okStatus();
}

//===- ScratchFolder.cpp - Temporary files of one process -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ScratchFolder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace optimus_support;
namespace fs = std::filesystem;

/// A folder this young may be about to be locked.
static constexpr time_t kYoungSeconds = 60;

static int lockFolder(const fs::path &path) {
  int descriptor =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

/// Removes the leftovers of killed processes.
static void removeStale(const fs::path &parent, const std::string &prefix) {
  std::error_code ignored;
  for (fs::directory_iterator entry(parent, ignored), end; entry != end;
       entry.increment(ignored)) {
    struct stat info;
    const fs::path &path = entry->path();
    if (!path.filename().string().starts_with(prefix) ||
        lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != geteuid() ||
        time(nullptr) - info.st_mtime < kYoungSeconds)
      continue;
    int lock = lockFolder(path);
    if (lock < 0)
      continue;
    fs::remove_all(path, ignored);
    close(lock);
  }
}

StatusOr<std::unique_ptr<ScratchFolder>>
ScratchFolder::create(const std::string &tool) {
  const char *variable = std::getenv("TMPDIR");
  fs::path parent = variable && *variable ? variable : "/tmp";
  std::string prefix = tool + "-tmp-";
  removeStale(parent, prefix);
  std::string path = (parent / (prefix + "XXXXXX")).string();
  if (!mkdtemp(path.data()))
    return invalidArgument(
        concat("cannot make temporary files in '", parent.string(),
               "': ", strerror(errno),
               "; set TMPDIR to a folder that can be written"));
  std::unique_ptr<ScratchFolder> scratch(new ScratchFolder());
  scratch->folder = TemporaryPath(path);
  scratch->lock = lockFolder(path);
  return scratch;
}

ScratchFolder::~ScratchFolder() {
  if (lock >= 0)
    close(lock);
}

std::string ScratchFolder::file(const std::string &name) {
  return files.emplace_back(folder.path() + "/" + name).path();
}

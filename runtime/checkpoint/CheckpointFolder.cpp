//===- CheckpointFolder.cpp - Where a checkpoint lies on disk -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFolder.h"

#include "base/Thread.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-support/Hash.h"
#include "optimus-support/TemporaryPath.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <random>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace optrt;
using optimus_support::FileLock;
using optimus_support::hiddenSibling;
namespace fs = std::filesystem;

std::string optrt::modelShardName(size_t index, size_t count) {
  char name[64];
  snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1,
           count);
  return name;
}

bool optrt::isModelFileName(std::string_view name) {
  if (name == kModelFile)
    return true;
  // '#' stands for a digit.
  constexpr std::string_view pattern = "model-#####-of-#####.safetensors";
  if (name.size() != pattern.size())
    return false;
  for (size_t i = 0; i < name.size(); ++i)
    if (pattern[i] == '#' ? name[i] < '0' || name[i] > '9'
                          : name[i] != pattern[i])
      return false;
  return true;
}

static constexpr std::string_view kCompanions[] = {kConfigFile,
                                                   kAdapterConfigFile,
                                                   "added_tokens.json",
                                                   "chat_template.jinja",
                                                   "chat_template.json",
                                                   "generation_config.json",
                                                   "merges.txt",
                                                   "sentencepiece.bpe.model",
                                                   "special_tokens_map.json",
                                                   "spiece.model",
                                                   "tokenizer.json",
                                                   "tokenizer.model",
                                                   "tokenizer_config.json",
                                                   "vocab.json",
                                                   "vocab.txt"};

std::span<const std::string_view> optrt::companionFileNames() {
  return kCompanions;
}

bool optrt::isCompanionFileName(std::string_view name) {
  return std::ranges::find(kCompanions, name) != std::end(kCompanions);
}

bool optrt::isCheckpointFileName(std::string_view name) {
  return name == kStateFile || name == kOptimizerFile ||
         name == kModelIndexFile || name == kAdapterFile ||
         isModelFileName(name) || isCompanionFileName(name);
}

/// Deletes a checkpoint's files, and the folder if nothing else is in it. Large
/// files go side by side: to free one takes a sixth of the time of writing it.
static void removeCheckpoint(const fs::path &folder) {
  constexpr uintmax_t kLarge = 16 << 20;
  constexpr size_t kMostThreads = 8;
  // Without its state, a folder half deleted cannot be taken for whole.
  std::error_code ignored;
  fs::remove(folder / kStateFile, ignored);
  std::vector<std::string> large;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored))
    if (isCheckpointFileName(entry->path().filename().string())) {
      std::error_code unknown;
      if (entry->file_size(unknown) >= kLarge && !unknown)
        large.push_back(entry->path());
      else
        ::unlink(entry->path().c_str());
    }
  std::atomic<size_t> next = 0;
  auto remove = [&] {
    for (size_t i; (i = next++) < large.size();)
      ::unlink(large[i].c_str());
  };
  std::vector<std::thread> helpers;
  while (helpers.size() + 1 < std::min(large.size(), kMostThreads)) {
    StatusOr<std::thread> helper =
        startThread("a thread that deletes a checkpoint", remove);
    if (!helper.ok())
      break;
    helpers.push_back(std::move(helper).value());
  }
  remove();
  for (std::thread &helper : helpers)
    helper.join();
  ::rmdir(folder.c_str());
}

namespace {

/// A folder whose entries are to be on disk. It is opened before they change,
/// when to fail still costs nothing.
class SyncedFolder {
public:
  explicit SyncedFolder(fs::path path)
      : path(std::move(path)),
        descriptor(
            ::open(this->path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        error(descriptor < 0 ? errno : 0) {}
  SyncedFolder(const SyncedFolder &) = delete;
  ~SyncedFolder() {
    if (descriptor >= 0)
      close(descriptor);
  }

  Status check() const {
    if (error == 0)
      return okStatus();
    return unavailable(concat("cannot sync the folder ", path.string(),
                              " to disk: ", strerror(error)));
  }
  Status sync() {
    if (error == 0 && fsync(descriptor) != 0)
      error = errno;
    return check();
  }

private:
  fs::path path;
  int descriptor;
  int error;
};

} // namespace

/// A folder that is replaced is deleted, so it must be ours through and
/// through.
static Status checkReplaceable(const std::string &target) {
  struct stat info;
  if (lstat(target.c_str(), &info) != 0)
    return okStatus();
  if (!S_ISDIR(info.st_mode))
    return invalidArgument(
        concat("cannot save to ", target, ": it exists and is not a folder"));
  bool empty = true, hasState = false;
  std::error_code error;
  for (fs::directory_iterator entry(target, error), end; !error && entry != end;
       entry.increment(error)) {
    empty = false;
    std::string name = entry->path().filename().string();
    hasState |= name == kStateFile;
    if (!isCheckpointFileName(name))
      return invalidArgument(
          concat("cannot save to ", target, ": it contains ", name,
                 ", which is not of a checkpoint and would be deleted; choose "
                 "another folder"));
  }
  if (error)
    return invalidArgument(
        concat("cannot save to ", target, ": ", error.message()));
  if (!empty && !hasState)
    return invalidArgument(
        concat("cannot save to ", target,
               ": it has files but no state.json, so it is not a checkpoint of "
               "ours, and they would be deleted; choose another folder"));
  return okStatus();
}

/// The path of a folder to write, without symbolic links.
static StatusOr<fs::path> resolveDestination(const std::string &dir) {
  std::error_code error;
  fs::path target;
  if (!dir.empty())
    target = fs::weakly_canonical(fs::absolute(dir, error), error);
  if (!error && !target.has_filename())
    target = target.parent_path();
  if (error || !target.has_filename())
    return invalidArgument(
        concat("cannot save to \"", dir,
               "\": ", error ? error.message() : "it does not name a folder"));
  return target;
}

/// The same, of a folder that may be replaced; its parents are made.
static StatusOr<fs::path> prepareDestination(const std::string &dir) {
  OPTRT_ASSIGN_OR_RETURN(fs::path target, resolveDestination(dir));
  OPTRT_RETURN_IF_ERROR(checkReplaceable(target));
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error)
    return invalidArgument(concat("cannot make the folder ",
                                  target.parent_path().string(), ": ",
                                  error.message()));
  return target;
}

std::optional<std::string> optrt::findStagingFolder(const std::string &dir,
                                                    const std::string &name) {
  StatusOr<fs::path> target = resolveDestination(dir);
  if (!target.ok())
    return std::nullopt;
  // Under its own name for the destination, which may be a link elsewhere.
  std::error_code error;
  const fs::path found = target->parent_path() / name;
  return fs::is_directory(fs::symlink_status(found, error))
             ? std::optional(found.string())
             : std::nullopt;
}

StatusOr<FileLock> optrt::lockCheckpoint(const std::string &dir) {
  OPTRT_ASSIGN_OR_RETURN(fs::path target, prepareDestination(dir));
  return FileLock::acquire(hiddenSibling(target, "lock"),
                           concat("the checkpoint ", dir));
}

/// Puts back or removes what killed writers to `target` left.
static void cleanUp(const fs::path &target) {
  fs::path old = hiddenSibling(target, "old");
  std::error_code error;
  if (fs::exists(fs::symlink_status(old, error))) {
    if (fs::exists(fs::symlink_status(target, error)))
      removeCheckpoint(old);
    else
      fs::rename(old, target, error);
  }
  std::string prefix = fs::path(hiddenSibling(target, "tmp-")).filename();
  for (fs::directory_iterator entry(target.parent_path(), error), end;
       entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix))
      continue;
    int descriptor = ::open(entry->path().c_str(),
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0)
      continue;
    bool inUse =
        flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!inUse)
      removeCheckpoint(entry->path());
    close(descriptor);
  }
}

/// The folder to read for `dir`, or nothing where there is none.
static StatusOr<std::optional<std::string>>
lookForCheckpoint(const std::string &dir) {
  std::error_code error;
  fs::file_status status = fs::status(dir, error);
  if (fs::is_directory(status))
    return std::optional(dir);
  if (status.type() == fs::file_type::none)
    return invalidArgument(
        concat("cannot read the checkpoint ", dir, ": ", error.message()));
  if (fs::exists(fs::symlink_status(dir, error)))
    return invalidArgument(
        concat("expected a checkpoint's folder, found ",
               fs::is_regular_file(status) ? "the file " : "no folder at ", dir,
               "; name a folder that `optimus-run train --save` wrote, or one "
               "of weights from elsewhere"));
  fs::path target = fs::weakly_canonical(dir, error);
  if (!target.has_filename())
    target = target.parent_path();
  std::string old = hiddenSibling(target, "old");
  if (!dir.empty() && fs::is_directory(old, error))
    return std::optional(old);
  return std::optional<std::string>();
}

/// As above, where a writer may rename folders meanwhile: the second of its two
/// renames may come between two looks.
static StatusOr<std::optional<std::string>>
lookTwiceForCheckpoint(const std::string &dir) {
  StatusOr<std::optional<std::string>> path = lookForCheckpoint(dir);
  return path.ok() && *path ? path : lookForCheckpoint(dir);
}

StatusOr<bool> optrt::hasCheckpoint(const std::string &dir) {
  OPTRT_ASSIGN_OR_RETURN(std::optional<std::string> path,
                         lookTwiceForCheckpoint(dir));
  if (!path)
    return false;
  std::error_code error;
  bool isEmpty = fs::is_empty(*path, error);
  if (error)
    return invalidArgument(
        concat("cannot read the folder ", *path, ": ", error.message()));
  return !isEmpty;
}

StatusOr<ReadFolder> ReadFolder::find(const std::string &dir) {
  ReadFolder folder;
  folder.name = dir;
  OPTRT_ASSIGN_OR_RETURN(std::optional<std::string> path,
                         lookTwiceForCheckpoint(dir));
  if (!path)
    return invalidArgument(
        concat("there is no checkpoint at \"", dir,
               "\": expected a folder that `optimus-run train --save` wrote, "
               "or one of weights from elsewhere"));
  folder.found = *path;
  folder.handle = ::open(path->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return folder;
}

ReadFolder::ReadFolder(ReadFolder &&other) noexcept
    : name(std::move(other.name)), found(std::move(other.found)),
      handle(std::exchange(other.handle, -1)) {}

ReadFolder::~ReadFolder() {
  if (handle >= 0)
    close(handle);
}

bool ReadFolder::isCurrent() const {
  StatusOr<std::optional<std::string>> path = lookForCheckpoint(name);
  struct stat held, now;
  // As long as it is held, no other folder has its number.
  return path.ok() && *path == found && handle >= 0 &&
         fstat(handle, &held) == 0 && stat(found.c_str(), &now) == 0 &&
         held.st_dev == now.st_dev && held.st_ino == now.st_ino;
}

StatusOr<std::unique_ptr<StagingFolder>>
StagingFolder::create(const std::string &dir) {
  OPTRT_ASSIGN_OR_RETURN(fs::path target, prepareDestination(dir));
  cleanUp(target);

  std::unique_ptr<StagingFolder> folder(new StagingFolder());
  folder->target = target.string();
  // While it is written, nobody reads it who could not read the old one.
  struct stat old;
  const mode_t mode =
      stat(target.c_str(), &old) == 0 ? (old.st_mode & 0777) | S_IRWXU : 0777;
  // A name by which processes recognise this very folder, and not another
  // machine's.
  std::random_device random;
  while (folder->staging.empty()) {
    const uint64_t number = uint64_t(random()) << 32 | random();
    std::string path =
        hiddenSibling(target, "tmp-") + optimus_support::hashToHex(number);
    if (mkdir(path.c_str(), mode) == 0)
      folder->staging = path;
    else if (errno != EEXIST)
      return invalidArgument(concat(
          "cannot save to ", folder->target, ": cannot make a folder in ",
          target.parent_path().string(), ": ", strerror(errno)));
  }
  folder->lock =
      ::open(folder->staging.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder->lock >= 0)
    flock(folder->lock, LOCK_EX | LOCK_NB);
  return folder;
}

StagingFolder::~StagingFolder() {
  if (!placed && !staging.empty())
    removeCheckpoint(staging);
  if (lock >= 0)
    close(lock);
}

Status StagingFolder::checkRoom(uint64_t bytes) const {
  // Some network file systems do not know, and say 0 of 0. What is kept for the
  // administrator counts as free: to be sure is reserve()'s part.
  struct statvfs info;
  if (statvfs(staging.c_str(), &info) != 0 || info.f_blocks == 0 ||
      bytes <= uint64_t(info.f_bfree) * info.f_frsize)
    return okStatus();
  return unavailable(concat("cannot save to ", target, ": it has ", bytes,
                            " bytes, and the disk has room for ",
                            uint64_t(info.f_bfree) * info.f_frsize,
                            "; make room"));
}

Status StagingFolder::place(bool useExchange) {
  OPTRT_RETURN_IF_ERROR(SyncedFolder(staging).sync());
  // It may have changed since it was checked first.
  OPTRT_RETURN_IF_ERROR(checkReplaceable(target));
  SyncedFolder parent(fs::path(target).parent_path());
  OPTRT_RETURN_IF_ERROR(parent.check());
  auto failure = [&] {
    return unavailable(concat("cannot put the checkpoint in place at ", target,
                              ": ", strerror(errno)));
  };

  struct stat info;
  if (lstat(target.c_str(), &info) != 0) {
    if (rename(staging.c_str(), target.c_str()) != 0)
      return failure();
    placed = true;
    return parent.sync();
  }

  // Its owner and permissions stay as they are, as far as we may set them. File
  // systems that know no permissions give all folders the same.
  struct stat made;
  if (lock >= 0 && fstat(lock, &made) == 0) {
    [[maybe_unused]] int owned = fchown(lock, info.st_uid, info.st_gid);
    if (made.st_mode != info.st_mode && fchmod(lock, info.st_mode & 07777) != 0)
      return failure();
  }
  if (useExchange) {
    if (renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target.c_str(),
                  RENAME_EXCHANGE) == 0) {
      placed = true;
      // Until the disk has the new names, it may have the old checkpoint
      // under the target's: both stay, and the next writer removes one.
      OPTRT_RETURN_IF_ERROR(parent.sync());
      removeCheckpoint(staging);
      return okStatus();
    }
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
      return failure();
  }

  std::string old = hiddenSibling(target, "old");
  if (rename(target.c_str(), old.c_str()) != 0)
    return failure();
  if (rename(staging.c_str(), target.c_str()) != 0) {
    Status status = failure();
    rename(old.c_str(), target.c_str());
    return status;
  }
  placed = true;
  OPTRT_RETURN_IF_ERROR(parent.sync());
  removeCheckpoint(old);
  return okStatus();
}

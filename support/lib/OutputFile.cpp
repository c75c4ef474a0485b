//===- OutputFile.cpp - One output of a tool ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/OutputFile.h"

#include "optimus-support/InputFile.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

using namespace optimus_support;

namespace {

/// What a name leads to.
struct Destination {
  enum Kind { Stream, Special, Regular } kind = Regular;
  int stream = -1;       ///< Stream: the descriptor
  std::string path;      ///< Special, Regular: without symbolic links
  bool exists = false;   ///< Regular
  struct stat info = {}; ///< of what exists
};

Status refuse(const std::string &path, const std::string &why) {
  return invalidArgument(concat("cannot write '", path, "': ", why));
}

/// The folder's real path and the last component, which is no symbolic link,
/// or a failure.
StatusOr<std::string> followLinks(const std::string &path) {
  std::string rest = path;
  // As many as Linux follows.
  for (int links = 0; links != 40; ++links) {
    size_t slash = rest.rfind('/');
    std::string folder =
        slash == std::string::npos ? "." : rest.substr(0, slash + 1);
    std::string name =
        slash == std::string::npos ? rest : rest.substr(slash + 1);
    if (name.empty() || name == "." || name == "..")
      return refuse(path, "it is a folder");
    char real[PATH_MAX];
    if (!realpath(folder.c_str(), real))
      return refuse(path, errno == ENOENT
                              ? concat("there is no folder '", folder, "'")
                              : concat(folder, ": ", strerror(errno)));
    std::string whole = std::string(real) + (real[1] ? "/" : "") + name;
    char target[PATH_MAX];
    ssize_t length = readlink(whole.c_str(), target, sizeof(target) - 1);
    if (length < 0)
      return whole;
    target[length] = '\0';
    rest = target[0] == '/' ? target : std::string(real) + "/" + target;
  }
  return refuse(path, "it is a symbolic link that leads nowhere");
}

/// The standard stream that a name means, or -1.
int streamOf(const std::string &path) {
  if (path == "-")
    return STDOUT_FILENO;
  struct stat info, stream;
  if (stat(path.c_str(), &info) != 0)
    return -1;
  for (int descriptor : {STDOUT_FILENO, STDERR_FILENO})
    if (fstat(descriptor, &stream) == 0 && info.st_dev == stream.st_dev &&
        info.st_ino == stream.st_ino)
      return descriptor;
  return -1;
}

/// `replaced`: a regular file by a new one in its folder.
StatusOr<Destination> resolve(const std::string &path, bool replaced = true) {
  Destination destination;
  if (path.empty())
    return invalidArgument("cannot write to a file without a name");
  destination.stream = streamOf(path);
  if (destination.stream >= 0) {
    destination.kind = Destination::Stream;
    return destination;
  }
  // Before links are followed: those below /proc lead to things without a name.
  if (stat(path.c_str(), &destination.info) == 0) {
    switch (destination.info.st_mode & S_IFMT) {
    case S_IFREG:
      destination.exists = true;
      break;
    case S_IFCHR:
    case S_IFIFO:
      destination.kind = Destination::Special;
      destination.path = path;
      break;
    case S_IFDIR:
      return refuse(path, "it is a folder");
    case S_IFBLK:
      return refuse(path, "it is a disk");
    default:
      return refuse(path, "it is neither a file nor a device nor a named pipe");
    }
    if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0)
      return refuse(path, strerror(errno));
    if (destination.kind == Destination::Special)
      return destination;
  }
  OPTRT_ASSIGN_OR_RETURN(destination.path, followLinks(path));
  if (destination.exists && !replaced)
    return destination;
  std::string folder =
      destination.path.substr(0, destination.path.rfind('/') + 1);
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return refuse(path, concat("no file can be made in the folder '", folder,
                               "': ", strerror(errno)));
  return destination;
}

/// Opens what is not a regular file.
StatusOr<int> openInPlace(const Destination &destination,
                          const std::string &path) {
  if (destination.kind == Destination::Stream) {
    int handle = fcntl(destination.stream, F_DUPFD_CLOEXEC, 3);
    return handle < 0 ? StatusOr<int>(refuse(path, strerror(errno))) : handle;
  }
  // Opening a pipe that nobody reads would wait for ever.
  int handle =
      ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (handle < 0)
    return refuse(path,
                  errno == ENXIO ? "nobody reads from it" : strerror(errno));
  fcntl(handle, F_SETFL, fcntl(handle, F_GETFL) & ~O_NONBLOCK);
  return handle;
}

} // namespace

void OutputFile::swap(OutputFile &other) {
  name.swap(other.name);
  target.swap(other.target);
  std::swap(beside, other.beside);
  std::swap(temporary, other.temporary);
  std::swap(isCache, other.isCache);
  std::swap(handle, other.handle);
}

OutputFile::~OutputFile() {
  if (handle >= 0)
    close(handle);
}

Status optimus_support::checkOutput(const std::string &path) {
  return resolve(path).status();
}

bool optimus_support::isStandardOutput(const std::string &path) {
  return streamOf(path) == STDOUT_FILENO;
}

StatusOr<GrowingOutput> optimus_support::openToGrow(const std::string &path) {
  OPTRT_ASSIGN_OR_RETURN(Destination destination,
                         resolve(path, /*replaced=*/false));
  GrowingOutput output;
  output.isRegular = destination.kind == Destination::Regular;
  if (!output.isRegular) {
    OPTRT_ASSIGN_OR_RETURN(output.descriptor, openInPlace(destination, path));
    return output;
  }
  output.descriptor = ::open(destination.path.c_str(),
                             O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (output.descriptor < 0)
    return refuse(path, strerror(errno));
  return output;
}

void optimus_support::removeStaleTemporaries(const std::string &target) {
  size_t folderBytes = target.rfind('/') + 1;
  std::string folder = target.substr(0, folderBytes);
  std::string prefix = hiddenSibling(target, "tmp-").substr(folderBytes);
  DIR *entries = opendir(folder.c_str());
  if (!entries)
    return;
  while (const dirent *entry = readdir(entries)) {
    if (!std::string_view(entry->d_name).starts_with(prefix))
      continue;
    std::string path = folder + entry->d_name;
    int descriptor =
        ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    // Who writes it holds a lock until it is gone.
    if (descriptor >= 0 && fstat(descriptor, &info) == 0 &&
        S_ISREG(info.st_mode) && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
      unlink(path.c_str());
    if (descriptor >= 0)
      close(descriptor);
  }
  closedir(entries);
}

StatusOr<OutputFile> OutputFile::open(const std::string &path,
                                      OutputFileOptions options) {
  OPTRT_ASSIGN_OR_RETURN(Destination destination, resolve(path));
  OutputFile file;
  file.name = path == "-" ? "standard output" : path;
  if (destination.kind != Destination::Regular && options.isDatabase)
    return refuse(path, "it is a device, a pipe or a standard stream; expected "
                        "the name of a file, since a database is not written "
                        "in order");
  if (destination.kind != Destination::Regular) {
    OPTRT_ASSIGN_OR_RETURN(file.handle, openInPlace(destination, path));
    return file;
  }
  file.target = destination.path;
  file.isCache = options.isCache;
  removeStaleTemporaries(file.target);
  mode_t mode = options.executable ? 0777 : 0666;
  // Another process that looks for stale files may take a new file for one,
  // until it is locked.
  for (bool isOurs = false; !isOurs;) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    std::string beside = hiddenSibling(
        file.target, concat("tmp-", getpid(), "-", now.tv_sec, now.tv_nsec));
    // In this order, or a signal between the two would leave the file.
    file.temporary = TemporaryPath(beside);
    OPTRT_ASSIGN_OR_RETURN(file.beside, NewFile::create(beside, 0, mode));
    struct stat info;
    isOurs = (flock(file.beside.descriptor(), LOCK_EX | LOCK_NB) == 0 ||
              errno != EWOULDBLOCK) &&
             fstat(file.beside.descriptor(), &info) == 0 && info.st_nlink > 0;
  }
  int handle = file.beside.descriptor();
  if (destination.exists) {
    // Its owner and permissions stay as they are, as far as we may set them.
    mode_t old = destination.info.st_mode & 0777;
    if (options.executable)
      old |= (old & 0444) >> 2;
    [[maybe_unused]] int owned =
        fchown(handle, destination.info.st_uid, destination.info.st_gid);
    if (fchmod(handle, old) != 0)
      return cannotWrite(path, errno);
  }
  return file;
}

Status OutputFile::append(std::string_view bytes) {
  return writeAll(handle >= 0 ? handle : beside.descriptor(), bytes, name);
}

Status OutputFile::appendFile(const std::string &path) {
  OPTRT_ASSIGN_OR_RETURN(InputFile from,
                         InputFile::open(path, StatusCode::Unavailable));
  std::string piece(size_t(1) << 20, '\0');
  for (size_t offset = 0; offset < from.size();) {
    size_t bytes = std::min(piece.size(), from.size() - offset);
    OPTRT_RETURN_IF_ERROR(from.read(offset, piece.data(), bytes));
    OPTRT_RETURN_IF_ERROR(append({piece.data(), bytes}));
    offset += bytes;
  }
  return okStatus();
}

Status OutputFile::commit() {
  if (handle >= 0)
    return close(std::exchange(handle, -1)) == 0 ? okStatus()
                                                 : cannotWrite(name, errno);
  if ((!isCache && fsync(beside.descriptor()) != 0) ||
      rename(temporary.path().c_str(), target.c_str()) != 0)
    return cannotWrite(name, errno);
  temporary.release();
  return okStatus();
}

Status OutputFile::write(const std::string &path, std::string_view bytes,
                         OutputFileOptions options) {
  OPTRT_ASSIGN_OR_RETURN(OutputFile file, open(path, options));
  OPTRT_RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

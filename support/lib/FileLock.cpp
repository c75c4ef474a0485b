//===- FileLock.cpp - One process at a time -------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/FileLock.h"

#include "optimus-support/NewFile.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace optimus_support;

namespace {

/// Who holds a lock, as its file says in one line each.
struct Holder {
  std::string host, pid, start, since, command;
};

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// When a process of this host began, in ticks since the host did; empty if
/// there is no such process. No two with the same number share it.
std::string startOf(const std::string &pid) {
  std::string stat = readFile("/proc/" + pid + "/stat");
  // The second field, a name in parentheses, may have anything in it.
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i)
    ;
  return fields ? field : "";
}

Holder thisProcess() {
  Holder holder;
  holder.host = hostName();
  holder.pid = std::to_string(getpid());
  holder.start = startOf(holder.pid);
  time_t now = time(nullptr);
  tm local;
  char text[64];
  strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
  holder.since = text;
  holder.command = readFile("/proc/self/cmdline");
  for (char &c : holder.command)
    if (c == '\0' || c == '\n')
      c = ' ';
  // Enough to recognise it.
  holder.command = holder.command.substr(0, 200);
  return holder;
}

Holder readHolder(int descriptor) {
  char text[1024];
  ssize_t bytes = pread(descriptor, text, sizeof(text), 0);
  std::istringstream lines(std::string(text, bytes > 0 ? size_t(bytes) : 0));
  Holder holder;
  for (std::string *line : {&holder.host, &holder.pid, &holder.start,
                            &holder.since, &holder.command})
    std::getline(lines, *line);
  return holder;
}

Status refuse(const std::string &path, const std::string &what,
              const Holder &holder, bool certain) {
  std::string who =
      holder.pid.empty()
          ? std::string("another process")
          : concat("process ", holder.pid, " on ", holder.host, " (`",
                   holder.command, "`, since ", holder.since, ")");
  return invalidArgument(
      concat(what, " is being written by ", who,
             certain ? "; wait for its end, or choose another name"
                     : concat("; if that process is gone, delete ", path)));
}

/// Whether the path still leads to the open file.
bool isCurrent(const std::string &path, int descriptor) {
  struct stat held, now;
  return fstat(descriptor, &held) == 0 && stat(path.c_str(), &now) == 0 &&
         held.st_dev == now.st_dev && held.st_ino == now.st_ino;
}

} // namespace

FileLock::~FileLock() {
  // While it is held, or another's would be removed.
  file = TemporaryPath();
  if (handle >= 0)
    close(handle);
}

StatusOr<FileLock> FileLock::acquire(const std::string &path,
                                     const std::string &what,
                                     std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause(50);
  const Holder own = thisProcess();
  const auto end = std::chrono::steady_clock::now() + patience;
  auto isWorthWaiting = [&] {
    if (std::chrono::steady_clock::now() >= end)
      return false;
    std::this_thread::sleep_for(kPause);
    return true;
  };
  while (true) {
    FileLock lock;
    lock.handle =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock.handle < 0)
      return invalidArgument(
          concat(what, ": cannot make ", path, ": ", strerror(errno)));
    bool locked = flock(lock.handle, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      Holder holder = readHolder(lock.handle);
      if (isWorthWaiting())
        continue;
      return refuse(path, what, holder, /*certain=*/true);
    }
    if (!isCurrent(path, lock.handle))
      continue; // Its holder has just removed it.
    if (!locked) {
      // A file system without locks: the process that the file names decides.
      Holder holder = readHolder(lock.handle);
      bool isHere = holder.host == own.host;
      if (!holder.pid.empty() &&
          !(isHere && startOf(holder.pid) != holder.start)) {
        if (isWorthWaiting())
          continue;
        return refuse(path, what, holder, isHere);
      }
    }
    std::string text = concat(own.host, '\n', own.pid, '\n', own.start, '\n',
                              own.since, '\n', own.command, '\n');
    lock.file = TemporaryPath(path);
    if (ftruncate(lock.handle, 0) != 0)
      return cannotWrite(path, errno).withContext(what);
    OPTRT_RETURN_IF_ERROR(writeAll(lock.handle, text, path).withContext(what));
    return lock;
  }
}

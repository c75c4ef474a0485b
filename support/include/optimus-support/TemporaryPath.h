//===- TemporaryPath.h - What must not outlive the process ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_TEMPORARYPATH_H
#define OPTIMUS_SUPPORT_TEMPORARYPATH_H

#include <string>
#include <utility>

namespace optimus_support {

/// A file, or a folder that will be empty by then, removed when this is
/// destroyed, and also when a signal ends the process (once
/// removeTemporariesOnSignals() was called). It need not exist. What a SIGKILL
/// leaves is for the next process to find: see hiddenSibling().
class TemporaryPath {
public:
  TemporaryPath() = default;
  explicit TemporaryPath(std::string path);
  TemporaryPath(TemporaryPath &&other) noexcept { swap(other); }
  TemporaryPath &operator=(TemporaryPath &&other) noexcept {
    swap(other);
    return *this;
  }
  ~TemporaryPath();

  const std::string &path() const { return name; }
  /// It stays.
  void release();

private:
  void swap(TemporaryPath &other) {
    name.swap(other.name);
    std::swap(slot, other.slot);
  }

  std::string name;
  int slot = -1; ///< in the table that signal handlers read
};

/// Removes the temporary files of the moment, for a process that ends without
/// destroying its objects. May be called in a signal handler.
void removeTemporaries();

/// Removes what is temporary before a signal ends the process; the signal then
/// has the effect that it had before. Signals that are ignored stay so. After
/// other libraries have set their handlers.
void removeTemporariesOnSignals();

/// ".NAME.optimus-KIND" beside `path`, without symbolic links in it: hidden,
/// and short enough for a file system. `path` ends in a name.
std::string hiddenSibling(const std::string &path, const std::string &kind);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_TEMPORARYPATH_H

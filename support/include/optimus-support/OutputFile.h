//===- OutputFile.h - One output of a tool ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_OUTPUTFILE_H
#define OPTIMUS_SUPPORT_OUTPUTFILE_H

#include "optimus-support/NewFile.h"
#include "optimus-support/Status.h"
#include "optimus-support/TemporaryPath.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace optimus_support {

struct OutputFileOptions {
  /// A program or library: who may read it may run it.
  bool executable = false;
  /// It is not written in order, so that it has to be a regular file: a device,
  /// a pipe or a standard stream is refused.
  bool isDatabase = false;
  /// Whoever reads it finds out whether it is whole: nobody waits until it is
  /// on its disk, and a machine that goes down may leave a part of it.
  bool isCache = false;
};

/// One output of a tool, under a name that the user gave. Symbolic links are
/// followed, and what they lead to decides:
///
///   nothing, or a regular file  a hidden temporary file beside it takes its
///                               place, whole, when commit() is called, with
///                               the permissions of the file that it replaces;
///                               after a failure the old file is as it was
///   a device or a named pipe    is written to
///   a folder or a socket        is refused
///
/// "-" and other names of this process's standard streams mean the stream.
///
/// Errors: InvalidArgument if the name is of no use (no such folder, no
/// permission); Unavailable if the system refuses later (a full disk).
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(OutputFile &&other) noexcept { swap(other); }
  OutputFile &operator=(OutputFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~OutputFile();

  static StatusOr<OutputFile> open(const std::string &path,
                                   OutputFileOptions options = {});

  /// Of a regular file: the temporary one beside it, for a library that opens
  /// files by itself.
  const std::string &temporaryPath() const { return temporary.path(); }

  Status append(std::string_view bytes);
  /// All of another file, which takes no memory.
  Status appendFile(const std::string &path);
  /// Makes it last and puts it in place. Nothing but the destructor may follow.
  Status commit();

  /// open(), append() and commit().
  static Status write(const std::string &path, std::string_view bytes,
                      OutputFileOptions options = {});

private:
  void swap(OutputFile &other);

  std::string name;        ///< as the user gave it
  std::string target;      ///< of a regular file, without symbolic links
  NewFile beside;          ///< of a regular file
  TemporaryPath temporary; ///< of `beside`; destroyed before it is closed
  bool isCache = false;
  int handle = -1; ///< of anything else
};

/// What open() would say of the name, without opening or making anything.
Status checkOutput(const std::string &path);

/// Whether a name means standard output, as "-" and /dev/stdout do.
bool isStandardOutput(const std::string &path);

/// An output to whose end something is added from time to time.
struct GrowingOutput {
  int descriptor =
      -1; ///< for reading too if it is regular; the caller closes it
  bool isRegular = false;
};

/// Opens such an output, and makes the file if there is nothing of that name.
/// Links, devices, pipes, streams and errors: as for OutputFile.
StatusOr<GrowingOutput> openToGrow(const std::string &path);

/// Removes those siblings of `target` called hiddenSibling(target, "tmp-…")
/// that are regular files without a living writer.
void removeStaleTemporaries(const std::string &target);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_OUTPUTFILE_H

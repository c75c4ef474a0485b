//===- ObjectCache.cpp - Machine code that is kept --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/ObjectCache.h"

#include "optimus-support/Hash.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

#include <link.h>
#include <sys/stat.h>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::StatusOr;

/// The size and the time of the program and of each of its libraries: a
/// compiler that was built anew may make other code.
static std::string describeCompiler() {
  std::string text;
  auto add = [](dl_phdr_info *object, size_t, void *into) {
    // The program itself comes without a name.
    const char *path =
        *object->dlpi_name ? object->dlpi_name : "/proc/self/exe";
    struct stat found;
    if (stat(path, &found) == 0)
      llvm::raw_string_ostream(*static_cast<std::string *>(into))
          << found.st_size << ' ' << found.st_mtim.tv_sec << ' '
          << found.st_mtim.tv_nsec << '\n';
    return 0;
  };
  dl_iterate_phdr(add, &text);
  return text;
}

/// The hash of an object stands behind it, where linkers do not look: a machine
/// that goes down may leave a part of a file.
static constexpr size_t kHashBytes = 16, kMostBytes = size_t(1) << 30;

static bool isWhole(const std::string &path) {
  const StatusOr<std::string> bytes =
      optimus_support::readInput(path, kMostBytes);
  if (!bytes.ok() || bytes->size() < kHashBytes)
    return false;
  const StringRef object = StringRef(*bytes).drop_back(kHashBytes);
  return StringRef(*bytes).take_back(kHashBytes) ==
         optimus_support::hashToHex(optimus_support::hash64(object));
}

StatusOr<ObjectCache> ObjectCache::open(const std::string &folder,
                                        const CpuTarget &target) {
  std::error_code code = llvm::sys::fs::create_directories(folder);
  // A file of that name is no mistake to LLVM.
  if (!code && !llvm::sys::fs::is_directory(folder))
    code = std::make_error_code(std::errc::not_a_directory);
  if (code)
    return optimus_support::invalidArgument("cannot create '" + folder +
                                            "': " + code.message());
  ObjectCache cache;
  cache.folder = folder;
  cache.about =
      llvm::join(std::vector<std::string>{target.triple.str(), target.cpu,
                                          target.features, describeCompiler()},
                 "\n");
  return cache;
}

StatusOr<std::string>
ObjectCache::get(StringRef source,
                 llvm::function_ref<StatusOr<std::string>()> make) const {
  llvm::SHA256 hash;
  hash.update(about);
  hash.update(source);
  const std::string name = llvm::toHex(hash.final(), /*LowerCase=*/true);
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name + ".o");
  const std::string kept = path.str().str();
  if (isWhole(kept))
    return kept;
  OPTRT_ASSIGN_OR_RETURN(const std::string made, make());
  OPTRT_ASSIGN_OR_RETURN(std::string bytes,
                         optimus_support::readInput(made, kMostBytes));
  bytes += optimus_support::hashToHex(optimus_support::hash64(bytes));
  OPTRT_RETURN_IF_ERROR(
      optimus_support::OutputFile::write(kept, bytes, {.isCache = true}));
  return kept;
}

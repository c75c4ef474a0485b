//===- TuningFile.cpp - Fastest products, from run to run -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TuningFile.h"

#include "optimus-support/FileLock.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <unistd.h>

using namespace optrt;
using optimus_support::FileLock;
using optimus_support::OutputFile;

namespace optimus_run {

/// A product takes 600 bytes.
static constexpr std::size_t kMostTuningBytes = std::size_t(16) << 20;

/// What the file knows: nothing where there is none yet.
static StatusOr<Tuning> readFile(const std::string &path) {
  OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(path));
  if (optimus_support::isStandardOutput(path))
    return invalidArgument(concat("'", path,
                                  "' is a stream, and what was "
                                  "tuned is read again; name a file"));
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT)
    return Tuning();
  OPTRT_ASSIGN_OR_RETURN(const std::string text,
                         optimus_support::readInput(path, kMostTuningBytes));
  StatusOr<Tuning> tuning = Tuning::parse(text);
  if (!tuning.ok())
    return invalidArgument(concat(
        "`", path, "` has no tuned products: ", tuning.status().message(),
        "; it stays as it is: name another file or "
        "remove this one"));
  return tuning;
}

/// Waits some seconds for whoever else writes the file.
static StatusOr<FileLock> lockFile(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path target =
      fs::weakly_canonical(fs::absolute(path, error), error);
  return FileLock::acquire(optimus_support::hiddenSibling(target, "lock"),
                           concat("the file of tuned products ", path),
                           std::chrono::seconds(5));
}

/// What the file knows before the run.
static StatusOr<Tuning> openFile(const std::string &path) {
  OPTRT_ASSIGN_OR_RETURN(Tuning known, readFile(path));
  // Though nothing may have to be written: the lock that a killed run left goes
  // with this one.
  OPTRT_RETURN_IF_ERROR(lockFile(path).status());
  return known;
}

/// Adds the findings to the present contents of the file.
static Status mergeIntoFile(const std::string &path, Tuning found) {
  OPTRT_ASSIGN_OR_RETURN(FileLock lock, lockFile(path));
  OPTRT_ASSIGN_OR_RETURN(Tuning other, readFile(path));
  if (other.machine == found.machine)
    found.products.merge(other.products);
  return OutputFile::write(path, found.toJson());
}

/// Says on standard error what was done.
static void report(const std::string &path, const Tuning &before,
                   const Tuning &after) {
  const bool isOther =
      !before.machine.empty() && before.machine != after.machine;
  if (isOther)
    std::fprintf(stderr,
                 "optimus-run: `%s` is of %s, and this is %s: all products are "
                 "tried anew\n",
                 path.c_str(), before.machine.c_str(), after.machine.c_str());
  std::size_t found = 0;
  for (const auto &[product, best] : after.products) {
    auto known = before.products.find(product);
    found += isOther || known == before.products.end() ||
             known->second.algorithm != best.algorithm;
  }
  std::fprintf(stderr,
               "optimus-run: --tune: %zu products were tried, %zu were known\n",
               found, after.products.size() - found);
}

StatusOr<std::unique_ptr<Session>> createSession(const ModelLibrary &library,
                                                 World &world,
                                                 SessionOptions options,
                                                 const std::string &path) {
  ControlPlane &control = *world.control;
  const Setting same[] = {{"whether there is --tune", concat(!path.empty())}};
  OPTRT_RETURN_IF_ERROR(control.checkSame(same));
  if (path.empty())
    return Session::create(library, world, std::move(options));
  StatusOr<Tuning> known = control.isRoot() ? openFile(path) : Tuning();
  OPTRT_RETURN_IF_ERROR(control.agree(known.status()).withContext("--tune"));
  Tuning tuning = *known;
  options.tuning = &tuning;
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         Session::create(library, world, std::move(options)));
  const bool hasFound = control.isRoot() && tuning.toJson() != known->toJson();
  OPTRT_RETURN_IF_ERROR(
      control.agree(hasFound ? mergeIntoFile(path, tuning) : okStatus())
          .withContext("--tune"));
  if (control.isRoot())
    report(path, *known, tuning);
  return session;
}

} // namespace optimus_run

//===- Convert.cpp - optimus-run convert ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/WeightExport.h"
#include "optimus-support/FormatBytes.h"
#include "optimus-support/PathUse.h"

#include <cstdio>

using namespace optrt;

namespace optimus_run {

static Status checkPaths(const ConvertOptions &options) {
  const optimus_support::PathUse inputs[] = {
      {"the library", options.library},
      {"--load", options.load, /*isWhole=*/true}};
  const optimus_support::PathUse outputs[] = {
      {"--save", options.save, /*isWhole=*/true}};
  return optimus_support::checkOutputsApart(inputs, outputs);
}

Status convert(const ConvertOptions &options) {
  OPTRT_RETURN_IF_ERROR(checkPaths(options));
  CheckpointReaderOptions reading;
  reading.base = options.weights.base;
  OPTRT_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                         Checkpoint::openFiles(options.load, reading));
  OPTRT_RETURN_IF_ERROR(checkpoint->readHeaders());
  WeightExportOptions format;
  format.merges = options.merges;
  format.type = options.format.type;
  if (options.format.shardBytes)
    format.shardLimitBytes = *options.format.shardBytes;
  if (!options.library.empty()) {
    OPTRT_ASSIGN_OR_RETURN(const std::unique_ptr<ModelLibrary> library,
                           ModelLibrary::open(options.library));
    const ExpectedModel expected = expectedModel(library->manifest());
    OPTRT_RETURN_IF_ERROR(
        checkpoint->findParameters(expected, options.weights.ignored));
    for (const std::string &note : checkpoint->notesOn(expected))
      std::printf("%s\n", note.c_str());
    format.config = library->manifest().config;
  }
  StatusOr<WeightExportSummary> written =
      exportWeights(*checkpoint, options.save, format);
  if (!written.ok())
    return written.status();
  std::string others;
  for (const std::string &name : written->companions)
    others += ", " + name;
  std::printf("%s: %lld tensors, %s in %zu %s%s\n", options.save.c_str(),
              static_cast<long long>(written->tensors),
              optimus_support::formatBytes(written->bytes).c_str(),
              written->files, written->files == 1 ? "file" : "files",
              others.c_str());
  return okStatus();
}

} // namespace optimus_run

//===- WeightFiles.cpp - The files of a folder of weights -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightFiles.h"

#include "CheckpointFolder.h"
#include "optimus-support/JsonCursor.h"

#include <algorithm>
#include <filesystem>
#include <set>

using namespace optrt;
using namespace optimus_support;
namespace fs = std::filesystem;

static bool isThere(const fs::path &path) {
  std::error_code error;
  return fs::exists(path, error);
}

Status optrt::checkNumModelFiles(size_t files, int64_t shardLimitBytes) {
  if (files <= kMostModelFiles)
    return okStatus();
  return invalidArgument(concat("with ", shardLimitBytes,
                                " bytes in a file the model has ", files,
                                " files; expected at most ", kMostModelFiles));
}

static bool hasBase(const std::string &folder) {
  return isThere(fs::path(folder) / kModelFile) ||
         isThere(fs::path(folder) / kModelIndexFile);
}

static bool hasAdapter(const std::string &folder) {
  return isThere(fs::path(folder) / kAdapterFile);
}

bool optrt::hasWeightFiles(const std::string &folder) {
  return hasBase(folder) || hasAdapter(folder);
}

std::string optrt::describePickles(const std::string &folder) {
  for (const char *name :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.ckpt"})
    if (isThere(fs::path(folder) / name))
      return concat(folder, " has ", name, " and no ", kModelFile,
                    ": reading a pickle runs the code in it, so none is read; "
                    "save the model as safetensors");
  return "";
}

/// Names in the folder itself; a name with a folder could lead anywhere.
static bool isPlainName(const std::string &name) {
  return name.ends_with(".safetensors") &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

/// The names of the files that an index lists.
static StatusOr<std::set<std::string>> readFileNames(const InputFile &index) {
  OPTRT_ASSIGN_OR_RETURN(std::string text, index.readAll(kMostIndexBytes));
  JsonDocument document(text, concat(index.path(), " is damaged"),
                        StatusCode::DataLoss);
  std::set<std::string> names;
  for (const auto &[tensor, cursor] : document.root()["weight_map"].members()) {
    const std::string name = cursor.string();
    if (!isPlainName(name))
      cursor.fail(concat("expected the name of a file in the same folder that "
                         "ends in .safetensors, found \"",
                         name, "\""));
    names.insert(name);
    if (names.size() > kMostModelFiles)
      cursor.fail(concat("it names more than ", kMostModelFiles, " files"));
    OPTRT_RETURN_IF_ERROR(document.status());
  }
  OPTRT_RETURN_IF_ERROR(document.status());
  if (names.empty())
    return dataLoss(concat(index.path(), " is damaged: it names no file"));
  return names;
}

static StatusOr<TextFile> openText(const std::string &folder,
                                   const char *name) {
  const std::string path = concat(folder, "/", name);
  OPTRT_ASSIGN_OR_RETURN(const InputFile file,
                         InputFile::open(path, StatusCode::DataLoss));
  OPTRT_ASSIGN_OR_RETURN(std::string text, file.readAll(kMostConfigBytes));
  return TextFile{path, std::move(text)};
}

StatusOr<std::string>
optrt::findBase(const std::string &folder, const std::string &given,
                const std::function<StatusOr<TextFile>()> &readConfig) {
  if (hasBase(folder)) {
    if (given.empty())
      return folder;
    return invalidArgument(concat(
        folder, " has all weights of its model; --base is for adapters alone"));
  }
  if (!given.empty()) {
    if (hasBase(given))
      return given;
    return invalidArgument(concat("--base ", given, ": expected a folder with ",
                                  kModelFile, ", which it does not have"));
  }
  OPTRT_ASSIGN_OR_RETURN(const TextFile config, readConfig());
  JsonDocument document(config.text, config.path, StatusCode::DataLoss);
  const std::string base = document.root()["base_model_name_or_path"].string();
  OPTRT_RETURN_IF_ERROR(document.status());
  for (const std::string &path : {base, concat(folder, "/", base)})
    if (!base.empty() && hasBase(path))
      return path;
  return invalidArgument(
      concat(config.path,
             ": expected base_model_name_or_path to be a folder "
             "with ",
             kModelFile, ", found \"", base, "\"; name it with --base"));
}

/// The model's own tensors.
static StatusOr<WeightFiles> openBaseFiles(const std::string &folder) {
  WeightFiles files;
  files.base = folder;
  std::set<std::string> names{kModelFile};
  if (!isThere(fs::path(folder) / kModelFile)) {
    OPTRT_ASSIGN_OR_RETURN(files.index,
                           InputFile::open(concat(folder, "/", kModelIndexFile),
                                           StatusCode::DataLoss));
    OPTRT_ASSIGN_OR_RETURN(names, readFileNames(*files.index));
  }
  for (const std::string &name : names) {
    OPTRT_ASSIGN_OR_RETURN(
        InputFile file,
        InputFile::open(concat(folder, "/", name), StatusCode::DataLoss));
    files.tensors.push_back(std::move(file));
  }
  if (isThere(fs::path(folder) / kConfigFile)) {
    OPTRT_ASSIGN_OR_RETURN(files.config, openText(folder, kConfigFile));
  }
  return files;
}

StatusOr<WeightFiles> optrt::openWeightFiles(const std::string &folder,
                                             const std::string &given) {
  OPTRT_ASSIGN_OR_RETURN(const std::string base, findBase(folder, given, [&] {
                           return openText(folder, kAdapterConfigFile);
                         }));
  OPTRT_ASSIGN_OR_RETURN(WeightFiles files, openBaseFiles(base));
  if (hasAdapter(folder)) {
    OPTRT_ASSIGN_OR_RETURN(InputFile file,
                           InputFile::open(concat(folder, "/", kAdapterFile),
                                           StatusCode::DataLoss));
    files.tensors.push_back(std::move(file));
  }
  return files;
}

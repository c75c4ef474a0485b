//===- PathUse.cpp - Outputs that are not inputs --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/PathUse.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace optimus_support;
namespace fs = std::filesystem;

namespace {

bool sameInode(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// What a path leads to, or will once it is made.
struct Place {
  const PathUse *use;
  bool exists = false;
  bool isFolder = false; ///< or will be
  struct stat info = {};
  fs::path path;                    ///< without symbolic links
  std::vector<struct stat> folders; ///< that it lies in, innermost first
};

/// Nothing for what may be read and written at once.
std::optional<Place> placeOf(const PathUse &use, int stream) {
  Place place;
  place.use = &use;
  if (use.path.empty())
    return std::nullopt;
  if (use.path == "-") {
    place.exists = fstat(stream, &place.info) == 0;
    if (!place.exists || !S_ISREG(place.info.st_mode))
      return std::nullopt;
    return place;
  }
  place.exists = stat(use.path.c_str(), &place.info) == 0;
  if (place.exists && S_ISCHR(place.info.st_mode))
    return std::nullopt;
  place.isFolder = place.exists ? S_ISDIR(place.info.st_mode) : use.isWhole;
  std::error_code ignored;
  place.path = fs::weakly_canonical(fs::absolute(use.path, ignored), ignored);
  if (!place.path.has_filename())
    place.path = place.path.parent_path();
  for (fs::path folder = place.path.parent_path();;
       folder = folder.parent_path()) {
    struct stat info;
    if (stat(folder.c_str(), &info) == 0)
      place.folders.push_back(info);
    if (folder == folder.parent_path() || folder.empty())
      return place;
  }
}

std::vector<Place> placesOf(std::span<const PathUse> uses, int stream) {
  std::vector<Place> places;
  for (const PathUse &use : uses)
    if (std::optional<Place> place = placeOf(use, stream))
      places.push_back(std::move(*place));
  return places;
}

bool isSame(const Place &a, const Place &b) {
  if (a.exists != b.exists)
    return false;
  return a.exists ? sameInode(a.info, b.info) : a.path == b.path;
}

/// Whether `a` lies in the whole folder that `b` is or will be.
bool liesIn(const Place &a, const Place &b) {
  if (!b.use->isWhole)
    return false;
  if (b.exists)
    return std::any_of(
        a.folders.begin(), a.folders.end(),
        [&](const struct stat &folder) { return sameInode(folder, b.info); });
  for (fs::path folder = a.path; folder != folder.parent_path();
       folder = folder.parent_path())
    if (folder.parent_path() == b.path)
      return true;
  return false;
}

std::string quoted(const Place &place) { return "'" + place.use->path + "'"; }

} // namespace

Status optimus_support::checkOutputsApart(std::span<const PathUse> inputs,
                                          std::span<const PathUse> outputs) {
  std::vector<Place> from = placesOf(inputs, STDIN_FILENO);
  std::vector<Place> to = placesOf(outputs, STDOUT_FILENO);
  for (size_t i = 0; i != to.size(); ++i) {
    const Place &output = to[i];
    for (const Place &input : from) {
      if (isSame(output, input) && !(output.isFolder && input.isFolder))
        return invalidArgument(
            concat(output.use->what, " ", quoted(output),
                   " is the same file as ", input.use->what, " ", quoted(input),
                   ", which would be overwritten; give it another name"));
      if (liesIn(output, input))
        return invalidArgument(concat(
            output.use->what, " ", quoted(output), " lies in ", input.use->what,
            " ", quoted(input), ", which is read; put it elsewhere"));
    }
    for (size_t j = 0; j != to.size(); ++j) {
      const Place &other = to[j];
      if (j > i && isSame(output, other))
        return invalidArgument(concat(
            output.use->what, " and ", other.use->what, " are the same file, ",
            quoted(output), "; give each a name of its own"));
      if (j != i && liesIn(output, other))
        return invalidArgument(
            concat(output.use->what, " ", quoted(output), " lies in ",
                   other.use->what, " ", quoted(other),
                   ", which is written as a whole; put it elsewhere"));
    }
  }
  return okStatus();
}

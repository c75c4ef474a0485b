//===- WeightExport.cpp - Folders of weights ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/WeightExport.h"

#include "CheckpointFolder.h"
#include "CheckpointImpl.h"
#include "Safetensors.h"
#include "WeightConfig.h"
#include "WeightFiles.h"
#include "WeightTypes.h"
#include "optimus-support/NewFile.h"
#include "optimus-support/Shard.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

using namespace optrt;
using namespace optimus_support;

/// How much of a tensor is read at a time.
static constexpr int64_t kSlabElements = 1 << 18;

namespace {

/// What an adapter adds to its host, a matrix: factor · B·A.
struct AdapterChange {
  std::vector<float> a; ///< [rank, in]
  std::vector<float> b; ///< [out, rank]
  int64_t rank = 0, in = 0, out = 0;
  AdapterScale scale;

  /// Of an element of the host, which is [out, in], or [in, out].
  double at(int64_t element) const {
    const int64_t minor = scale.isFanInFirst ? out : in;
    const int64_t row = scale.isFanInFirst ? element % minor : element / minor;
    const int64_t col = scale.isFanInFirst ? element / minor : element % minor;
    double sum = 0;
    for (int64_t k = 0; k != rank; ++k)
      sum += double(b[size_t(row * rank + k)]) * a[size_t(k * in + col)];
    return scale.factor * sum;
  }
};

/// A tensor, where it is read from, and the type that it is written in.
struct Exported {
  TypedInfo info;
  std::string storedType;
  const InputFile *file = nullptr;
  size_t offset = 0;
  std::optional<AdapterChange> change = {}; ///< if an adapter is merged into it
};

class Exporter {
public:
  Exporter(const Checkpoint &checkpoint, const WeightExportOptions &options)
      : checkpoint(checkpoint), options(options) {}

  void add(const TensorInfo &info, const std::string &storedType,
           const InputFile &file, size_t offset);
  Status verify() const;
  /// Merges adapters into their hosts. To be called after all are added.
  Status merge();
  StatusOr<WeightExportSummary> write(const std::string &dir);

private:
  StatusOr<std::vector<float>> read(const Exported &tensor) const;
  Exported *findTensor(std::string_view name);
  Status merge(const std::string &path, const Exported &a, const Exported &b,
               const AdapterScale &scale);
  Status writeTensor(const Exported &tensor, NewFile &file) const;
  Status writeFile(const std::string &name,
                   std::span<const Exported> tensors) const;
  Status writeText(const std::string &name, const std::string &text) const;
  StatusOr<std::vector<CompanionFile>> findCompanions() const;
  std::optional<ElementType> typeOfAll() const;

  const Checkpoint &checkpoint;
  const WeightExportOptions &options;
  std::vector<Exported> tensors;
  std::unique_ptr<StagingFolder> folder;
};

} // namespace

void Exporter::add(const TensorInfo &info, const std::string &storedType,
                   const InputFile &file, size_t offset) {
  const std::string type = options.type && findWeightType(storedType)
                               ? nameOfWeightType(*options.type)
                               : storedType;
  tensors.push_back({{info, type}, storedType, &file, offset});
}

StatusOr<std::vector<float>> Exporter::read(const Exported &tensor) const {
  const std::optional<ElementType> type = findWeightType(tensor.storedType);
  if (!type)
    return invalidArgument(concat(tensor.info.info.name,
                                  " has elements of type ", tensor.storedType,
                                  "; expected F32, BF16 or F16"));
  std::vector<float> elements(size_t(numElements(tensor.info.info.shape)));
  std::vector<std::byte> stored(elements.size() * size_t(elementBytes(*type)));
  OPTRT_RETURN_IF_ERROR(
      tensor.file->read(tensor.offset, stored.data(), stored.size()));
  widen(*type, stored, elements);
  return elements;
}

Exported *Exporter::findTensor(std::string_view name) {
  auto found = std::ranges::find(
      tensors, name, [](const Exported &tensor) -> std::string_view {
        return tensor.info.info.name;
      });
  return found == tensors.end() ? nullptr : &*found;
}

/// `path` is the host's, as PEFT has it: with the module of a class around it,
/// which the host's own name may lack.
Status Exporter::merge(const std::string &path, const Exported &a,
                       const Exported &b, const AdapterScale &scale) {
  Exported *host = findTensor(concat(path, ".weight"));
  for (std::string_view prefix : classPrefixes()) {
    if (!host && path.starts_with(prefix))
      host = findTensor(
          concat(std::string_view(path).substr(prefix.size()), ".weight"));
    if (!host)
      host = findTensor(concat(prefix, path, ".weight"));
  }
  const std::vector<int64_t> &shapeA = a.info.info.shape,
                             &shapeB = b.info.info.shape;
  auto refuse = [&](const std::string &what) {
    return invalidArgument(concat("cannot merge the adapter of ", path, " in ",
                                  checkpoint.path(), ": ", what));
  };
  if (!host)
    return refuse(concat("there is no tensor ", path, ".weight"));
  if (shapeA.size() != 2 || shapeB.size() != 2 || shapeA[0] != shapeB[1])
    return refuse(concat("expected A [rank, in] and B [out, rank], found ",
                         shapeToString(shapeA), " and ",
                         shapeToString(shapeB)));
  const int64_t in = shapeA[1], out = shapeB[0];
  const std::vector<int64_t> expected =
      scale.isFanInFirst ? std::vector{in, out} : std::vector{out, in};
  if (host->info.info.shape != expected)
    return refuse(concat("expected ", host->info.info.name, " to be ",
                         shapeToString(expected), ", found ",
                         shapeToString(host->info.info.shape)));
  if (!findWeightType(host->storedType))
    return refuse(concat(host->info.info.name, " has elements of type ",
                         host->storedType, "; expected F32, BF16 or F16"));
  AdapterChange change{{}, {}, shapeA[0], in, out, scale};
  OPTRT_ASSIGN_OR_RETURN(change.a, read(a));
  OPTRT_ASSIGN_OR_RETURN(change.b, read(b));
  host->change = std::move(change);
  return okStatus();
}

Status Exporter::merge() {
  OPTRT_ASSIGN_OR_RETURN(const std::string text,
                         checkpoint.readAdapterConfig());
  if (text.empty())
    return invalidArgument(concat("--merge: ", checkpoint.path(),
                                  " has no adapters: no ", kAdapterFile));
  OPTRT_ASSIGN_OR_RETURN(const AdapterScale scale,
                         readAdapterScale(text, concat(checkpoint.path(), "/",
                                                       kAdapterConfigFile)));
  constexpr std::string_view ends[] = {".lora_A.weight", ".lora_B.weight"};
  for (size_t i = 0; i != tensors.size(); ++i) {
    const std::string &name = tensors[i].info.info.name;
    if (!isAdapterTensor(name))
      continue;
    const bool isA = name.ends_with(ends[0]);
    if (!isA && !name.ends_with(ends[1]))
      return invalidArgument(concat("cannot merge ", name, " of ",
                                    checkpoint.path(), ": expected ", ends[0],
                                    " or ", ends[1], " at its end"));
    const std::string inside = name.substr(0, name.size() - ends[0].size());
    const Exported *other = findTensor(concat(inside, ends[isA ? 1 : 0]));
    if (!other)
      return invalidArgument(concat("cannot merge ", name, " of ",
                                    checkpoint.path(), ": there is no ", inside,
                                    ends[isA ? 1 : 0]));
    if (isA)
      OPTRT_RETURN_IF_ERROR(merge(inside.substr(kAdapterPrefix.size()),
                                  tensors[i], *other, scale));
  }
  std::erase_if(tensors, [](const Exported &tensor) {
    return isAdapterTensor(tensor.info.info.name);
  });
  return okStatus();
}

Status Exporter::verify() const {
  if (checkpoint.hasWeightsAlone())
    return okStatus();
  OPTRT_RETURN_IF_ERROR(checkpoint.verifyFiles());
  const CheckpointPieces &pieces = checkpoint.pieces();
  std::vector<float> elements(kSlabElements);
  for (size_t piece = 0; piece != pieces.size(); ++piece) {
    if (pieces.files()[pieces[piece].file].kind != CheckpointFile::Model)
      continue;
    PieceReader reader(checkpoint, piece);
    while (const size_t left = reader.numLeft())
      OPTRT_RETURN_IF_ERROR(reader.read(
          std::span(elements).first(std::min(left, elements.size()))));
  }
  return okStatus();
}

Status Exporter::writeTensor(const Exported &tensor, NewFile &file) const {
  const std::optional<ElementType> from = findWeightType(tensor.storedType),
                                   to = findWeightType(tensor.info.type);
  const int64_t count = numElements(tensor.info.info.shape);
  const int64_t width = bytesOfElement(tensor.storedType);
  std::vector<std::byte> stored, written;
  std::vector<float> elements;
  for (int64_t begin = 0; begin < count; begin += kSlabElements) {
    const int64_t part = std::min(count - begin, kSlabElements);
    stored.resize(size_t(part * width));
    OPTRT_RETURN_IF_ERROR(tensor.file->read(
        tensor.offset + size_t(begin * width), stored.data(), stored.size()));
    if (tensor.storedType == tensor.info.type && !tensor.change) {
      OPTRT_RETURN_IF_ERROR(file.append(stored.data(), stored.size()));
      continue;
    }
    elements.resize(size_t(part));
    widen(*from, stored, elements);
    if (tensor.change)
      for (int64_t i = 0; i != part; ++i)
        elements[size_t(i)] =
            float(elements[size_t(i)] + tensor.change->at(begin + i));
    auto beyond = std::ranges::find_if(elements, [&](float element) {
      return std::isfinite(element) && !fits(*to, element);
    });
    if (beyond != elements.end())
      return invalidArgument(concat(
          "the tensor ", tensor.info.info.name, " of ", checkpoint.path(),
          " has an element beyond the range of ", tensor.info.type, " (",
          *beyond, ")"));
    written.resize(size_t(part * elementBytes(*to)));
    narrow(*to, elements, written);
    OPTRT_RETURN_IF_ERROR(file.append(written.data(), written.size()));
  }
  return okStatus();
}

Status Exporter::writeFile(const std::string &name,
                           std::span<const Exported> exported) const {
  std::vector<TypedInfo> infos;
  for (const Exported &tensor : exported)
    infos.push_back(tensor.info);
  OPTRT_ASSIGN_OR_RETURN(const SafetensorsLayout layout,
                         layOutSafetensors(infos));
  OPTRT_ASSIGN_OR_RETURN(
      NewFile file,
      NewFile::create(folder->path() + "/" + name, layout.fileBytes));
  OPTRT_RETURN_IF_ERROR(
      file.append(layout.header.data(), layout.header.size()));
  for (const Exported &tensor : exported)
    OPTRT_RETURN_IF_ERROR(writeTensor(tensor, file));
  return file.sync();
}

Status Exporter::writeText(const std::string &name,
                           const std::string &text) const {
  OPTRT_ASSIGN_OR_RETURN(
      NewFile file, NewFile::create(folder->path() + "/" + name, text.size()));
  OPTRT_RETURN_IF_ERROR(file.append(text.data(), text.size()));
  return file.sync();
}

/// The one type of all floats, or nothing.
std::optional<ElementType> Exporter::typeOfAll() const {
  std::optional<ElementType> all;
  for (const Exported &tensor : tensors) {
    const std::optional<ElementType> type = findWeightType(tensor.info.type);
    if (all && type && *all != *type)
      return std::nullopt;
    if (type)
      all = type;
  }
  return all;
}

StatusOr<std::vector<CompanionFile>> Exporter::findCompanions() const {
  OPTRT_ASSIGN_OR_RETURN(std::vector<CompanionFile> found,
                         checkpoint.readCompanions());
  auto config = std::ranges::find(found, kConfigFile, &CompanionFile::name);
  if (!options.config.empty()) {
    if (config == found.end())
      config = found.insert(found.begin(), {kConfigFile, ""});
    config->text = options.config;
  }
  if (options.merges) {
    std::erase_if(found, [](const CompanionFile &file) {
      return file.name == kAdapterConfigFile;
    });
    config = std::ranges::find(found, kConfigFile, &CompanionFile::name);
  }
  if (config == found.end())
    return invalidArgument(concat(checkpoint.path(), " has no ", kConfigFile,
                                  ": a library of its model has one"));
  if (const std::optional<ElementType> type = typeOfAll())
    config->text = withElementType(config->text, *type);
  return found;
}

StatusOr<WeightExportSummary> Exporter::write(const std::string &dir) {
  WeightExportSummary summary;
  OPTRT_ASSIGN_OR_RETURN(const std::vector<CompanionFile> companions,
                         findCompanions());
  // Wide elements first: each begins at a multiple of its bytes.
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const Exported &tensor) {
                             return bytesOfElement(tensor.info.type);
                           });
  // Adapters have a file of their own, the last one.
  const auto adapters =
      std::ranges::stable_partition(tensors, [](const Exported &tensor) {
        return !isAdapterTensor(tensor.info.info.name);
      });
  const std::span<const Exported> ofAdapters(adapters.begin(), adapters.end());
  const size_t numOwn = tensors.size() - ofAdapters.size();
  for (const Exported &tensor : ofAdapters)
    summary.bytes +=
        numElements(tensor.info.info.shape) * bytesOfElement(tensor.info.type);
  int64_t ownBytes = 0;
  std::vector<size_t> ends;
  int64_t room = options.shardLimitBytes;
  for (size_t i = 0; i != numOwn; ++i) {
    const TypedInfo &info = tensors[i].info;
    const int64_t bytes =
        numElements(info.info.shape) * bytesOfElement(info.type);
    if (bytes > room && i > 0) {
      ends.push_back(i);
      room = options.shardLimitBytes;
    }
    room -= bytes;
    ownBytes += bytes;
  }
  summary.bytes += ownBytes;
  ends.push_back(numOwn);
  OPTRT_RETURN_IF_ERROR(
      checkNumModelFiles(ends.size(), options.shardLimitBytes));

  OPTRT_ASSIGN_OR_RETURN(folder, StagingFolder::create(dir));
  OPTRT_RETURN_IF_ERROR(folder->checkRoom(uint64_t(summary.bytes)));
  std::vector<std::pair<std::string, std::string>> places;
  size_t begin = 0;
  for (size_t i = 0; i != ends.size(); ++i) {
    const std::string name =
        ends.size() == 1 ? kModelFile : modelShardName(i, ends.size());
    const auto part = std::span(tensors).subspan(begin, ends[i] - begin);
    OPTRT_RETURN_IF_ERROR(writeFile(name, part));
    for (const Exported &tensor : part)
      places.emplace_back(tensor.info.info.name, name);
    begin = ends[i];
  }
  if (!ofAdapters.empty())
    OPTRT_RETURN_IF_ERROR(writeFile(kAdapterFile, ofAdapters));
  OPTRT_RETURN_IF_ERROR(checkpoint.checkUnchanged());
  if (ends.size() > 1)
    OPTRT_RETURN_IF_ERROR(
        writeText(kModelIndexFile, formatIndex(places, ownBytes)));
  for (const CompanionFile &file : companions) {
    OPTRT_RETURN_IF_ERROR(writeText(file.name, file.text));
    summary.companions.push_back(file.name);
  }
  OPTRT_RETURN_IF_ERROR(folder->place(/*useExchange=*/true));
  summary.tensors = int64_t(tensors.size());
  summary.files = ends.size() + (ofAdapters.empty() ? 0 : 1);
  return summary;
}

StatusOr<WeightExportSummary>
optrt::exportWeights(const Checkpoint &checkpoint, const std::string &dir,
                     const WeightExportOptions &options) {
  OPTRT_ASSIGN_OR_RETURN(const bool isThere, hasCheckpoint(dir));
  if (isThere)
    return invalidArgument(concat(
        dir, " is not empty; weights are written to a folder of their own"));
  OPTRT_ASSIGN_OR_RETURN(const FileLock lock, lockCheckpoint(dir));
  Exporter exporter(checkpoint, options);
  checkpoint.forEachWeight([&](const TensorInfo &info, const std::string &type,
                               const InputFile &file, size_t offset) {
    exporter.add(info, type, file, offset);
  });
  OPTRT_RETURN_IF_ERROR(exporter.verify());
  if (options.merges)
    OPTRT_RETURN_IF_ERROR(exporter.merge());
  return exporter.write(dir);
}

//===- Checkpoint.cpp - Loading a model in training -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointImpl.h"

#include "CheckpointFolder.h"
#include "Safetensors.h"
#include "WeightConfig.h"
#include "WeightFiles.h"
#include "WeightTypes.h"
#include "optimus-support/Hash.h"
#include "optimus-support/JsonCursor.h"
#include "optimus-support/Shard.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

using namespace optrt;
using namespace optimus_support;

/// How much of a file is read at a time to compute its checksum.
static constexpr size_t kChecksumBytes = 1 << 20;
/// Of a state, which is read at once: 16 digits for each piece.
static constexpr size_t kMostStateBytes = 256 << 20;
/// Of a companion: tokenizers of some 200,000 tokens have 20 MiB.
static constexpr size_t kMostCompanionBytes = 128 << 20;
/// How often a folder is opened that is replaced meanwhile.
static constexpr int kMostAttempts = 100;

static Status isDamaged(const InputFile &file, uint64_t found,
                        const std::string &where, uint64_t expected) {
  return dataLoss(concat(file.path(), " is damaged: its checksum is ",
                         hashToHex(found), where, ", state.json says ",
                         hashToHex(expected), "; use another checkpoint"));
}

Status optrt::isDamagedBetween(const InputFile &file, uint64_t found,
                               size_t begin, size_t end, uint64_t expected) {
  return isDamaged(file, found, concat(" from byte ", begin, " to ", end),
                   expected);
}

/// The bytes before the data of a file, which have a checksum.
static StatusOr<std::string> readHeader(const InputFile &file,
                                        const PieceChecksums &checksums,
                                        bool verifies) {
  std::string header(checksums.headerBytes, '\0');
  OPTRT_RETURN_IF_ERROR(file.read(0, header.data(), header.size()));
  if (verifies && hash64(header) != checksums.header)
    return isDamagedBetween(file, hash64(header), 0, header.size(),
                            checksums.header);
  OPTRT_ASSIGN_OR_RETURN(
      size_t dataBegin,
      beginOfSafetensorsData(header, file.size(), file.path()));
  if (dataBegin != header.size())
    return dataLoss(concat(file.path(), " is damaged: its data begins at byte ",
                           dataBegin, ", state.json says ", header.size()));
  return header;
}

Status Checkpoint::Impl::addTensor(const TensorInfo &info, size_t number,
                                   CheckpointFile kind,
                                   const ListedFile &listed) {
  std::vector<TensorInfo> &known = infos[int(kind)];
  const StoredTensor tensor{number, kind, known.size(), listed.record.name};
  if (!tensors.emplace(info.name, tensor).second)
    return dataLoss(concat(listed.file.path(), " is damaged: the tensor ",
                           info.name, " is also in another file"));
  known.push_back(info);
  return okStatus();
}

Status Checkpoint::Impl::addTensors(ListedFile &listed) {
  const InputFile &file = listed.file;
  const std::optional<PieceChecksums> &checksums = listed.record.pieces;
  OPTRT_ASSIGN_OR_RETURN(const std::string header,
                         checksums
                             ? readHeader(file, *checksums, verifiesChecksums)
                             : readSafetensorsHeader(file));
  OPTRT_ASSIGN_OR_RETURN(UniformTensors tensors,
                         readSafetensors(header, file.size(), file.path()));
  CheckpointFile kind = listed.record.name == kOptimizerFile
                            ? CheckpointFile::Optimizer
                            : CheckpointFile::Model;
  if (kind == CheckpointFile::Optimizer && tensors.type != ElementType::F32)
    return dataLoss(concat(file.path(),
                           " is damaged: expected elements of "
                           "type F32, found ",
                           nameOfWeightType(tensors.type)));
  listed.type = tensors.type;
  size_t number = pieces.numTensors();
  for (const TensorExtent &extent : tensors.extents)
    OPTRT_RETURN_IF_ERROR(addTensor(extent.info, number++, kind, listed));
  pieces.addFile({kind, header.size(), file.size(),
                  checksums ? checksums->pieceBytes : kDefaultPieceBytes,
                  std::move(tensors.extents),
                  size_t(elementBytes(tensors.type))});
  tensorFiles.push_back(&listed);
  return okStatus();
}

StatusOr<size_t> Checkpoint::Impl::checkIndex(const InputFile &file) const {
  OPTRT_ASSIGN_OR_RETURN(std::string text, file.readAll(kMostIndexBytes));
  JsonDocument document(text, concat(file.path(), " is damaged"),
                        StatusCode::DataLoss);
  size_t found = 0;
  for (const auto &[tensor, cursor] : document.root()["weight_map"].members()) {
    auto entry = tensors.find(tensor);
    if (entry == tensors.end() || entry->second.fileName != cursor.string())
      cursor.fail(concat("the tensor is not in \"", cursor.string(), "\""));
    ++found;
  }
  OPTRT_RETURN_IF_ERROR(document.status());
  return found;
}

Status Checkpoint::Impl::checkWholeIndex(const InputFile &file) const {
  OPTRT_ASSIGN_OR_RETURN(const size_t found, checkIndex(file));
  const size_t expected = size_t(std::ranges::count_if(
      infos[int(CheckpointFile::Model)],
      [](const TensorInfo &info) { return !isAdapterTensor(info.name); }));
  if (found != expected)
    return dataLoss(concat(file.path(), " is damaged: it lists ", found,
                           " tensors, the files have ", expected));
  return okStatus();
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;

StatusOr<std::unique_ptr<Checkpoint>>
Checkpoint::open(const std::string &dir, CheckpointReaderOptions options) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                         openFiles(dir, options));
  OPTRT_RETURN_IF_ERROR(checkpoint->verifyFiles());
  OPTRT_RETURN_IF_ERROR(checkpoint->readHeaders());
  return checkpoint;
}

Status Checkpoint::Impl::openFiles(const CheckpointReaderOptions &options) {
  std::string statePath = path + "/" + kStateFile;
  std::error_code error;
  if (!std::filesystem::exists(statePath, error)) {
    // A checkpoint that lost its state is damaged.
    if (!error && hasWeightFiles(path) &&
        !std::filesystem::exists(path + "/" + kOptimizerFile, error))
      return openWeights(options);
    if (!error)
      if (std::string reason = describePickles(path); !reason.empty())
        return invalidArgument(reason);
    return invalidArgument(
        error
            ? concat("cannot read the checkpoint ", path, ": ", error.message())
            : concat(path, " is not a checkpoint: it has no ", kStateFile));
  }
  OPTRT_ASSIGN_OR_RETURN(InputFile stateFile,
                         InputFile::open(statePath, StatusCode::DataLoss));
  OPTRT_ASSIGN_OR_RETURN(std::string text, stateFile.readAll(kMostStateBytes));
  OPTRT_ASSIGN_OR_RETURN(ParsedState parsed, parseState(text, statePath));
  state = parsed.state;
  fingerprint = hashToHex(hash64(text));

  for (const FileRecord &record : parsed.files) {
    std::string filePath = path + "/" + record.name;
    OPTRT_ASSIGN_OR_RETURN(InputFile file,
                           InputFile::open(filePath, StatusCode::DataLoss));
    if (int64_t(file.size()) != record.size)
      return dataLoss(concat(filePath, " is damaged: it has ", file.size(),
                             " bytes, state.json says ", record.size,
                             "; use another checkpoint"));
    files.push_back({record, std::move(file)});
  }
  if (state.base)
    return options.opensBase ? openBase(options) : okStatus();
  return options.base.empty() ? okStatus() : findBase(path, options.base, [&] {
                                               return readAdapterConfig();
                                             }).status();
}

StatusOr<std::unique_ptr<Checkpoint>>
Checkpoint::openFiles(const std::string &dir, CheckpointReaderOptions options) {
  for (int attempt = 1;; ++attempt) {
    OPTRT_ASSIGN_OR_RETURN(ReadFolder folder, ReadFolder::find(dir));
    auto impl = std::make_unique<Impl>();
    impl->path = folder.path();
    impl->verifiesChecksums = options.verifyChecksums;
    Status opened = impl->openFiles(options);
    if (!folder.isCurrent() && attempt < kMostAttempts)
      continue;
    OPTRT_RETURN_IF_ERROR(opened);
    return std::unique_ptr<Checkpoint>(new Checkpoint(std::move(impl)));
  }
}

Status Checkpoint::verifyFiles() const {
  std::vector<char> part;
  for (const auto &[record, file, type] : impl->files) {
    if (record.pieces || !impl->verifiesChecksums || impl->weights)
      continue;
    part.resize(std::min(kChecksumBytes, file.size()));
    Hash64 hash;
    for (size_t begin = 0; begin < file.size(); begin += part.size()) {
      size_t bytes = std::min(part.size(), file.size() - begin);
      OPTRT_RETURN_IF_ERROR(file.read(begin, part.data(), bytes));
      hash.update(part.data(), bytes);
    }
    if (hash.digest() != record.hash)
      return isDamaged(file, hash.digest(), "", record.hash);
  }
  return impl->base ? impl->base->verifyFiles() : okStatus();
}

Status Checkpoint::readHeaders() {
  if (impl->weights)
    return impl->readWeightHeaders();
  const InputFile *index = nullptr;
  for (ListedFile &listed : impl->files)
    if (listed.record.name == kModelIndexFile)
      index = &listed.file;
    else if (!isCompanionFileName(listed.record.name))
      OPTRT_RETURN_IF_ERROR(impl->addTensors(listed));
  if (index)
    OPTRT_RETURN_IF_ERROR(impl->checkWholeIndex(*index));
  if (impl->infos[int(CheckpointFile::Model)].empty())
    return dataLoss(concat(impl->path, "/", kStateFile,
                           " is damaged: it lists no file with parameters"));
  if (!impl->base)
    return okStatus();
  OPTRT_RETURN_IF_ERROR(impl->base->readHeaders());
  OPTRT_RETURN_IF_ERROR(impl->checkBase());
  // Those of weights are found with their model.
  return impl->base->hasWeightsAlone() ? okStatus() : impl->addBase();
}

std::string Checkpoint::identity() const {
  std::string text = impl->fingerprint;
  for (const ListedFile &listed : impl->files)
    text += concat(" ", listed.file.identity());
  if (impl->base)
    text += concat(" ", impl->base->identity());
  return text;
}

Status Checkpoint::checkUnchanged() const {
  for (const ListedFile &listed : impl->files)
    OPTRT_RETURN_IF_ERROR(listed.file.checkUnchanged());
  return impl->base ? impl->base->checkUnchanged() : okStatus();
}

const std::string &Checkpoint::fingerprint() const { return impl->fingerprint; }
const std::string &Checkpoint::path() const { return impl->path; }
bool Checkpoint::hasWeightsAlone() const { return impl->weights.has_value(); }
bool Checkpoint::readsWeights() const {
  return impl->base ? impl->base->readsWeights() : hasWeightsAlone();
}
bool Checkpoint::knowsParameters() const {
  return impl->base ? impl->base->knowsParameters()
                    : !impl->weights || impl->pieces.numTensors() != 0;
}
const TrainingState &Checkpoint::state() const { return impl->state; }
std::span<const TensorInfo> Checkpoint::tensors(CheckpointFile file) const {
  return impl->infos[int(file)];
}

const TensorInfo *Checkpoint::Impl::find(CheckpointFile file,
                                         const std::string &name) const {
  auto found = tensors.find(name);
  if (found == tensors.end() || found->second.kind != file)
    return nullptr;
  return &infos[int(file)][found->second.index];
}

bool Checkpoint::Impl::hasAdapters() const {
  return std::ranges::any_of(
      infos[int(CheckpointFile::Model)],
      [](const TensorInfo &info) { return isAdapterTensor(info.name); });
}

/// How the parameters differ from `params`, or nothing.
std::string
Checkpoint::Impl::describeDifference(std::span<const TensorInfo> params) const {
  std::unordered_map<std::string, bool> expected;
  const bool beginsAdapters = !hasAdapters();
  for (const TensorInfo &param : params) {
    expected[param.name] = true;
    const TensorInfo *found = find(CheckpointFile::Model, param.name);
    if (!found && beginsAdapters && isAdapterTensor(param.name))
      continue;
    if (!found)
      return concat("it has no parameter ", param.name);
    if (found->shape != param.shape)
      return concat("parameter ", param.name, " has shape ",
                    shapeToString(found->shape), ", the model's is ",
                    shapeToString(param.shape));
  }
  for (const TensorInfo &info : infos[int(CheckpointFile::Model)])
    if (!expected.count(info.name))
      return concat("it has a parameter ", info.name,
                    ", which the model does not");
  return "";
}

/// The model hash written by earlier versions, which knew no function.
static std::string hashOfEarlierVersions(const ExpectedModel &expected) {
  std::string identity;
  for (const TensorInfo &param : expected.params) {
    identity += param.name;
    for (int64_t extent : param.shape)
      identity += concat(":", extent);
    identity += '\n';
  }
  return hashToHex(hash64(identity + expected.record.optimizer));
}

Status Checkpoint::checkParameters(const ExpectedModel &expected) const {
  const TrainingState &state = impl->state;
  const std::optional<ModelFunction> &own =
      state.model ? state.model->function : std::nullopt;
  auto otherModel = [&](const std::string &difference) {
    return invalidArgument(concat("the checkpoint ", impl->path,
                                  " is of another model: ", difference));
  };
  if (expected.adapter.empty() && impl->hasAdapters())
    return otherModel("it has adapters, the library none")
        .withAdvice(kAdapterAdvice);
  std::string difference = impl->describeDifference(expected.params);
  const bool areFunctionsComparable =
      areComparable(own, expected.record.function);
  if (areFunctionsComparable) {
    const ModelFunction &other = *expected.record.function;
    // Where no fact differs, what has a name says more than a hash.
    if (own->facts != other.facts || difference.empty()) {
      std::string differs =
          describeDifference(*own, "checkpoint", other, "library");
      if (!differs.empty())
        return otherModel(differs).withAdvice(
            own->facts == other.facts
                ? "use a library of the program that wrote it"
                : "");
    }
  }
  const bool sameHash =
      state.modelHash ==
      (state.model ? expected.hash : hashOfEarlierVersions(expected));
  if (!difference.empty())
    return sameHash ? dataLoss(concat("the checkpoint ", impl->path,
                                      " is damaged: ", difference))
                    : otherModel(difference);
  // The hash is of the function too, where there is one.
  const bool areHashesComparable =
      areFunctionsComparable ||
      (state.model && !own && !expected.record.function);
  // Adapters that begin anew are in the library's alone.
  const bool areSameTensors =
      impl->infos[int(CheckpointFile::Model)].size() == expected.params.size();
  if (areHashesComparable && areSameTensors && !sameHash)
    return otherModel("the parameters are the same, but their order is not");
  return okStatus();
}

Status Checkpoint::findParameters(const ExpectedModel &expected,
                                  std::span<const std::string> ignored) {
  if (impl->weights)
    return impl->matchParameters(expected, ignored);
  if (!ignored.empty() && !readsWeights())
    return invalidArgument(concat("--ignore is for folders of weights; ",
                                  impl->path,
                                  " is a checkpoint, of which all is read"));
  if (readsWeights()) {
    // The base may have had adapters of its own.
    ExpectedModel rest = expected;
    rest.adapter.clear();
    std::erase_if(rest.params, [](const TensorInfo &param) {
      return isAdapterTensor(param.name);
    });
    std::vector<std::string> others(ignored.begin(), ignored.end());
    others.push_back(concat(kAdapterPrefix, "*"));
    OPTRT_RETURN_IF_ERROR(impl->base->findParameters(rest, others));
    OPTRT_RETURN_IF_ERROR(impl->addBase());
  }
  OPTRT_RETURN_IF_ERROR(impl->checkAdapter(expected));
  return checkParameters(expected);
}

StatusOr<TextFile> Checkpoint::Impl::readText(const std::string &folder,
                                              std::string_view name) const {
  OPTRT_ASSIGN_OR_RETURN(
      InputFile file,
      InputFile::open(concat(folder, "/", name), StatusCode::DataLoss));
  OPTRT_ASSIGN_OR_RETURN(std::string text,
                         file.readAll(name == kAdapterConfigFile
                                          ? kMostConfigBytes
                                          : kMostCompanionBytes));
  auto listed = std::ranges::find(files, name, [](const auto &one) {
    return std::string_view(one.record.name);
  });
  if (listed != files.end() && hash64(text) != listed->record.hash)
    return isDamaged(file, hash64(text), "", listed->record.hash);
  return TextFile{file.path(), std::move(text)};
}

Status Checkpoint::Impl::checkAdapter(const ExpectedModel &expected) const {
  if (expected.adapter.empty() || !hasAdapters())
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(const TextFile config, readAdapterConfig());
  return checkAdapterConfig(config.text, config.path, expected.adapter);
}

StatusOr<std::string> Checkpoint::readAdapterConfig() const {
  if (!impl->hasAdapters())
    return std::string();
  OPTRT_ASSIGN_OR_RETURN(TextFile config, impl->readAdapterConfig());
  return std::move(config.text);
}

bool Checkpoint::has(const std::string &name) const {
  return impl->tensors.contains(name);
}

Status Checkpoint::findModel(const ExpectedModel &expected,
                             std::span<const std::string> ignored) {
  if (impl->weights)
    return invalidArgument(
        concat(impl->path, " has weights alone, no ", kStateFile,
               ": there is no run to go on with; begin one with these "
               "parameters: --load-weights ",
               impl->path));
  OPTRT_RETURN_IF_ERROR(findParameters(expected, ignored));
  const TrainingState &state = impl->state;
  const std::string &optimizer = expected.record.optimizer;
  auto otherOptimizer = [&](const std::string &what) {
    return invalidArgument(
        concat("the checkpoint ", impl->path, " ", what,
               "; compile with that optimizer to go on, or begin anew with the "
               "checkpoint's parameters: --load-weights ",
               impl->path));
  };
  if (state.model && state.model->optimizer != optimizer)
    return otherOptimizer(concat("has the state of the optimizer ",
                                 state.model->optimizer,
                                 ", the library is "
                                 "compiled for ",
                                 optimizer));
  if (!state.model && state.modelHash != hashOfEarlierVersions(expected))
    return otherOptimizer(concat("is of another optimizer than the library's, ",
                                 optimizer,
                                 ", or of parameters in another order"));
  for (const TensorInfo &tensor : expected.states) {
    const TensorInfo *found =
        impl->find(CheckpointFile::Optimizer, tensor.name);
    if (!found && !state.trained.empty())
      return invalidArgument(concat(
          "the checkpoint ", impl->path, " trained ", state.trained.size(),
          " of the model's parameters: it has no ", tensor.name,
          "; compile with the same --train or --lora to go on, or begin "
          "anew with the checkpoint's parameters: --load-weights ",
          impl->path));
    if (!found)
      return dataLoss(concat("the checkpoint ", impl->path, " is damaged: ",
                             kOptimizerFile, " lacks ", tensor.name));
    if (found->shape != tensor.shape)
      return dataLoss(concat("the checkpoint ", impl->path,
                             " is damaged: ", tensor.name, " has shape ",
                             shapeToString(found->shape), ", expected ",
                             shapeToString(tensor.shape)));
  }
  return okStatus();
}

std::vector<std::string>
Checkpoint::notesOn(const ExpectedModel &expected) const {
  if (impl->weights)
    return impl->weights->notes;
  std::vector<std::string> notes;
  if (impl->base && impl->base->impl->weights)
    notes = impl->base->impl->weights->notes;
  if (!expected.adapter.empty() && !impl->hasAdapters())
    notes.push_back(
        concat(impl->path, " has no adapter: the library's begins anew"));
  for (const ListedFile *listed : impl->tensorFiles)
    if (listed->type != ElementType::F32) {
      notes.push_back(concat(impl->path, ": its parameters were rounded to ",
                             nameOfWeightType(listed->type),
                             " when they were saved"));
      break;
    }
  const std::optional<ModelRecord> &own = impl->state.model;
  const std::optional<ModelFunction> &function = expected.record.function;
  if (!own || !areComparable(own->function, function)) {
    std::string why =
        concat(impl->path, " does not describe its model's function");
    if (!function)
      why = "the library does not describe its model's function";
    else if (own && own->function)
      why = concat(impl->path, " and the library describe functions in "
                               "different versions");
    notes.push_back(
        concat("only names and shapes of parameters were compared: ", why));
  }
  if (own)
    if (std::string changes =
            describeChanges(expected.record.compilation, own->compilation);
        !changes.empty())
      notes.push_back("the library is compiled otherwise: " + changes);
  return notes;
}

StatusOr<const StoredTensor *>
Checkpoint::Impl::locate(const std::string &name) const {
  auto found = tensors.find(name);
  if (found == tensors.end())
    return dataLoss(
        concat("the checkpoint ", path, " has no tensor called ", name));
  return &found->second;
}

const CheckpointPieces &Checkpoint::pieces() const { return impl->pieces; }

void Checkpoint::forEachWeight(
    const std::function<void(const TensorInfo &, const std::string &,
                             const InputFile &, size_t)> &visit) const {
  const std::vector<TensorFileExtent> &extents = impl->pieces.files();
  if (impl->base)
    impl->base->forEachWeight([&](const TensorInfo &info, const auto &...rest) {
      if (!isAdapterTensor(info.name))
        visit(info, rest...);
    });
  if (impl->weights && extents.empty())
    for (const StoredWeight &weight : impl->weights->stored)
      visit(weight.info, weight.type, impl->files[weight.file].file,
            weight.offset);
  size_t number = 0;
  for (size_t i = 0; i != impl->tensorFiles.size(); ++i)
    for (const TensorExtent &tensor : extents[i].tensors) {
      if (impl->weights) {
        const StoredWeight &weight =
            impl->weights->stored[impl->weights->numbers[number++]];
        visit(tensor.info, weight.type, impl->files[weight.file].file,
              weight.offset);
      } else if (extents[i].kind == CheckpointFile::Model) {
        const ListedFile &listed = *impl->tensorFiles[i];
        visit(tensor.info, nameOfWeightType(listed.type), listed.file,
              tensor.offset);
      }
    }
}

StatusOr<std::vector<CompanionFile>> Checkpoint::readCompanions() const {
  std::vector<CompanionFile> found;
  for (std::string_view name : companionFileNames()) {
    auto isIn = [&](const std::string &folder) {
      std::error_code error;
      return std::filesystem::exists(concat(folder, "/", name), error);
    };
    std::string folder = impl->path;
    // An adapter's folder may have none of its model's.
    if (!isIn(folder) && impl->weights)
      folder = impl->weights->base;
    if (!isIn(folder))
      continue;
    OPTRT_ASSIGN_OR_RETURN(TextFile file, impl->readText(folder, name));
    found.push_back({std::string(name), std::move(file.text)});
  }
  if (!impl->base)
    return found;
  OPTRT_ASSIGN_OR_RETURN(std::vector<CompanionFile> others,
                         impl->base->readCompanions());
  for (CompanionFile &other : others)
    if (std::ranges::find(found, other.name, &CompanionFile::name) ==
        found.end())
      found.push_back(std::move(other));
  return found;
}

StatusOr<std::vector<float>>
Checkpoint::readTensor(const std::string &name) const {
  OPTRT_ASSIGN_OR_RETURN(const StoredTensor *tensor, impl->locate(name));
  const CheckpointPieces &pieces = impl->pieces;
  std::vector<float> values(
      numElements(impl->infos[int(tensor->kind)][tensor->index].shape));
  std::vector<float> elements;
  for (size_t piece = 0; piece != pieces.size(); ++piece) {
    const size_t count = pieces[piece].numElements();
    const std::vector<TensorPart> parts = pieces.parts(piece, 0, count);
    auto part = std::ranges::find(parts, tensor->number, &TensorPart::tensor);
    if (part == parts.end())
      continue;
    elements.resize(count);
    OPTRT_RETURN_IF_ERROR(PieceReader(*this, piece).read(elements));
    int64_t at = 0;
    for (auto before = parts.begin(); before != part; ++before)
      at += before->count;
    std::copy_n(elements.begin() + at, part->count,
                values.begin() + part->begin);
  }
  return values;
}

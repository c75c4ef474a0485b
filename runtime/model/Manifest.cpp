//===- Manifest.cpp - What the runtime knows of a model -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Manifest.h"

#include "ManifestReader.h"
#include "ModelRecordJson.h"
#include "optimus-support/CachePages.h"
#include "optimus-support/Hash.h"
#include "optimus-support/MeshTiles.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace optrt;
using namespace optimus_support;

/// The format read here; docs/manifest.md describes each one.
static constexpr int64_t kFormat = 3;

std::string_view optrt::toString(Lifetime lifetime) {
  return kLifetimeNames[int(lifetime)];
}
std::string_view optrt::toString(Reset reset) {
  return kResetNames[int(reset)];
}
std::string_view optrt::toString(FilledBy filledBy) {
  return kFilledByNames[int(filledBy)];
}
std::string_view optrt::toString(Access access) {
  return kAccessNames[int(access)];
}

std::string_view optrt::toString(EntryKind kind) {
  return kEntryKindNames[int(kind)];
}

std::optional<EntryKind> optrt::parseEntryKind(std::string_view text) {
  for (size_t i = 0; i != std::size(kEntryKindNames); ++i)
    if (kEntryKindNames[i] == text)
      return EntryKind(i);
  return std::nullopt;
}

const Arg *Function::findArg(int64_t buffer) const {
  for (const Arg &arg : args)
    if (arg.buffer == buffer)
      return &arg;
  return nullptr;
}

const Function *Manifest::findFunction(std::string_view name) const {
  for (const Function &function : functions)
    if (function.name == name)
      return &function;
  return nullptr;
}

std::vector<const Function *>
Manifest::findPreparersOf(const Function &function) const {
  std::vector<const Function *> found;
  for (const Function &other : functions)
    if (other.kind == EntryKind::Prepare && &other != &function &&
        std::any_of(other.args.begin(), other.args.end(), [&](const Arg &arg) {
          return arg.access != Access::Read && function.findArg(arg.buffer);
        }))
      found.push_back(&other);
  return found;
}

bool Manifest::has(EntryKind kind) const {
  return std::any_of(functions.begin(), functions.end(),
                     [&](const Function &each) { return each.kind == kind; });
}

/// "train_step (train, batch 4 of 16 tokens), update (update)". There may be a
/// preparing function for each parameter: several are counted.
static std::string
describeEntries(const std::vector<const Function *> &functions) {
  std::string text;
  const auto preparers =
      std::ranges::count(functions, EntryKind::Prepare, &Function::kind);
  if (preparers > 1)
    text = concat(preparers, " of the kind prepare");
  for (const Function *function : functions) {
    if (preparers > 1 && function->kind == EntryKind::Prepare)
      continue;
    text += concat(text.empty() ? "" : ", ", function->name, " (",
                   toString(function->kind));
    if (function->batch > 0)
      text += concat(", batch ", function->batch, " of ", function->sequence,
                     " tokens");
    text += ")";
  }
  return text.empty() ? "none" : text;
}

std::string Manifest::describeFunctions() const {
  std::vector<const Function *> all;
  for (const Function &function : functions)
    all.push_back(&function);
  return describeEntries(all);
}

/// What gives a library a function of a kind; empty where nothing does alone.
static std::string_view howToHave(EntryKind kind) {
  switch (kind) {
  case EntryKind::Train:
  case EntryKind::Eval:
  case EntryKind::Grad:
    return "`python3 -m optimus.models … --functions loss` writes a program of "
           "which optimus-compile makes one";
  case EntryKind::Forward:
    return "`python3 -m optimus.models … --functions forward` writes a program "
           "with one, for optimus-compile";
  case EntryKind::Accumulate:
  case EntryKind::Update:
    return "optimus-compile --accumulate makes one";
  case EntryKind::Prefill:
  case EntryKind::Decode:
  case EntryKind::Score:
    return "`python3 -m optimus.models … --generate slots=1,context=N,chunk=N` "
           "writes a program with one, for optimus-compile";
  case EntryKind::Prepare:
  case EntryKind::Other:
    return "";
  }
  return "";
}

StatusOr<const Function *> Manifest::findEntry(std::string_view library,
                                               EntryKind kind,
                                               std::string_view name,
                                               std::string_view naming) const {
  std::vector<const Function *> found;
  for (const Function &function : functions)
    if (function.kind == kind && (name.empty() || function.name == name))
      found.push_back(&function);
  const std::string called = name.empty() ? "" : concat(" called ", name);
  if (found.empty()) {
    Status status = invalidArgument(
        concat("`", library, "` has no function of the kind ", toString(kind),
               called, "; its functions are ", describeFunctions()));
    const std::string_view how = has(kind) ? "" : howToHave(kind);
    return how.empty() ? status : status.withAdvice(how);
  }
  if (found.size() > 1)
    return invalidArgument(concat("`", library,
                                  "` has several functions of the "
                                  "kind ",
                                  toString(kind), ": ", describeEntries(found),
                                  "; ", naming));
  return found.front();
}

StatusOr<const Function *>
Manifest::findFunctionOrKind(std::string_view library,
                             std::string_view text) const {
  if (std::optional<EntryKind> kind = parseEntryKind(text);
      kind && *kind != EntryKind::Other)
    return findEntry(library, *kind, /*name=*/{}, "name one");
  if (const Function *function = findFunction(text))
    return function;
  return invalidArgument(concat("`", library,
                                "` has no function, nor a kind of "
                                "them, called ",
                                text, "; its functions are ",
                                describeFunctions()));
}

std::optional<CacheExtents> Manifest::cacheOf(const Function &function) const {
  std::optional<CacheExtents> found;
  for (const Arg &arg : function.args) {
    const Buffer &buffer = buffers[arg.buffer];
    if (!buffer.isCache())
      continue;
    const std::vector<int64_t> &shape = buffer.layout.shape;
    if (!found)
      found = {shape[0], shape[1], 0, 0, buffer.layout.localShape[0]};
    if (found->slots != shape[0] || found->context != shape[1] ||
        found->slotsOfPool != buffer.layout.localShape[0])
      return std::nullopt;
    found->bytesPerToken += buffer.layout.numElements() / shape[0] / shape[1] *
                            optimus_support::elementBytes(buffer.type);
  }
  if (!found)
    return found;
  found->window = function.window;
  const std::optional<int64_t> table = findBuffer(kPageTable);
  if (!table || !function.findArg(*table)) {
    found->slotsOfPool = 0;
    return found;
  }
  // Entries count from a slot's own pages, on the ranks that hold these.
  const ShardLayout &layout = buffers[*table].layout;
  if (layout.shape.size() != 2 || layout.shape[0] != found->slots ||
      layout.localShape[0] != found->slotsOfPool ||
      layout.localShape[1] != layout.shape[1] || found->slotsOfPool < 1 ||
      found->context % kPageTokens != 0 || layout.shape[1] < 1 ||
      layout.shape[1] > INT32_MAX / kPageTokens ||
      found->context / kPageTokens > INT32_MAX / found->slots)
    return std::nullopt;
  // A rank may have padding beyond the last slot.
  found->slotsOfPool = std::min(found->slotsOfPool, found->slots);
  found->pages = found->slots * (found->context / kPageTokens);
  found->context = layout.shape[1] * kPageTokens;
  return found;
}

PageRange CacheExtents::poolOf(int64_t slot) const {
  const int64_t own = pagesOfSlot();
  const int64_t first = slot / slotsOfPool * slotsOfPool;
  return {first * own, (std::min(slots, first + slotsOfPool) - first) * own};
}

std::vector<std::vector<int32_t>>
CacheExtents::pagesOfEach(int64_t count) const {
  std::vector<std::vector<int32_t>> all(count);
  for (int64_t slot = 0; pages != 0 && slot != count; ++slot) {
    all[slot].resize(tokensOfEach() / kPageTokens);
    std::iota(all[slot].begin(), all[slot].end(),
              static_cast<int32_t>(slot * pagesOfSlot()));
  }
  return all;
}

// n tokens in a row are on (n - 1) / 64 pages, rounded up, and perhaps on one
// more.
int64_t CacheExtents::pagesAtOnce(int64_t tokensOfCall) const {
  const int64_t all = context / kPageTokens;
  return window == 0
             ? all
             : std::min(all,
                        optimus_support::pagesFor(window + tokensOfCall - 2) +
                            1);
}

int64_t CacheExtents::tokensOfOne(int64_t tokensOfCall) const {
  return pages == 0 || pagesAtOnce(tokensOfCall) <= poolOf(0).count
             ? context
             : poolOf(0).count * kPageTokens;
}

int64_t CacheExtents::tokensOfEach() const {
  return pages == 0 ? context : std::min(context, pagesOfSlot() * kPageTokens);
}

StatusOr<int64_t> Manifest::findOutput(std::string_view library,
                                       const Function &function,
                                       std::string_view name) const {
  std::string outputs;
  for (const Arg &arg : function.args) {
    if (arg.access == Access::Read)
      continue;
    if (buffers[arg.buffer].name == name)
      return arg.buffer;
    if (buffers[arg.buffer].lifetime == Lifetime::Call)
      outputs += concat(outputs.empty() ? "" : ", ", buffers[arg.buffer].name);
  }
  return invalidArgument(concat("`", library, "`: ", function.name,
                                " has no output \"", name, "\"; it has ",
                                outputs.empty() ? "none" : outputs));
}

std::optional<int64_t> Manifest::findBuffer(std::string_view name) const {
  auto found = bufferIndices.find(name);
  if (found == bufferIndices.end())
    return std::nullopt;
  return found->second;
}

std::optional<int64_t>
Manifest::findForwardOutput(const Function &function) const {
  for (std::string_view role : {"logits", "hidden_states"})
    if (std::optional<int64_t> buffer = findRole(role))
      if (const Arg *arg = function.findArg(*buffer);
          arg && arg->access != Access::Read)
        return buffer;
  return std::nullopt;
}

Status Manifest::checkDocumentEnd(std::string_view library,
                                  std::optional<int64_t> token,
                                  std::string_view option) const {
  const bool isAsked = findRole("positions").has_value();
  if (isAsked && !token)
    return invalidArgument(concat("`", library,
                                  "` keeps documents apart: expected ", option,
                                  " with the last token of each, found none"));
  if (!isAsked && token)
    return invalidArgument(concat(option, " ", *token, ": `", library,
                                  "` sees all of a sequence; build the model "
                                  "with --within-documents"));
  if (token && (*token < 0 || *token >= vocabulary))
    return invalidArgument(
        concat(option, " ", *token, ": expected a token from 0 to ",
               vocabulary - 1, ", of the vocabulary of `", library, "`"));
  return okStatus();
}

std::optional<int64_t> Manifest::findRole(std::string_view role,
                                          int64_t of) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].role == role && buffers[i].of == of)
      return int64_t(i);
  return std::nullopt;
}

std::vector<int64_t> Manifest::buffersOfLifetime(Lifetime lifetime) const {
  std::vector<int64_t> found;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].lifetime == lifetime)
      found.push_back(int64_t(i));
  return found;
}

std::vector<TensorInfo> Manifest::savedTensors(CheckpointFile file) const {
  std::vector<TensorInfo> infos;
  std::set<std::string_view> known;
  for (const Buffer &buffer : buffers)
    if (buffer.saved && buffer.saved->file == file &&
        known.insert(buffer.saved->name).second)
      infos.push_back({buffer.saved->name, buffer.saved->shape});
  return infos;
}

std::vector<std::string> Manifest::trainedParameters() const {
  std::vector<std::string> trained;
  bool isAll = true;
  for (int64_t param : buffersOfLifetime(Lifetime::Parameter)) {
    const bool changes =
        std::ranges::any_of(functions, [&](const Function &function) {
          const Arg *arg = function.findArg(param);
          return arg && arg->access == Access::Update;
        });
    const std::string &name = buffers[param].saved->name;
    if (changes && std::ranges::find(trained, name) == trained.end())
      trained.push_back(name);
    isAll &= changes;
  }
  return isAll ? std::vector<std::string>() : trained;
}

int64_t Manifest::numParamElements() const {
  int64_t count = 0;
  for (const Buffer &buffer : buffers)
    if (buffer.lifetime == Lifetime::Parameter)
      count += buffer.layout.numElements();
  return count;
}

ModelRecord Manifest::record() const {
  ModelRecord record{function, optimizer, incidental};
  for (const auto &[name, value] :
       {std::pair<const char *, nlohmann::json>(
            "mesh", mesh.axes().empty() ? "none" : mesh.toString()),
        {"strategy", strategy},
        {"precision", optimus_support::toString(precision)}})
    record.compilation[name].value = value.dump();
  return record;
}

Effects Manifest::effectsOf(const Function &function) const {
  Effects effects;
  for (const Arg &arg : function.args) {
    if (arg.access == Access::Read)
      continue;
    bool isOfCall = buffers[arg.buffer].lifetime == Lifetime::Call;
    (isOfCall ? effects.returned : effects.changed).push_back(arg.buffer);
  }
  return effects;
}

bool Manifest::changes(const Function &function, Lifetime lifetime) const {
  std::vector<int64_t> changed = effectsOf(function).changed;
  return std::any_of(changed.begin(), changed.end(), [&](int64_t buffer) {
    return buffers[buffer].lifetime == lifetime;
  });
}

/// Nothing where the objective is the next token.
static std::optional<MaskedObjective> readObjective(const JsonCursor &cursor,
                                                    int64_t vocabulary) {
  static constexpr std::string_view kinds[] = {"next_token", "masked_token"};
  if (readEnum(cursor["kind"], kinds) == 0)
    return std::nullopt;
  MaskedObjective masked;
  masked.maskToken = cursor["mask_token"].integer(0, vocabulary - 1);
  if (JsonCursor pad = cursor.find("pad_token"))
    masked.padToken = pad.integer(0, vocabulary - 1);
  return masked;
}

static ElementType readPrecision(const JsonCursor &cursor) {
  auto type =
      ElementType(readEnum(cursor, optimus_support::kElementTypeNames));
  if (optimus_support::precisionBits(type) == 0 || type == ElementType::F64)
    cursor.fail(concat("expected f32, bf16 or f16; found ",
                       optimus_support::toString(type)));
  return type;
}

/// The text of an object.
static std::string readConfig(const JsonCursor &cursor) {
  std::string text = cursor.string();
  JsonDocument document(text, "", StatusCode::InvalidArgument);
  if (!document.status().ok() || !document.contents().is_object())
    cursor.fail("expected the text of a JSON object");
  return text;
}

/// Of each rank its node: its part of the mesh, or with so many ranks that
/// follow each other.
static std::vector<int64_t> readPlacement(const JsonCursor &cursor,
                                          const Mesh &mesh) {
  std::vector<int64_t> nodes(mesh.numRanks());
  if (JsonCursor consecutive = cursor.find("consecutive")) {
    const int64_t ranks = consecutive.integer(1, kMaxRanks);
    for (int64_t rank = 0; rank != mesh.numRanks(); ++rank)
      nodes[rank] = rank / ranks;
    return nodes;
  }
  const JsonCursor tile = cursor["tile"];
  const std::vector<int64_t> extents = tile.integers(1, kMaxRanks);
  bool divides = int(extents.size()) == mesh.numAxes();
  for (int axis = 0; divides && axis != mesh.numAxes(); ++axis)
    divides = mesh.axisSize(axis) % extents[axis] == 0;
  if (!divides) {
    tile.fail(concat("expected extents that divide ", mesh.toString(),
                     ", found ", shapeToString(extents)));
    return {};
  }
  for (int64_t rank = 0; rank != mesh.numRanks(); ++rank)
    nodes[rank] = placeInTile(mesh, extents, rank).tile;
  return nodes;
}

StatusOr<Manifest> optrt::parseManifest(std::string_view json) {
  JsonDocument document(json, "the model's manifest",
                        StatusCode::InvalidArgument);
  JsonCursor root = document.root();
  Manifest manifest;

  manifest.format = root["format"].integer(0, INT64_MAX);
  if (manifest.format != kFormat)
    root["format"].fail(concat("this runtime reads format ", kFormat,
                               ", the library has ", manifest.format,
                               "; compile the model again with the "
                               "optimus-compile that came with this runtime"));
  manifest.sourceHash = readHashDigits(root["source_hash"]);
  manifest.modelHash = readHashDigits(root["model_hash"]);
  if (JsonCursor compiler = root.find("compiler"))
    manifest.compiler = compiler.string();
  if (JsonCursor strategy = root.find("strategy"))
    manifest.strategy = strategy.string();
  if (JsonCursor optimizer = root.find("optimizer"))
    manifest.optimizer = optimizer.string();
  if (JsonCursor precision = root.find("precision"))
    manifest.precision = readPrecision(precision);
  if (JsonCursor target = root.find("target")) {
    manifest.target = target["name"].string();
    if (manifest.target == "cpu") {
      manifest.targetCpu = target["cpu"].string();
      for (const JsonCursor &feature : target["features"].elements())
        manifest.targetFeatures.push_back(feature.string());
    }
  }

  if (JsonCursor plan = root.find("plan"))
    manifest.isPlan = plan.boolean();
  manifest.mesh = readMesh(root["mesh"]);
  if (JsonCursor placement = root.find("placement"))
    manifest.nodes = readPlacement(placement, manifest.mesh);
  JsonCursor model = root["model"];
  manifest.batch = model["batch"].integer(1, INT32_MAX);
  manifest.sequence = model["sequence"].integer(1, INT32_MAX);
  manifest.vocabulary = model["vocabulary"].integer(1, INT32_MAX);
  if (JsonCursor objective = root.find("objective"))
    manifest.masked = readObjective(objective, manifest.vocabulary);
  if (JsonCursor function = root.find("function")) {
    manifest.function = readModelFunction(function);
    if (JsonCursor incidental = function.find("incidental"))
      manifest.incidental = readFacts(incidental);
  }
  if (JsonCursor config = root.find("config"))
    manifest.config = readConfig(config);
  if (JsonCursor adapter = root.find("adapter"))
    manifest.adapter = readConfig(adapter);
  std::set<std::string> dimensionNames;
  if (JsonCursor dimensions = root.find("dimensions"))
    for (const JsonCursor &entry : dimensions.elements())
      manifest.dimensions.push_back(
          readDimension(entry, manifest.mesh, dimensionNames));
  readBuffers(root["buffers"], manifest);
  readFunctions(root["functions"], manifest);

  if (!document.status().ok())
    return document.status();
  return manifest;
}

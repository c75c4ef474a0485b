//===- Inspect.cpp - optimus-run inspect ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Format.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-support/CachePages.h"
#include "optimus-support/NearestName.h"
#include "optimus-support/ProgramPrinter.h"
#include "optimus-support/ProgramScratch.h"
#include "tooling/Placement.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

using namespace optrt;

namespace optimus_run {
namespace {

/// For instance "row, col"; "-" for none.
std::string axisNames(const Mesh &mesh, std::span<const int> axes) {
  std::string text;
  for (int axis : axes)
    text += (text.empty() ? "" : ", ") + mesh.axes()[axis].name;
  return text.empty() ? "-" : text;
}

/// For instance "[{row}, {}, {col}]".
std::string shardingToString(const Mesh &mesh, const ShardLayout &layout) {
  std::string text = "[";
  for (std::size_t d = 0; d != layout.axes.size(); ++d) {
    std::string axes = axisNames(mesh, layout.axes[d]);
    text += concat(d == 0 ? "{" : ", {", axes == "-" ? "" : axes, "}");
  }
  return text + "]";
}

std::string initToString(const optimus_support::Initializer &init) {
  switch (init.kind) {
  case optimus_support::InitKind::Normal:
    return format("normal %g", init.number);
  case optimus_support::InitKind::Uniform:
    return format("uniform %g", init.number);
  case optimus_support::InitKind::Constant:
    return format("%g", init.number);
  case optimus_support::InitKind::Zeros:
    return "zeros";
  case optimus_support::InitKind::Ones:
    return "ones";
  }
  return "";
}

/// A name whose first numeric component stands for a layer: "h.3.ln_1.bias" is
/// "h." and ".ln_1.bias" around 3.
struct LayerName {
  explicit LayerName(const std::string &name) : before(name) {
    for (std::size_t begin = 0; begin < name.size();) {
      std::size_t end = std::min(name.find('.', begin), name.size());
      const char *last = name.data() + end;
      int number = 0;
      auto [stop, error] =
          std::from_chars(name.data() + begin, last, number, 10);
      if (error == std::errc() && stop == last && number >= 0) {
        before = name.substr(0, begin);
        layer = number;
        after = name.substr(end);
        return;
      }
      begin = end + 1;
    }
  }

  std::string before, after;
  std::optional<int> layer;
};

/// For instance "{0..3,7}"; numbers in ascending order.
std::string rangesToString(std::span<const int> numbers) {
  std::string text;
  for (std::size_t begin = 0, end; begin < numbers.size(); begin = end) {
    end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    text += concat(begin ? "," : "", numbers[begin]);
    if (end - begin > 1)
      text += concat("..", numbers[end - 1]);
  }
  return numbers.size() > 1 ? "{" + text + "}" : text;
}

/// A table of functions: rows that differ by a layer's number alone, in their
/// first column, are one.
class FunctionTable {
public:
  explicit FunctionTable(std::vector<std::string> header,
                         std::vector<int> leftColumns = {})
      : table(std::move(header), std::move(leftColumns)) {}

  void addRow(std::vector<std::string> cells) {
    const LayerName name(cells.front());
    std::vector<std::string> key = cells;
    key.insert(key.end(), {name.before, name.after});
    key.front().clear();
    auto [entry, isNew] = known.try_emplace(std::move(key), rows.size());
    if (isNew)
      rows.push_back({std::move(cells), {}});
    if (name.layer)
      rows[entry->second].layers.push_back(*name.layer);
  }
  void print(std::ostream &out) {
    for (Row &row : rows) {
      const LayerName name(row.cells.front());
      std::ranges::sort(row.layers);
      if (name.layer)
        row.cells.front() =
            name.before + rangesToString(row.layers) + name.after;
      table.addRow(std::move(row.cells));
    }
    table.print(out);
  }

private:
  struct Row {
    std::vector<std::string> cells;
    std::vector<int> layers;
  };
  Table table;
  std::vector<Row> rows;
  std::map<std::vector<std::string>, std::size_t> known;
};

/// Parameters of layers that differ by the layer's number only.
struct ParamGroup {
  const Buffer *first;
  std::vector<int> layers;

  std::string name() const {
    LayerName name(first->name);
    return name.before + rangesToString(layers) + name.after;
  }
  std::size_t count() const { return std::max<std::size_t>(layers.size(), 1); }
};

/// What a table says of how a buffer lies beside its name.
std::vector<std::string> describeLayout(const Mesh &mesh,
                                        const Buffer &buffer) {
  std::vector<std::string> texts = {
      optimus_support::shapeToString(buffer.layout.shape),
      optimus_support::shapeToString(buffer.layout.localShape),
      shardingToString(mesh, buffer.layout)};
  if (!buffer.unreduced.empty())
    texts.back() += " partial over " + axisNames(mesh, buffer.unreduced);
  return texts;
}

std::vector<std::string> describeParam(const Mesh &mesh, const Buffer &param) {
  std::vector<std::string> texts = describeLayout(mesh, param);
  texts.insert(texts.end(),
               {initToString(*param.init), param.decay ? "yes" : "no"});
  return texts;
}

std::vector<ParamGroup> foldLayers(const Manifest &manifest) {
  std::vector<ParamGroup> groups;
  std::map<std::vector<std::string>, std::size_t> known;
  for (int64_t index : manifest.buffersOfLifetime(Lifetime::Parameter)) {
    const Buffer &param = manifest.buffers[index];
    LayerName name(param.name);
    if (!name.layer) {
      groups.push_back({&param, {}});
      continue;
    }
    std::vector<std::string> key = describeParam(manifest.mesh, param);
    key.insert(key.end(), {name.before, name.after});
    auto [entry, isNew] = known.try_emplace(key, groups.size());
    if (isNew)
      groups.push_back({&param, {}});
    groups[entry->second].layers.push_back(*name.layer);
  }
  for (ParamGroup &group : groups)
    std::sort(group.layers.begin(), group.layers.end());
  return groups;
}

void printModel(const ModelLibrary &library) {
  const Manifest &manifest = library.manifest();
  std::string features;
  for (const std::string &feature : manifest.targetFeatures)
    features += (features.empty() ? " with " : ", ") + feature;
  std::cout << library.path() << "\n  compiled by " << manifest.compiler
            << " for "
            << (manifest.targetCpu.empty() ? manifest.target
                                           : manifest.targetCpu)
            << features
            << (manifest.isPlan ? "\n  a plan, which has no kernels: nothing "
                                  "runs it"
                                : "")
            << "\n  strategy " << describeStrategy(manifest) << ", "
            << manifest.mesh.numRanks()
            << (manifest.mesh.numRanks() == 1 ? " rank" : " ranks")
            << ", optimizer " << manifest.optimizer << ", precision "
            << toString(manifest.precision) << "\n  batch " << manifest.batch
            << ", sequence " << manifest.sequence << ", vocabulary "
            << manifest.vocabulary << "\n  hashes: source "
            << manifest.sourceHash << ", model " << manifest.modelHash << "\n";
  if (const uint32_t lanes = library.target().tables.front()->lanes; lanes > 1)
    std::cout << "  lanes: " << lanes << ", for train --lanes\n";
  if (!manifest.nodes.empty())
    std::cout << "  nodes, by their ranks: " << describeNodes(manifest.nodes)
              << "\n";
  if (manifest.function)
    std::cout << "  function: " << toString(manifest.function->facts) << "\n";
  for (const Function &function : manifest.functions)
    if (std::optional<CacheExtents> cache = manifest.cacheOf(function);
        cache && function.kind == EntryKind::Decode)
      std::cout << "  cache: " << cache->slots
                << (cache->slots == 1 ? " slot" : " slots") << " of "
                << cache->context << " tokens, "
                << formatBytes(cache->bytesPerToken) << " a token"
                << (cache->pages == 0
                        ? ""
                        : ", in " + std::to_string(cache->pages) +
                              " pages of " +
                              std::to_string(optimus_support::kPageTokens))
                << "\n";
}

/// The role of a buffer; those of caches in all layers are one.
std::string roleOf(const Buffer &buffer) {
  const LayerName name(buffer.role);
  return buffer.isCache() && name.layer ? name.before + "*" + name.after
                                        : buffer.role;
}

void printDimensions(const Manifest &manifest) {
  if (manifest.dimensions.empty())
    return;
  std::cout << "\nDimensions that are sharded or padded\n";
  Table table({"name", "size", "padded", "axes"}, {3});
  for (const Dimension &dimension : manifest.dimensions)
    table.addRow({dimension.name, std::to_string(dimension.size),
                  std::to_string(dimension.padded),
                  axisNames(manifest.mesh, dimension.axes)});
  table.print(std::cout);
}

void printParams(const Manifest &manifest) {
  std::vector<int64_t> params = manifest.buffersOfLifetime(Lifetime::Parameter);
  int64_t bytes = 0;
  for (int64_t param : params)
    bytes += manifest.buffers[param].numBytes();
  std::cout << "\nParameters: " << params.size() << " tensors, "
            << formatCount(manifest.numParamElements()) << " elements, "
            << formatBytes(bytes) << " on each rank\n";
  Table table({"name", "shape", "on each rank", "sharding", "init", "decay",
               "tensors", "bytes of a rank"},
              {1, 2, 3, 4, 5});
  for (const ParamGroup &group : foldLayers(manifest)) {
    std::vector<std::string> row = describeParam(manifest.mesh, *group.first);
    row.insert(row.begin(), group.name());
    row.push_back(std::to_string(group.count()));
    row.push_back(formatBytes(group.first->numBytes() *
                              static_cast<int64_t>(group.count())));
    table.addRow(std::move(row));
  }
  table.print(std::cout);
}

/// What a table says of the other buffers of a role.
std::vector<std::string> describeRole(const Buffer &buffer) {
  std::string reset = "-", saved = "-";
  if (buffer.reset != Reset::Never)
    reset = concat("every ", toString(buffer.reset));
  if (buffer.saved)
    saved = buffer.saved->file == CheckpointFile::Model ? "model" : "optimizer";
  return {roleOf(buffer),
          std::string(toString(buffer.type)),
          std::string(toString(buffer.lifetime)),
          buffer.init ? initToString(*buffer.init) : "-",
          reset,
          saved,
          std::string(toString(buffer.filledBy))};
}

void printBuffers(const Manifest &manifest) {
  /// What those of one role have on a rank, and one of them.
  struct Group {
    std::vector<std::string> texts;
    const Buffer *first;
    int64_t count = 0, bytes = 0;
  };
  std::vector<Group> groups;
  for (const Buffer &buffer : manifest.buffers) {
    if (buffer.lifetime == Lifetime::Parameter)
      continue;
    std::vector<std::string> texts = describeRole(buffer);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group &g) { return g.texts == texts; });
    if (group == groups.end())
      group = groups.insert(group, {std::move(texts), &buffer});
    ++group->count;
    group->bytes += buffer.numBytes();
  }
  std::cout << "\nOther buffers, by role\n";
  Table table({"role", "type", "lifetime", "init", "reset", "saved in",
               "filled by", "shape", "on each rank", "sharding", "tensors",
               "bytes of a rank"},
              {1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (Group &group : groups) {
    std::vector<std::string> row = std::move(group.texts), layout(3, "-");
    if (group.count == 1)
      layout = describeLayout(manifest.mesh, *group.first);
    row.insert(row.end(), layout.begin(), layout.end());
    row.push_back(std::to_string(group.count));
    row.push_back(formatBytes(group.bytes));
    table.addRow(std::move(row));
  }
  table.print(std::cout);
}

/// The roles of buffers, each once, for instance "parameter, exp_avg".
std::string rolesToString(const Manifest &manifest,
                          std::span<const int64_t> buffers) {
  std::vector<std::string> roles;
  for (int64_t buffer : buffers) {
    const std::string role = roleOf(manifest.buffers[buffer]);
    if (std::find(roles.begin(), roles.end(), role) == roles.end())
      roles.push_back(role);
  }
  std::string text;
  for (const std::string &role : roles)
    text += (text.empty() ? "" : ", ") + role;
  return text.empty() ? "-" : text;
}

void printEffects(const Manifest &manifest) {
  std::cout << "\nWhat functions change and return, by role\n";
  FunctionTable table({"name", "changes", "returns"}, {1, 2});
  for (const Function &function : manifest.functions) {
    Effects effects = manifest.effectsOf(function);
    table.addRow({function.name, rolesToString(manifest, effects.changed),
                  rolesToString(manifest, effects.returned)});
  }
  table.print(std::cout);
}

/// What a function has of arenas and arguments in a memory space.
int64_t bytesIn(const optimus_support::program::FunctionT &function,
                optimus_support::program::MemorySpace space) {
  int64_t bytes = 0;
  for (const auto &arena : function.arenas)
    bytes += arena->space == space ? arena->bytes : 0;
  for (const auto &argument : function.arguments)
    bytes += argument->space == space ? argument->bytes : 0;
  return bytes;
}

/// Where a target has a choice.
void printAttention(const Manifest &manifest) {
  Table table({"function", "computed by", "attentions", "the first"}, {1, 3});
  bool hasChoice = false;
  for (const Function &function : manifest.functions)
    for (const auto &[who, names] : function.attention) {
      hasChoice = true;
      table.addRow({function.name, who, std::to_string(names.size()),
                    names.empty() ? "-" : names.front()});
    }
  if (!hasChoice)
    return;
  std::cout << "\nAttention\n";
  table.print(std::cout);
}

void printFunctions(const ModelLibrary &library) {
  const Manifest &manifest = library.manifest();
  std::cout << "\nFunctions\n";
  FunctionTable table({"name", "commands", "arena", "lower bound", "above it"});
  for (const Function &function : manifest.functions) {
    double above = function.lowerBoundBytes > 0
                       ? 100.0 * static_cast<double>(function.arenaBytes) /
                                 static_cast<double>(function.lowerBoundBytes) -
                             100.0
                       : 0;
    table.addRow({function.name, std::to_string(function.commands),
                  formatBytes(function.arenaBytes),
                  formatBytes(function.lowerBoundBytes),
                  format("%.2f %%", above)});
  }
  table.print(std::cout);

  printAttention(manifest);

  std::cout << "\nMemory of a rank at a function's peak\n";
  FunctionTable peaks({"function", "category", "bytes"}, {1});
  for (const Function &function : manifest.functions)
    for (const auto &[category, bytes] : function.peakBytes)
      peaks.addRow({function.name, category, formatBytes(bytes)});
  // Of functions that tables have; manifests have no others.
  for (const auto *function :
       optimus_support::program::functionsOf(library.target()))
    peaks.addRow({function->name, "scratch, with one thread",
                  formatBytes(optimus_support::program::scratchOf(
                                  library.target(), *function)
                                  .bytes(1))});
  using optimus_support::program::MemorySpace;
  for (const auto *function :
       optimus_support::program::functionsOf(library.target()))
    for (auto [space, where] : {std::pair(MemorySpace::Host, "on the host"),
                                {MemorySpace::File, "in a file"}})
      if (int64_t bytes = bytesIn(*function, space))
        peaks.addRow({function->name, where, formatBytes(bytes)});
  peaks.print(std::cout);

  std::cout << "\nCommunication of a call, summed over ranks\n";
  Table traffic({"function", "axis", "bytes", "messages"}, {1});
  for (const Function &function : manifest.functions)
    for (const AxisTraffic &axis : function.communication)
      traffic.addRow({function.name, manifest.mesh.axes()[axis.axis].name,
                      formatBytes(axis.bytes), std::to_string(axis.messages)});
  traffic.print(std::cout);

  bool hasSchedule = false;
  FunctionTable schedules({"function", "predicted", "communication", "exposed",
                           "extra workspace", "not overlapped",
                           "for want of it"});
  for (const Function &function : manifest.functions)
    if (const std::optional<Schedule> &schedule = function.schedule) {
      hasSchedule = true;
      schedules.addRow({function.name, format("%.2f ms", schedule->stepMs),
                        format("%.2f ms", schedule->commMs),
                        format("%.2f ms", schedule->exposedMs),
                        formatBytes(schedule->extraWorkspaceBytes),
                        std::to_string(schedule->notOverlapped),
                        std::to_string(schedule->outOfWorkspace)});
    }
  if (hasSchedule) {
    std::cout << "\nSchedule: predicted times of a call on a rank, and "
                 "collectives that overlap with no computation\n";
    schedules.print(std::cout);
  }
}

/// Functions by what they were called, or all.
Status checkFunction(const ModelLibrary &library, const std::string &name) {
  std::vector<std::string> names;
  std::string list;
  for (const auto *function :
       optimus_support::program::functionsOf(library.target())) {
    names.push_back(function->name);
    list += (list.empty() ? "" : ", ") + function->name;
  }
  if (name.empty() ||
      std::find(names.begin(), names.end(), name) != names.end())
    return okStatus();
  return invalidArgument(concat(
      "--function: `", library.path(), "` has no function `", name, "`",
      optimus_support::didYouMean(name, names, '`'), "; there are ", list));
}

/// What one rank executes, or all do; ranks whose tables differ one set after
/// the other.
Status printCommands(const ModelLibrary &library,
                     const InspectOptions &options) {
  namespace program = optimus_support::program;
  const program::TargetT &target = library.target();
  const Mesh &mesh = library.manifest().mesh;
  OPTRT_RETURN_IF_ERROR(checkFunction(library, options.function));
  if (options.rank && *options.rank >= mesh.numRanks())
    return invalidArgument(concat("--rank: expected 0 to ", mesh.numRanks() - 1,
                                  " on the mesh ", mesh.toString(), ", found ",
                                  *options.rank));
  bool isFirst = true;
  for (const program::RankRange &ranks : target.ranks) {
    if (options.rank && *options.rank - ranks.first() >= ranks.count())
      continue;
    if (target.ranks.size() > 1 && !options.rank) {
      std::cout << (isFirst ? "" : "\n") << "ranks " << ranks.first() << " to "
                << ranks.first() + ranks.count() - 1 << "\n";
      isFirst = true;
    }
    const program::ProgramTableT &table = *target.tables[ranks.table()];
    for (const auto &function : table.functions) {
      if (!options.function.empty() && function->name != options.function)
        continue;
      std::cout << (isFirst ? "" : "\n")
                << program::print(library.programs(), target, table, *function,
                                  {.rank = options.rank});
      isFirst = false;
    }
    if (!options.function.empty())
      continue;
    if (!table.sequences.empty())
      std::cout << "\n";
    for (const auto &sequence : table.sequences)
      std::cout << program::print(*sequence);
  }
  return okStatus();
}

/// A million commands take a while to free: at the process's end, they are left
/// to the system.
const ModelLibrary &keepToTheEnd(std::unique_ptr<ModelLibrary> library) {
  static auto *const kept = new std::vector<std::unique_ptr<ModelLibrary>>();
  return *kept->emplace_back(std::move(library));
}

} // namespace

Status inspect(const InspectOptions &options) {
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<ModelLibrary> opened,
      ModelLibrary::open(options.library, ModelLibrary::Use::Inspect));
  const ModelLibrary &library = keepToTheEnd(std::move(opened));
  if (options.json) {
    std::cout << nlohmann::ordered_json::parse(library.manifestText()).dump(2)
              << '\n';
    return okStatus();
  }
  if (options.commands)
    return printCommands(library, options);
  printModel(library);
  printDimensions(library.manifest());
  printParams(library.manifest());
  printBuffers(library.manifest());
  printEffects(library.manifest());
  printFunctions(library);
  return okStatus();
}

} // namespace optimus_run

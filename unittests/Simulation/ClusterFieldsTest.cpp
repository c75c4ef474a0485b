//===- ClusterFieldsTest.cpp - No field of a cluster is silent ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterFields.h"

#include "optimus/Prices/ReadMachineProfile.h"
#include "optimus/Simulation/Simulator.h"

#include "optimus-testing/ProgramWriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <regex>
#include <set>

using namespace optimus_simulation;
using namespace optimus_support::program;
using nlohmann::json;
using optimus_support::Mesh;
using optimus_support::StatusOr;

namespace {

/// What known clusters lack: links between switches, a tile, and none of NCCL's
/// start-ups.
constexpr const char *kSwitches = R"({
  "version": 1,
  "nodes": {"devices": 4, "nics": 2},
  "device_link": {"bytes_per_s": 4e11, "latency_s": 5e-6},
  "nic": {"bytes_per_s": 5e10, "latency_s": 1e-5},
  "switch": [{"nodes": 2, "oversubscription": 4},
             {"nodes": 8, "oversubscription": 16}],
  "placement": {"tile": {"row": 2, "col": 2}}})";

/// And two sockets a node, one card, ranks of row:2,col:4 wherever they are,
/// and what one of their collectives was measured to take.
constexpr const char *kSockets = R"({
  "version": 1,
  "nodes": {"devices": 4, "nics": 1, "count": 2},
  "device_link": {"bytes_per_s": 1.3e10, "latency_s": 5e-6},
  "nic": {"bytes_per_s": 8e9, "in_bytes_per_s": 7e9, "latency_s": 1e-5},
  "sockets": {"devices": 2, "bytes_per_s": 6e9, "in_bytes_per_s": 5.5e9,
              "latency_s": 1e-6},
  "measured": [{"collective": "all_gather", "ranks": 8, "nodes": 2,
                "points": [{"bytes": 4096, "seconds": 5e-4},
                           {"bytes": 67108864, "seconds": 4e-2}]}],
  "placement": {"devices": [0, 2, 1, 3, 5, 7, 4, 6]}})";

/// And PCIe trees, whose cards are on the root.
constexpr const char *kTrees = R"({
  "version": 1,
  "nodes": {"devices": 4, "nics": 2},
  "device_link": {"bytes_per_s": 1.3e10, "in_bytes_per_s": 1.2e10,
                  "latency_s": 5e-6},
  "nic": {"bytes_per_s": 8e9, "latency_s": 1e-5},
  "pcie": {"devices": 2, "bytes_per_s": 1e10, "nics": "root"}})";

/// One command that all ranks wait for at once, on a mesh of two axes.
struct Program {
  ProgramsT programs;
};

std::unique_ptr<Program> finish(ProgramWriter &writer) {
  auto result = std::make_unique<Program>();
  result->programs = writer.finish();
  return result;
}

/// Nothing but a copy.
std::unique_ptr<Program> writeCopy() {
  ProgramWriter writer{Mesh({{"row", 1}, {"col", 1}})};
  FunctionWriter f = writer.function("f");
  f.copy(f.arena(ElementType::F32, 1 << 20),
         f.arena(ElementType::F32, 1 << 20));
  return finish(writer);
}

std::unique_ptr<Program> writeCollective(CollectiveKind kind, int64_t rows,
                                         int64_t cols,
                                         std::vector<uint32_t> axes,
                                         int64_t bytes) {
  const Mesh mesh({{"row", rows}, {"col", cols}});
  int64_t members = 1;
  for (uint32_t axis : axes)
    members *= mesh.axisSize(int(axis));
  ProgramWriter writer{mesh};
  FunctionWriter f = writer.function("f");
  const int64_t whole = bytes / 4;
  CollectiveT one;
  one.kind = kind;
  one.axes = std::move(axes);
  one.outer = 1;
  one.dst_ld = whole;
  one.inner = one.src_ld =
      kind == CollectiveKind::AllGather ? whole / members : whole;
  const int64_t inner = one.inner;
  f.wait(f.collective(std::move(one), f.arena(ElementType::F32, inner),
                      f.arena(ElementType::F32, whole)));
  return finish(writer);
}

/// Around each column, to the rank of the row before.
std::unique_ptr<Program> writeMessages(int64_t rows, int64_t cols) {
  ProgramWriter writer{Mesh({{"row", rows}, {"col", cols}})};
  FunctionWriter f = writer.function("f");
  const View memory = f.arena(ElementType::F32, 64);
  auto write = [&](auto message) {
    message.axis = 0;
    message.peer = std::make_unique<IntegerT>();
    message.peer->constant = rows - 1;
    message.peer->terms.emplace_back(-1, 0);
    message.rows = message.group = 1;
    message.cols = message.ld = 64;
    ActionUnion action;
    action.Set(std::move(message));
    return f.add(std::move(action), {memory});
  };
  const uint32_t sent = write(SendT()), received = write(ReceiveT());
  f.wait(sent);
  f.wait(received);
  return finish(writer);
}

/// Among few ranks and many, within nodes and between them, of all sizes.
std::vector<std::unique_ptr<Program>> writePrograms() {
  std::vector<std::unique_ptr<Program>> programs;
  for (CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather})
    for (int64_t rows : {2, 8, 64})
      for (int64_t bytes = 1 << 12; bytes <= 1 << 30; bytes *= 4)
        programs.push_back(writeCollective(kind, rows, 4, {0, 1}, bytes));
  programs.push_back(
      writeCollective(CollectiveKind::AllGather, 8, 4, {0}, 1 << 20));
  programs.push_back(
      writeCollective(CollectiveKind::AllGather, 8, 4, {1}, 1 << 20));
  programs.push_back(
      writeCollective(CollectiveKind::AllGather, 8, 2, {1}, 1 << 20));
  programs.push_back(writeMessages(2, 1));
  programs.push_back(writeMessages(32, 1));
  programs.push_back(writeCopy());
  return programs;
}

/// A known profile, or none; null of other names.
const optimus_prices::MachineProfile *findMachine(const std::string &name) {
  static std::map<std::string, StatusOr<optimus_prices::MachineProfile>> known;
  auto found = known.find(name);
  if (found == known.end())
    found = known.emplace(name, optimus_prices::loadMachineProfile(name)).first;
  return found->second.ok() ? &*found->second : nullptr;
}

/// Step and protocol, or nothing where the mesh does not lie on the cluster.
std::string askOne(const Program &program, const Cluster &cluster) {
  const auto *machine = findMachine(cluster.machineProfile);
  if (!machine)
    return "";
  const TimedProgram timed(program.programs, *program.programs.targets.front(),
                           *machine, WhatIf());
  const StatusOr<Simulation> result =
      simulate(timed, {"f"}, WhatIf(), {.cluster = &cluster});
  if (!result.ok())
    return "";
  std::string answer = std::to_string(result->getStep());
  for (const ProtocolUse &protocol : result->protocols)
    answer += " " + protocol.name;
  return answer;
}

/// Others that a field may have.
std::vector<json> listOthers(const json &value) {
  if (value.is_number_integer())
    return {int64_t(value) * 2, int64_t(value) / 2, int64_t(value) + 1};
  if (value.is_number())
    return {double(value) == 0 ? 1e-6 : 1.2 * double(value),
            0.8 * double(value)};
  return {"another", "ring",       "tree",   "switch",
          "h100x8",  "all_reduce", "a100x8", "reduce"};
}

/// "/protocols/3/rate" -> "protocols[].rate"
std::string toField(const std::string &pointer) {
  std::string field = std::regex_replace(pointer, std::regex("/[0-9]+"), "[]");
  field = std::regex_replace(field, std::regex("tile/.*"), "tile");
  field = std::regex_replace(field, std::regex("/switch\\[\\]"), "/switch");
  field = std::regex_replace(field, std::regex("/devices\\[\\]$"), "/devices");
  return std::regex_replace(field.substr(1), std::regex("/"), ".");
}

/// Whether one of the other values of a field changes the answer to any of the
/// programs, or is refused by what reads the file.
bool counts(const json &whole, const std::string &pointer,
            const std::vector<std::unique_ptr<Program>> &programs,
            const std::vector<std::string> &answers) {
  bool isRead = false;
  for (const json &other : listOthers(whole[json::json_pointer(pointer)])) {
    json changed = whole;
    changed[json::json_pointer(pointer)] = other;
    const StatusOr<Cluster> cluster = parseCluster(changed.dump(), "changed");
    if (!cluster.ok())
      continue;
    isRead = true;
    for (size_t i = 0; i != programs.size(); ++i)
      if (askOne(*programs[i], *cluster) != answers[i])
        return true;
  }
  return !isRead;
}

TEST(ClusterFields, EachChangesTheAnswerOfSomeProgram) {
  const auto programs = writePrograms();
  std::set<std::string> seen;
  std::vector<std::string> clusters = listKnownClusters();
  clusters.insert(clusters.end(), {kSwitches, kTrees, kSockets});
  for (const std::string &name : clusters) {
    const StatusOr<Cluster> cluster =
        name.front() == '{' ? parseCluster(name, "written") : loadCluster(name);
    ASSERT_TRUE(cluster.ok()) << cluster.status().message();
    std::vector<std::string> answers;
    for (const auto &program : programs)
      answers.push_back(askOne(*program, *cluster));
    const json whole = json::parse(printCluster(*cluster));
    const json places = whole.flatten();
    for (const auto &[pointer, value] : places.items()) {
      seen.insert(toField(pointer));
      EXPECT_TRUE(counts(whole, pointer, programs, answers))
          << pointer << " of " << name;
    }
  }
  const std::vector<std::string> fields = listClusterFields();
  EXPECT_THAT(seen, testing::UnorderedElementsAreArray(fields));
}

TEST(ClusterFields, AreReadAsTheyAreWritten) {
  for (const std::string &name : listKnownClusters()) {
    const std::string text = printCluster(*loadCluster(name));
    const StatusOr<Cluster> again = parseCluster(text, name);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(printCluster(*again), text);
  }
  for (const char *text : {kSwitches, kTrees, kSockets})
    EXPECT_EQ(json::parse(printCluster(*parseCluster(text, "written"))),
              json::parse(text));
}

} // namespace

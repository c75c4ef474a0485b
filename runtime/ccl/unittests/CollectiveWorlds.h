//===- CollectiveWorlds.h - The ranks that collectives are tested among ---===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The back-end of this process, and the meshes with as many ranks.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_UNITTESTS_COLLECTIVEWORLDS_H
#define OPTIMUS_RUNTIME_CCL_UNITTESTS_COLLECTIVEWORLDS_H

#include "optimus-runtime/World.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace optrt {

struct Backend {
  std::string name;
  World (*create)();
};

template <typename T>
T valueOrDie(StatusOr<T> found) {
  if (!found.ok()) {
    std::fprintf(stderr, "%s\n", found.status().message().c_str());
    std::exit(1);
  }
  return std::move(found).value();
}

inline const Launcher &launcher() {
  static const Launcher found = valueOrDie(findLauncher());
  return found;
}

inline World createMpiOrDie() { return valueOrDie(createMpiWorld()); }

inline World createTcpOrDie() {
  TcpJob job = tcpJobOf(launcher());
  job.timeoutSeconds = 60;
  // The other ranks do not wait for one whose process has crashed.
  job.onStall = [](const Status &status, bool speaks) {
    if (speaks)
      std::fprintf(stderr, "%s\n", status.message().c_str());
  };
  bool isSaidElsewhere = false;
  return valueOrDie(createTcpWorld(std::move(job), isSaidElsewhere));
}

inline std::vector<Backend> backends() {
  if (startedByMpirun())
    return {{"mpi", createMpiOrDie}};
  if (!launcher().isAlone())
    return {{"tcp", createTcpOrDie}};
  return {{"local", createLocalWorld}};
}

/// The world of all tests: MPI can be started once a process only.
inline std::optional<World> theWorld;
inline World &worldOf(const Backend &backend) {
  if (!theWorld)
    theWorld = backend.create();
  return *theWorld;
}

/// Runs body(rank) for every rank of this process, on threads.
inline void onRanks(const World &world, const std::function<void(int)> &body) {
  std::vector<std::thread> threads;
  const int first = world.control->firstRank();
  for (int i = 1; i < world.control->numLocalRanks(); ++i)
    threads.emplace_back(body, first + i);
  body(first);
  for (std::thread &thread : threads)
    thread.join();
}

struct Mesh {
  std::vector<int64_t> sizes;
  Collectives::Axes axes; ///< the group's, which is tested

  optimus_support::Mesh named() const {
    std::vector<optimus_support::MeshAxis> all;
    for (int64_t size : sizes)
      all.push_back({"axis" + std::to_string(all.size()), size});
    return optimus_support::Mesh(all);
  }
};

/// 1 to 6 ranks on the tested axis, beside, before and behind another axis;
/// groups of several axes.
inline std::vector<Mesh> meshes() {
  return {{{1}, {0}},         {{2}, {0}},    {{3}, {0}},       {{4}, {0}},
          {{5}, {0}},         {{6}, {0}},    {{2, 2}, {0}},    {{2, 2}, {1}},
          {{2, 3}, {0}},      {{2, 3}, {1}}, {{1, 2, 3}, {1}}, {{1, 4}, {1}},
          {{4, 1}, {0}},      {{4, 1}, {1}}, {{2, 3}, {0, 1}}, {{2, 2}, {1, 0}},
          {{2, 2, 2}, {0, 2}}};
}

inline std::vector<Mesh> meshesOfThisJob() {
  std::vector<Mesh> chosen;
  for (Mesh &mesh : meshes()) {
    int64_t product = 1;
    for (int64_t size : mesh.sizes)
      product *= size;
    if (launcher().name.empty() || product == launcher().size)
      chosen.push_back(mesh);
  }
  return chosen;
}

inline std::vector<Mesh> largestMeshesOfThisJob() {
  std::vector<Mesh> chosen;
  for (const Mesh &mesh : meshesOfThisJob())
    if (mesh.sizes.size() == 1 && mesh.sizes[0] != 5)
      chosen = {mesh};
  return chosen;
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_UNITTESTS_COLLECTIVEWORLDS_H

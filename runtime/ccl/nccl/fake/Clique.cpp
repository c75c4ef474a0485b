//===- Clique.cpp - Members of a communicator in one process --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Clique.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

namespace optrt::nccl::fake {
namespace {

struct Clique {
  std::vector<CommRef> members;
  int numGivenBack = 0;
};
std::mutex mutex;
std::map<std::filesystem::path, Clique> cliques; ///< by their mailboxes

/// As commDestroySync(): what is on streams ends, and graphs are destroyed.
void awaitGraphs(const CommRef &member) {
  while (member.use_count() != kCliqueOwners)
    optimus_fake_gpu_pass_time();
}

/// As commFree(): cudaFree() waits for all work of the GPU.
void cleanUp(CommOpaque &member) {
  while (!optimus_fake_gpu_is_idle(member.gpu))
    optimus_fake_gpu_pass_time();
  member.giveBack();
}

} // namespace

void getStuck(int gpu, const char *ending) {
  const char *where = std::getenv("OPTIMUS_FAKE_NCCL_STUCK");
  while (where && where == concat(gpu, ending))
    std::this_thread::sleep_for(std::chrono::hours(1));
}

void enterClique(const CommRef &comm) {
  std::lock_guard lock(mutex);
  cliques[comm->mailbox.path()].members.push_back(comm);
}

void reclaim(CommRef comm) {
  getStuck(comm->gpu, "");
  std::vector<CommRef> members;
  {
    std::lock_guard lock(mutex);
    auto clique = cliques.find(comm->mailbox.path());
    // One that was not made is not given back.
    if (++clique->second.numGivenBack != comm->numInProcess)
      return;
    members = std::move(clique->second.members);
    cliques.erase(clique);
  }
  comm.reset();
  for (const CommRef &member : members)
    if (!member->isLeaving)
      awaitGraphs(member);
  for (const CommRef &member : members)
    cleanUp(*member);
}

} // namespace optrt::nccl::fake

//===- Team.h - A rank's threads -------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// OpenMP keeps a team for each thread that opens parallel regions. So ranks
// that are threads of one process each have their own, and oneDNN, called from
// the same thread, shares it.
//
// oneDNN's sgemm divides C by omp_get_max_threads() before it opens a region,
// and each thread computes the part of its number. A region of fewer threads
// leaves the other parts unwritten. OpenMP gives fewer where the environment
// says so (OMP_DYNAMIC, OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS), so a team is
// counted when it starts, and OpenMP may not shrink it later.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_TEAM_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_TEAM_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <omp.h>

namespace optrt {

class Team {
public:
  explicit Team(int threads) : threads(threads) {}
  int size() const { return threads; }

  /// The most threads that OpenMP gives a team in this environment.
  static int most();

  /// Makes OpenMP's threads of the calling thread, which stay.
  ///
  /// Errors: Unavailable when the system gives too few (OpenMP itself would end
  /// the process); InvalidArgument when the environment allows too few, or too
  /// small stacks.
  Status start() const;

  /// Calls body(begin, end) on `tasks` near-equal pieces of [0, extent); on
  /// the calling thread alone when that is one piece.
  template <typename Body>
  void split(int64_t extent, int64_t tasks, const Body &body) const {
    if (extent <= 0)
      return;
    if (threads == 1 || tasks <= 1)
      return body(0, extent);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t task = 0; task < tasks; ++task) {
      int64_t least = extent / tasks, more = extent % tasks;
      int64_t begin = task * least + (task < more ? task : more);
      body(begin, begin + least + (task < more ? 1 : 0));
    }
  }

  /// Calls body(thread) once on each thread, all those of OpenMP included.
  template <typename Body>
  void all(const Body &body) const {
    if (threads == 1)
      return body(0);
#pragma omp parallel num_threads(threads)
    body(omp_get_thread_num());
  }

  /// Calls body(task, thread) for every task of [0, tasks), as threads come
  /// free.
  template <typename Body>
  void each(int64_t tasks, const Body &body) const {
    if (threads == 1 || tasks <= 1) {
      for (int64_t task = 0; task < tasks; ++task)
        body(task, 0);
      return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t task = 0; task < tasks; ++task)
      body(task, omp_get_thread_num());
  }

  /// While it lives, libraries called from this thread use the team's size, and
  /// OpenMP gives it whole.
  class Scope {
  public:
    explicit Scope(const Team &team)
        : before(omp_get_max_threads()), wasDynamic(omp_get_dynamic()) {
      if (before != team.threads)
        omp_set_num_threads(team.threads);
      if (wasDynamic)
        omp_set_dynamic(false);
    }
    ~Scope() {
      if (omp_get_max_threads() != before)
        omp_set_num_threads(before);
      if (wasDynamic)
        omp_set_dynamic(true);
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    int before;
    bool wasDynamic;
  };

private:
  int threads;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_TEAM_H

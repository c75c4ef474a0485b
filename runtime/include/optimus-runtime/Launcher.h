//===- Launcher.h - Who started this process --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is known of the other processes of a job before any of them is reached:
// docs/launchers.md has the same table for people.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_LAUNCHER_H
#define OPTIMUS_RUNTIME_LAUNCHER_H

#include "optimus-runtime/Status.h"

#include <functional>
#include <optional>
#include <string>

namespace optrt {

/// Where rank 0 waits for the others.
struct MeetingPoint {
  std::string host; ///< or several, with commas between them
  int port = 0;
  /// How many ports from there on may be it: the first may be taken.
  int numPorts = 1;

  bool operator==(const MeetingPoint &) const = default;
};

/// This process's place among those that were started with it, as environment
/// variables tell it.
struct Launcher {
  /// The name where the user says which rank a process is.
  static constexpr const char *kByHand = "--rank";

  std::string name;        ///< for messages: "srun"; empty: nobody is known
  std::optional<int> size; ///< how many it started, where it says so
  std::optional<int> rank; ///< this one's number
  std::optional<int> localRank; ///< its number among those of this host
  bool isOneHost = false;       ///< it says that all run on this one
  /// Tells this job from others that meet at the same place; empty: unknown.
  std::string job;
  /// Where ranks meet that have no MPI, if it is known.
  std::optional<MeetingPoint> meetingPoint;
  /// The socket over which MPICH's mpiexec tells ranks where they meet.
  std::optional<int> pmiSocket;
  /// Whether the user said where, and not the launcher.
  bool isMeetingPointGiven = false;

  /// Who finds the other processes.
  enum class Finds {
    Mpi,        ///< MPI does
    PerhapsMpi, ///< we do; MPI if it was built for this launcher
    Tcp,        ///< we do, and MPI cannot
  } finds = Finds::Tcp;
  /// Whether its variables stand for processes that it started: others' may be
  /// left over from what is around a job.
  bool isCertain = false;

  /// A contradiction in its variables, as this being rank 2 of 2; empty if they
  /// make sense. Then they may be left over, which the user must say.
  std::string nonsense;

  /// Whether it started no other process than this one.
  bool isAlone() const { return name.empty() || size == 1; }
  /// Whether this is the process that speaks to the user.
  bool isFirst() const { return rank.value_or(0) == 0; }
  bool isByHand() const { return name == kByHand; }
  /// "srun started 4 processes".
  std::string toString() const;
};

/// An environment variable's value, or null.
using Variables = std::function<const char *(const char *name)>;

/// Finds out who started this process. An allocation of Slurm's in which no
/// step was started is nobody.
///
/// Errors: InvalidArgument when variables that are certainly meant for us make
/// no sense.
StatusOr<Launcher> findLauncher(const Variables &variables);
StatusOr<Launcher> findLauncher();

/// What moves tensors: "local", "mpi" or "tcp". `asked` is what the user wants
/// of these, or empty.
///
/// Errors: InvalidArgument, by name and with the remedy, for combinations that
/// cannot work.
StatusOr<std::string> chooseBackend(const Launcher &launcher,
                                    const std::string &asked);

/// Where ranks of a job meet on a host, if nobody says: others should not ask
/// for the same ports.
MeetingPoint meetingPointOf(const std::string &job, const std::string &host);

/// The first host of a list as Slurm writes it, "rack[2-3]n[01-16],gpu7":
/// "rack2n01".
std::string firstHostOf(const std::string &nodeList);

/// HOST:PORT, or InvalidArgument.
StatusOr<MeetingPoint> parseMeetingPoint(const std::string &text);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_LAUNCHER_H

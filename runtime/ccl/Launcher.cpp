//===- Launcher.cpp - Who started this process ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Launcher.h"

#include "optimus-support/Hash.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace optrt {
namespace {

/// How a launcher says where its processes may meet.
enum class Meets {
  Nowhere,
  AtAddress,   ///< MASTER_ADDR and MASTER_PORT
  OnFirstNode, ///< of Slurm's list of nodes
  OnThisHost,  ///< if all of them run on it
  OverPmi,     ///< its server in PMI_FD can say
};

struct KnownLauncher {
  const char *name;
  /// Variables that all are set where it started this process.
  const char *marks[2];
  const char *sizes[2]; ///< the first that is set; null: it does not say
  const char *rank, *localRank, *localSize;
  const char *job[2];
  Meets meets;
  Launcher::Finds finds;
  bool isCertain = false;
};

using Finds = Launcher::Finds;

// Where one sets another's variables too, the one that says more comes first:
// mpirun and torchrun are started by srun, which never is by them.
constexpr KnownLauncher kLaunchers[] = {
    {Launcher::kByHand,
     {"OPTIMUS_RANK"},
     {"OPTIMUS_RANKS"},
     "OPTIMUS_RANK",
     nullptr,
     nullptr,
     {},
     Meets::Nowhere,
     Finds::Tcp,
     true},
    {"mpirun",
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE"},
     Meets::OnThisHost,
     Finds::Mpi,
     true},
    {"torchrun",
     {"TORCHELASTIC_RUN_ID", "RANK"},
     {"WORLD_SIZE"},
     "RANK",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID"},
     Meets::AtAddress,
     Finds::Tcp},
    {"MVAPICH2's mpirun",
     {"MV2_COMM_WORLD_RANK"},
     {"MV2_COMM_WORLD_SIZE"},
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_LOCAL_RANK",
     nullptr,
     {},
     Meets::Nowhere,
     Finds::Mpi},
    {"an mpiexec of MPICH or Intel MPI",
     {"PMI_RANK", "MPI_LOCALRANKID"},
     {"PMI_SIZE"},
     "PMI_RANK",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {},
     Meets::OverPmi,
     Finds::Mpi},
    {"srun",
     {"SLURM_STEP_ID", "PMIX_RANK"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_PROCID",
     "SLURM_LOCALID",
     nullptr,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     Meets::OnFirstNode,
     Finds::Mpi},
    {"srun",
     {"SLURM_STEP_ID", "SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_PROCID",
     "SLURM_LOCALID",
     nullptr,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     Meets::OnFirstNode,
     Finds::PerhapsMpi},
    {"an mpiexec of MPICH or Intel MPI",
     {"PMI_RANK", "PMI_SIZE"},
     {"PMI_SIZE"},
     "PMI_RANK",
     nullptr,
     nullptr,
     {},
     Meets::Nowhere,
     Finds::Mpi},
    {"torchrun",
     {"RANK", "WORLD_SIZE"},
     {"WORLD_SIZE"},
     "RANK",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {},
     Meets::AtAddress,
     Finds::Tcp},
    {"a launcher that speaks PMIx",
     {"PMIX_RANK"},
     {},
     "PMIX_RANK",
     nullptr,
     nullptr,
     {"PMIX_NAMESPACE"},
     Meets::Nowhere,
     Finds::Mpi},
};

/// Ports that Linux gives to nobody by itself, and how many a job looks at.
constexpr int kFirstPort = 61440, kPorts = 4096, kPortsOfAJob = 16;

/// A number that text stands for if it is one of processes, or of one.
std::optional<int> numberIn(const char *text) {
  int value = 0;
  if (!text)
    return std::nullopt;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0)
    return std::nullopt;
  return value;
}

class Finder {
public:
  explicit Finder(const Variables &variables) : variables(variables) {}

  /// The answer of a known launcher; nothing if it is not this one.
  std::optional<Launcher> look(const KnownLauncher &known) const {
    for (const char *mark : known.marks)
      if (mark && !variables(mark))
        return std::nullopt;
    // A batch script has an allocation's variables, but is no step of it: the
    // numbers of those that are none lie near the largest of 32 bits.
    if (std::strcmp(known.name, "srun") == 0 && !number("SLURM_STEP_ID"))
      return std::nullopt;
    Launcher launcher;
    launcher.name = known.name;
    launcher.rank = number(known.rank);
    launcher.localRank = number(known.localRank);
    for (const char *size : known.sizes)
      if (!launcher.size)
        launcher.size = number(size);
    launcher.isOneHost =
        launcher.size && number(known.localSize) == launcher.size;
    launcher.finds = known.finds;
    launcher.isCertain = known.isCertain;
    for (const char *part : known.job)
      if (part && variables(part))
        launcher.job +=
            concat(launcher.job.empty() ? "" : ".", variables(part));
    bool makesSense = launcher.rank && (!known.sizes[0] || launcher.size) &&
                      (!launcher.size || *launcher.rank < *launcher.size);
    // Where processes meet is of no use to one.
    const bool speaksOfSeveral = known.meets == Meets::AtAddress &&
                                 variables("MASTER_ADDR") &&
                                 variables("MASTER_PORT");
    if (!makesSense && !known.isCertain && !speaksOfSeveral)
      return std::nullopt;
    if (!makesSense) {
      launcher.nonsense =
          launcher.isByHand()
              ? concat("expected --rank (OPTIMUS_RANK) R and --ranks "
                       "(OPTIMUS_RANKS) N with R from 0 to N - 1, found `",
                       text(known.rank), "` and `", text(known.sizes[0]), "`")
              : concat("the variables ", known.sizes[0], " (`",
                       text(known.sizes[0]), "`) and ", known.rank, " (`",
                       text(known.rank), "`) say that ", known.name,
                       " started this process, but not as which of how many; "
                       "start it with ",
                       known.name, ", or unset them");
      // Each process that is told so says so.
      launcher.rank.reset();
    }
    // Variables without the server that they are about are left over.
    if (!known.sizes[0] && !hasPmixServer())
      launcher.finds = Finds::PerhapsMpi;
    if (makesSense)
      launcher.meetingPoint = meetingPoint(known, launcher);
    if (makesSense && known.meets == Meets::OverPmi)
      launcher.pmiSocket = number("PMI_FD");
    return launcher;
  }

  std::optional<int> number(const char *name) const {
    return name ? numberIn(variables(name)) : std::nullopt;
  }
  std::string text(const char *name) const {
    const char *value = variables(name);
    return value ? value : "";
  }

private:
  bool hasPmixServer() const {
    for (const char *name :
         {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
          "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"})
      if (variables(name))
        return true;
    return false;
  }

  std::optional<MeetingPoint> meetingPoint(const KnownLauncher &known,
                                           const Launcher &launcher) const {
    switch (known.meets) {
    case Meets::Nowhere:
    case Meets::OverPmi:
      return std::nullopt;
    case Meets::AtAddress: {
      std::optional<int> port = number("MASTER_PORT");
      std::string host = text("MASTER_ADDR");
      if (!host.empty() && launcher.isOneHost)
        host = "127.0.0.1";
      if (host.empty() || !port || *port == 0 || *port > 65535 - kPortsOfAJob)
        return std::nullopt;
      // torchrun may listen there itself.
      bool isTaken = text("TORCHELASTIC_USE_AGENT_STORE") == "True";
      return MeetingPoint{host, *port + isTaken, kPortsOfAJob};
    }
    case Meets::OnFirstNode: {
      std::string nodes;
      for (const char *name :
           {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
        if (nodes.empty())
          nodes = text(name);
      if (nodes.empty())
        return std::nullopt;
      // A host may not know its own name.
      std::string host = firstHostOf(nodes);
      bool isHere = host == nodes && host == text("SLURMD_NODENAME");
      return meetingPointOf(launcher.job, isHere ? "127.0.0.1" : host);
    }
    case Meets::OnThisHost:
      if (!launcher.job.empty() && launcher.isOneHost)
        return meetingPointOf(launcher.job, "127.0.0.1");
      return std::nullopt;
    }
    return std::nullopt;
  }

  const Variables &variables;
};

} // namespace

std::string Launcher::toString() const {
  if (isByHand())
    return concat("--ranks is ", size.value_or(1));
  return concat(name, " started ",
                size ? concat(*size, " processes") : "this process");
}

MeetingPoint meetingPointOf(const std::string &job, const std::string &host) {
  uint64_t place = optimus_support::hash64(job) % (kPorts / kPortsOfAJob);
  return {host, kFirstPort + static_cast<int>(place) * kPortsOfAJob,
          kPortsOfAJob};
}

std::string firstHostOf(const std::string &nodeList) {
  std::string host;
  for (std::size_t i = 0; i < nodeList.size() && nodeList[i] != ','; ++i) {
    if (nodeList[i] != '[') {
      host += nodeList[i];
      continue;
    }
    // The first of a range of numbers.
    std::size_t close = std::min(nodeList.find(']', i), nodeList.size());
    std::size_t end = std::min(nodeList.find_first_of(",-]", i), close);
    host += nodeList.substr(i + 1, end - i - 1);
    i = close;
  }
  return host;
}

StatusOr<MeetingPoint> parseMeetingPoint(const std::string &text) {
  std::size_t colon = text.rfind(':');
  std::optional<int> port = colon == std::string::npos
                                ? std::nullopt
                                : numberIn(text.c_str() + colon + 1);
  if (!port || *port == 0 || *port > 65535 || colon == 0)
    return invalidArgument(concat(
        "--rendezvous (OPTIMUS_RENDEZVOUS) is `", text,
        "`, expected HOST:PORT: a name or an IPv4 address of the host of rank "
        "0, and a port from 1 to 65535 that is free there"));
  return MeetingPoint{text.substr(0, colon), *port, 1};
}

StatusOr<Launcher> findLauncher(const Variables &variables) {
  Finder finder(variables);
  Launcher launcher;
  for (const KnownLauncher &known : kLaunchers) {
    std::optional<Launcher> found = finder.look(known);
    if (!found)
      continue;
    if (!found->nonsense.empty() && known.isCertain)
      return invalidArgument(found->nonsense);
    launcher = *std::move(found);
    break;
  }
  if (std::string given = finder.text("OPTIMUS_RENDEZVOUS"); !given.empty()) {
    OPTRT_ASSIGN_OR_RETURN(launcher.meetingPoint, parseMeetingPoint(given));
    launcher.isMeetingPointGiven = true;
    // Who is asked to meet at an address listens there.
    launcher.isOneHost = false;
    launcher.pmiSocket.reset();
  }
  return launcher;
}

StatusOr<Launcher> findLauncher() {
  return findLauncher([](const char *name) { return std::getenv(name); });
}

StatusOr<std::string> chooseBackend(const Launcher &launcher,
                                    const std::string &asked) {
  const std::string meeting =
      "`--rendezvous HOST:PORT`, where rank 0 listens on its host";
  const std::string count = launcher.size ? concat(*launcher.size) : "N";
  if (asked == "local" || (asked.empty() && launcher.isAlone())) {
    if (!launcher.isAlone() && launcher.isCertain)
      return invalidArgument(
          concat("--backend local runs all ranks in one process, but ",
                 launcher.toString(), "; leave ", launcher.name,
                 " or --backend local out"));
    if (launcher.isMeetingPointGiven && launcher.name.empty())
      return invalidArgument(
          "--rendezvous says where processes meet, but nothing says which of "
          "how many this one is; add --rank R --ranks N, from 0 to N - 1, or "
          "leave it out for ranks as threads of this one process");
    return std::string("local");
  }
  if (!launcher.nonsense.empty())
    return invalidArgument(launcher.nonsense);
  if (asked == "mpi") {
    if (launcher.finds == Finds::Tcp && !launcher.isAlone())
      return invalidArgument(
          concat("--backend mpi needs processes that an MPI's launcher "
                 "started, but ",
                 launcher.toString(), "; use --backend tcp, or `mpirun -n ",
                 count, " optimus-run ...`"));
    return asked;
  }
  if (asked.empty() && launcher.finds == Finds::Mpi &&
      !launcher.isMeetingPointGiven)
    return std::string("mpi");
  // Over TCP.
  if (launcher.name.empty() || !launcher.size || !launcher.rank)
    return invalidArgument(concat(
        launcher.name.empty() ? "--backend tcp was asked for"
                              : launcher.toString(),
        ", and nothing says which of how many this one is: use torchrun, srun "
        "or `mpirun -n ",
        count, " optimus-run ...`, or start each with ", meeting,
        ", --rank R and --ranks N"));
  if (!launcher.meetingPoint && !launcher.pmiSocket && !launcher.isAlone())
    return invalidArgument(concat(
        launcher.toString(),
        ", and nothing says where they meet: each would "
        "do the whole job by itself; give all of them ",
        meeting,
        launcher.finds == Finds::Tcp
            ? ""
            : concat(", use `mpirun -n ", count, " optimus-run ...`"),
        launcher.isCertain
            ? ""
            : ", or --backend local for ranks as threads of this one process"));
  return std::string("tcp");
}

} // namespace optrt

//===- Session.cpp - A model in memory, in Python -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arrays.h"
#include "Bindings.h"
#include "optimus-runtime/Exception.h"

#include <cmath>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace optrt;

namespace optimus_python {

Held::~Held() {
  if (owner.isOfThisProcess())
    return;
  // Of a fork: threads of ranks, which it would wait for, are not there.
  (void)run.release();
}

BoundSession::BoundSession(std::shared_ptr<ModelLibrary> library,
                           std::shared_ptr<BoundWorld> world,
                           ModelRunOptions options) {
  world->owner.check("a World");
  if (!world->session.expired())
    raise("UsageError", "expected a World without a session, found one with a "
                        "session, or with arrays of its shards; close() that "
                        "one and drop these");
  auto made = std::make_shared<Held>();
  options.session.timeoutSeconds = world->timeoutSeconds;
  options.session.onStall = reportEnd;
  options.session.timesCommunication = true;
  made->run = take(unlocked([&] {
    return ModelRun::create(*library, world->world, std::move(options));
  }));
  made->library = std::move(library);
  world->session = made;
  made->world = std::move(world);
  held = std::move(made);
}

ModelRun &BoundSession::run() const {
  owner.check("a Session");
  if (!held)
    raise("UsageError", "expected an open Session, found one that was closed");
  return *held->run;
}

void BoundSession::close() {
  if (owner.isOfThisProcess())
    owner.check("a Session");
  unlocked([this] { held.reset(); });
}

static Hyperparameters readHyperparameters(const py::dict &given,
                                           std::set<std::string> &names) {
  Hyperparameters read;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values, auto &value) {
        if (!given.contains(info.name))
          return;
        const py::object object = given[info.name];
        const std::string text =
            object.is_none() ? "none" : std::string(py::str(object));
        const auto parsed = values.parse(text);
        if (!parsed)
          raise("InvalidArgumentError",
                concat(info.name, ": expected ", values.expected(), ", found ",
                       std::string(py::repr(object))));
        value = *parsed;
        names.insert(info.name);
      },
      read);
  check(checkHyperparameters(read));
  return read;
}

static std::set<EntryKind> readKinds(const std::vector<std::string> &names) {
  std::set<EntryKind> kinds;
  for (const std::string &name : names) {
    if (name == "generate") {
      kinds.insert({EntryKind::Prefill, EntryKind::Decode});
      continue;
    }
    const std::optional<EntryKind> kind = parseEntryKind(name);
    if (!kind || (*kind != EntryKind::Train && *kind != EntryKind::Eval &&
                  *kind != EntryKind::Forward))
      raise("InvalidArgumentError",
            concat("kinds: expected train, eval, forward or generate, found ",
                   name));
    kinds.insert(*kind);
  }
  return kinds;
}

static std::unique_ptr<BoundSession> makeSession(
    std::shared_ptr<ModelLibrary> library, std::shared_ptr<BoundWorld> world,
    const std::vector<std::string> &kinds, const py::dict &hyperparameters,
    uint64_t seed, int threadsPerRank, std::optional<int64_t> documentEnd,
    const std::string &scratchFolder, int64_t hostPages, bool flushSubnormals) {
  if (hostPages != 0)
    check(take(GenerationEntries::find(library->path(), library->manifest()))
              .checkHostPages(hostPages)
              .withContext("host_pages"));
  ModelRunOptions options;
  options.kinds = readKinds(kinds);
  options.hyperparameters = readHyperparameters(hyperparameters, options.given);
  options.seed = seed;
  options.session.threadsPerRank = threadsPerRank;
  options.session.documentEnd = documentEnd;
  options.session.scratchFolder = scratchFolder;
  options.session.computing.flushesSubnormals = flushSubnormals;
  auto session = std::make_unique<BoundSession>(
      std::move(library), std::move(world), std::move(options));
  session->heldNow()->hostPages = hostPages;
  return session;
}

/// The tokens and targets of a call.
struct Rows {
  std::vector<int32_t> tokens, targets;

  Rows(const ModelRun &run, const py::object &tokens, const py::object &targets)
      : tokens(readTokens("tokens", tokens, run.manifest().sequence)),
        targets(readTokens("targets", targets, run.manifest().sequence)) {}
  operator TokenRows() const { return {tokens, targets}; }
};

static py::tuple toTuple(const StepOutputs &outputs) {
  return py::make_tuple(outputs.meanLoss(), outputs.gradNorm(),
                        static_cast<int64_t>(outputs.realCount()));
}

static py::tuple train(BoundSession &self, const py::object &tokens,
                       const py::object &targets, std::optional<double> lr) {
  ModelRun &run = self.run();
  if (lr && !(std::isfinite(*lr) && *lr >= 0))
    raise("InvalidArgumentError",
          concat("lr: expected a number of at least 0, found ", *lr));
  const Rows rows(run, tokens, targets);
  return toTuple(take(unlocked([&] { return run.train(rows, lr); })));
}

static py::tuple eval(BoundSession &self, const py::object &tokens,
                      const py::object &targets) {
  ModelRun &run = self.run();
  const Rows rows(run, tokens, targets);
  return toTuple(take(unlocked([&] { return run.eval(rows); })));
}

static py::object forward(BoundSession &self, const py::object &tokens) {
  ModelRun &run = self.run();
  const std::vector<int32_t> read =
      readTokens("tokens", tokens, run.manifest().sequence);
  const HostTensor tensor = take(unlocked([&] { return run.forward(read); }));
  // Of another process than the root's.
  if (tensor.bytes.empty())
    return py::none();
  return toArray(tensor);
}

/// What the root process says, in every process.
static py::bytes share(BoundSession &self, const std::string &said) {
  ModelRun &run = self.run();
  return take(unlocked([&]() -> StatusOr<std::string> {
    try {
      return run.controlPlane().allGather(said).front();
    } catch (const std::exception &) {
      return statusOfException();
    }
  }));
}

static void bindCalls(py::class_<BoundSession> &session) {
  session
      .def("train", train, py::arg("tokens"), py::arg("targets"),
           py::arg("lr") = py::none())
      .def("eval", eval, py::arg("tokens"), py::arg("targets"))
      .def("forward", forward, py::arg("tokens"))
      .def("initialize",
           [](BoundSession &self, uint64_t seed) {
             ModelRun &run = self.run();
             check(unlocked([&] { return run.initialize(seed); }));
           })
      .def("load",
           [](BoundSession &self, const std::string &folder, bool weightsOnly,
              std::vector<std::string> ignored, std::string base) {
             ModelRun &run = self.run();
             const LoadOptions options{weightsOnly, std::move(ignored),
                                       std::move(base)};
             return take(unlocked([&] { return run.load(folder, options); }));
           })
      .def("save",
           [](BoundSession &self, const std::string &folder, bool overwrites) {
             ModelRun &run = self.run();
             check(unlocked([&] { return run.save(folder, overwrites); }));
           });
}

void bindSession(py::module_ &module) {
  py::class_<BoundSession> session(module, "Session");
  session
      .def(py::init(&makeSession), py::arg("library"), py::arg("world"),
           py::arg("kinds"), py::arg("hyperparameters"), py::arg("seed"),
           py::arg("threads_per_rank"), py::arg("document_end"),
           py::arg("scratch_folder"), py::arg("host_pages"),
           py::arg("flush_subnormals"))
      .def("share", share, py::arg("said"))
      .def("close", &BoundSession::close)
      .def_property_readonly("closed", &BoundSession::isClosed);
  bindCalls(session);
  bindGeneration(session);
  bindValues(session);
  bindDlpack(module, session);
}

} // namespace optimus_python

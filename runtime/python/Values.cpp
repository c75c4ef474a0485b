//===- Values.cpp - What a session holds and has measured, in Python ------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arrays.h"
#include "Bindings.h"
#include "tooling/MeasuresJson.h"

#include <algorithm>
#include <iterator>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace optrt;

namespace optimus_python {

static py::object toPython(const nlohmann::ordered_json &json) {
  return py::module_::import("json").attr("loads")(json.dump());
}

/// The buffers that a session holds for a lifetime, "parameter" or "state", be
/// it in a prepared form alone.
static std::vector<std::string> names(const BoundSession &self,
                                      const std::string &lifetime) {
  const ModelRun &run = self.run();
  std::vector<int64_t> there;
  std::ranges::merge(run.session().heldBuffers(),
                     run.session().preparedParameters(),
                     std::back_inserter(there));
  std::vector<std::string> names;
  for (int64_t index : there)
    if (const Buffer &buffer = run.manifest().buffers[index];
        toString(buffer.lifetime) == lifetime)
      names.push_back(buffer.name);
  return names;
}

/// Of a buffer that is held.
static const Buffer &find(const ModelRun &run, const std::string &name) {
  return run.manifest().buffers[*run.manifest().findBuffer(name)];
}

/// As a checkpoint has it.
static const std::vector<int64_t> &shapeOf(const Buffer &buffer) {
  return buffer.saved ? buffer.saved->shape : buffer.layout.shape;
}

static py::object gather(BoundSession &self, const std::string &name) {
  ModelRun &run = self.run();
  const std::vector<float> whole =
      take(unlocked([&] { return run.gather(name); }));
  if (!run.controlPlane().isRoot())
    return py::none();
  return py::array_t<float>(shapeOf(find(run, name)), whole.data());
}

static void assign(BoundSession &self, const std::string &name,
                   const py::object &values) {
  ModelRun &run = self.run();
  // Where it has another shape in checkpoints, either will do.
  const Buffer &buffer = find(run, name);
  const std::span<const float> whole =
      readFloats(name.c_str(), values, {shapeOf(buffer), buffer.layout.shape});
  check(unlocked([&] { return run.assign(name, whole); }));
}

static py::list shards(BoundSession &self, const std::string &name) {
  ModelRun &run = self.run();
  const ControlPlane &control = run.controlPlane();
  const Buffer &buffer = find(run, name);
  py::list views;
  for (int local = 0; local != control.numLocalRanks(); ++local) {
    std::vector<uint8_t> copy;
    const std::span<const std::byte> bytes =
        take(run.shardOf(name, control.firstRank() + local, copy));
    // Where host code cannot reach the memory, the view is of the copy.
    if (copy.empty()) {
      auto *held = new std::shared_ptr<Held>(self.heldNow());
      const py::capsule owner(held, [](void *pointer) {
        delete static_cast<std::shared_ptr<Held> *>(pointer);
      });
      views.append(viewOf(buffer.type, buffer.layout.localShape, bytes, owner));
      continue;
    }
    auto *kept = new std::vector<uint8_t>(std::move(copy));
    const py::capsule owner(kept, [](void *pointer) {
      delete static_cast<std::vector<uint8_t> *>(pointer);
    });
    views.append(viewOf(buffer.type, buffer.layout.localShape,
                        std::as_bytes(std::span(*kept)), owner));
  }
  return views;
}

static py::object memory(BoundSession &self) {
  ModelRun &run = self.run();
  return toPython(memoryToJson(
      unlocked([&] { return run.session().largestRankMemory(); })));
}

static py::object communication(BoundSession &self) {
  ModelRun &run = self.run();
  const auto [traffic, times] = unlocked([&] {
    return std::pair(run.session().trafficOfLastRun(),
                     run.session().communicationTimeOfLastRun());
  });
  const Mesh &mesh = run.manifest().mesh;
  return toPython({{"axes", communicationToJson(mesh, take(traffic))},
                   {"ms", communicationTimeToJson(mesh, times)}});
}

static py::dict hyperparameters(const BoundSession &self) {
  py::dict listed;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values,
          const auto &value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<Value>)
          listed[info.name] = value;
        else
          listed[info.name] = values.print(value);
      },
      self.run().hyperparameters());
  return listed;
}

void bindValues(py::class_<BoundSession> &session) {
  session.def("names", names, py::arg("lifetime"))
      .def("gather", gather, py::arg("name"))
      .def("assign", assign, py::arg("name"), py::arg("values"))
      .def("shards", shards, py::arg("name"))
      .def("memory", memory)
      .def("communication", communication)
      .def("hyperparameters", hyperparameters)
      .def_property_readonly(
          "step", [](const BoundSession &self) { return self.run().step(); })
      .def_property_readonly(
          "seed", [](const BoundSession &self) { return self.run().seed(); });
}

} // namespace optimus_python

//===- Module.cpp - The runtime, in Python --------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// optimus._runtime: the classes of the runtime as they are. What people use,
// and its documentation, is written in Python above it
// (python/optimus/session.py).
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <pybind11/stl.h>

namespace py = pybind11;
using namespace optrt;
using namespace optimus_python;

static std::shared_ptr<ModelLibrary> open(const std::string &path,
                                          bool isInspected) {
  return take(ModelLibrary::open(path, isInspected ? ModelLibrary::Use::Inspect
                                                   : ModelLibrary::Use::Run));
}

/// The extents of a library's cache, or InvalidArgumentError where it has none.
static py::dict generationOf(const ModelLibrary &self) {
  const GenerationEntries entries =
      take(GenerationEntries::find(self.path(), self.manifest()));
  py::dict extents;
  extents["slots"] = entries.cache.slots;
  extents["context"] = entries.cache.tokensOfOne(entries.chunk);
  extents["pages"] = entries.cache.pages;
  extents["chunk"] = entries.chunk;
  extents["vocabulary"] = entries.vocabulary;
  return extents;
}

PYBIND11_MODULE(_runtime, module) {
  module.attr("version") = OPTIMUS_VERSION;
  py::class_<ModelLibrary, std::shared_ptr<ModelLibrary>>(module,
                                                          "ModelLibrary")
      .def(py::init(&open), py::arg("path"), py::arg("inspect") = false)
      .def_property_readonly("path", &ModelLibrary::path)
      .def_property_readonly("generation", generationOf)
      .def_property_readonly("manifest", [](const ModelLibrary &self) {
        return std::string(self.manifestText());
      });
  bindWorld(module);
  bindSession(module);
}

//===- Dlpack.cpp - Shards for other libraries of tensors -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// DLPack 1.0, whose structures stand here: https://dmlc.github.io/dlpack. Older
// ones have no word for memory that is read-only.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <cstddef>
#include <span>

namespace py = pybind11;
using namespace optrt;
using optimus_support::ElementType;

namespace optimus_python {
namespace {

struct DlDevice {
  int32_t type = 1; ///< a processor
  int32_t id = 0;
};

struct DlType {
  uint8_t code, bits;
  uint16_t lanes = 1;
};

struct DlTensor {
  const void *data;
  DlDevice device;
  int32_t rank;
  DlType type;
  const int64_t *shape, *strides; ///< these in elements
  uint64_t byteOffset = 0;
};

constexpr uint64_t kReadOnly = 1, kCopied = 2;

/// DLManagedTensorVersioned.
struct Managed {
  uint32_t major = 1, minor = 0;
  void *context;
  void (*deleter)(Managed *);
  uint64_t flags;
  DlTensor tensor;
};
static_assert(sizeof(DlTensor) == 48 && sizeof(Managed) == 80 &&
              offsetof(Managed, tensor) == 32);

/// A view, with what it keeps.
struct View {
  Managed managed;
  std::vector<int64_t> shape, strides;
  std::shared_ptr<Held> held;
  std::vector<uint8_t> copy; ///< of the elements, where these are not shown
};

/// What a rank of this process has of a tensor, for others to look at.
struct BoundShard {
  py::object session;
  std::string name;
  int64_t rank;
};

} // namespace

static constexpr const char *kCapsule = "dltensor_versioned";

[[noreturn]] static void refuse(const std::string &why) {
  throw py::buffer_error(why);
}

static DlType typeOf(ElementType type) {
  constexpr uint8_t kInt = 0, kFloat = 2, kBfloat = 4;
  const uint8_t bits = uint8_t(8 * optimus_support::elementBytes(type));
  switch (type) {
  case ElementType::BF16:
    return {kBfloat, bits};
  case ElementType::F32:
  case ElementType::F64:
  case ElementType::F16:
    return {kFloat, bits};
  default:
    return {kInt, bits};
  }
}

static void deleteUnused(PyObject *capsule) {
  // A consumer renames what it has taken.
  if (!PyCapsule_IsValid(capsule, kCapsule))
    return;
  auto *managed =
      static_cast<Managed *>(PyCapsule_GetPointer(capsule, kCapsule));
  managed->deleter(managed);
}

static py::object exportShard(const BoundShard &shard, const py::object &,
                              const py::object &version,
                              const py::object &device,
                              const py::object &copies) {
  // Refused on other threads, which alone could ask during a call.
  auto &session = shard.session.cast<BoundSession &>();
  ModelRun &run = session.run();
  if (version.is_none() || version.cast<py::tuple>()[0].cast<int>() < 1)
    refuse(concat("expected a reader of DLPack 1.0 or later, since shards are "
                  "read-only; found ",
                  std::string(py::repr(version)), " for max_version"));
  if (!device.is_none() && !device.equal(py::make_tuple(1, 0)))
    refuse(concat("expected the memory of the host, (1, 0); found ",
                  std::string(py::repr(device)), " for dl_device"));
  const Buffer &buffer =
      run.manifest().buffers[*run.manifest().findBuffer(shard.name)];
  auto view = std::make_unique<View>();
  std::span<const std::byte> bytes =
      take(run.shardOf(shard.name, shard.rank, view->copy));
  const bool isAsked = !copies.is_none() && copies.cast<bool>();
  if (isAsked && view->copy.empty()) {
    const auto *first = reinterpret_cast<const uint8_t *>(bytes.data());
    view->copy.assign(first, first + bytes.size());
  }
  if (view->copy.empty())
    view->held = session.heldNow();
  else
    bytes = std::as_bytes(std::span(view->copy));
  view->shape = buffer.layout.localShape;
  view->strides.resize(view->shape.size());
  int64_t stride = 1;
  for (std::size_t i = view->shape.size(); i-- != 0; stride *= view->shape[i])
    view->strides[i] = stride;
  view->managed.context = view.get();
  view->managed.deleter = [](Managed *managed) {
    delete static_cast<View *>(managed->context);
  };
  view->managed.flags = view->copy.empty() ? kReadOnly : kCopied;
  view->managed.tensor = {.data = bytes.data(),
                          .device = {},
                          .rank = int32_t(view->shape.size()),
                          .type = typeOf(buffer.type),
                          .shape = view->shape.data(),
                          .strides = view->strides.data()};
  PyObject *capsule = PyCapsule_New(&view->managed, kCapsule, deleteUnused);
  if (!capsule)
    throw py::error_already_set();
  (void)view.release();
  return py::reinterpret_steal<py::object>(capsule);
}

static py::list exportShards(const py::object &self, const std::string &name) {
  const ControlPlane &control =
      self.cast<BoundSession &>().run().controlPlane();
  py::list shards;
  for (int local = 0; local != control.numLocalRanks(); ++local)
    shards.append(BoundShard{self, name, control.firstRank() + local});
  return shards;
}

void bindDlpack(py::module_ &module, py::class_<BoundSession> &session) {
  py::class_<BoundShard>(module, "Shard")
      .def("__dlpack__", exportShard, py::kw_only(),
           py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
           py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__",
           [](const BoundShard &) { return py::make_tuple(1, 0); });
  session.def("dlpack", exportShards, py::arg("name"));
}

} // namespace optimus_python

//===- ModelLibrary.h - A compiled model, opened ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODELLIBRARY_H
#define OPTIMUS_RUNTIME_MODELLIBRARY_H

#include "optimus-runtime/Manifest.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/Program.h"
#include "optimus-support/model_abi.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace optrt {

class SealedCopy;

/// Code by the names that tables launch it by.
using KernelTable = std::map<std::string, const optimus_kernel *, std::less<>>;

/// A model library's file as it was at one time: nobody can change the copy.
class LibraryFile {
public:
  /// Fails with InvalidArgument when there is no such file.
  static StatusOr<LibraryFile> copy(const std::string &path);

  const std::string &path() const { return filePath; }
  /// Its manifest alone, for who only needs to know how many ranks run the
  /// library, and where. Fails as ModelLibrary::open() does of it.
  StatusOr<Manifest> readManifest() const;

private:
  friend class ModelLibrary;

  std::string filePath;
  std::shared_ptr<const SealedCopy> contents;
};

/// A model library that was opened and checked. A copy of the file is checked
/// and loaded, so that nobody can change the running code. Kernels are code
/// that nobody checks: a library that is to be run is trusted like a program.
/// Loading it runs nothing of it, and its manifest and its tables are not
/// trusted: they launch kernels only as these say that they were written for.
class ModelLibrary {
public:
  enum class Use {
    Run,     ///< refuse a library for features that this processor lacks
    Inspect, ///< only its manifest and tables are read; nothing of it runs
  };

  /// Opens a file. Fails with InvalidArgument when it is missing, is no
  /// shared library, is no model library, or has another ABI version, a broken
  /// manifest, or tables that are wrong or say otherwise than the manifest;
  /// and, if it is to be run, when it is for another kind of processor, or is
  /// not self-contained. Fails with Unavailable, naming the features, when the
  /// processor cannot run it.
  static StatusOr<std::unique_ptr<ModelLibrary>> open(const std::string &path,
                                                      Use use = Use::Run);
  static StatusOr<std::unique_ptr<ModelLibrary>> open(const LibraryFile &file,
                                                      Use use = Use::Run);

  /// A model in this process already, as a linked one, that outlives the
  /// result; `name` stands for its path. Fails as open() does of its manifest,
  /// its tables and the processor.
  static StatusOr<std::unique_ptr<ModelLibrary>>
  wrap(const optimus_model &model, const std::string &name);

  ~ModelLibrary();
  ModelLibrary(const ModelLibrary &) = delete;
  ModelLibrary &operator=(const ModelLibrary &) = delete;

  const std::string &path() const { return file.path(); }
  const Manifest &manifest() const { return parsed; }
  /// The manifest as the library carries it.
  std::string_view manifestText() const { return text; }
  /// What its ranks execute.
  const optimus_support::program::ProgramsT &programs() const {
    return tables;
  }
  /// The tables of the target that the manifest names.
  const optimus_support::program::TargetT &target() const { return *chosen; }

  /// All kernels of the target; none in a library that is not run.
  const KernelTable &kernels() const { return code; }
  /// Their code, where they are a GPU's.
  std::span<const optimus_image> images() const {
    return model ? std::span(model->images, model->num_images)
                 : std::span<const optimus_image>();
  }

private:
  ModelLibrary();

  Status openCode();
  Status checkVersion() const;
  /// Of code that is in this process.
  Status readModel();
  /// `packed` are its tables, `text` its manifest.
  Status readData(std::span<const char> packed);
  Status findKernels();
  Status checkFeatures() const;

  LibraryFile file; ///< as long as its code is there
  void *handle = nullptr;
  const optimus_model *model = nullptr;
  /// Where it is not run, the contents of the file's section.
  std::string manifestSection;
  std::string_view text;
  Manifest parsed;
  optimus_support::program::ProgramsT tables;
  const optimus_support::program::TargetT *chosen = nullptr;
  KernelTable code;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODELLIBRARY_H

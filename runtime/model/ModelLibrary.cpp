//===- ModelLibrary.cpp - A compiled model, opened ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/ModelLibrary.h"

#include "ElfFile.h"
#include "HostFeatures.h"
#include "ProgramAgreement.h"
#include "SealedCopy.h"
#include "SharedObject.h"
#include "optimus-support/ProgramKernels.h"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <span>
#include <system_error>

namespace optrt {

ModelLibrary::ModelLibrary() = default;

ModelLibrary::~ModelLibrary() {
  // Before the copy: the loader knows code by its path, and another copy may
  // have this one's then.
  if (handle)
    dlclose(handle);
}

/// More than any program: 2^20 commands have about 300 MB.
static constexpr uint64_t kMaxSectionBytes = uint64_t(1) << 30;

StatusOr<LibraryFile> LibraryFile::copy(const std::string &path) {
  std::error_code error;
  std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return invalidArgument("model library `" + path +
                           "` does not exist; optimus-compile makes one");
  if (!std::filesystem::is_regular_file(status))
    return invalidArgument("model library `" + path + "` is not a file");
  OPTRT_ASSIGN_OR_RETURN(SealedCopy copied, SealedCopy::make(path));
  LibraryFile file;
  file.filePath = path;
  file.contents = std::make_shared<const SealedCopy>(std::move(copied));
  return file;
}

static StatusOr<Manifest> parseManifestOf(const std::string &path,
                                          std::string_view text) {
  StatusOr<Manifest> manifest = parseManifest(text);
  return manifest.ok()
             ? std::move(manifest)
             : manifest.status().withContext("manifest of `" + path + "`");
}

StatusOr<Manifest> LibraryFile::readManifest() const {
  OPTRT_ASSIGN_OR_RETURN(ElfFile elf,
                         ElfFile::parse(contents->bytes(), filePath));
  OPTRT_ASSIGN_OR_RETURN(
      std::string_view text,
      elf.readSection(OPTIMUS_MANIFEST_SECTION, kMaxSectionBytes));
  return parseManifestOf(filePath, text);
}

StatusOr<std::unique_ptr<ModelLibrary>>
ModelLibrary::open(const std::string &path, Use use) {
  OPTRT_ASSIGN_OR_RETURN(LibraryFile file, LibraryFile::copy(path));
  return open(file, use);
}

StatusOr<std::unique_ptr<ModelLibrary>>
ModelLibrary::open(const LibraryFile &file, Use use) {
  std::unique_ptr<ModelLibrary> library(new ModelLibrary());
  library->file = file;
  OPTRT_ASSIGN_OR_RETURN(ElfFile elf,
                         ElfFile::parse(file.contents->bytes(), file.path()));
  OPTRT_ASSIGN_OR_RETURN(
      std::string_view manifest,
      elf.readSection(OPTIMUS_MANIFEST_SECTION, kMaxSectionBytes));
  if (use == Use::Run) {
    OPTRT_RETURN_IF_ERROR(checkSharedObject(elf));
    OPTRT_RETURN_IF_ERROR(library->openCode());
    OPTRT_RETURN_IF_ERROR(library->readModel());
    return library;
  }
  library->manifestSection = manifest;
  library->text = library->manifestSection;
  OPTRT_ASSIGN_OR_RETURN(
      std::string_view programs,
      elf.readSection(OPTIMUS_PROGRAMS_SECTION, kMaxSectionBytes));
  OPTRT_RETURN_IF_ERROR(library->readData(programs));
  library->file.contents.reset();
  return library;
}

StatusOr<std::unique_ptr<ModelLibrary>>
ModelLibrary::wrap(const optimus_model &model, const std::string &name) {
  std::unique_ptr<ModelLibrary> library(new ModelLibrary());
  library->file.filePath = name;
  library->model = &model;
  OPTRT_RETURN_IF_ERROR(library->checkVersion());
  OPTRT_RETURN_IF_ERROR(library->readModel());
  return library;
}

Status ModelLibrary::openCode() {
  handle = dlopen(file.contents->path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return invalidArgument(
        "`" + path() + "` cannot be opened as a shared library: " + dlerror());
  auto query = reinterpret_cast<optimus_model_query_fn>(
      dlsym(handle, "optimus_model_query"));
  if (!query)
    return invalidArgument("`" + path() +
                           "` is a shared library but no model library: it "
                           "has no symbol optimus_model_query");
  model = query(OPTRT_ABI_VERSION);
  if (!model)
    return invalidArgument(
        concat("model library `", path(),
               "` was compiled for another version of the runtime; this one "
               "has version ",
               OPTRT_ABI_VERSION, " of the interface. Compile it again"));
  return checkVersion();
}

Status ModelLibrary::checkVersion() const {
  if (model->version != OPTRT_ABI_VERSION)
    return invalidArgument(concat("model library `", path(), "` has version ",
                                  model->version,
                                  " of the interface, the runtime ",
                                  OPTRT_ABI_VERSION, ". Compile it again"));
  return okStatus();
}

Status ModelLibrary::readModel() {
  text = {model->manifest, model->manifest_size};
  OPTRT_RETURN_IF_ERROR(
      readData(std::span(model->programs, model->programs_size)));
  return checkFeatures();
}

Status ModelLibrary::readData(std::span<const char> packed) {
  OPTRT_ASSIGN_OR_RETURN(parsed, parseManifestOf(path(), text));
  if (model && parsed.isPlan)
    return invalidArgument(concat(
        "`", path(),
        "` is a plan, which has no kernels and cannot run; optimus-simulate "
        "and optimus-run inspect read it. Compile the model without --plan"));

  const std::string programsOf = "programs of `" + path() + "`";
  auto programs = optimus_support::program::unpack(
      packed, parsed.isPlan ? optimus_support::program::Checks::ButOrder
                            : optimus_support::program::Checks::All);
  if (!programs.ok())
    return programs.status().withContext(programsOf);
  tables = std::move(programs).value();
  chosen = optimus_support::program::findTarget(tables, parsed.target);
  if (!chosen)
    return invalidArgument(concat(programsOf, ": there are none for '",
                                  parsed.target,
                                  "', the target that the manifest names"));
  OPTRT_RETURN_IF_ERROR(joinArguments(parsed, *chosen).withContext(programsOf));
  OPTRT_RETURN_IF_ERROR(
      checkAgreement(parsed, tables, *chosen).withContext(programsOf));
  return model ? findKernels().withContext(programsOf) : okStatus();
}

/// What of a kernel's code is not there, or nothing.
static const char *findMissingCode(const optimus_kernel &kernel, bool isHost,
                                   bool hasImages) {
  if (isHost)
    return kernel.run ? nullptr : "a function for processors";
  if (!kernel.device_name || !hasImages)
    return "a function of a GPU's image";
  return kernel.block_threads == 0 || kernel.block_iterations == 0
             ? "the threads and iterations of a block"
             : nullptr;
}

Status ModelLibrary::findKernels() {
  const std::span exported(model->kernels, model->num_kernels);
  for (const auto &kernel : chosen->kernels) {
    auto found =
        std::find_if(exported.begin(), exported.end(), [&](const auto &one) {
          return one.name == kernel->name;
        });
    if (found == exported.end())
      return invalidArgument(
          concat("there is no code for the kernel ", kernel->name));
    if (found->signature != optimus_support::program::signatureHash(*kernel))
      return invalidArgument(concat(
          "expected code for the kernel ",
          optimus_support::program::describe(*kernel),
          ", as in the tables; found code for another signature. Compile the "
          "model again"));
    if (const char *missing = findMissingCode(*found, parsed.target == "cpu",
                                              model->num_images != 0))
      return invalidArgument(concat("expected of the kernel ", kernel->name,
                                    " for '", parsed.target, "' ", missing,
                                    "; found none. Compile the model again"));
    code[kernel->name] = &*found;
  }
  return okStatus();
}

Status ModelLibrary::checkFeatures() const {
  std::vector<std::string> missing =
      missingFeatures(parsed.targetFeatures, describeHost());
  if (missing.empty())
    return okStatus();
  std::string names;
  for (const std::string &name : missing)
    names += (names.empty() ? "" : ", ") + name;
  return unavailable("model library `" + path() + "` is compiled for " +
                     parsed.targetCpu + " and needs " + names +
                     ", which this processor lacks; compile it with "
                     "--mcpu=native on this machine");
}

} // namespace optrt

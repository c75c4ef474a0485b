//===- CodeGen.cpp - From the LLVM dialect to a shared library --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/CodeGen.h"

#include "MemoryFunctions.h"

#include "optimus/Target/CPU/ObjectCache.h"

#include "optimus-support/ArmFeatures.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/NearestName.h"
#include "optimus-support/OutputFile.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::Status;
using optimus_support::StatusOr;

template <typename... Args>
static llvm::Error makeError(const char *format, Args &&...args) {
  return llvm::createStringError(
      llvm::formatv(format, std::forward<Args>(args)...).str());
}

//===----------------------------------------------------------------------===//
// The target
//===----------------------------------------------------------------------===//

static llvm::Triple getHostTriple() {
  return llvm::Triple(llvm::sys::getDefaultTargetTriple());
}

static llvm::Expected<const llvm::Target *>
lookupTarget(const llvm::Triple &triple) {
  auto target = lookupCodeGenerator(triple);
  if (!target)
    return makeError("LLVM has no code generator for {0}: {1}", triple.str(),
                     llvm::toString(target.takeError()));
  return target;
}

/// Whether a feature belongs to the instruction set that our code draws on;
/// the others are of the operating system's business, or tune.
static bool isCodeFeature(StringRef name) {
  static constexpr StringLiteral exact[] = {"bmi",    "bmi2", "f16c",  "fma",
                                            "fma4",   "gfni", "lzcnt", "movbe",
                                            "popcnt", "tbm",  "xop"};
  return llvm::is_contained(exact, name) || name.starts_with("avx") ||
         name.starts_with("sse4") ||
         llvm::any_of(optimus_support::kArmFeatures, [&](const auto &feature) {
           return name == StringRef(feature.name);
         });
}

/// Libraries are of ELF, and what they share with the runtime is laid out as
/// 64-bit machines with little-endian numbers do.
static llvm::Expected<llvm::Triple> parseTriple(StringRef name) {
  llvm::Triple triple(llvm::Triple::normalize(name));
  if (!triple.isOSLinux() || !triple.isArch64Bit() || !triple.isLittleEndian())
    return makeError("expected the triple of a 64-bit little-endian Linux, as "
                     "aarch64-linux-gnu, found '{0}'",
                     name);
  return triple;
}

llvm::Expected<CpuTarget> CpuTarget::get(StringRef name) {
  CpuTarget result;
  result.triple = getHostTriple();
  if (name.contains(':')) {
    auto [tripleName, processor] = name.split(':');
    auto triple = parseTriple(tripleName);
    if (!triple)
      return triple.takeError();
    result.triple = *triple;
    name = processor;
  }
  auto target = lookupTarget(result.triple);
  if (!target)
    return target.takeError();
  const bool isHost = result.triple == getHostTriple();
  if (isHost && name == "native") {
    result.cpu = llvm::sys::getHostCPUName().str();
    // A virtual machine may lack what its processor's name promises.
    std::vector<std::string> features;
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      features.push_back(
          ((feature.second ? "+" : "-") + feature.first()).str());
    llvm::sort(features);
    result.features = llvm::join(features, ",");
  } else {
    result.cpu = name.str();
  }
  std::unique_ptr<llvm::MCSubtargetInfo> known(
      (*target)->createMCSubtargetInfo(result.triple, "", ""));
  if (!known->isCPUStringValid(result.cpu)) {
    std::vector<std::string> names;
    if (isHost)
      names.push_back("native");
    for (const auto &processor : known->getAllProcessorDescriptions())
      names.push_back(processor.Key);
    return makeError("unknown processor '{0}' for {1}{2}; known are {3}", name,
                     result.triple.getArchName(),
                     optimus_support::didYouMean(name.str(), names),
                     llvm::join(names, ", "));
  }
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      (*target)->createMCSubtargetInfo(result.triple, result.cpu,
                                       result.features));
  for (const llvm::SubtargetFeatureKV &feature :
       subtarget->getEnabledProcessorFeatures())
    if (isCodeFeature(feature.Key))
      result.required.push_back(feature.Key);
  llvm::sort(result.required);
  return result;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
CpuTarget::createMachine() const {
  auto target = lookupTarget(triple);
  if (!target)
    return target.takeError();
  std::unique_ptr<llvm::TargetMachine> machine((*target)->createTargetMachine(
      triple, cpu, features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return makeError("LLVM cannot make code for the processor '{0}'", cpu);
  return machine;
}

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

StatusOr<LibraryWriter> LibraryWriter::create(const std::string &tool,
                                              const llvm::Triple &triple) {
  LibraryWriter writer;
  // Compilers run a linker, and have temporary files of their own meanwhile.
  std::vector<std::string> linkers{"ld", "ld.lld", "cc", "gcc", "clang"};
  std::string package = "binutils";
  if (triple != getHostTriple()) {
    std::string name = (triple.getArchName() + "-linux-gnu").str();
    linkers = {name + "-ld", "ld.lld"};
    package = "binutils-" + name;
  }
  for (const std::string &name : linkers)
    if (auto program = llvm::sys::findProgramByName(name)) {
      writer.linker = *program;
      break;
    }
  if (writer.linker.empty())
    return optimus_support::unavailable(
        llvm::formatv("no linker found: expected '{0}' or '{1}' in PATH; "
                      "install {2}, or stop before with --compile-to",
                      llvm::join(llvm::drop_end(linkers), "', '"),
                      linkers.back(), package)
            .str());
  OPTRT_ASSIGN_OR_RETURN(writer.scratch,
                         optimus_support::ScratchFolder::create(tool));
  return writer;
}

bool LibraryWriter::isCompiler() const {
  return !StringRef(linker).ends_with("ld");
}

StatusOr<std::string> LibraryWriter::writeObject(LLVMCode &code,
                                                 StringRef name) const {
  std::string path = scratch->file((name + ".o").str());
  std::error_code failed;
  llvm::raw_fd_ostream file(path, failed);
  if (failed)
    return optimus_support::cannotWrite(path, failed.value());
  OPTRT_RETURN_IF_ERROR(code.emit(llvm::CodeGenFileType::ObjectFile, file));
  file.close();
  failed = file.error();
  file.clear_error();
  if (failed)
    return optimus_support::cannotWrite(path, failed.value());
  return path;
}

StatusOr<std::string>
LibraryWriter::link(const std::vector<std::string> &objects,
                    const std::vector<StringRef> &flags) {
  std::string library = scratch->file("model.so");
  std::string log = scratch->file("link.log"), message;
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                          StringRef(log)};
  SmallVector<StringRef> arguments{linker, "-shared", "-o", library};
  llvm::append_range(arguments, flags);
  llvm::append_range(arguments, objects);
  int status = llvm::sys::ExecuteAndWait(linker, arguments, std::nullopt,
                                         redirects, 0, 0, &message);
  if (status == 0)
    return library;
  constexpr size_t kMostLogBytes = size_t(1) << 20;
  if (auto text = optimus_support::readInput(log, kMostLogBytes); text.ok())
    message += *text;
  // It says what the machine lacks: space, memory, or a linker that works.
  return optimus_support::unavailable(
      llvm::formatv("'{0} -shared' failed with {1}: {2}", linker, status,
                    StringRef(message).trim())
          .str());
}

StatusOr<std::string> LibraryWriter::build(LLVMCode &code) {
  constexpr size_t kMostBytes = size_t(1) << 30;
  OPTRT_ASSIGN_OR_RETURN(std::string object, writeObject(code, "code"));
  OPTRT_ASSIGN_OR_RETURN(std::string library, link({object}, {}));
  return optimus_support::readInput(library, kMostBytes);
}

static StatusOr<std::unique_ptr<llvm::TargetMachine>>
createMachineFor(const CpuTarget &target) {
  auto machine = target.createMachine();
  if (!machine)
    return optimus_support::internal(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

StatusOr<std::string> LibraryWriter::compile(ModuleOp module,
                                             const CpuTarget &target,
                                             StringRef name) const {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine,
                         createMachineFor(target));
  OPTRT_ASSIGN_OR_RETURN(LLVMCode code,
                         LLVMCode::translate(module, name, std::move(machine)));
  code.optimize();
  return writeObject(code, name);
}

/// Moves the kernels, internal to the library, to a module of their own, with
/// the tables they read.
static OwningOpRef<ModuleOp> takeKernels(ModuleOp module) {
  SmallVector<Operation *> taken;
  llvm::StringSet<> tables;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    const bool isWrapper =
        function.getVisibility_() == LLVM::Visibility::Hidden;
    if (!isWrapper && function.getLinkage() != LLVM::Linkage::Internal)
      continue;
    taken.push_back(function);
    function.walk(
        [&](LLVM::AddressOfOp use) { tables.insert(use.getGlobalName()); });
  }
  for (auto table : module.getOps<LLVM::GlobalOp>())
    if (tables.contains(table.getSymName()))
      taken.push_back(table);
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  for (Operation *op : taken) {
    if (auto function = dyn_cast<LLVM::LLVMFuncOp>(op);
        function && function.getVisibility_() == LLVM::Visibility::Hidden)
      OpBuilder(op).cloneWithoutRegions(*op);
    op->remove();
    kernels->push_back(op);
  }
  return kernels;
}

/// LLVM calls a function for what a processor has no instruction for, as for
/// sums where it has no numbers with a point.
static Status explainImport(const Status &status, const CpuTarget &target) {
  for (StringRef line : llvm::split(status.message(), '\n'))
    if (line.contains("undefined reference") ||
        line.contains("undefined symbol"))
      return optimus_support::invalidArgument(
          llvm::formatv("--mcpu: the processor '{0}' lacks instructions that "
                        "kernels need, and a model library calls no function "
                        "in their place ({1}); name another processor",
                        target.cpu, line.trim())
              .str());
  return status;
}

StatusOr<std::string>
LibraryWriter::compileMemoryFunctions(const CpuTarget &target) const {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine,
                         createMachineFor(target));
  OPTRT_ASSIGN_OR_RETURN(LLVMCode functions,
                         createMemoryFunctions(std::move(machine)));
  functions.optimize();
  return writeObject(functions, "memory");
}

Status LibraryWriter::write(ModuleOp module, const CpuTarget &target,
                            const std::string &path,
                            std::vector<std::string> objects,
                            llvm::function_ref<Status()> check,
                            const ObjectCache *cache) {
  if (objects.empty()) {
    OwningOpRef<ModuleOp> taken = takeKernels(module);
    OPTRT_ASSIGN_OR_RETURN(std::string kernels, compileKernels(*taken, target));
    objects.push_back(kernels);
  }
  OPTRT_ASSIGN_OR_RETURN(std::string table,
                         compile(module, target, "optimus-model"));
  objects.push_back(table);
  auto makeMemory = [&] { return compileMemoryFunctions(target); };
  OPTRT_ASSIGN_OR_RETURN(std::string memory,
                         cache ? cache->get("memory functions", makeMemory)
                               : makeMemory());
  objects.push_back(memory);
  // What the runtime asks of a library: no other library, none of a compiler's
  // start files, and no symbol that is somewhere else. By its ID a profiler
  // finds the file of a library loaded as a copy by the runtime.
  auto library =
      link(objects, {"-nostdlib", "-z", "defs",
                     isCompiler() ? "-Wl,--build-id=sha1" : "--build-id=sha1"});
  if (!library.ok())
    return explainImport(library.status(), target);
  if (check)
    OPTRT_RETURN_IF_ERROR(check());
  OPTRT_ASSIGN_OR_RETURN(
      optimus_support::OutputFile file,
      optimus_support::OutputFile::open(path, {.executable = true}));
  OPTRT_RETURN_IF_ERROR(file.appendFile(*library));
  return file.commit();
}

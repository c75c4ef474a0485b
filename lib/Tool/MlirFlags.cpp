//===- MlirFlags.cpp - MLIR's own flags in our tools ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/MlirFlags.h"

#include "optimus/Tool/Files.h"
#include "optimus/Tool/Threading.h"
#include "optimus/Tool/Tool.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"

using namespace mlir;
using namespace mlir::optimus;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Reproducers
//===----------------------------------------------------------------------===//

static constexpr char kReproducer[] = "mlir-pass-pipeline-crash-reproducer";
static constexpr char kLocalReproducer[] =
    "mlir-pass-pipeline-local-reproducer";

namespace {
struct ReproducerFlags {
  cl::opt<std::string> path{
      kReproducer, cl::value_desc("file"),
      cl::desc("Write the IR and the pipeline there if passes crash or fail; "
               "optimus-opt --run-reproducer runs it again")};
  cl::opt<bool> isLocal{
      kLocalReproducer,
      cl::desc("Write only the pass that failed and the IR before it; needs "
               "--mlir-disable-threading")};
};

/// As MLIR's, but whole or not there.
class ReproducerFile : public ReproducerStream {
public:
  ReproducerFile(std::string path, std::unique_ptr<OutputStream> stream)
      : path(std::move(path)), stream(std::move(stream)) {}
  ~ReproducerFile() override {
    if (optimus_support::Status written = stream->commit(); !written.ok())
      fail(written);
  }

  StringRef description() override { return path; }
  raw_ostream &os() override { return *stream; }

private:
  std::string path;
  std::unique_ptr<OutputStream> stream;
};
} // namespace

static ReproducerFlags &getReproducerFlags() {
  static ReproducerFlags flags;
  return flags;
}

void mlir::optimus::declareReproducerFlags() {
  // MLIR writes the file in place; ours take the names of its flags.
  for (const char *name : {kReproducer, kLocalReproducer})
    if (cl::Option *theirs = cl::getRegisteredOptions().lookup(name))
      theirs->removeArgument();
  getReproducerFlags();
}

std::string mlir::optimus::getReproducerPath() {
  return getReproducerFlags().path;
}

LogicalResult mlir::optimus::enableReproducer(PassManager &passes) {
  std::string path = getReproducerPath();
  if (path.empty())
    return success();
  bool isLocal = getReproducerFlags().isLocal;
  if (isLocal && passes.getContext()->isMultithreadingEnabled())
    return emitError(UnknownLoc::get(passes.getContext()))
           << "--" << kLocalReproducer << " needs --mlir-disable-threading";
  passes.enableCrashReproducerGeneration(
      [path](std::string &error) -> std::unique_ptr<ReproducerStream> {
        auto stream = OutputStream::open(path);
        if (stream.ok())
          return std::make_unique<ReproducerFile>(path, *std::move(stream));
        error = stream.status().message();
        return nullptr;
      },
      isLocal);
  return success();
}

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

static constexpr char kTraces[] = "debug-only";

namespace {
class TraceParser : public cl::parser<std::string> {
public:
  using parser::parser;

  bool parse(cl::Option &option, StringRef, StringRef names, std::string &) {
#ifdef NDEBUG
    return option.error("expected a build with traces, found one without; "
                        "configure it with cmake --preset asserts");
#else
    std::vector<std::string> types;
    for (StringRef name : llvm::split(names, ','))
      types.push_back(name.str());
    auto pointers = llvm::map_to_vector(
        types, [](const std::string &type) { return type.c_str(); });
    llvm::DebugFlag = true;
    llvm::setCurrentDebugTypes(pointers.data(), pointers.size());
    return false;
#endif
  }
};
} // namespace

void mlir::optimus::declareTraceFlag() {
  if (cl::getRegisteredOptions().contains(kTraces))
    return;
  static cl::opt<std::string, /*ExternalStorage=*/false, TraceParser> flag{
      kTraces, cl::value_desc("passes"), cl::Hidden,
      cl::desc("Print what these passes decide and why, as optimus-shard")};
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

void mlir::optimus::declareMlirFlags() {
  registerMLIRContextCLOptions();
  registerAsmPrinterCLOptions();
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  declareReproducerFlags();
  declareTraceFlag();
}

static constexpr StringLiteral kPrintsOperation = "mlir-print-op-on-diagnostic";

/// Sets a flag of MLIR's that the user has not given.
static void setFlag(StringRef name, StringRef value) {
  cl::Option *flag = cl::getRegisteredOptions().lookup(name);
  if (flag && flag->getNumOccurrences() == 0)
    flag->addOccurrence(0, name, value, /*MultiArg=*/true);
}

void mlir::optimus::setContextFlags() {
  if (chooseThreading() == MLIRContext::Threading::DISABLED)
    setFlag("mlir-disable-threading", "true");
  setFlag(kPrintsOperation, "false");
}

bool mlir::optimus::printsOpOnDiagnostic() {
  cl::Option *flag = cl::getRegisteredOptions().lookup(kPrintsOperation);
  return flag && static_cast<cl::opt<bool> *>(flag)->getValue();
}

LogicalResult mlir::optimus::applyMlirFlags(PassManager &passes,
                                            TimingScope &timing) {
  if (failed(applyPassManagerCLOptions(passes)) ||
      failed(enableReproducer(passes)))
    return failure();
  // Last, so that it does not count the time of other instrumentations.
  passes.enableTiming(timing);
  return success();
}

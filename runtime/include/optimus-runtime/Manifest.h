//===- Manifest.h - What the runtime knows of a model -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest of a model library (docs/manifest.md) as plain structures.
// Everything in a parsed manifest has been checked: indices are in range,
// products of extents fit int64_t, shards cover their tensors, and all buffers
// of a rank together fit int64_t bytes.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MANIFEST_H
#define OPTIMUS_RUNTIME_MANIFEST_H

#include "optimus-runtime/CheckpointPieces.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/ModelRecord.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/Initialize.h"
#include "optimus-support/Mesh.h"
#include "optimus-support/Shard.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

using optimus_support::ElementType;
using optimus_support::Mesh;
using optimus_support::ShardLayout;

/// A class of dimensions, sharded by some axis or padded.
struct Dimension {
  std::string name;
  int64_t size = 0;
  int64_t padded = 0;    ///< at least size
  std::vector<int> axes; ///< mesh axes that shard it in some tensor
};

/// How long what a buffer holds is needed.
enum class Lifetime {
  Parameter, ///< as long as the model, which it is
  State,     ///< as long as the model
  Sequence,  ///< for a sequence of calls: a step's, or a decoded text's
  Call,
};

/// When a buffer is set back to its initial value.
enum class Reset {
  Never,
  Step,     ///< before the first call of a step
  Sequence, ///< before the first call of a sequence
  Call,     ///< before each call
};

/// Who writes a buffer.
enum class FilledBy {
  Program, ///< functions alone
  Data, ///< its role says what of the batch: "tokens", "targets" or "positions"
  Host, ///< the caller: scalars and random words
};

/// What a function is called for. A caller asks for a kind; names are for
/// people.
enum class EntryKind {
  Train,      ///< a step of training
  Eval,       ///< the loss, on average over random draws
  Grad,       ///< the loss and its gradients
  Accumulate, ///< adds those of a microbatch up
  Update,     ///< ends a step of microbatches
  Forward,    ///< the logits of a batch
  Prefill,    ///< puts a chunk of a prompt into a slot of a cache; its logits
  Decode,     ///< puts a token into each slot; the logits of the next ones
  Score,      ///< a prefill; the log-probabilities of given tokens
  Prepare,    ///< makes of parameters what other calls of a sequence read
  Other,
};

/// Whether functions of a kind read and write the cache of texts.
inline bool generates(EntryKind kind) {
  return kind == EntryKind::Prefill || kind == EntryKind::Decode ||
         kind == EntryKind::Score;
}

/// What a function does to a buffer.
enum class Access {
  Read,
  Write,  ///< whatever was in it
  Update, ///< reads it, and leaves a result in its memory
};

/// Where a checkpoint has a buffer.
struct SavedTensor {
  CheckpointFile file = CheckpointFile::Model;
  std::string name;
  /// The tensor's. One that is a buffer's alone has its elements in their
  /// row-major order.
  std::vector<int64_t> shape;
  /// One of several buffers is rows of so many elements, of each of which a
  /// buffer has the same number, from `begin` on. 0 where there is one.
  int64_t row = 0, begin = 0;

  int64_t numRows() const {
    return row ? optimus_support::numElements(shape) / row : 1;
  }
};

/// Memory of the model that functions are passed.
struct Buffer {
  std::string name;
  /// Its meaning, for people and for lookups: "parameter", "exp_avg", "tokens",
  /// "lr", "loss_sum".
  std::string role;
  ElementType type = ElementType::F32;
  ShardLayout layout; ///< of no dimensions: a scalar
  /// Mesh axes over which ranks hold partial sums of it.
  std::vector<int> unreduced;
  int64_t of = -1; ///< the parameter that it belongs to, or -1
  Lifetime lifetime = Lifetime::Call;
  /// Nothing: what is in it at first is not read.
  std::optional<optimus_support::Initializer> init;
  Reset reset = Reset::Never;
  FilledBy filledBy = FilledBy::Program;
  std::optional<SavedTensor> saved;
  bool decay = false; ///< of a parameter: whether weight decay applies

  /// Of a rank.
  int64_t numBytes() const {
    return layout.numLocalElements() * optimus_support::elementBytes(type);
  }
  /// Whether it keeps keys or values of texts: [slots, context, …].
  bool isCache() const {
    return lifetime == Lifetime::Sequence && reset == Reset::Sequence &&
           of < 0 && layout.shape.size() >= 3 && layout.shape[0] > 0 &&
           layout.shape[1] > 0;
  }
  /// Whether an entry of kind Prepare makes it of its parameter.
  bool isPrepared() const {
    return lifetime == Lifetime::Sequence && of >= 0 && !init &&
           reset == Reset::Never;
  }
  /// Whether its elements are floats, of which f32 has every value.
  bool isFloat() const {
    return type == ElementType::F32 || type == ElementType::BF16 ||
           type == ElementType::F16;
  }
  /// Whether it is one f32, alike on all ranks.
  bool isNumber() const {
    return type == ElementType::F32 && layout.shape.empty() &&
           unreduced.empty();
  }
};

/// One entry of a function's args[].
struct Arg {
  int64_t buffer = 0; ///< its index
  Access access = Access::Read;
  /// Of gradients and logits: their relative rounding error in units of 2^-24,
  /// if the program handed on relative errors as they are.
  std::optional<double> rounding;
};

/// Communication of one call on one mesh axis, summed over ranks.
struct AxisTraffic {
  int axis = 0; ///< index in the mesh
  int64_t bytes = 0;
  int64_t messages = 0; ///< collectives that one rank starts
};

/// The compiler's prediction for one call, and the cost of overlapping
/// communication with computation.
struct Schedule {
  double stepMs = 0;
  double commMs = 0;    ///< all collectives, one after the other
  double exposedMs = 0; ///< of them, what is waited for
  int64_t extraWorkspaceBytes = 0;
  int64_t notOverlapped = 0;  ///< collectives that overlap with nothing
  int64_t outOfWorkspace = 0; ///< of them, those for want of workspace
};

struct Function {
  std::string name;
  EntryKind kind = EntryKind::Other;
  /// Sequences of the global batch that it reads, and their tokens; 0: none.
  int64_t batch = 0, sequence = 0;
  /// Keys of a cache that a token sees at most, its own among them; 0: all.
  int64_t window = 0;
  std::vector<Arg> args;
  int64_t commands = 0; ///< command ids are below it
  int64_t arenaBytes = 0;
  int64_t lowerBoundBytes = 0;              ///< most bytes live at once
  std::map<std::string, int64_t> peakBytes; ///< by category
  std::vector<AxisTraffic> communication;
  std::optional<Schedule> schedule;
  /// The names of attentions by what computes them, where a target has a choice
  /// ("builtin", or its library's name).
  std::map<std::string, std::vector<std::string>> attention;

  /// The argument that is a buffer, or null.
  const Arg *findArg(int64_t buffer) const;
};

/// The input that says where pages of a cache are, [slots, pages of a context]:
/// optimus-support/CachePages.h.
inline constexpr const char *kPageTable = "pages";

/// Pages of a cache, by their numbers.
struct PageRange {
  int64_t first, count;
};

/// The memory of a function for generation.
struct CacheExtents {
  int64_t slots = 0;         ///< texts
  int64_t context = 0;       ///< tokens of each
  int64_t bytesPerToken = 0; ///< of a text, on all ranks together
  /// Pages in all, as many for each slot; 0 where a slot has its whole context.
  int64_t pages = 0;
  /// Slots with the same pages: as many as a rank holds. 0 without pages.
  int64_t slotsOfPool = 0;
  /// Keys that a token sees at most, its own among them; 0: all before it.
  int64_t window = 0;

  /// Pages that there are for each slot; none may be asked for without slots.
  int64_t pagesOfSlot() const { return pages / slots; }
  /// The pages that a slot may have: those of its ranks.
  PageRange poolOf(int64_t slot) const;
  /// Pages that a text needs at a time at most: of a call's tokens, up to so
  /// many, and of the window before them.
  int64_t pagesAtOnce(int64_t tokensOfCall) const;
  /// Tokens of such a text at most: of the context, or of its pages.
  int64_t tokensOfOne(int64_t tokensOfCall) const;
  /// Tokens that the cache has for each slot where all have as many.
  int64_t tokensOfEach() const;
  /// Then the pages of each of the first slots; none without pages.
  std::vector<std::vector<int32_t>> pagesOfEach(int64_t count) const;

  bool operator==(const CacheExtents &) const = default;
};

/// What a call leaves behind, in the order of its arguments.
struct Effects {
  std::vector<int64_t> changed;  ///< buffers that outlive the call
  std::vector<int64_t> returned; ///< buffers of the call
};

struct Manifest {
  int64_t format = 0;
  std::string compiler;
  std::string sourceHash; ///< 16 hexadecimal digits
  std::string modelHash;  ///< 16 hexadecimal digits
  std::string target = "cpu"; ///< the device that its programs are for
  /// Of a processor, LLVM's names.
  std::string targetCpu;
  std::vector<std::string> targetFeatures;
  /// Whether the library has no kernels, so that nothing runs it.
  bool isPlan = false;
  Mesh mesh;
  /// Of each rank, the node on which it is meant to run; empty where nothing is
  /// known of nodes.
  std::vector<int64_t> nodes;
  std::string strategy;
  int64_t batch = 0; ///< sequences of the global batch
  int64_t sequence = 0;
  int64_t vocabulary = 0;
  /// Nothing where the objective is the next token.
  std::optional<MaskedObjective> masked;
  std::string optimizer;
  /// The text of the model's config.json, in the fields of Transformers; empty
  /// where it has no class there.
  std::string config;
  /// The text of the adapter_config.json of its adapters; empty where it has
  /// none.
  std::string adapter;
  /// Nothing where the compiler did not see the whole program.
  std::optional<ModelFunction> function;
  /// Facts stated by its operations without influence on the function.
  ModelFacts incidental;
  /// Of what activations and factors of products are.
  ElementType precision = ElementType::F32;
  std::vector<Dimension> dimensions;
  std::vector<Buffer> buffers;
  std::map<std::string, int64_t, std::less<>> bufferIndices; ///< by name
  std::vector<Function> functions;

  /// All functions for a message: "train_step (train, batch 4 of 16 tokens)".
  std::string describeFunctions() const;
  /// The function called `name`, or null.
  const Function *findFunction(std::string_view name) const;
  /// Whether there is a function of a kind.
  bool has(EntryKind kind) const;
  /// The functions that prepare arguments of this one.
  std::vector<const Function *> findPreparersOf(const Function &function) const;
  /// The function of a kind, of that name where it is not empty.
  /// InvalidArgument where there is none, or several without a name: with the
  /// functions that there are, and a remedy. `library` is for messages, and so
  /// is `naming`, how one of several is named.
  StatusOr<const Function *>
  findEntry(std::string_view library, EntryKind kind,
            std::string_view name = {},
            std::string_view naming = "expected one") const;
  /// The function that a user names by its kind or its name. Errors as above.
  StatusOr<const Function *> findFunctionOrKind(std::string_view library,
                                                std::string_view text) const;
  /// A buffer that a function writes, by name. InvalidArgument with those that
  /// it does write where it is none.
  StatusOr<int64_t> findOutput(std::string_view library,
                               const Function &function,
                               std::string_view name) const;
  /// Checks the last token of a document: models that keep documents apart ask
  /// for one, others refuse it. `option` is how it was given.
  Status checkDocumentEnd(std::string_view library,
                          std::optional<int64_t> token,
                          std::string_view option) const;
  /// The buffer called `name`, or nothing.
  std::optional<int64_t> findBuffer(std::string_view name) const;
  /// The first buffer with a role, of a parameter or of none, or nothing.
  std::optional<int64_t> findRole(std::string_view role, int64_t of = -1) const;
  /// What a function of the kind Forward is called for: its logits, or the
  /// hidden states of a model without a head.
  std::optional<int64_t> findForwardOutput(const Function &function) const;
  /// The indices of the buffers that live so long, in order.
  std::vector<int64_t> buffersOfLifetime(Lifetime lifetime) const;
  /// The tensors of a checkpoint's file, in the order of their first buffers.
  std::vector<TensorInfo> savedTensors(CheckpointFile file) const;
  /// The names in a checkpoint of the parameters that steps change; empty where
  /// these are all.
  std::vector<std::string> trainedParameters() const;
  /// What a checkpoint keeps of it.
  ModelRecord record() const;
  /// Elements of all parameters, unpadded.
  int64_t numParamElements() const;

  /// What a function changes and returns: all that follows from its accesses.
  Effects effectsOf(const Function &function) const;
  /// The cache of a function, which all its buffers of keys and values fit, or
  /// nothing where it has none, or several.
  std::optional<CacheExtents> cacheOf(const Function &function) const;
  /// Whether a function changes something that lives so long.
  bool changes(const Function &function, Lifetime lifetime) const;
};

/// The manifest's spelling: "state", "step", "host", "update".
std::string_view toString(Lifetime lifetime);
std::string_view toString(Reset reset);
std::string_view toString(FilledBy filledBy);
std::string_view toString(Access access);
std::string_view toString(EntryKind kind);
/// The kind of that spelling, or nothing.
std::optional<EntryKind> parseEntryKind(std::string_view text);

/// Reads and checks a manifest. A failure is InvalidArgument and names the
/// entry, for instance "buffers[3].local_shape[1]".
StatusOr<Manifest> parseManifest(std::string_view json);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MANIFEST_H

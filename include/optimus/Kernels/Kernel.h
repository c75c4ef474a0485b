//===- Kernel.h - A kernel as data ------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel is a function
//
//   func.func private @name(%begin: index, %end: index,
//                           memref<NxT>..., scalars...)
//       attributes {exec.kernel}
//
// on flat, contiguous, row-major buffers, buffers before scalars. It does
// iterations [begin, end) of its iteration space; iterations are independent
// and each runs the same instructions whatever the split, so any division
// among threads gives the same bits.
//
// What a kernel computes is a small struct with its parameters (NormKernels.h
// and its neighbours); it describes its operands and writes its body over a
// KernelBuilder. How many elements an iteration covers, and in which vectors, a
// target's KernelSchedule decides.
//
// A kernel struct is declared by its members and one line,
//
//   struct RowMax {
//     int64_t rows, cols;
//     OPTIMUS_KERNEL("row_max", rows, cols);
//   };
//
// defines `describe` and `build`, and stands in the table of KernelKinds.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_KERNEL_H
#define OPTIMUS_KERNELS_KERNEL_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

#include <memory>
#include <optional>
#include <string>

namespace mlir::optimus {

class Kernel;
class KernelBuilder;

namespace kernels {
struct RowStage;
} // namespace kernels

/// What a kernel does to the elements of a buffer; the bits of exec.launch.
enum class KernelAccess : int32_t { Read = 1, Write = 2, Update = 3 };

/// A buffer that a kernel is given.
struct KernelOperand {
  std::string name;
  Type elementType;
  int64_t extent; ///< its number of elements
  KernelAccess access;
  /// The operands read whose buffer this one may be, the preferred first: every
  /// element is read before it is written. Buffers do not overlap otherwise.
  SmallVector<std::string> places;
  /// What is given begins at a multiple of so many elements of a tensor; 0
  /// where it begins with one.
  int64_t unit = 0;
  /// Of kernels of rows: whether each row has a part of it, as many elements as
  /// all others, that no other row touches.
  bool isOfRows = false;

  /// The bytes that its address is a multiple of where those of tensors are one
  /// of `ofTensors`.
  int64_t getAlignment(int64_t ofTensors) const;
};

/// What the iterations of a kernel range over.
struct IterationSpace {
  enum Kind {
    Elements, ///< rows*cols elements, each computed by itself
    Rows,     ///< rows; the lanes of an iteration may work on one together
    Items,    ///< the same, but the code of an iteration is serial
    Columns   ///< cols columns, each computed by itself
  };
  Kind kind;
  /// Of columns, how many rows each is summed over with `columnSums`; 0 where
  /// the code of an iteration is serial.
  int64_t rows;
  /// Of rows and items, the work in each: how many elements it is worth.
  int64_t cols;
  /// Of rows, how many lanes have work at a time, a power of two; 0 where it is
  /// as many as a row has elements.
  int64_t lanes = 0;
  /// Of rows that several kernels do one after the other, the elements of the
  /// longest; 0 where that is `cols`.
  int64_t longest = 0;
  /// Of rows, the number of consecutive ones with the same reads, so that a
  /// target may do some of them together; 0 where none do.
  int64_t group = 0;
  /// Of rows with sums over columns too, the number done together before such a
  /// sum; 0 elsewhere.
  int64_t together = 0;
  /// Of a launch that does several pieces, the elements, rows or items of each;
  /// empty elsewhere.
  SmallVector<int64_t> pieces = {};

  /// The elements of the longest row.
  int64_t getLength() const { return longest > 0 ? longest : cols; }
};

/// What a caller, a target and a verifier ask of a kernel.
class KernelDescription {
public:
  KernelDescription(MLIRContext *context, StringRef kind)
      : builder(context), stem(kind) {}

  // -- How a kernel describes itself; what is left out of a name is the same
  //    for all kernels of a kind.

  /// Replaces the kind as the beginning of the name.
  void setStem(StringRef text) { stem = text; }
  /// Appends `_name` to it if an option is set.
  void option(StringRef name, bool isSet = true);
  /// Ends the name: `_4096`, `_8x64`, or the bits of a number.
  void size(int64_t n) { suffix += ("_" + Twine(n)).str(); }
  void size(int64_t rows, int64_t cols);
  void number(double value);
  void text(const Twine &text) { suffix += ("_" + text).str(); }
  /// Operands are known by their positions: where types differ, the name lists
  /// them all.
  void setPositional() { isPositional = true; }

  /// Operands in order, of f32 unless said otherwise.
  KernelDescription &read(StringRef name, int64_t extent, Type type = {}) {
    return add(name, extent, KernelAccess::Read, type);
  }
  KernelDescription &write(StringRef name, int64_t extent, Type type = {}) {
    return add(name, extent, KernelAccess::Write, type);
  }
  KernelDescription &update(StringRef name, int64_t extent, Type type = {}) {
    return add(name, extent, KernelAccess::Update, type);
  }
  /// Adds an operand of this name like `operand`, or widens the access of the
  /// present one to include it.
  void share(StringRef name, const KernelOperand &operand);
  /// The last operand may be in place of these.
  KernelDescription &inPlaceOf(ArrayRef<StringRef> names);
  /// The last operand may be a part of a tensor that begins at a multiple of so
  /// many elements.
  KernelDescription &inUnitsOf(int64_t elements) {
    operands.back().unit = elements;
    return *this;
  }
  /// Each row has its part of the last operand.
  KernelDescription &ofRows() {
    operands.back().isOfRows = true;
    return *this;
  }
  /// An i64.
  KernelDescription &scalar(StringRef name) {
    scalars.push_back(name.str());
    return *this;
  }

  void overElements(int64_t rows, int64_t cols) {
    space = {IterationSpace::Elements, rows, cols};
  }
  void overRows(int64_t rows, int64_t work, int64_t lanes = 0) {
    space = {IterationSpace::Rows, rows, work, lanes};
  }
  /// The rows read the same in groups of so many.
  void inGroups(int64_t rows) { space.group = rows; }
  /// So many rows are done together, and then summed in columns.
  void doTogether(int64_t rows) { space.together = rows; }
  /// For several kernels one after the other on each row.
  void overChain(int64_t rows, int64_t work, int64_t longest) {
    space = {IterationSpace::Rows, rows, work, 0, longest};
  }
  void overItems(int64_t rows, int64_t work) {
    space = {IterationSpace::Items, rows, work};
  }
  /// For pieces with iterations like those of `space`, of which each has so
  /// many.
  void overPieces(const IterationSpace &space, ArrayRef<int64_t> counts);
  void overColumns(int64_t cols, int64_t summedRows = 1) {
    space = {IterationSpace::Columns, summedRows, cols};
  }

  MLIRContext *getContext() const { return builder.getContext(); }
  Type f64() { return builder.getF64Type(); }
  Type i32() { return builder.getI32Type(); }

  // -- What is asked of it ----------------------------------------------------

  /// Lets operands have these element types. What is f32 may be a narrower
  /// float; computation stays f32. Fails if another type is given for anything
  /// else.
  LogicalResult setElementTypes(ArrayRef<Type> types);

  /// The name of the kernel's function: equal ones compute the same.
  std::string getName() const;
  const IterationSpace &getSpace() const { return space; }
  ArrayRef<KernelOperand> getOperands() const { return operands; }
  ArrayRef<std::string> getScalars() const { return scalars; }
  /// The position of an operand among them; nothing if there is none.
  std::optional<unsigned> findOperand(StringRef name) const;
  std::optional<unsigned> findScalar(StringRef name) const;
  FunctionType getFunctionType() const;

private:
  /// The types of all read operands, or of all written ones: `bf16_f32`.
  std::string listTypes(KernelAccess access) const;
  KernelDescription &add(StringRef name, int64_t extent, KernelAccess access,
                         Type type);

  mutable Builder builder;
  std::string stem, suffix;
  bool isPositional = false;
  SmallVector<KernelOperand> operands;
  SmallVector<std::string> scalars;
  IterationSpace space = {IterationSpace::Items, 1, 1};
};

/// Goes through the parameters of a kernel, to write them into an attribute or
/// to read them from one.
class KernelParameters {
public:
  virtual ~KernelParameters() = default;

  /// At least 1. All extents of a kernel multiplied, and those of one list, fit
  /// an i64.
  virtual void extent(StringRef name, int64_t &value) = 0;
  virtual void extents(StringRef name, SmallVectorImpl<int64_t> &values) = 0;
  /// From 0.
  virtual void counts(StringRef name, SmallVectorImpl<int64_t> &values) = 0;
  /// Any number, and one that may be missing.
  virtual void integer(StringRef name, int64_t &value) = 0;
  virtual void integer(StringRef name, std::optional<int64_t> &value) = 0;
  virtual void number(StringRef name, double &value) = 0;
  /// May be missing: then there are none.
  virtual void numbers(StringRef name, SmallVectorImpl<double> &values) = 0;
  virtual void flag(StringRef name, bool &value) = 0;
  /// The name of an operation that computes element by element.
  virtual void operation(StringRef name, StringAttr &value) = 0;
  virtual void attributes(StringRef name, DictionaryAttr &value) = 0;
  virtual void stages(StringRef name,
                      SmallVectorImpl<kernels::RowStage> &value) = 0;
  virtual void kernels(StringRef name, SmallVectorImpl<Kernel> &value) = 0;
  virtual void names(StringRef name, SmallVectorImpl<std::string> &value) = 0;
  virtual MLIRContext *getContext() const = 0;
  /// What else must hold of those before: "has …".
  virtual void require(bool holds, StringRef otherwise) = 0;

  /// Each of these members of a kernel by its type; `names` lists theirs.
  template <typename... Members>
  void members(StringRef names, Members &...values) {
    (member(takeName(names), values), ...);
  }

private:
  static StringRef takeName(StringRef &names) {
    auto [name, rest] = names.split(',');
    names = rest.ltrim();
    return name;
  }
  void member(StringRef name, int64_t &value) { extent(name, value); }
  void member(StringRef name, bool &value) { flag(name, value); }
  void member(StringRef name, double &value) { number(name, value); }
  void member(StringRef name, SmallVectorImpl<int64_t> &values) {
    counts(name, values);
  }
  /// A struct that several kernels share.
  template <typename T>
  requires requires(T &value, KernelParameters &p) { value.visit(p); }
  void member(StringRef, T &value) { value.visit(*this); }
};

/// Declares what every kernel struct has: its unique kind and its members as
/// parameters of their own names (an int64_t is an extent, a bool a flag).
#define OPTIMUS_KERNEL(kind, ...)                                              \
  static constexpr StringRef kKind = kind;                                     \
  void visit(KernelParameters &parameters) {                                   \
    parameters.members(#__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__);               \
  }                                                                            \
  void describe(KernelDescription &description) const;                         \
  void build(KernelBuilder &k) const

/// The same of a kernel that defines `visit` itself, as more must hold of its
/// parameters.
#define OPTIMUS_CHECKED_KERNEL(kind)                                           \
  static constexpr StringRef kKind = kind;                                     \
  void visit(KernelParameters &parameters);                                    \
  void describe(KernelDescription &description) const;                         \
  void build(KernelBuilder &k) const

template <typename T>
concept KernelStruct = requires(const T &kernel,
                                KernelDescription &description) {
  T::kKind;
  kernel.describe(description);
};

/// Any kernel.
class Kernel {
public:
  template <KernelStruct T>
  Kernel(T kernel) : self(std::make_shared<Model<T>>(std::move(kernel))) {}

  /// Its description, with the element types that it has by itself.
  KernelDescription describe(MLIRContext *context) const {
    return self->describe(context);
  }
  /// Its kind and parameters: what `exec.computes` of its function is.
  DictionaryAttr getParameters(MLIRContext *context) const;
  /// Those that are no extents.
  DictionaryAttr getForm(MLIRContext *context) const;
  /// The kernel of these parameters; says what is wrong with them if there is
  /// none.
  static FailureOr<Kernel> read(DictionaryAttr parameters,
                                function_ref<InFlightDiagnostic()> emitError);

  /// Writes its body.
  void build(KernelBuilder &builder) const { self->build(builder); }

private:
  struct Concept {
    virtual ~Concept() = default;
    virtual StringRef getKind() const = 0;
    virtual void visit(KernelParameters &parameters) const = 0;
    virtual KernelDescription describe(MLIRContext *context) const = 0;
    virtual void build(KernelBuilder &builder) const = 0;
  };
  template <typename T>
  struct Model final : Concept {
    explicit Model(T kernel) : kernel(std::move(kernel)) {}
    StringRef getKind() const override { return T::kKind; }
    void visit(KernelParameters &parameters) const override {
      T copy = kernel;
      copy.visit(parameters);
    }
    KernelDescription describe(MLIRContext *context) const override {
      KernelDescription description(context, T::kKind);
      kernel.describe(description);
      return description;
    }
    void build(KernelBuilder &builder) const override { kernel.build(builder); }
    T kernel;
  };

  std::shared_ptr<const Concept> self;
};

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_KERNEL_H

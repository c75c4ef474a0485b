//===- KernelLibrary.cpp - Compute kernels, built on demand -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/KernelLibrary.h"

#include "KernelBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/FormatVariadic.h"

#include <string>

using namespace mlir;
using namespace mlir::optimus;

/// Elements that one iteration of an elementwise kernel covers.
static constexpr int64_t kBlock = 4096;
/// Elements that one partial sum of squares covers.
static constexpr int64_t kPartial = 16384;
/// Elements that make a task worth its hand-over, a few microseconds of work.
static constexpr int64_t kTask = 16384;

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// As many rows as make a task.
static int64_t rowGrain(int64_t cols) {
  return std::max<int64_t>(1, kTask / std::max<int64_t>(cols, 1));
}

static std::string nameOf(StringRef kind, int64_t rows, int64_t cols) {
  return llvm::formatv("{0}_{1}x{2}", kind, rows, cols).str();
}

static std::string nameOf(StringRef kind, int64_t n) {
  return llvm::formatv("{0}_{1}", kind, n).str();
}

/// A name's part that tells floating-point options apart.
static std::string bitsOf(double value) {
  return llvm::formatv("{0:x-16}", llvm::bit_cast<uint64_t>(value)).str();
}

namespace {
/// The types of a kernel's operands.
struct OperandTypes {
  explicit OperandTypes(MLIRContext *context) : b(context) {}

  OperandTypes &f32(std::initializer_list<int64_t> sizes) {
    return buffers(sizes, b.getF32Type());
  }
  OperandTypes &f64(std::initializer_list<int64_t> sizes) {
    return buffers(sizes, b.getF64Type());
  }
  OperandTypes &i32(std::initializer_list<int64_t> sizes) {
    return buffers(sizes, b.getI32Type());
  }
  OperandTypes &scalars(int64_t count) {
    types.append(count, b.getI64Type());
    return *this;
  }
  operator ArrayRef<Type>() const { return types; }

private:
  OperandTypes &buffers(std::initializer_list<int64_t> sizes, Type element) {
    for (int64_t size : sizes)
      types.push_back(MemRefType::get({size}, element));
    return *this;
  }

  Builder b;
  SmallVector<Type> types;
};
} // namespace

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

KernelLibrary::KernelLibrary(ModuleOp module) : module(module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kKernelAttr))
      known.insert(function.getSymName());
}

void KernelLibrary::getDependentDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect,
                  vector::VectorDialect>();
}

FlatSymbolRefAttr
KernelLibrary::getOrBuild(StringRef name, ArrayRef<Type> operands,
                          llvm::function_ref<void(KernelBuilder &)> body) {
  MLIRContext *context = module.getContext();
  if (known.insert(name).second) {
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<Type> inputs(2, b.getIndexType());
    llvm::append_range(inputs, operands);
    Location loc = NameLoc::get(b.getStringAttr(name));
    auto function =
        func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
    function.setPrivate();
    function->setAttr(kKernelAttr, b.getUnitAttr());
    b.setInsertionPointToEnd(function.addEntryBlock());
    func::ReturnOp::create(b, loc);
    KernelBuilder kernel(function);
    body(kernel);
  }
  return FlatSymbolRefAttr::get(context, name);
}

/// Blocks of kBlock elements of [0, n): `body(offset, type)`.
static void forBlocks(KernelBuilder &k, int64_t n,
                      function_ref<void(Value, Type)> body) {
  int64_t rest = n % kBlock, whole = n / kBlock;
  k.iterate([&](Value i) {
    Value base = k.mulIndex(i, k.index(kBlock));
    auto cover = [&](int64_t count) {
      k.lanes(count,
              [&](Value at, Type type) { body(k.addIndex(base, at), type); });
    };
    if (rest == 0)
      cover(kBlock);
    else if (whole == 0)
      cover(rest);
    else
      k.when(k.less(i, k.index(whole)), [&] { cover(kBlock); },
             [&] { cover(rest); });
  });
}

static KernelLaunch elementwise(FlatSymbolRefAttr kernel, int64_t n) {
  return {kernel, ceilDiv(n, kBlock), kTask / kBlock};
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

KernelLaunch KernelLibrary::broadcast(StringRef kind, int64_t rows,
                                      int64_t cols) {
  bool isAdd = kind == "add";
  auto combine = [&](Num a, Num b) { return isAdd ? a + b : a * b; };
  OperandTypes types(module.getContext());
  types.f32({rows * cols, cols, rows * cols});
  if (rows == 1)
    return elementwise(getOrBuild(nameOf(kind, cols), types,
                                  [&](KernelBuilder &k) {
      forBlocks(k, cols, [&](Value at, Type type) {
        k.store(combine(k.load(0, at, type), k.load(1, at, type)), 2, at);
      });
    }), cols);

  // An iteration is a row's part of at most kBlock columns.
  int64_t parts = ceilDiv(cols, kBlock);
  int64_t width = ceilDiv(cols, parts);
  int64_t last = cols - (parts - 1) * width;
  auto kernel = getOrBuild(nameOf(kind, rows, cols), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value i) {
      ImplicitLocOpBuilder &b = k.getBuilder();
      Value row = arith::DivUIOp::create(b, i, k.index(parts));
      Value part = arith::RemUIOp::create(b, i, k.index(parts));
      Value column = k.mulIndex(part, k.index(width));
      Value base = k.addIndex(k.mulIndex(row, k.index(cols)), column);
      auto cover = [&](int64_t count) {
        k.lanes(count, [&](Value at, Type type) {
          Value element = k.addIndex(base, at);
          k.store(combine(k.load(0, element, type),
                          k.load(1, k.addIndex(column, at), type)),
                  2, element);
        });
      };
      if (last == width)
        cover(width);
      else
        k.when(k.less(part, k.index(parts - 1)), [&] { cover(width); },
               [&] { cover(last); });
    });
  });
  return {kernel, rows * parts, rowGrain(width)};
}

KernelLaunch KernelLibrary::add(int64_t rows, int64_t cols) {
  return broadcast("add", rows, cols);
}

KernelLaunch KernelLibrary::mul(int64_t rows, int64_t cols) {
  return broadcast("mul", rows, cols);
}

/// For column-parallel kernels: `count` sums over rows [0, rows) of
/// `terms(row, type)`, where `type` is that of a piece of a row. Rows are summed
/// in groups of 256 and the groups' sums then added, which keeps the rounding
/// error of a sum over many rows small.
static KernelBuilder::Terms columnSums(KernelBuilder &k, int64_t rows,
                                       int64_t count, Type type,
                                       KernelBuilder::TermsFn terms) {
  constexpr int64_t group = 256;
  SmallVector<Value> zeros(count, k.constant(0, type).value);
  auto addTo = [&](ValueRange sums, const KernelBuilder::Terms &addends) {
    SmallVector<Value> next;
    for (auto [sum, addend] : llvm::zip_equal(sums, addends))
      next.push_back((k.num(sum) + addend).value);
    return next;
  };
  SmallVector<Value> totals = k.loop(
      k.index(0), k.index(rows), group, zeros, [&](Value first, ValueRange sums) {
        Value end = k.minIndex(k.addIndex(first, k.index(group)), k.index(rows));
        SmallVector<Value> part =
            k.loop(first, end, 1, zeros, [&](Value row, ValueRange partial) {
              return addTo(partial, terms(row, type));
            });
        KernelBuilder::Terms addends;
        for (Value value : part)
          addends.push_back(k.num(value));
        return addTo(sums, addends);
      });
  KernelBuilder::Terms result;
  for (Value total : totals)
    result.push_back(k.num(total));
  return result;
}

KernelLaunch KernelLibrary::sumLeading(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, cols});
  auto kernel = getOrBuild(nameOf("sum_leading", rows, cols), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value i) {
      k.columns(i, cols, [&](Value column, Type type) {
        auto sums = columnSums(k, rows, 1, type, [&](Value row, Type type) {
          Value at = k.addIndex(k.mulIndex(row, k.index(cols)), column);
          return KernelBuilder::Terms{k.load(0, at, type)};
        });
        k.store(sums[0], 1, column);
      });
    });
  });
  return {kernel, KernelBuilder::getNumColumnBlocks(cols), 1};
}

/// √(2/π) and the cubic coefficient of GELU's tanh form.
static constexpr double kGeluScale = 0.7978845608028654;
static constexpr double kGeluCubic = 0.044715;

/// With u = √(2/π)(x + 0.044715 x³), GELU(x) = x/2·(1 + tanh u) = x·s where
/// s = 1/(1 + e^(−2u)). Returns e^(−2u).
static Num geluExp(KernelBuilder &k, Num x, Num square) {
  return k.exp(x * (square * (-2 * kGeluScale * kGeluCubic) - 2 * kGeluScale));
}

KernelLaunch KernelLibrary::gelu(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, n});
  return elementwise(getOrBuild(nameOf("gelu", n), types,
                                [&](KernelBuilder &k) {
    forBlocks(k, n, [&](Value at, Type type) {
      Num x = k.load(0, at, type);
      k.store(x / (1.0 + geluExp(k, x, x * x)), 1, at);
    });
  }), n);
}

KernelLaunch KernelLibrary::geluWithSlope(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n});
  return elementwise(getOrBuild(nameOf("gelu_with_slope", n), types,
                                [&](KernelBuilder &k) {
    forBlocks(k, n, [&](Value at, Type type) {
      Num x = k.load(0, at, type);
      Num square = x * x;
      Num e = geluExp(k, x, square);
      Num s = 1.0 / (1.0 + e);
      // s' = s(1 − s)·(2u)' with 1 − s = e·s.
      Num slope2u = square * (6 * kGeluScale * kGeluCubic) + 2 * kGeluScale;
      k.store(x * s, 1, at);
      k.store(s + x * slope2u * (e * s) * s, 2, at);
    });
  }), n);
}

KernelLaunch KernelLibrary::sqrt(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, n});
  return elementwise(getOrBuild(nameOf("sqrt", n), types,
                                [&](KernelBuilder &k) {
    forBlocks(k, n, [&](Value at, Type type) {
      k.store(k.sqrt(k.load(0, at, type)), 1, at);
    });
  }), n);
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

KernelLaunch KernelLibrary::layerNorm(int64_t rows, int64_t n, double epsilon) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, n, n, rows * n, rows, rows});
  auto kernel = getOrBuild((Twine(nameOf("layer_norm", rows, n)) + "_" + bitsOf(epsilon)).str(),
                           types, [&](KernelBuilder &k) {
    k.iterate([&](Value row) {
      Value base = k.mulIndex(row, k.index(n));
      auto load = [&](Value at, Type type) {
        return k.load(0, k.addIndex(base, at), type);
      };
      Num mean = k.sums(n, 1, [&](Value at, Type type) {
        return KernelBuilder::Terms{load(at, type)};
      })[0] * (1.0 / n);
      Num variance = k.sums(n, 1, [&](Value at, Type type) {
        Num d = load(at, type) - mean;
        return KernelBuilder::Terms{d * d};
      })[0] * (1.0 / n);
      Num rstd = 1.0 / k.sqrt(variance + epsilon);
      k.store(mean, 4, row);
      k.store(rstd, 5, row);
      k.lanes(n, [&](Value at, Type type) {
        Num normal = (load(at, type) - mean) * rstd;
        k.store(normal * k.load(1, at, type) + k.load(2, at, type), 3,
                k.addIndex(base, at));
      });
    });
  });
  return {kernel, rows, rowGrain(n)};
}

namespace {
/// dŷ = dy·gamma and x̂ = (x − mean)·rstd of a row; the operands are dy, x, mean,
/// rstd, gamma.
struct NormRow {
  NormRow(KernelBuilder &k, Value row, int64_t n)
      : k(k), base(k.mulIndex(row, k.index(n))), mean(k.loadScalar(2, row)),
        rstd(k.loadScalar(3, row)) {}

  Num getDy(Value at, Type type) {
    return k.load(0, k.addIndex(base, at), type) * k.load(4, at, type);
  }
  Num getX(Value at, Type type) {
    return (k.load(1, k.addIndex(base, at), type) - mean) * rstd;
  }
  KernelBuilder::Terms getSums(int64_t n) {
    return k.sums(n, 2, [&](Value at, Type type) {
      Num dy = getDy(at, type);
      return KernelBuilder::Terms{dy, dy * getX(at, type)};
    });
  }
  /// rstd·(dŷ − a − x̂·b) + residual, stored to operand `result`.
  void apply(Value at, Type type, Num a, Num b, int64_t residual,
             int64_t result) {
    Num dx = (getDy(at, type) - a - getX(at, type) * b) * rstd;
    Value element = k.addIndex(base, at);
    if (residual >= 0)
      dx = dx + k.load(residual, element, type);
    k.store(dx, result, element);
  }

  KernelBuilder &k;
  Value base;
  Num mean, rstd;
};
} // namespace

KernelLaunch KernelLibrary::layerNormGrad(int64_t rows, int64_t n,
                                          bool hasResidual) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n});
  if (hasResidual)
    types.f32({rows * n});
  types.f32({rows * n});
  StringRef kind = hasResidual ? "layer_norm_grad_residual" : "layer_norm_grad";
  auto kernel = getOrBuild(nameOf(kind, rows, n), types, [&](KernelBuilder &k) {
    k.iterate([&](Value row) {
      NormRow norm(k, row, n);
      auto sums = norm.getSums(n);
      Num a = sums[0] * (1.0 / n), b = sums[1] * (1.0 / n);
      k.lanes(n, [&](Value at, Type type) {
        norm.apply(at, type, a, b, hasResidual ? 5 : -1, hasResidual ? 6 : 5);
      });
    });
  });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch KernelLibrary::normParamGrad(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n, n});
  auto kernel = getOrBuild(nameOf("norm_param_grad", rows, n), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value i) {
      k.columns(i, n, [&](Value column, Type type) {
        auto sums = columnSums(k, rows, 2, type, [&](Value row, Type type) {
          Value at = k.addIndex(k.mulIndex(row, k.index(n)), column);
          Num dy = k.load(0, at, type);
          Num x = (k.load(1, at, type) - k.loadScalar(2, row)) *
                  k.loadScalar(3, row);
          return KernelBuilder::Terms{dy * x, dy};
        });
        k.store(sums[0], 4, column);
        k.store(sums[1], 5, column);
      });
    });
  });
  return {kernel, KernelBuilder::getNumColumnBlocks(n), 1};
}

KernelLaunch KernelLibrary::rowMoments(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * 2}).scalars(1);
  auto kernel = getOrBuild(nameOf("row_moments", rows, n), types,
                           [&](KernelBuilder &k) {
    Value real = k.indexArg(2);
    // With no real element both sums are 0, whatever they are divided by.
    Value divisor = k.maxIndex(real, k.index(1));
    ImplicitLocOpBuilder &b = k.getBuilder();
    Num count = k.num(arith::SIToFPOp::create(
        b, k.f32(), arith::IndexCastOp::create(b, b.getI64Type(), divisor)));
    k.iterate([&](Value row) {
      Value base = k.mulIndex(row, k.index(n));
      auto load = [&](Value at, Type type) {
        return k.load(0, k.addIndex(base, at), type);
      };
      Num mean = k.sums(real, 1, [&](Value at, Type type) {
        return KernelBuilder::Terms{load(at, type)};
      })[0] / count;
      Num squares = k.sums(real, 1, [&](Value at, Type type) {
        Num d = load(at, type) - mean;
        return KernelBuilder::Terms{d * d};
      })[0];
      Value at = k.mulIndex(row, k.index(2));
      k.store(mean, 1, at);
      k.store(squares, 1, k.addIndex(at, k.index(1)));
    });
  });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch KernelLibrary::mergeMoments(int64_t rows, ArrayRef<int64_t> counts,
                                         double epsilon) {
  int64_t parts = counts.size();
  OperandTypes types(module.getContext());
  types.f32({rows * 2 * parts, rows, rows});
  std::string name = nameOf("merge_moments", rows);
  for (int64_t count : counts)
    name += ("_" + Twine(count)).str();
  auto kernel = getOrBuild((Twine(name) + "_" + bitsOf(epsilon)).str(), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value row) {
      Value base = k.mulIndex(row, k.index(2 * parts));
      auto moment = [&](int64_t element) {
        return k.loadScalar(0, k.addIndex(base, k.index(element)));
      };
      // Chan's formula, in rank order; parts without elements add nothing.
      Num mean = k.constant(0, k.f32()), squares = mean;
      int64_t total = 0;
      for (auto [part, count] : llvm::enumerate(counts)) {
        if (count == 0)
          continue;
        Num partMean = moment(2 * part), partSquares = moment(2 * part + 1);
        if (total == 0) {
          mean = partMean;
          squares = partSquares;
          total = count;
          continue;
        }
        double a = total, b = count, both = a + b;
        Num delta = partMean - mean;
        mean = mean + delta * (b / both);
        squares = squares + partSquares + delta * delta * (a * b / both);
        total += count;
      }
      Num variance = squares * (1.0 / std::max<int64_t>(total, 1));
      k.store(mean, 1, row);
      k.store(1.0 / k.sqrt(variance + epsilon), 2, row);
    });
  });
  return {kernel, rows, 1024};
}

KernelLaunch KernelLibrary::normalize(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows, rows, n, n, rows * n});
  auto kernel = getOrBuild(nameOf("normalize", rows, n), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value row) {
      Value base = k.mulIndex(row, k.index(n));
      Num mean = k.loadScalar(1, row), rstd = k.loadScalar(2, row);
      k.lanes(n, [&](Value at, Type type) {
        Value element = k.addIndex(base, at);
        Num normal = (k.load(0, element, type) - mean) * rstd;
        k.store(normal * k.load(3, at, type) + k.load(4, at, type), 5, element);
      });
    });
  });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch KernelLibrary::normGradSums(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n, rows * 2});
  auto kernel = getOrBuild(nameOf("norm_grad_sums", rows, n), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value row) {
      auto sums = NormRow(k, row, n).getSums(n);
      Value at = k.mulIndex(row, k.index(2));
      k.store(sums[0], 5, at);
      k.store(sums[1], 5, k.addIndex(at, k.index(1)));
    });
  });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch KernelLibrary::normGradApply(int64_t rows, int64_t n, int64_t size,
                                          bool hasResidual) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n, rows * 2});
  if (hasResidual)
    types.f32({rows * n});
  types.f32({rows * n}).scalars(1);
  StringRef kind = hasResidual ? "norm_grad_apply_residual" : "norm_grad_apply";
  std::string name = (Twine(nameOf(kind, rows, n)) + "_" + Twine(size)).str();
  auto kernel = getOrBuild(name, types, [&](KernelBuilder &k) {
    int64_t result = hasResidual ? 7 : 6;
    Value real = k.indexArg(result + 1);
    k.iterate([&](Value row) {
      NormRow norm(k, row, n);
      Value at = k.mulIndex(row, k.index(2));
      Num a = k.loadScalar(5, at) * (1.0 / size);
      Num b = k.loadScalar(5, k.addIndex(at, k.index(1))) * (1.0 / size);
      k.lanes(real, [&](Value at, Type type) {
        norm.apply(at, type, a, b, hasResidual ? 6 : -1, result);
      });
      Num zero = k.constant(0, k.f32());
      k.loop(real, k.index(n), 1, [&](Value at) {
        k.store(zero, result, k.addIndex(norm.base, at));
      });
    });
  });
  return {kernel, rows, rowGrain(n)};
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// Calls `inside(row)` if the table's rows [first, first + rows) hold the entry
/// at `position` of the i32 buffer, else `outside`.
static void whenInTable(KernelBuilder &k, int64_t buffer, Value position,
                        Value first, int64_t rows,
                        function_ref<void(Value)> inside,
                        function_ref<void()> outside = nullptr) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value entry = arith::IndexCastOp::create(b, b.getIndexType(),
                                           k.loadElement(buffer, position));
  Value row = k.subIndex(entry, first);
  // Unsigned, so that a negative row is out of bounds too; a negative entry
  // never counts, wherever the table begins.
  Value within = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row,
                                       k.index(rows));
  Value valid = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, entry,
                                      k.index(0));
  k.when(k.both(within, valid), [&] { inside(row); }, outside);
}

KernelLaunch KernelLibrary::embedding(int64_t count, int64_t rows,
                                      int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols}).i32({count}).f32({count * cols}).scalars(1);
  auto kernel = getOrBuild(nameOf(("embedding_" + Twine(count)).str(), rows, cols), types,
                            [&](KernelBuilder &k) {
    Value first = k.indexArg(3);
    k.iterate([&](Value token) {
      Value base = k.mulIndex(token, k.index(cols));
      whenInTable(k, 1, token, first, rows, [&](Value row) {
        Value from = k.mulIndex(row, k.index(cols));
        k.lanes(cols, [&](Value at, Type type) {
          k.store(k.load(0, k.addIndex(from, at), type), 2,
                  k.addIndex(base, at));
        });
      }, [&] {
        k.lanes(cols, [&](Value at, Type type) {
          k.store(k.constant(0, type), 2, k.addIndex(base, at));
        });
      });
    });
  });
  return {kernel, count, rowGrain(cols)};
}

KernelLaunch KernelLibrary::embeddingGrad(int64_t count, int64_t rows,
                                          int64_t cols, bool zero) {
  OperandTypes types(module.getContext());
  types.f32({count * cols}).i32({count}).f32({rows * cols}).scalars(1);
  StringRef prefix = zero ? "embedding_grad_" : "embedding_grad_add_";
  std::string kind = (prefix + Twine(count)).str();
  auto kernel = getOrBuild(nameOf(kind, rows, cols), types, [&](KernelBuilder &k) {
    Value first = k.indexArg(3);
    k.iterate([&](Value i) {
      k.columns(i, cols, [&](Value column, Type type) {
        if (zero)
          k.loop(k.index(0), k.index(rows), 1, [&](Value row) {
            k.store(k.constant(0, type), 2,
                    k.addIndex(k.mulIndex(row, k.index(cols)), column));
          });
        k.loop(k.index(0), k.index(count), 1, [&](Value token) {
          whenInTable(k, 1, token, first, rows, [&](Value row) {
            Value from = k.addIndex(k.mulIndex(token, k.index(cols)), column);
            Value to = k.addIndex(k.mulIndex(row, k.index(cols)), column);
            k.store(k.load(2, to, type) + k.load(0, from, type), 2, to);
          });
        });
      });
    });
  });
  return {kernel, KernelBuilder::getNumColumnBlocks(cols), 1};
}

//===----------------------------------------------------------------------===//
// Head and loss
//===----------------------------------------------------------------------===//

static Num rowMaximum(KernelBuilder &k, Value base, Value real) {
  return k.maximum(real, [&](Value at, Type type) {
    return k.load(0, k.addIndex(base, at), type);
  });
}

/// The body of expSum for one row of logits in operand 0.
static void expRow(KernelBuilder &k, Value row, int64_t cols, Num max,
                   int64_t targets, int64_t sums, Value first, Value real) {
  Value base = k.mulIndex(row, k.index(cols));
  Value out = k.mulIndex(row, k.index(2));
  Value outTarget = k.addIndex(out, k.index(1));
  // Before the row is overwritten.
  k.store(k.constant(0, k.f32()), sums, outTarget);
  whenInTable(k, targets, row, first, cols, [&](Value column) {
    k.when(k.less(column, real), [&] {
      Num logit = k.loadScalar(0, k.addIndex(base, column));
      k.store(logit - max, sums, outTarget);
    });
  });
  Num total = k.sums(real, 1, [&](Value at, Type type) {
    Value element = k.addIndex(base, at);
    Num e = k.exp(k.load(0, element, type) - max);
    k.store(e, 0, element);
    return KernelBuilder::Terms{e};
  })[0];
  k.store(total, sums, out);
  k.loop(real, k.index(cols), 1, [&](Value at) {
    k.store(k.constant(0, k.f32()), 0, k.addIndex(base, at));
  });
}

KernelLaunch KernelLibrary::rowMax(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, rows}).scalars(1);
  auto kernel = getOrBuild(nameOf("row_max", rows, cols), types,
                           [&](KernelBuilder &k) {
    Value real = k.indexArg(2);
    k.iterate([&](Value row) {
      k.store(rowMaximum(k, k.mulIndex(row, k.index(cols)), real), 1, row);
    });
  });
  return {kernel, rows, rowGrain(cols)};
}

KernelLaunch KernelLibrary::expSum(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, rows}).i32({rows}).f32({rows * 2}).scalars(2);
  auto kernel = getOrBuild(nameOf("exp_sum", rows, cols), types,
                           [&](KernelBuilder &k) {
    Value first = k.indexArg(4), real = k.indexArg(5);
    k.iterate([&](Value row) {
      expRow(k, row, cols, k.loadScalar(1, row), 2, 3, first, real);
    });
  });
  return {kernel, rows, rowGrain(cols)};
}

/// Whether the target of a row is real.
static Value isReal(KernelBuilder &k, int64_t targets, Value row) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                               k.loadElement(targets, row), zero);
}

KernelLaunch KernelLibrary::tokenLoss(int64_t rows) {
  OperandTypes types(module.getContext());
  types.f32({rows * 2}).i32({rows}).f32({rows});
  auto kernel = getOrBuild(nameOf("token_loss", rows), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value row) {
      Value at = k.mulIndex(row, k.index(2));
      Num total = k.widen(k.loadScalar(0, at));
      Num target = k.widen(k.loadScalar(0, k.addIndex(at, k.index(1))));
      Num loss = k.narrow(k.log(total) - target);
      k.store(k.select(isReal(k, 1, row), loss, k.constant(0, k.f32())), 2, row);
    });
  });
  return {kernel, rows, 512};
}

/// The body of logitsGrad for one row of exponentials in operand 0.
static void gradRow(KernelBuilder &k, Value row, int64_t cols, int64_t targets,
                    int64_t sums, Value first) {
  Value base = k.mulIndex(row, k.index(cols));
  k.when(isReal(k, targets, row), [&] {
    Num inverse = 1.0 / k.loadScalar(sums, k.mulIndex(row, k.index(2)));
    k.lanes(cols, [&](Value at, Type type) {
      Value element = k.addIndex(base, at);
      k.store(k.load(0, element, type) * inverse, 0, element);
    });
    whenInTable(k, targets, row, first, cols, [&](Value column) {
      Value element = k.addIndex(base, column);
      k.store(k.loadScalar(0, element) - 1.0, 0, element);
    });
  }, [&] {
    k.lanes(cols, [&](Value at, Type type) {
      k.store(k.constant(0, type), 0, k.addIndex(base, at));
    });
  });
}

KernelLaunch KernelLibrary::logitsGrad(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, rows * 2}).i32({rows}).scalars(1);
  auto kernel = getOrBuild(nameOf("logits_grad", rows, cols), types,
                           [&](KernelBuilder &k) {
    Value first = k.indexArg(3);
    k.iterate([&](Value row) { gradRow(k, row, cols, 2, 1, first); });
  });
  return {kernel, rows, rowGrain(cols)};
}

KernelLaunch KernelLibrary::softmaxSums(int64_t rows, int64_t cols,
                                        bool withGrad) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols}).i32({rows}).f32({rows * 2}).scalars(2);
  StringRef kind = withGrad ? "softmax_sums_grad" : "softmax_sums";
  auto kernel = getOrBuild(nameOf(kind, rows, cols), types,
                           [&](KernelBuilder &k) {
    Value first = k.indexArg(3), real = k.indexArg(4);
    k.iterate([&](Value row) {
      Num max = rowMaximum(k, k.mulIndex(row, k.index(cols)), real);
      expRow(k, row, cols, max, 1, 2, first, real);
      if (withGrad)
        gradRow(k, row, cols, 1, 2, first);
    });
  });
  return {kernel, rows, rowGrain(cols)};
}

KernelLaunch KernelLibrary::sumTokens(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, 1});
  auto kernel = getOrBuild(nameOf("sum_tokens", n), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value) {
      Num sum = k.sums(n, 1, [&](Value at, Type type) {
        return KernelBuilder::Terms{k.widen(k.load(0, at, type))};
      }, /*wide=*/true)[0];
      k.store(k.narrow(sum), 1, k.index(0));
    });
  });
  return {kernel, 1, 1};
}

KernelLaunch KernelLibrary::countReal(int64_t n) {
  OperandTypes types(module.getContext());
  types.i32({n}).f32({1});
  auto kernel = getOrBuild(nameOf("count_real", n), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value) {
      ImplicitLocOpBuilder &b = k.getBuilder();
      Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
      Value count = k.loop(k.index(0), k.index(n), 1, {zero},
                           [&](Value at, ValueRange sum) {
        Value one = arith::ExtUIOp::create(b, b.getI32Type(), isReal(k, 0, at));
        Value next = arith::AddIOp::create(b, sum.front(), one);
        return SmallVector<Value>{next};
      }).front();
      k.store(k.num(arith::SIToFPOp::create(b, k.f32(), count)), 1, k.index(0));
    });
  });
  return {kernel, 1, 1};
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

int64_t KernelLibrary::getNumPartials(int64_t n) {
  return ceilDiv(n, kPartial);
}

KernelLaunch KernelLibrary::sumSquares(int64_t n) {
  int64_t partials = getNumPartials(n), rest = n % kPartial;
  OperandTypes types(module.getContext());
  types.f32({n}).f64({partials});
  auto kernel = getOrBuild(nameOf("sum_squares", n), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value i) {
      Value base = k.mulIndex(i, k.index(kPartial));
      auto cover = [&](int64_t count) {
        Num sum = k.sums(count, 1, [&](Value at, Type type) {
          Num x = k.widen(k.load(0, k.addIndex(base, at), type));
          return KernelBuilder::Terms{x * x};
        }, /*wide=*/true)[0];
        k.store(sum, 1, i);
      };
      if (rest == 0)
        cover(kPartial);
      else if (partials == 1)
        cover(rest);
      else
        k.when(k.less(i, k.index(partials - 1)), [&] { cover(kPartial); },
               [&] { cover(rest); });
    });
  });
  return {kernel, partials, 2};
}

KernelLaunch KernelLibrary::sumPartials(int64_t n) {
  OperandTypes types(module.getContext());
  types.f64({n}).f32({1});
  auto kernel = getOrBuild(nameOf("sum_partials", n), types,
                           [&](KernelBuilder &k) {
    k.iterate([&](Value) {
      SmallVector<Value> zero{k.constant(0, k.f64()).value};
      Value sum = k.loop(k.index(0), k.index(n), 1, zero,
                         [&](Value at, ValueRange sum) {
        return SmallVector<Value>{
            (k.num(sum.front()) + k.load(0, at, k.f64())).value};
      }).front();
      k.store(k.narrow(k.num(sum)), 1, k.index(0));
    });
  });
  return {kernel, 1, 1};
}

KernelLaunch KernelLibrary::clip() {
  OperandTypes types(module.getContext());
  types.f32({1, 1, 1, 1, 1});
  auto kernel = getOrBuild("clip", types, [&](KernelBuilder &k) {
    k.iterate([&](Value) {
      Num one = k.constant(1, k.f32());
      Num inverse = 1.0 / k.max(k.loadScalar(1), one);
      Num mean = k.loadScalar(0) * inverse;
      Num ratio = k.loadScalar(2) / (mean + 1e-6);
      // A NaN norm makes a NaN factor: it must not pass for a small gradient.
      Num scale = k.select(k.greater(ratio, one), one, ratio) * inverse;
      k.store(scale, 3, k.index(0));
      k.store(mean, 4, k.index(0));
    });
  });
  return {kernel, 1, 1};
}

KernelLaunch KernelLibrary::adamw(int64_t n, bool decay) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n, n, 1, 1, 1, 1, 1, 1, 1, 1, n, n, n});
  StringRef kind = decay ? "adamw_decay" : "adamw";
  return elementwise(getOrBuild(nameOf(kind, n), types, [&](KernelBuilder &k) {
    Num scale = k.loadScalar(4), lr = k.loadScalar(5), beta1 = k.loadScalar(7),
        beta2 = k.loadScalar(8), epsilon = k.loadScalar(9);
    Num oneMinus1 = 1.0 - beta1, oneMinus2 = 1.0 - beta2;
    Num correct1 = 1.0 / (1.0 - k.loadScalar(10));
    Num correct2 = 1.0 / (1.0 - k.loadScalar(11));
    Num shrink = lr * k.loadScalar(6);
    forBlocks(k, n, [&](Value at, Type type) {
      Num p = k.load(0, at, type), g = k.load(1, at, type) * scale;
      Num m = beta1 * k.load(2, at, type) + oneMinus1 * g;
      Num v = beta2 * k.load(3, at, type) + oneMinus2 * g * g;
      Num step = m * correct1 / (k.sqrt(v * correct2) + epsilon);
      Num next = p - lr * step;
      if (decay)
        next = next - shrink * p;
      k.store(next, 12, at);
      k.store(m, 13, at);
      k.store(v, 14, at);
    });
  }), n);
}

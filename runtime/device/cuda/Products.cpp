//===- Products.cpp - Products by cuBLASLt --------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products.h"

#include "device/Descriptors.h"
#include "optimus-support/DynamicLibrary.h"
#include "optimus-support/FormatBytes.h"

#include <bit>

using optimus_support::DynamicLibrary;
using optimus_support::formatBytes;

namespace optrt::cuda {

Products::Plan::~Plan() {
  for (LtLayout layout : {b, a, added, c})
    if (layout)
      api.layoutDestroy(layout);
  if (operation)
    api.operationDestroy(operation);
}

static StatusOr<LtType> typeOf(int32_t type) {
  switch (type) {
  case OPTRT_F32:
    return kLtF32;
  case OPTRT_F16:
    return kLtF16;
  case OPTRT_BF16:
    return kLtBF16;
  default:
    return invalidArgument(
        concat("elements of type ", type, "; expected f32, bf16 or f16"));
  }
}

Status checkProduct(const optrt_gemm_desc &d, const ProductOperands &operands) {
  auto refuse = [&](const char *what) {
    return unavailable(concat(describe(d), ": ", what));
  };
  if (d.packed_b)
    return refuse("this device has no packed layout of B");
  if (d.epilogue == OPTRT_EPILOGUE_MUL)
    return refuse("cuBLASLt multiplies its result with no matrix; that is a "
                  "launch after the product");
  if (d.epilogue == OPTRT_EPILOGUE_ADD && d.accumulate)
    return refuse("cuBLASLt adds one matrix, found both C and another one; "
                  "that is a launch after the product");
  if (d.epilogue == OPTRT_EPILOGUE_ADD && d.extra_type != d.result_type)
    return refuse("cuBLASLt adds a matrix of the result's type only");
  if (d.has_bias && d.bias_type != d.result_type)
    return refuse("cuBLASLt adds a bias of the result's type only");
  if (d.factor_type == OPTRT_F32 && d.result_type != OPTRT_F32)
    return refuse("cuBLASLt multiplies f32 to f32 only");
  if (d.k < 1)
    return invalidArgument(
        concat(describe(d), ": cuBLASLt sums over at least one element"));
  return optrt::check(d, operands.a, operands.b, operands.c, operands.bias,
                      operands.extra);
}

StatusOr<std::unique_ptr<Products>> Products::open(bool tf32) {
  OPTRT_ASSIGN_OR_RETURN(
      const DynamicLibrary library,
      DynamicLibrary::open(
          {"cuBLASLt",
           "OPTIMUS_CUBLASLT_LIBRARY",
           {"libcublasLt.so.13", "libcublasLt.so.12"},
           "it comes with CUDA's toolkit, 12 or later, and with PyTorch "
           "(package nvidia-cublas)"}));
  std::unique_ptr<Products> products(new Products());
  products->tf32 = tf32;
  CublasLtApi &api = products->api;
#define OPTRT_CUBLASLT_LOAD(name, symbol, parameters)                          \
  OPTRT_RETURN_IF_ERROR(library.find(#symbol, api.name));
  OPTRT_CUBLASLT_FUNCTIONS(OPTRT_CUBLASLT_LOAD)
#undef OPTRT_CUBLASLT_LOAD
  if (Status created =
          products->check(api.create(&products->handle), "cublasLtCreate");
      !created.ok())
    return library.refuse(
        concat("does not go with this GPU's driver: ", created.message()));
  return products;
}

Products::~Products() {
  plans.clear();
  if (handle)
    api.destroy(handle);
}

static std::string codeOf(LtResult result) {
  switch (result) {
#define OPTRT_CUBLAS_NAME(value, name)                                         \
  case value:                                                                  \
    return #name;
    OPTRT_CUBLAS_FAILURES(OPTRT_CUBLAS_NAME)
#undef OPTRT_CUBLAS_NAME
  default:
    return concat("cublasStatus_t ", result);
  }
}

Status Products::check(LtResult result, const char *call) const {
  if (result == kLtSuccess)
    return okStatus();
  hasRunOut = result == kLtAllocFailed;
  std::string message = concat(call, ": ", codeOf(result));
  return (result == kLtAllocFailed ? unavailable(std::move(message))
                                   : internal(std::move(message)))
      .withAdvice("CUBLASLT_LOG_LEVEL=1 lets cuBLASLt say why");
}

StatusOr<std::string> Products::version() const {
  int numbers[] = {0, 0, 0};
  for (LtProperty property : {kLtMajor, kLtMinor, kLtPatch})
    OPTRT_RETURN_IF_ERROR(check(api.getProperty(property, &numbers[property]),
                                "cublasLtGetProperty"));
  return concat("cuBLASLt ", numbers[0], ".", numbers[1], ".", numbers[2]);
}

/// The largest power of two, up to 256, that an address is a multiple of.
static uint32_t alignmentOf(const void *address) {
  const auto number = reinterpret_cast<uintptr_t>(address) | 256;
  return uint32_t(1) << std::countr_zero(number);
}

/// What is added to the product: C itself, another matrix, or nothing.
static const void *addedOf(const optrt_gemm_desc &d,
                           const ProductOperands &operands) {
  if (d.accumulate)
    return operands.c;
  return d.epilogue == OPTRT_EPILOGUE_ADD ? operands.extra : nullptr;
}

StatusOr<std::vector<LtHeuristic>>
Products::list(const optrt_gemm_desc &d, const ProductOperands &operands,
               const Plan &plan, int most) const {
  const void *added = addedOf(d, operands);
  LtPreference preference = nullptr;
  OPTRT_RETURN_IF_ERROR(check(api.preferenceCreate(&preference),
                              "cublasLtMatmulPreferenceCreate"));
  std::unique_ptr<LtPreferenceOpaque, LtResult (*)(LtPreference)> owner(
      preference, api.preferenceDestroy);
  auto set = [&](LtPreferenceAttribute attribute, auto value) {
    return check(
        api.preferenceSet(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  OPTRT_RETURN_IF_ERROR(
      set(kLtMaxWorkspaceBytes, size_t(kProductWorkspaceBytes)));
  // In which order parts are added to the result itself is not promised.
  OPTRT_RETURN_IF_ERROR(
      set(kLtReductionSchemes, uint32_t(kLtReduceComputeType)));
  OPTRT_RETURN_IF_ERROR(set(kLtMinAlignmentA, alignmentOf(operands.b)));
  OPTRT_RETURN_IF_ERROR(set(kLtMinAlignmentB, alignmentOf(operands.a)));
  OPTRT_RETURN_IF_ERROR(
      set(kLtMinAlignmentC, alignmentOf(added ? added : operands.c)));
  OPTRT_RETURN_IF_ERROR(set(kLtMinAlignmentD, alignmentOf(operands.c)));
  std::vector<LtHeuristic> found(static_cast<std::size_t>(most));
  int returned = 0;
  const LtResult result =
      api.getHeuristic(handle, plan.operation, plan.b, plan.a, plan.added,
                       plan.c, preference, most, found.data(), &returned);
  // One of its two ways to say that it knows none.
  if (result != kLtNotSupported)
    OPTRT_RETURN_IF_ERROR(check(result, "cublasLtMatmulAlgoGetHeuristic"));
  found.resize(static_cast<std::size_t>(returned));
  std::erase_if(found,
                [](const LtHeuristic &one) { return one.state != kLtSuccess; });
  return found;
}

Status Products::describeEpilogue(const Plan &plan, const optrt_gemm_desc &d,
                                  const ProductOperands &operands) const {
  auto set = [&](LtOperationAttribute attribute, auto value) {
    return check(
        api.operationSet(plan.operation, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
  };
  const bool hasBias = d.has_bias && !plan.leavesRowSum;
  LtEpilogue epilogue = kLtNoEpilogue;
  if (hasBias)
    epilogue = d.epilogue == OPTRT_EPILOGUE_BIAS_GRAD ? kLtBiasGradA : kLtBias;
  OPTRT_RETURN_IF_ERROR(set(kLtEpilogue, epilogue));
  // The heuristic looks at its alignment.
  OPTRT_RETURN_IF_ERROR(set(kLtBiasPointer, hasBias ? operands.bias : nullptr));
  if (!hasBias)
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(const LtType result, typeOf(d.result_type));
  return set(kLtBiasType, result);
}

StatusOr<Products::Plan *> Products::plan(const optrt_gemm_desc &d,
                                          const ProductOperands &operands) {
  const Key key = {d.m,
                   d.n,
                   d.k,
                   d.lda,
                   d.ldb,
                   d.ldc,
                   d.ld_extra,
                   d.trans_a,
                   d.trans_b,
                   d.accumulate,
                   d.epilogue,
                   d.has_bias,
                   d.factor_type,
                   d.result_type,
                   alignmentOf(operands.a),
                   alignmentOf(operands.b),
                   alignmentOf(operands.c),
                   alignmentOf(addedOf(d, operands)),
                   alignmentOf(operands.bias)};
  std::unique_ptr<Plan> &known = plans[key];
  if (known)
    return known.get();
  OPTRT_ASSIGN_OR_RETURN(const LtType factors, typeOf(d.factor_type));
  OPTRT_ASSIGN_OR_RETURN(const LtType result, typeOf(d.result_type));
  auto made = std::make_unique<Plan>(api);
  const LtCompute compute =
      tf32 && factors == kLtF32 ? kLtComputeTF32 : kLtComputeF32;
  OPTRT_RETURN_IF_ERROR(
      check(api.operationCreate(&made->operation, compute, kLtF32),
            "cublasLtMatmulDescCreate"));
  auto set = [&](LtOperationAttribute attribute, auto value) {
    return check(
        api.operationSet(made->operation, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
  };
  OPTRT_RETURN_IF_ERROR(set(kLtTransA, d.trans_b ? kLtTransposed : kLtPlain));
  OPTRT_RETURN_IF_ERROR(set(kLtTransB, d.trans_a ? kLtTransposed : kLtPlain));
  OPTRT_RETURN_IF_ERROR(describeEpilogue(*made, d, operands));
  // By columns, rows are what here are columns.
  auto create = [&](LtLayout *layout, LtType type, int64_t rows, int64_t cols,
                    int64_t ld) {
    return check(api.layoutCreate(layout, type, cols, rows, ld),
                 "cublasLtMatrixLayoutCreate");
  };
  OPTRT_RETURN_IF_ERROR(create(&made->a, factors, d.trans_a ? d.k : d.m,
                               d.trans_a ? d.m : d.k, d.lda));
  OPTRT_RETURN_IF_ERROR(create(&made->b, factors, d.trans_b ? d.n : d.k,
                               d.trans_b ? d.k : d.n, d.ldb));
  OPTRT_RETURN_IF_ERROR(create(&made->c, result, d.m, d.n, d.ldc));
  OPTRT_RETURN_IF_ERROR(
      create(&made->added, result, d.m, d.n,
             d.epilogue == OPTRT_EPILOGUE_ADD ? d.ld_extra : d.ldc));
  OPTRT_ASSIGN_OR_RETURN(std::vector<LtHeuristic> best,
                         list(d, operands, *made, /*most=*/1));
  if (best.empty() && d.epilogue == OPTRT_EPILOGUE_BIAS_GRAD) {
    made->leavesRowSum = true;
    OPTRT_RETURN_IF_ERROR(describeEpilogue(*made, d, operands));
    OPTRT_ASSIGN_OR_RETURN(best, list(d, operands, *made, /*most=*/1));
  }
  if (best.empty())
    return unavailable(concat(
        "cublasLtMatmulAlgoGetHeuristic names no algorithm for it with a "
        "workspace of ",
        formatBytes(kProductWorkspaceBytes),
        " and sums in f32; CUBLASLT_LOG_LEVEL=5 lets it say why, and "
        "another version or another --batch may have one"));
  made->found = best.front();
  made->name = nameOf(key);
  known = std::move(made);
  return known.get();
}

Status Products::run(Stream stream, const optrt_gemm_desc &desc,
                     const ProductOperands &operands, void *workspace) {
  OPTRT_RETURN_IF_ERROR(checkProduct(desc, operands));
  if (desc.m == 0 || desc.n == 0)
    return okStatus();
  StatusOr<Plan *> found = plan(desc, operands);
  if (!found.ok())
    return found.status().withContext(describe(desc));
  Plan &plan = **found;
  isRowSumLeft = plan.leavesRowSum;
  if (desc.has_bias && !plan.leavesRowSum)
    OPTRT_RETURN_IF_ERROR(
        check(api.operationSet(plan.operation, kLtBiasPointer, &operands.bias,
                               sizeof(operands.bias)),
              "cublasLtMatmulDescSetAttribute"));
  const void *added = addedOf(desc, operands);
  const float alpha = 1, beta = added ? 1 : 0;
  return check(api.matmul(handle, plan.operation, &alpha, operands.b, plan.b,
                          operands.a, plan.a, &beta, added ? added : operands.c,
                          plan.added, operands.c, plan.c, &plan.found.algorithm,
                          workspace, plan.found.workspaceBytes, stream),
               "cublasLtMatmul")
      .withContext(describe(desc));
}

} // namespace optrt::cuda

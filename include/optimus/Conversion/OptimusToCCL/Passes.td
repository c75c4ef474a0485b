//===- Passes.td - From whole tensors to one rank's parts --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_OPTIMUSTOCCL_PASSES
#define OPTIMUS_CONVERSION_OPTIMUSTOCCL_PASSES

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"optimus-partition", "::mlir::ModuleOp"> {
  let summary = "Rewrites a sharded program into what one rank does";
  let description = [{
    Reads nothing but shardings. Every tensor becomes this rank's part of it:
    dimensions are padded, a class at a time, to what every sharding of the
    class divides, and sharded. The type's encoding, `#ccl.local`, keeps the whole shape.

    * An operation runs on parts where its rule allows: operands are brought to
      the layout that the result's sharding asks of them. If a sharded factor
      does not reach a result, the result is a partial sum: it is *unreduced*
      over the factor's axes.
    * A product whose three tensors agree on every index but one is a
      `ccl.matmul`: the tensor without that index stays in place. Where all
      agree it is local, and unreduced if the contracted index is sharded.
    * Operations that reduce in the middle (norms, embeddings, head and loss,
      the global norm) are decomposed.
    * A value is brought to another layout when something asks for it, and only
      then: from unreduced by `ccl.all_reduce` or `ccl.reduce_scatter`, from sharded
      by `ccl.all_gather`, to sharded by `ccl.slice`. A layout once made is used again.
    * With `reduce-precision=f32`, what products make for a narrow sum stays f32 on
      each rank: ranks add it up and round the sum once. Rows of a table are narrow all
      the same, since one rank has them and the others zeros.

    ```mlir
    %y = optimus.matmul %x, %w {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"} ]>]}
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    // with x and w sharded alike, on a 2×2 mesh
    %y = ccl.matmul %x, %w {panels = 2 : i64, stationary = "c"}
      : (tensor<4x8xf32, …>, tensor<8x2xf32, …>) -> tensor<4x2xf32, …>
    ```
  }];
  let options = [
    Option<"reducePrecision", "reduce-precision", "std::string", "\"\"",
           "f32 leaves partial sums of products in f32 until ranks have added "
           "them up; without it they are as narrow as their sums">
  ];
  let dependentDialects = ["::mlir::ccl::CCLDialect",
                           "::mlir::optimus::OptimusDialect"];
  let statistics = [
    Statistic<"numLocal", "products-local", "Products that became local">,
    Statistic<"numDistributed", "products-distributed",
              "Products that became ccl.matmul">,
    Statistic<"numDecomposed", "operations-decomposed",
              "Operations that were decomposed">,
    Statistic<"numCollectives", "collectives",
              "Collectives that change the layout of a value">
  ];
}

#endif // OPTIMUS_CONVERSION_OPTIMUSTOCCL_PASSES

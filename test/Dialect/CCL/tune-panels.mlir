// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{move=panels panels=2}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=TWO
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{move=panels panels=31}),optimus-verify-partition)' --mlir-print-local-scope 2>&1 | FileCheck %s --check-prefixes=SAID,FEWER
// A message starts slowly: of the numbers of panels the smallest is
// the fastest whose memory is granted, beside what is alive.
// RUN: echo '{"version": 1, "links": [{"ranks": 1024, "alpha_s": 0.1, "beta_s_per_byte": 1e-12}]}' > %t.json
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{machine-profile=%t.json move=panels max-share=20}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=TWO
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{machine-profile=%t.json max-share=20}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=WHOLE
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{machine-profile=%t.json max-share=0 max-whole-bytes=0}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=GIVEN
// The bytes of two of eight panels of each
// factor.
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{machine-profile=%t.json max-share=0 max-whole-bytes=41943040}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=EIGHT
// Where messages start faster, fewer than eight panels gain less than 5 %, and
// would take more memory.
// RUN: echo '{"version": 1, "links": [{"ranks": 1024, "alpha_s": 0.01, "beta_s_per_byte": 1e-12}]}' > %t.fast.json
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{machine-profile=%t.fast.json max-share=20}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=EIGHT

// On 32×32 the blocks of the streamed index are 32, and a panel may still be a
// half of each.
optimus.mesh @mesh <["row" = 32, "col" = 32]>
#x = #ccl.local<[65536, 16384], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[16384, 16384], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>

// TWO: ccl.matmul {{.*}}panels = 2 : i64
// SAID: warning: expected 31 panels of each product of @product, found 1 of 1 whose dimensions do not divide so; the first, {{.*}}, has 16: choose this number, or sizes that divide
// FEWER: ccl.matmul {{.*}}panels = 16 : i64
// WHOLE: ccl.all_gather
// WHOLE: ccl.all_gather
// WHOLE: optimus.matmul
// GIVEN: ccl.matmul {{.*}}panels = 32 : i64
// EIGHT: ccl.matmul {{.*}}panels = 8 : i64
func.func @product(%x: tensor<2048x512xf32, #x>, %w: tensor<512x512xf32, #w>) -> tensor<2048x512xf32, #x> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 32 : i64} : (tensor<2048x512xf32, #x>, tensor<512x512xf32, #w>) -> tensor<2048x512xf32, #x>
  return %0 : tensor<2048x512xf32, #x>
}

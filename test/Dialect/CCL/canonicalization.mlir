// RUN: %optimus-opt %s --canonicalize | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 2]>

#rows = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{"row"}, {}]>>
#cols = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {"row"}]>>
#both = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{"row", "col"}, {}]>>
#other = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{"col"}, {}]>>
#padded = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {}]>>
#partial = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {}], unreduced = {"row"}>>

// CHECK-LABEL: func.func @gather_of_slice
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32,
// CHECK-NEXT: return %[[X]]
func.func @gather_of_slice(%x: tensor<4x6xf32, #padded>) -> tensor<4x6xf32, #padded> {
  %0 = ccl.slice %x {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #rows>
  %1 = ccl.all_gather %0 {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  return %1 : tensor<4x6xf32, #padded>
}

// The inner pair of four cancels, then the outer one.
// CHECK-LABEL: func.func @nested
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32,
// CHECK-NEXT: return %[[X]]
func.func @nested(%x: tensor<4x6xf32, #padded>) -> tensor<4x6xf32, #padded> {
  %0 = ccl.slice %x {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #rows>
  %1 = ccl.slice %0 {axis = "col", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<1x6xf32, #both>
  %2 = ccl.all_gather %1 {axis = "col", dim = 0 : i64} : (tensor<1x6xf32, #both>) -> tensor<2x6xf32, #rows>
  %3 = ccl.all_gather %2 {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  return %3 : tensor<4x6xf32, #padded>
}

// What is gathered is not what was sliced but computed from it.
// CHECK-LABEL: func.func @gather_of_something_else
// CHECK: ccl.slice
// CHECK: ccl.all_gather
func.func @gather_of_something_else(%x: tensor<4x6xf32, #padded>) -> tensor<4x6xf32, #padded> {
  %0 = ccl.slice %x {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #rows>
  %1 = optimus.gelu %0 : tensor<2x6xf32, #rows>
  %2 = ccl.all_gather %1 {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  return %2 : tensor<4x6xf32, #padded>
}

// CHECK-LABEL: func.func @slice_of_gather
// CHECK-SAME: (%[[X:.*]]: tensor<2x6xf32,
// CHECK-NEXT: return %[[X]]
func.func @slice_of_gather(%x: tensor<2x6xf32, #rows>) -> tensor<2x6xf32, #rows> {
  %0 = ccl.all_gather %x {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  %1 = ccl.slice %0 {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #rows>
  return %1 : tensor<2x6xf32, #rows>
}

// The gather has another use.
// CHECK-LABEL: func.func @slice_of_used_gather
// CHECK-SAME: (%[[X:.*]]: tensor<2x6xf32,
// CHECK-NEXT: %[[Y:.*]] = ccl.all_gather
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @slice_of_used_gather(%x: tensor<2x6xf32, #rows>) -> (tensor<2x6xf32, #rows>, tensor<4x6xf32, #padded>) {
  %0 = ccl.all_gather %x {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  %1 = ccl.slice %0 {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #rows>
  return %1, %0 : tensor<2x6xf32, #rows>, tensor<4x6xf32, #padded>
}

// Another dimension, another axis: a transposition of parts.
// CHECK-LABEL: func.func @slice_elsewhere
// CHECK: ccl.all_gather
// CHECK: ccl.slice {{.*}} {axis = "row", dim = 1 : i64}
// CHECK: ccl.all_gather
// CHECK: ccl.slice {{.*}} {axis = "col", dim = 0 : i64}
func.func @slice_elsewhere(%x: tensor<2x6xf32, #rows>, %y: tensor<2x6xf32, #rows>) -> (tensor<4x3xf32, #cols>, tensor<2x6xf32, #other>) {
  %0 = ccl.all_gather %x {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  %1 = ccl.slice %0 {axis = "row", dim = 1 : i64} : (tensor<4x6xf32, #padded>) -> tensor<4x3xf32, #cols>
  %2 = ccl.all_gather %y {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  %3 = ccl.slice %2 {axis = "col", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #other>
  return %1, %3 : tensor<4x3xf32, #cols>, tensor<2x6xf32, #other>
}

// The reduction stays before the gather that came after it.
// CHECK-LABEL: func.func @slice_of_sum
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32, {{.*}}>, %[[Y:.*]]: tensor<2x6xf32,
// CHECK-NEXT: %[[S:.*]] = ccl.reduce_scatter %[[X]] {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, {{.*}}>) -> tensor<2x6xf32, {{.*}}>
// CHECK-NEXT: %[[G:.*]] = ccl.all_gather %[[Y]]
// CHECK-NEXT: return %[[S]], %[[G]]
func.func @slice_of_sum(%x: tensor<4x6xf32, #partial>, %y: tensor<2x6xf32, #rows>) -> (tensor<2x6xf32, #rows>, tensor<4x6xf32, #padded>) {
  %0 = ccl.all_reduce %x {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32, #padded>
  %1 = ccl.all_gather %y {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #rows>) -> tensor<4x6xf32, #padded>
  %2 = ccl.slice %0 {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #rows>
  return %2, %1 : tensor<2x6xf32, #rows>, tensor<4x6xf32, #padded>
}

// Somebody reads the whole sum; the slice is along another axis than the sum.
// CHECK-LABEL: func.func @slice_of_used_sum
// CHECK: ccl.all_reduce
// CHECK-NEXT: ccl.slice
// CHECK: ccl.all_reduce
// CHECK-NEXT: ccl.slice
func.func @slice_of_used_sum(%x: tensor<4x6xf32, #partial>) -> (tensor<2x6xf32, #rows>, tensor<4x6xf32, #padded>, tensor<2x6xf32, #other>) {
  %0 = ccl.all_reduce %x {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32, #padded>
  %1 = ccl.slice %0 {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #rows>
  %2 = ccl.all_reduce %x {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32, #padded>
  %3 = ccl.slice %2 {axis = "col", dim = 0 : i64} : (tensor<4x6xf32, #padded>) -> tensor<2x6xf32, #other>
  return %1, %0, %3 : tensor<2x6xf32, #rows>, tensor<4x6xf32, #padded>, tensor<2x6xf32, #other>
}

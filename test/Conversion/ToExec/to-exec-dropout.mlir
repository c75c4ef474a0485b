// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 3]>

#x = #ccl.local<[5, 4, 70], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>>
#both = #ccl.local<[5, 70], #optimus.sharding<@mesh, [{"row", "col"}, {}]>>

// Where a part begins in the whole tensor is a sum of one addend for each
// dimension that is sharded: 24 columns, and 3 rows of 4·70 elements. Both
// dropouts are launches of one kernel, which gets the stream as a number, and
// the second works in place.
// CHECK-LABEL: func.func @sharded(
// CHECK-SAME: %[[X:.*]]: memref<288xf32>, %[[RANDOM:.*]]: memref<5xi32> {exec.access = "read", exec.local_type = tensor<5xi32>, optimus.binding = "random"}, %[[OUT:.*]]: memref<288xf32>)
// CHECK-DAG: %[[COL:.*]] = exec.part_offset 24 over ["col"]
// CHECK-DAG: %[[ROW:.*]] = exec.part_offset 840 over ["row"]
// CHECK: exec.launch @[[KERNEL:dropout_3of5_4of4_24of70_2_3fe0000000000000]] extent 12
// CHECK-SAME: (read %[[X]] : memref<288xf32>, read %[[RANDOM]] : memref<5xi32>, write %[[OUT]] : memref<288xf32>)
// CHECK-SAME: scalars(%c7_i64, %[[COL]], %[[ROW]] : i64, i64, i64)
// CHECK: exec.launch @[[KERNEL]]
// CHECK-SAME: (read %[[OUT]] : memref<288xf32>, read %[[RANDOM]] : memref<5xi32>, write %[[OUT]] : memref<288xf32>) scalars(%c8_i64,
func.func @sharded(%x: tensor<3x4x24xf32, #x>, %random: tensor<5xi32> {optimus.binding = "random"}) -> tensor<3x4x24xf32, #x> {
  %0 = optimus.dropout %x, %random {rate = 0.5 : f64, stream = 7 : i64} : (tensor<3x4x24xf32, #x>, tensor<5xi32>) -> tensor<3x4x24xf32, #x>
  %1 = optimus.dropout %0, %random {rate = 0.5 : f64, stream = 8 : i64} : (tensor<3x4x24xf32, #x>, tensor<5xi32>) -> tensor<3x4x24xf32, #x>
  return %1 : tensor<3x4x24xf32, #x>
}

// Two axes on one dimension.
// CHECK-LABEL: func.func @two_axes(
// CHECK: %[[PART:.*]] = exec.part_offset 70 over ["row", "col"]
// CHECK: exec.launch @dropout_1of5_70of70_1_{{.*}} scalars(%{{.*}}, %[[PART]] : i64, i64)
func.func @two_axes(%x: tensor<1x70xf32, #both>, %random: tensor<5xi32>) -> tensor<1x70xf32, #both> {
  %0 = optimus.dropout %x, %random {rate = 0.5 : f64, stream = 7 : i64} : (tensor<1x70xf32, #both>, tensor<5xi32>) -> tensor<1x70xf32, #both>
  return %0 : tensor<1x70xf32, #both>
}

// CHECK-LABEL: func.func @whole(
// CHECK: exec.launch @dropout_5of5_70of70_0_{{.*}} scalars(%{{.*}} : i64)
func.func @whole(%x: tensor<5x70xf32>, %random: tensor<5xi32>) -> tensor<5x70xf32> {
  %0 = optimus.dropout %x, %random {rate = 0.5 : f64, stream = 7 : i64} : (tensor<5x70xf32>, tensor<5xi32>) -> tensor<5x70xf32>
  return %0 : tensor<5x70xf32>
}

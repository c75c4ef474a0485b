// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of buffers, arenas and views of them, and of
// numbers of ranks.

func.func @alloc_alignment() {
  // expected-error @below {{attribute 'alignment' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 64 whose maximum value is 1048576 whose value is a power of two > 0}}
  %0 = exec.alloc "activation" {alignment = 96 : i64} : memref<16xf32>
  return
}

// -----

func.func @arena_slot_c1(%arena: memref<1024xi8>) {
  // expected-error @below {{offset 100 is not a multiple of 64 bytes}}
  %0 = exec.arena_slot %arena[100] "activation" : memref<1024xi8> to memref<16xf32>
  return
}

// -----

func.func @arena_slot_c1_alignment(%arena: memref<1024xi8>) {
  // expected-error @below {{offset 64 is not a multiple of 256 bytes}}
  %0 = exec.arena_slot %arena[64] "activation" {alignment = 256 : i64} : memref<1024xi8> to memref<16xf32>
  return
}

// -----

func.func @arena_slot_c2(%arena: memref<1024xi8>) {
  // expected-error @below {{ends at byte 1088, but the arena has 1024}}
  %0 = exec.arena_slot %arena[1024] "activation" : memref<1024xi8> to memref<16xf32>
  return
}

// -----

func.func @strided(%b: memref<64xf32, strided<[2]>>) {
  // expected-error @below {{must be flat buffer of 1 to 2^48 f32, f64, bf16, f16 or i32}}
  %0 = "exec.slice"(%b) {offset = 0 : i64} : (memref<64xf32, strided<[2]>>) -> memref<32xf32>
  return
}

// -----

func.func @slice_c1(%b: memref<64xf32>) {
  // expected-error @below {{elements [40, 72) are not all in a buffer of 64}}
  %0 = exec.slice %b[40] : memref<64xf32> to memref<32xf32>
  return
}

// -----

func.func @slice_c2(%b: memref<64xf32>) {
  // expected-error @below {{makes 'i32' of 'f32'}}
  %0 = exec.slice %b[0] : memref<64xf32> to memref<32xi32>
  return
}

// -----

func.func @slice_rank_c1(%b: memref<64xf32>) {
  // expected-error @below {{names axis "row", which needs a mesh in the module}}
  %0 = exec.slice_rank %b over ["row"] stride 8 : memref<64xf32> to memref<32xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @slice_rank_c2(%b: memref<64xf32>) {
  // expected-error @below {{the last rank's part ends at element 80, but the buffer has 64}}
  %0 = exec.slice_rank %b over ["row"] stride 16 : memref<64xf32> to memref<32xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @slice_rank_c3(%b: memref<64xf32>) {
  // expected-error @below {{makes 'i32' of 'f32'}}
  %0 = exec.slice_rank %b over ["row"] stride 16 : memref<64xf32> to memref<16xi32>
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @select_rank_c1(%b: memref<64xf32>) {
  // expected-error @below {{index 4 is not on axis "row" of 4 ranks}}
  %0 = exec.select_rank "row" is 4, %b, %b : memref<64xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @real_extent_c2() {
  // expected-error @below {{4 parts of 2 do not cover an extent of 9}}
  %0 = exec.real_extent 2 of 9 over ["row"]
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @part_offset_c1() {
  // expected-error @below {{names axis "col", which the mesh does not have}}
  %0 = exec.part_offset 2 over ["col"]
  return
}

// -----

func.func @buffer_too_large(%b: memref<281474976710657xf32>) {
  // expected-error @below {{must be flat buffer of 1 to 2^48 f32, f64, bf16, f16 or i32}}
  %0 = exec.slice %b[0] : memref<281474976710657xf32> to memref<32xf32>
  return
}

// -----

func.func @buffer_empty() {
  // expected-error @below {{must be flat buffer of 1 to 2^48 f32, f64, bf16, f16 or i32}}
  %0 = exec.alloc "activation" : memref<0xf32>
  return
}

// -----

func.func @buffer_memory_space(%b: memref<64xf32, 1>) {
  // expected-error @below {{must be flat buffer of 1 to 2^48 f32, f64, bf16, f16 or i32}}
  %0 = "exec.slice"(%b) {offset = 0 : i64} : (memref<64xf32, 1>) -> memref<32xf32>
  return
}

// -----

func.func @arena_too_large(%arena: memref<4503599627370497xi8>) {
  // expected-error @below {{must be flat buffer of at most 2^52 bytes}}
  %0 = exec.arena_slot %arena[0] "activation" : memref<4503599627370497xi8> to memref<16xf32>
  return
}

// -----

func.func @arena_slot_c2_overflow(%arena: memref<1024xi8>) {
  // expected-error @below {{ends at byte more than 2^63, but the arena has 1024}}
  %0 = exec.arena_slot %arena[9223372036854775744] "activation" : memref<1024xi8> to memref<16xf32>
  return
}

// -----

func.func @slice_c1_overflow(%b: memref<64xf32>) {
  // expected-error @below {{elements [9223372036854775807, more than 2^63) are not all in a buffer of 64}}
  %0 = exec.slice %b[9223372036854775807] : memref<64xf32> to memref<32xf32>
  return
}

// -----

func.func @slice_c3(%b: memref<64xf32>) {
  %0 = exec.slice %b[0] : memref<64xf32> to memref<32xf32>
  %1 = exec.slice %0[0] : memref<32xf32> to memref<32xf32>
  %2 = exec.slice %1[0] : memref<32xf32> to memref<32xf32>
  %3 = exec.slice %2[0] : memref<32xf32> to memref<32xf32>
  %4 = exec.slice %3[0] : memref<32xf32> to memref<32xf32>
  %5 = exec.slice %4[0] : memref<32xf32> to memref<32xf32>
  %6 = exec.slice %5[0] : memref<32xf32> to memref<32xf32>
  %7 = exec.slice %6[0] : memref<32xf32> to memref<32xf32>
  // expected-error @below {{is a view of a view of more than 7 others}}
  %8 = exec.slice %7[0] : memref<32xf32> to memref<32xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @slice_rank_c1_twice(%b: memref<64xf32>) {
  // expected-error @below {{names axis "row" twice}}
  %0 = exec.slice_rank %b over ["row", "row"] stride 1 : memref<64xf32> to memref<32xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 1]>
func.func @slice_rank_c2_stride(%b: memref<64xf32>) {
  // expected-error @below {{stride must be from 0 to 281474976710656, found 9223372036854775807}}
  %0 = exec.slice_rank %b over ["row"] stride 9223372036854775807 : memref<64xf32> to memref<32xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @select_rank_c2(%b: memref<64xf32>) {
  %0 = exec.select_rank "row" is 0, %b, %b : memref<64xf32>
  %1 = exec.select_rank "row" is 0, %0, %0 : memref<64xf32>
  %2 = exec.select_rank "row" is 0, %1, %1 : memref<64xf32>
  %3 = exec.select_rank "row" is 0, %2, %2 : memref<64xf32>
  %4 = exec.select_rank "row" is 0, %3, %3 : memref<64xf32>
  %5 = exec.select_rank "row" is 0, %4, %4 : memref<64xf32>
  %6 = exec.select_rank "row" is 0, %5, %5 : memref<64xf32>
  %7 = exec.select_rank "row" is 0, %6, %6 : memref<64xf32>
  // expected-error @below {{is a view of a view of more than 7 others}}
  %8 = exec.select_rank "row" is 0, %7, %7 : memref<64xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @real_extent_c2_overflow() {
  // expected-error @below {{all parts together must be from 0 to 281474976710656 elements, found more than 2^63}}
  %0 = exec.real_extent 9223372036854775807 of 9 over ["row"]
  return
}

// -----

optimus.mesh @mesh <["row" = 4]>
func.func @part_offset_c2() {
  // expected-error @below {{all parts together must be from 0 to 281474976710656 elements, found -8}}
  %0 = exec.part_offset -2 over ["row"]
  return
}

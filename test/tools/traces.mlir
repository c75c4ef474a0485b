// Traces of passes: in builds with assertions, by pass; others refuse the flag.
// RUN: %if asserts %{ optimus-opt %s --optimus-shard='mesh=row:2,col:2' --debug-only=optimus-shard -o /dev/null 2>&1 | FileCheck %s --check-prefix=SHARD %}
// SHARD: [optimus-shard ShardingPropagation.cpp:{{[0-9]+}} 1] argument 0: #optimus.sharding<@mesh, [{"row"}, {}, {"col"}{{ ?}}]> by its annotation
// SHARD: [optimus-shard {{.*}}] result 0 of 'optimus.gelu': dimension 0 over row as argument 0 does, by its annotation (rule of optimus.gelu)
// SHARD: [optimus-shard {{.*}}] result 0 of 'optimus.gelu': dimension 2 over col

// Several are separated by commas; one that is not named is silent.
// RUN: %if asserts %{ optimus-opt %s --optimus-shard='mesh=row:2,col:2' --optimus-partition --debug-only=optimus-partition,optimus-fuse -o /dev/null 2>&1 | FileCheck %s --check-prefix=PARTITION %}
// PARTITION-NOT: optimus-shard
// PARTITION: [optimus-partition {{.*}}] local: optimus.gelu of {{.*}} makes

// RUN: %if !asserts %{ not optimus-opt %s --debug-only=optimus-shard 2>&1 | FileCheck %s --check-prefix=REFUSED %}
// RUN: %if !asserts %{ not optimus-compile %s --debug-only=optimus-shard -o %t.so 2>&1 | FileCheck %s --check-prefix=REFUSED %}
// REFUSED: expected a build with traces, found one without; configure it with cmake --preset asserts

func.func @f(%x: tensor<4x8x16xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>}) -> tensor<4x8x16xf32> {
  %0 = optimus.gelu %x : tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

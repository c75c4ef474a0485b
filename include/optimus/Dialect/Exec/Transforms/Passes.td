//===- Passes.td - Passes on the device program ------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def PrepareWeightsPass : Pass<"optimus-prepare-weights", "::mlir::ModuleOp"> {
  let summary = "Packs and narrows weights once for several calls";
  let description = [{
    Moves commands of the entry `accumulate` that read a parameter alone, and fill a
    buffer of category "packed weight" or "narrow weight", into a function of their
    own, an entry of kind `prepare`. The buffer becomes an argument of both that
    lives for a sequence of calls. In a step of microbatches `prepare` is called
    first. So it does with the entries `prefill`, `decode` and `score`, but with a function
    `prepare:NAME` for each parameter. Their products of few rows read packed weights too,
    and an original without other readers becomes an argument of that function alone: a
    rank holds it while it is loaded.

    ```mlir
    func.func @accumulate(%w: memref<1920xf32> …) attributes {optimus.entry = #optimus.entry<accumulate …>} {
      %p = exec.alloc "packed weight" : memref<2048xf32>
      exec.pack %w into %p …
      exec.gemm %x, %p, %c …
    // becomes
    func.func @prepare(%w: memref<1920xf32> …, %p: memref<2048xf32> {optimus.binding = #optimus.buffer<role = "packed", of = "w", lifetime = sequence>, …})
        attributes {optimus.entry = #optimus.entry<prepare>} {
      exec.pack %w into %p …
    func.func @accumulate(%w: memref<1920xf32> …, %p: memref<2048xf32> …) attributes {…} {
      exec.gemm %x, %p, %c …
    ```
  }];
  let dependentDialects = [
    "::mlir::exec::ExecDialect", "::mlir::ccl::CCLDialect",
    "::mlir::optimus::OptimusDialect"
  ];
  let options = [
    Option<"budget", "budget", "int64_t", "0",
           "The bytes of a rank: where it would hold more, nothing is done; 0 for "
           "any number">
  ];
  let statistics = [
    Statistic<"numPrepared", "prepared", "Number of weights prepared">
  ];
}

def LanesPass : Pass<"optimus-lanes", "::mlir::ModuleOp"> {
  let summary = "Runs several programs that differ in data alone as lanes of one";
  let description = [{
    Sets `exec.lanes` on the module: every argument and scalar is there once a lane,
    and every command is done once a lane. An arena holds nothing between calls, so lanes that
    run one after the other share it. Commands, their numbers and their order
    stay: no operation has a rule for it, and a lane's bits are those of its
    own run. Behind `--optimus-to-exec`, on one rank: a lane communicates with nobody.

    ```mlir
    module { func.func @train_step(%w: memref<64xf32> …) { exec.gemm %x, %w, %y … } }
    // becomes, with count=8
    module attributes {exec.lanes = 8} { func.func @train_step(%w: memref<64xf32> …) { exec.gemm %x, %w, %y … } }
    ```
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
  let options = [
    Option<"count", "count", "int64_t", "1", "How many programs run side by side">
  ];
}

def CarryGathersPass : Pass<"optimus-carry-gathers", "::mlir::ModuleOp"> {
  let summary = "Lets the next step wait for the gathers of updated parameters";
  let description = [{
    In entries of the kinds `train` and `update`, gathers of updated parameters are
    carried to the next call that reads these: nothing in the call waits for them.
    Their sources become buffers of the manifest, with the role `updated`. The functions
    of a step wait for a parameter before their first command on it.
    Of each mesh axis the 32 largest gathers are carried. After `--optimus-schedule`; its
    predictions are made anew, of steps that begin with the gathers of the one before.

    ```mlir
    func.func @train_step(%w: memref<64xf32> …) attributes {optimus.entry = #optimus.entry<train …>} {
      exec.gemm %x, %w, %y …
      %t = exec.collective_start all_gather sum over "data", %p to %w …
      exec.wait %t
    // becomes
    func.func @train_step(%w: memref<64xf32> …, %p: memref<32xf32> {optimus.binding = #optimus.buffer<role = "updated", of = "w", lifetime = state>, …})
        attributes {…} {
      exec.wait_carried 1, %w, %p : memref<64xf32>, memref<32xf32>
      exec.gemm %x, %w, %y …
      %t = exec.collective_start all_gather sum over "data", %p to %w {carried = 1 : i32, …}
    ```
  }];
  let dependentDialects = [
    "::mlir::exec::ExecDialect", "::mlir::ccl::CCLDialect",
    "::mlir::optimus::OptimusDialect"
  ];
  let options = [
    Option<"machineProfile", "machine-profile", "std::string", "\"\"",
           "JSON file that optimus-run bench --gemm and --comm wrote "
           "(default: a built-in profile)">,
    Option<"profile", "profile", "std::string", "\"\"",
           "What optimus-run train --profile wrote of a run on the same mesh: "
           "its times of commands replace predicted ones">
  ];
  let statistics = [
    Statistic<"numCarried", "carried", "Number of gathers carried to the next step">
  ];
}

def SchedulePass : Pass<"optimus-schedule", "::mlir::func::FuncOp"> {
  let summary = "Orders commands for time, for memory or for both";
  let description = [{
    Commands that touch the same memory, one of them writing, keep their order, and so the
    result keeps its bits. With the mode `time` all computation does. Every
    collective is started as early and waited for as late as the memory it touches,
    the extra workspace and the number of collectives under way on an axis permit, and
    as predicted times ask for: see docs/scheduling.md. A command is put with what
    makes its operands, and commands are numbered anew.

    On the function it leaves `exec.schedule`: the predicted times of a call in
    milliseconds, what the peak of live bytes grew by, and how many collectives
    overlap with nothing, of these how many for want of workspace. Its `waits` are
    by mesh axis and kind of collective: how many are waited for, for how long in
    all (`ms`), and of this what passes because the axis carries earlier ones
    (`queued_ms`) or because nothing is computed between start and wait
    (`idle_ms`). With a profile, `measured` has the number of commands, waits
    excepted, with measured times, and their share of all the time.

    ```mlir
    exec.gemm %a, %w, %c …
    %0 = exec.collective_start broadcast sum over "col", %b to %panel …
    exec.wait %0
    exec.gemm %panel, %w, %c …
    // becomes
    %0 = exec.collective_start broadcast sum over "col", %b to %panel …
    exec.gemm %a, %w, %c …
    exec.wait %0
    exec.gemm %panel, %w, %c …
    ```
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
  let options = [
    Option<"mode", "mode", "std::string", "\"time\"",
           "time: collectives behind computation, which keeps its order; memory: "
           "all commands so that few bytes are alive; balanced: of both, what "
           "has the least product of time and bytes; or none, to predict times "
           "only">,
    Option<"extraWorkspace", "extra-workspace", "std::string", "\"10%\"",
           "What the peak of live bytes may grow by: a percentage of it, or "
           "bytes, as 64MiB">,
    Option<"machineProfile", "machine-profile", "std::string", "\"\"",
           "JSON file that optimus-run bench --gemm and --comm wrote "
           "(default: a built-in profile)">,
    Option<"profile", "profile", "std::string", "\"\"",
           "What optimus-run train --profile wrote of a run on the same mesh: "
           "its times of commands replace predicted ones">,
    ListOption<"offload", "offload", "std::string",
               "What will be offloaded, as optimus-offload's values: memory "
               "is counted without it where it rests">,
    Option<"offloadSpace", "offload-space", "std::string", "\"file\"",
           "Its space">,
    Option<"offloadBandwidth", "offload-bandwidth", "std::string", "\"\"",
           "Its bandwidth">,
    Option<"offloadWindow", "offload-window", "int64_t", "0", "Its window">,
    Option<"offloadLeast", "offload-least", "int64_t", "4096",
           "Its smallest buffers">,
    Option<"report", "report", "bool", "false",
           "Remark on functions with collectives that are not overlapped">
  ];
  let statistics = [
    Statistic<"numCollectives", "collectives", "Number of collectives">,
    Statistic<"numNotOverlapped", "not-overlapped",
              "Collectives that overlap with no computation">,
    Statistic<"numBounded", "out-of-workspace",
              "Collectives that do not overlap for want of workspace">,
    Statistic<"numExtraBytes", "extra-workspace-bytes",
              "Bytes by which the peaks of live bytes grew">
  ];
}

def OffloadPass : Pass<"optimus-offload", "::mlir::func::FuncOp"> {
  let summary = "Keeps buffers outside the device's memory between their uses";
  let description = [{
    A buffer that is offloaded has its home in another memory space. The commands
    that use it fall into *resident intervals*: between two of them it is not used
    for longer than copying it out and in again takes. Each interval has a buffer in
    the device's memory, fetched before the first use and stored after the last where it
    was written; the home of an argument is the argument, whose type changes. Fetches
    begin so early that they are done in time by predicted times and bandwidths, as
    far as the window has room: so many bytes fetched but not yet used, and as
    many stored but still in place until the store is done. Results keep their
    bits. See docs/paging.md.

    `values` are kinds: `state` and `parameters`, which are arguments; `gradients`
    and `activations`, buffers of these categories with two or more resident intervals;
    `state=SIZE`, at least so many bytes of the state, the smallest tensors first;
    or patterns of values' ids, as `h.*.mlp.gelu:*`. Buffers below `least` bytes
    stay.

    A command that only reads an offloaded buffer to sum it up moves up to the
    buffer's write, and needs no fetch.

    On the function it leaves `exec.paging`: bytes and predicted milliseconds of
    fetches and stores and, of these, the exposed time; `exec.schedule`'s
    predicted step grows by the latter.

    ```mlir
    exec.gemm %a, %b, %h …
    …
    exec.gemm %h, %d, %e …
    // becomes
    exec.gemm %a, %b, %0 …
    exec.copy %home from %0 : memref<64xf32> {lag = 3 : i64, …} : memref<64xf32, #exec<space file>>
    …
    exec.copy %1 from %home : memref<64xf32, #exec<space file>> {…} : memref<64xf32>
    …
    exec.gemm %1, %d, %e …
    ```
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
  let options = [
    ListOption<"values", "values", "std::string",
               "Kinds or patterns of what is offloaded">,
    Option<"space", "space", "std::string", "\"file\"", "file or host">,
    Option<"bandwidth", "bandwidth", "std::string", "\"\"",
           "Bytes a second into the device's memory and out of it, as "
           "512MiB,1GiB (default: those of the machine profile's host link for "
           "host, else 512MiB,1GiB)">,
    Option<"window", "window", "int64_t", "0",
           "Bytes that may be fetched ahead (0: as many as the command that "
           "needs most)">,
    Option<"least", "least", "int64_t", "4096", "Smaller buffers stay">,
    Option<"machineProfile", "machine-profile", "std::string", "\"\"",
           "JSON file that optimus-run bench --gemm and --comm wrote "
           "(default: a built-in profile)">,
    Option<"profile", "profile", "std::string", "\"\"",
           "What optimus-run train --profile wrote of a run on the same mesh: "
           "its times of commands replace predicted ones">
  ];
  let statistics = [
    Statistic<"numOffloaded", "offloaded", "Buffers that have a home elsewhere">,
    Statistic<"numFetches", "fetches", "Copies into the device's memory">,
    Statistic<"numStores", "stores", "Copies out of the device's memory">,
    Statistic<"numHoisted", "hoisted", "Sums that moved up">
  ];
}

def PlaceBuffersPass : Pass<"optimus-place-buffers", "::mlir::func::FuncOp"> {
  let summary = "Places every buffer of a function in one arena";
  let description = [{
    A buffer lives from the first to the last command that touches it or a
    view of it; one that a collective touches lives until its `exec.wait`. The
    planner gives offsets to these live ranges, and each `exec.alloc` becomes an
    `exec.arena_slot` of the arena of its memory space, a new first argument of the function. An allocation
    that nothing uses goes. The function's attributes on its arena are about the
    device's.

    On the function it leaves `exec.arena_bytes`, `exec.lower_bound_bytes` (the most bytes
    alive at once), `exec.peak_bytes` (these, by category), `exec.communication` (counted
    as `docs/manifest.md` says) and `exec.commands`.

    ```mlir
    func.func @f(%out: memref<64xf32>) {
      %0 = exec.alloc "activation" : memref<64xf32>
    // becomes
    func.func @f(%arena: memref<256xi8>, %out: memref<64xf32>) attributes {exec.arena_bytes = 256 : i64, …} {
      %0 = exec.arena_slot %arena[0] "activation" : memref<256xi8> to memref<64xf32>
    ```
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
  let options = [
    Option<"noReuse", "no-reuse", "bool", "false",
           "Give every buffer memory of its own, to find out whether a fault "
           "comes from placement">
  ];
  let statistics = [
    Statistic<"numBuffers", "buffers", "Number of buffers placed">,
    Statistic<"numArenaBytes", "arena-bytes", "Bytes of the arenas">,
    Statistic<"numLowerBoundBytes", "lower-bound-bytes", "Most bytes alive at once">
  ];
}

def OrderCommandsPass : Pass<"optimus-order-commands", "::mlir::func::FuncOp"> {
  let summary = "Puts every command on a queue, after those that it must wait for";
  let description = [{
    The last word on order: what executes, simulates or checks a program goes by
    queues and edges and derives neither again. Collectives run on the queue of
    their mesh axis, copies between memory spaces on `fetch` and `store`, everything else on
    `compute`; commands of the last three are done one after the other. A command
    comes after the last one of another queue
    that touches the same memory, a reuse of the arena included, unless other edges
    say so already; a user of a collective's result comes after its `exec.wait`,
    a command of `compute`.

    ```mlir
    exec.gemm %a, %b, %c {…, id = 4 : i32}
    %0 = exec.collective_start all_reduce sum over "col", %c to %c {…, id = 5 : i32}
    exec.wait %0 {id = 6 : i32}
    // becomes
    exec.gemm %a, %b, %c {…, id = 4 : i32, queue = "compute"}
    %0 = exec.collective_start all_reduce sum over "col", %c to %c
      {…, after = array<i32: 4>, id = 5 : i32, queue = "col"}
    exec.wait %0 {id = 6 : i32, queue = "compute"}
    ```
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
  let statistics = [
    Statistic<"numEdges", "edges", "Number of edges between queues">
  ];
}

def VerifyExecPass : Pass<"optimus-verify-exec", "::mlir::func::FuncOp"> {
  let summary = "Checks what no single command can check of the device program";
  let description = [{
    * (V1) between start and wait of a collective nothing writes its source or
      touches its destination;
    * (V2) a wait follows its start in the same block;
    * (V3) no two buffers that are alive together overlap in the arena;
    * (V4) commands are all numbered, or none is, and then in order, from 0;
    * (V5) when a collective starts, the one that started 64 before it on the same
      axis was waited for (`OPTRT_MAX_IN_FLIGHT`);
    * (V6) the first argument of a function with `exec.arena_bytes` is an arena of so
      many bytes of the device's memory, those of other memory spaces follow, one a space, and all slots are in them;
    * (V7) `exec.commands` and `exec.communication` equal the function's,
      `exec.lower_bound_bytes` is between the most bytes alive at once and the
      arena, and `exec.peak_bytes` adds up to it;
    * (V8) a product or copy writes nothing that it reads as another operand;
    * (V9) all commands have a queue, or none has: that of its axis for a collective, `fetch` or `store` for
      a copy between memory spaces, else `compute`; and commands come after numbers of earlier ones.

    ```mlir
    %0 = exec.collective_start all_reduce sum over "row", %a to %b {…} : memref<64xf32>, memref<64xf32>
    // error: V1: writes the source of a collective that is under way
    exec.launch @k extent 1 grain 1 (read %c : memref<64xf32>, write %a : memref<64xf32>)
    exec.wait %0
    ```
  }];
}

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES

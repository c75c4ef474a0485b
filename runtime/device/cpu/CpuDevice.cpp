//===- CpuDevice.cpp - The kernels of a rank on a processor ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CpuDevice.h"

#include "AttentionEngine.h"
#include "Elements.h"
#include "FewRows.h"
#include "Gemm.h"
#include "NarrowProducts.h"
#include "OneDnn.h"
#include "Paging.h"
#include "Team.h"
#include "base/Subnormals.h"
#include "device/Descriptors.h"
#include "optimus-support/Pages.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <sys/mman.h>
#include <utility>
#include <vector>

using namespace optrt;
using optimus_support::ElementType;

namespace {

/// Copies of fewer elements than this are not worth waking a thread for.
constexpr int64_t parallelCopyBytes = 4 << 16;

constexpr int64_t hugePage = 2 << 20;

/// Gives pages of fresh memory their zeros.
void populate(char *start, int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0)
    return;
#endif
  // An older kernel has them when they are touched.
  for (int64_t at = 0; at < bytes; at += optimus_support::kPageBytes)
    static_cast<volatile char *>(start)[at] = 0;
}

/// A product whose last rows nobody reads has so many, or as many times two, as
/// it takes, but where they are few enough for FewRows.
constexpr int64_t kFewestRows = 32;

/// The rows of a product up to the last one that somebody reads.
int64_t rowsToRead(const optrt_gemm_desc &desc) {
  int64_t rows = desc.m;
  while (rows > 0 && desc.live[rows - 1] < 0)
    --rows;
  return rows;
}

/// So many rows, or more, as prepare() has prepared them.
int64_t preparedRows(int64_t rows, int64_t all) {
  int64_t prepared = kFewestRows;
  while (prepared < rows)
    prepared *= 2;
  return std::min(prepared, all);
}

} // namespace

class CpuDevice::Impl {
public:
  explicit Impl(int threads)
      : team(std::max(threads, 1)), gemm(team), attention(team) {}

  /// How B lies, if a product is one of few rows.
  StatusOr<std::optional<FewRows::Panels>>
  findFewRows(const optrt_gemm_desc &desc) {
    using Panels = std::optional<FewRows::Panels>;
    if (!FewRows::takes(desc))
      return Panels();
    return desc.packed_b && desc.blocks == 0 ? gemm.panelsOf(desc)
                                             : Panels(FewRows::Panels());
  }
  /// Whether a product is one for oneDNN, or made of blocks.
  StatusOr<bool> isWhole(const optrt_gemm_desc &desc) {
    if (isFewBits(layoutOf(desc).blocks))
      return false;
    if (desc.factor_type == OPTRT_F32)
      return true;
    return GemmEngine::takesNarrow() ? gemm.isWhole(desc) : false;
  }

  /// Makes room for a product, and adds what oneDNN has to know of.
  Status prepare(const optrt_gemm_desc &desc,
                 std::vector<optrt_gemm_desc> &products) {
    OPTRT_ASSIGN_OR_RETURN(const auto panels, findFewRows(desc));
    if (panels)
      return fewRows.prepare(desc);
    OPTRT_ASSIGN_OR_RETURN(const bool takesAll, isWhole(desc));
    if (takesAll) {
      products.push_back(desc);
      return okStatus();
    }
    OPTRT_RETURN_IF_ERROR(narrow.prepare(desc));
    for (const optrt_gemm_desc &part : narrow.productsOf(desc))
      products.push_back(part);
    return okStatus();
  }

  /// Memory of the system's, which is zero, on huge pages; null where there is
  /// none.
  char *map(int64_t bytes) {
    // Mappings begin anywhere: what is before and behind goes back.
    const int64_t all = bytes + hugePage;
    void *given = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (given == MAP_FAILED)
      return nullptr;
    auto *first = static_cast<char *>(given);
    const int64_t before = -reinterpret_cast<intptr_t>(given) & (hugePage - 1);
    if (before > 0)
      munmap(first, before);
    char *start = first + before;
    munmap(start + bytes, hugePage - before);
    madvise(start, bytes, MADV_HUGEPAGE);
    mapped[start] = bytes;
    return start;
  }
  /// False where it is none of map()'s.
  bool unmap(void *start) {
    auto found = mapped.find(start);
    if (found == mapped.end())
      return false;
    munmap(start, found->second);
    mapped.erase(found);
    return true;
  }

  Team team;
  GemmEngine gemm;
  std::map<void *, int64_t> mapped; ///< bytes by where they begin
  Buffer narrowScratch; ///< of one product at a time
  NarrowProducts narrow{team, narrowScratch, !GemmEngine::takesNarrow()};
  FewRows fewRows{team, narrowScratch};
  AttentionEngine attention;
  Paging paging;

  bool flushes = false, seen = false; ///< subnormal numbers
  /// One a thread, while they are given commands.
  std::vector<std::optional<SubnormalScope>> scopes;
};

CpuDevice::CpuDevice(int threads) : impl(std::make_unique<Impl>(threads)) {}
CpuDevice::~CpuDevice() = default;

Status CpuDevice::start() {
  OPTRT_RETURN_IF_ERROR(impl->team.start());
  return impl->gemm.start();
}

int CpuDevice::threads() const { return impl->team.size(); }

Queue CpuDevice::queue(std::string_view name) {
  return impl->paging.queue(name);
}

Event CpuDevice::record(Queue queue) { return impl->paging.record(queue); }

Status CpuDevice::await(Queue queue, Event event) {
  return impl->paging.await(queue, event);
}

Status CpuDevice::synchronize() { return impl->paging.synchronize(); }

Status CpuDevice::call(Queue queue, std::function<Status()> work) {
  if (queue.number == kCompute.number)
    return work();
  impl->paging.put(queue, std::move(work));
  return okStatus();
}

StatusOr<DeviceMemory> CpuDevice::allocate(int64_t bytes, const char *purpose) {
  OPTRT_RETURN_IF_ERROR(checkSize(bytes, purpose));
  // Pages, so that files are read and written where buffers lie.
  constexpr int64_t page = optimus_support::kPageBytes;
  constexpr int64_t alignment = 64;
  const int64_t unit = bytes >= hugePage ? hugePage
                       : bytes >= page   ? page
                                         : alignment;
  const int64_t rounded = (bytes + unit - 1) / unit * unit;
  if (rounded == 0)
    return DeviceMemory();
  char *start = unit == hugePage
                    ? impl->map(rounded)
                    : static_cast<char *>(std::aligned_alloc(unit, rounded));
  if (!start)
    return unavailable(concat("cannot allocate ", bytes, " bytes for ", purpose,
                              ": use a mesh with more ranks or a smaller "
                              "batch"))
        .withAdvice(plannedMemory());
  if (unit != hugePage) {
    std::memset(start, 0, rounded);
    return DeviceMemory(*this, start, rounded);
  }
  // Where the system gives memory that it does not have, the job ends here.
  const int64_t pages = rounded / hugePage;
  impl->team.split(pages, std::min<int64_t>(pages, threads()),
                   [&](int64_t begin, int64_t end) {
                     populate(start + begin * hugePage,
                              (end - begin) * hugePage);
                   });
  return DeviceMemory(*this, start, rounded);
}

StatusOr<DeviceMemory> CpuDevice::allocateInFile(int64_t bytes,
                                                 const char *purpose,
                                                 const std::string &folder) {
  OPTRT_RETURN_IF_ERROR(checkSize(bytes, purpose));
  if (bytes == 0)
    return DeviceMemory();
  OPTRT_ASSIGN_OR_RETURN(char *start,
                         impl->paging.allocate(bytes, purpose, folder));
  return DeviceMemory(*this, start, bytes);
}

Transfers CpuDevice::takeTransfers() { return impl->paging.takeTransfers(); }

void *CpuDevice::hostAddress(void *address) {
  return impl->paging.find(address) ? nullptr : address;
}

void CpuDevice::release(void *start) {
  if (!impl->paging.release(start) && !impl->unmap(start))
    std::free(start);
}

Status CpuDevice::clear(Queue, void *to, int64_t bytes) {
  return impl->paging.clear(to, bytes);
}

Status CpuDevice::write(Queue, void *to, const void *from, int64_t bytes) {
  return impl->paging.copy(from, to, bytes);
}

Status CpuDevice::read(Queue, void *to, const void *from, int64_t bytes) {
  return impl->paging.copy(from, to, bytes);
}

Status CpuDevice::configure(const DeviceOptions &options) {
  DeviceOptions others = options;
  others.flushesSubnormals &= !canFlushSubnormals();
  OPTRT_RETURN_IF_ERROR(Device::configure(others));
  impl->flushes = options.flushesSubnormals;
  impl->scopes = std::vector<std::optional<SubnormalScope>>(
      impl->flushes ? impl->team.size() : 0);
  return okStatus();
}

void CpuDevice::beginCommands() {
  if (impl->flushes)
    impl->team.all([this](int thread) { impl->scopes[thread].emplace(true); });
  else
    (void)takeSubnormalsSeen();
}

void CpuDevice::endCommands() {
  if (impl->flushes)
    impl->team.all([this](int thread) { impl->scopes[thread].reset(); });
  else
    impl->seen |= takeSubnormalsSeen();
}

bool CpuDevice::takeSubnormals() {
  const bool now = !impl->flushes && takeSubnormalsSeen();
  return std::exchange(impl->seen, false) || now;
}

Status CpuDevice::prepare(const Workload &workload) {
  Workload products;
  std::copy_if(workload.packs.begin(), workload.packs.end(),
               std::back_inserter(products.packs),
               [](const optrt_pack_desc &desc) { return desc.blocks == 0; });
  impl->narrowScratch.seal(false);
  for (optrt_gemm_desc desc : workload.products) {
    OPTRT_RETURN_IF_ERROR(impl->prepare(desc, products.products));
    const int64_t rows = desc.m;
    if (!desc.few_rows || desc.trans_a || rows <= kFewRows)
      continue;
    // The same with fewer rows, whose last ones nobody reads.
    desc.m = kFewRows;
    OPTRT_ASSIGN_OR_RETURN(const auto panels, impl->findFewRows(desc));
    if (panels)
      OPTRT_RETURN_IF_ERROR(impl->fewRows.prepare(desc));
    for (desc.m = kFewestRows; desc.m < rows; desc.m *= 2)
      OPTRT_RETURN_IF_ERROR(impl->prepare(desc, products.products));
  }
  impl->narrowScratch.seal(true);
  OPTRT_RETURN_IF_ERROR(impl->gemm.prepare(products));
  return impl->attention.prepare(workload);
}

Status CpuDevice::pack(Queue, const optrt_pack_desc &desc, const float *src,
                       float *dst) {
  if (desc.blocks == 0)
    return impl->gemm.pack(desc, src, dst);
  OPTRT_RETURN_IF_ERROR(check(desc, src, dst));
  impl->narrow.writeBlocks(desc, src, dst);
  return okStatus();
}

Status CpuDevice::gemm(Queue, const optrt_gemm_desc &desc, const void *a,
                       const void *b, void *c, const void *bias,
                       const void *extra) {
  if (desc.epilogue == OPTRT_EPILOGUE_BIAS_GRAD)
    return unavailable("this device's products sum no rows of B");
  OPTRT_ASSIGN_OR_RETURN(ElementType factors, typeOf("gemm", desc.factor_type));
  OPTRT_ASSIGN_OR_RETURN(ElementType result, typeOf("gemm", desc.result_type));
  OPTRT_ASSIGN_OR_RETURN(ElementType ofBias, typeOf("gemm", desc.bias_type));
  OPTRT_ASSIGN_OR_RETURN(ElementType ofExtra, typeOf("gemm", desc.extra_type));
  // Descriptors are known without the address.
  optrt_gemm_desc all = desc;
  all.live = nullptr;
  if (desc.live && desc.m > kFewRows) {
    all.m = rowsToRead(desc);
    if (all.m == 0)
      return check(desc, a, b, c, bias, extra);
  }
  OPTRT_ASSIGN_OR_RETURN(const auto panels, impl->findFewRows(all));
  if (panels) {
    OPTRT_RETURN_IF_ERROR(check(desc, a, b, c, bias, extra));
    all.live = desc.live;
    return impl->fewRows.multiply(all, a, b, *panels, {c, desc.ldc, result},
                                  {bias, desc.n, ofBias},
                                  {extra, desc.ld_extra, ofExtra});
  }
  if (all.m < desc.m)
    all.m = preparedRows(all.m, desc.m);
  if (factors == ElementType::F32 && desc.blocks == 0) {
    if (result != factors || ofBias != factors || ofExtra != factors)
      return invalidArgument("gemm of f32 expects all operands to be f32");
    return impl->gemm.run(all, asF32(a), asF32(b), asF32(c), asF32(bias),
                          asF32(extra));
  }
  OPTRT_RETURN_IF_ERROR(check(all, a, b, c, bias, extra));
  if (all.packed_b && all.blocks == 0)
    return invalidArgument("gemm of bf16 expects a B that is not packed");
  OPTRT_ASSIGN_OR_RETURN(const bool isWhole, impl->isWhole(all));
  if (isWhole)
    return impl->gemm.run(all, a, b, c, bias, extra);
  return impl->narrow.gemm(
      all, a, b, {c, desc.ldc, result}, {bias, desc.n, ofBias},
      {extra, desc.ld_extra, ofExtra},
      [this](const optrt_gemm_desc &block, const void *factorA,
             const void *factorB, float *product) {
        return impl->gemm.run(block, factorA, factorB, product, nullptr,
                              nullptr);
      });
}

Status CpuDevice::launch(Queue, const optrt_launch_desc &desc,
                         const optimus_kernel &kernel, void *const *args) {
  if (desc.extent < 0 || !kernel.run)
    return invalidArgument(
        concat("launch of '", desc.name ? desc.name : "?",
               "' expects a processor's kernel and an extent >= 0; found "
               "extent ",
               desc.extent, kernel.run ? "" : " and no code for processors"));
  int64_t tasks = std::min<int64_t>(
      impl->team.size(), desc.extent / std::max<int64_t>(desc.grain, 1));
  impl->team.split(desc.extent, tasks, [&](int64_t begin, int64_t end) {
    kernel.run(begin, end, args);
  });
  return okStatus();
}

Status CpuDevice::copy(Queue queue, const optrt_copy_desc &desc,
                       const void *src, void *dst) {
  OPTRT_RETURN_IF_ERROR(check(desc, src, dst));
  int64_t rows = desc.rows, cols = desc.cols;
  if (rows == 0 || cols == 0)
    return okStatus();
  int64_t srcLd = src ? desc.src_ld : cols, dstLd = desc.dst_ld;
  if (queue.number != kCompute.number)
    return call(queue, [this, desc, src, dst] {
      return impl->paging.copy(desc, src, dst);
    });
  if (src && (impl->paging.find(src) || impl->paging.find(dst)))
    return impl->paging.copy(desc, src, dst);
  if (rows == 1 || (srcLd == cols && dstLd == cols)) {
    cols *= rows;
    rows = 1;
  }
  // From here on in bytes: elements of all types are alike.
  const auto *from = static_cast<const std::byte *>(src);
  auto *into = static_cast<std::byte *>(dst);
  cols *= desc.element_bytes;
  srcLd *= desc.element_bytes;
  dstLd *= desc.element_bytes;
  int64_t bytes = rows * cols;
  int64_t tasks =
      std::min<int64_t>(impl->team.size(), bytes / parallelCopyBytes);
  // Split by bytes, so that one long row is shared too.
  impl->team.split(bytes, tasks, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t row = begin / cols, col = begin % cols;
      int64_t count = std::min(cols - col, end - begin);
      std::byte *to = into + row * dstLd + col;
      if (src)
        std::memcpy(to, from + row * srcLd + col, count);
      else
        std::memset(to, 0, count);
      begin += count;
    }
  });
  return okStatus();
}

Status CpuDevice::attention(Queue, const optrt_attention_desc &desc,
                            const AttentionOperands &operands) {
  return impl->attention.attend(desc, operands);
}

Status CpuDevice::attentionGrad(Queue, const optrt_attention_desc &desc,
                                const AttentionOperands &operands) {
  return impl->attention.attendGrad(desc, operands);
}

DeviceEnvironment CpuDevice::environment() const {
  return {Team::most(),
          concat(describeOneDnn(), ", attention with ",
                 bestAttentionKernels().name),
          refusedOfOneDnn()};
}

std::string CpuDevice::slowPrecision(int32_t type) const {
  if (type == OPTRT_F32 || GemmEngine::takesNarrow())
    return "";
  return concat("this processor has no instructions for products of ",
                toString(ElementType(type)), ", which are widened to f32");
}

size_t CpuDevice::scratchBytes() const {
  return impl->attention.scratchBytes() + impl->gemm.scratchBytes() +
         impl->narrowScratch.size();
}

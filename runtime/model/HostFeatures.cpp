//===- HostFeatures.cpp - What this processor can do ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostFeatures.h"

#include "optimus-support/ArmFeatures.h"
#include "optimus-support/CpuInfo.h"

#include <algorithm>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>

namespace optrt {
namespace {

/// Linux's names of LLVM's features, where they differ by more than
/// punctuation.
const std::map<std::string_view, std::string_view> &linuxNames() {
  static const std::map<std::string_view, std::string_view> names = {
      {"sse3", "pni"},
      {"bmi", "bmi1"},
      {"lzcnt", "abm"},
      {"cx16", "cx16"},
      {"pclmul", "pclmulqdq"},
      {"rdrnd", "rdrand"},
      {"sha", "sha_ni"},
      {"avxvnni", "avx_vnni"},
      {"avxifma", "avx_ifma"},
      {"avxvnniint8", "avx_vnni_int8"},
      {"popcnt", "popcnt"},
      {"bmi2", "bmi2"},
      {"movbe", "movbe"},
      {"f16c", "f16c"},
      {"fma", "fma"},
      {"fma4", "fma4"},
      {"aes", "aes"},
      {"vaes", "vaes"},
      {"adx", "adx"},
      {"rdseed", "rdseed"},
      {"gfni", "gfni"},
      {"vpclmulqdq", "vpclmulqdq"},
      {"xop", "xop"},
      {"tbm", "tbm"},
      {"sse4a", "sse4a"},
      {"ssse3", "ssse3"},
      {"avx512vbmi", "avx512vbmi"},
      {"avx512ifma", "avx512ifma"},
  };
  return names;
}

bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// The spellings under which the flags of an x86 processor may list a feature;
/// none when its lack does no harm.
std::vector<std::string> spellings(std::string_view feature) {
  auto it = linuxNames().find(feature);
  if (it != linuxNames().end())
    return {std::string(it->second)};
  if (!startsWith(feature, "avx") && !startsWith(feature, "amx") &&
      !startsWith(feature, "sse"))
    return {};
  // sse4.1 is sse4_1, amx-tile is amx_tile, and avx512vnni is avx512_vnni, but
  // avx512vl is avx512vl.
  std::string name(feature);
  std::replace(name.begin(), name.end(), '.', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  std::vector<std::string> all = {name};
  if (startsWith(name, "avx512"))
    all.push_back("avx512_" + name.substr(6));
  return all;
}

/// The words of the first line of /proc/cpuinfo with this name; nothing where
/// there is none.
std::optional<std::set<std::string>> wordsOf(std::string_view cpuInfo,
                                             std::string_view line) {
  const auto found = optimus_support::findCpuInfo(cpuInfo, line);
  if (!found)
    return std::nullopt;
  std::istringstream words{std::string(*found)};
  return std::set<std::string>{std::istream_iterator<std::string>(words), {}};
}

/// The version of AVX10 that this processor converges on; 0 without AVX10.
unsigned avx10Version() {
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && edx >> 19 & 1 &&
      __get_cpuid_count(0x24, 0, &eax, &ebx, &ecx, &edx))
    return ebx & 0xff;
#endif
  return 0;
}

} // namespace

std::vector<std::string> missingFeatures(std::span<const std::string> features,
                                         std::string_view cpuInfo) {
  std::optional<std::set<std::string>> x86 = wordsOf(cpuInfo, "flags"),
                                       arm = wordsOf(cpuInfo, "Features");
  std::vector<std::string> missing;
  for (std::string_view feature : features) {
    // LLVM's lists mark features that are on with a plus.
    if (startsWith(feature, "-"))
      continue;
    if (startsWith(feature, "+"))
      feature.remove_prefix(1);
    auto it = std::ranges::find(optimus_support::kArmFeatures, feature,
                                &optimus_support::ArmFeature::name);
    bool isArms = it != std::end(optimus_support::kArmFeatures);
    const auto &present = isArms ? arm : x86;
    std::vector<std::string> names =
        isArms ? std::vector{std::string(it->linuxName)} : spellings(feature);
    if (present && !names.empty() &&
        std::none_of(names.begin(), names.end(), [&](const std::string &name) {
          return present->contains(name);
        }))
      missing.emplace_back(feature);
  }
  return missing;
}

std::string addAvx10(std::string cpuInfo, unsigned version) {
  std::size_t begin = cpuInfo.find("\nflags");
  if (begin == std::string::npos)
    return cpuInfo;
  std::string names;
  for (unsigned v = 1; v <= version; ++v)
    names += " avx10_" + std::to_string(v);
  cpuInfo.insert(std::min(cpuInfo.find('\n', begin + 1), cpuInfo.size()),
                 names);
  return cpuInfo;
}

std::string describeHost() {
  return addAvx10(optimus_support::readCpuInfo(), avx10Version());
}

} // namespace optrt

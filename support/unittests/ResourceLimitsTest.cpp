//===- ResourceLimitsTest.cpp - What this process may use -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ResourceLimits.h"

#include "FolderTest.h"

#include <gmock/gmock.h>

using namespace optimus_support;
using testing::ElementsAre;
using testing::EndsWith;

namespace {

constexpr int64_t kGiB = int64_t(1) << 30;

/// A machine of 8 cores and 64 GiB as a process sees it, below a folder.
class ResourceLimitsTest : public FolderTest {
protected:
  void SetUp() override {
    FolderTest::SetUp();
    write("proc/sys/kernel/random/boot_id", "boot-7\n");
    write("proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 5 kB\n");
    affinity("0-7");
  }

  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories((folder / path).parent_path());
    put(path, text);
  }
  void affinity(const std::string &list) {
    write("proc/self/status", "Name:\tx\nCpus_allowed:\tff\n"
                              "Cpus_allowed_list:\t" +
                                  list + "\n");
  }
  /// Version 2, mounted as a container of the group `mounted` sees it.
  void unified(const std::string &group, const std::string &mounted = "/") {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n"
                                 "30 23 0:26 " +
                                     mounted +
                                     " /sys/fs/cgroup rw,nosuid shared:4 - "
                                     "cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// Version 1, beside an empty hierarchy of version 2 as systemd mounts it.
  void legacy(const std::string &group, const std::string &mounted = "/") {
    write("proc/self/cgroup",
          "12:cpuset:" + group + "\n11:cpu,cpuacct:" + group +
              "\n4:memory:" + group + "\n1:name=systemd:/init\n0::/init\n");
    std::string mounts = "40 23 0:40 / /sys/fs/cgroup/unified rw - cgroup2 "
                         "cgroup2 rw\n";
    for (const char *controllers : {"cpuset", "cpu,cpuacct", "memory"})
      mounts += "31 23 0:27 " + mounted + " /sys/fs/cgroup/" + controllers +
                " rw shared:9 - cgroup cgroup rw," + controllers + "\n";
    write("proc/self/mountinfo", mounts);
  }
  ResourceLimits limits() const { return readResourceLimits(folder.string()); }
};

TEST_F(ResourceLimitsTest, AMachineWithoutCgroupsIsAllThere) {
  const ResourceLimits found = limits();
  EXPECT_EQ(found.machine, "boot-7");
  EXPECT_EQ(found.usableCores(), 8);
  EXPECT_EQ(found.memoryBytes, 64 * kGiB);
  EXPECT_EQ(found.memoryOwner(), "this machine");
}

TEST_F(ResourceLimitsTest, AnEmptyRootIsThisMachine) {
  std::filesystem::remove_all(folder / "proc");
  const ResourceLimits found = limits();
  EXPECT_GE(found.usableCores(), 1);
  EXPECT_GT(found.memoryBytes, 0);
}

TEST_F(ResourceLimitsTest, AffinityLimitsCores) {
  affinity("1,4-5");
  EXPECT_THAT(limits().cores, ElementsAre(1, 4, 5));
  EXPECT_EQ(limits().usableCores(), 3);
}

TEST_F(ResourceLimitsTest, AQuotaOfVersion2) {
  unified("/job");
  write("sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/job/memory.max", "4294967296\n");
  const ResourceLimits found = limits();
  EXPECT_EQ(found.usableCores(), 2);
  ASSERT_EQ(found.quotas.size(), 1u);
  EXPECT_THAT(found.quotas[0].file, EndsWith("/job/cpu.max"));
  EXPECT_EQ(found.memoryBytes, 4 * kGiB);
  EXPECT_THAT(found.memoryFile, EndsWith("/job/memory.max"));
  EXPECT_EQ(found.memoryOwner(), "this container");
}

TEST_F(ResourceLimitsTest, MaxLimitsNothing) {
  unified("/job");
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.high", "max\n");
  write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-7\n");
  EXPECT_EQ(limits().usableCores(), 8);
  EXPECT_EQ(limits().memoryBytes, 64 * kGiB);
}

TEST_F(ResourceLimitsTest, ParentsOfVersion2Count) {
  unified("/pod/container/step");
  write("sys/fs/cgroup/pod/cpu.max", "300000 100000\n");
  write("sys/fs/cgroup/pod/memory.max", "8589934592\n");
  write("sys/fs/cgroup/pod/container/memory.high", "2147483648\n");
  write("sys/fs/cgroup/pod/container/step/cpu.max", "500000 100000\n");
  const ResourceLimits found = limits();
  EXPECT_EQ(found.usableCores(), 3);
  EXPECT_EQ(found.quotas.size(), 2u);
  EXPECT_EQ(found.memoryBytes, 2 * kGiB);
  EXPECT_THAT(found.memoryFile, EndsWith("/container/memory.high"));
}

TEST_F(ResourceLimitsTest, ControllersThatAGroupLacksAreItsParents) {
  unified("/slice/scope");
  write("sys/fs/cgroup/slice/scope/cgroup.procs", "1\n");
  write("sys/fs/cgroup/slice/cpu.max", "100000 100000\n");
  write("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(limits().usableCores(), 1);
  EXPECT_EQ(limits().memoryBytes, kGiB);
}

TEST_F(ResourceLimitsTest, CpusetsOfVersion2) {
  unified("/job");
  write("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
  write("sys/fs/cgroup/job/cpuset.cpus.effective", "2-3,6\n");
  EXPECT_THAT(limits().cores, ElementsAre(2, 3, 6));
  affinity("3-5");
  EXPECT_THAT(limits().cores, ElementsAre(3));
}

/// A namespace of its own: the group is /, and so is what is mounted.
TEST_F(ResourceLimitsTest, AContainerWithANamespaceSeesItsRoot) {
  unified("/");
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/memory.max", "3221225472\n");
  EXPECT_EQ(limits().usableCores(), 2);
  EXPECT_EQ(limits().memoryBytes, 3 * kGiB);
}

/// Without one, the group is named as the host names it, and mounted alone.
TEST_F(ResourceLimitsTest, AContainerWithoutANamespaceSeesItsGroup) {
  unified("/docker/abc/inner", "/docker/abc");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/inner/cpu.max", "200000 100000\n");
  EXPECT_EQ(limits().usableCores(), 2);
  unified("/docker/abcdef", "/docker/abc");
  EXPECT_EQ(limits().usableCores(), 4);
  unified("/../elsewhere");
  EXPECT_EQ(limits().usableCores(), 4);
}

TEST_F(ResourceLimitsTest, Version1) {
  legacy("/batch/job");
  write("sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "600000\n");
  write("sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "17179869184\n");
  ResourceLimits found = limits();
  EXPECT_EQ(found.usableCores(), 6);
  EXPECT_EQ(found.memoryBytes, 16 * kGiB);
  write("sys/fs/cgroup/cpuset/batch/job/cpuset.cpus", "0-1\n");
  write("sys/fs/cgroup/cpuset/batch/cpuset.cpus", "\n");
  found = limits();
  EXPECT_THAT(found.cores, ElementsAre(0, 1));
  EXPECT_EQ(found.usableCores(), 2);
  write("sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(limits().usableCores(), 1);
}

TEST_F(ResourceLimitsTest, Version1InAContainer) {
  legacy("/docker/abc", "/docker/abc");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(limits().usableCores(), 3);
  EXPECT_EQ(limits().memoryBytes, kGiB);
}

TEST_F(ResourceLimitsTest, QuotasAreWholeCores) {
  auto whole = [](double cores) { return wholeCores({cores, "", ""}); };
  EXPECT_EQ(whole(0.01), 1);
  EXPECT_EQ(whole(1.4), 1);
  EXPECT_EQ(whole(1.5), 2);
  EXPECT_EQ(whole(3.9), 4);
  EXPECT_EQ(whole(1e300), 1 << 16);
}

TEST_F(ResourceLimitsTest, NonsenseLimitsNothing) {
  unified("/job");
  for (const char *text : {"", "\n", "x y\n", "-5 100000\n", "100000 0\n",
                           "0 100000\n", "99999999999999999999 100000\n"}) {
    write("sys/fs/cgroup/job/cpu.max", text);
    write("sys/fs/cgroup/job/memory.max", text);
    write("sys/fs/cgroup/job/cpuset.cpus.effective", text);
    EXPECT_EQ(limits().usableCores(), 8) << text;
    EXPECT_EQ(limits().memoryBytes, 64 * kGiB) << text;
  }
  for (const char *list : {"7-", "-", "a-b", "0-99999999", "3-1"}) {
    write("sys/fs/cgroup/job/cpuset.cpus.effective", list);
    EXPECT_EQ(limits().usableCores(), 8) << list;
  }
  write("proc/self/mountinfo", "- - -\n1 2 3\n1 2 3 / /x rw - cgroup2\n");
  write("proc/self/cgroup", "x\n0:\n::\n");
  EXPECT_EQ(limits().usableCores(), 8);
}

TEST_F(ResourceLimitsTest, FoldersWithBlanks) {
  write("proc/self/cgroup", "0::/a job\n");
  write("proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/my\\040cgroups rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/my cgroups/a job/cpu.max", "100000 100000\n");
  EXPECT_EQ(limits().usableCores(), 1);
}

/// As ranks compare them: the same folder is the same group.
TEST_F(ResourceLimitsTest, GroupsAreToldApart) {
  unified("/pod/a");
  write("sys/fs/cgroup/pod/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/pod/a/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/pod/b/cpu.max", "200000 100000\n");
  const ResourceLimits a = limits();
  unified("/pod/b");
  const ResourceLimits b = limits();
  ASSERT_EQ(a.quotas.size(), 2u);
  ASSERT_EQ(b.quotas.size(), 2u);
  EXPECT_NE(a.quotas[0].group, b.quotas[0].group);
  EXPECT_EQ(a.quotas[1].group, b.quotas[1].group);
}

} // namespace

// Bounds on memory that /proc and cgroups of both versions give, read from files like those of real machines.
#include "annulus/core/memory_bounds.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "annulus/core/memory.hpp"

namespace annulus::core {
namespace {

namespace fs = std::filesystem;

/// A root folder with made-up /proc and /sys/fs/cgroup, removed at the end.
class MemoryBounds : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "annulus-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text << "\n";
  }
  /// Writes a cgroup of version 1: its limit, what it uses, and how much of that is the page cache of files, in bytes.
  void group1(const std::string& path, const std::string& limit, Index used, Index pages) const {
    write(path + "/memory.limit_in_bytes", limit);
    write(path + "/memory.usage_in_bytes", std::to_string(used));
    write(path + "/memory.stat",
          "cache 77\ntotal_inactive_file " + std::to_string(pages - 100) + "\ntotal_active_file 100");
  }
  /// Bytes free below the bound of this name; -1 where there is none.
  Index free(const std::string& name) const {
    for (const MemoryBound& bound : memory_bounds(root)) {
      if (bound.name == name) return bound.free;
    }
    return -1;
  }
  std::string root;
};

TEST_F(MemoryBounds, OfTheNode) {
  EXPECT_TRUE(memory_bounds(root).empty());
  write("/proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    1234 kB\nMemFree: 5 kB");
  const auto bounds = memory_bounds(root);
  ASSERT_EQ(bounds.size(), 1u);
  EXPECT_EQ(bounds[0].free, 1234 * 1024);
  EXPECT_EQ(bounds[0].shared_as, "node");
}

const std::string slurm = "/slurm/uid_0/job_7";

TEST_F(MemoryBounds, OfAGroupOfVersion1AndOfThoseAboveIt) {
  write("/proc/self/cgroup", "9:name=systemd:/x\n5:cpu,cpuacct:/\n4:memory:" + slurm + "/step_0\n0::/");
  write("/proc/self/mountinfo",
        "25 20 0:22 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "26 20 0:23 / /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory\n"
        "27 20 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  const std::string mount = "/sys/fs/cgroup/memory";
  group1(mount + slurm + "/step_0", "9223372036854771712", 1000, 400);
  group1(mount + slurm, "471859200", 100000000, 30000000);
  group1(mount + "/slurm", "900000000", 100000000, 100);
  EXPECT_EQ(free("memory cgroup " + slurm + "/step_0"), -1) << "no limit of its own";
  EXPECT_EQ(free("memory cgroup " + slurm), 471859200 - 70000000) << "pages of files can be dropped";
  EXPECT_EQ(free("memory cgroup /slurm"), 900000000 - (100000000 - 100));
  const auto bounds = memory_bounds(root);
  ASSERT_EQ(bounds.size(), 2u);
  EXPECT_EQ(bounds[0].shared_as, mount + slurm) << "the same for all ranks of a group";
  group1(mount + slurm, "471859200", 900000000, 400);
  EXPECT_EQ(free("memory cgroup " + slurm), 0) << "more in use than allowed";
}

TEST_F(MemoryBounds, OfAContainerThatSeesItsGroupAsTheTop) {
  write("/proc/self/cgroup", "4:memory:/docker/abc");
  write("/proc/self/mountinfo", "26 20 0:23 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory");
  group1("/sys/fs/cgroup/memory", "1000000", 1000, 400);
  EXPECT_EQ(free("memory cgroup /"), 1000000 - 600);
  write("/proc/self/cgroup", "4:memory:/docker/abc/inner");
  group1("/sys/fs/cgroup/memory/inner", "500000", 1000, 1000);
  EXPECT_EQ(free("memory cgroup /inner"), 500000);
  EXPECT_EQ(free("memory cgroup /"), 1000000 - 600);
  write("/proc/self/cgroup", "4:memory:/elsewhere");
  EXPECT_EQ(free("memory cgroup /"), 1000000 - 600) << "a name that is not seen here";
  write("/sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 300000");
  EXPECT_EQ(free("memory cgroup /"), 300000 - 1000) << "a group above the container's";
}

TEST_F(MemoryBounds, OfAGroupOfVersion2AndOfThoseAboveIt) {
  write("/proc/self/cgroup", "0::/system.slice/job_7/step_0/user/task_1");
  write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate");
  const std::string job = "/sys/fs/cgroup/system.slice/job_7";
  write(job + "/memory.max", "2000000");
  write(job + "/memory.high", "1500000");
  write(job + "/memory.current", "500000");
  write(job + "/memory.stat", "anon 1\ninactive_file 100000\nactive_file 50000");
  write(job + "/step_0/memory.max", "max");
  write(job + "/step_0/memory.current", "400000");
  EXPECT_EQ(free("memory cgroup /system.slice/job_7"), 1500000 - 350000);
  ASSERT_EQ(memory_bounds(root).size(), 1u) << "the other groups have no limit";
  write(job + "/step_0/user/task_1/memory.max", "100000");
  EXPECT_EQ(free("memory cgroup /system.slice/job_7/step_0/user/task_1"), 100000);
  EXPECT_EQ(memory_bounds(root).size(), 2u);
}

TEST_F(MemoryBounds, OfTheProcessItself) {
  write("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max data size             unlimited            unlimited            bytes\n"
        "Max address space         471859200            unlimited            bytes");
  write("/proc/self/status", "Name: x\nVmSize:   100000 kB\nVmData:   50000 kB");
  EXPECT_EQ(free("address space limit (ulimit -v)"), 471859200 - 100000 * 1024);
  EXPECT_EQ(free("data limit (ulimit -d)"), -1);
  EXPECT_EQ(memory_bounds(root)[0].shared_as, "") << "every rank has its own";
}

TEST(MemoryBound, OfThisVeryProcess) {
  const auto of_space = [] {
    for (const MemoryBound& bound : memory_bounds()) {
      if (bound.name == "address space limit (ulimit -v)") return bound.free;
    }
    return Index(-1);
  };
  ASSERT_FALSE(memory_bounds().empty());
  for (const MemoryBound& bound : memory_bounds()) EXPECT_LT(bound.free, Index(1) << 50) << bound.name;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit limit{rlim_t(1) << 50, before.rlim_max};  // 1 PiB: sanitizers take terabytes of addresses
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const Index free = of_space();
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_GT(free, 0);
  EXPECT_LT(free, (Index(1) << 50) - resident_bytes()) << "what the process has is taken off";
}

}  // namespace
}  // namespace annulus::core

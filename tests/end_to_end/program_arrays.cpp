// Tasks of a job array that work on one run together, and tasks that come late.
#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

using Arrays = ProgramTest;

/// Two launches share a run, as tasks of a job array do.
TEST_F(Arrays, LaunchesShareTheBlocksOfOneStream) {
  write("run.yaml", R"(
input: {generate: {sequence: 20001, heads: 2, head_dim: 16}}
compute: {memory_limit: 4MiB}
distribution: {strategy: stream}
output: {file: out.h5, report: report.json}
)");
  const std::string task = "env SLURM_ARRAY_TASK_ID=0 OMPI_MCA_odls_base_sigkill_timeout=0 " +
                           fmt::format(ANNULUS_LAUNCH, 1) + " " ANNULUS_PROGRAM " run run.yaml";
  // Both begin at the same time, with other memory limits: both take the blocks of the launch that began first.
  const Outcome both = shell(
      fmt::format("({0} > a.txt 2>&1; echo status $? >> a.txt) & {0} --set compute.memory_limit=5MiB > b.txt 2>&1; "
                  "echo status $? >> b.txt; wait",
                  task));
  EXPECT_EQ(both.status, 0) << both.err;
  for (const char* words : {"a.txt", "b.txt"}) {
    EXPECT_NE(slurp(folder / words).find("status 0"), std::string::npos) << slurp(folder / words);
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"a.txt", "b.txt", "out.h5", "report.json", "run.yaml"}));
  EXPECT_EQ(annulus(1, "verify run.yaml --rows 20").status, 0);
  EXPECT_EQ(shell(task).status, 0) << "a task that comes when all is done";
  EXPECT_EQ(annulus(1, "run run.yaml").status, 1) << "no task of an array: the result exists";
  const auto expect_another_run = [&](const std::string& more) {
    const Outcome other = shell(task + more);
    EXPECT_EQ(other.status, 1) << more << other.err;
    EXPECT_EQ(count(other.err, "exists already"), 1) << more << other.err;
  };
  expect_another_run(" --set compute.reproducible=true");
  expect_another_run(" --set compute.backend=host");
  const hid_t file = H5Fopen((folder / "out.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  EXPECT_GE(H5Adelete_by_name(file, "provenance", "git_commit", H5P_DEFAULT), 0);
  H5Fclose(file);
  expect_another_run("");  // the result of another program
}

/// An array is submitted again after the numbers of its input have changed.
TEST_F(Arrays, AnOldResultIsNotThatOfATaskOfAnArray) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 3001 --heads 2 --head-dim 16").status, 0);
  for (const char* distribution : {"{strategy: stream}", "{strategy: ring}"}) {
    write("run.yaml", fmt::format("input: {{file: in.h5}}\ncompute: {{memory_limit: 2MiB}}\ndistribution: {}\n"
                                  "output: {{file: out.h5}}\n",
                                  distribution));
    const std::string task = "env SLURM_ARRAY_TASK_ID=0 " ANNULUS_PROGRAM " run run.yaml";
    ASSERT_EQ(shell(task).status, 0);
    const Outcome again = shell(task);
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_NE(again.err.find("is complete: other tasks made it"), std::string::npos) << again.err;
    spoil(folder / "in.h5", "/k", 1000, 1);
    const Outcome other = shell(task);
    EXPECT_EQ(other.status, 1) << other.err;
    EXPECT_NE(other.err.find("exists already"), std::string::npos) << other.err;
    std::filesystem::remove(folder / "out.h5");
  }
}

/// The new input has the date of an older one, as cp -p, rsync and tar leave it.
TEST_F(Arrays, AnInputWithAnOldDateIsNotThatOfAnEarlierArray) {
  for (const char* name : {"in", "second"}) {
    ASSERT_EQ(annulus(0, fmt::format("generate --output {0}.h5 --sequence 500 --heads 2 --head-dim 16 --seed {1}", name,
                                     name[0] == 'i' ? 1 : 2))
                  .status,
              0);
  }
  write("run.yaml",
        "input: {file: in.h5}\ndistribution: {strategy: stream, block_size: 100}\noutput: {file: out.h5}\n");
  const std::string task = "env SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_JOB_ID=7 " ANNULUS_PROGRAM " run run.yaml";
  ASSERT_EQ(shell(task).status, 0);
  ASSERT_EQ(shell("cp -p second.h5 in.h5").status, 0);
  const Outcome other = shell(task);
  EXPECT_EQ(other.status, 1) << other.err;
  EXPECT_NE(other.err.find("exists already"), std::string::npos) << other.err;
}

TEST_F(Arrays, ALateTaskReplacesTheResultOfAnEarlierArrayButNotThatOfItsOwn) {
  write("run.yaml",
        "input: {generate: {sequence: 500, heads: 2, head_dim: 16}}\n"
        "distribution: {strategy: stream, block_size: 100}\noutput: {file: out.h5, overwrite: true}\n");
  const auto task = [&](int array) {
    return shell(
        fmt::format("env SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_JOB_ID={} " ANNULUS_PROGRAM " run run.yaml", array));
  };
  for (const auto& [array, is_done] : {std::pair(7, false), {7, true}, {8, false}, {8, true}}) {
    const Outcome outcome = task(array);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(count(outcome.err, "is complete: other tasks made it"), is_done ? 1 : 0) << array << outcome.err;
  }
}

}  // namespace
}  // namespace annulus::test

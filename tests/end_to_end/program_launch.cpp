// The program under a launcher that its MPI library does not understand, and in a Slurm job without a launcher.
#include <mpi.h>

#include "launched.hpp"

namespace annulus::test {
namespace {

using namespace std::string_literals;

class UnderALauncher : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml", "input: {generate: {sequence: 40, heads: 2, head_dim: 8}}\noutput: {file: o.h5}\n");
  }
  /// Runs annulus with these variables, without those of a launcher or Slurm job in which the tests themselves may run.
  Outcome alone(const std::string& variables, const std::string& arguments) const {
    return shell(clean + variables + " " + ANNULUS_PROGRAM + " " + arguments);
  }
  const std::string clean =
      "env -u SLURM_NTASKS -u SLURM_STEP_NUM_TASKS -u SLURM_PROCID -u OMPI_COMM_WORLD_SIZE -u OMPI_COMM_WORLD_RANK "
      "-u PMI_SIZE -u PMI_RANK -u MPI_LOCALNRANKS ";
};

TEST_F(UnderALauncher, OfAnotherMpiNothingIsComputed) {
  for (const std::string name : {"OMPI_COMM_WORLD", "PMI"}) {
    const Outcome outcome = alone(fmt::format("{0}_SIZE=3 {0}_RANK=0", name), "run run.yaml");
    SCOPED_TRACE(outcome.err);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(count(outcome.err, "annulus: error:"), 1);
    for (const std::string& word : {name + "_SIZE", "started 3 processes"s, "sees 1"s, "built with"s, "-n 3 annulus"s})
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word;
  }
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(UnderALauncher, OfAStepWithAnotherPmiNothingIsMade) {
  for (const std::string verb : {"run run.yaml", "generate --output o.h5 --sequence 8 --heads 2", "verify run.yaml"}) {
    const Outcome outcome = alone("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_NTASKS=2", verb);
    SCOPED_TRACE(verb + "\n" + outcome.err);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(count(outcome.err, "annulus: "), 1);
    EXPECT_NE(outcome.err.find("srun started 2 processes (SLURM_STEP_NUM_TASKS)"), std::string::npos);
    EXPECT_NE(outcome.err.find("srun --mpi=list"), std::string::npos);
  }
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(UnderALauncher, OneOfItsProcessesSpeaks) {
  const Outcome outcome = alone("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1", "run run.yaml");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err.find("annulus: "), std::string::npos) << outcome.err;
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(UnderALauncher, InfoAndListAnswerAllTheSame) {
  for (const std::string verb : {"info", "list"}) {
    const Outcome outcome = alone("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0", verb);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(count(outcome.err, "annulus: warning: srun started 2 processes"), 1) << outcome.err;
    EXPECT_NE(outcome.out, "");
  }
  EXPECT_EQ(alone("SLURM_STEP_NUM_TASKS=2", "run --help").status, 0);
}

TEST_F(UnderALauncher, HelpVersionAndMistakesNeedNoMpi) {
  const std::string watched = "SLOW_CALL=MPI_Init_thread SLOW_RANK=0 SLOW_SECONDS=0 LD_PRELOAD=" ANNULUS_SLOW_CALLS;
  const auto started = [&](const Outcome& outcome) { return count(outcome.err, "slow: sleeps"); };
  EXPECT_EQ(started(alone(watched, "list")), 1);  // so a start of MPI is seen
  const std::vector<std::pair<std::string, int>> lines{{"--version", 0}, {"--help", 0}, {"run --help", 0}, {"rum", 2}};
  for (const auto& [line, status] : lines) {
    const Outcome outcome = alone(watched, line);
    SCOPED_TRACE(line + "\n" + outcome.err);
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(started(outcome), 0);
    EXPECT_NE(outcome.out + outcome.err, "");
  }
}

/// Without a launcher, no other program says which signal came.
TEST_F(UnderALauncher, ASignalBeforeMpiHasStartedIsNamed) {
  const std::string command = clean + "LD_PRELOAD=" ANNULUS_SLOW_CALLS
                                      " SLOW_CALL=MPI_Init_thread SLOW_RANK=0 SLOW_SECONDS=60 " ANNULUS_PROGRAM
                                      " run run.yaml";
  const std::string end = "; the work had not begun: run again\n";
  for (const auto& [signal, status, line] : {std::tuple(SIGTERM, 1, "annulus: error: ended by signal TERM"),
                                             {SIGUSR1, 75, "annulus: stopped on request by signal USR1"}}) {
    Launched run(folder, command);
    ASSERT_TRUE(run.reaches("slow: sleeps", 1)) << run.err();
    run.send_launcher(signal);
    EXPECT_EQ(run.status(50), status) << run.err();
    EXPECT_EQ(count(run.err(), line + end), 1) << run.err();
  }
}

TEST_F(UnderALauncher, OneProcessStartsNoDaemon) {
  const Outcome outcome = alone("",
                                "run run.yaml > /dev/null & pid=$!; "
                                "while kill -0 $pid; do cat /proc/$pid/task/*/children; done 2> /dev/null");
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(exists("o.h5"));
}

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
/// Open MPI 4 would make one folder for all processes of a user that have no daemon, and one of them could remove it
/// while another starts.
TEST_F(UnderALauncher, OneProcessNeedsNoFolderForTemporaryFiles) {
  const Outcome outcome = alone("-u OMPI_MCA_orte_tmpdir_base TMPDIR=/dev/null", "run run.yaml");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}
#endif

TEST_F(UnderALauncher, ABatchScriptWithoutSrunIsWarned) {
  const Outcome outcome = alone("SLURM_NTASKS=4 SLURM_PROCID=0", "run run.yaml");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "annulus: warning: Slurm allocated 4 tasks"), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("srun --kill-on-bad-exit=1 annulus run"), std::string::npos) << outcome.err;
  EXPECT_TRUE(exists("o.h5"));
  EXPECT_EQ(count(alone("SLURM_NTASKS=4", "info").err, "annulus: warning: Slurm allocated"), 1);
  EXPECT_EQ(count(alone("SLURM_NTASKS=4", "list").err, "annulus:"), 0);
  EXPECT_EQ(count(alone("SLURM_NTASKS=1", "info").err, "annulus:"), 0);
}

TEST_F(UnderALauncher, MoreThreadsThanKokkosStartsAreNotStarted) {
  const Outcome outcome = alone("OMP_NUM_THREADS=600", "run run.yaml");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "annulus: warning: "), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("600"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("512"), std::string::npos) << outcome.err;
}

TEST_F(UnderALauncher, WhatKokkosCannotStartWithIsRefused) {
  const auto refused = [&](const std::string& variables, const std::string& option, const std::string& words) {
    const Outcome outcome = alone(variables, "info " + option);
    EXPECT_EQ(outcome.status, 2) << variables << option << outcome.err;
    EXPECT_EQ(outcome.err.find("annulus: error: " + words), 0u) << outcome.err;
  };
  const std::string name = "KOKKOS_NUM_THREADS", expected = ", expected a whole number from 1 to 512\n";
  for (const std::string number : {"0", "abc", "999999"}) {
    refused(fmt::format("{}={}", name, number), "",
            fmt::format("the environment variable {} is '{}'{}", name, number, expected));
  }
  refused("", "--kokkos-threads=0", "--kokkos-threads is '0'" + expected);
  refused("KOKKOS_DISABLE_WARNINGS=maybe", "", "Kokkos cannot start; look at its options");
}

TEST_F(UnderALauncher, TheRightOneInsideAStepIsRight) {
  const std::string step = clean + "SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 ";
  for (const int ranks : {1, 3}) {
    const Outcome outcome = shell(step + fmt::format(ANNULUS_LAUNCH, ranks) + " " + ANNULUS_PROGRAM +
                                  " run run.yaml --set output.overwrite=true");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(count(outcome.err, "annulus: warning:") + count(outcome.err, "annulus: error:"), 0) << outcome.err;
    EXPECT_NE(outcome.out.find(fmt::format("on {} rank", ranks)), std::string::npos) << outcome.out;
  }
}

}  // namespace
}  // namespace annulus::test

// Runs in containers, where processes may not read each other's memory.
#include "end_to_end/program.hpp"

namespace annulus::test {
namespace {

class Containers : public ProgramTest {
 protected:
  /// As annulus(), with a launcher and ranks that may not read each other's memory.
  Outcome forbidden(int ranks, const std::string& arguments) const {
    return shell(fmt::format("{} {} {} {}", ANNULUS_FORBID_READING, fmt::format(ANNULUS_LAUNCH, ranks), ANNULUS_PROGRAM,
                             arguments));
  }
};

TEST_F(Containers, LongMessagesTravelWithoutAWordOfMpi) {
  write("run.yaml",
        "input: {generate: {sequence: 512, heads: 4, head_dim: 64}}\n"
        "attention: {causal: false}\ndistribution: {strategy: ring}\noutput: {file: out.h5}\n");
  const Outcome run = forbidden(2, "run run.yaml");
  EXPECT_EQ(run.status, 0) << run.err;
  std::istringstream words(run.err);
  for (std::string line; std::getline(words, line);) {
    EXPECT_TRUE(line.starts_with("annulus: ")) << "not a line of annulus, but of Open MPI: " << line;
  }
  const Outcome verify = annulus(0, "verify run.yaml");
  EXPECT_EQ(verify.status, 0) << verify.err;
}

TEST_F(Containers, InfoTells) {
  const Outcome allowed = annulus(2, "info"), not_allowed = forbidden(2, "info");
  EXPECT_NE(allowed.out.find("\n  single copy        allowed for messages inside a node\n"), std::string::npos)
      << allowed.out;
  EXPECT_NE(not_allowed.out.find("\n  single copy        none: process_vm_readv: Operation not permitted"),
            std::string::npos)
      << not_allowed.out;
  EXPECT_NE(not_allowed.out.find("SYS_PTRACE"), std::string::npos) << not_allowed.out;
}

}  // namespace
}  // namespace annulus::test

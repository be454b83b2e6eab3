// Gives the inputs of a target's folder to the target, without libFuzzer. A fault ends the process. Memory must stay
// bounded, whatever sizes a file claims.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "fuzz.hpp"

namespace annulus::fuzz {
namespace {

constexpr long most_memory = 1024 * 1024;  // KiB, with what libraries and sanitizers use

TEST(Corpus, NoInputIsAFault) {
  std::vector<std::filesystem::path> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(ANNULUS_CORPUS)) inputs.push_back(entry.path());
  std::sort(inputs.begin(), inputs.end());
  ASSERT_FALSE(inputs.empty());
  for (const std::filesystem::path& input : inputs) {
    std::ifstream file(input, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_TRUE(file.good() || file.eof()) << input;
    std::printf("%s\n", input.filename().c_str());  // the last line names the input that is a fault
    std::fflush(stdout);
    fuzz_one(bytes);
  }
  rusage used{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &used), 0);
  EXPECT_LT(used.ru_maxrss, most_memory);
}

}  // namespace
}  // namespace annulus::fuzz

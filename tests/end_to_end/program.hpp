// Launches annulus and returns its exit status and what it printed. Every test has a scratch folder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace annulus::test {

struct Outcome {
  int status = -1;  ///< exit status, 128 + signal when killed
  std::string out;
  std::string err;
  double seconds = 0;
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Seconds that a run may take to its end, or to the point for which a test waits.
#ifdef __SANITIZE_ADDRESS__  // several times slower
inline constexpr int most_seconds = 600;
#else
inline constexpr int most_seconds = 300;
#endif

/// Test fixture with an empty folder, which is removed at the end.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "annulus-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    // Launches of Open MPI 4.1 keep files in one folder. An mpirun that ends removes the folder if it is empty, and
    // another mpirun that starts at this moment fails. So each test has a folder of its own, which is never empty.
    std::string host(256, '\0');
    gethostname(host.data(), host.size() - 1);
    host.resize(host.find_first_of(std::string(".\0", 2)));
    std::filesystem::create_directories(launches() / fmt::format("ompi.{}.{}/stays", host, geteuid()));
    setenv("OMPI_MCA_orte_tmpdir_base", launches().c_str(), /*overwrite=*/1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    std::error_code ignored;  // killed launchers may be removing their files at this moment
    std::filesystem::remove_all(launches(), ignored);
  }

  /// Runs a shell command in the scratch folder for at most most_seconds. Its output goes to shell_out.txt and
  /// shell_err.txt, because a run in the background (launched.hpp) may write to stdout.txt and stderr.txt.
  Outcome shell(const std::string& command) const {
    const auto start = std::chrono::steady_clock::now();
    const std::string line = fmt::format("cd '{}' && timeout {} sh -c '{}' > shell_out.txt 2> shell_err.txt",
                                         folder.string(), most_seconds, command);
    const int status = std::system(line.c_str());
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    outcome.out = slurp(folder / "shell_out.txt");
    outcome.err = slurp(folder / "shell_err.txt");
    return outcome;
  }

  /// The names of all verbs, from the program's own help.
  std::vector<std::string> verbs() const {
    std::istringstream help(annulus(0, "--help").out);
    std::vector<std::string> names;
    std::string line;
    while (std::getline(help, line) && line != "Subcommands:") continue;
    while (std::getline(help, line) && line.starts_with("  ")) {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    return names;
  }

  /// `annulus ARGUMENTS` on `ranks` ranks; 0 means without a launcher.
  Outcome annulus(int ranks, const std::string& arguments) const {
    // Open MPI's mpirun would wait a second before it ends the ranks that a failed rank leaves.
    const std::string at_once = "env OMPI_MCA_odls_base_sigkill_timeout=0 ";
    const std::string launch = ranks > 0 ? at_once + fmt::format(ANNULUS_LAUNCH, ranks) + " " : "";
    return shell(launch + ANNULUS_PROGRAM + " " + arguments);
  }

  /// Names of the strategies, `auto` among them, that this build's MPI can run, as `annulus list` says.
  std::vector<std::string> strategies() const {
    std::stringstream list(annulus(0, "list").out);
    std::vector<std::string> names;
    std::string line;
    std::getline(list, line);  // the heading
    while (std::getline(list, line) && line.starts_with("  ")) {
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      if (line.find(" not with this MPI") == std::string::npos) names.push_back(name);
    }
    EXPECT_GE(names.size(), 6u);
    return names;
  }
  /// Those of the strategies `asked` that this build's MPI can run.
  std::vector<std::string> able(std::vector<std::string> asked) const {
    const std::vector<std::string> can = strategies();
    std::erase_if(asked, [&](const std::string& name) { return std::find(can.begin(), can.end(), name) == can.end(); });
    return asked;
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return name;
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder / name); }

  /// Names of the files in the folder, without those of printed output. With this list tests check that no temporary
  /// file is left.
  std::vector<std::string> files() const {
    const std::set<std::string> printed{"stdout.txt", "stderr.txt", "shell_out.txt", "shell_err.txt"};
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!printed.contains(name)) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::filesystem::path folder;

 private:
  std::filesystem::path launches() const { return folder.string() + ".launches"; }
};

/// How often `word` occurs in `text`.
inline int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// What verify prints of a dataset: "ok" or "WRONG"; "nothing" if there is no line for it; "" if the line
/// says neither.
inline std::string word_on(const std::string& text, const std::string& dataset) {
  const auto line = text.find(fmt::format("\n  {} ", dataset));
  if (line == std::string::npos) return "nothing";
  const std::string words = text.substr(line, text.find('\n', line + 1) - line);
  return words.find(" WRONG") != std::string::npos ? "WRONG" : words.find(" ok") != std::string::npos ? "ok" : "";
}

}  // namespace annulus::test

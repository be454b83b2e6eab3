// A run in the background, and the processes of its ranks.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <thread>

#include "program.hpp"

namespace annulus::test {

/// What the first line of /proc/PID/stat says: "pid (name) state parent ...".
struct ProcessState {
  std::string name;
  char state = ' ';  ///< 'Z': dead, but its parent has not collected its status
  pid_t parent = 0;
};
inline ProcessState state_of(pid_t pid) {
  const std::string text = slurp(fmt::format("/proc/{}/stat", pid));
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return {};
  ProcessState state{text.substr(open + 1, close - open - 1)};
  std::istringstream(text.substr(close + 1)) >> state.state >> state.parent;
  return state;
}
inline bool is_alive(pid_t pid) {
  const char state = state_of(pid).state;
  return state != ' ' && state != 'Z' && state != 'X';
}

/// Runs a command, `mpirun -n RANKS annulus ...`, in a folder in the background. The destructor kills the processes
/// that still run, by their ids.
class Launched {
 public:
  Launched(const std::filesystem::path& folder, const std::string& command)
      : folder_(folder), pid_(fork_afresh(folder)) {
    if (pid_ != 0) return;
    const int out = open((folder / "stdout.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open((folder / "stderr.txt").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (chdir(folder.c_str()) == 0) execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    _exit(127);
  }
  ~Launched() {
    for (const auto& [rank, pid] : ranks_) {
      if (is_alive(pid)) kill(pid, SIGKILL);
    }
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  /// Waits until stderr has `word`, which the run writes after all ranks have started. See the next function.
  bool reaches(const std::string& word, int ranks) {
    return reaches([&] { return err().find(word) != std::string::npos; }, ranks);
  }
  /// Waits until `holds` is true, which must mean that all ranks have started. Returns whether it then finds their
  /// processes.
  bool reaches(const std::function<bool()>& holds, int ranks) {
    return within(most_seconds, holds) && find_ranks() == ranks;
  }
  /// Waits until the run has written `word` to stdout.
  bool says(const std::string& word) const {
    return within(most_seconds, [&] { return out().find(word) != std::string::npos; });
  }
  void send(int rank, int signal) const { kill(ranks_.at(rank), signal); }
  void send_all(int signal) const {
    for (const auto& [rank, pid] : ranks_) kill(pid, signal);
  }
  void send_launcher(int signal) const { kill(pid_, signal); }

  /// Waits at most `seconds` for the end of the run. Returns its exit status, 128 + signal if a signal killed it, or -1
  /// if it has not ended.
  int status(double seconds) {
    int status = 0;
    ended_ = within(seconds, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended_) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Waits at most 30 s for all ranks to end, and returns how many still run.
  int left() const {
    const auto count = [&] {
      return int(std::count_if(ranks_.begin(), ranks_.end(), [](const auto& r) { return is_alive(r.second); }));
    };
    within(30, [&] { return count() == 0; });
    return count();
  }
  std::string out() const { return slurp(folder_ / "stdout.txt"); }
  std::string err() const { return slurp(folder_ / "stderr.txt"); }

 private:
  /// Removes the output of an earlier run, because it would be taken for this run's, and forks.
  static pid_t fork_afresh(const std::filesystem::path& folder) {
    for (const char* name : {"stdout.txt", "stderr.txt"}) std::filesystem::remove(folder / name);
    return fork();
  }

  static bool within(double seconds, const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  /// Finds the launcher's descendants that run annulus, and reads their ranks from their environment. Returns how many
  /// ranks are known.
  int find_ranks() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid == 0 || state_of(pid).name != "annulus") continue;
      pid_t ancestor = pid;
      while (ancestor > 1 && ancestor != pid_) ancestor = state_of(ancestor).parent;
      if (ancestor == pid_) ranks_[rank_of(pid)] = pid;
    }
    return int(ranks_.size());
  }
  static int rank_of(pid_t pid) {
    const std::string environment = slurp(fmt::format("/proc/{}/environ", pid));
    for (const std::string name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
      const auto at = environment.find(name);
      if (at != std::string::npos) return std::atoi(environment.c_str() + at + name.size());
    }
    return -1;
  }

  std::filesystem::path folder_;
  pid_t pid_;
  std::map<int, pid_t> ranks_;
  bool ended_ = false;
};

}  // namespace annulus::test

#include "annulus/app/stop.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <forward_list>
#include <vector>

#include "annulus/comm/guard.hpp"
#include "annulus/core/unfinished_files.hpp"

namespace annulus::app {
namespace {

volatile std::sig_atomic_t requested = 0;
volatile std::sig_atomic_t is_limited = 0;  // whether a request has set the alarm

unsigned patience = 0;         // seconds from a request to stop until the process ends; 0: no limit
bool only_after_term = false;  // whether only TERM sets this limit, not USR1
double stall_seconds = 0;      // seconds that ranks may wait for one another after TERM

/// A line that a signal handler can print at any time. Old texts are never freed, so a signal that comes while the line
/// is replaced finds the old text or the new one, complete.
class Line {
 public:
  void set(std::string text) {
    static std::forward_list<std::string> texts;
    text_ = texts.emplace_front(std::move(text)).c_str();
  }
  void write() const {
    const char* const text = text_;
    (void)!::write(STDERR_FILENO, text, std::strlen(text));
  }

 private:
  std::atomic<const char*> text_ = "";
  static_assert(std::atomic<const char*>::is_always_lock_free, "a handler may not wait");
};
Line stop_line;  // set by watch_for_stop()

extern "C" void note_request(int signal) {
  requested = 1;
  if (signal == SIGTERM) comm::shorten_stall_timeout(stall_seconds);
  // Only the first request that has a limit sets the alarm. Later requests do not prolong the time.
  if (patience == 0 || is_limited != 0 || (signal == SIGUSR1 && only_after_term)) return;
  is_limited = 1;
  alarm(patience);
}

bool alone = true;  // true if the job has one rank

/// Removes this rank's unfinished files. Then waits half a second while other ranks remove their files: when one rank
/// ends after TERM, mpirun of Open MPI 4 kills the other ranks at once. (It should give them one second.)
void clean_up() {
  core::remove_unfinished_files();
  if (!alone) poll(nullptr, 0, /*ms=*/500);
}

/// If this process has printed its last message, ends the process with the status that belongs to this message.
void end_if_status_is_final() {
  if (comm::final_status() < 0) return;
  clean_up();
  _exit(comm::final_status());
}

/// Handles the alarm of note_request(). Calls only functions that POSIX allows in a signal handler.
extern "C" void end_stopped(int) {
  end_if_status_is_final();
  stop_line.write();
  clean_up();
  _exit(stopped_status);
}

/// A signal that ends the process, and the line to print. Handlers must not allocate, so the line is made in advance.
struct Ending {
  int signal;
  const char* name;
  int status;
  Line line{};
};
/// USR1 and TERM both ask a process to end. But launchers also send TERM to the other ranks when one rank has failed.
/// The job must then return the failed rank's status, and srun returns the largest status of all ranks. So a rank that
/// TERM ends returns 1, the smallest status of a failed rank. If it returned 75, that would hide the failed rank's
/// status.
std::array<Ending, 4> endings{{{SIGUSR1, "USR1", stopped_status},
                               {SIGTERM, "TERM", int(core::ErrorKind::failure)},
                               {SIGINT, "INT", int(core::ErrorKind::failure)},
                               {SIGHUP, "HUP", int(core::ErrorKind::failure)}}};
bool prints_for_all = true;  // true on rank 0

/// True if the launcher (the ranks' parent) or the kernel (Ctrl-C) sent the signal, because both send it to all ranks.
bool comes_to_all_ranks(const siginfo_t* info) {
  return info->si_code == SI_KERNEL || (info->si_code <= 0 && info->si_pid == getppid());
}

/// Handles the signals of `endings`. Calls only functions that POSIX allows in a signal handler.
extern "C" void end_process(int signal, siginfo_t* info, void*) {
  end_if_status_is_final();
  int status = int(core::ErrorKind::failure);
  for (const Ending& ending : endings) {
    if (ending.signal != signal) continue;
    status = ending.status;
    if (!prints_for_all && comes_to_all_ranks(info)) continue;
    ending.line.write();
  }
  clean_up();
  _exit(status);
}

/// Unblocks signals, because a process inherits blocked signals from the process that started it, and a blocked signal
/// would never arrive.
void unblock(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

/// Makes the lines that `endings` print. `who`: the rank, or empty.
void set_lines(const std::string& who, const std::string& consequence) {
  for (Ending& ending : endings) {
    const bool asked = ending.status == stopped_status;
    ending.line.set(fmt::format("annulus: {}{}{} by signal {}; {}\n", asked ? "" : "error: ", who,
                                asked ? "stopped on request" : "ended", ending.name, consequence));
  }
}

void handle_endings() {
  std::vector<int> ours;
  for (const Ending& ending : endings) {
    struct sigaction before {
    }, action{};
    if (sigaction(ending.signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    action.sa_sigaction = end_process;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);  // other signals wait, so that only one line is printed
    sigaction(ending.signal, &action, nullptr);
    ours.push_back(ending.signal);
  }
  unblock(ours);
}

}  // namespace

void end_on_signals_from_the_start(bool has_launcher) {
  if (!has_launcher) set_lines("", "the work had not begun: run again");
  handle_endings();
}

void end_on_signals(const comm::Communicator& comm, const std::string& consequence) {
  prints_for_all = comm.is_root();
  alone = comm.size() == 1;
  set_lines(comm.size() > 1 ? fmt::format("rank {}: ", comm.rank()) : "", consequence);
  handle_endings();  // again, because libraries may have replaced the handlers
}

void watch_for_stop(double seconds) {
  stall_seconds = seconds;
  struct sigaction action {};
  action.sa_handler = note_request;
  action.sa_flags = SA_RESTART;  // interrupted reads and writes are continued
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  unblock({SIGUSR1, SIGTERM});
}

void watch_for_stop(const comm::Communicator& comm, double stall_seconds, const LimitOfStop& limit) {
  if (comm.is_root()) stop_line.set(limit.line);
  patience = limit.seconds;
  only_after_term = limit.only_after_term;
  is_limited = 0;
  struct sigaction action {};
  action.sa_handler = end_stopped;
  sigfillset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  unblock({SIGALRM});
  watch_for_stop(stall_seconds);
}

bool stop_requested() { return requested != 0; }

}  // namespace annulus::app

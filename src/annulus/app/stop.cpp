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
volatile std::sig_atomic_t final_status = -1;  // of a verb that is through

unsigned patience = 0;     // seconds from a request to the end of the process; 0: no end
double stall_seconds = 0;  // that ranks may wait for one another once TERM has come

/// A line that a signal's handler writes. Every text that it ever had stays where it is: a signal that comes while it
/// is replaced finds the one before or the new one, whole.
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
Line last_words;

extern "C" void note_request(int signal) {
  requested = 1;
  if (signal == SIGTERM) comm::shorten_stall_timeout(stall_seconds);
  if (patience > 0) alarm(patience);
}

bool alone = true;

/// Removes what this rank makes, and leaves the other ranks half a second for the same: Open MPI 4's mpirun kills those
/// that are left at once, without the second that it means to wait, when one has ended after TERM.
void clean_up() {
  core::remove_unfinished_files();
  if (!alone) poll(nullptr, 0, /*ms=*/500);
}

/// Calls what POSIX allows in a handler, and nothing else.
extern "C" void end_stopped(int) {
  if (final_status >= 0) _exit(final_status);
  last_words.write();
  clean_up();
  _exit(stopped_status);
}

/// A signal that ends the process, and the line it leaves: made beforehand, because a handler may not.
struct Ending {
  int signal;
  const char* name;
  int status;
  Line line{};
};
/// USR1 asks for an end. TERM does, too, but launchers also send it to the ranks that are left when one has failed, and
/// the job's status shall be that one's: srun returns the largest of all.
std::array<Ending, 4> endings{{{SIGUSR1, "USR1", stopped_status},
                               {SIGTERM, "TERM", int(core::ErrorKind::failure)},
                               {SIGINT, "INT", int(core::ErrorKind::failure)},
                               {SIGHUP, "HUP", int(core::ErrorKind::failure)}}};
bool speaks_for_all = true;  // rank 0

/// Launchers are the ranks' parents, and a terminal's Ctrl-C comes from the kernel: both reach every rank.
bool comes_to_all_ranks(const siginfo_t* info) {
  return info->si_code == SI_KERNEL || (info->si_code <= 0 && info->si_pid == getppid());
}

/// Calls what POSIX allows in a handler, and nothing else.
extern "C" void end_process(int signal, siginfo_t* info, void*) {
  if (final_status >= 0) _exit(final_status);
  int status = int(core::ErrorKind::failure);
  for (const Ending& ending : endings) {
    if (ending.signal != signal) continue;
    status = ending.status;
    if (!speaks_for_all && comes_to_all_ranks(info)) continue;
    ending.line.write();
  }
  clean_up();
  _exit(status);
}

/// The process that started this one may have blocked signals in itself, and so in us: none of them would arrive.
void unblock(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

void end_on_signals_from_the_start() {
  std::vector<int> ours;
  for (const Ending& ending : endings) {
    struct sigaction before {
    }, action{};
    if (sigaction(ending.signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    action.sa_sigaction = end_process;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);  // one line, whatever comes next
    sigaction(ending.signal, &action, nullptr);
    ours.push_back(ending.signal);
  }
  unblock(ours);
}

void end_on_signals(const comm::Communicator& comm, const std::string& consequence) {
  speaks_for_all = comm.is_root();
  alone = comm.size() == 1;
  const std::string who = comm.size() > 1 ? fmt::format("rank {}: ", comm.rank()) : "";
  for (Ending& ending : endings) {
    const bool asked = ending.status == stopped_status;
    ending.line.set(fmt::format("annulus: {}{}{} by signal {}; {}\n", asked ? "" : "error: ", who,
                                asked ? "stopped on request" : "ended", ending.name, consequence));
  }
  end_on_signals_from_the_start();  // libraries may have taken signals since
}

void end_quietly_on_signals(int status) { final_status = status; }

void watch_for_stop(double seconds) {
  stall_seconds = seconds;
  struct sigaction action {};
  action.sa_handler = note_request;
  action.sa_flags = SA_RESTART;  // reads and writes in flight continue
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  unblock({SIGUSR1, SIGTERM});
}

void watch_for_stop(const comm::Communicator& comm, double stall_seconds, unsigned seconds, const std::string& line) {
  if (comm.is_root()) last_words.set(line);
  patience = seconds;
  struct sigaction action {};
  action.sa_handler = end_stopped;
  sigfillset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  unblock({SIGALRM});
  watch_for_stop(stall_seconds);
}

bool stop_requested() { return requested != 0; }

}  // namespace annulus::app

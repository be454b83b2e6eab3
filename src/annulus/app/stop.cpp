#include "annulus/app/stop.hpp"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "annulus/core/unfinished_files.hpp"

namespace annulus::app {
namespace {

volatile std::sig_atomic_t requested = 0;
volatile std::sig_atomic_t final_status = -1;  // of a verb that is through

extern "C" void note_request(int) { requested = 1; }

/// A signal that ends the process, and the line it leaves: made beforehand, because a handler may not.
struct Ending {
  int signal;
  const char* name;
  std::array<char, 512> line{};
};
std::array<Ending, 4> endings{{{SIGTERM, "TERM"}, {SIGINT, "INT"}, {SIGHUP, "HUP"}, {SIGUSR1, "USR1"}}};
bool speaks_for_all = true;  // rank 0

/// Launchers are the ranks' parents, and a terminal's Ctrl-C comes from the kernel: both reach every rank.
bool comes_to_all_ranks(const siginfo_t* info) {
  return info->si_code == SI_KERNEL || (info->si_code <= 0 && info->si_pid == getppid());
}

/// Calls what POSIX allows in a handler, and nothing else.
extern "C" void end_process(int signal, siginfo_t* info, void*) {
  if (final_status >= 0) _exit(final_status);
  for (const Ending& ending : endings) {
    if (ending.signal != signal || (!speaks_for_all && comes_to_all_ranks(info))) continue;
    (void)!write(STDERR_FILENO, ending.line.data(), std::strlen(ending.line.data()));
  }
  core::remove_unfinished_files();
  _exit(int(core::ErrorKind::failure));
}

}  // namespace

void end_on_signals_from_the_start() {
  for (const Ending& ending : endings) {
    struct sigaction before {
    }, action{};
    if (sigaction(ending.signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    action.sa_sigaction = end_process;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);  // one line, whatever comes next
    sigaction(ending.signal, &action, nullptr);
  }
}

void end_on_signals(const comm::Communicator& comm, const std::string& consequence) {
  speaks_for_all = comm.is_root();
  const std::string who = comm.size() > 1 ? fmt::format("rank {}: ", comm.rank()) : "";
  for (Ending& ending : endings) {
    const std::string line = fmt::format("annulus: error: {}ended by signal {}; {}\n", who, ending.name, consequence);
    line.copy(ending.line.data(), ending.line.size() - 1);
  }
  end_on_signals_from_the_start();  // libraries may have taken signals since
}

void end_quietly_on_signals(int status) { final_status = status; }

void watch_for_stop() {
  struct sigaction action {};
  action.sa_handler = note_request;
  action.sa_flags = SA_RESTART;  // reads and writes in flight continue
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace annulus::app

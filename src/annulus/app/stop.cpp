#include "annulus/app/stop.hpp"

#include <csignal>

namespace annulus::app {
namespace {

volatile std::sig_atomic_t requested = 0;

extern "C" void note_request(int) { requested = 1; }

}  // namespace

void watch_for_stop() {
  struct sigaction action {};
  action.sa_handler = note_request;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace annulus::app

// Runs this program as a child process of itself, for trials that may crash.
#pragma once

#include <string>

#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"
#include "annulus/runfile/settings.hpp"

namespace annulus::app {

/// Starts this program with the argument `word`, outside the launcher's job, and waits until it ends. Returns "" if its
/// status was 0, otherwise what happened: "ended with status 1", "was killed by signal 11", "took more than 60 s".
std::string run_self_alone(const char* word, double patience_seconds);

/// With this argument, a child tries whether MPI can send device memory. try_device_self_send() starts this child.
inline constexpr const char* self_send_word = "--device-self-send";
inline std::string try_device_self_send() {
  return run_self_alone(self_send_word, 60);  // the first start of MPI and of the device's driver can take long
}
/// Chooses how ranks exchange rows, as the run file says. Starts the child of try_device_self_send() at most once in
/// the life of this process, and never in a job of one rank, which sends nothing. Collective.
inline void choose_links(const runfile::DistributionSettings& asked, const comm::Communicator& comm) {
  comm::choose_transfers(asked.gpu_aware, comm, [&]() -> std::string {
    if (comm.size() == 1) return "was not made: there is one rank";
    static const std::string found = try_device_self_send();
    return found;
  });
  comm::choose_transport(asked.transport, comm);
}

}  // namespace annulus::app

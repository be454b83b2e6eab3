// Work that one rank does for all.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::io {

/// Runs `work` (a callable that returns a string) on rank 0 and gives its result to every rank; collective. An
/// exception becomes the same Error on every rank.
template <class Work>
std::string from_root(const comm::Communicator& comm, Work&& work) {
  std::string answer;  // first letter: the error's kind, '0' for none
  if (comm.is_root()) {
    try {
      answer = "0" + work();
    } catch (const core::Error& error) {
      answer = char('0' + int(error.kind())) + std::string(error.what());
    } catch (const std::exception& error) {
      answer = char('0' + int(core::ErrorKind::failure)) + std::string(error.what());
    }
  }
  answer = comm.broadcast(answer);
  if (answer[0] != '0') throw core::Error(core::ErrorKind(answer[0] - '0'), answer.substr(1));
  return answer.substr(1);
}

/// The same for work without a result.
template <class Work>
void on_root(const comm::Communicator& comm, Work&& work) {
  from_root(comm, [&] {
    work();
    return std::string();
  });
}

}  // namespace annulus::io

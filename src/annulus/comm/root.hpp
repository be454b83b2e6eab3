// Work that rank 0 does for all ranks.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

using core::Index;

/// Runs `work` (a callable that returns a string) on rank 0 and returns its result on every rank; collective. If `work`
/// throws, every rank throws the same AgreedError.
template <class Work>
std::string from_root(const Communicator& comm, Work&& work) {
  std::string answer;
  Index kind = 0;  // the core::ErrorKind of an error; 0: no error
  if (comm.is_root()) {
    try {
      answer = work();
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const core::Error*>(&error);
      kind = Index(known != nullptr ? known->kind() : core::ErrorKind::failure);
      answer = error.what();
    }
  }
  kind = comm.sum(kind);  // the other ranks add 0
  answer = comm.broadcast(answer);
  if (kind != 0) throw AgreedError(core::ErrorKind(kind), answer);
  return answer;
}

/// As from_root(), for work without a result.
template <class Work>
void on_root(const Communicator& comm, Work&& work) {
  from_root(comm, [&] {
    work();
    return std::string();
  });
}

/// As from_root(), for work that returns a vector of numbers.
template <class Work>
std::vector<Index> numbers_from_root(const Communicator& comm, Work&& work) {
  const std::string bytes = from_root(comm, [&] {
    const std::vector<Index> numbers = work();
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Index));
  });
  std::vector<Index> numbers(bytes.size() / sizeof(Index));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

}  // namespace annulus::comm

// Bytes that a few ranks send to a few others, none of whom knows beforehand what it will receive.
#pragma once

#include <map>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// What goes to, or comes from, each rank that is named.
using ByteMessages = std::map<int, std::vector<std::byte>>;

/// Sends every message to its rank and returns what arrived, by sender; collective and blocking. Empty messages are not
/// sent. A message must be shorter than 2 GiB.
/// Worked example, 3 ranks: rank 0 sends {1: "ab"}, rank 2 sends {1: "c"}. Rank 1 gets {0: "ab", 2: "c"}, the others
/// nothing.
ByteMessages exchange_bytes(const Communicator& comm, const ByteMessages& sends);

}  // namespace annulus::comm

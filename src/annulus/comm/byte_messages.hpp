// Messages of bytes between any ranks. No receiver knows beforehand what it will receive.
#pragma once

#include <map>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Maps the number of each peer to the message for this peer, or to the message from this peer. Peers without a message
/// are absent.
using ByteMessages = std::map<int, std::vector<std::byte>>;

/// Sends message sends.at(p) to rank p and returns the received messages by sender; collective and blocking. Empty
/// messages are not sent. A message must be shorter than 2 GiB.
/// Worked example, 3 ranks: rank 0 sends {1: "ab"}, rank 2 sends {1: "c"}. Rank 1 gets {0: "ab", 2: "c"}; ranks 0 and 2
/// get nothing.
ByteMessages exchange_bytes(const Communicator& comm, const ByteMessages& sends);

}  // namespace annulus::comm

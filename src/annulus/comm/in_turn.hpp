// Brings the texts of all ranks to rank 0, which holds its own text and at most one other text at a time.
#pragma once

#include <functional>
#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Calls take(text) on rank 0 with every rank's text, in the order of the ranks; collective. Texts must be shorter than
/// 2 GiB. `take` must not throw, because the other ranks wait until rank 0 has received their texts.
void take_in_turn(const Communicator& comm, const std::string& text,
                  const std::function<void(const std::string& text)>& take);

}  // namespace annulus::comm

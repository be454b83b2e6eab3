// Texts of all ranks on rank 0, of which it holds one at a time.
#pragma once

#include <functional>
#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Calls take(text) on rank 0 with every rank's text, one after another in the order of the ranks; collective. Texts
/// are shorter than 2 GiB. `take` must not throw: the others wait until their texts have been received.
void take_in_turn(const Communicator& comm, const std::string& text,
                  const std::function<void(const std::string& text)>& take);

}  // namespace annulus::comm

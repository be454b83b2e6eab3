// Computes an upper bound of the traffic if an exchange has too many messages to count.
#pragma once

#include "annulus/pattern/traffic.hpp"

namespace annulus::pattern {

/// True if traffic_counts() can evaluate all owners and their runs of readers, interval by interval, in seconds.
bool is_affordable(const Layout& layout, const Partition& partition);

/// Returns the traffic if every row travels to every rank. Causal attention needs less, so these are upper bounds.
Traffic dense_traffic(const Layout& layout, const Partition& partition);

}  // namespace annulus::pattern

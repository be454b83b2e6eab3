// An upper bound for an exchange with too many messages to count.
#pragma once

#include "annulus/pattern/traffic.hpp"

namespace annulus::pattern {

/// Whether traffic_counts() can evaluate all owners and all their runs of readers, interval by interval, in seconds.
bool is_affordable(const Layout& layout, const Partition& partition);

/// The traffic if every row travels to every rank. Causal attention needs less, so the counts are upper bounds.
Traffic dense_traffic(const Layout& layout, const Partition& partition);

}  // namespace annulus::pattern

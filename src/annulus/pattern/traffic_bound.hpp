// Says whether traffic can be counted within seconds. If it cannot, the traffic of the dense exchange is counted
// instead.
#pragma once

#include "annulus/pattern/traffic.hpp"

namespace annulus::pattern {

/// True if traffic_counts() can evaluate all owners and their runs of readers, interval by interval, in seconds.
bool is_affordable(const Layout& layout, const Partition& partition);

/// Returns the traffic if every rank sends all its rows to every other rank.
Traffic gathered_traffic(const Layout& layout, const Partition& partition);

}  // namespace annulus::pattern

// What is said of an exchange whose messages are too many to be counted.
#pragma once

#include "annulus/pattern/traffic.hpp"

namespace annulus::pattern {

/// Whether traffic_counts() can ask all owners about all runs of consumers, interval by interval, in some seconds.
bool is_affordable(const Layout& layout, const Partition& partition);

/// Everything travels to everybody (causal: to no fewer, as a bound).
Traffic dense_traffic(const Layout& layout, const Partition& partition);

}  // namespace annulus::pattern

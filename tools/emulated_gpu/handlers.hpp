// What instructions do, by name. A handler is given the lanes that run it.
#pragma once

#include <string>
#include <unordered_map>

#include "warp.hpp"

namespace emulated_gpu {

using Handlers = std::unordered_map<std::string, Handler>;
void add_arithmetic(Handlers& handlers);
void add_carries(Handlers& handlers);
void add_conversions(Handlers& handlers);
void add_memory(Handlers& handlers);
void add_warp_wide(Handlers& handlers);

}  // namespace emulated_gpu

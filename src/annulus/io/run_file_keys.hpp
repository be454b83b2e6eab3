// The one table of the run file's keys.
#pragma once

#include "annulus/io/keys.hpp"
#include "annulus/io/settings.hpp"

namespace annulus::io {

/// In the order of input/reference.yaml; keys of one section stand together.
const std::vector<Key<Settings>>& run_file_keys();

}  // namespace annulus::io

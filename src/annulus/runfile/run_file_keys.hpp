// The one table of the run file's keys.
#pragma once

#include "annulus/runfile/keys.hpp"
#include "annulus/runfile/settings.hpp"

namespace annulus::runfile {

/// In the order of input/reference.yaml; keys of one section stand together.
const std::vector<Key<Settings>>& run_file_keys();

}  // namespace annulus::runfile

// A machine-readable report: names and values in order, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "annulus/store/files/atomic_file.hpp"

namespace annulus::report {

using Json = nlohmann::ordered_json;

/// Writes a JSON object and puts the file in place. NaN and infinity become null. Throws Error(failure).
void write_report(store::AtomicFile& file, const Json& report);

}  // namespace annulus::report

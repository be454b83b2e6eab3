// How attention.bias is read and written.
#pragma once

#include "annulus/runfile/codecs.hpp"
#include "annulus/runfile/settings.hpp"

namespace annulus::runfile {

/// {alibi: auto}, or {alibi: [0.5, 0.25], exempt: 1}.
Codec<BiasSettings> bias(Index most_rows);

}  // namespace annulus::runfile

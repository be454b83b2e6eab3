// q, k, v and their gradients in a file against each other. Included by .cpp files of this room only.
#pragma once

#include "annulus/io/hdf5_support.hpp"
#include "annulus/io/input_file.hpp"
#include "annulus/io/settings.hpp"

namespace annulus::io {

/// Looks at the datasets that the settings name in `file`, which is input.file; with `gradients` at dout and dlse, too.
/// Throws Error(failure) naming file, dataset, what was found and what was expected.
FileContents describe_tensors(hid_t file, const InputSettings& input, bool gradients);

}  // namespace annulus::io

// What `verify` recomputes: the pattern in the reference's words, and the rows it looks at.
#pragma once

#include <vector>

#include "annulus/kernels/reference.hpp"
#include "annulus/verify/input.hpp"

namespace annulus::verify {

/// The definition in its own words: the reference shares nothing with the code it judges.
kernels::ReferencePattern reference_pattern(const io::AttentionSettings& attention, const VerifyInput& input);

/// `count` rows in ascending order: first those next to which something changes (ends of the sequence, of documents,
/// of segments), which may take half of the places, then rows by a fixed seed.
std::vector<Index> sample_rows(const kernels::ReferencePattern& pattern, Index sequence, Index count);

}  // namespace annulus::verify

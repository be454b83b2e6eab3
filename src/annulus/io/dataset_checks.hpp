// What a dataset is against what it should be. Included by .cpp files of this room only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/io/hdf5_support.hpp"

namespace annulus::io {

using core::Index;

/// Extents and storage type of one dataset, with the words for errors about it.
struct FoundDataset {
  std::string where;  ///< "FILE: dataset /q"
  std::vector<Index> extents;
  core::DType type = core::DType::float32;

  std::string shape_text() const { return fmt::format("({})", fmt::join(extents, ", ")); }
};

/// Looks at a dataset of floats. `axes` are the names its axes should have, "(batch, sequence)": their number must be
/// that of its axes, and none of them is empty. Throws Error(failure).
FoundDataset look_at(hid_t file, const std::string& path, const std::string& name, const std::string& axes);

/// Throws Error(failure) unless the dataset has this type: "..., expected float32 as FILE: dataset /q".
void check_type(const FoundDataset& found, core::DType type, const std::string& as_where);

/// Throws Error(failure) unless the dataset has these extents: "..., expected (1, 8, 4) to fit q (1, 8, 4, 64)".
void check_extents(const FoundDataset& found, const std::vector<Index>& extents, const std::string& to_fit);

/// Every rank learns of the NaN or infinity that comes first in the global dataset (B, S, ...), if there is one, as an
/// AgreedError that names it; collective. `found` counts over this rank's (B, rows, ...).
void check_finite(const std::string& where, const std::optional<NonFinite>& found,
                  const std::vector<core::Interval>& rows, const std::vector<Index>& extents,
                  const comm::Communicator& comm);

}  // namespace annulus::io

// What a dataset is against what it should be. Included by .cpp files of this room only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/io/hdf5_support.hpp"
#include "annulus/io/transfer.hpp"
#include "annulus/pattern/pattern.hpp"

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
/// that of its axes, and none of them is empty. Throws Error(failure), with `asked_by` as open_dataset().
FoundDataset look_at(hid_t file, const std::string& path, const std::string& name, const std::string& axes,
                     const std::string& asked_by);

/// Throws Error(failure) unless the dataset has this type: "..., expected float32 as FILE: dataset /q".
void check_type(const FoundDataset& found, core::DType type, const std::string& as_where);

/// Throws Error(failure) unless the dataset has these extents: "..., expected (1, 8, 4) to fit q (1, 8, 4, 64)".
void check_extents(const FoundDataset& found, const std::vector<Index>& extents, const std::string& to_fit);

/// Opens a dataset that was looked at before. Throws Error(failure) where its extents or type are others now: buffers
/// were made for those that were seen.
DatasetId open_as_seen(hid_t file, const SeenFile& seen, const std::string& name);

/// Reads rows (ascending disjoint intervals) of datasets (B, S, ...) of a file, and refuses NaN and infinity in them;
/// collective. Throws as check_finite().
void read_checked_rows(const SeenFile& file, const std::vector<RowsIn>& tensors,
                       const std::vector<core::Interval>& rows, const comm::Communicator& comm, Index piece_bytes);

/// Document offsets 0 = d0 <= d1 <= ... = sequence; {0, sequence} without a dataset. Throws Error(failure).
pattern::Documents read_documents(hid_t file, const std::string& path, const std::optional<std::string>& name,
                                  Index sequence);

}  // namespace annulus::io

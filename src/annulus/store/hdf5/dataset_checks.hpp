// What a dataset is against what it should be. Included by .cpp files of this room only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annulus/runfile/settings.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/input_file.hpp"

namespace annulus::store {

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
                     const std::string& asked_by = "");

/// Throws Error(failure) unless the dataset has this type: "..., expected float32 as FILE: dataset /q".
void check_type(const FoundDataset& found, core::DType type, const std::string& as_where);

/// Throws Error(failure) unless the dataset has these extents: "..., expected (1, 8, 4) to fit q (1, 8, 4, 64)".
void check_extents(const FoundDataset& found, const std::vector<Index>& extents, const std::string& to_fit);

/// The sink logits (heads) in a dataset of floats. Throws Error(failure) where they are not so many ("... to fit
/// TO_FIT"), or NaN or infinity is among them.
std::vector<double> read_sink(hid_t file, const std::string& path, const std::string& name, Index heads,
                              const std::string& to_fit);

/// The coordinates (rows, 2) in a dataset of floats. Throws Error(failure) likewise, and where one is not finite.
std::vector<double> read_coordinates(hid_t file, const std::string& path, const std::string& name, Index rows,
                                     const std::string& to_fit);

/// Rank 0 opens the file and looks (`look` leaves out documents and lengths). All ranks learn what it found, and note
/// in `file` which rows do not exist. Collective. Throws the same Error(failure) on every rank.
FileContents agreed_contents(InspectedFile& file, const runfile::InputSettings& input, const comm::Communicator& comm,
                             const std::function<FileContents(hid_t)>& look);

}  // namespace annulus::store

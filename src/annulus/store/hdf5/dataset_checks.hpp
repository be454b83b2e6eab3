// Checks that a dataset is as it should be. Include this file only in .cpp files of store.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annulus/runfile/settings.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/input_file.hpp"

namespace annulus::store {

/// Extents and storage type of a dataset, and its name for messages.
struct FoundDataset {
  std::string where;  ///< "FILE: dataset /q"
  std::vector<Index> extents;
  core::DType type = core::DType::float32;

  std::string shape_text() const { return fmt::format("({})", fmt::join(extents, ", ")); }
};

/// Checks a dataset of floats. `axes` names the axes that the dataset should have, "(batch, sequence)": it must have
/// this many axes, and none of length 0. Throws Error(failure); `asked_by` is as in open_dataset().
FoundDataset look_at(hid_t file, const std::string& path, const std::string& name, const std::string& axes,
                     const std::string& asked_by = "");

/// Throws Error(failure) unless the dataset has this type: "..., expected float32 as FILE: dataset /q".
void check_type(const FoundDataset& found, core::DType type, const std::string& as_where);

/// Throws Error(failure) unless the dataset has these extents: "..., expected (1, 8, 4) to fit q (1, 8, 4, 64)".
void check_extents(const FoundDataset& found, const std::vector<Index>& extents, const std::string& to_fit);

/// Reads the sink logits (heads) from a dataset of floats. Throws Error(failure) if there are more or fewer logits than
/// heads ("... to fit TO_FIT"), or if a logit is NaN or +infinity (-infinity means a head without a sink).
std::vector<double> read_sink(hid_t file, const std::string& path, const std::string& name, Index heads,
                              const std::string& to_fit);

/// Reads coordinates (rows, 2) from a dataset of floats. Throws Error(failure) for another shape. agreed_contents()
/// checks the numbers later, when it knows which rows exist.
std::vector<double> read_coordinates(hid_t file, const std::string& path, const std::string& name, Index rows,
                                     const std::string& to_fit);

/// Rank 0 opens the file, calls `look`, and reads documents and lengths, which `look` leaves empty. All ranks get the
/// result, and note in `file` which rows do not exist. Collective. Throws the same Error(failure) on every rank.
FileContents agreed_contents(InspectedFile& file, const runfile::InputSettings& input, const comm::Communicator& comm,
                             const std::function<FileContents(hid_t)>& look);

}  // namespace annulus::store

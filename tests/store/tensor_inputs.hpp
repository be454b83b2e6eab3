// Input files whose numbers tell their places, and which rows of them a rank takes.
#pragma once

#include <gtest/gtest.h>

#include <numeric>

#include "annulus/store/input_file.hpp"
#include "store/hdf5_files.hpp"

namespace annulus::test {

/// A test of an input file that does not exist yet.
class InputFileTest : public testing::Test {
 protected:
  const comm::Communicator comm{MPI_COMM_WORLD};
  const SharedFolder folder{comm};
  const std::string path = folder / "in.h5";

  /// `work` throws the same error on every rank, which begins with the file and what it says.
  template <class Work>
  void expect_error(const std::string& file, const std::string& says, Work&& work) const {
    const std::string message = common_error(comm, work), start = file + ": " + says;
    EXPECT_EQ(message.substr(0, start.size()), start);
  }
};

inline runfile::InputSettings settings_for(const std::string& path) {
  runfile::InputSettings settings;
  settings.file = path;
  return settings;
}

/// A file with some of its datasets as they are now, axes in the order bshd; collective.
inline store::InspectedFile inspected_file(const comm::Communicator& comm, const std::string& path,
                                           const std::vector<std::string>& datasets) {
  store::InspectedFile seen{path, store::agreed_state(path, comm), {}};
  for (const std::string& name : datasets) seen.datasets[name] = store::look_at_dataset(path, name);
  return seen;
}

/// Contiguous share of a rank: empty for some when there are more ranks than rows.
inline core::Interval share(core::Index rows, const comm::Communicator& comm) {
  return {rows * comm.rank() / comm.size(), rows * (comm.rank() + 1) / comm.size()};
}

/// Numbers 0, 1, 2, ... so that a misplaced one names its place.
template <class T>
std::vector<T> counting(std::size_t count, T first = 0) {
  std::vector<T> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// The rows of (B, S, row) that `rows` names, one interval after another in each batch entry.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, core::Index batch, core::Index row,
                       const std::vector<core::Interval>& rows) {
  std::vector<T> found;
  const core::Index sequence = core::Index(all.size()) / batch / row;
  for (core::Index b = 0; b < batch; ++b) {
    for (const core::Interval& i : rows) {
      const auto begin = all.begin() + b * sequence * row;
      found.insert(found.end(), begin + i.begin * row, begin + i.end * row);
    }
  }
  return found;
}

/// Makes q (B, S, H, D), k and v (B, S, Hkv, D) of one type on rank 0.
inline void make_input(const comm::Communicator& comm, const std::string& path, hid_t type, const core::Shape& s,
                       const std::string& group = "") {
  if (comm.is_root()) {
    const hsize_t b = hsize_t(s.batch), n = hsize_t(s.sequence), d = hsize_t(s.head_dim);
    add_dataset(path, group + "/q", type, {b, n, hsize_t(s.heads), d});
    add_dataset(path, group + "/k", type, {b, n, hsize_t(s.kv_heads), d});
    add_dataset(path, group + "/v", type, {b, n, hsize_t(s.kv_heads), d});
  }
  comm.barrier();
}

/// The same with all three of one shape and with one content.
inline void make_input(const comm::Communicator& comm, const std::string& path, hid_t type,
                       const std::vector<hsize_t>& extents, const void* data) {
  if (comm.is_root()) {
    for (const char* name : {"q", "k", "v"}) add_dataset(path, name, type, extents, data);
  }
  comm.barrier();
}

}  // namespace annulus::test

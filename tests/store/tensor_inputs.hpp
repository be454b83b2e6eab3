// Input files in which each number shows its own position, and the rows of these files that a rank reads.
#pragma once

#include <gtest/gtest.h>

#include <numeric>

#include "annulus/store/input_file.hpp"
#include "store/hdf5_files.hpp"

namespace annulus::test {

/// A fixture with the path of an input file, which the test itself makes.
class InputFileTest : public testing::Test {
 protected:
  const comm::Communicator comm{MPI_COMM_WORLD};
  const SharedFolder folder{comm};
  const std::string path = folder / "in.h5";

  /// Checks that `work` throws the same error on every rank, and that the error begins with "FILE: SAYS".
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

/// The present state of a file and of some of its datasets, whose axes have the order bshd; collective.
inline store::InspectedFile inspected_file(const comm::Communicator& comm, const std::string& path,
                                           const std::vector<std::string>& datasets) {
  store::InspectedFile seen{path, store::agreed_state(path, comm), {}};
  for (const std::string& name : datasets) seen.datasets[name] = store::look_at_dataset(path, name);
  return seen;
}

/// A rank's contiguous share of the rows. If there are more ranks than rows, some shares are empty.
inline core::Interval share(core::Index rows, const comm::Communicator& comm) {
  return {rows * comm.rank() / comm.size(), rows * (comm.rank() + 1) / comm.size()};
}

/// The numbers first, first + 1, ..., so that a misplaced number shows where it belongs.
template <class T>
std::vector<T> counting(std::size_t count, T first = 0) {
  std::vector<T> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// The rows of an array (B, S, `row` numbers) that `rows` names, one interval after another in each batch entry.
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
  on_root(comm, [&] {
    const hsize_t b = hsize_t(s.batch), n = hsize_t(s.sequence), d = hsize_t(s.head_dim);
    add_dataset(path, group + "/q", type, {b, n, hsize_t(s.heads), d});
    add_dataset(path, group + "/k", type, {b, n, hsize_t(s.kv_heads), d});
    add_dataset(path, group + "/v", type, {b, n, hsize_t(s.kv_heads), d});
  });
}

/// Makes q, k and v on rank 0, all three with these extents and this content.
inline void make_input(const comm::Communicator& comm, const std::string& path, hid_t type,
                       const std::vector<hsize_t>& extents, const void* data) {
  on_root(comm, [&] {
    for (const char* name : {"q", "k", "v"}) add_dataset(path, name, type, extents, data);
  });
}

}  // namespace annulus::test

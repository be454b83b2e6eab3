// dout and dlse in the file of q, k and v: read only if asked for, and their shapes are compared with that of q.
#include <gtest/gtest.h>

#include <limits>

#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::Interval;
using test::add_dataset;
using test::common_error;
using test::counting;
using test::make_input;
using test::rows_of;
using test::settings_for;
using test::share;

using TensorFileGradientsTest = test::InputFileTest;

/// in.h5 with q, k, v and gradients dout and dlse of the given types and extents.
void make_gradients(const comm::Communicator& comm, const std::string& path, hid_t dout_type,
                    const std::vector<hsize_t>& dout, hid_t dlse_type, const std::vector<hsize_t>& dlse) {
  make_input(comm, path, H5T_IEEE_F32LE, {2, 5, 4, 2, 3});
  test::on_root(comm, [&] {
    add_dataset(path, "dout", dout_type, dout);
    add_dataset(path, "dlse", dlse_type, dlse);
  });
}

TEST_F(TensorFileGradientsTest, ReadsGradients) {
  const auto dout = counting<float>(2 * 5 * 4 * 3), dlse = counting<float>(2 * 5 * 4, 1000);
  make_input(comm, path, H5T_IEEE_F32LE, {2, 5, 4, 2, 3});
  test::on_root(comm, [&] {
    add_dataset(path, "/dout", H5T_IEEE_F32LE, {2, 5, 4, 3}, dout.data());
    add_dataset(path, "/g/lse", H5T_IEEE_F32LE, {2, 5, 4}, dlse.data());
  });
  runfile::InputSettings settings = settings_for(path);
  settings.dlse = "/g/lse";
  const InputFile file = tensor_file(settings, comm, true);
  const Interval rows = share(5, comm);
  std::vector<float> my_dout(std::size_t(2 * rows.size() * 12)), my_dlse(std::size_t(2 * rows.size() * 4));
  file.read({{"/dout", my_dout.data()}, {"/g/lse", my_dlse.data()}}, {rows}, comm);
  EXPECT_EQ(my_dout, rows_of(dout, 2, 12, {rows}));
  EXPECT_EQ(my_dlse, rows_of(dlse, 2, 4, {rows}));
}

TEST_F(TensorFileGradientsTest, NamesWhatIsWrongWithGradients) {
  struct Case {
    const char* name;
    hid_t dout_type;
    std::vector<hsize_t> dout;
    hid_t dlse_type;
    std::vector<hsize_t> dlse;
    std::string says;
  };
  const hid_t f32 = H5T_IEEE_F32LE, f64 = H5T_IEEE_F64LE;
  const Case cases[] = {
      // not a vector: nvcc 13.0 loses inner braces of a vector's initializer list
      {"rows",
       f32,
       {2, 6, 4, 3},
       f32,
       {2, 5, 4},
       "dataset /dout has shape (2, 6, 4, 3), expected (2, 5, 4, 3) to fit q (2, 5, 4, 3)"},
      {"heads of k", f32, {2, 5, 2, 3}, f32, {2, 5, 4}, "dataset /dout has shape (2, 5, 2, 3), expected (2, 5, 4, 3)"},
      {"three axes", f32, {2, 5, 12}, f32, {2, 5, 4}, "dataset /dout has 3 axes (2, 5, 12), expected 4"},
      {"type", f64, {2, 5, 4, 3}, f32, {2, 5, 4}, "dataset /dout is float64, expected float32 as "},
      {"integers", H5T_STD_I32LE, {2, 5, 4, 3}, f32, {2, 5, 4}, "dataset /dout is 32-bit integer"},
      {"dlse's rows",
       f32,
       {2, 5, 4, 3},
       f32,
       {2, 4, 4},
       "dataset dlse has shape (2, 4, 4), expected (2, 5, 4) to fit q (2, 5, 4, 3)"},
      {"dlse's axes",
       f32,
       {2, 5, 4, 3},
       f32,
       {2, 5, 4, 1},
       "dataset dlse has 4 axes (2, 5, 4, 1), expected 3: (batch, sequence, heads)"},
      {"dlse's type",
       f32,
       {2, 5, 4, 3},
       f64,
       {2, 5, 4},
       "dataset dlse is float64, expected float32 as the lse of float32 tensors"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string file = folder / (std::string(c.name) + ".h5");
    make_gradients(comm, file, c.dout_type, c.dout, c.dlse_type, c.dlse);
    runfile::InputSettings settings = settings_for(file);
    settings.dlse = "dlse";
    expect_error(file, c.says, [&] { tensor_file(settings, comm, true); });
    EXPECT_NO_THROW(tensor_file(settings, comm)) << "dout is not read without gradients";
  }
  make_input(comm, path, f32, {2, 5, 4, 2, 3});
  expect_error(path, "no dataset /dout ", [&] { tensor_file(settings_for(path), comm, true); });
}

TEST_F(TensorFileGradientsTest, NamesTheFirstNumberThatIsNoneOfDlse) {
  std::vector<float> dlse(2 * 5 * 4, 1.0f);
  dlse[(1 * 5 + 3) * 4 + 2] = std::numeric_limits<float>::infinity();
  make_input(comm, path, H5T_IEEE_F32LE, {2, 5, 4, 2, 3});
  test::on_root(comm, [&] {
    add_dataset(path, "/dout", H5T_IEEE_F32LE, {2, 5, 4, 3});
    add_dataset(path, "/dlse", H5T_IEEE_F32LE, {2, 5, 4}, dlse.data());
  });
  runfile::InputSettings settings = settings_for(path);
  settings.dlse = "/dlse";
  const InputFile file = tensor_file(settings, comm, true);
  const Interval rows = share(5, comm);
  std::vector<float> mine(std::size_t(2 * rows.size() * 4));
  const std::string message = common_error(comm, [&] { file.read({{"/dlse", mine.data()}}, {rows}, comm); });
  EXPECT_EQ(message, path + ": dataset /dlse holds inf at [1, 3, 2], expected finite numbers");
}

}  // namespace
}  // namespace annulus::store

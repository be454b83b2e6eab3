// How a run finds out the order of axes in an input file, and which files are refused.
#include <gtest/gtest.h>

#include <functional>

#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using test::add_dataset;
using test::settings_for;

using AxisNamesTest = test::InputFileTest;

/// Makes q with extents `q`, k and v with `kv`, and dout with `dout` if this list is not empty. With GQA `kv` has fewer
/// heads than `q`.
void make(const std::string& path, const std::vector<hsize_t>& q, const std::vector<hsize_t>& kv,
          const std::vector<hsize_t>& dout = {}) {
  add_dataset(path, "q", H5T_IEEE_F32LE, q);
  for (const char* name : {"k", "v"}) add_dataset(path, name, H5T_IEEE_F32LE, kv);
  if (!dout.empty()) add_dataset(path, "dout", H5T_IEEE_F32LE, dout);
}

hid_t text_type(std::size_t size) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, size == 0 ? H5T_VARIABLE : size);
  return type;
}

/// Adds an attribute: one text, or a list of texts if `extents` is not empty. HDF5 has two kinds of `type`: fixed and
/// variable length.
void add_text(const std::string& path, const std::string& dataset, const std::string& name, hid_t type,
              const std::vector<hsize_t>& extents, const void* data) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t object = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hid_t space = extents.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, extents.data(), nullptr);
  const hid_t attribute = H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Awrite(attribute, type, data), 0);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Dclose(object);
  H5Fclose(file);
}
/// Names the axes as annulus does.
void name_axes(const std::string& path, const std::string& dataset, const char* axes) {
  const hid_t type = text_type(0);
  add_text(path, dataset, "axes", type, {}, &axes);
  H5Tclose(type);
}
/// Names the axes as h5py's `dataset.dims[i].label = ...` does.
void label_axes(const std::string& path, const std::string& dataset, std::vector<const char*> labels) {
  const hid_t type = text_type(0);
  add_text(path, dataset, "DIMENSION_LABELS", type, {labels.size()}, labels.data());
  H5Tclose(type);
}
/// Names the axes by texts of a fixed length: `labels` has four padded names of the same length.
void label_fixed(const std::string& path, const std::string& dataset, const std::string& labels) {
  const hid_t type = text_type(labels.size() / 4);
  add_text(path, dataset, "DIMENSION_LABELS", type, {4}, labels.data());
  H5Tclose(type);
}
/// Names the axes as netCDF and xarray do: each axis has a list of references to datasets with these names.
void attach_scales(const std::string& path, const std::string& dataset, const std::vector<std::string>& scales) {
  for (const std::string& scale : scales) {
    const hid_t there = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const bool known = H5Lexists(there, scale.c_str(), H5P_DEFAULT) > 0;
    H5Fclose(there);
    if (!known) add_dataset(path, scale, H5T_IEEE_F32LE, {4});
  }
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  std::vector<hobj_ref_t> references(scales.size());
  struct List : hvl_t {};  // named, because nvcc 13.0 cannot compile vectors of unnamed structs
  std::vector<List> lists;
  lists.reserve(scales.size() + 1);  // otherwise data() may be null, and HDF5 writes no element
  for (std::size_t i = 0; i < scales.size(); ++i) {
    H5Rcreate(&references[i], file, scales[i].c_str(), H5R_OBJECT, -1);
    lists.push_back({{1, &references[i]}});
  }
  const hid_t type = H5Tvlen_create(H5T_STD_REF_OBJ);
  const hid_t object = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hsize_t count = lists.size();
  const hid_t space = H5Screate_simple(1, &count, nullptr);
  const hid_t attribute = H5Acreate2(object, "DIMENSION_LIST", type, space, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Awrite(attribute, type, lists.data()), 0);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Dclose(object);
  H5Tclose(type);
  H5Fclose(file);
}

struct Case {
  const char* name;
  std::function<void(const std::string&)> make;
  std::optional<core::AxisOrder> asked;
  core::AxisOrder found;
};
const auto square = [](const std::string& path) { make(path, {2, 8, 8, 5}, {2, 8, 8, 5}); };
const auto labelled = [](const std::function<void(const std::string&)>& label) {
  return [label](const std::string& path) {
    square(path);
    label(path);
  };
};

const Case understood[] = {
    {"no word about axes", square, {}, core::AxisOrder::bshd},
    {"asked for bhsd", square, core::AxisOrder::bhsd, core::AxisOrder::bhsd},
    {"more heads than rows, asked for",
     [](const std::string& p) {
       make(p, {1, 2, 8, 5}, {1, 2, 8, 5});
     },
     core::AxisOrder::bshd, core::AxisOrder::bshd},
    {"few rows, many heads",
     [](const std::string& p) {
       make(p, {1, 8, 2, 5}, {1, 8, 2, 5});
     },
     core::AxisOrder::bhsd, core::AxisOrder::bhsd},
    {"grouped queries",
     [](const std::string& p) {
       make(p, {1, 6, 8, 5}, {1, 2, 8, 5});
     },
     core::AxisOrder::bhsd, core::AxisOrder::bhsd},
    {"axes of v",
     labelled([](const std::string& p) { name_axes(p, "v", "batch head sequence dim"); }),
     {},
     core::AxisOrder::bhsd},
    {"axes of q, asked for the same",
     labelled([](const std::string& p) { name_axes(p, "q", "batch sequence head dim"); }), core::AxisOrder::bshd,
     core::AxisOrder::bshd},
    {"more heads than rows, said so",
     [](const std::string& p) {
       make(p, {1, 2, 8, 5}, {1, 2, 8, 5});
       name_axes(p, "q", "batch sequence head dim");
     },
     {},
     core::AxisOrder::bshd},
    {"labels",
     labelled([](const std::string& p) {
       label_axes(p, "q", {"B", "H", "S", "D"});
     }),
     {},
     core::AxisOrder::bhsd},
    {"some labels",
     labelled([](const std::string& p) {
       label_axes(p, "k", {nullptr, nullptr, "seq_len", nullptr});
     }),
     {},
     core::AxisOrder::bhsd},
    {"labels of a fixed length",
     labelled([](const std::string& p) { label_fixed(p, "k", "b   num_heads... s   d   "); }),
     {},
     core::AxisOrder::bshd},
    {"labels padded with zeros",
     labelled(
         [](const std::string& p) { label_fixed(p, "k", std::string("b\0\0\0\0\0heads\0seq\0\0\0d\0\0\0\0\0", 24)); }),
     {},
     core::AxisOrder::bhsd},
    {"scales",
     labelled([](const std::string& p) {
       attach_scales(p, "q", {"b", "head", "sequence", "d"});
     }),
     {},
     core::AxisOrder::bhsd},
    {"scales in a group with a long name",
     labelled([](const std::string& p) {
       const std::string group(300, 'g');
       attach_scales(p, "q", {group + "/b", group + "/head", group + "/sequence", group + "/d"});
     }),
     {},
     core::AxisOrder::bhsd},
    {"an empty list of scales",
     labelled([](const std::string& p) { attach_scales(p, "q", {}); }),
     {},
     core::AxisOrder::bshd},
    {"words that say nothing",
     labelled([](const std::string& p) {
       label_axes(p, "q", {"a", "x", "y", "z"});
     }),
     {},
     core::AxisOrder::bshd},
    {"an attribute that is something else",
     labelled([](const std::string& p) { name_axes(p, "q", "two words"); }),
     {},
     core::AxisOrder::bshd},
};

TEST_F(AxisNamesTest, AreThoseOfTheRunFileOrOfTheDatasetsNames) {
  int number = 0;
  for (const Case& c : understood) {
    SCOPED_TRACE(c.name);
    const std::string file = folder / fmt::format("{}.h5", number++);
    test::on_root(comm, [&] { c.make(file); });
    runfile::InputSettings settings = settings_for(file);
    settings.axes = c.asked;
    const InputFile found = tensor_file(settings, comm);
    EXPECT_EQ(found.order(), c.found);
    const auto extents = reordered(found.inspected().at("/q").extents, c.found);
    EXPECT_EQ(found.shape().sequence, extents[1]);
    EXPECT_EQ(found.shape().heads, extents[2]);
  }
}

struct Refusal {
  const char* name;
  std::function<void(const std::string&)> make;
  std::optional<core::AxisOrder> asked;
  std::string says;
};
const std::string hint =
    "axes are (batch, sequence, heads, head_dim); PyTorch's (B, H, S, D) needs transpose(1, 2), or input.axes: bhsd";

const Refusal refused[] = {
    {"more heads than rows",
     [](const std::string& p) {
       make(p, {1, 8, 2048, 5}, {1, 8, 2048, 5});
     },
     {},
     "dataset /q has shape (1, 8, 2048, 5): 8 rows, 2048 heads? " + hint},
    {"k fits the other order only",
     [](const std::string& p) {
       make(p, {1, 64, 8, 5}, {1, 16, 8, 5});
     },
     {},
     "dataset /k has shape (1, 16, 8, 5), which fits q (1, 64, 8, 5) with axes (batch, heads, sequence, head_dim) "
     "only: " +
         hint},
    {"in the other order k and v would have different numbers of heads",
     [](const std::string& p) {
       add_dataset(p, "q", H5T_IEEE_F32LE, {1, 64, 8, 5});
       add_dataset(p, "k", H5T_IEEE_F32LE, {1, 16, 3, 5});
       add_dataset(p, "v", H5T_IEEE_F32LE, {1, 32, 3, 5});
     },
     {},
     "dataset /k has 3 heads, expected a divisor of the 8 heads of q"},
    {"asked for what does not fit",
     [](const std::string& p) {
       make(p, {1, 6, 8, 5}, {1, 2, 8, 4});
     },
     core::AxisOrder::bshd, "dataset /k has shape (1, 2, 8, 4), expected (1, 2, kv_heads, 5) to fit q (1, 6, 8, 5)"},
    {"asked for bhsd, which does not fit",
     [](const std::string& p) {
       make(p, {1, 8, 6, 5}, {1, 8, 2, 4});
     },
     core::AxisOrder::bhsd, "dataset /k has shape (1, 8, 2, 4), expected (1, kv_heads, 2, 5) to fit q (1, 8, 6, 5)"},
    {"no divisor",
     [](const std::string& p) {
       make(p, {1, 6, 8, 5}, {1, 4, 8, 5});
     },
     core::AxisOrder::bhsd, "dataset /k has 4 heads, expected a divisor of the 6 heads of q"},
    {"contradicted", labelled([](const std::string& p) { name_axes(p, "k", "batch head sequence dim"); }),
     core::AxisOrder::bshd,
     "dataset /k names its axes (batch, head, sequence, dim), which is bhsd; input.axes says bshd"},
    {"at odds",
     labelled([](const std::string& p) {
       name_axes(p, "q", "batch sequence head dim");
       label_axes(p, "v", {"B", "H", "S", "D"});
     }),
     {},
     "dataset /v names its axes (B, H, S, D), which is bhsd; dataset /q says bshd"},
    {"another order",
     labelled([](const std::string& p) { name_axes(p, "q", "sequence batch head dim"); }),
     {},
     "dataset /q names its axes (sequence, batch, head, dim), expected (batch, sequence, heads, head_dim) or"},
    {"the order of Fortran",
     labelled([](const std::string& p) { name_axes(p, "q", "dim sequence head batch"); }),
     {},
     "dataset /q names its axes (dim, sequence, head, batch), expected (batch, sequence, heads, head_dim) or"},
    {"the batch is last",
     labelled([](const std::string& p) { name_axes(p, "q", "x y z batch"); }),
     {},
     "dataset /q names its axes (x, y, z, batch), expected"},
    {"the head size comes first",
     labelled([](const std::string& p) { name_axes(p, "q", "head_dim y z x"); }),
     {},
     "dataset /q names its axes (head_dim, y, z, x), expected"},
    {"twice the same",
     labelled([](const std::string& p) { name_axes(p, "q", "batch seq_q seq_k dim"); }),
     {},
     "dataset /q names its axes (batch, seq_q, seq_k, dim), expected"},
    {"more names than any dataset has axes",
     labelled([](const std::string& p) {
       const hid_t type = text_type(4);
       add_text(p, "q", "DIMENSION_LABELS", type, {5000}, std::string(20000, ' ').data());
       H5Tclose(type);
     }),
     {},
     "/q: attribute DIMENSION_LABELS has 5000 elements, expected at most 4096"},
};

TEST_F(AxisNamesTest, AreRefusedWhereTheyCannotBeMeant) {
  int number = 0;
  for (const Refusal& c : refused) {
    SCOPED_TRACE(c.name);
    const std::string file = folder / fmt::format("bad{}.h5", number++);
    test::on_root(comm, [&] { c.make(file); });
    runfile::InputSettings settings = settings_for(file);
    settings.axes = c.asked;
    expect_error(file, c.says, [&] { tensor_file(settings, comm); });
  }
}

TEST_F(AxisNamesTest, MoreQueriesThanKeysAreNotTakenForHeads) {
  const std::string file = folder / "cross.h5";
  test::on_root(comm, [&] { make(file, {1, 64, 8, 5}, {1, 16, 8, 5}); });  // as bhsd: 64 heads, 16 key/value heads
  runfile::InputSettings settings = settings_for(file);
  settings.query_offset.kind = pattern::QueryOffset::Kind::none;
  EXPECT_EQ(tensor_file(settings, comm).order(), core::AxisOrder::bshd);
}

TEST_F(AxisNamesTest, GradientsHaveTheOrderOfQ) {
  const auto make_file = [&](const std::string& name, const std::vector<hsize_t>& dout, const char* axes) {
    test::on_root(comm, [&] {
      make(folder / name, {1, 6, 8, 5}, {1, 2, 8, 5}, dout);
      add_dataset(folder / name, "dlse", H5T_IEEE_F32LE, {1, 6, 8});
      if (axes != nullptr) name_axes(folder / name, "dout", axes);
    });
    runfile::InputSettings settings = settings_for(folder / name);
    settings.axes = core::AxisOrder::bhsd;
    settings.dlse = "dlse";
    return settings;
  };
  const InputFile file = tensor_file(make_file("good.h5", {1, 6, 8, 5}, nullptr), comm, true);
  EXPECT_EQ(file.inspected().at("dlse").extents, (std::vector<Index>{1, 6, 8}));
  EXPECT_EQ(file.inspected().at("/dout").order, core::AxisOrder::bhsd);
  const runfile::InputSettings turned = make_file("turned.h5", {1, 8, 6, 5}, nullptr);
  expect_error(*turned.file, "dataset /dout has shape (1, 8, 6, 5), expected (1, 6, 8, 5) to fit q (1, 6, 8, 5)",
               [&] { tensor_file(turned, comm, true); });
  const runfile::InputSettings named = make_file("named.h5", {1, 6, 8, 5}, "batch sequence head dim");
  expect_error(*named.file, "dataset /dout names its axes (batch, sequence, head, dim), which is bshd; input.axes",
               [&] { tensor_file(named, comm, true); });
}

}  // namespace
}  // namespace annulus::store

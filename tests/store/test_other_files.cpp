// Inputs whose datasets lie in other files than input.file: they are read from there, and the run knows these files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>

#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::Interval;
using test::add_attribute;
using test::add_dataset;
using test::settings_for;

constexpr hsize_t rows = 12, heads = 2, dim = 4, all = rows * heads * dim;
const std::vector<hsize_t> extents{1, rows, heads, dim};

/// HDF5 looks up both environment variables at its first call, so this program sets them before. HDF5 reads the text
/// vds_prefix again at each opening. A file in the folder of a prefix is found there; any other file is found as
/// without prefixes.
char vds_prefix[64] = "HDF5_VDS_PREFIX=${ORIGIN}/prefix";
[[maybe_unused]] const bool has_prefixes = [] {
  setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}/prefix", 1);
  return putenv(vds_prefix) == 0;
}();

class OtherFiles : public test::InputFileTest {
 protected:
  const std::string other = folder / "other.h5", third = folder / "thi\nrd.h5", raw = folder / "k.raw";

  /// Rank 0 makes q, which counts from 0, and v, from 1000; then `add_k` puts k, which counts from 500, in other files.
  void make(const std::function<void(hid_t file)>& add_k) {
    test::on_root(comm, [&] {
      for (const std::string& one : {path, other, third, raw}) std::filesystem::remove(one);
      add_dataset(path, "q", H5T_IEEE_F32LE, extents, test::counting<float>(all).data());
      add_dataset(path, "v", H5T_IEEE_F32LE, extents, test::counting<float>(all, 1000).data());
      const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      add_k(file);
      H5Fclose(file);
    });
  }
  /// Puts k into a file after other numbers, so that no dataset of the first file has the same offset.
  static void put_k(const std::string& file, const std::string& name = "k", const std::vector<hsize_t>& chunk = {}) {
    const std::vector<float> pad(5000, -1);
    add_dataset(file, "pad", H5T_IEEE_F32LE, {5000}, pad.data());
    add_dataset(file, name, H5T_IEEE_F32LE, extents, test::counting<float>(all, 500).data(), -1, chunk);
  }

  /// Adds a dataset k; `place` completes the list of creation properties.
  static void add_k(hid_t file, hid_t space, const std::function<void(hid_t creation)>& place) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    place(creation);
    H5Dclose(H5Dcreate2(file, "k", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Pclose(creation);
    H5Sclose(space);
  }
  /// Adds k as a virtual dataset of blocks, one after another along an axis, whose sources these patterns name. If
  /// `first` names a file, block 0 is also made of dataset k of that file.
  static void add_blocks(hid_t file, std::size_t axis, const std::vector<hsize_t>& block, const char* files,
                         const char* datasets, const char* first = nullptr) {
    std::vector<hsize_t> most(extents), none(4, 0), many(4, 1);
    most[axis] = many[axis] = H5S_UNLIMITED;
    const hid_t source = H5Screate_simple(4, block.data(), nullptr),
                space = H5Screate_simple(4, extents.data(), most.data());
    H5Sselect_hyperslab(space, H5S_SELECT_SET, none.data(), block.data(), many.data(), block.data());
    add_k(file, space, [&](hid_t creation) {
      H5Pset_virtual(creation, space, files, datasets, source);
      if (first != nullptr) H5Pset_virtual(creation, source, first, "k", source);
    });
    H5Sclose(source);
  }
  /// Makes other.h5, and k as a virtual dataset of dataset k of the file `source`.
  void make_virtual(const char* source) {
    make([&](hid_t file) {
      put_k(other);
      const hid_t space = H5Screate_simple(4, extents.data(), nullptr);
      add_k(file, space, [&](hid_t creation) { H5Pset_virtual(creation, space, source, "k", space); });
    });
  }
  /// Makes k in a raw file of `there` bytes. The HDF5 file calls it `named`, and says that it has `reserved` bytes.
  void make_raw(std::size_t there, hsize_t reserved, const std::string& named) {
    make([&](hid_t file) {
      const auto numbers = test::counting<float>(all, 500);
      std::ofstream(raw, std::ios::binary).write(reinterpret_cast<const char*>(numbers.data()), std::streamsize(there));
      add_k(file, H5Screate_simple(4, extents.data(), nullptr),
            [&](hid_t creation) { H5Pset_external(creation, named.c_str(), 0, reserved); });
    });
  }

  /// Moves a file into the folder "prefix", and returns its new name.
  std::string below_prefix(const std::string& file) const {
    const std::string moved = folder / "prefix/" + std::filesystem::path(file).filename().string();
    test::on_root(comm, [&] {
      std::filesystem::create_directory(folder / "prefix");
      std::filesystem::rename(file, moved);
    });
    return moved;
  }

  /// Checks the numbers of k, and that the input needs exactly these other files.
  void expect_k(const std::string& what, std::vector<std::string> files) const {
    SCOPED_TRACE(what);
    const InputFile file = tensor_file(settings_for(path), comm);
    const Interval mine = test::share(Index(rows), comm);
    std::vector<float> found(std::size_t(mine.size()) * heads * dim, -1);
    file.read({{"/k", found.data()}}, {mine}, comm);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i], float(500 + std::size_t(mine.begin) * heads * dim + i)) << i;
    }
    std::vector<std::string> names;
    for (const auto& [name, state] : file.inspected().others) names.push_back(std::filesystem::canonical(name));
    for (std::string& one : files) one = std::filesystem::canonical(one);
    std::sort(files.begin(), files.end());
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, files);
  }
};

TEST_F(OtherFiles, LinksLeadThere) {
  const auto link = [&](hid_t file) { H5Lcreate_external("other.h5", "k", file, "k", H5P_DEFAULT, H5P_DEFAULT); };
  make([&](hid_t file) { put_k(other), link(file); });
  expect_k("contiguous", {other});
  make([&](hid_t file) { put_k(other, "k", {1, 5, 1, 3}), link(file); });
  expect_k("chunked", {other});
  make([&](hid_t file) {
    put_k(other, "group/k");
    H5Lcreate_external("other.h5", "group", file, "there", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/there/k", file, "k", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_k("a soft link through a group of another file", {other});
  make([&](hid_t file) {
    put_k(third);
    add_dataset(other, "nothing", H5T_IEEE_F32LE, {1});
    const hid_t between = H5Fopen(other.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Lcreate_external("thi\nrd.h5", "k", between, "k", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(between);
    link(file);
  });
  expect_k("a link to a link", {other, third});
  make([&](hid_t file) {
    const auto numbers = test::counting<float>(all, 500);
    add_dataset(path, "here", H5T_IEEE_F32LE, extents, numbers.data());
    H5Lcreate_external("in.h5", "here", file, "k", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_k("a link back", {});
}

TEST_F(OtherFiles, VirtualDatasetsAndRawStorageHaveTheirNumbersThere) {
  make_virtual("other.h5");
  expect_k("a virtual dataset", {other});
  make_raw(all * 4, all * 4, raw);
  expect_k("raw storage", {raw});
}

TEST_F(OtherFiles, AreFoundWhereHdf5FindsThem) {
  make_virtual("/absent/other.h5");  // as if both files had moved: HDF5 then looks for the name without its folders
  expect_k("an absolute name", {other});
  make_raw(all * 4, all * 8, raw);
  expect_k("raw storage with room for more", {raw});
  make_virtual("other.h5");
  expect_k("a source below a prefix", {below_prefix(other)});
  make_raw(all * 4, all * 4, "k.raw");
  expect_k("raw storage below a prefix", {below_prefix(raw)});
  make([&](hid_t file) {  // the virtual dataset ends before block 1, whose file exists but has no k
    put_k(folder / "part_0.h5");
    add_dataset(folder / "part_1.h5", "nothing", H5T_IEEE_F32LE, {1});
    add_blocks(file, 0, extents, "part_%b.h5", "k");
  });
  expect_k("a pattern of files", {folder / "part_0.h5", folder / "part_1.h5"});
  make([&](hid_t file) { add_blocks(file, 0, extents, "part_%b.h5", "k", "part_1.h5"); });
  expect_error(path, fmt::format("dataset /k is made of dataset k of {}, which does not exist", folder / "part_1.h5"),
               [&] { tensor_file(settings_for(path), comm); });
}

/// In place of missing numbers, HDF5 itself would read its fill value, 0.
TEST_F(OtherFiles, ThatAreMissingOrCutShortAreRefused) {
  const auto expect_missing = [&](const std::string& source) {
    expect_error(
        path,
        fmt::format(
            "dataset /k is made of dataset k of {}, which does not exist: HDF5 would read its fill value instead",
            source),
        [&] { tensor_file(settings_for(path), comm); });
  };
  make_virtual("third.h5");
  expect_missing("third.h5");
  make_virtual("other.h5");
  const auto change_other = [&](const std::function<void(hid_t file)>& change) {
    test::on_root(comm, [&] {
      const hid_t file = H5Fopen(other.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      change(file);
      H5Fclose(file);
    });
  };
  change_other([](hid_t file) { H5Ldelete(file, "k", H5P_DEFAULT); });
  expect_missing(other);
  change_other([](hid_t file) { add_k(file, H5Screate_simple(4, extents.data(), nullptr), [](hid_t) {}); });
  expect_error(path, fmt::format("dataset /k is made of dataset k of {}, which was never written", other),
               [&] { tensor_file(settings_for(path), comm); });
  make_raw(all * 4 - 1, all * 4, "k.raw");
  const auto raw_error = [&] { return test::common_error(comm, [&] { tensor_file(settings_for(path), comm); }); };
  EXPECT_NE(raw_error().find("prefix/k.raw, which does not exist"), std::string::npos) << raw_error();
  below_prefix(raw);
  EXPECT_NE(raw_error().find("prefix/k.raw, which has 383 bytes, expected at least 384"), std::string::npos);
  make_raw(all * 4 - 1, all * 4, raw);
  expect_error(path,
               fmt::format("dataset /k: its numbers are in {}, which has {} bytes, expected at least {}", raw,
                           all * 4 - 1, all * 4),
               [&] { tensor_file(settings_for(path), comm); });
}

TEST_F(OtherFiles, EveryBlockOfAPatternIsLookedAt) {
  make([&](hid_t file) {  // k is made of block_0 and block_1 of the same file; nothing was written to block_1
    const std::vector<hsize_t> half{1, rows / 2, heads, dim};
    const hid_t space = H5Screate_simple(4, half.data(), nullptr);
    H5Dclose(H5Dcreate2(file, "block_1", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    add_blocks(file, 1, half, ".", "block_%b");
    add_dataset(path, "block_0", H5T_IEEE_F32LE, half, test::counting<float>(all / 2).data());
  });
  expect_error(path, fmt::format("dataset /k is made of dataset block_1 of {}, which was never written", path),
               [&] { tensor_file(settings_for(path), comm); });
}

TEST_F(OtherFiles, SeveralPrefixesAreRefused) {
  make_virtual("other.h5");
  const std::string before = vds_prefix;
  std::strcpy(vds_prefix, "HDF5_VDS_PREFIX=/a:/b");
  expect_error(path, "dataset /k is virtual, and HDF5_VDS_PREFIX is /a:/b, expected one folder without a colon",
               [&] { tensor_file(settings_for(path), comm); });
  std::strcpy(vds_prefix, before.c_str());
}

/// HDF5 itself would follow a cycle of virtual datasets until the stack overflows.
TEST_F(OtherFiles, AVirtualDatasetMadeOfItselfIsRefused) {
  for (const bool by_another : {false, true}) {
    make([&](hid_t file) {
      const hid_t space = H5Screate_simple(4, extents.data(), nullptr);
      const auto add = [&](const char* name, const char* source) {
        const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_virtual(creation, space, ".", source, space);
        H5Dclose(H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
        H5Pclose(creation);
      };
      add("k", by_another ? "middle" : "k");
      if (by_another) add("middle", "k");
      H5Sclose(space);
    });
    const std::string message = "dataset /k is virtual, and made of itself or in more than 64 levels";
    expect_error(path, message, [&] { tensor_file(settings_for(path), comm); });
    const auto by_one_rank = [&](const auto& look) {
      try {
        look();
        ADD_FAILURE() << "nothing was refused";
      } catch (const std::exception& error) {
        EXPECT_EQ(error.what(), path + ": " + message);
      }
    };
    by_one_rank([&] { look_at_dataset(path, "/k"); });
    by_one_rank([&] { read_text_dataset(path, "/k"); });
  }
}

/// HDF5 itself would open a FIFO, and wait until some process writes into it.
TEST_F(OtherFiles, AFifoIsNoFileOfNumbers) {
  const std::string fifo = folder / "fifo";
  test::on_root(comm, [&] { ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0); });
  make([&](hid_t file) { H5Lcreate_external(fifo.c_str(), "k", file, "k", H5P_DEFAULT, H5P_DEFAULT); });
  expect_error(path, "dataset /k is a link to nothing that can be read",
               [&] { tensor_file(settings_for(path), comm); });
  make([&](hid_t file) {
    add_k(file, H5Screate_simple(4, extents.data(), nullptr),
          [&](hid_t creation) { H5Pset_external(creation, fifo.c_str(), 0, all * 4); });
  });
  const std::string message = "names " + fifo + " as a file with numbers of its datasets, which is no regular file";
  expect_error(path, message, [&] { tensor_file(settings_for(path), comm); });
  make([&](hid_t file) {  // for the extents of an unlimited mapping HDF5 opens the mapping's source file
    const hsize_t unlimited[] = {1, H5S_UNLIMITED, heads, dim}, start[] = {0, 0, 0, 0}, one[] = {1, 1, 1, 1};
    const hid_t space = H5Screate_simple(4, extents.data(), unlimited);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, one, unlimited);
    add_k(file, space, [&](hid_t creation) { H5Pset_virtual(creation, space, fifo.c_str(), "k", space); });
  });
  expect_error(path, message, [&] { tensor_file(settings_for(path), comm); });
}

/// A file may state larger sizes than it holds, so annulus checks the sizes before it allocates memory.
TEST_F(OtherFiles, ClaimsAreNoReasonToTakeMemory) {
  make([&](hid_t) { put_k(path); });
  test::on_root(comm, [&] {
    const hsize_t many = hsize_t(1) << 40;
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = 16, more[4] = {hsize_t(1) << 40, hsize_t(1) << 20, 1, 1}, chunks[4] = {1, 1, 1, 1};
    H5Pset_chunk(creation, 1, &chunk);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_INCR);
    const hid_t space = H5Screate_simple(1, &many, nullptr), first = H5Screate_simple(1, &chunk, nullptr);
    const hid_t documents = H5Dcreate2(file, "documents", H5T_STD_I64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, std::array<hsize_t, 1>{0}.data(), nullptr, &chunk, nullptr);
    const std::vector<std::int64_t> zeros(16);
    EXPECT_GE(H5Dwrite(documents, H5T_NATIVE_INT64, first, space, H5P_DEFAULT, zeros.data()), 0);
    H5Pset_chunk(creation, 4, chunks);
    const hid_t wide = H5Screate_simple(4, more, nullptr);
    H5Dclose(H5Dcreate2(file, "wide", H5T_IEEE_F32LE, wide, H5P_DEFAULT, creation, H5P_DEFAULT));
    for (const hid_t one : {space, first, wide}) H5Sclose(one);
    H5Dclose(documents);
    H5Pclose(creation);
    H5Fclose(file);
  });
  runfile::InputSettings settings = settings_for(path);
  settings.documents = "documents";
  expect_error(path, "dataset documents has 1099511627776 numbers, expected at most 268435456: every rank keeps all",
               [&] { tensor_file(settings, comm); });
  settings = settings_for(path);
  settings.q = "wide";
  expect_error(path, "dataset wide has shape (1099511627776, 1048576, 1, 1), expected at most 1125899906842624 numbers",
               [&] { tensor_file(settings, comm); });
}

TEST_F(OtherFiles, MustStayAsTheyAre) {
  make([&](hid_t file) {
    put_k(other);
    H5Lcreate_external("other.h5", "k", file, "k", H5P_DEFAULT, H5P_DEFAULT);
  });
  const InputFile file = tensor_file(settings_for(path), comm);
  test::on_root(comm, [&] { add_dataset(other, "more", H5T_IEEE_F32LE, {100}); });
  std::vector<float> memory(all);
  expect_error(file.inspected().others.begin()->first, "changed since the run looked at it first", [&] {
    file.read({{"/k", memory.data()}}, {test::share(Index(rows), comm)}, comm);
  });
}

/// sink, coordinates, documents and lengths get the same checks as q, k and v.
TEST_F(OtherFiles, SmallDatasetsAreCheckedAsLargeOnes) {
  const std::vector<double> numbers(2 * rows, 3);
  const auto name_it = [&](runfile::InputSettings& settings, const std::string& name) {
    (name == "sink"        ? settings.sink
     : name == "documents" ? settings.documents
     : name == "lengths"   ? settings.lengths
                           : settings.coordinates) = name;
  };
  for (const std::string name : {"sink", "coordinates", "documents", "lengths"}) {
    const bool is_whole = name == "documents" || name == "lengths";
    const std::vector<hsize_t> shape = name == "sink"          ? std::vector<hsize_t>{heads}
                                       : name == "coordinates" ? std::vector<hsize_t>{rows, 2}
                                       : name == "documents"   ? std::vector<hsize_t>{2}
                                                               : std::vector<hsize_t>{1};
    const std::vector<std::int64_t> offsets{0, 3}, length{3};
    const void* const data = !is_whole             ? static_cast<const void*>(numbers.data())
                             : name == "documents" ? offsets.data()
                                                   : length.data();
    const hid_t type = is_whole ? H5T_STD_I64LE : H5T_IEEE_F64LE;
    const auto refused = [&](const std::string& says, const std::function<void()>& spoil) {
      make([&](hid_t file) {
        put_k(other);
        H5Lcreate_external("other.h5", "k", file, "k", H5P_DEFAULT, H5P_DEFAULT);
      });
      test::on_root(comm, [&] { spoil(); });
      runfile::InputSettings settings = settings_for(path);
      name_it(settings, name);
      if (says.empty()) {
        EXPECT_NO_THROW(tensor_file(settings, comm)) << name;
      } else {
        expect_error(path, fmt::format("dataset {}{}", name, says), [&] { tensor_file(settings, comm); });
      }
    };
    const auto put = [&] { add_dataset(path, name, type, shape, data); };
    refused("", put);
    refused(" has the attribute scale_factor", [&] {
      put();
      add_attribute(path, name, "scale_factor", H5T_NATIVE_DOUBLE, {2});
    });
    refused(name == "coordinates" ? " holds nan at [0, 0], expected finite" : " holds 3 as its number ", [&] {
      put();
      add_attribute(path, name, "_FillValue", H5T_NATIVE_DOUBLE, {3});
    });
    refused(" was never written", [&] {
      const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      const hid_t space = H5Screate_simple(int(shape.size()), shape.data(), nullptr);
      H5Dclose(H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      H5Sclose(space);
      H5Fclose(file);
    });
  }
}

}  // namespace
}  // namespace annulus::store

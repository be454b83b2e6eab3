// Rows are read by byte offsets or by HDF5, or made from a seed: every number must be that of its global position.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

#include "annulus/core/storage.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/generated.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"
#include "store/hdf5_files.hpp"

namespace annulus::store {
namespace {

using core::RowPiece;
using core::StoredTensor;
using test::ScratchFolder;

constexpr Index B = 2, S = 1013, H = 3, D = 5;

float number_at(Index b, Index s, Index h, Index d) { return float(((b * S + s) * H + h) * D + d + 1); }

std::vector<float> all_numbers(core::AxisOrder order) {
  std::vector<float> all;
  const bool by_rows = order == core::AxisOrder::bshd;
  for (Index b = 0; b < B; ++b) {
    for (Index outer = 0; outer < (by_rows ? S : H); ++outer) {
      for (Index inner = 0; inner < (by_rows ? H : S); ++inner) {
        for (Index d = 0; d < D; ++d) all.push_back(number_at(b, by_rows ? outer : inner, by_rows ? inner : outer, d));
      }
    }
  }
  return all;
}

enum class Kind { plain, chunked, big_endian };

InspectedFile make_file(const std::string& path, Kind kind, core::AxisOrder order, const std::vector<float>& numbers) {
  const std::vector<Index> extents = reordered<Index>({B, S, H, D}, order);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<hsize_t> size(extents.begin(), extents.end()), chunk{1, 3, 2, 5};
  const hid_t space = H5Screate_simple(4, size.data(), nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
  if (kind == Kind::chunked) H5Pset_chunk(creation, 4, chunk.data());
  const hid_t dataset = H5Dcreate2(file, "/q", kind == Kind::big_endian ? H5T_IEEE_F32BE : H5T_IEEE_F32LE, space,
                                   H5P_DEFAULT, creation, H5P_DEFAULT);
  H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data());
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
  H5Fclose(file);
  return {path, state_of(path), {{"/q", {extents, core::DType::float32, order}}}};
}

/// A piece to read and its memory, which may have gaps between rows and between heads.
struct Wanted {
  RowPiece piece;
  std::vector<float> memory;

  Wanted(Index batch, Index first, Index stride, Index count, core::Interval heads, Index row_gap, Index head_gap) {
    const Index head = D + head_gap, row = heads.size() * head + row_gap;
    memory.assign(std::size_t(count * row + 1), -1.0f);
    piece = {batch, first, stride, count, heads, memory.data(), row * 4, head * 4};
  }
  /// Checks the numbers. Rows from S on are rows of the next batch entry; rows in `left_out` must be zeros.
  void check(const std::vector<core::Interval>& left_out = {}) const {
    std::vector<float> expected(memory.size(), -1.0f);
    for (Index i = 0; i < piece.count; ++i) {
      const Index row = piece.first + i * piece.stride;
      const bool exists = std::none_of(left_out.begin(), left_out.end(),
                                       [&](const core::Interval& out) { return row >= out.begin && row < out.end; });
      for (Index h = 0; h < piece.heads.size(); ++h) {
        for (Index d = 0; d < D; ++d) {
          expected[std::size_t(i * piece.pitch / 4 + h * piece.head_pitch / 4 + d)] =
              exists ? number_at(piece.batch + row / S, row % S, piece.heads.begin + h, d) : 0;
        }
      }
    }
    EXPECT_EQ(memory, expected) << "rows " << piece.first << " + i " << piece.stride << ", heads " << piece.heads.begin;
  }
};

Wanted random_piece(std::mt19937& random) {
  const auto upto = [&](Index most) { return Index(random() % std::uint32_t(most + 1)); };
  const Index stride = upto(3) == 0 ? 1 + upto(300) : 1 + upto(2), first = upto(S - 1);
  const Index head = upto(H - 1);
  return {upto(B - 1),
          first,
          stride,
          1 + upto((S - 1 - first) / stride),
          {head, head + 1 + upto(H - 1 - head)},
          upto(1) * upto(7),
          upto(1) * upto(3)};
}

TEST(FileRows, GoOnFromEntryToEntryAndLeaveOutRowsThatDoNotExist) {
  const ScratchFolder folder;
  std::mt19937 random(19);
  const std::vector<core::Interval> left_out{{0, 10}, {500, 700}, {S - 3, S + 4}, {2 * S - 1, 2 * S}};
  for (const core::AxisOrder order : {core::AxisOrder::bshd, core::AxisOrder::bhsd}) {
    std::vector<float> numbers = all_numbers(order);
    for (const core::Interval& out : left_out) {
      for (Index row = out.begin; row < out.end; ++row) {
        for (Index h = 0; h < H; ++h)
          std::replace(numbers.begin(), numbers.end(), number_at(row / S, row % S, h, 2), std::nanf(""));
      }
    }
    for (const Kind kind : {Kind::plain, Kind::chunked, Kind::big_endian}) {
      InspectedFile file = make_file(folder / "q.h5", kind, order, numbers);
      file.is_end_to_end = true;
      file.left_out = left_out;
      FileRows rows;
      rows.put(StoredTensor::q, origin_of(file, "/q"));
      for (int i = 0; i < 40; ++i) {
        const Index stride = 1 + Index(random() % (i % 2 == 0 ? 1 : 200)), first = Index(random() % (2 * S));
        const Index most = 1 + (2 * S - 1 - first) / stride;
        Wanted wanted(0, first, stride, 1 + Index(random() % std::uint32_t(most)), {i % 3, H}, i % 4, i % 2);
        rows.wait(rows.start(StoredTensor::q, {wanted.piece}));
        wanted.check(left_out);
      }
    }
  }
}

TEST(RowPieces, AreCutWhereEntriesEnd) {
  std::vector<std::byte> memory(3);
  const RowPiece piece{.first = 2, .stride = 2, .count = 3, .heads = {0, 1}, .memory = memory.data(), .pitch = 1};
  const std::vector<RowPiece> parts = in_entries(piece, 5);  // worked example of in_entries()
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(std::tuple(parts[0].batch, parts[0].first, parts[0].count), std::tuple(0, 2, 2));
  EXPECT_EQ(std::tuple(parts[1].batch, parts[1].first, parts[1].count), std::tuple(1, 1, 1));
  EXPECT_EQ(parts[1].memory, memory.data() + 2);
}

TEST(FileRows, EveryRowIsTheOneThatWasAskedFor) {
  const ScratchFolder folder;
  std::mt19937 random(18);
  for (const core::AxisOrder order : {core::AxisOrder::bshd, core::AxisOrder::bhsd}) {
    for (const Kind kind : {Kind::plain, Kind::chunked, Kind::big_endian}) {
      const InspectedFile file = make_file(folder / "q.h5", kind, order, all_numbers(order));
      EXPECT_EQ(raw_tensor(file, "/q").has_value(), kind == Kind::plain);
      FileRows rows;
      rows.put(StoredTensor::q, origin_of(file, "/q"));
      std::vector<std::vector<Wanted>> all;
      std::vector<core::RowSource::Ticket> tickets;
      for (int i = 0; i < 30; ++i) {
        std::vector<Wanted>& wanted = all.emplace_back();
        for (int k = 0; k < 4; ++k) wanted.push_back(random_piece(random));
      }
      for (std::vector<Wanted>& wanted : all) {
        std::vector<RowPiece> pieces;
        for (const Wanted& one : wanted) pieces.push_back(one.piece);
        tickets.push_back(rows.start(StoredTensor::q, pieces));
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        rows.wait(tickets[i]);
        for (const Wanted& one : all[i]) one.check();
      }
      EXPECT_GE(rows.traffic().moved, 4 * D);
    }
  }
}

TEST(FileRows, SparseRowsAreReadInFewBytesAndDenseOnesInFewCalls) {
  RowLayout layout{"here", 0, {1, 1 << 20, 1, 16}, core::AxisOrder::bshd, core::DType::float32, core::DType::float32};
  const auto calls_of = [&](Index stride, Index& bytes) {
    std::vector<float> memory(std::size_t((1 << 20) / stride * 16));
    const RowPiece piece{0, 0, stride, (1 << 20) / stride, {0, 1}, memory.data(), 64, 64};
    Index calls = 0;
    bytes = 0;
    for_each_read(runs_of(layout, piece), 4, 1 << 20, 8192, [&](const ReadCall& call) {
      ++calls;
      bytes += call.end - call.begin;
    });
    return calls;
  };
  Index bytes = 0;
  EXPECT_EQ(calls_of(1, bytes), 1);
  EXPECT_EQ(bytes, 64 << 20);
  EXPECT_LE(calls_of(3, bytes), 65);  // reads of up to 1 MiB
  EXPECT_LE(bytes, 64 << 20);
  EXPECT_EQ(calls_of(1024, bytes), 1024);  // rows 64 KiB apart are read one by one
  EXPECT_EQ(bytes, 1024 * 64);
  EXPECT_LE(calls_of(16, bytes), 65);  // rows 1 KiB apart are read together
}

TEST(FileRows, NumbersThatAreNoneAreNamed) {
  const ScratchFolder folder;
  for (const core::AxisOrder order : {core::AxisOrder::bshd, core::AxisOrder::bhsd}) {
    for (const Kind kind : {Kind::plain, Kind::chunked}) {
      std::vector<float> numbers = all_numbers(order);
      const Index at =
          order == core::AxisOrder::bshd ? ((1 * S + 700) * H + 2) * D + 3 : ((1 * H + 2) * S + 700) * D + 3;
      numbers[std::size_t(at)] = std::numeric_limits<float>::quiet_NaN();
      const InspectedFile file = make_file(folder / "q.h5", kind, order, numbers);
      for (const core::Interval heads : {core::Interval{0, 3}, core::Interval{2, 3}}) {
        FileRows rows;
        rows.put(StoredTensor::q, origin_of(file, "/q"));
        Wanted wanted(1, 600, 1, 200, heads, 0, 0);
        std::string message;
        try {
          rows.wait(rows.start(StoredTensor::q, {wanted.piece}));
        } catch (const core::Error& error) {
          message = error.what();
        }
        EXPECT_NE(message.find(order == core::AxisOrder::bshd ? "/q holds nan at [1, 700, 2, 3]"
                                                              : "/q holds nan at [1, 2, 700, 3]"),
                  std::string::npos)
            << message;
      }
    }
  }
}

/// A tensor in chunks is read at once by start(). Later calls end with the same error.
TEST(FileRows, AFailedReadEndsLaterOnesToo) {
  const ScratchFolder folder;
  std::vector<float> numbers = all_numbers(core::AxisOrder::bshd);
  numbers[0] = std::numeric_limits<float>::quiet_NaN();
  const InspectedFile file = make_file(folder / "q.h5", Kind::chunked, core::AxisOrder::bshd, numbers);
  FileRows rows;
  rows.put(StoredTensor::q, origin_of(file, "/q"));
  Wanted first(0, 0, 1, 5, {0, 3}, 0, 0), second(1, 0, 1, 5, {0, 3}, 0, 0);
  EXPECT_THROW(rows.start(StoredTensor::q, {first.piece}), core::Error);
  EXPECT_THROW(rows.start(StoredTensor::q, {second.piece}), core::Error);
  EXPECT_THROW(rows.wait(1), core::Error);
}

TEST(FileRows, AFileThatWasCutShortIsNamed) {
  const ScratchFolder folder;
  const InspectedFile file =
      make_file(folder / "q.h5", Kind::plain, core::AxisOrder::bshd, all_numbers(core::AxisOrder::bshd));
  FileRows rows;
  rows.put(StoredTensor::q, origin_of(file, "/q"));
  std::filesystem::resize_file(file.path, 20000);
  Wanted early(0, 0, 1, 5, {0, 3}, 0, 0), late(1, 0, 1, 1000, {0, 3}, 0, 0), after(0, 0, 1, 5, {0, 3}, 0, 0);
  rows.wait(rows.start(StoredTensor::q, {early.piece}));
  early.check();
  const auto ticket = rows.start(StoredTensor::q, {late.piece});
  rows.start(StoredTensor::q, {after.piece});
  try {
    rows.wait(ticket);
    ADD_FAILURE() << "no error";
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find("the file ends there"), std::string::npos) << error.what();
  }
}

TEST(FileRows, RowsMadeFromASeedAreThoseOfTheWholeTensor) {
  runfile::GenerateSettings settings;
  settings.shape = {B, S, 4, 2, D};
  settings.seed = 7;
  std::vector<float> whole(std::size_t(B * S * 2 * D));
  fill_tensor(settings.seed, generated(settings, core::TensorId::k), {{0, S}}, whole.data());
  FileRows rows;
  rows.put(StoredTensor::k, SeededTensor{settings, core::TensorId::k});
  for (const core::Interval heads : {core::Interval{0, 2}, core::Interval{1, 2}}) {
    Wanted wanted(1, 3, 5, 190, heads, 2, 1);
    rows.wait(rows.start(StoredTensor::k, {wanted.piece}));
    for (Index i = 0; i < 190; ++i) {
      for (Index h = 0; h < heads.size(); ++h) {
        for (Index d = 0; d < D; ++d) {
          EXPECT_EQ(wanted.memory[std::size_t(i * wanted.piece.pitch / 4 + h * wanted.piece.head_pitch / 4 + d)],
                    whole[std::size_t(((S + 3 + 5 * i) * 2 + heads.begin + h) * D + d)]);
        }
      }
    }
  }
}

TEST(FileRows, WrittenRowsAreReadBackAndTheRestIsLeftAlone) {
  const ScratchFolder folder;
  std::mt19937 random(19);
  for (const core::AxisOrder order : {core::AxisOrder::bshd, core::AxisOrder::bhsd}) {
    for (const core::DType type : {core::DType::float32, core::DType::float64}) {
      const std::string path = folder / "raw";
      const Index bytes = Index(core::bytes_of(type));
      std::vector<char> before(std::size_t(100 + B * S * H * D * bytes + 50), 'x');
      {
        std::ofstream file(path, std::ios::binary);
        file.write(before.data(), std::streamsize(before.size()));
      }
      const RawTensor tensor{std::make_shared<const Descriptor>(path, O_RDWR),
                             {"raw", 100, {B, S, H, D}, order, type, core::DType::float32}};
      std::vector<bool> written(std::size_t(B * S * H));
      core::RowTraffic traffic;
      for (int i = 0; i < 20; ++i) {
        Wanted one = random_piece(random);
        const RowPiece& p = one.piece;
        for (Index r = 0; r < p.count; ++r) {
          for (Index h = 0; h < p.heads.size(); ++h) {
            const Index row = p.first + r * p.stride, head = p.heads.begin + h;
            written[std::size_t((p.batch * S + row) * H + head)] = true;
            for (Index d = 0; d < D; ++d) {
              one.memory[std::size_t(r * p.pitch / 4 + h * p.head_pitch / 4 + d)] = number_at(p.batch, row, head, d);
            }
          }
        }
        for_each_stretch(tensor.layout, {p}, [&](Index begin, const std::byte* bytes_at, Index count) {
          write_watched(tensor, begin, bytes_at, count, traffic);
        });
      }
      std::vector<char> after(before.size());
      std::ifstream(path, std::ios::binary).read(after.data(), std::streamsize(after.size()));
      for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(after[i], 'x');
      for (std::size_t i = after.size() - 50; i < after.size(); ++i) ASSERT_EQ(after[i], 'x');
      for (Index b = 0; b < B; ++b) {
        for (Index s = 0; s < S; ++s) {
          for (Index h = 0; h < H; ++h) {
            const Index line = order == core::AxisOrder::bshd ? (b * S + s) * H + h : (b * H + h) * S + s;
            for (Index d = 0; d < D; ++d) {
              const char* at = after.data() + 100 + (line * D + d) * bytes;
              if (!written[std::size_t((b * S + s) * H + h)]) {
                ASSERT_EQ(std::string(at, std::size_t(bytes)), std::string(std::size_t(bytes), 'x'));
                continue;
              }
              float narrow = 0;
              double wide = 0;
              std::memcpy(type == core::DType::float64 ? static_cast<void*>(&wide) : &narrow, at, std::size_t(bytes));
              ASSERT_EQ(type == core::DType::float64 ? wide : double(narrow), double(number_at(b, s, h, d)));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace annulus::store

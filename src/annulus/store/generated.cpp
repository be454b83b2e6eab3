#include "annulus/store/generated.hpp"

#include <algorithm>
#include <cstddef>

#include "annulus/comm/watchdog.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/normals.hpp"

namespace annulus::store {
namespace {

/// A range of numbers that one thread makes in one call. `to`: how many numbers come before this range in host memory.
struct Piece {
  core::Interval numbers;
  Index to = 0;
};

/// Cuts the rows into pieces. Numbers are counted in the global row-major tensor, so the rank does not matter. A piece
/// ends where its interval of rows ends, or at a multiple of 65536 numbers. So vector units can make whole vectors.
std::vector<Piece> pieces_of(const GeneratedTensor& tensor, const std::vector<core::Interval>& rows) {
  constexpr Index longest = 65536;
  std::vector<Piece> pieces;
  Index to = 0;
  for (Index b = 0; b < tensor.batch; ++b) {
    for (const core::Interval& interval : rows) {
      const Index end = (b * tensor.sequence + interval.end) * tensor.row_numbers;
      for (Index i = (b * tensor.sequence + interval.begin) * tensor.row_numbers; i < end;) {
        const core::Interval numbers{i, std::min(end, (i / longest + 1) * longest)};
        pieces.push_back({numbers, to});
        to += numbers.size();
        i = numbers.end;
      }
    }
  }
  return pieces;
}

}  // namespace

void fill_tensor(std::uint64_t seed, const GeneratedTensor& tensor, const std::vector<core::Interval>& rows,
                 void* host) {
  const core::Normals normals{seed, tensor.id, tensor.type, float(tensor.scale)};
  const std::vector<Piece> pieces = pieces_of(tensor, rows);
  const auto fill_piece = [&](const Index i) {
    const Piece& piece = pieces[std::size_t(i)];
    core::fill_normals(normals, piece.numbers,
                       static_cast<std::byte*>(host) + piece.to * Index(core::bytes_of(tensor.type)));
  };
  constexpr Index at_once = 256;  // pieces between two watchdog reports; they take one thread at most a second
  for (Index first = 0; first < Index(pieces.size()); first += at_once) {
    const Index end = std::min(first + at_once, Index(pieces.size()));
    core::for_each_on_host("annulus::generate", first, end, fill_piece);
    comm::watchdog_progress();  // so other ranks, which may be waiting for this rank, learn that it works
  }
}

GeneratedTensor generated(const runfile::GenerateSettings& settings, core::TensorId tensor) {
  const core::Shape& s = settings.shape;
  if (tensor == core::TensorId::dlse)
    return {tensor, core::lse_type(settings.type), s.batch, settings.query_rows(), s.heads};
  const bool keys = tensor == core::TensorId::k || tensor == core::TensorId::v;
  const bool values = tensor == core::TensorId::v || tensor == core::TensorId::dout;
  return {tensor, settings.type, s.batch, keys ? s.sequence : settings.query_rows(),
          (keys ? s.kv_heads : s.heads) * (values ? s.dim_of_values() : s.head_dim)};
}

}  // namespace annulus::store

// Loads rows of a tensor into scratch memory, and converts them from the storage type to T, the type of sums.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "annulus/core/storage.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/device/tile.hpp"

namespace annulus::kernels::device {

/// True if all rows can be read in pieces of 16 bytes, because they begin and end at multiples of 16 bytes.
inline bool have_whole_pieces(std::initializer_list<core::TensorView> tensors, int head_dim) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const core::TensorView& tensor) {
    const core::Index piece = 16 / core::Index(core::bytes_of(tensor.type));
    return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && head_dim % piece == 0 &&
           tensor.batch_stride % piece == 0 && tensor.row_stride % piece == 0 && tensor.head_stride % piece == 0;
  });
}

/// to[i * stride + d] = factor * row_at(i)[d] for i < count and d < width, or 0 if d >= available. The whole team loads
/// pieces of `piece` numbers, neighbouring threads neighbouring pieces. Each thread requests up to four pieces before
/// it waits for the first piece. If not_finite is not null, *not_finite becomes 1 if one of the numbers is not finite.
template <int piece, int width, class Storage, class T, class Member, class RowAt>
KOKKOS_INLINE_FUNCTION void load_pieces(const Member& team, int count, int available, T factor, const RowAt& row_at,
                                        T* to, int stride, core::Index* not_finite) {
  constexpr int across = width / piece, together = 4;
  constexpr int most = 16 / int(sizeof(T)), part = piece < most ? piece : most;  // numbers that are written at once
  static_assert(width % piece == 0);
  const int pieces = count * across, threads = team.team_size();
  for (int first = team.team_rank(); first < pieces; first += together * threads) {
    Numbers<Storage, piece> found[together];
    ANNULUS_UNROLL
    for (int k = 0; k < together; ++k) {
      const int number = first + k * threads, d = number % across * piece;
      found[k] =
          number < pieces && d < available ? read<piece>(row_at(number / across) + d) : Numbers<Storage, piece>{};
    }
    ANNULUS_UNROLL
    for (int k = 0; k < together; ++k) {
      const int number = first + k * threads, d = number % across * piece;
      if (number >= pieces) continue;
      ANNULUS_UNROLL
      for (int begin = 0; begin < piece; begin += part) {
        Numbers<T, part> numbers;
        ANNULUS_UNROLL
        for (int n = 0; n < part; ++n) numbers.of[n] = factor * core::load_as<T>(found[k].of[begin + n]);
        *reinterpret_cast<Numbers<T, part>*>(to + number / across * stride + d + begin) = numbers;
        if (not_finite == nullptr) continue;
        ANNULUS_UNROLL
        for (int n = 0; n < part; ++n) {
          if (!(numbers.of[n] - numbers.of[n] == T(0))) *not_finite = 1;
        }
      }
    }
  }
}

/// The same, in pieces of 16 bytes if have_whole_pieces() has returned true, otherwise number by number.
template <int width, class Storage, class T, class Member, class RowAt>
KOKKOS_INLINE_FUNCTION void load_rows(const Member& team, bool whole_pieces, int count, int available, T factor,
                                      const RowAt& row_at, T* to, int stride, core::Index* not_finite = nullptr) {
  if (whole_pieces) {
    constexpr int fit = 16 / int(sizeof(Storage)), piece = fit < width ? fit : width;
    load_pieces<piece, width, Storage>(team, count, available, factor, row_at, to, stride, not_finite);
  } else {
    load_pieces<1, width, Storage>(team, count, available, factor, row_at, to, stride, not_finite);
  }
}

}  // namespace annulus::kernels::device

// What a warp's lanes do together. Fragments of matrices are those of the PTX ISA's chapters on mma and ldmatrix.
#include <cmath>
#include <cstring>

#include "handlers.hpp"
#include "numbers.hpp"

namespace emulated_gpu {
namespace {

enum class Shuffle { up, down, bfly, idx };

template <Shuffle how>
void shuffle(Warp& w, const Instruction& i, u32 lanes) {
  u32 values[lanes_of_warp];
  std::memcpy(values, w.registers + i.of[2], sizeof values);
  u32* d = w.row<u32>(i.of[0]);
  u8* p = w.row<u8>(i.of[1]);
  const u32 *b = w.row<u32>(i.of[3]), *c = w.row<u32>(i.of[4]);
  for_lanes(lanes, [&](int lane) {
    const int segment = int(c[lane] >> 8 & 31), clamp = int(c[lane] & 31), by = int(b[lane] & 31);
    const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int from = lane;
    bool inside = false;
    switch (how) {
      case Shuffle::up:
        from = lane - by;
        inside = from >= most;
        break;
      case Shuffle::down:
        from = lane + by;
        inside = from <= most;
        break;
      case Shuffle::bfly:
        from = lane ^ by;
        inside = from <= most;
        break;
      case Shuffle::idx:
        from = least | (by & ~segment);
        inside = from <= most;
        break;
    }
    if (!inside) from = lane;
    if ((lanes >> from & 1) == 0) fault(w, i, lane, "takes a number of a lane that does not take part");
    d[lane] = values[from];
    p[lane] = inside;
  });
}

u32 ballot(Warp& w, const Instruction& i, u32 lanes) {
  const u8* p = w.row<u8>(i.of[1]);
  u32 votes = 0;
  for_lanes(lanes, [&](int lane) { votes |= u32((p[lane] != 0) != i.is_negated) << lane; });
  return votes;
}

template <class D, auto f>
void vote(Warp& w, const Instruction& i, u32 lanes) {
  const u32 votes = ballot(w, i, lanes);
  D* d = w.row<D>(i.of[0]);
  for_lanes(lanes, [&](int lane) { d[lane] = D(f(votes, lanes)); });
}

template <class T, auto f>
void reduce(Warp& w, const Instruction& i, u32 lanes) {
  const T* a = w.row<T>(i.of[1]);
  T all = a[std::countr_zero(lanes)];
  for_lanes(lanes & (lanes - 1), [&](int lane) { all = f(all, a[lane]); });
  T* d = w.row<T>(i.of[0]);
  for_lanes(lanes, [&](int lane) { d[lane] = all; });
}

/// Four (or fewer) 8 x 8 matrices of 16-bit numbers: lane l names row l % 8 of matrix l / 8, and gets numbers 2 (l % 4)
/// and the next of row l / 4 of each.
template <bool transposed>
void load_matrices(Warp& w, const Instruction& i, u32 lanes) {
  u16 rows[4][8][8];
  const int count = i.elements;
  for (int lane = 0; lane < 8 * count; ++lane) {
    const u64 address =
        (i.has_narrow_address ? u64(w.row<u32>(i.of[0])[lane]) : w.row<u64>(i.of[0])[lane]) + u64(i.number);
    std::memcpy(rows[lane / 8][lane % 8], place(w, i, lane, Space::shared, address, 16, Access::read), 16);
  }
  for (int n = 0; n < count; ++n) {
    u32* d = w.row<u32>(i.of[n + 1]);
    for_lanes(lanes, [&](int lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const u16 low = transposed ? rows[n][column][row] : rows[n][row][column];
      const u16 high = transposed ? rows[n][column + 1][row] : rows[n][row][column + 1];
      d[lane] = u32(high) << 16 | low;
    });
  }
}

/// The sum of c and of `depth` products of float32 with the digits that matrix units keep (Fasi et al. 2021, "Numerical
/// behavior of NVIDIA tensor cores"): the digits of the largest addend as a float, and two more. Each addend loses its
/// lower digits, and the sum those that a float lacks.
template <int depth>
float sum_cut_off(const float (&row)[depth], const float (&column)[depth], double c) {
  double products[depth], sum = c, largest = std::fabs(c);
  for (int k = 0; k < depth; ++k) {
    products[k] = double(row[k]) * double(column[k]);
    sum += products[k];
    largest = std::fmax(largest, std::fabs(products[k]));
  }
  if (largest == 0 || !std::isfinite(sum)) return float(sum);
  const double digit = std::ldexp(1.0, std::ilogb(largest) - 25);
  sum = std::trunc(c / digit);
  for (const double product : products) sum += std::trunc(product / digit);
  sum *= digit;
  const auto nearest = float(sum);
  const bool is_too_large = std::isfinite(nearest) && std::fabs(double(nearest)) > std::fabs(sum);
  return is_too_large ? std::nextafter(nearest, 0.0f) : nearest;
}

/// 16 x 8 += 16 x depth times depth x 8; a and b are decoded already; b is transposed.
template <int depth>
void multiply(Warp& w, const Instruction& i, const float (&a)[16][depth], const float (&b)[8][depth]) {
  float c[lanes_of_warp][4];
  for (int lane = 0; lane < lanes_of_warp; ++lane) {
    for (int n = 0; n < 4; ++n)
      c[lane][n] =
          sum_cut_off(a[lane / 4 + n / 2 * 8], b[lane % 4 * 2 + n % 2], double(w.row<float>(i.of[10 + n])[lane]));
  }
  for (int lane = 0; lane < lanes_of_warp; ++lane) {
    for (int n = 0; n < 4; ++n) w.row<float>(i.of[n])[lane] = c[lane][n];
  }
}

template <auto number>
void multiply_16(Warp& w, const Instruction& i, u32) {
  float a[16][16], b[8][16];
  for (int lane = 0; lane < lanes_of_warp; ++lane) {
    const int group = lane / 4, quad = lane % 4;
    for (int n = 0; n < 4; ++n) {
      const u32 word = w.row<u32>(i.of[4 + n])[lane];
      for (int half = 0; half < 2; ++half)
        a[group + n % 2 * 8][quad * 2 + half + n / 2 * 8] = number(u16(word >> 16 * half));
    }
    for (int n = 0; n < 2; ++n) {
      const u32 word = w.row<u32>(i.of[8 + n])[lane];
      for (int half = 0; half < 2; ++half) b[group][quad * 2 + half + n * 8] = number(u16(word >> 16 * half));
    }
  }
  multiply<16>(w, i, a, b);
}

void multiply_tf32(Warp& w, const Instruction& i, u32) {
  float a[16][8], b[8][8];
  const auto number = [](u32 word) { return std::bit_cast<float>(word & 0xffffe000u); };
  for (int lane = 0; lane < lanes_of_warp; ++lane) {
    const int group = lane / 4, quad = lane % 4;
    for (int n = 0; n < 4; ++n) a[group + n % 2 * 8][quad + n / 2 * 4] = number(w.row<u32>(i.of[4 + n])[lane]);
    for (int n = 0; n < 2; ++n) b[group][quad + n * 4] = number(w.row<u32>(i.of[8 + n])[lane]);
  }
  multiply<8>(w, i, a, b);
}

void multiply_64(Warp& w, const Instruction& i, u32) {
  double a[8][4], b[4][8], c[lanes_of_warp][2];
  for (int lane = 0; lane < lanes_of_warp; ++lane) {
    a[lane / 4][lane % 4] = w.row<double>(i.of[2])[lane];
    b[lane % 4][lane / 4] = w.row<double>(i.of[3])[lane];
  }
  for (int lane = 0; lane < lanes_of_warp; ++lane) {
    for (int n = 0; n < 2; ++n) {
      double sum = w.row<double>(i.of[4 + n])[lane];
      for (int k = 0; k < 4; ++k) sum = std::fma(a[lane / 4][k], b[k][lane % 4 * 2 + n], sum);
      c[lane][n] = sum;
    }
  }
  for (int lane = 0; lane < lanes_of_warp; ++lane) {
    for (int n = 0; n < 2; ++n) w.row<double>(i.of[n])[lane] = c[lane][n];
  }
}

}  // namespace

void add_warp_wide(Handlers& handlers) {
  handlers["shfl.up"] = shuffle<Shuffle::up>;
  handlers["shfl.down"] = shuffle<Shuffle::down>;
  handlers["shfl.bfly"] = shuffle<Shuffle::bfly>;
  handlers["shfl.idx"] = shuffle<Shuffle::idx>;
  handlers["vote.any"] = vote<u8, [](u32 votes, u32) { return votes != 0; }>;
  handlers["vote.all"] = vote<u8, [](u32 votes, u32 lanes) { return votes == lanes; }>;
  handlers["vote.uni"] = vote<u8, [](u32 votes, u32 lanes) { return votes == 0 || votes == lanes; }>;
  handlers["vote.ballot"] = vote<u32, [](u32 votes, u32) { return votes; }>;
  handlers["activemask"] = [](Warp& w, const Instruction& i, u32 lanes) {
    u32* d = w.row<u32>(i.of[0]);
    for_lanes(lanes, [&](int lane) { d[lane] = lanes; });
  };
  handlers["redux.add.s32"] = reduce<u32, [](u32 a, u32 b) { return a + b; }>;
  handlers["redux.add.u32"] = handlers["redux.add.s32"];
  handlers["redux.max.u32"] = reduce<u32, [](u32 a, u32 b) { return b < a ? a : b; }>;
  handlers["redux.max.s32"] = reduce<s32, [](s32 a, s32 b) { return b < a ? a : b; }>;
  handlers["redux.or.b32"] = reduce<u32, [](u32 a, u32 b) { return a | b; }>;
  handlers["bar.warp.sync"] = [](Warp& w, const Instruction&, u32) { ++w.epoch; };
  handlers["ldmatrix"] = load_matrices<false>;
  handlers["ldmatrix.trans"] = load_matrices<true>;
  handlers["mma.m16n8k16.bf16"] = multiply_16<of_bfloat>;
  handlers["mma.m16n8k16.f16"] = multiply_16<of_half>;
  handlers["mma.m16n8k8.tf32"] = multiply_tf32;
  handlers["mma.m8n8k4.f64"] = multiply_64;
}

}  // namespace emulated_gpu

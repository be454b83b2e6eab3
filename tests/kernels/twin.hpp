// A thread of a GPU's block on the host. It has the functions that block programs call (kernels/cuda/machine.hpp); on a
// GPU those of kernels/cuda/mma.hpp are called. If the lanes of a warp do something together, each leaves its operands
// and sleeps; the last lane that arrives does it for all. Which lane holds which number of a matrix follows the figures
// of the PTX ISA, and is written here a second time, independently of the kernels' code.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Block programs are compiled for host and device, twins only for the host. nvcc would warn that programs call twins.
#if defined(__CUDACC__)
#pragma nv_diag_suppress 20011, 20014
#endif

#include "annulus/core/storage.hpp"
#include "annulus/kernels/cuda/machine.hpp"
#include "kernels/fibres.hpp"

namespace annulus::test {

using kernels::cuda::Shared;
using kernels::cuda::warp_size;
using kernels::cuda::Words4;

/// When asynchronous copies happen: as early, or as late, as a GPU may do them. A kernel must be right with both.
enum class Copies { at_once, at_wait };

class TwinMachine;

/// A block's memory and what its threads do together.
class TwinBlock {
 public:
  TwinBlock(int threads, int shared_bytes, Copies copies = Copies::at_once,
            Fibres::Order order = Fibres::Order::upwards)
      : fibres(threads, warp_size, order),
        copies(copies),
        threads_(threads),
        memory_(std::size_t(shared_bytes), std::byte{0xff}),  // NaN in every type
        lanes_(std::size_t(threads)),
        warps_(std::size_t(threads / warp_size)) {}

  /// Runs program(machine) on each thread.
  template <class Program>
  void run(const Program& program);

  /// The most words of one bank that the lanes of a warp read at the same time; 1 means no conflict.
  int bank_conflicts = 1;

 private:
  friend class TwinMachine;
  struct Meeting {
    const char* what = "";
    int arrived = 0;
    std::vector<std::byte> in, out;
  };
  struct Warp {
    Meeting meetings[2];  // two: lanes may be one meeting apart
  };
  struct Copy {
    Shared to;
    const void* from;
    bool inside;
  };
  struct Load {
    Shared at;
    std::size_t bytes;
  };
  struct Lane {
    int meetings = 0;
    std::vector<Load> loads;  // since the last meeting
    std::vector<Copy> uncommitted, committed;
  };

  std::byte* at(Shared place, std::size_t bytes, std::size_t alignment) {
    if (place + bytes > memory_.size() || place % alignment != 0)
      throw std::logic_error("shared memory: " + std::to_string(bytes) + " bytes at " + std::to_string(place));
    return memory_.data() + place;
  }
  void make(const Copy& copy) {
    std::byte* to = at(copy.to, 16, 16);
    if (copy.inside && reinterpret_cast<std::uintptr_t>(copy.from) % 16 != 0)
      throw std::logic_error("16 bytes are copied from an address that is no multiple of 16");
    copy.inside ? std::memcpy(to, copy.from, 16) : std::memset(to, 0, 16);
  }
  void barrier() {
    const int generation = generation_;
    if (++arrived_ == threads_) {
      arrived_ = 0;
      ++generation_;
      for (int i = 0; i < threads_; ++i) fibres.wake(i);
    }
    while (generation_ == generation) fibres.sleep();
  }

  /// The number of different words in the bank that has most. The bank of a word is its index modulo `banks`.
  static int most_of_one_bank(std::vector<Shared> words, int banks) {
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::vector<int> met(std::size_t(banks), 0);
    for (const Shared word : words) ++met[word % unsigned(banks)];
    return *std::max_element(met.begin(), met.end());
  }

  /// Counts bank conflicts of a warp's loads since its last meeting. Load i of all lanes is one access of 32 words, or
  /// two of 16 double words. If lanes did different numbers of loads, nothing is counted.
  void count_conflicts(int warp) {
    Lane* lanes = lanes_.data() + warp * warp_size;
    bool alike = true;
    for (int i = 1; i < warp_size; ++i) alike &= lanes[i].loads.size() == lanes[0].loads.size();
    for (std::size_t load = 0; alike && load < lanes[0].loads.size(); ++load) {
      const std::size_t bytes = lanes[0].loads[load].bytes;
      if (bytes != 4 && bytes != 8) continue;
      const int at_a_time = bytes == 4 ? 32 : 16;
      for (int first = 0; first < warp_size; first += at_a_time) {
        std::vector<Shared> words;
        for (int i = first; i < first + at_a_time; ++i) words.push_back(lanes[i].loads[load].at / unsigned(bytes));
        bank_conflicts = std::max(bank_conflicts, most_of_one_bank(std::move(words), at_a_time));
      }
    }
    for (int i = 0; i < warp_size; ++i) lanes[i].loads.clear();
  }

  /// Each lane of the warp passes its `in` and gets its `out`; compute(in[32], out[32]) is called once.
  template <class Out, class In, class Compute>
  Out together(int thread, const char* what, const In& in, const Compute& compute) {
    Warp& warp = warps_[std::size_t(thread / warp_size)];
    Lane& lane = lanes_[std::size_t(thread)];
    Meeting& meeting = warp.meetings[lane.meetings++ % 2];
    const std::size_t number = std::size_t(thread % warp_size);
    if (meeting.arrived == 0) {
      meeting.what = what;
      meeting.in.resize(warp_size * sizeof(In));
      meeting.out.resize(warp_size * sizeof(Out));
    }
    if (std::strcmp(meeting.what, what) != 0)
      throw std::logic_error(std::string("lanes do ") + meeting.what + " and " + what);
    std::memcpy(meeting.in.data() + number * sizeof(In), &in, sizeof(In));
    if (++meeting.arrived == warp_size) {
      count_conflicts(thread / warp_size);
      compute(reinterpret_cast<const In*>(meeting.in.data()), reinterpret_cast<Out*>(meeting.out.data()));
      meeting.arrived = 0;
      for (int i = 0; i < warp_size; ++i) fibres.wake(thread / warp_size * warp_size + i);
    } else {
      fibres.sleep();
    }
    Out out;
    std::memcpy(&out, meeting.out.data() + number * sizeof(Out), sizeof(Out));
    return out;
  }

  Fibres fibres;
  Copies copies;
  int threads_;
  std::vector<std::byte> memory_;
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  int arrived_ = 0, generation_ = 0;
};

class TwinMachine {
 public:
  TwinMachine(TwinBlock& block, int thread) : block_(block), thread_(thread) {}

  int thread() const { return thread_; }
  void barrier() { block_.barrier(); }

  template <class T>
  T load(Shared at) const {
    T x;
    std::memcpy(&x, block_.at(at, sizeof(T), alignof(T)), sizeof(T));
    mine().loads.push_back({at, sizeof(T)});
    return x;
  }
  template <class T>
  void store(Shared at, T x) {
    std::memcpy(block_.at(at, sizeof(T), alignof(T)), &x, sizeof(T));
  }

  void copy_16(Shared to, const void* from, bool inside) {
    if (block_.copies == Copies::at_once) return block_.make({to, from, inside});
    mine().uncommitted.push_back({to, from, inside});
  }
  void commit() {
    auto& waiting = mine().uncommitted;
    mine().committed.insert(mine().committed.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }
  void wait() {
    for (const auto& copy : mine().committed) block_.make(copy);
    mine().committed.clear();
  }

  Words4 load_matrices(Shared at) const { return load_four(at, "load_matrices", false); }
  Words4 load_transposed(Shared at) const { return load_four(at, "load_transposed", true); }

  template <class Stored>
  void multiply_16(float (&c)[4], const Words4& a, std::uint32_t b0, std::uint32_t b1) const {
    const auto number = [](std::uint32_t word, int i) {
      Stored stored;
      stored.bits = std::uint16_t(i == 0 ? word : word >> 16);
      return double(core::to_float(stored));
    };
    multiply<16>(
        c, a, b0, b1, "multiply_16",
        [&](const Product* lanes, int row, int k) {
          return number(lanes[row % 8 * 4 + k % 8 / 2].a.of[row / 8 + k / 8 * 2], k % 2);
        },
        [&](const Product* lanes, int k, int column) { return number(lanes[column * 4 + k % 8 / 2].b[k / 8], k % 2); });
  }
  /// The matrix unit ignores the last 13 bits of a float.
  void multiply_tf32(float (&c)[4], const Words4& a, std::uint32_t b0, std::uint32_t b1) const {
    const auto number = [](std::uint32_t word) { return double(core::detail::float_of(word & ~0x1fffu)); };
    multiply<8>(
        c, a, b0, b1, "multiply_tf32",
        [&](const Product* lanes, int row, int k) {
          return number(lanes[row % 8 * 4 + k % 4].a.of[row / 8 + k / 4 * 2]);
        },
        [&](const Product* lanes, int k, int column) { return number(lanes[column * 4 + k % 4].b[k / 4]); });
  }
  void multiply_64(double (&c)[2], double a, double b) const {
    struct Operands {
      double a, b, c[2];
    };
    struct Result {
      double c[2];
    };
    const auto result = block_.together<Result>(thread_, "multiply_64", Operands{a, b, {c[0], c[1]}},
                                                [](const Operands* in, Result* out) {
                                                  for (int row = 0; row < 8; ++row) {
                                                    for (int column = 0; column < 8; ++column) {
                                                      const int lane = row * 4 + column / 2;
                                                      double sum = in[lane].c[column % 2];
                                                      for (int k = 0; k < 4; ++k)
                                                        sum = std::fma(in[row * 4 + k].a, in[column * 4 + k].b, sum);
                                                      out[lane].c[column % 2] = sum;
                                                    }
                                                  }
                                                });
    std::memcpy(c, result.c, sizeof c);
  }

  template <class Stored>
  std::uint32_t pack(float low, float high) const {
    Stored both[2];
    core::store_as(both[0], low);
    core::store_as(both[1], high);
    return std::uint32_t(both[1].bits) << 16 | both[0].bits;
  }
  std::uint32_t round_tf32(float x) const {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (std::isnan(x)) return 0x7fffffffu;
    return (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  }
  /// Results below the normal numbers are zero.
  float exp2(float x) const { return x < -126 ? 0.0f : std::exp2(x); }
  double exp2(double x) const { return std::exp2(x); }
  template <class T>
  T larger(T x, T y) const {
    return std::fmax(x, y);
  }

  template <class T>
  T from_lane_xor(T x, int mask) const {
    return block_.together<T>(thread_, "from_lane_xor", x, [&](const T* in, T* out) {
      for (int lane = 0; lane < warp_size; ++lane) out[lane] = in[lane ^ mask];
    });
  }
  bool any(bool flag) const {
    return block_.together<bool>(thread_, "any", flag, [](const bool* in, bool* out) {
      bool found = false;
      for (int lane = 0; lane < warp_size; ++lane) found |= in[lane];
      for (int lane = 0; lane < warp_size; ++lane) out[lane] = found;
    });
  }

 private:
  struct Product {
    Words4 a;
    std::uint32_t b[2];
    float c[4];
  };
  struct Sums {
    float c[4];
  };

  TwinBlock::Lane& mine() const { return block_.lanes_[std::size_t(thread_)]; }

  /// A sum as matrix units make it (Fasi et al. 2021, "Numerical behavior of NVIDIA tensor cores"). Each addend is cut
  /// off two binary digits after the last digit that a float as large as the largest addend has; then the sum is cut
  /// off after the last digit of a float.
  template <int count>
  static float sum_cut_off(const double (&addends)[count]) {
    double sum = 0, largest = 0;
    for (const double x : addends) {
      sum += x;
      largest = std::max(largest, std::fabs(x));
    }
    if (largest == 0 || !std::isfinite(sum)) return float(sum);
    constexpr std::uint64_t digits = 25, fraction = 52, bias = 1023;
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(largest) >> fraction;  // biased, and far from limits
    const double unit = std::bit_cast<double>((exponent - digits) << fraction);
    const double units_of_one = std::bit_cast<double>((2 * bias + digits - exponent) << fraction);
    std::int64_t units = 0;
    for (const double x : addends) units += std::int64_t(x * units_of_one);
    const double exact = double(units) * unit;
    const float nearest = float(exact);
    const bool is_too_large = std::isfinite(nearest) && std::fabs(nearest) > std::fabs(exact);
    return is_too_large ? std::nextafter(nearest, 0.0f) : nearest;
  }

  /// 16 x 8 sums of products of `depth` numbers; left(lanes, row, k) and right(lanes, k, column) return the factors.
  template <int depth, class Left, class Right>
  void multiply(float (&c)[4], const Words4& a, std::uint32_t b0, std::uint32_t b1, const char* what, const Left& left,
                const Right& right) const {
    const Product in{a, {b0, b1}, {c[0], c[1], c[2], c[3]}};
    const auto result = block_.together<Sums>(thread_, what, in, [&](const Product* lanes, Sums* out) {
      double columns[8][depth];
      for (int column = 0; column < 8; ++column) {
        for (int k = 0; k < depth; ++k) columns[column][k] = right(lanes, k, column);
      }
      for (int row = 0; row < 16; ++row) {
        double numbers[depth], addends[depth + 1];
        for (int k = 0; k < depth; ++k) numbers[k] = left(lanes, row, k);
        for (int column = 0; column < 8; ++column) {
          const int lane = row % 8 * 4 + column / 2, number = row / 8 * 2 + column % 2;
          for (int k = 0; k < depth; ++k) addends[k] = numbers[k] * columns[column][k];
          addends[depth] = double(lanes[lane].c[number]);
          out[lane].c[number] = sum_cut_off(addends);
        }
      }
    });
    std::memcpy(c, result.c, sizeof c);
  }

  Words4 load_four(Shared at, const char* what, bool transposed) const {
    return block_.together<Words4>(thread_, what, at, [&](const Shared* rows, Words4* out) {
      for (int matrix = 0; matrix < 4; ++matrix) {
        std::uint16_t numbers[8][8];
        std::vector<Shared> places;
        for (int row = 0; row < 8; ++row) {
          const Shared place = rows[matrix * 8 + row];
          std::memcpy(numbers[row], block_.at(place, 16, 16), 16);
          places.push_back(place / 16);
        }
        block_.bank_conflicts = std::max(block_.bank_conflicts, TwinBlock::most_of_one_bank(std::move(places), 8));
        for (int lane = 0; lane < warp_size; ++lane) {
          const int i = lane / 4, j = lane % 4 * 2;
          const std::uint32_t low = transposed ? numbers[j][i] : numbers[i][j];
          const std::uint32_t high = transposed ? numbers[j + 1][i] : numbers[i][j + 1];
          out[lane].of[matrix] = high << 16 | low;
        }
      }
    });
  }

  TwinBlock& block_;
  int thread_;
};

template <class Program>
void TwinBlock::run(const Program& program) {
  fibres.run([&](int thread) {
    TwinMachine machine(*this, thread);
    program(machine);
    // No thread waits for an uncommitted copy, which on a GPU may write into memory that another block has by then.
    if (!lanes_[std::size_t(thread)].uncommitted.empty()) throw std::logic_error("copies were not committed");
  });
}

}  // namespace annulus::test

#include "annulus/store/fingerprint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "annulus/comm/activity.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/store/files/descriptor.hpp"
#include "annulus/store/files/file_system.hpp"

namespace annulus::store {
namespace {

/// The last step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators; 2014): every bit of
/// the result depends on every bit of x.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// Number of chains of multiplications that the processor computes at the same time. In one chain, each product waits
/// for the product before it. With eight chains, only the speed of memory limits the computation.
constexpr std::size_t lanes = 8;
using Lanes = std::array<std::uint64_t, lanes>;

void add_block(Lanes& state, const std::byte* block) {
  Lanes words;
  std::memcpy(words.data(), block, sizeof words);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    state[lane] = (state[lane] ^ words[lane]) * 0x9e3779b97f4a7c15u;
    state[lane] ^= state[lane] >> 32;  // otherwise high bits of a word would never change low bits of the state
  }
}

/// Returns what one line adds to the sum of fingerprint_at(). mixed(0) is 0, so a word of zeros adds 0. All factors are
/// odd, so the sum always changes if exactly one word changes.
std::uint64_t line_share(const std::byte* line, Index bytes, std::uint64_t position) {
  std::uint64_t sum = 0;
  const auto add = [&](Index at, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, line + at, size);
    sum += mixed(word) * ((position + std::uint64_t(at)) * 0x9e3779b97f4a7c16u | 1);
  };
  const Index whole = bytes / 8 * 8;
  for (Index at = 0; at < whole; at += 8) add(at, 8);
  if (whole < bytes) add(whole, std::size_t(bytes - whole));
  return sum;
}

std::uint64_t row_fingerprint(const std::byte* row, std::size_t bytes, std::uint64_t number) {
  Lanes state{1, 2, 3, 4, 5, 6, 7, 8};
  std::size_t at = 0;
  for (; at + sizeof state <= bytes; at += sizeof state) add_block(state, row + at);
  if (at < bytes) {
    std::array<std::byte, sizeof state> last{};
    std::memcpy(last.data(), row + at, bytes - at);
    add_block(state, last.data());
  }
  std::uint64_t all = mixed(number);
  for (const std::uint64_t word : state) all = mixed(all ^ word);
  return all;
}

/// The sum of share(i) for 0 <= i < count, computed by all threads.
template <class Share>
std::uint64_t sum_of(const char* label, Index count, const Share& share) {
  std::uint64_t sum = 0;
  Kokkos::parallel_reduce(
      label, Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, count),
      [=](const Index i, std::uint64_t& all) { all += share(i); }, sum);
  return sum;
}

}  // namespace

std::uint64_t fingerprint(const HeldRows& held, const comm::Communicator& comm) {
  const Index bytes = held.row_bytes, at_once = std::max<Index>(1, (Index(1) << 30) / std::max<Index>(1, bytes));
  const auto* row = static_cast<const std::byte*>(held.host);
  std::uint64_t sum = 0;
  for (Index b = 0; b < held.batch; ++b) {
    for (const core::Interval& interval : held.rows) {
      for (Index first = interval.begin; first < interval.end; first += at_once) {
        const Index count = std::min(at_once, interval.end - first), number = b * held.sequence + first;
        sum += sum_of("annulus::fingerprint", count, [=](const Index i) {
          return row_fingerprint(row + i * bytes, std::size_t(bytes), std::uint64_t(number + i));
        });
        row += count * bytes;
        comm::watchdog_progress();  // so other ranks, which may be waiting for this rank, learn that it works
      }
    }
  }
  std::uint64_t all = 0;  // not summed by MPI, because a sum of signed numbers could overflow
  for (const Index part : comm.gather_all(Index(sum))) all += std::uint64_t(part);
  return all;
}

std::string sample_of(const std::string& file) {
  constexpr Index pieces = 64, words = 512;
  const comm::BlockingScope inside("the reading of " + file);
  const Descriptor descriptor(file, O_RDONLY);
  struct stat about {};
  core::require(fstat(descriptor.id(), &about) == 0, [] { return "fstat of an open file"; });
  std::vector<Index> sample(std::size_t(pieces * words), 0);
  const Index bytes = words * Index(sizeof(Index)), last = std::max<Index>(0, Index(about.st_size) - bytes);
  for (Index i = 0; i < pieces; ++i) {
    if (read_bytes(descriptor, &sample[std::size_t(i * words)], bytes, last / (pieces - 1) * i) < 0) {
      core::fail(core::ErrorKind::failure, "{}: cannot be read: {}", file, std::strerror(errno));
    }
  }
  return fmt::format("{} bytes, fingerprint {:016x}", Index(about.st_size), fingerprint(sample));
}

std::uint64_t fingerprint(const std::vector<Index>& numbers) {
  return row_fingerprint(reinterpret_cast<const std::byte*>(numbers.data()), numbers.size() * sizeof(Index),
                         numbers.size());
}

std::uint64_t fingerprint_at(Index begin, const std::byte* bytes, Index count, Index line) {
  constexpr Index few = Index(1) << 18;  // for fewer bytes, starting threads would take longer than summing up
  const auto share = [=](Index i) { return line_share(bytes + i * line, line, std::uint64_t(begin + i * line)); };
  if (count >= few) return sum_of("annulus::fingerprint_at", count / line, share);
  std::uint64_t sum = 0;
  for (Index i = 0; i < count / line; ++i) sum += share(i);
  return sum;
}

std::uint64_t fingerprint_share(const MatrixPart& part, std::uint64_t matrix) {
  const std::size_t bytes = bytes_of(part.type.value());
  const core::RowPiece piece = piece_of(part, Index(bytes));
  const auto* const numbers = static_cast<const std::byte*>(piece.memory);
  const core::Interval columns = part.part.columns;
  return sum_of("annulus::fingerprint_share", part.part.rows.size(), [=](const Index i) {
    const std::uint64_t row = mixed(mixed(matrix + 1) + std::uint64_t(piece.first + i));
    std::uint64_t sum = 0;
    for (Index c = 0; c < columns.size(); ++c) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, numbers + i * piece.pitch + c * Index(bytes), bytes);
      sum += mixed(mixed(row + std::uint64_t(columns.begin + c)) ^ bits);
    }
    return sum;
  });
}

}  // namespace annulus::store

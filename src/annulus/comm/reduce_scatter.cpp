#include "annulus/comm/reduce_scatter.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>

#include "annulus/core/buffer.hpp"

namespace annulus::comm {
namespace {

template <class Number>
struct Add {
  const Number* from;
  Number* to;

  KOKKOS_FUNCTION void operator()(const Index i) const { to[i] += from[i]; }
};

template <class Number>
void add_numbers(const void* from, void* to, Index count) {
  Kokkos::parallel_for("annulus::add_piece", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, count),
                       Add<Number>{static_cast<const Number*>(from), static_cast<Number*>(to)});
  Kokkos::DefaultExecutionSpace().fence();  // waits for kernels only; copies of other messages go on
}

/// Describes numbers as `count` rows of one number each, because MPI counts in int, which may be too small for the
/// number of bytes.
RowBlock block_of(const core::Buffer& buffer, Index count, Index width) {
  return {buffer.data(), 1, count, width, {0, count}};
}

}  // namespace

std::pair<Index, Index> reduce_scatter(const Communicator& comm, Exchange& exchange, core::Precision precision,
                                       const std::vector<Index>& numbers,
                                       const std::function<void(int rank, void* piece)>& make, void* sum) {
  const int ranks = comm.size(), rank = comm.rank();
  const auto width = Index(core::bytes_of(precision));
  const Index own = numbers[std::size_t(rank)];
  const auto make_piece = [&](int peer, void* piece) {
    if (numbers[std::size_t(peer)] > 0) make(peer, piece);
  };
  if (ranks == 1) {
    make_piece(rank, sum);
    return {0, 0};
  }
  const Index largest = *std::max_element(numbers.begin(), numbers.end());
  const core::Buffer arriving("pieces of sums", own * width);
  core::Buffer leaving("pieces of sums", largest * width), next("pieces of sums", ranks > 2 ? largest * width : 0);
  std::pair<Index, Index> bytes{0, 0};
  make_piece(core::wrap(rank + 1, ranks), leaving.data());
  for (int d = 1; d < ranks; ++d) {
    const int to = core::wrap(rank + d, ranks), from = core::wrap(rank - d, ranks);
    const Message send{to, block_of(leaving, numbers[std::size_t(to)], width)};
    const Message receive{from, block_of(arriving, own, width)};
    exchange.start({send}, {receive}, d);
    if (d == 1) make_piece(rank, sum);  // while the first message travels, before received pieces are added
    if (d + 1 < ranks) make_piece(core::wrap(rank + d + 1, ranks), next.data());
    exchange.wait();
    if (precision == core::Precision::float64) {
      add_numbers<double>(arriving.data(), sum, own);
    } else {
      add_numbers<float>(arriving.data(), sum, own);
    }
    std::swap(leaving, next);
    bytes.first += send.block.bytes();
    bytes.second += receive.block.bytes();
  }
  return bytes;
}

}  // namespace annulus::comm

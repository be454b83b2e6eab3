#include "annulus/kernels/gather.hpp"

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

#include "annulus/core/error.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "annulus/kernels/turns.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using Space = Kokkos::DefaultExecutionSpace;
using Word = std::uint16_t;  // as small as the smallest storage type, so rows of any type are whole words

/// Rows are moved 16 bytes at a time if is_wide() is true. Neighbouring threads of a GPU then fill whole cache lines.
struct alignas(16) Wide {
  std::uint64_t low = 0, high = 0;
};

// Operations on two numbers. `far` belongs to the array, whose rows are far apart, `near` to the collected rows.
struct Copy {
  static constexpr bool writes_far = false, writes_near = true;
  template <class T>
  KOKKOS_FUNCTION static void apply(T& far, T& near) {
    near = far;
  }
};
struct Move {
  static constexpr bool writes_far = true, writes_near = true;
  template <class T>
  KOKKOS_FUNCTION static void apply(T& far, T& near) {
    near = far;
    far = T{};
  }
};
struct Add {
  static constexpr bool writes_far = true, writes_near = false;
  template <class T>
  KOKKOS_FUNCTION static void apply(T& far, T& near) {
    far += near;
  }
};

/// A copy, and how many rows the copies before it in the same launch have together.
struct PlacedCopy {
  RowCopy copy;
  Index rows_before;
};

/// All copies of one launch. Index i counts (part, block of rows, piece of a row), pieces fastest, so that neighbouring
/// threads of a GPU read and write neighbouring numbers. A block may have rows of several copies.
template <class T, class Operation>
struct WalkRows {
  T* far;
  T* near;
  Index far_part, near_part;  // numbers from one part to the next
  Index numbers;              // of a row
  Index step;                 // numbers per index
  Index block;                // rows per index
  const PlacedCopy* copies = nullptr;
  Index copy_count = 0, rows = 0;  // rows: of all copies

  /// Finds the last copy that begins at or before row number `row` of all copies.
  KOKKOS_FUNCTION const PlacedCopy* find(const Index row) const {
    Index first = 0, end = copy_count;
    while (end - first > 1) {
      const Index middle = (first + end) / 2;
      (copies[middle].rows_before <= row ? first : end) = middle;
    }
    return copies + first;
  }

  KOKKOS_FUNCTION void operator()(const Index i) const {
    const Index steps = numbers / step, blocks = (rows + block - 1) / block;
    const Index number = i % steps * step, begin = i / steps % blocks * block, part = i / steps / blocks;
    const Index end = begin + block < rows ? begin + block : rows;
    const PlacedCopy* placed = find(begin);
    for (Index of_all = begin; of_all < end; ++of_all) {
      while (of_all - placed->rows_before >= placed->copy.count) ++placed;
      const Index row = of_all - placed->rows_before;
      T* a = far + part * far_part + (placed->copy.from + row * placed->copy.stride) * numbers + number;
      T* b = near + part * near_part + (placed->copy.to + row * placed->copy.to_stride) * numbers + number;
      for (Index n = 0; n < step; ++n) Operation::apply(a[n], b[n]);
    }
  }
};

/// The launches of a list. Copies that write different rows share a launch. Copies that write the same row are in
/// different launches, in the order of the list.
struct Turns {
  template <class Operation>
  static Turns of(const std::vector<RowCopy>& copies, Operation) {
    WrittenRows written;
    const auto add = [&](auto rows_of) {
      std::vector<StridedRows>& lists = written.emplace_back();
      for (const RowCopy& copy : copies) lists.push_back(rows_of(copy));
    };
    if (Operation::writes_far) add([](const RowCopy& c) { return StridedRows{c.from, c.stride, c.count}; });
    if (Operation::writes_near) add([](const RowCopy& c) { return StridedRows{c.to, c.to_stride, c.count}; });
    const std::vector<int> turns = turns_of(copies.size(), written);
    Turns all;
    for (int turn = 0; all.placed.size() < copies.size(); ++turn) {
      Index rows = 0;
      for (std::size_t i = 0; i < copies.size(); ++i) {
        if (turns[i] != turn) continue;
        all.placed.push_back({copies[i], rows});
        rows += copies[i].count;
      }
      all.launches.push_back({Index(all.placed.size()), rows});
    }
    return all;
  }

  struct OneLaunch {
    Index end, rows;  // end: index after its last copy; rows: number of rows of its copies
  };
  std::vector<PlacedCopy> placed;  // the copies of the first launch, then those of the second, ...
  std::vector<OneLaunch> launches;
};

template <class T, class Operation>
void walk_numbers(const std::vector<RowCopy>& copies, const RowArray& far, const RowArray& near) {
  const Index numbers = far.row_bytes / Index(sizeof(T));
  constexpr bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space::memory_space>::accessible;
  // Index i of WalkRows is 32 whole rows on a host, and one number on a GPU.
  const Index step = on_host ? numbers : 1, block = on_host ? 32 : 1;
  const Turns turns = Turns::of(copies, Operation());
  const Index bytes = on_host ? 0 : Index(turns.placed.size() * sizeof(PlacedCopy));
  const core::Buffer list = device::kept_list(bytes);
  core::copy_to_device(list.data(), turns.placed.data(), bytes);
  const PlacedCopy* placed = on_host ? turns.placed.data() : static_cast<const PlacedCopy*>(list.data());
  WalkRows<T, Operation> body{static_cast<T*>(far.data),
                              static_cast<T*>(near.data),
                              far.held * numbers,
                              near.held * numbers,
                              numbers,
                              step,
                              block};
  Index begin = 0;
  for (const Turns::OneLaunch& launch : turns.launches) {
    body.copies = placed + begin;
    body.copy_count = launch.end - begin;
    body.rows = launch.rows;
    const Index indices = far.parts * core::ceil_div(launch.rows, block) * (numbers / step);
    Kokkos::parallel_for("annulus::walk_rows", Kokkos::RangePolicy<Space, Kokkos::IndexType<Index>>(0, indices), body);
    begin = launch.end;
  }
  Space().fence();
}

bool is_wide(const RowArray& array) {
  return array.row_bytes % Index(sizeof(Wide)) == 0 &&
         reinterpret_cast<std::uintptr_t>(array.data) % alignof(Wide) == 0;
}

template <class T, class Operation>
void walk_rows(std::vector<RowCopy> copies, const RowArray& far, const RowArray& near) {
  core::require(
      far.parts == near.parts && far.row_bytes == near.row_bytes && far.row_bytes % Index(sizeof(T)) == 0, [&] {
        return fmt::format("rows are collected or added between arrays of {} parts of rows of {} bytes and {} of {}",
                           far.parts, far.row_bytes, near.parts, near.row_bytes);
      });
  std::erase_if(copies, [](const RowCopy& copy) { return copy.count == 0; });
  if (copies.empty() || far.parts * far.row_bytes == 0) return;
  if constexpr (std::is_same_v<T, Word>) {
    if (is_wide(far) && is_wide(near)) return walk_numbers<Wide, Operation>(copies, far, near);
  }
  walk_numbers<T, Operation>(copies, far, near);
}

}  // namespace

void gather_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target) {
  walk_rows<Word, Copy>(copies, source, target);
}

void move_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target) {
  walk_rows<Word, Move>(copies, source, target);
}

void add_rows(const std::vector<RowCopy>& copies, const RowArray& collected, const RowArray& target,
              core::Precision precision) {
  if (precision == core::Precision::float64) {
    walk_rows<double, Add>(copies, target, collected);
  } else {
    walk_rows<float, Add>(copies, target, collected);
  }
}

}  // namespace annulus::kernels

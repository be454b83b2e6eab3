#include "annulus/kernels/gather.hpp"

#include <Kokkos_Core.hpp>

#include "annulus/core/error.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using Space = Kokkos::DefaultExecutionSpace;
using Word = std::uint16_t;  // the smallest storage type; a row of any type is a whole number of them

// What happens to a number at `far`, in the array whose rows lie apart, and the one at `near`, in the collected rows.
struct Copy {
  template <class T>
  KOKKOS_FUNCTION static void apply(T& far, T& near) {
    near = far;
  }
};
struct Move {
  template <class T>
  KOKKOS_FUNCTION static void apply(T& far, T& near) {
    near = far;
    far = 0;
  }
};
struct Add {
  template <class T>
  KOKKOS_FUNCTION static void apply(T& far, T& near) {
    far += near;
  }
};

/// Index i counts (part, row of the copy, number), numbers fastest, so that neighbouring threads touch neighbours.
template <class T, class Operation>
struct WalkRows {
  T* far;
  T* near;
  RowCopy copy;
  Index far_part, near_part;  // numbers from one part to the next
  Index numbers;              // of a row
  Index step;                 // numbers per index

  KOKKOS_FUNCTION void operator()(const Index i) const {
    const Index steps = numbers / step;
    const Index number = i % steps * step, row = i / steps % copy.count, part = i / steps / copy.count;
    T* a = far + part * far_part + (copy.from + row * copy.stride) * numbers + number;
    T* b = near + part * near_part + (copy.to + row * copy.to_stride) * numbers + number;
    for (Index n = 0; n < step; ++n) Operation::apply(a[n], b[n]);
  }
};

/// Copies run one after another: inside one of them no row appears twice, between two of them it may.
template <class T, class Operation>
void walk_rows(const std::vector<RowCopy>& copies, const RowArray& far, const RowArray& near) {
  core::require(far.parts == near.parts && far.row_bytes == near.row_bytes && far.row_bytes % Index(sizeof(T)) == 0,
                [] { return "rows are collected or added between arrays of different shape"; });
  const Index numbers = far.row_bytes / Index(sizeof(T));
  // A host thread takes whole rows; threads of a GPU take a number each, side by side.
  const Index step = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space::memory_space>::accessible ? numbers : 1;
  for (const RowCopy& copy : copies) {
    const WalkRows<T, Operation> body{static_cast<T*>(far.data),
                                      static_cast<T*>(near.data),
                                      copy,
                                      far.held * numbers,
                                      near.held * numbers,
                                      numbers,
                                      step};
    const Index indices = far.parts * copy.count * (numbers / step);
    Kokkos::parallel_for("annulus::walk_rows", Kokkos::RangePolicy<Space, Kokkos::IndexType<Index>>(0, indices), body);
  }
  Space().fence();
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

#include "annulus/kernels/merge.hpp"

#include <Kokkos_Core.hpp>

#include "annulus/core/error.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/device/softmax.hpp"
#include "annulus/kernels/top_list.hpp"

namespace annulus::kernels {
namespace {

using core::Index;

/// Element `at` of an array (B, rows, H) has one counterpart in each part of an array (B, parts * rows, H). index(at,
/// part) returns the index of its counterpart in part `part`.
struct PartsOf {
  Index rows, heads, parts;

  KOKKOS_FUNCTION Index index(Index at, Index part) const {
    const Index each = rows * heads, entry = at / each;
    return (entry * parts + part) * each + at % each;
  }
};

template <class T>
struct StateNumbers {
  T* m;
  T* l;
  T* score_sum;  // null: not wanted
  T* acc;
};

template <class T>
StateNumbers<T> numbers_of(const State& state) {
  return {static_cast<T*>(state.m.data()), static_cast<T*>(state.l.data()), static_cast<T*>(state.score_sum.data()),
          static_cast<T*>(state.acc.data())};
}

template <class T>
struct MergeStates {
  StateNumbers<T> from, into;
  PartsOf parts;
  Index value_dim;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    for (Index part = 0; part < parts.parts; ++part) add(parts.index(at, part), at);
  }

 private:
  KOKKOS_FUNCTION void add(Index one, Index at) const {
    if (from.l[one] == T(0)) return;  // an empty state: its acc may hold anything
    const bool is_first = into.l[at] == T(0);
    const T shift = is_first || from.m[one] > into.m[at] ? from.m[one] : into.m[at];
    const T keep = is_first ? T(0) : device::power_of_two(into.m[at] - shift);
    const T weight = device::power_of_two(from.m[one] - shift);
    into.m[at] = shift;
    into.l[at] = keep * into.l[at] + weight * from.l[one];
    if (into.score_sum != nullptr) into.score_sum[at] = keep * into.score_sum[at] + weight * from.score_sum[one];
    for (Index d = 0; d < value_dim; ++d) {
      T& sum = into.acc[at * value_dim + d];
      sum = (is_first ? T(0) : keep * sum) + weight * from.acc[one * value_dim + d];
    }
  }
};

template <class T>
struct MergeTop {
  const T* weights;
  const Index* rows;
  TopList<T> into;  // the list for element 0
  PartsOf parts;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    const TopList<T> list{into.weights + at * into.size, into.rows + at * into.size, into.size};
    for (Index i = 0; i < list.size; ++i) {
      list.weights[i] = 0;
      list.rows[i] = -1;
    }
    for (Index part = 0; part < parts.parts; ++part) {
      const Index first = parts.index(at, part) * list.size;
      for (Index i = first; i < first + list.size && weights[i] > T(0); ++i) list.admit(weights[i], rows[i]);
    }
  }
};

template <class Body>
void for_each(const char* label, Index count, const Body& body) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, count), body);
  Kokkos::DefaultExecutionSpace().fence();
}

}  // namespace

void merge_states(const State& from, Index parts, State& into) {
  const core::Shape& s = into.shape;
  core::require(
      from.rows == parts * into.rows && from.precision == into.precision && from.exponent_bias == into.exponent_bias &&
          from.score_sum.bytes() == parts * into.score_sum.bytes(),
      [&] {
        return fmt::format("{} states of {} rows, bias {}, {} bytes of score sums; expected {} parts of {}, {}, {}, {}",
                           name_of(from.precision), from.rows, from.exponent_bias, from.score_sum.bytes(), parts,
                           name_of(into.precision), into.rows, into.exponent_bias, into.score_sum.bytes());
      });
  core::with_precision(into.precision, [&](auto number) {
    using T = decltype(number);
    for_each("annulus::merge_states", s.batch * into.rows * s.heads,
             MergeStates<T>{numbers_of<T>(from), numbers_of<T>(into), {into.rows, s.heads, parts}, s.dim_of_values()});
  });
}

void merge_top(const core::Shape& shape, Index rows, core::DType type, Index size, const TopLists& from, Index parts,
               const TopLists& into) {
  const auto merge = [&](auto number) {
    using T = decltype(number);
    for_each("annulus::merge_top", shape.batch * rows * shape.heads,
             MergeTop<T>{static_cast<const T*>(from.weights),
                         from.rows,
                         TopList<T>{static_cast<T*>(into.weights), into.rows, size},
                         {rows, shape.heads, parts}});
  };
  type == core::DType::float64 ? merge(double{}) : merge(float{});
}

}  // namespace annulus::kernels

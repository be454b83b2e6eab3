#include "annulus/kernels/gather.hpp"

#include <Kokkos_Core.hpp>

#include "annulus/core/error.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using Space = Kokkos::DefaultExecutionSpace;
using Word = std::uint16_t;  // the smallest storage type; a row of any type is a whole number of them

/// Moves words: index i counts (part, row of the copy, word), words fastest, so that neighbouring threads touch
/// neighbouring words.
struct CopyWords {
  const Word* source;
  Word* target;
  RowCopy copy;
  Index source_part, target_part;  // words from one part to the next
  Index words;                     // of a row
  Index step;                      // words moved per index

  KOKKOS_FUNCTION void operator()(const Index i) const {
    const Index steps = words / step;
    const Index word = i % steps * step, row = i / steps % copy.count, part = i / steps / copy.count;
    const Word* from = source + part * source_part + (copy.from + row * copy.stride) * words + word;
    Word* to = target + part * target_part + (copy.to + row) * words + word;
    for (Index w = 0; w < step; ++w) to[w] = from[w];
  }
};

}  // namespace

void gather_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target) {
  core::require(source.parts == target.parts && source.row_bytes == target.row_bytes && source.row_bytes % 2 == 0,
                [] { return "rows are gathered between arrays of different shape"; });
  const Index words = source.row_bytes / Index(sizeof(Word));
  // A host thread moves whole rows; threads of a GPU move a word each, side by side.
  const Index step = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space::memory_space>::accessible ? words : 1;
  for (const RowCopy& copy : copies) {
    const CopyWords body{static_cast<const Word*>(source.data),
                         static_cast<Word*>(target.data),
                         copy,
                         source.held * words,
                         target.held * words,
                         words,
                         step};
    const Index indices = source.parts * copy.count * (words / step);
    Kokkos::parallel_for("annulus::gather_rows", Kokkos::RangePolicy<Space, Kokkos::IndexType<Index>>(0, indices),
                         body);
  }
  Space().fence();
}

}  // namespace annulus::kernels

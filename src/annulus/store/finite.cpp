#include "annulus/store/finite.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "annulus/core/storage.hpp"

namespace annulus::store {
namespace {

using core::Index;

/// The bits of a number. Does not use std::bit_cast, because GCC 12 would then not vectorise the loops below.
template <class Bits, class Stored>
Bits bits_of(const Stored& number) {
  Bits bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

/// Finds the first number that is NaN or infinite, which means that its exponent bits are all ones. The same test on
/// bits serves all four types, and the compiler can vectorise it.
template <class Bits, class Stored>
std::optional<NonFinite> find(const Stored* numbers, Index count, Bits exponent) {
  const auto is_wrong = [=](const Stored& number) { return (bits_of<Bits>(number) & exponent) == exponent; };
  constexpr Index block = 4096;  // so small that searching a block twice is cheap
  for (Index begin = 0; begin < count; begin += block) {
    const Index end = std::min(count, begin + block);
    Bits wrong = 0;
    for (Index i = begin; i < end; ++i) wrong = Bits(wrong | Bits(is_wrong(numbers[i])));
    if (wrong == 0) continue;
    const Stored* found = std::find_if(numbers + begin, numbers + end, is_wrong);
    return NonFinite{found - numbers, core::load_as<double>(*found), ""};
  }
  return std::nullopt;
}

/// The largest absolute value. Compares the bits without the sign, because these bits have the same order as the
/// absolute values, and the compiler can vectorise the comparison.
template <class Bits, class Stored>
double largest(const Stored* numbers, Index count, Bits) {
  constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  Bits most = 0;
  for (Index i = 0; i < count; ++i) most = std::max(most, Bits(bits_of<Bits>(numbers[i]) & Bits(~sign)));
  return core::load_as<double>(std::bit_cast<Stored>(most));
}

/// Calls visit(numbers in their storage type, mask of the exponent bits).
template <class Visit>
auto with_stored(const void* numbers, core::DType type, Visit&& visit) {
  switch (type) {
    case core::DType::float64:
      return visit(static_cast<const double*>(numbers), std::uint64_t(0x7ff0000000000000u));
    case core::DType::float32:
      return visit(static_cast<const float*>(numbers), std::uint32_t(0x7f800000u));
    case core::DType::float16:
      return visit(static_cast<const core::Half*>(numbers), std::uint16_t(0x7c00u));
    default:
      return visit(static_cast<const core::BFloat16*>(numbers), std::uint16_t(0x7f80u));
  }
}

/// Calls visit(vector, count, before) for every vector of spacing.numbers numbers, or once for all numbers if nothing
/// lies between the vectors. `before`: how many numbers were visited before. Stops when visit() returns true.
template <class Visit>
void for_each_vector(const void* numbers, core::DType type, Index count, const Spacing& spacing, const Visit& visit) {
  const auto [each, apart] = spacing.numbers < spacing.apart ? spacing : Spacing{count, count};
  for (Index i = 0; each > 0 && i * apart + each <= count; ++i) {
    const Index bytes = i * apart * Index(core::bytes_of(type));
    if (visit(static_cast<const std::byte*>(numbers) + bytes, each, i * each)) return;
  }
}

}  // namespace

std::string NonFinite::expected() const {
  if (missing_by.empty()) return "expected finite numbers";
  if (missing_by == by_netcdf)
    return "which netCDF returns for a number that was never written; expected a number everywhere";
  return fmt::format("which stands for a missing number according to its attribute {}; expected a number everywhere",
                     missing_by);
}

std::optional<NonFinite> find_missing(const void* numbers, core::DType type, Index count,
                                      const MissingValues& missing) {
  if (missing.empty()) return std::nullopt;
  return with_stored(numbers, type, [&](const auto* stored, auto) -> std::optional<NonFinite> {
    for (const MissingValue& one : missing) {
      std::remove_cv_t<std::remove_pointer_t<decltype(stored)>> rounded;
      core::store_as(rounded, one.value);
      const double value = core::load_as<double>(rounded);
      const auto* const end = stored + count;
      const auto* const found =
          std::find_if(stored, end, [=](const auto& number) { return core::load_as<double>(number) == value; });
      if (found != end) return NonFinite{found - stored, value, one.attribute};
    }
    return std::nullopt;
  });
}

std::optional<NonFinite> find_non_finite(const void* numbers, core::DType type, Index count,
                                         const MissingValues& missing, const Spacing& spacing) {
  std::optional<NonFinite> found;
  for_each_vector(numbers, type, count, spacing, [&](const void* vector, Index each, Index before) {
    found = with_stored(vector, type, [&](auto* stored, auto exponent) { return find(stored, each, exponent); });
    if (!found) found = find_missing(vector, type, each, missing);
    if (found) found->index += before;
    return found.has_value();
  });
  return found;
}

double largest_magnitude(const void* numbers, core::DType type, Index count, const Spacing& spacing) {
  double most = 0;
  for_each_vector(numbers, type, count, spacing, [&](const void* vector, Index each, Index) {
    const double here = with_stored(vector, type, [&](auto* stored, auto bits) { return largest(stored, each, bits); });
    most = std::max(here, most);
    return false;
  });
  return most;
}

void check_finite(const std::string& where, const std::optional<NonFinite>& found,
                  const std::vector<core::Interval>& rows, const DatasetInfo& info, const comm::Communicator& comm,
                  const std::string& expected, const std::vector<Index>& first_index) {
  constexpr Index none = INT64_MAX;
  const std::vector<Index> extents = reordered(info.extents, info.order);
  Index position = none;  // index in the global tensor
  std::string message;
  if (found) {
    Index local_rows = 0, row_numbers = 1;
    for (const core::Interval& interval : rows) local_rows += interval.size();
    for (std::size_t axis = 2; axis < extents.size(); ++axis) row_numbers *= extents[axis];
    const Index row = found->index / row_numbers;  // counted in the local (B, rows)
    Index inside = found->index % row_numbers;
    std::vector<Index> at(extents.size());
    at[0] = row / local_rows;
    at[1] = core::row_at(rows, row % local_rows);
    position = (at[0] * extents[1] + at[1]) * row_numbers + inside;
    for (std::size_t axis = extents.size() - 1; axis >= 2; --axis) {
      at[axis] = inside % extents[axis];
      inside /= extents[axis];
    }
    at[0] += at[1] / extents[1];  // if entries lie end to end, row S is row 0 of the next entry
    at[1] %= extents[1];
    std::vector<Index> in_file = reordered(at, info.order);
    for (std::size_t axis = 0; axis < first_index.size(); ++axis) in_file[axis] += first_index[axis];
    message = fmt::format("{} holds {} at [{}], {}", where, found->value, fmt::join(in_file, ", "),
                          found->missing_by.empty() ? expected : found->expected());
  }
  const Index first = -comm.max(-position);
  if (first == none) return;
  for (const std::string& text : comm.gather_all(position == first ? message : std::string())) {
    if (!text.empty()) throw comm::AgreedError(core::ErrorKind::failure, text);
  }
}

void check_finite(const std::string& where, const MatrixPart& part, core::DType type, const std::string& expected) {
  const auto found = find_non_finite(part.host, type, part.kept.count());
  if (!found) return;
  const Index columns = part.kept.columns.size();
  core::fail(core::ErrorKind::failure, "{} holds {} at [{}, {}], {}", where, found->value,
             part.kept.rows.begin + found->index / columns, part.kept.columns.begin + found->index % columns, expected);
}

}  // namespace annulus::store

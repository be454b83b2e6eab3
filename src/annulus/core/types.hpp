// Defines types that all folders of src/annulus use: index type, axis order, storage types.
//
// Axis order in memory: q is (B, S, H, D), k (B, S, Hkv, D), out and dout are (B, S, H, Dv), v is (B, S, Hkv, Dv), lse
// (B, S, H), all row-major. So the D numbers of one (batch, row, head) are contiguous. In q, the next row of the same
// head lies H * D numbers further on. Dv is D unless the text says otherwise.
//   B batch   S sequence   H query heads   Hkv key/value heads   D head size (Dv of values)
//   P ranks   w segment    r dilation      o offset
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace annulus::core {

/// The type of numbers of rows, heads, bytes and pairs. It has 64 bits, because the tensors of a million tokens have
/// more than 2^31 numbers.
using Index = std::int64_t;

/// A number of kept (query, key, head) triples. It may not fit into 64 bits: 2^32 rows that all see each other give
/// 2^64 triples for each head and batch entry.
__extension__ using Count = __int128;

/// Extents of one attention problem. kv_heads divides heads: it is smaller in grouped-query attention, otherwise equal.
struct Shape {
  Index batch = 1;
  Index sequence = 0;
  Index heads = 1;
  Index kv_heads = 1;
  Index head_dim = 1;
  Index value_dim = 0;  ///< Dv if it is not D, otherwise 0: see set_value_dim()

  /// Number of elements in a head of v, out and dout; a head of q or k has head_dim. In multi-head latent attention
  /// this number is 512, and head_dim is 576.
  Index dim_of_values() const { return value_dim == 0 ? head_dim : value_dim; }
  void set_value_dim(Index numbers) { value_dim = numbers == head_dim ? 0 : numbers; }
  bool has_value_dim() const { return value_dim != 0; }
  /// Mean of D and Dv. The two products of a forward pass take as much work as two products of this size.
  double mean_dim() const { return 0.5 * double(head_dim + dim_of_values()); }
  /// Query heads served by one key/value head: query head h reads key/value head h / group().
  Index group() const { return heads / kv_heads; }
  bool operator==(const Shape&) const = default;
};

/// Half-open range [begin, end) of rows, heads or other numbers.
struct Interval {
  Index begin = 0;
  Index end = 0;

  Index size() const { return end > begin ? end - begin : 0; }
  bool empty() const { return end <= begin; }
  bool operator==(const Interval&) const = default;
};

/// Counts the rows of all intervals one after another, from 0, and returns row number `i`; -1 if there are fewer rows.
inline Index row_at(const std::vector<Interval>& rows, Index i) {
  for (const Interval& interval : rows) {
    if (i < interval.size()) return interval.begin + i;
    i -= interval.size();
  }
  return -1;
}

/// Rows and columns of a matrix or of a part of it. A vector of n numbers has n rows and one column.
struct Rectangle {
  Interval rows;
  Interval columns;

  Index count() const { return rows.size() * columns.size(); }
  bool operator==(const Rectangle&) const = default;
};

/// The rows that lie in both intervals; an empty interval if there are none.
constexpr Interval intersect(Interval a, Interval b) {
  const Interval both{a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
  return both.begin < both.end ? both : Interval{both.begin, both.begin};
}

/// Cuts 0 ... n-1 into `parts` consecutive parts and returns part `i`. The first n mod `parts` parts are longer by one.
constexpr Interval even_part(Index n, Index parts, Index i) {
  const Index each = n / parts, longer = n % parts;
  const Index begin = i * each + (i < longer ? i : longer);
  return {begin, begin + each + (i < longer ? 1 : 0)};
}

/// Maps any number to a rank of a ring of `ranks` ranks: wrap(-1, 4) = 3, wrap(9, 4) = 1.
template <class Integer>
constexpr Integer wrap(Integer rank, Integer ranks) {
  return (rank % ranks + ranks) % ranks;
}

/// The type in which tensors are stored, in files and in memory. Precision says in which type we compute.
enum class DType { float64, float32, float16, bfloat16 };

/// Type of scores, running sums and accumulators, and of the factors of products. In float64 and float32 all of these
/// have that type. In the other precisions scores, sums and accumulators are float32, and the factors are as follows.
/// If each factor is a sum of narrower numbers, one product takes several products of the narrower numbers:
///   bfloat16         bfloat16 numbers; probabilities and gradients of scores are rounded to bfloat16
///   tf32             float32 numbers rounded to TF32 (8 bits of exponent, 10 of mantissa), on a GPU's matrix units
///   three_tf32       float32 numbers, each the sum of two TF32 numbers: three products, exact to 2^-21
///   three_bfloat16   float32 or float16 numbers, each the sum of two bfloat16 numbers: three products, exact to 2^-16
///   six_bfloat16     float32 numbers, each the sum of three bfloat16 numbers: six products, exact to 2^-23
enum class Precision { float64, float32, bfloat16, tf32, three_tf32, three_bfloat16, six_bfloat16 };

/// All types and all precisions, for lists of choices and for loops in tests.
inline constexpr std::array all_dtypes{DType::float64, DType::float32, DType::float16, DType::bfloat16};
inline constexpr std::array all_precisions{Precision::float32,     Precision::float64,    Precision::bfloat16,
                                           Precision::tf32,        Precision::three_tf32, Precision::three_bfloat16,
                                           Precision::six_bfloat16};

/// The code that computes attention (kernels/attention.hpp).
enum class Backend { host, device, cudnn };
inline constexpr std::array all_backends{Backend::host, Backend::device, Backend::cudnn};

constexpr std::string_view name_of(Backend backend) {
  return backend == Backend::host ? "host" : backend == Backend::device ? "device" : "cudnn";
}

/// Returns why this back end cannot add in a fixed order, so that the bits of its sums depend on how the work is
/// divided; empty if it can.
constexpr std::string_view why_no_fixed_order(Backend backend) {
  return backend == Backend::cudnn ? "cuDNN adds in an order of its own" : "";
}

constexpr std::size_t bytes_of(DType type) { return type == DType::float64 ? 8 : type == DType::float32 ? 4 : 2; }
constexpr std::size_t bytes_of(Precision type) { return type == Precision::float64 ? 8 : 4; }
/// The storage type of sums.
constexpr DType type_of(Precision type) { return type == Precision::float64 ? DType::float64 : DType::float32; }

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::float64:
      return "float64";
    case DType::float32:
      return "float32";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
  }
  return "";
}
constexpr std::string_view name_of(Precision type) {
  switch (type) {
    case Precision::float64:
      return "float64";
    case Precision::float32:
      return "float32";
    case Precision::bfloat16:
      return "bfloat16";
    case Precision::tf32:
      return "tf32";
    case Precision::three_tf32:
      return "3xtf32";
    case Precision::three_bfloat16:
      return "3xbfloat16";
    case Precision::six_bfloat16:
      return "6xbfloat16";
  }
  return "";
}

/// True if the factors of products are TF32 numbers.
constexpr bool is_tf32(Precision precision) {
  return precision == Precision::tf32 || precision == Precision::three_tf32;
}

/// True if each factor of a product is the sum of several bfloat16 numbers (kernels/host/amx/split.hpp).
constexpr bool is_split(Precision precision) {
  return precision == Precision::three_bfloat16 || precision == Precision::six_bfloat16;
}

/// True if the factors of products have another type than the sums.
constexpr bool has_own_products(Precision precision) {
  return precision == Precision::bfloat16 || is_tf32(precision) || is_split(precision);
}

/// Returns why sums in this precision cannot be added in a fixed order, so that their bits depend on how the work is
/// divided; empty if they can. Some matrix units add a group of numbers in one step. The bits stay the same if work is
/// divided only between such groups.
constexpr std::string_view why_no_fixed_order(Precision precision) {
  return is_tf32(precision) ? "matrix units add products of TF32 in an order of their own" : "";
}

/// Returns the types in which tensors must be stored for a precision with has_own_products(), for messages. For tensors
/// of another type, either the products would lose digits, or another precision is as exact and faster. 3xbfloat16
/// takes float16, too, because a float16 number is exactly the sum of two bfloat16 numbers.
constexpr std::string_view stored_for_products(Precision precision) {
  return precision == Precision::bfloat16         ? "bfloat16"
         : precision == Precision::three_bfloat16 ? "float32 or float16"
                                                  : "float32";
}

/// True if this precision can be used for tensors that are stored in this type (stored_for_products()).
constexpr bool takes(Precision precision, DType stored) {
  if (!has_own_products(precision)) return true;
  if (precision == Precision::bfloat16) return stored == DType::bfloat16;
  return stored == DType::float32 || (precision == Precision::three_bfloat16 && stored == DType::float16);
}

/// Type of the log-sum-exp in memory and in files: float64 for float64 input, otherwise float32.
constexpr DType lse_type(DType input) { return input == DType::float64 ? DType::float64 : DType::float32; }

/// Returns the precision that `auto` means: float64 for float64 input; bfloat16 for bfloat16 input if the machines have
/// products of bfloat16; otherwise float32. kernels::default_precision() calls this function, but may choose 3xbfloat16
/// for float16 input.
constexpr Precision default_precision(DType input, bool bfloat16_products = false) {
  if (input == DType::bfloat16 && bfloat16_products) return Precision::bfloat16;
  return input == DType::float64 ? Precision::float64 : Precision::float32;
}

/// Ceiling of a / b for a >= 0, b > 0.
constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

}  // namespace annulus::core

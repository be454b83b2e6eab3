#include "annulus/strategies/stored_tensors.hpp"

#include "annulus/kernels/normalizer.hpp"

namespace annulus::strategies {

using core::StoredTensor;
using Entry = core::StoredTensorEntry;

Index rows_of(const Problem& problem, StoredTensor tensor) {
  return entry_of(tensor).rows == Entry::Rows::key ? problem.shape.sequence : problem.query_count();
}

pattern::StoredRows in_tensor(const Problem& problem, const pattern::StoredRows& queries) {
  if (!problem.queries) return queries;
  std::vector<core::Interval> rows;
  const Index first = problem.queries->begin;
  for (const core::Interval& held : queries.intervals()) rows.push_back({held.begin - first, held.end - first});
  return pattern::StoredRows(rows);
}

Index heads_of(const Problem& problem, StoredTensor tensor) {
  return entry_of(tensor).heads == Entry::Heads::key ? problem.shape.kv_heads : problem.shape.heads;
}

Index head_numbers_of(const Problem& problem, StoredTensor tensor) {
  switch (entry_of(tensor).numbers) {
    case Entry::Numbers::dim:
      return problem.shape.head_dim;
    case Entry::Numbers::value:
      return problem.shape.dim_of_values();
    case Entry::Numbers::normalizer:
      return kernels::normalizer_numbers;
    case Entry::Numbers::top:
      return problem.statistics.top_keys;
    case Entry::Numbers::one:
      break;
  }
  return 1;
}

std::optional<core::DType> memory_type_of(const Problem& problem, StoredTensor tensor) {
  switch (entry_of(tensor).type) {
    case Entry::Type::tensor:
      return problem.type;
    case Entry::Type::lse:
      return core::lse_type(problem.type);
    case Entry::Type::sum:
      return problem.sum_type();
    case Entry::Type::float64:
      return core::DType::float64;
    case Entry::Type::int64:
      break;
  }
  return std::nullopt;
}

Index number_bytes_of(const Problem& problem, StoredTensor tensor) {
  const std::optional<core::DType> type = memory_type_of(problem, tensor);
  return type ? Index(core::bytes_of(*type)) : Index(sizeof(std::int64_t));
}

}  // namespace annulus::strategies

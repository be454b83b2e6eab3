// Results of small attention problems by the definition, in memory. `verify` finds them right until a test spoils them.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "annulus/verify/forward.hpp"
#include "annulus/verify/verify.hpp"
#include "support/attention_case.hpp"

namespace annulus::verify {

using core::StoredTensor;

/// A tensor of a result, (B, S, heads, numbers).
struct Made {
  Index heads = 1, numbers = 1;
  Numbers values{};
};
using MadeResult = std::map<std::string, Made>;

class VerifyCase {
 public:
  explicit VerifyCase(strategies::Problem problem, std::uint64_t seed = 1, bool has_dlse = true)
      : problem_(std::move(problem)) {
    settings_.generate = runfile::GenerateSettings{problem_.shape, problem_.type, seed};
    if (has_dlse) settings_.dlse = "dlse";  // any name, because dlse is generated, too
    input_.emplace(problem_, settings_, std::nullopt);
  }

  const core::Shape& shape() const { return problem_.shape; }
  const AttentionInput& input() const { return *input_; }
  Index at(const Made& made, Index b, Index x, Index h, Index i) const {
    return ((b * shape().sequence + x) * made.heads + h) * made.numbers + i;
  }

  /// All results that the problem asks for, by the definition in float64.
  MadeResult make() const {
    const core::Shape& s = shape();
    const auto all = [&](StoredTensor tensor) { return input_->rows(tensor, {0, s.sequence}); };
    const auto forward = kernels::reference_forward(s, input_->pattern, all(StoredTensor::q), all(StoredTensor::k),
                                                    all(StoredTensor::v));
    MadeResult result{{"out", {s.heads, s.dim_of_values(), forward.out}}, {"lse", {s.heads, 1, forward.lse}}};
    if (problem_.gradients) {
      const auto d =
          kernels::reference_backward(s, input_->pattern, all(StoredTensor::q), all(StoredTensor::k),
                                      all(StoredTensor::v), all(StoredTensor::dout), all(StoredTensor::dlse));
      result["dq"] = {s.heads, s.head_dim, d.dq};
      result["dk"] = {s.kv_heads, s.head_dim, d.dk};
      result["dv"] = {s.kv_heads, s.dim_of_values(), d.dv};
    }
    if (problem_.statistics.any()) add_statistics(result);
    return result;
  }

  /// Collective.
  Findings verify(const MadeResult& made, const comm::Communicator& comm, Index rows) const {
    const ResultRows result = [&](const std::string& dataset, Interval wanted) {
      const Made& tensor = made.at(dataset);
      Numbers part;
      for (Index b = 0; b < shape().batch; ++b) {
        const auto first = tensor.values.begin();
        part.insert(part.end(), first + at(tensor, b, wanted.begin, 0, 0), first + at(tensor, b, wanted.end, 0, 0));
      }
      return part;
    };
    Sample sample{.result = result, .gradients = problem_.gradients, .rows = rows};
    sample.statistics = problem_.statistics;
    return verify_attention(*input_, sample, comm);
  }

 private:
  void add_statistics(MadeResult& result) const {
    const core::Shape& s = shape();
    const Index k = problem_.statistics.top_keys;
    const auto made = [&](Index numbers) {
      return Made{s.heads, numbers, Numbers(std::size_t(s.batch * s.sequence * s.heads * numbers))};
    };
    Made entropy = made(1), received = made(1), rows = made(k), weights = made(k);
    const Numbers keys = input_->rows(StoredTensor::k, {0, s.sequence});
    std::vector<Index> every(static_cast<std::size_t>(s.sequence));
    for (Index x = 0; x < s.sequence; ++x) every[std::size_t(x)] = x;
    for (const QueryRow& row : recompute_rows(*input_, every)) {
      entropy.values[std::size_t(at(entropy, row.b, row.x, row.h, 0))] = row.entropy;
      std::vector<std::pair<double, Index>> seen;  // (-P, p): the largest first, of equal ones the lowest row
      for (Index p = 0; p < s.sequence; ++p) {
        const Index key = ((row.b * s.sequence + p) * s.kv_heads + row.h / s.group()) * s.head_dim;
        const double weight = probability(*input_, row.h, row.x, p, row.q,
                                          std::span(keys).subspan(std::size_t(key), row.q.size()), row.lse)
                                  .p;
        received.values[std::size_t(at(received, row.b, p, row.h, 0))] += weight;
        if (weight > 0) seen.emplace_back(-weight, p);
      }
      std::sort(seen.begin(), seen.end());
      for (Index i = 0; i < k; ++i) {
        const bool is_there = i < Index(seen.size());
        const auto to = std::size_t(at(rows, row.b, row.x, row.h, i));
        rows.values[to] = is_there ? double(seen[std::size_t(i)].second) : -1;
        weights.values[to] = is_there ? -seen[std::size_t(i)].first : 0;
      }
    }
    result["entropy"] = entropy;
    result["received"] = received;
    result["top_rows"] = rows;
    result["top_weights"] = weights;
  }

  strategies::Problem problem_;
  runfile::InputSettings settings_;
  std::optional<AttentionInput> input_;
};

/// Names of the datasets that are wrong, in the order of the verdicts.
inline std::vector<std::string> wrong(const Findings& findings) {
  std::vector<std::string> names;
  for (const Verdict& verdict : findings.verdicts) {
    if (!verdict.good()) names.push_back(verdict.name);
  }
  return names;
}

inline const Verdict& verdict_on(const Findings& findings, const std::string& name) {
  return *std::find_if(findings.verdicts.begin(), findings.verdicts.end(),
                       [&](const Verdict& verdict) { return verdict.name == name; });
}

}  // namespace annulus::verify

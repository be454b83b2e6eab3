#include <fmt/format.h>

#include <algorithm>

#include "annulus/core/tolerance.hpp"
#include "annulus/store/layer_file.hpp"
#include "annulus/verify/gradients.hpp"
#include "annulus/verify/rows.hpp"
#include "annulus/verify/statistics.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::verify {

bool Findings::good() const {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.good(); });
}

double allowed(double (*tolerance)(core::DType), const VerifyInput& input, core::DType stored) {
  const core::DType sums = core::rounding_of(input.precision);
  return std::max({tolerance(input.type), tolerance(sums), tolerance(stored)});
}

namespace {

Numbers read_dsink(const store::InspectedFile& file, const comm::Communicator& comm) {
  const store::DatasetInfo& info = file.at("dsink");
  const store::Rectangle all{{0, info.extents.at(0)}, {0, 1}};
  std::vector<std::byte> numbers(std::size_t(all.count()) * bytes_of(info.type));
  store::read_parts(file, {{"dsink", all, all, numbers.data()}}, comm);
  return to_double(numbers, info.type);
}

}  // namespace

Findings verify_attention(const AttentionInput& input, const Sample& sample, const comm::Communicator& comm) {
  const SampledRows rows = sample_rows(input, sample.rows);
  const std::vector<Index> mine = own_share(rows.queries, comm.rank(), comm.size());
  const std::vector<Index> my_keys = own_share(rows.keys, comm.rank(), comm.size());
  const strategies::Statistics& told = sample.statistics;
  const KeySums sums{sample.gradients, told.received};
  const bool has_sums = sums.gradients || sums.received;
  const bool recompute = has_sums && comm.max(Index(!can_recompute_viewers(input, my_keys))) == 0;
  const Viewers viewers = recompute ? Viewers::recomputed : sample.file ? Viewers::from_result : Viewers::nowhere;
  ForwardDeviations forward;
  Deviation entropy, dq;
  TopDeviations top;
  KeyDeviations keys;
  const auto shown = [&](double from, double to, const char* what) -> ShareShown {
    return [&, from, to, what](double share) {
      if (sample.progress) sample.progress(from + (to - from) * share, what);
    };
  };
  comm::agree(comm, [&] {
    const double half = has_sums ? 0.5 : 1;  // these look at the keys, or the queries, about once more
    const std::vector<QueryRow> queries = recompute_rows(input, mine, shown(0, half, "out and lse"));
    forward = compare_forward(input, sample.result, queries);
    if (told.entropy) entropy = compare_entropy(input, sample.result, queries);
    if (told.top_keys > 0) top = compare_top(input, sample.result, queries, told.top_keys);
    if (sums.gradients) dq = compare_dq(input, sample.result, queries);
    if (has_sums)
      keys = compare_keys(input, sample.result, my_keys, sums, viewers, shown(half, 1, "sums over queries"));
  });

  const core::Shape& s = input.shape;
  Findings findings;
  const std::string of_queries = input.queries == s.sequence ? "rows"
                                 : has_sums ? fmt::format("queries and {} of {} keys", rows.keys.size(), s.sequence)
                                            : "queries";
  findings.scope =
      fmt::format("the definition in float64: {} of {} {}, all {} heads, {} batch entr{}", rows.queries.size(),
                  input.queries, of_queries, s.heads, s.batch, s.batch == 1 ? "y" : "ies");
  const auto add = [&](const char* name, double (*tolerance)(core::DType), const Deviation& deviation) {
    const core::DType stored = sample.stored(name, input.type);
    findings.verdicts.push_back({name, allowed(tolerance, input, stored), deviation.merged(comm)});
  };
  // Made of sums and stored in no 16 bits, whatever the tensors' type is.
  const auto add_statistic = [&](const char* name, const Deviation& deviation) {
    const core::DType stored = sample.stored(name, core::type_of(input.precision));
    const double tolerance =
        std::max(core::forward_tolerance(core::rounding_of(input.precision)), core::forward_tolerance(stored));
    findings.verdicts.push_back({name, tolerance, deviation.merged(comm)});
  };
  add("out", core::forward_tolerance, forward.out);
  add("lse", core::forward_tolerance, forward.lse);
  if (told.entropy) add_statistic("entropy", entropy);
  if (told.top_keys > 0) {
    add_statistic("top_rows", top.rows);
    add_statistic("top_weights", top.weights);
  }
  if (sums.gradients) add("dq", core::gradient_tolerance, dq);
  if (sums.gradients && sample.file != nullptr && !input.pattern.sink.empty()) {
    add("dsink", core::gradient_tolerance, compare_dsink(input, sample.result, read_dsink(*sample.file, comm), comm));
  }
  if (!has_sums) return findings;
  const char* const names = !sums.gradients ? "received" : sums.received ? "dk, dv, received" : "dk, dv";
  if (viewers == Viewers::nowhere) {
    findings.notes = {
        fmt::format("{} not looked at: to recompute the queries that see these keys is too much work", names)};
    return findings;
  }
  if (sums.gradients) add("dk", core::gradient_tolerance, keys.dk);
  if (sums.gradients) add("dv", core::gradient_tolerance, keys.dv);
  if (sums.received) add_statistic("received", keys.received);
  findings.notes = {
      fmt::format("{}: lse and out of the queries that see these keys {}", names,
                  recompute ? "recomputed, too" : "taken from the result; to recompute them is too much work")};
  return findings;
}

}  // namespace annulus::verify

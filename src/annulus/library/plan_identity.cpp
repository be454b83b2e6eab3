#include "annulus/library/plan_identity.hpp"

#include <algorithm>
#include <functional>

namespace annulus::library {
namespace {

Index hash_of(const std::string& text) { return Index(std::hash<std::string>{}(text) >> 1); }

/// Removes the first line from `text` and returns it.
std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

}  // namespace

std::string identity_of(const MadePlan& plan) {
  const strategies::Problem& p = plan.problem;
  std::string text;
  const auto add = [&](const char* name, const auto& value) { text += fmt::format("{} {}\n", name, value); };
  add("a plan for", fmt::format("{} ranks", plan.ranks));
  add("batch", p.shape.batch);
  add("sequence", p.shape.sequence);
  add("queries", p.queries ? fmt::format("{} from row {} on", p.query_count(), p.queries->begin) : "of all rows");
  std::vector<std::string> ranges;
  for (const core::Interval& one : p.key_ranges) ranges.push_back(fmt::format("[{}, {})", one.begin, one.end));
  add("keys", fmt::format("{}", fmt::join(ranges, " ")));
  add("heads", p.shape.heads);
  add("kv_heads", p.shape.kv_heads);
  add("head_dim", p.shape.head_dim);
  add("value_dim", p.shape.dim_of_values());
  add("type", core::name_of(p.type));
  std::vector<std::string> segments, dilations;
  for (const pattern::Pair& pair : p.pattern.pairs) {
    segments.push_back(pattern::segment_text(pair));
    dilations.push_back(std::to_string(pair.dilation));
  }
  add("segments", fmt::format("{}", fmt::join(segments, " ")));
  add("dilations", fmt::format("{}", fmt::join(dilations, " ")));
  add("causal", p.pattern.causal);
  add("semantics", pattern::name_of(p.pattern.semantics));
  add("group_scale", p.pattern.group_scale);
  add("scale", p.scale);  // {} prints all digits of a double
  add("documents", fmt::format("at {} offsets, of fingerprint {:x}", p.documents.size(),
                               hash_of(fmt::format("{} without {}", fmt::join(p.documents, " "),
                                                   fmt::join(p.documents.gaps, " ")))));
  add("softcap", p.rule.cap);
  add("bias", fmt::format("of slopes {}, {} rows exempt", fmt::join(p.rule.slopes, " "), p.rule.exempt));
  const std::vector<double> none;
  const std::vector<double>& coordinates = p.rule.coordinates ? p.rule.coordinates->numbers() : none;
  add("coordinates", fmt::format("of fingerprint {:x}", hash_of({reinterpret_cast<const char*>(coordinates.data()),
                                                                 coordinates.size() * sizeof(double)})));
  add("sink logits", p.sink);
  add("strategy", plan.strategy_name);
  add("partition", plan.partition_name);
  add("block_size", p.block_size);
  add("ulysses_ranks", p.ulysses_ranks);
  add("precision", core::name_of(p.precision));
  add("reproducible", p.reproducible);
  add("a granule", fmt::format("of {} rows", p.granule));
  add("gradients", p.gradients);
  add("entropy", p.statistics.entropy);
  add("received", p.statistics.received);
  add("top_keys", p.statistics.top_keys);
  return text;
}

std::pair<std::string_view, std::string_view> first_difference(std::string_view a, std::string_view b) {
  for (;;) {
    const std::string_view of_a = next_line(a), of_b = next_line(b);
    if (of_a != of_b || (a.empty() && b.empty())) return {of_a, of_b};
  }
}

void check_same(const char* pass, const std::string& identity, const comm::Communicator& comm) {
  const Index mine = hash_of(identity);
  if (comm.max(mine) == -comm.max(-mine)) return;
  const std::vector<std::string> all = comm.gather_all(identity);
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != all.front(); });
  const auto [theirs, first] = first_difference(*other, all.front());
  throw comm::AgreedError(ErrorKind::usage,
                          fmt::format("{}: rank {} has {}, rank 0 has {}; expected the same on every rank", pass,
                                      other - all.begin(), theirs, first));
}

}  // namespace annulus::library

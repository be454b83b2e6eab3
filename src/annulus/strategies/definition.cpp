#include "annulus/strategies/definition.hpp"

namespace annulus::strategies {

kernels::ReferencePattern reference_pattern(const Problem& problem) {
  using kernels::ReferenceSemantics;
  kernels::ReferencePattern reference;
  switch (problem.pattern.semantics) {
    case pattern::Semantics::longnet:
      reference.semantics = ReferenceSemantics::longnet;
      break;
    case pattern::Semantics::paper:
      reference.semantics = ReferenceSemantics::paper;
      break;
    case pattern::Semantics::grouped:
      reference.semantics = ReferenceSemantics::grouped;
      break;
    case pattern::Semantics::torchscale:
      reference.semantics = ReferenceSemantics::torchscale;
      break;
  }
  reference.pairs.clear();
  for (const pattern::Pair& pair : problem.pattern.pairs) {
    const bool all = pair.segment == pattern::whole_document;
    reference.pairs.push_back({all ? kernels::whole_document : pair.segment, pair.dilation});
    if (pair.window) reference.pairs.back().window = {pair.window->left, pair.window->right, pair.window->first};
  }
  reference.causal = problem.pattern.causal;
  reference.group_scale = problem.pattern.group_scale;
  reference.scale = problem.scale;
  pattern::Documents documents = problem.key_documents();
  if (!problem.key_ranges.empty()) {  // the keys of all entries, entry after entry; other rows are gaps
    const Index rows = problem.shape.sequence;
    std::vector<core::Interval> ranges;
    for (const core::Interval& one : problem.key_ranges)
      ranges.push_back({Index(ranges.size()) * rows + one.begin, Index(ranges.size()) * rows + one.end});
    documents = pattern::documents_at(ranges, Index(ranges.size()) * rows);
  }
  reference.documents.assign(documents.begin(), documents.end());
  reference.softcap = problem.rule.cap;
  reference.slopes = problem.rule.slopes;
  reference.exempt = problem.rule.exempt;
  if (problem.rule.coordinates) reference.coordinates = problem.rule.coordinates->numbers();
  reference.gaps = documents.gaps;
  return reference;
}

}  // namespace annulus::strategies

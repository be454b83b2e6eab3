#include "annulus/strategies/backward_loop.hpp"

#include <algorithm>

namespace annulus::strategies {
namespace {

/// One round over all steps.
class Round {
 public:
  Round(const Problem& round, const Setting& setting, KeySource& keys, GradientSink& sums,
        BackwardComputation& computation)
      : round_(round), setting_(setting), keys_(keys), sums_(sums), computation_(computation) {}

  void run() {
    const std::size_t steps = std::max(keys_.steps(), sums_.steps());
    for (std::size_t s = 0; s < steps; ++s) {
      keys_.start(s);
      sums_.start(s);
      for (std::size_t lane = 0; lane < keys_.lanes(); ++lane) {
        const std::optional<GradientBlock> into = sums_.open(s, lane);
        if (into) add(s, lane, *into, s == 0 ? round_.first_part() : core::Mask::all);
        sums_.leave(s, lane);
      }
      keys_.complete(s);
      sums_.complete(s);
    }
    for (std::size_t lane = 0; lane < keys_.lanes(); ++lane) {
      sums_.settle(lane);
      if (round_.has_last_part()) add(0, lane, computation_.own(), core::Mask::after);
    }
  }

 private:
  void add(std::size_t s, std::size_t lane, const GradientBlock& into, core::Mask part) {
    const KeyBlock* block = s < keys_.steps() ? keys_.block(s, lane) : nullptr;
    if (block == nullptr) return;
    computation_.add(*block, into, part, keys_.place(s), setting_.hop(keys_.hop(s)), [this] {
      keys_.progress();
      sums_.progress();
    });
  }

  const Problem& round_;
  const Setting& setting_;
  KeySource& keys_;
  GradientSink& sums_;
  BackwardComputation& computation_;
};

}  // namespace

void run_backward(const BackwardPass& pass, const Setting& setting, BackwardComputation& computation,
                  const std::function<void()>& make_results) {
  const std::unique_ptr<KeySource> keys = pass.keys(setting);
  const std::unique_ptr<GradientSink> sums = pass.sums(setting, *keys);
  for (const Problem& round : passes(setting.problem)) {
    computation.begin(round);
    keys->begin(round);
    setting.metrics.hops.resize(std::max(setting.metrics.hops.size(), keys->hops()));
    sums->begin(round, computation.own());
    Round(round, setting, *keys, *sums, computation).run();
  }
  keys->finish();
  sums->finish();
  make_results();
  sums->close();
  keys->close();
}

}  // namespace annulus::strategies

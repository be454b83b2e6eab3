#include "annulus/strategies/backward_loop.hpp"

#include <algorithm>

namespace annulus::strategies {
namespace {

/// All steps of one round.
class Round {
 public:
  Round(const KeyRound& round, const PassContext& context, KeySource& keys, GradientSink& sums,
        SumComputation& computation)
      : round_(round), context_(context), keys_(keys), sums_(sums), computation_(computation) {}

  void run(std::size_t sum_steps) {
    const std::size_t steps = std::max(round_.steps(context_.rank()), sum_steps);
    const bool has_last_part = round_.problem().has_last_part();
    const core::Band first_part = round_.problem().first_part();
    for (std::size_t s = 0; s < steps; ++s) {
      const core::Span step("step", core::SpanKind::step, Index(s));
      keys_.start(s);
      sums_.start(s);
      for (std::size_t channel = 0; channel < round_.channels(); ++channel) {
        const std::optional<GradientBlock> into = sums_.open(s, channel);
        if (into) add(s, channel, *into, s == 0 ? first_part : core::Band::all);
        sums_.leave(s, channel);
      }
      keys_.complete(s);
      sums_.complete(s);
    }
    for (std::size_t channel = 0; channel < round_.channels(); ++channel) {
      sums_.settle(channel);
      if (has_last_part) add(0, channel, computation_.own(), core::Band::after);
    }
  }

 private:
  void add(std::size_t s, std::size_t channel, const GradientBlock& into, core::Band part) {
    const KeyBlock* block = s < round_.steps(context_.rank()) ? keys_.block(s, channel) : nullptr;
    if (block == nullptr) return;
    computation_.add(*block, keys_.queries(s, channel), into, part, keys_.scope(s), context_.hop(keys_.hop(s)), [this] {
      keys_.progress();
      sums_.progress();
    });
  }

  const KeyRound& round_;
  const PassContext& context_;
  KeySource& keys_;
  GradientSink& sums_;
  SumComputation& computation_;
};

}  // namespace

void run_backward(const Schedule& schedule, const PassContext& context, SumComputation& computation,
                  const std::function<void()>& make_results) {
  const std::unique_ptr<KeySource> keys = schedule.keys().source(context);
  const std::unique_ptr<GradientSink> sums = schedule.sums()->sink(context);
  for (std::size_t r = 0; r < schedule.rounds().size(); ++r) {
    const KeyRound& round = schedule.keys().round(r);
    computation.begin(round.problem());
    if (r > 0) sums->finish();  // before this round's keys take memory, as predict() assumes
    keys->begin(r);
    context.metrics.hops.resize(std::max(context.metrics.hops.size(), round.hops(context.rank())));
    sums->begin(r, computation.own());
    Round(round, context, *keys, *sums, computation).run(schedule.sums()->round(r).steps(context.rank()));
  }
  keys->finish();
  sums->finish();
  make_results();
  sums->close();
  keys->close();
}

}  // namespace annulus::strategies

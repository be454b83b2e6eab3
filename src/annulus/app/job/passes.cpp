#include "annulus/app/job/passes.hpp"

namespace annulus::app {

std::vector<PassKind> passes_of(const strategies::Problem& problem) {
  std::vector<PassKind> all{PassKind::forward};
  if (problem.statistics.need_pass()) all.push_back(PassKind::statistics);
  if (problem.gradients) all.push_back(PassKind::backward);
  return all;
}

std::unique_ptr<const strategies::Schedule> schedule_of(const Job& job, PassKind pass) {
  switch (pass) {
    case PassKind::forward:
      return job.strategy->forward_schedule(job.problem, job.partition);
    case PassKind::statistics:
      return job.strategy->statistics_schedule(job.problem, job.partition);
    case PassKind::backward:
      return job.strategy->backward_schedule(job.problem, job.partition);
  }
  return nullptr;
}

}  // namespace annulus::app

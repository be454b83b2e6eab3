#include "annulus/app/bench/share.hpp"

#include <algorithm>
#include <cstdlib>

#include "annulus/core/error.hpp"
#include "annulus/runfile/numbers.hpp"

namespace annulus::app {

ArrayTask array_task(const std::function<const char*(const char*)>& variable) {
  const auto number = [&](const char* name) -> std::optional<Index> {
    const char* text = variable(name);
    return text == nullptr ? std::nullopt : runfile::parse_whole(text, {0, INT64_MAX}).number;
  };
  const auto id = number("SLURM_ARRAY_TASK_ID"), count = number("SLURM_ARRAY_TASK_COUNT");
  if (!id || !count || *count < 1) return {};
  const Index least = number("SLURM_ARRAY_TASK_MIN").value_or(0);
  const Index step = std::max<Index>(1, number("SLURM_ARRAY_TASK_STEP").value_or(1));
  const ArrayTask task{(*id - least) / step, *count};
  if (*id < least || (*id - least) % step != 0 || task.number >= task.count) {
    core::fail(core::ErrorKind::usage,
               "bench: task {} of a job array of {} tasks from {} on (SLURM_ARRAY_TASK_ID, _COUNT, _MIN) has no place "
               "among them; expected a range: sbatch --array=0-{}",
               *id, *count, least, *count - 1);
  }
  return task;
}

ArrayTask array_task() {
  return array_task([](const char* name) -> const char* { return std::getenv(name); });
}

bool belongs(const runfile::BenchCase& one, const BenchLaunch& launch) {
  const auto suits = [&](const char* word, Index number) {
    const runfile::SweptValue* asked = one.find(word);
    return asked == nullptr || asked->text == std::to_string(number);
  };
  return one.number % launch.task.count == launch.task.number && suits(runfile::ranks_word, launch.ranks) &&
         suits(runfile::threads_word, launch.threads);
}

}  // namespace annulus::app

// From a run file to a job: what is asked for, the strategy, and who holds which rows.
#pragma once

#include "annulus/app/job/request.hpp"
#include "annulus/planner/choose.hpp"

namespace annulus::app {

/// A request with all that is decided about it for a number of ranks.
struct Job : Request {
  explicit Job(Request request) : Request(std::move(request)) {}

  int ranks = 1;
  core::Machine machine;                  ///< that `auto` goes by
  std::optional<planner::Choice> choice;  ///< of `auto`, with its reason; empty: the run file names a strategy
  const strategies::Strategy* strategy = nullptr;
  pattern::Partition partition;
  std::string lesser_tiles;  ///< why some rank could use a better instruction set than it does; empty: none could
};

/// What a job is made of.
struct Asked {
  RunFileWords words;
  Purpose purpose = Purpose::run;
  std::optional<int> ranks{};            ///< empty: those that were launched
  std::optional<std::string> machine{};  ///< a machine file; empty: that of the run file, or the available nodes
};

/// The one way to a job, for every verb that computes or plans; collective. Throws the same Error on every rank, as
/// read_request(); usage where the strategy cannot do what is asked.
Job make_job(const Asked& asked, const comm::Communicator& comm);

}  // namespace annulus::app

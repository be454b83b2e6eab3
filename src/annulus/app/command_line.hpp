// The command line: words in, options of one verb out.
#pragma once

#include <string>

#include "annulus/app/verbs/generate.hpp"
#include "annulus/app/verbs/plan.hpp"
#include "annulus/app/verbs/run.hpp"
#include "annulus/app/verbs/train.hpp"
#include "annulus/app/verbs/verify.hpp"

namespace annulus::app {

struct CommandLine {
  std::string verb;  ///< empty: help was given, or a mistake named, and the program ends with `status`
  int status = 0;
  RunOptions run;
  GenerateOptions generate;
  VerifyOptions verify;
  PlanOptions plan;
  TrainOptions train;
};

/// Every rank parses the same words and comes to the same end; the one that `speaks` prints help on stdout and
/// complaints on stderr.
CommandLine parse_command_line(int argc, char** argv, bool speaks);

}  // namespace annulus::app

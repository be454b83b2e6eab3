#include "annulus/app/job/instruction_set.hpp"

#include <algorithm>
#include <cstdlib>

#include "annulus/core/instruction_set.hpp"

namespace annulus::app {
namespace {

using core::InstructionSet;

void obey_variable() {
  const char* const name = std::getenv(instruction_set_variable);
  if (name == nullptr || *name == '\0') return;
  const auto set = core::instruction_set_called(name);
  if (!set) {
    core::fail(core::ErrorKind::usage,
               "the environment variable {} is '{}', expected baseline, avx2, avx512, avx512_bf16 or amx",
               instruction_set_variable, name);
  }
  core::limit_instruction_set(*set);
}

}  // namespace

std::string agree_on_instruction_set(const comm::Communicator& comm) {
  comm::agree(comm, obey_variable);
  const std::vector<core::Index> sets = comm.gather_all(core::Index(core::best_instruction_set()));
  const auto least = std::min_element(sets.begin(), sets.end()), most = std::max_element(sets.begin(), sets.end());
  core::limit_instruction_set(InstructionSet(*least));
  if (*least == *most) return "";
  return fmt::format("rank {} has no {}", least - sets.begin(), core::name_of(InstructionSet(*most)));
}

}  // namespace annulus::app

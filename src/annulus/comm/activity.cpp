#include "annulus/comm/activity.hpp"

#include "annulus/comm/record.hpp"
#include "annulus/core/timeline.hpp"

namespace annulus::comm {

Scope::Scope(std::string name) { record().push_scope(std::move(name)); }
Scope::~Scope() { record().pop_scope(); }

BlockingScope::BlockingScope(std::string what) : before_(record().begin(Doing::blocked, std::move(what))) {}
BlockingScope::~BlockingScope() {
  const Doing call = record().go_back(std::move(before_));
  core::note_call(call.what, call.since);
}

}  // namespace annulus::comm

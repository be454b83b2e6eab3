#include "annulus/comm/activity.hpp"

#include "annulus/comm/record.hpp"

namespace annulus::comm {

Place::Place(std::string name) { record().push_scope(std::move(name)); }
Place::~Place() { record().pop_scope(); }

Blocked::Blocked(std::string what) : before_(record().begin(Doing::blocked, std::move(what))) {}
Blocked::~Blocked() { record().go_back(std::move(before_)); }

}  // namespace annulus::comm

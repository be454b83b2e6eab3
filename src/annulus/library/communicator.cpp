#include "annulus/library/communicator.hpp"

#include "annulus/comm/communicator.hpp"
#include "annulus/core/instruction_set.hpp"

namespace annulus {

Communicator::Communicator() : inner_(std::make_shared<comm::Communicator>()) {}

#if ANNULUS_HAS_MPI
Communicator::Communicator(MPI_Comm parent) : inner_(std::make_shared<comm::Communicator>(parent)) {
  core::Index best = 0;
  comm::agree(*inner_, [&] { best = core::Index(core::best_instruction_set()); });
  core::limit_instruction_set(core::InstructionSet(-inner_->max(-best)));
}
#endif

int Communicator::rank() const { return inner_->rank(); }
int Communicator::size() const { return inner_->size(); }
bool Communicator::is_interrupted() const { return inner_->is_abandoned(); }
void Communicator::interrupt() const { inner_->abandon(); }

}  // namespace annulus

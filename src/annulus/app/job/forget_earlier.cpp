// `annulus run --restart`: removes what an earlier launch has left of an output.
#include <unistd.h>

#include "annulus/app/job/long_run.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/inspected_file.hpp"

namespace annulus::app {
namespace {

using core::ErrorKind;
using core::fail;

/// Removes the part file of a journal that will be removed. The file must have the inode that the journal's layout
/// records or, if the journal has no valid layout, the journal must say that a launch was making a part file.
void forget_part(const store::Journal& journal, const std::string& part) {
  if (!store::is_taken(part)) return;
  bool is_its = journal.is_making();
  try {
    is_its = store::state_of(part).inode == store::PartLayout::parse(journal.part(), journal.path()).inode;
  } catch (const core::Error&) {
  }
  if (is_its) unlink(part.c_str());
}

}  // namespace

void forget_earlier(const Request& request, const comm::Communicator& comm) {
  comm::on_root(comm, [&] {
    const RunPaths paths(request);
    store::check_can_be_made(paths.result, request.run.settings.output.overwrite);
    const comm::BlockingScope inside("the removal of " + paths.journal);
    std::optional<store::Journal> journal = store::Journal::find(paths.journal);
    if (!journal || journal->head() == store::whole_head) return;
    const store::Journal::Lock lock(*journal);  // while the journal is locked, no other launch can begin or continue
    if (const auto worker = journal->worker()) {
      fail(ErrorKind::failure, "{}: --restart would take the run away from {}, which works on it{}", paths.journal,
           *worker, journal->if_gone(paths.part));
    }
    forget_part(*journal, paths.part);
    journal->remove();
  });
}

}  // namespace annulus::app

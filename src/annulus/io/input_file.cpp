#include "annulus/io/input_file.hpp"

#include "annulus/comm/watchdog.hpp"

namespace annulus::io {

void InputFile::read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows,
                     const comm::Communicator& comm) const {
  const comm::Scope scope("reading " + file_.path);
  comm::agree(comm, [&] {
    for (const RowsIn& tensor : tensors) read_rows(file_, tensor, rows);
  });
}

}  // namespace annulus::io

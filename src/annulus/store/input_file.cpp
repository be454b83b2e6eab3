#include "annulus/store/input_file.hpp"

#include "annulus/comm/watchdog.hpp"
#include "annulus/store/finite.hpp"

namespace annulus::store {

void InputFile::read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows,
                     const comm::Communicator& comm) const {
  const comm::Scope scope("reading " + file_.path);
  comm::agree(comm, [&] {
    for (const RowsIn& tensor : tensors) read_rows(file_, tensor, rows, Wanted::any_numbers);
  });
  for (const RowsIn& tensor : tensors) {
    const DatasetInfo& info = file_.at(tensor.dataset);
    Index count = 0;
    for (const core::Interval& interval : rows) count += interval.size();
    for (std::size_t axis = file_.is_end_to_end ? 1 : 0; axis < info.extents.size(); ++axis) {
      count *= axis == sequence_axis(info.order) ? 1 : info.extents[axis];
    }
    check_finite(fmt::format("{}: dataset {}", file_.path, tensor.dataset),
                 find_non_finite(tensor.host, *info.type.dtype(), count, file_.missing_after_reading(info)), rows, info,
                 comm);
  }
}

}  // namespace annulus::store

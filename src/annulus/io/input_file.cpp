#include "annulus/io/input_file.hpp"

#include "annulus/io/finite.hpp"

namespace annulus::io {

void InputFile::read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows,
                     const comm::Communicator& comm, Index piece_bytes) const {
  transfer_rows(file_, Direction::read, tensors, rows, comm, piece_bytes);
  for (const RowsIn& tensor : tensors) {
    const DatasetInfo& info = file_.at(tensor.dataset);
    Index count = 0;
    for (const core::Interval& interval : rows) count += interval.size();
    for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
      count *= axis == sequence_axis(info.order) ? 1 : info.extents[axis];
    }
    check_finite(fmt::format("{}: dataset {}", file_.path, tensor.dataset),
                 find_non_finite(tensor.host, *info.type.dtype(), count), rows, info, comm);
  }
}

}  // namespace annulus::io

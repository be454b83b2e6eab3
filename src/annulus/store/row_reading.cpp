#include "annulus/store/row_reading.hpp"

#include <cstdlib>
#include <set>
#include <sstream>

#include "annulus/comm/root.hpp"
#include "annulus/core/print.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/hdf5/dataset_storage.hpp"

namespace annulus::store {
namespace {

using core::Interval;

/// Reads pieces. If another program has changed the file, the error says so, also if reading has failed.
void read(const InspectedFile& file, const std::string& dataset, const std::vector<core::RowPiece>& pieces,
          Wanted wanted) {
  core::RowTraffic traffic;
  while_unchanged(file, [&] {
    RowOrigin from = origin_of(file, dataset);
    allow(from, wanted);
    read_rows(from, pieces, traffic);
  });
}

/// Prints a warning, unless `text` is empty. Prints each text only once, because every case of `annulus bench` looks at
/// the input again.
void warn_once(const std::string& text) {
  static std::set<std::string> said;
  if (!text.empty() && said.insert(text).second) core::print_to_stderr("annulus: warning: {}\n", text);
}

}  // namespace

std::vector<core::RowPiece> pieces_of(Interval batch, const std::vector<Interval>& rows, Interval heads,
                                      Index head_numbers, Index number_bytes, const void* memory, Index apart) {
  const Index head_pitch = apart > 0 ? apart : head_numbers * number_bytes, pitch = heads.size() * head_pitch;
  // A RowPiece serves to read and to write, so its memory is not const.
  auto* at = static_cast<std::byte*>(const_cast<void*>(memory));
  std::vector<core::RowPiece> pieces;
  for (Index b = batch.begin; b < batch.end; ++b) {
    for (const Interval& interval : rows) {
      pieces.push_back({b, interval.begin, 1, interval.size(), heads, at, pitch, head_pitch});
      at += interval.size() * pitch;
    }
  }
  return pieces;
}

void read_rows(const InspectedFile& file, const RowsIn& tensor, const std::vector<Interval>& rows, Wanted wanted) {
  const RowLayout layout = layout_of(file, tensor.dataset);
  read(file, tensor.dataset,
       pieces_of({0, file.is_end_to_end ? 1 : layout.extents[0]}, rows, {0, layout.heads()}, layout.head_numbers(),
                 layout.number_bytes(), tensor.host),
       wanted);
}

void read_part(const InspectedFile& file, const MatrixPart& part, Wanted wanted) {
  if (part.part.count() == 0) return;
  read(file, part.dataset, {piece_of(part, layout_of(file, part.dataset).number_bytes())}, wanted);
}

void look_at_storage(InspectedFile& file, const runfile::InputSettings& input, const comm::Communicator& comm) {
  // The text has a line for each dataset: its offset, then attribute and value of each number that means "missing".
  // After these lines come the names of the other files, separated by '\0', which no name contains.
  std::istringstream lines(comm::from_root(comm, [&] {
    const FileId open = open_alone(file.path, false);
    std::string text;
    std::set<std::string> others;
    for (const auto& name : {input.sink, input.documents, input.lengths, input.coordinates}) {
      const bool may_be_unread = name == input.coordinates && !file.left_out.empty();  // only coordinates have rows
      if (name) warn_once(add_other_files(open, file.path, *name, others, may_be_unread));
    }
    for (const auto& [name, info] : file.datasets) {
      const std::string where = fmt::format("{}: dataset {}", file.path, name);
      const DatasetId dataset = open_dataset(open, file.path, name);
      text += fmt::format("{}", offset_of(dataset, file.path, where, info.type));
      for (const MissingValue& one : missing_values_of(dataset, where))
        text += fmt::format(" {} {:a}", one.attribute, one.value);
      text += '\n';
      warn_once(add_other_files(open, file.path, name, others, file.has_left_out(info)));
    }
    return text + fmt::format("{}", fmt::join(others, std::string_view("\0", 1)));
  }));
  for (auto& [name, info] : file.datasets) {
    std::string line, value;
    std::getline(lines, line);
    std::istringstream words(line);
    words >> info.offset;
    for (MissingValue one; words >> one.attribute >> value;)
      info.missing.push_back({one.attribute, std::strtod(value.c_str(), nullptr)});
  }
  for (std::string other; std::getline(lines, other, '\0');) file.others[other] = agreed_state(other, comm);
}

std::vector<std::string> filter_plugins_of(const InspectedFile& file) {
  std::set<std::string> found;
  const FileId open = open_alone(file.path, false);
  for (const auto& [name, info] : file.datasets) found.merge(plugins_of(open_dataset(open, file.path, name)));
  return {found.begin(), found.end()};
}

}  // namespace annulus::store

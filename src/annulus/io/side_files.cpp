#include "annulus/io/side_files.hpp"

#include <algorithm>

#include "annulus/core/unfinished_files.hpp"

namespace annulus::io {

SideFiles::SideFiles(const std::string& file, int rank)
    : noted_{core::note_unfinished_file(file + ".data." + std::to_string(rank), core::any_file),
             core::note_unfinished_file(file + ".metadata." + std::to_string(rank), core::any_file)} {}

SideFiles::~SideFiles() {
  for (const int number : noted_) core::forget_unfinished_file(number);
}

bool is_side_file(const std::string& end) {
  for (const std::string front : {".data.", ".metadata."}) {
    const bool is_number =
        end.size() > front.size() &&
        std::all_of(end.begin() + std::ptrdiff_t(front.size()), end.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (end.starts_with(front) && is_number) return true;
  }
  return false;
}

}  // namespace annulus::io

#include "annulus/store/unit_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "annulus/core/error.hpp"
#include "annulus/store/fingerprint.hpp"

namespace annulus::store {

void UnitCheck::add(const RowLayout& layout, const std::vector<core::RowPiece>& more) {
  for (const core::RowPiece& piece : more) {
    for (const core::RowPiece& one : in_entries(piece, layout.extents[1])) {
      core::RowPiece* const last = pieces.empty() ? nullptr : &pieces.back();
      const bool joins = last != nullptr && last->batch == one.batch && last->heads == one.heads && last->stride == 1 &&
                         one.stride == 1 && last->first + last->count == one.first;
      if (joins) {
        last->count += one.count;
      } else {
        pieces.push_back({one.batch, one.first, one.stride, one.count, one.heads});
      }
    }
  }
}

void UnitCheck::add_bytes(const RowLayout& layout, Index begin, const std::byte* bytes, Index count) {
  sum += fingerprint_at(begin, bytes, count, layout.head_numbers() * layout.number_bytes());
}

namespace {

/// Finds the smallest range of entries, of rows and of heads that contain all pieces. Returns one piece for each entry.
std::vector<core::RowPiece> box_of(const std::vector<core::RowPiece>& pieces) {
  core::Interval entries{INT64_MAX, 0}, rows = entries, heads = entries;
  const auto include = [](core::Interval one, core::Interval& all) {
    all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
  };
  for (const core::RowPiece& piece : pieces) {
    if (piece.count == 0) continue;
    include({piece.batch, piece.batch + 1}, entries);
    include({piece.first, piece.first + (piece.count - 1) * piece.stride + 1}, rows);
    include(piece.heads, heads);
  }
  std::vector<core::RowPiece> box;
  for (Index b = entries.begin; b < entries.end; ++b) box.push_back({b, rows.begin, 1, rows.size(), heads});
  return box;
}

}  // namespace

// Ranks may have written different datasets, so they exchange names, too.
UnitChecks together(const UnitChecks& here, const comm::Communicator& comm) {
  UnitChecks own, all;
  for (const auto& [dataset, check] : here) own[dataset] = {box_of(check.pieces), check.sum};
  for (const std::string& text : comm.gather_all(text_of(own))) {
    for (const auto& [dataset, check] : parse_checks(text)) {
      UnitCheck& sum = all[dataset];
      sum.pieces.insert(sum.pieces.end(), check.pieces.begin(), check.pieces.end());
      sum.sum += check.sum;
    }
  }
  for (auto& [dataset, check] : all) check.pieces = box_of(check.pieces);
  return all;
}

std::string text_of(const UnitChecks& checks) {
  std::string text;
  for (const auto& [dataset, check] : checks) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : " ", dataset, check.sum, check.pieces.size());
    for (const core::RowPiece& one : check.pieces) {
      text += fmt::format(" {} {} {} {} {} {}", one.batch, one.first, one.stride, one.count, one.heads.begin,
                          one.heads.end);
    }
  }
  return text;
}

UnitChecks parse_checks(const std::string& text) {
  UnitChecks checks;
  std::istringstream words(text);
  for (std::string dataset; words >> dataset;) {
    UnitCheck& check = checks[dataset];
    Index pieces = 0;
    words >> check.sum >> pieces;
    for (Index i = 0; i < pieces && words; ++i) {
      core::RowPiece& one = check.pieces.emplace_back();
      words >> one.batch >> one.first >> one.stride >> one.count >> one.heads.begin >> one.heads.end;
    }
    if (!words) core::fail(core::ErrorKind::failure, "the journal's checksums of a unit are damaged: {}", text);
  }
  return checks;
}

}  // namespace annulus::store

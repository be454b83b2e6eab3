#include "annulus/strategies/stored_read.hpp"

#include <utility>

namespace annulus::strategies {

std::vector<core::RowPiece> row_pieces(const StoredRowsOf& from, const pattern::StoredRows& rows, void* memory) {
  std::vector<core::RowPiece> pieces;
  Index stored = 0;
  for (const core::Interval& interval : rows.intervals()) {
    core::RowPiece* last = pieces.empty() ? nullptr : &pieces.back();
    const Index next = last == nullptr ? 0 : last->first + last->count * last->stride;  // the row that continues `last`
    const bool joins = last != nullptr && interval.size() == 1 && (last->count == 1 || interval.begin == next);
    if (joins) {
      if (last->count == 1) last->stride = interval.begin - last->first;
      last->count += 1;
    } else {
      pieces.push_back({from.entry,
                        interval.begin,
                        1,
                        interval.size(),
                        {0, from.heads},
                        static_cast<std::byte*>(memory) + stored * from.row_bytes(),
                        from.row_bytes(),
                        from.head_bytes});
    }
    stored += interval.size();
  }
  return pieces;
}

std::vector<core::RowPiece> head_pieces(const StoredRowsOf& from, const pattern::PackedRows& packed, void* memory) {
  std::vector<core::RowPiece> pieces;
  Index stored = 0;
  for (const pattern::OwnerInterval& owned : packed) {
    const Index heads = Index(owned.heads.size());
    for (Index kv = 0, end = 0; kv < heads; kv = end) {
      const std::vector<pattern::StridedRange>& ranges = owned.heads[std::size_t(kv)];
      for (end = kv + 1; end < heads && owned.heads[std::size_t(end)] == ranges;) ++end;
      const Index each = pattern::row_count(ranges);
      Index at = stored;
      for (const pattern::StridedRange& range : ranges) {
        pieces.push_back({from.entry,
                          range.first,
                          range.count > 1 ? range.stride : 1,
                          range.count,
                          {kv, end},
                          static_cast<std::byte*>(memory) + at * from.head_bytes,
                          from.head_bytes,
                          each * from.head_bytes});
        at += range.count;
      }
      stored += (end - kv) * each;
    }
  }
  return pieces;
}

StoredRead::~StoredRead() {
  for (const core::RowSource::Ticket ticket : pending_) {
    try {
      source_->wait(ticket);
    } catch (...) {  // this error was reported before, or another one is unwinding
    }
  }
}

std::byte* StoredRead::open(core::RowSource& source, void* memory, Index bytes) {
  source_ = &source;
  memory_ = memory;
  bytes_ = bytes;
  if (core::device_is_host()) return static_cast<std::byte*>(memory);
  staging_.resize(std::size_t(bytes));
  return staging_.data();
}

void StoredRead::start(core::StoredTensor tensor, std::vector<core::RowPiece> pieces) {
  if (!pieces.empty()) pending_.push_back(source_->start(tensor, std::move(pieces)));
}

void StoredRead::wait() {
  for (const core::RowSource::Ticket ticket : pending_) source_->wait(ticket);
  pending_.clear();
  if (!staging_.empty()) core::copy_to_device(memory_, staging_.data(), bytes_);
}

void write_rows(core::RowSink& sink, const StoredRowsOf& to, const pattern::StoredRows& rows, const core::Buffer& from,
                Index first) {
  const Index bytes = rows.count() * to.row_bytes();
  if (bytes == 0) return;
  if (core::device_is_host()) return sink.write(to.tensor, row_pieces(to, rows, from.at(first)));
  std::vector<std::byte> staging(static_cast<std::size_t>(bytes));
  core::copy_to_host(staging.data(), from.at(first), bytes);
  sink.write(to.tensor, row_pieces(to, rows, staging.data()));
}

}  // namespace annulus::strategies

#include "annulus/store/shared_blocks.hpp"

#include <algorithm>
#include <cstring>

#include "annulus/comm/byte_messages.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::store {
namespace {

using core::Interval;

constexpr Index bytes_at_root = Index(1) << 20;      // rank 0 alone writes a dataset with fewer bytes per rank
constexpr Index received_at_once = Index(64) << 20;  // bytes that a rank receives in one round from all others together

/// Consecutive bytes of the file that another rank writes for this rank.
struct Stretch {
  Index begin = 0;
  std::vector<std::byte> bytes;
};

/// Knows which rank writes which block of a dataset.
class BlockOwners {
 public:
  BlockOwners(const RowLayout& layout, const RankOf& rank_of, int ranks) : layout_(layout), rank_of_(rank_of) {
    Index numbers = 1;
    for (const Index extent : layout.extents) numbers *= extent;
    bytes_ = {layout.offset, layout.offset + numbers * layout.number_bytes()};
    is_at_root_ = bytes_.size() < bytes_at_root * ranks;
  }

  int owner(Index block) const {
    const Interval whole{block * shared_block_bytes, (block + 1) * shared_block_bytes};
    if (is_at_root_ || whole.begin < bytes_.begin || whole.end > bytes_.end) return 0;
    return rank_of_(number_at((whole.begin - bytes_.begin) / layout_.number_bytes()));
  }

 private:
  /// The position in the tensor of number `index`, counted in the order of the file.
  OneNumber number_at(Index index) const {
    const Index numbers = layout_.head_numbers(), heads = layout_.heads(), rows = layout_.extents[1];
    const bool by_rows = layout_.order == core::AxisOrder::bshd;
    const Index line = index / numbers, inner = by_rows ? heads : rows, outer = by_rows ? rows : heads;
    const Index first = line / inner % outer, second = line % inner;
    return {line / (inner * outer), by_rows ? first : second, by_rows ? second : first, index % numbers};
  }

  const RowLayout& layout_;
  const RankOf& rank_of_;
  Interval bytes_;  // the dataset's bytes, by their positions in the file
  bool is_at_root_ = false;
};

/// Writes the bytes in this rank's own blocks. Returns, for each other rank, the bytes that it has to write.
std::map<int, std::vector<Stretch>> write_own(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces,
                                              const BlockOwners& owners, int rank, core::RowTraffic& traffic) {
  std::map<int, std::vector<Stretch>> others;
  for_each_stretch(tensor.layout, pieces, [&](Index begin, const std::byte* bytes, Index count) {
    Index own = 0;  // this many bytes just before `done` are this rank's own, and not written yet
    Index done = 0;
    const auto flush = [&] {
      if (own > 0) write_watched(tensor, begin + done - own, bytes + done - own, own, traffic);
      own = 0;
    };
    while (done < count) {
      const Index block = (begin + done) / shared_block_bytes;
      const Index in_block = std::min(count - done, (block + 1) * shared_block_bytes - begin - done);
      const int owner = owners.owner(block);
      if (owner == rank) {
        own += in_block;
      } else {
        flush();
        std::vector<Stretch>& list = others[owner];
        const bool goes_on = !list.empty() && list.back().begin + Index(list.back().bytes.size()) == begin + done;
        if (!goes_on) list.push_back({begin + done, {}});
        list.back().bytes.insert(list.back().bytes.end(), bytes + done, bytes + done + in_block);
      }
      done += in_block;
    }
    flush();
  });
  return others;
}

/// Appends a stretch to a message: its first byte in the file, its length, and its bytes.
void append(std::vector<std::byte>& message, Index begin, const std::byte* bytes, Index count) {
  const Index head[2] = {begin, count};
  const auto* words = reinterpret_cast<const std::byte*>(head);
  message.insert(message.end(), words, words + sizeof head);
  message.insert(message.end(), bytes, bytes + count);
}

/// Makes the next messages to other ranks. Takes at most `most` bytes in all off the ends of the stretches in `left`.
comm::ByteMessages next_messages(std::map<int, std::vector<Stretch>>& left, Index most) {
  comm::ByteMessages messages;
  while (most > 0 && !left.empty()) {
    auto& [peer, list] = *left.begin();
    Stretch& last = list.back();
    const Index count = std::min(most, Index(last.bytes.size())), kept = Index(last.bytes.size()) - count;
    append(messages[peer], last.begin + kept, last.bytes.data() + kept, count);
    most -= count;
    last.bytes.resize(std::size_t(kept));
    if (kept == 0) list.pop_back();
    if (list.empty()) left.erase(left.begin());
  }
  return messages;
}

/// Writes what other ranks have sent; contiguous stretches are written together.
void write_received(const RawTensor& tensor, const comm::ByteMessages& received, core::RowTraffic& traffic) {
  struct Part {
    Index begin, count;
    const std::byte* bytes;
  };
  std::vector<Part> parts;
  for (const auto& [peer, message] : received) {
    for (std::size_t at = 0; at < message.size();) {
      Index head[2];
      std::memcpy(head, message.data() + at, sizeof head);
      at += sizeof head;
      parts.push_back({head[0], head[1], message.data() + at});
      at += std::size_t(head[1]);
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  std::vector<std::byte> joined;
  Index begin = 0;
  const auto flush = [&] {
    if (!joined.empty()) write_watched(tensor, begin, joined.data(), Index(joined.size()), traffic);
    joined.clear();
  };
  for (const Part& part : parts) {
    if (part.begin != begin + Index(joined.size())) flush();
    if (joined.empty()) begin = part.begin;
    joined.insert(joined.end(), part.bytes, part.bytes + part.count);
  }
  flush();
}

}  // namespace

RowOwners::RowOwners(const pattern::Partition& partition, Index entry_rows) : entry_rows_(entry_rows) {
  for (std::size_t rank = 0; rank < partition.size(); ++rank) {
    for (const Interval& interval : partition[rank].intervals()) intervals_.push_back({interval.begin, int(rank)});
  }
  std::sort(intervals_.begin(), intervals_.end(), [](const Owned& a, const Owned& b) { return a.begin < b.begin; });
}

int RowOwners::rank_of(Index row) const {
  const auto next = std::upper_bound(intervals_.begin(), intervals_.end(), row,
                                     [](Index wanted, const Owned& one) { return wanted < one.begin; });
  return next == intervals_.begin() ? 0 : std::prev(next)->rank;
}

void write_together(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, const RankOf& rank_of,
                    const comm::Communicator& comm, core::RowTraffic& traffic) {
  const double start = core::wall_seconds();
  const BlockOwners owners(tensor.layout, rank_of, comm.size());
  std::map<int, std::vector<Stretch>> others;
  comm::agree(comm, [&] { others = write_own(tensor, pieces, owners, comm.rank(), traffic); });
  const Index at_once = std::max(shared_block_bytes, received_at_once / comm.size());
  Index bytes = 0;
  for (const auto& [peer, list] : others) {
    for (const Stretch& one : list) bytes += Index(one.bytes.size());
  }
  const Index rounds = comm.max(core::ceil_div(bytes, at_once));
  for (Index round = 0; round < rounds; ++round) {
    const comm::ByteMessages received = comm::exchange_bytes(comm, next_messages(others, at_once));
    comm::agree(comm, [&] { write_received(tensor, received, traffic); });
  }
  traffic.seconds += core::wall_seconds() - start;
}

}  // namespace annulus::store

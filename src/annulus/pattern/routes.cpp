#include "annulus/pattern/routes.hpp"

#include <algorithm>

namespace annulus::pattern {

using core::wrap;

namespace {

constexpr std::size_t kept_owners = 4;  // Legs of this many owners stay in memory
// Owners of more intervals are not in classes_, because its keys grow with the square of the number of intervals.
constexpr std::size_t named_intervals = 16;

}  // namespace

Routes::Routes(const Layout& layout, const Partition& owners, const Partition& readers, int direction, int reach)
    : layout_(layout),
      owners_(owners),
      readers_(readers),
      direction_(direction),
      reach_(std::max(reach, 0)),
      known_(owners.size()) {}

const Readers& Routes::lookup() const {
  if (!lookup_) lookup_.emplace(layout_, owners_, readers_, Runs::exact);
  return *lookup_;
}

/// Returns the runs up to distance reach_, in the order in which the rows reach them.
std::vector<ReaderRun> Routes::runs(int q, const Crossings& crossings) const {
  const int ranks = this->ranks();
  std::vector<ReaderRun> all = lookup().runs(q, crossings, direction_ > 0 ? reach_ : ranks - 1 - reach_);
  std::vector<ReaderRun> ours;
  for (const ReaderRun& run : all) {
    const Index nearest = direction_ > 0 ? run.begin : run.end - 1;
    if (wrap((nearest - q) * direction_, Index(ranks)) <= reach_) ours.push_back(run);
  }
  if (direction_ < 0) std::reverse(ours.begin(), ours.end());
  return ours;
}

Routes::Legs Routes::spell_out(int q, const std::vector<ReaderRun>& runs) const {
  Legs legs;
  legs.owner = q;
  legs.ends = ends_of(q, runs);
  PackedRows all;
  for (const ReaderRun& run : runs) {
    legs.carried.push_back(pattern::rows_read(layout_, owners_[std::size_t(q)], run.rows(readers_)));
    legs.read_until.push_back(all = join(std::move(all), legs.carried.back()));
  }
  for (std::size_t i = runs.size(); i-- > 1;)
    legs.carried[i - 1] = join(std::move(legs.carried[i - 1]), legs.carried[i]);
  return legs;
}

std::unique_ptr<Routes::OwnerClass> Routes::count(int q, const std::vector<ReaderRun>& runs) const {
  auto owner_class = std::make_unique<OwnerClass>();
  const Legs& legs = keep(spell_out(q, runs));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    owner_class->read.push_back(
        head_rows(pattern::rows_read(layout_, owners_[std::size_t(q)], runs[i].rows(readers_))));
    owner_class->carried.push_back(head_rows(legs.carried[i]));
    owner_class->passes_on_all.push_back(i + 1 < runs.size() && legs.carried[i] == legs.carried[i + 1]);
  }
  return owner_class;
}

const Routes::OwnerClass& Routes::owner_class(int q, const std::vector<ReaderRun>& runs,
                                              const Crossings& crossings) const {
  if (crossings.size() > named_intervals) return *singular_.emplace_back(count(q, runs));
  std::vector<Index> key = lookup().key(q, runs, crossings);
  key.push_back(Index(runs.size()));
  std::unique_ptr<OwnerClass>& owner_class = classes_[std::move(key)];
  if (!owner_class) owner_class = count(q, runs);
  return *owner_class;
}

const Routes::Owner& Routes::owner(int q) const {
  Owner& owner = known_[std::size_t(q)];
  if (owner.known) return owner;
  owner.known = true;
  const Crossings crossings = lookup().crossings(q);
  if (!Readers::is_any(crossings)) return owner;
  if (crossings.size() > named_intervals && count_pieces(q, crossings)) return owner;
  const std::vector<ReaderRun> runs = this->runs(q, crossings);
  owner.owner_class = &owner_class(q, runs, crossings);
  owner.ends = ends_of(q, runs);
  return owner;
}

std::vector<int> Routes::ends_of(int q, const std::vector<ReaderRun>& runs) const {
  std::vector<int> ends;
  for (const ReaderRun& run : runs) {
    const int begin = wrap((int(direction_ > 0 ? run.begin : run.end - 1) - q) * direction_, ranks());
    ends.push_back(begin + int(run.end - run.begin));
  }
  return ends;
}

bool Routes::count_pieces(int q, const Crossings& crossings) const {
  if (!pieces_) pieces_.emplace(layout_, lookup(), ranks(), direction_, reach_);
  const std::optional<DistanceCounts> counts = pieces_->of(q, owners_[std::size_t(q)], crossings);
  if (!counts) return false;
  Owner& owner = known_[std::size_t(q)];
  OwnerClass& owner_class = *singular_.emplace_back(std::make_unique<OwnerClass>());
  owner.owner_class = &owner_class;
  for (std::size_t d = 1; d <= std::size_t(reach_); ++d) {
    const bool is_same = d > 1 && owner_class.passes_on_all.back() && owner_class.read.back() == counts->read[d];
    if (!is_same) {
      owner_class.read.push_back(counts->read[d]);
      owner_class.carried.push_back(counts->carried[d]);
      owner_class.passes_on_all.push_back(true);
      owner.ends.push_back(0);
    }
    owner_class.passes_on_all.back() = counts->passes_on_all[d];
    owner.ends.back() = int(d) + 1;
  }
  return true;
}

const Routes::Legs& Routes::legs(int q) const {
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Legs& legs) { return legs.owner == q; });
  if (found != recent_.end()) {
    std::rotate(recent_.begin(), found, found + 1);  // the owner used last comes first
    return recent_.front();
  }
  return keep(spell_out(q, runs(q, lookup().crossings(q))));
}

const Routes::Legs& Routes::keep(Legs legs) const {
  if (recent_.size() == kept_owners) recent_.pop_back();
  recent_.insert(recent_.begin(), std::move(legs));
  return recent_.front();
}

/// Index of the leg that contains a distance; ends.size() if no leg does.
std::size_t Routes::leg(const std::vector<int>& ends, int distance) {
  return std::size_t(std::upper_bound(ends.begin(), ends.end(), distance) - ends.begin());
}

Index Routes::rows_read(int q, int distance) const {
  const Owner& owner = this->owner(q);
  const std::size_t i = leg(owner.ends, distance);
  return i < owner.ends.size() ? owner.owner_class->read[i] : 0;
}

Index Routes::rows_carried(int q, int distance) const {
  const Owner& owner = this->owner(q);
  const std::size_t i = leg(owner.ends, distance);
  return i < owner.ends.size() ? owner.owner_class->carried[i] : 0;
}

bool Routes::passes_on_all(int q, int distance) const {
  const Owner& owner = this->owner(q);
  const std::size_t i = leg(owner.ends, distance);
  if (i >= owner.ends.size()) return true;  // nothing is carried to this distance
  if (distance + 1 < owner.ends[i]) return true;
  return owner.owner_class->passes_on_all[i] || owner.owner_class->carried[i] == 0;
}

int Routes::farthest() const {
  if (farthest_ >= 0) return farthest_;
  farthest_ = 0;
  for (int q = 0; q < ranks(); ++q) {
    const Owner& owner = this->owner(q);
    for (std::size_t i = 0; i < owner.ends.size(); ++i) {
      if (owner.owner_class->carried[i] > 0) farthest_ = std::max(farthest_, owner.ends[i] - 1);
    }
  }
  return farthest_;
}

PackedRows Routes::read(int q, int distance) const {
  if (rows_read(q, distance) == 0) return {};
  return pattern::rows_read(layout_, owners_[std::size_t(q)],
                            readers_[std::size_t(wrap(q + distance * direction_, ranks()))]);
}

PackedRows Routes::carried(int q, int distance) const {
  if (rows_carried(q, distance) == 0) return {};
  const Legs& legs = this->legs(q);
  return legs.carried[leg(legs.ends, distance)];
}

PackedRows Routes::read_until(int q, int distance) const {
  if (owner(q).owner_class == nullptr) return {};
  const Legs& legs = this->legs(q);
  return legs.ends.empty() ? PackedRows{} : legs.read_until[std::min(leg(legs.ends, distance), legs.ends.size() - 1)];
}

}  // namespace annulus::pattern

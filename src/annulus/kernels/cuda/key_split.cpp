#include "annulus/kernels/cuda/key_split.hpp"

#include <algorithm>

#include "annulus/kernels/cuda/tuning.hpp"

namespace annulus::kernels::cuda {
namespace {

Index tiles_of(const TeamKeys& team, Index key_tile) {
  return core::ceil_div(std::max<Index>(0, team.keys.end - team.keys.begin), key_tile);
}

/// Returns how many blocks and partial states a launch takes if its parts have at most `longest` tiles.
Room taken(const std::vector<TeamKeys>& teams, Index key_tile, Index longest) {
  Room sum{0, 0};
  for (const TeamKeys& team : teams) {
    const Index parts = core::ceil_div(tiles_of(team, key_tile), longest);
    sum.blocks += parts;
    if (parts > 1) sum.partial_states += parts * team.queries;
  }
  return sum;
}

}  // namespace

std::vector<TeamKeys> keys_of_teams(const device::DeviceWorkView& on_host, Index teams) {
  std::vector<TeamKeys> all;
  all.reserve(std::size_t(teams));
  for (Index team = 0; team < teams; ++team) {
    const device::TeamTile tile = on_host.tile_of<device::Owner::rows>(team);
    all.push_back({keys_of_tile(on_host, tile).visible_to_any, tile.count});
  }
  return all;
}

Index longest_part(const std::vector<TeamKeys>& teams, Index key_tile, const Room& room) {
  Index most = 0;
  for (const TeamKeys& team : teams) most = std::max(most, tiles_of(team, key_tile));
  if (most == 0 || taken(teams, key_tile, most).blocks >= room.blocks) return most;
  Index best = most, least = most;  // least: the best cost, in tiles, because a block takes one tile after another
  for (Index parts = 2; parts <= most_parts; ++parts) {
    const Index longest = core::ceil_div(most, parts);
    if (longest * key_tile < fewest_keys_of_part) break;
    const Room sum = taken(teams, key_tile, longest);
    const Index turns = core::ceil_div(sum.blocks, room.blocks);
    if (turns > most_turns || sum.partial_states > room.partial_states) break;
    const Index cost = turns * longest + core::ceil_div(keys_worth_a_split, key_tile);
    if (cost >= least) continue;
    best = longest;
    least = cost;
  }
  return best;
}

KeySplit split_keys(const std::vector<TeamKeys>& teams, Index key_tile, Index longest) {
  KeySplit split;
  for (std::size_t number = 0; number < teams.size(); ++number) {
    const TeamKeys& team = teams[number];
    const Index tiles = tiles_of(team, key_tile), parts = tiles == 0 ? 0 : core::ceil_div(tiles, longest);
    const bool is_cut = parts > 1;
    if (is_cut) split.teams.push_back({Index(number), split.partial_states, parts});
    for (Index part = 0; part < parts; ++part) {
      const core::Interval of = core::even_part(tiles, parts, parts - 1 - part);
      const KeyRange keys{team.keys.begin + of.begin * key_tile,
                          std::min(team.keys.begin + of.end * key_tile, team.keys.end)};
      split.parts.push_back({Index(number), keys, is_cut ? split.partial_states : no_partial, part == 0});
      if (is_cut) split.partial_states += team.queries;
    }
  }
  return split;
}

KeySplit split_keys(const device::DeviceWork& work, Index key_tile, const Room& room) {
  if (work.teams() >= room.blocks) return {};
  const std::vector<TeamKeys> teams = keys_of_teams(work.host_view(), work.teams());
  const Index longest = longest_part(teams, key_tile, room);
  const auto is_cut = [&](const TeamKeys& team) { return tiles_of(team, key_tile) > longest; };
  return std::any_of(teams.begin(), teams.end(), is_cut) ? split_keys(teams, key_tile, longest) : KeySplit{};
}

}  // namespace annulus::kernels::cuda

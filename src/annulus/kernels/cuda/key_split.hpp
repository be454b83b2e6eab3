// Which blocks a forward launch has where its teams are fewer than the GPU has room for, as with few queries against
// many keys: the keys of a team are cut into parts, each of which one block adds to a partial state of its own, and
// the partial states are merged in the order of the parts (partial_states.hpp). This is split-KV of FlashDecoding (Dao
// et al. 2023). Integers only, decided on the host; a function of the work list and of the room, so that the same GPU
// cuts, and rounds, alike every time.
//
// Parts are whole tiles of keys, as they are met: from the last one down. Example: a team whose 40 queries see 10 tiles
// and one whose 20 queries see 3, parts of at most 4 tiles:
//   block              0       1       2        3
//   team               0       0       0        1
//   tiles of keys      9 ... 7 6 ... 4 3 ... 0  2 ... 0
//   partial states     0-39    40-79   80-119   none: the State itself
#pragma once

#include <vector>

#include "annulus/kernels/cuda/key_range.hpp"

namespace annulus::kernels::cuda {

/// One block's work.
struct KeyPart {
  Index team;
  KeyRange keys;  ///< of those that the team's queries see
  Index partial;  ///< number of the partial state of the team's first query, or no_partial
  bool goes_on;   ///< from the State: the team's first part; the others begin with nothing
};
inline constexpr Index no_partial = -1;
inline constexpr KeyRange all_keys{0, Index(1) << 62};

/// A team whose keys are cut: its query i has the partial states first + i, first + count + i, ... with `count` queries
/// in the team, one of each part.
struct SplitTeam {
  Index team;
  Index first;
  Index parts;
};

struct KeySplit {
  std::vector<KeyPart> parts;  ///< one a block; of every team that sees keys
  std::vector<SplitTeam> teams;
  Index partial_states = 0;
};

/// What one team meets.
struct TeamKeys {
  KeyRange keys;  ///< that some of its queries see
  Index queries;
};

/// The teams of a work list with Owner::rows, whose tables the host can read.
std::vector<TeamKeys> keys_of_teams(const device::DeviceWorkView& on_host, Index teams);

/// What a launch may take.
struct Room {
  Index blocks;  ///< that the GPU runs side by side
  Index partial_states;
};

/// Tiles of `key_tile` keys that a part should have at most, so that the launch ends soonest: the longest block's where
/// cutting does not pay, as where the teams fill the room. 0: there are no keys.
Index longest_part(const std::vector<TeamKeys>& teams, Index key_tile, const Room& room);

/// The keys of all teams in parts of at most `longest` tiles, those of a team alike but for one tile.
KeySplit split_keys(const std::vector<TeamKeys>& teams, Index key_tile, Index longest);

/// The best of these splits; without blocks, for a launch of all teams with all their keys, where no team is to be cut.
KeySplit split_keys(const device::DeviceWork& work, Index key_tile, const Room& room);

}  // namespace annulus::kernels::cuda

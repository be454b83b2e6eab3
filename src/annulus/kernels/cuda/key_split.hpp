// Cuts the keys of a forward launch if its teams are fewer than the blocks that the GPU runs at the same time, as with
// few queries and many keys. The keys of a team are then cut into parts. Each part has a block, which writes a partial
// state of its own. The partial states are merged in the order of the parts (partial_states.hpp). This is the split-KV
// of FlashDecoding (Dao et al. 2023). The host decides how to cut from the work list and the Room, with integers only.
// So for the same list the same GPU always cuts, and rounds, in the same way.
//
// Parts are whole tiles of keys, in the order in which they are met: from the last tile down. Example: parts of at
// most 4 tiles, a team whose 40 queries see 10 tiles, and a team whose 20 queries see 3:
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
  KeyRange keys;  ///< a part of the keys that the team's queries see
  Index partial;  ///< number of the partial state of the team's first query, or no_partial
  bool goes_on;   ///< the block continues the State, as a team's first part does; other parts start empty
};
inline constexpr Index no_partial = -1;
inline constexpr KeyRange all_keys{0, Index(1) << 62};

/// A team whose keys are cut. With `count` queries in the team, query i has the partial states first + i, first +
/// count + i, ..., one for each part.
struct SplitTeam {
  Index team;
  Index first;
  Index parts;
};

struct KeySplit {
  std::vector<KeyPart> parts;  ///< one for each block; a team that sees no keys has none
  std::vector<SplitTeam> teams;
  Index partial_states = 0;
};

/// The keys and queries of one team.
struct TeamKeys {
  KeyRange keys;  ///< the keys that some of the team's queries see
  Index queries;
};

/// Returns the TeamKeys of a work list with Owner::rows. `on_host` has the list's tables in host memory.
std::vector<TeamKeys> keys_of_teams(const device::DeviceWorkView& on_host, Index teams);

/// How much of the GPU and of its memory a launch may take.
struct Room {
  Index blocks;  ///< how many blocks the GPU runs at the same time
  Index partial_states;
};

/// Returns how many tiles of `key_tile` keys a part should have at most, so that the launch ends soonest. If cuts would
/// not help, for example because there are enough teams, this is the number of tiles of the team with the most keys. It
/// is 0 if no team has keys.
Index longest_part(const std::vector<TeamKeys>& teams, Index key_tile, const Room& room);

/// Cuts the keys of all teams into parts of at most `longest` tiles. A team's parts differ by at most one tile.
KeySplit split_keys(const std::vector<TeamKeys>& teams, Index key_tile, Index longest);

/// The same, with what longest_part() returns as `longest`. If no team needs a cut, the result is empty, and the caller
/// launches one block for each team.
KeySplit split_keys(const device::DeviceWork& work, Index key_tile, const Room& room);

}  // namespace annulus::kernels::cuda

// Shared memory for windows: MPI makes windows as files in a memory file system, which may be small (64 MiB in Docker).
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

struct WindowRoom {
  std::string folder;  ///< the folder that the MPI library reports, otherwise /dev/shm
  Index bytes = -1;    ///< free bytes in the folder; -1: unknown, because there is no such folder
};
/// Returns where MPI makes the windows of this node's ranks, and how much memory is free there for all of them.
WindowRoom window_room();

/// Returns why the windows of all ranks of a node, `need` bytes in all, do not fit into `room`, and what to do; empty
/// if they fit. Open MPI demands a twentieth more than `need`.
std::string window_lack(Index need, const WindowRoom& room);

/// Throws the same Error(failure) on every rank if the windows of a node do not fit. `bytes` is the size of all
/// windows of this rank that exist at the same time. Call this function before the windows are made, because a file in
/// a memory file system gets memory only when it is touched, and if no memory is left then, the rank dies of SIGBUS.
/// Collective.
void require_window_room(const Communicator& comm, Index bytes, const WindowRoom& room = window_room());

}  // namespace annulus::comm

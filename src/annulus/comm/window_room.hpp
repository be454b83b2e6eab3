// Shared memory for windows: MPI makes them out of files in a folder of memory, which may be small (64 MiB in Docker).
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

struct WindowRoom {
  std::string folder;  ///< as this MPI library says, else /dev/shm
  Index bytes = -1;    ///< free in it; -1: nothing is known, there is no such folder
};
/// Room for the windows of all ranks of this node together.
WindowRoom window_room();

/// What is wrong with windows of `need` bytes of all ranks of a node in this room, and what to do; empty: they fit,
/// with the twentieth more that Open MPI wants to see.
std::string window_lack(Index need, const WindowRoom& room);

/// Throws the same Error(failure) on every rank where the windows of a node, `bytes` of them this rank's, do not fit.
/// Files in such a folder get their memory when it is touched, and a rank that finds none dies of SIGBUS: ask for all
/// windows that are there at a time together. Collective.
void require_window_room(const Communicator& comm, Index bytes, const WindowRoom& room = window_room());

}  // namespace annulus::comm

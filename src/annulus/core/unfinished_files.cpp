#include "annulus/core/unfinished_files.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <memory>
#include <thread>

namespace annulus::core {
namespace {

struct Entry {
  std::atomic<bool> used{false};  // set last, so that a handler never reads half a path
  FileIdentity identity;
  std::array<char, PATH_MAX> path{};
};
static_assert(std::atomic<bool>::is_always_lock_free);

/// 16 entries are enough: a run makes a result, a report, a trace and perhaps checkpoints, and notes at most three
/// files for each.
std::array<Entry, 16> table;

std::atomic<bool> making{false};

/// Waits until no MakingScope lives, but at most a second, because the creation of a file may hang.
void wait_for_making() {
  for (int i = 0; making && i < 1000; ++i) poll(nullptr, 0, /*ms=*/1);
}

}  // namespace

int note_unfinished_file(const std::string& path, FileIdentity identity) {
  if (path.size() >= PATH_MAX) return -1;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].used) continue;
    table[i].identity = identity;
    std::memcpy(table[i].path.data(), path.c_str(), path.size() + 1);
    table[i].used = true;
    return int(i);
  }
  return -1;
}

void forget_unfinished_file(int number) {
  if (number >= 0) table[std::size_t(number)].used = false;
}

MakingScope::MakingScope() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
  making = true;
}

MakingScope::~MakingScope() {
  making = false;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void remove_unfinished_files() noexcept {
  wait_for_making();
  for (const Entry& entry : table) {
    struct stat found {};
    if (!entry.used || lstat(entry.path.data(), &found) != 0) continue;
    const FileIdentity identity{found.st_dev, found.st_ino};
    if (entry.identity == identity) unlink(entry.path.data());
  }
}

void remove_unfinished_files_within(double seconds) noexcept {
  bool any = making;
  for (const Entry& entry : table) any = any || entry.used;
  if (!any) return;
  try {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    std::thread([done] {
      remove_unfinished_files();
      *done = true;
    }).detach();
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!*done && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } catch (...) {  // no thread could be started
    remove_unfinished_files();
  }
}

}  // namespace annulus::core

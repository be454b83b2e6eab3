#include "annulus/comm/last_events.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "annulus/core/last_spans.hpp"

namespace annulus::comm {
namespace {

std::mutex mutex;
std::string& base_name() {
  static std::string* const one = new std::string;  // never destroyed, because the guard may use it at the end
  return *one;
}

/// Removes the file of an earlier stall and writes a new one, never through a link. Returns true on success.
bool write_new(const std::string& path, const std::string& text) {
  unlink(path.c_str());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return false;
  const bool whole = write(file, text.data(), text.size()) == ssize_t(text.size());
  if (close(file) == 0 && whole) return true;
  unlink(path.c_str());
  return false;
}

}  // namespace

void write_last_events_beside(const std::string& file) {
  const std::lock_guard<std::mutex> lock(mutex);
  base_name() = file;
}

std::string write_last_events(int rank, const std::string& doing) {
  std::string path;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (base_name().empty() || rank < 0) return "";
    path = fmt::format("{}.stalled.{}.jsonl", base_name(), rank);
  }
  std::string safe = doing;
  for (char& letter : safe) {
    if (letter == '"' || letter == '\\' || letter < 0x20 || letter > 0x7e) letter = '\'';
  }
  const std::string text = core::last_spans(rank) + fmt::format("{{\"rank\":{},\"now\":\"{}\"}}\n", rank, safe);
  enum { working, written, failed };
  const auto state = std::make_shared<std::atomic<int>>(working);
  try {
    std::thread([=] { *state = write_new(path, text) ? written : failed; }).detach();
  } catch (const std::exception&) {  // no thread could be started
    return "";
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (*state == working && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return *state == written ? path : "";
}

}  // namespace annulus::comm

#include "annulus/store/journal.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/files/process_name.hpp"
#include "annulus/store/fingerprint.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

// Positions of the bytes that are locked: far after the end of any journal, so no byte of its text is locked.
constexpr long long turn_byte = 1LL << 60, completion_byte = turn_byte + 1;
long long byte_of(std::uint64_t owner) { return (1LL << 61) + (long long)(owner >> 16); }

std::uint32_t checksum(const std::string& text) {
  std::vector<Index> words(1 + (text.size() + sizeof(Index) - 1) / sizeof(Index), 0);
  words[0] = Index(text.size());
  std::memcpy(words.data() + 1, text.data(), text.size());
  return std::uint32_t(fingerprint(words));
}

std::string with_checksum(const std::string& line) { return fmt::format("{:08x} {}\n", checksum(line), line); }

/// Undoes with_checksum(): returns the line in `text`, which has no line end; empty if the checksum is wrong.
std::optional<std::string> without_checksum(const std::string& text) {
  if (text.size() < 10 || text[8] != ' ') return std::nullopt;
  std::string line = text.substr(9);
  if (fmt::format("{:08x}", checksum(line)) != text.substr(0, 8)) return std::nullopt;
  return line;
}

/// True if a text begins like "<checksum> head {". A text may also be only the beginning of this, or empty, because a
/// process may be killed before it has written more.
bool begins_like_journal(const std::string& text) {
  const std::string rest = " head {";
  for (std::size_t i = 0; i < std::min(text.size(), 8 + rest.size()); ++i) {
    if (i < 8 ? std::isxdigit(static_cast<unsigned char>(text[i])) == 0 : text[i] != rest[i - 8]) return false;
  }
  return true;
}

Descriptor open_journal(const std::string& path, int flags) {
  const comm::BlockingScope inside("the opening of " + path);
  Descriptor file(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | flags, 0666);
  struct stat about {};
  if (fstat(file.id(), &about) != 0 || !S_ISREG(about.st_mode)) {
    fail(ErrorKind::failure, "{}: is {}, expected the journal of a run, or nothing", path, kind_of_file(about));
  }
  return file;
}

}  // namespace

Journal::Journal(const std::string& path) : Journal(path, open_journal(path, O_CREAT)) {}

Journal::Journal(const std::string& path, Descriptor file)
    : path_(path), file_(std::move(file)), locks_(store::has_locks(file_)) {
  read_new();
}

std::optional<Journal> Journal::find(const std::string& path) {
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0 && errno == ENOENT) return std::nullopt;
  Journal journal(path, open_journal(path, 0));
  if (journal.is_empty()) return std::nullopt;
  return journal;
}

void Journal::read_new() {
  std::string text;
  std::array<char, 1 << 16> some{};
  for (Index now = 1; now > 0;) {
    now = read_bytes(file_, some.data(), Index(some.size()), read_ + Index(text.size()));
    if (now < 0) fail(ErrorKind::failure, "{}: reading failed: {}", path_, std::strerror(errno));
    text.append(some.data(), std::size_t(now));
  }
  if (read_ == 0 && !begins_like_journal(text)) {
    fail(ErrorKind::failure, "{}: is in the way: a run keeps its journal under that name, and this is not a journal",
         path_);
  }
  std::size_t begin = 0;
  const std::size_t first = text.find('\n');
  if (read_ == 0 && first != std::string::npos && !without_checksum(text.substr(0, first))) {
    fail(ErrorKind::failure,
         "{}: is damaged: the checksum of its first line is wrong, so it is not known which units are finished. "
         "Remove it, and the .part file beside it, to begin anew",
         path_);
  }
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (const auto line = without_checksum(text.substr(begin, end - begin))) take(*line);
  }
  read_ += Index(begin);
}

void Journal::forget() {
  read_ = 0;
  head_.clear();
  part_.clear();
  making_ = recording_ = false;
  owners_.clear();
  claims_.clear();
  done_.clear();
  checks_.clear();
  stopped_.clear();
}

void Journal::take(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  const auto rest = [&] { return line.substr(std::min(line.size(), word.size() + 1)); };
  Unit unit;
  std::uint64_t id = 0;
  if (word == "claim" || word == "done" || word == "check" || word == "again")
    words >> unit.phase >> unit.index >> std::ws;
  if (word == "head") {
    head_ = rest();
  } else if (word == "part") {
    part_ = rest();
  } else if (word == "owner") {
    words >> id;
    words >> owners_[id].launch >> owners_[id].process >> std::ws;
    std::getline(words, owners_[id].about);
  } else if (word == "claim") {
    words >> claims_[unit];
  } else if (word == "done") {
    std::getline(words, done_[unit]);
  } else if (word == "check") {
    std::getline(words, checks_[unit]);
  } else if (word == "again") {
    done_.erase(unit);
    done_.erase(done_.lower_bound({unit.phase + 1, 0}), done_.end());
    claims_.erase(unit);
    claims_.erase(claims_.lower_bound({unit.phase + 1, 0}), claims_.end());
  } else if (word == "stop") {
    words >> id;
    stopped_.insert(id);
  } else if (word == "making") {
    making_ = true;
  } else if (word == "record") {
    recording_ = true;
  }
}

Index Journal::done_in(Index phase) const {
  return Index(std::distance(done_.lower_bound({phase, 0}), done_.lower_bound({phase + 1, 0})));
}

std::vector<std::string> Journal::notes() const {
  std::vector<std::string> all;
  for (const auto& [unit, note] : done_) all.push_back(note);
  return all;
}

std::map<Unit, std::string> Journal::checks() const {
  std::map<Unit, std::string> all;
  for (const auto& [unit, note] : done_) {
    const auto check = checks_.find(unit);
    all[unit] = check == checks_.end() ? "" : check->second;
  }
  return all;
}

bool Journal::is_claimed(const Unit& unit) const {
  const auto claim = claims_.find(unit);
  if (claim == claims_.end() || done_.contains(unit)) return false;
  return claim->second == self_ || is_locked(file_, byte_of(claim->second));
}

std::optional<std::string> Journal::worker(std::uint64_t launch) const {
  for (const auto& [id, owner] : owners_) {
    if (id == self_ || owner.launch == launch) continue;
    const bool works = locks_ ? is_locked(file_, byte_of(id)) : process_state(owner.process) != ProcessState::dead;
    if (works) return owner.about;
  }
  return std::nullopt;
}

std::string Journal::if_gone(const std::string& part_file) const {
  if (locks_) return "";
  return fmt::format(". This file system has no locks: if that process is gone, remove {} and {}", path_, part_file);
}

std::optional<std::string> Journal::neighbour() const {
  for (const auto& [id, owner] : owners_) {
    if (id != self_ && process_state(owner.process) == ProcessState::alive) return owner.about;
  }
  return std::nullopt;
}

void Journal::sign_on(const JournalOwner& owner, Lock& lock) {
  self_ = owner.id;
  if (locks_) {
    std::optional<ByteLock> alive = ByteLock::without_waiting(file_, byte_of(owner.id));
    core::require(alive.has_value(), [&] { return path_ + ": two processes have one id"; });
    alive_.emplace(std::move(*alive));
  }
  lock.write(fmt::format("owner {} {} {} {}", owner.id, owner.launch, this_process(), owner.about));
}

void Journal::sign_on(const JournalOwner& owner) {
  Lock lock(*this);
  sign_on(owner, lock);
}

bool Journal::take_completion() {
  if (!locks_) return true;
  std::optional<ByteLock> lock = ByteLock::without_waiting(file_, completion_byte);
  if (lock) completing_.emplace(std::move(*lock));
  return lock.has_value();
}

void Journal::remove() {
  if (is_there()) unlink(path_.c_str());
}

Journal::Lock::Lock(Journal& journal) : journal_(journal) {
  if (journal.locks_) lock_.emplace(journal.file_, turn_byte);
  if (!journal.is_there()) {
    fail(ErrorKind::failure, "{}: the journal of this run was removed or replaced meanwhile", journal.path_);
  }
  // Another launch may have emptied the journal after this process had read it, and before this process got the lock.
  if (journal.self_ == 0) journal.forget();
  struct stat about {};
  if (fstat(journal.file_.id(), &about) == 0 && Index(about.st_size) < journal.read_) {
    fail(ErrorKind::failure, "{}: the journal of this run was cut short meanwhile: {} bytes, expected at least {}",
         journal.path_, about.st_size, journal.read_);
  }
  journal.read_new();
}

void Journal::Lock::write(const std::string& line) {
  struct stat about {};
  if (fstat(journal_.file_.id(), &about) != 0) fail(ErrorKind::failure, "{}: {}", journal_.path_, std::strerror(errno));
  // A killed process or a full disk may have left the last line incomplete. Ends that line first; readers ignore it.
  const std::string text = (Index(about.st_size) > journal_.read_ ? "\n" : "") + with_checksum(line);
  const int code = write_all(journal_.file_, text.data(), text.size(), about.st_size);
  if (code != 0) {
    (void)!ftruncate(journal_.file_.id(), about.st_size);
    fail(ErrorKind::failure, "{}: writing failed: {}; finished units are kept, run again to continue", journal_.path_,
         std::strerror(code));
  }
  journal_.read_new();
}

void Journal::Lock::flush() { flush_to_disk(journal_.file_, journal_.path_); }

void Journal::Lock::begin_anew() {
  if (ftruncate(journal_.file_.id(), 0) != 0) {
    fail(ErrorKind::failure, "{}: emptying failed: {}", journal_.path_, std::strerror(errno));
  }
  journal_.forget();
}

}  // namespace annulus::store

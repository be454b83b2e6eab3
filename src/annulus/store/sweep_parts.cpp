#include "annulus/store/sweep_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/runfile/bench_file.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/files/process_name.hpp"
#include "annulus/store/json_text.hpp"

namespace annulus::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using core::fail;
using Json = nlohmann::ordered_json;

constexpr const char* sweep_word = "annulus_sweep";
constexpr const char* begun_word = "begun";

/// The files of all launches by name, with their sizes.
std::map<std::string, Index> part_files(const std::string& table) {
  const comm::BlockingScope inside("the look into " + folder_of_parts(table));
  std::map<std::string, Index> files;
  std::error_code error;
  fs::directory_iterator entry(folder_of_parts(table), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    const auto bytes = entry->file_size(gone);
    if (!gone && entry->path().extension() == ".jsonl") files[entry->path().string()] = Index(bytes);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail(ErrorKind::failure, "{}: cannot be read: {}", folder_of_parts(table), error.message());
  }
  return files;
}

/// The complete lines of a file.
std::vector<std::string> whole_lines(const std::string& path) {
  const comm::BlockingScope inside("the reading of " + path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorKind::failure, "{}: cannot be opened: {}", path, std::strerror(errno));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // the last line is incomplete
    lines.push_back(line);
  }
  if (file.bad()) fail(ErrorKind::failure, "{}: reading failed: {}", path, std::strerror(errno));
  return lines;
}

/// The sweep's identity, from the first line of a file.
std::string identity_in(const std::string& path, const std::string& line) {
  const Json head = parse_json(line);
  if (!head.is_object() || !head.contains(sweep_word) || !head[sweep_word].is_string()) {
    fail(ErrorKind::failure,
         "{}: is no part of a sweep: its first line is '{}'; remove it, or give bench.file another name", path,
         line.substr(0, 60));
  }
  return head[sweep_word];
}

/// The numbers of the cases that have begun according to `line`; empty for a line of another kind.
std::vector<Index> begun_in(const std::string& line) {
  const Json json = parse_json(line);
  std::vector<Index> numbers;
  if (!json.is_object() || !json.contains(begun_word)) return numbers;
  for (const Json& number : json[begun_word]) {
    if (number.is_number_integer()) numbers.push_back(number);
  }
  return numbers;
}

template <class Value>
const Value* find(const std::vector<std::pair<std::string, Value>>& columns, std::string_view name) {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const auto& one) { return one.first == name; });
  return found == columns.end() ? nullptr : &found->second;
}

}  // namespace

double CaseRecord::number_in(std::string_view column) const {
  const double* value = find(numbers, column);
  return value == nullptr ? std::numeric_limits<double>::quiet_NaN() : *value;
}

std::string CaseRecord::word_in(std::string_view column) const {
  const std::string* value = find(words, column);
  return value == nullptr ? "" : *value;
}

std::string line_of(const CaseRecord& record) {
  Json line = Json::object();
  line["case"] = record.number;
  for (const auto& [name, value] : record.numbers) line["numbers"][name] = value;
  for (const auto& [name, value] : record.words) line["words"][name] = value;
  return text_of(line);
}

std::optional<CaseRecord> record_of(const std::string& line) {
  const Json json = parse_json(line);
  if (!json.is_object() || !json.contains("case") || !json["case"].is_number_integer()) return std::nullopt;
  CaseRecord record{json["case"], {}, {}};
  const auto each = [&](const char* group, const auto& add) {
    if (!json.contains(group) || !json[group].is_object()) return;
    for (const auto& [name, value] : json[group].items()) add(name, value);
  };
  each("numbers", [&](const std::string& name, const Json& value) {
    record.numbers.emplace_back(name, value.is_number() ? double(value) : std::numeric_limits<double>::quiet_NaN());
  });
  each("words", [&](const std::string& name, const Json& value) {
    if (value.is_string()) record.words.emplace_back(name, value);
  });
  return record;
}

std::string folder_of_parts(const std::string& table) { return table + ".part"; }

void check_same_sweep(std::string_view key, const std::string& file, const std::string& made,
                      const std::string& asked) {
  // JSON has U+FFFD in place of bytes that are not UTF-8. `made` may come from JSON, so both identities are converted
  // before they are compared.
  const auto as_kept = [](const std::string& identity) -> std::string { return parse_json(text_of(identity)); };
  const std::vector<std::string> differences = runfile::identity_differences(as_kept(made), as_kept(asked));
  if (differences.empty()) return;
  fail(ErrorKind::failure,
       "{}: belongs to another sweep: {}; give {} another name; to begin anew, remove the tables and the folder .part "
       "of bench.file",
       file, fmt::join(differences, "; "), key);
}

void LaunchFile::append(const CaseRecord& record) { write(line_of(record)); }

void LaunchFile::begin(const std::vector<Index>& numbers) { write(text_of({{begun_word, numbers}})); }

void LaunchFile::check_is_there() const {
  if (path_.empty() || descriptor_.is_named(path_)) return;
  fail(ErrorKind::failure, "{}: was removed, renamed or replaced while the sweep wrote it", path_);
}

void LaunchFile::make() {
  const std::string folder = folder_of_parts(table_);
  const comm::BlockingScope inside("the making of a file in " + folder);
  check_can_be_made(table_, true);
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) fail(ErrorKind::failure, "{}: cannot be made: {}", folder, error.message());
  const std::string path = fmt::format("{}/{}.jsonl", folder, random_digits());
  descriptor_ = Descriptor(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  path_ = path;
  bytes_ = 0;
  write(text_of({{sweep_word, identity_}}));
}

void LaunchFile::write(const std::string& line) {
  if (path_.empty()) make();
  const comm::BlockingScope inside("the writing of " + path_);
  const std::string text = line + "\n";
  int code = write_all(descriptor_, text.data(), text.size(), bytes_);
  if (code == 0 && fsync(descriptor_.id()) != 0) code = errno;
  if (code == 0) {
    bytes_ += Index(text.size());
    return check_is_there();
  }
  (void)!ftruncate(descriptor_.id(), bytes_);  // may fail, because readers ignore an incomplete line anyway
  const std::string path = bytes_ > 0 ? path_ : std::exchange(path_, "");  // if empty, the next call makes a new file
  if (bytes_ == 0) unlink(path.c_str());
  fail(ErrorKind::failure, "{}: writing failed: {}; finished cases are kept, run again to continue", path,
       std::strerror(code));
}

Parts read_parts(const std::string& table, const std::string& identity) {
  Parts parts;
  parts.state = state_of_parts(table);
  for (const auto& [path, bytes] : part_files(table)) {
    const std::vector<std::string> lines = whole_lines(path);
    if (lines.empty()) continue;  // its launch has not completed the first line yet
    check_same_sweep("bench.file", path, identity_in(path, lines[0]), identity);
    for (std::size_t i = 1; i < lines.size(); ++i) {
      if (auto record = record_of(lines[i])) parts.records.push_back(std::move(*record));
      for (const Index number : begun_in(lines[i])) parts.begun.push_back(number);
    }
  }
  return parts;
}

std::string state_of_parts(const std::string& table) {
  std::string state;
  for (const auto& [path, bytes] : part_files(table)) state += fmt::format("{} {}\n", path, bytes);
  return state;
}

}  // namespace annulus::store

// The run file: YAML text in, checked settings out. Every error is an Error(usage) that starts with
// `FILE:LINE:COLUMN: ` (1-based), or with `--set a.b=value: ` where an override is to blame.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/runfile/keys.hpp"
#include "annulus/runfile/settings.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::runfile {

/// The one table of the run file's keys, in the order of input/reference.yaml; keys of one section stand together.
const std::vector<Key<Settings>>& run_file_keys();

/// Settings and where each of them was written.
struct RunFile {
  Settings settings;
  std::string name;  ///< of the file, as the user wrote it
  Locations locations;

  /// What to put in front of an error about `key` ("distribution.strategy"): its location when the user gave it, else
  /// the nearest enclosing section's, else the file's first line.
  std::string where(std::string_view key) const;
};

/// Throws Error(usage): the location of `key`, and what is wrong with it.
template <class... Args>
[[noreturn]] void refuse(const RunFile& run, std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
  core::fail(core::ErrorKind::usage, "{}{}", run.where(key), fmt::format(format, std::forward<Args>(args)...));
}

/// Reads the file on rank 0 and parses the same text on every rank; collective. `overrides` are the values of --set,
/// "a.b=value" with a YAML value. Throws the same Error(usage) on every rank.
RunFile read_run_file(const std::string& path, const std::vector<std::string>& overrides,
                      const comm::Communicator& comm);

/// A run file as YAML with overrides put in, not yet taken for settings: of a sweep, each case makes settings of it.
struct RunFileTree {
  std::string name;  ///< of the file, as the user wrote it
  YamlNode root;
};
/// As read_run_file().
RunFileTree read_run_file_tree(const std::string& path, const std::vector<std::string>& overrides,
                               const comm::Communicator& comm);
RunFileTree parse_run_file_tree(const std::string& text, const std::string& path,
                                const std::vector<std::string>& overrides);

/// Puts a value in the place of the key's, sections made as needed; `location` is what errors about it will name.
void put(YamlNode& root, const std::string& key, YamlNode value, const std::string& location);

/// Takes a tree for settings: all keys are read and checked. Throws Error(usage).
RunFile settings_of(const RunFileTree& tree);

/// The keys that are there, each for itself: nothing is required, and nothing held against each other.
RunFile keys_of(const RunFileTree& tree);

/// Parses and checks `text`, the content of the run file `path` (needed for messages and relative paths).
RunFile parse_run_file(const std::string& text, const std::string& path, const std::vector<std::string>& overrides);

/// A complete run file that says the same with every key written out and absolute paths.
std::string resolved_text(const Settings& settings);

/// Settings that decide the numbers of the result, and whose values differ: lines "key: a -> b". Where a result file
/// was made from (`made`) and what is asked now (`asked`); only the last part of input.file counts, folders may move.
/// With `same_numbers` the input is known to be the same, whatever it is called.
std::vector<std::string> differences(const Settings& made, const Settings& asked, bool same_numbers = false);

}  // namespace annulus::runfile

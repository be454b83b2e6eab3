// Reads a run file: parses YAML text, and turns it into checked settings. Errors about the text are Error(usage) and
// start with `FILE:LINE:COLUMN: ` (1-based) or, if an override is wrong, with `--set a.b=value: `. Errors about the
// file itself start with `FILE: `.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/runfile/keys.hpp"
#include "annulus/runfile/settings.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::runfile {

/// The table of all keys of the run file, in the order of resolved_text(). Keys of one section are neighbours.
const std::vector<Key<Settings>>& run_file_keys();

/// Settings, and the location of each key that the user wrote.
struct RunFile {
  Settings settings;
  std::string name;  ///< the file's name as the user wrote it
  Locations locations;

  /// Returns the location with which an error about `key` ("distribution.strategy") begins. This is the location of the
  /// key. If the file lacks the key, it is the location of the innermost section around the key that the file has. If
  /// there is no such section, it is the location of the file's first key.
  std::string where(std::string_view key) const;
};

/// Throws Error(usage). The message is the location of `key`, the key, and a text such as ": 3 is odd" or " needs a
/// file".
template <class... Args>
[[noreturn]] void refuse(const RunFile& run, std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
  core::fail(core::ErrorKind::usage, "{}{}{}", run.where(key), key, fmt::format(format, std::forward<Args>(args)...));
}

/// The folder at which relative paths of the run file `path` start: the file's folder, or the current folder for
/// /dev/stdin and a shell's <(...).
std::string folder_of_paths(const std::string& path);

/// Reads the file on rank 0 and parses the same text on every rank. Collective. `overrides` are the values of --set,
/// "a.b=value" with a YAML value. Throws the same Error on every rank: usage, or failure if links form a circle.
RunFile read_run_file(const std::string& path, const std::vector<std::string>& overrides,
                      const comm::Communicator& comm);

/// The YAML of a run file after --set, not yet read as settings. A sweep makes such a tree for each case.
struct RunFileTree {
  std::string name;  ///< the file's name as the user wrote it
  YamlNode root;
};
/// read_run_file_tree() is collective. Both functions throw Error(usage), as read_run_file() does.
RunFileTree read_run_file_tree(const std::string& path, const std::vector<std::string>& overrides,
                               const comm::Communicator& comm);
RunFileTree parse_run_file_tree(const std::string& text, const std::string& path,
                                const std::vector<std::string>& overrides);

/// Sets the value of a key, and makes its sections if needed. Later errors say that the key was written at `location`.
void put(YamlNode& root, const std::string& key, YamlNode value, const std::string& location);

/// Reads all keys of a tree as settings and checks them. Throws Error(usage); Error(failure) if links form a circle.
RunFile settings_of(const RunFileTree& tree);

/// Reads the keys that the tree has. No key is required, and keys are not compared with each other.
RunFile keys_of(const RunFileTree& tree);

/// Parses and checks `text`, the content of the run file `path`. The path is needed for messages and relative paths.
RunFile parse_run_file(const std::string& text, const std::string& path, const std::vector<std::string>& overrides);

/// A complete run file with the same settings: it has every key that has a value and is used; every path is absolute.
std::string resolved_text(const Settings& settings);

/// Compares the settings that decide the numbers of a result: `made`, with which a file was made, and `asked`, which
/// the user wants now. Returns lines "key: a -> b". Folders may move, so input.file is compared without its folder.
/// `excused`: names of keys whose values may differ if both `made` and `asked` have a value for the key.
std::vector<std::string> differences(const Settings& made, const Settings& asked,
                                     const std::vector<std::string_view>& excused = {});

}  // namespace annulus::runfile

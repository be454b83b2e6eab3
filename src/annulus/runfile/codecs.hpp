// Reads and writes single values of a run file or a machine file. Reading is strict: it never converts a value of one
// kind to another kind, such as a quoted '12' to a number.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annulus/comm/file_hints.hpp"
#include "annulus/core/types.hpp"
#include "annulus/runfile/yaml_tree.hpp"

namespace annulus::runfile {

using core::Index;

/// One value in a file: its node, the full name of its key, and the folder at which relative paths start.
struct KeyValue {
  const YamlNode& node;
  std::string_view name;
  const std::string& folder;
  std::string words{};  ///< other words that refuse() names as expected: "auto, "

  /// True if the value is this word, plain or quoted.
  bool is_word(std::string_view word) const;
  /// Throws Error(usage) with the location, the key, the value and what is expected.
  [[noreturn]] void refuse(const std::string& expected) const;
  /// Call it if the key also allows `word`, and this value is not `word`. Returns this value, with a refuse() that
  /// names `word`, too. Throws Error(usage) if the value differs from `word` only by capital letters (None, AUTO),
  /// because the value could otherwise be taken for a path.
  KeyValue or_word(const std::string& word) const;
  /// The entries of this value. Throws Error(usage) if the value is not a list, or an empty list.
  const std::vector<YamlNode>& list() const;
  /// Calls take(key, value) for each entry of a section; the value's full name is then "NAME: KEY". Throws Error(usage)
  /// for a key that is not in `keys`; the message ends with `ending`.
  void each_entry(const std::vector<std::string>& keys, const std::string& ending,
                  const std::function<void(const std::string& key, const KeyValue& value)>& take) const;
};

template <class T>
struct Codec {
  std::string range;                              ///< allowed values, for messages: "true | false", "1 to 256"
  std::function<void(const KeyValue&, T&)> read;  ///< throws Error(usage)
  std::function<std::string(const T&)> write;     ///< as YAML; empty if there is no value
};

/// Accepts `true` and `false`, but not YAML's other words for them.
Codec<bool> flag();
/// text(): any text that is not empty. path(): a path; if it is relative, it starts at KeyValue::folder.
Codec<std::string> text();
Codec<std::string> path();
/// A finite number above 0, such as 1.5 or 1e3. Refuses 010 and 0x10 (octal, hexadecimal), '12', .inf, .nan, 1e999.
Codec<double> positive();
/// A whole decimal number between the bounds. Refuses 010 and 0x10 (octal, hexadecimal), 1e3, 1.5 and '12'.
Codec<Index> whole(Index least, Index most);
/// A number of bytes, at least 1: 1073741824, 512MiB, 2GiB. write() uses the largest unit that gives a whole number.
Codec<Index> bytes();

/// Names and values for MPI-IO, such as {striping_factor: 8, romio_cb_write: enable}, in the order of the file.
Codec<comm::FileHints> hints();

/// choice() reads one of several words, each of which stands for a value. It writes a value that has no word as the
/// first word. choose() returns the position in `words` of the user's word. If `words` lacks it, choose() throws
/// Error(usage), which suggests the most similar word.
std::size_t choose(const KeyValue& value, const std::vector<std::string>& words);
template <class T>
Codec<T> choice(const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  return {fmt::format("{}", fmt::join(words, " | ")),
          [=](const KeyValue& v, T& to) { to = choices[choose(v, words)].second; },
          [=](const T& from) {
            for (const auto& [word, value] : choices) {
              if (value == from) return word;
            }
            return words.front();
          }};
}

/// some_of() reads a list of words of `choices`; the list may have each word at most once. choose_some() returns the
/// words' positions in ascending order. So the values are in the order of `choices`, not in the user's order.
std::vector<std::size_t> choose_some(const KeyValue& value, const std::vector<std::string>& words);
template <class T>
Codec<std::vector<T>> some_of(const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  return {fmt::format("list of {}", fmt::join(words, ", ")),
          [=](const KeyValue& v, std::vector<T>& to) {
            to.clear();
            for (const std::size_t i : choose_some(v, words)) to.push_back(choices[i].second);
          },
          [=](const std::vector<T>& from) {
            std::vector<std::string> written;
            for (const auto& [word, value] : choices) {
              if (std::find(from.begin(), from.end(), value) != from.end()) written.push_back(word);
            }
            return fmt::format("[{}]", fmt::join(written, ", "));
          }};
}

/// word_or() reads `word` as `meaning`, and any other value with `codec`. optional() reads `word` (auto or none) as no
/// value. if_given() has no such word: only a key that the file lacks has no value.
template <class T>
Codec<T> word_or(const std::string& word, const T& meaning, const Codec<T>& codec) {
  return {word + ", or " + codec.range,
          [=](const KeyValue& v, T& to) {
            if (!v.is_word(word)) return codec.read(v.or_word(word), to);
            to = meaning;
          },
          [=](const T& from) { return from == meaning ? word : codec.write(from); }};
}
template <class T>
Codec<std::optional<T>> if_given(const Codec<T>& codec) {
  return {codec.range, [=](const KeyValue& v, std::optional<T>& to) { codec.read(v, to.emplace()); },
          [=](const std::optional<T>& from) { return from ? codec.write(*from) : ""; }};
}
template <class T>
Codec<std::optional<T>> optional(const std::string& word, const Codec<T>& codec) {
  return word_or<std::optional<T>>(word, std::nullopt, if_given(codec));
}

/// A column of a table: a list with one member of each row of the table, such as attention.dilations. The columns of a
/// table may come in any order and have different lengths; the table gets as many rows as the longest column.
template <class Row>
Codec<std::vector<Row>> column(const Codec<Row>& codec) {
  return {codec.range,
          [=](const KeyValue& v, std::vector<Row>& rows) {
            const std::vector<YamlNode>& items = v.list();
            if (rows.size() < items.size()) rows.resize(items.size());
            for (std::size_t i = 0; i < items.size(); ++i) codec.read({items[i], v.name, v.folder}, rows[i]);
          },
          [=](const std::vector<Row>& rows) {
            std::vector<std::string> words;
            for (const Row& row : rows) words.push_back(codec.write(row));
            return fmt::format("[{}]", fmt::join(words, ", "));
          }};
}
template <class Row, class T>
Codec<std::vector<Row>> column(T Row::*member, const Codec<T>& codec) {
  return column<Row>({codec.range, [=](const KeyValue& v, Row& row) { codec.read(v, row.*member); },
                      [=](const Row& row) { return codec.write(row.*member); }});
}

/// Returns a YAML scalar that is read back as `text`. The scalar is in quotes unless `text` is a simple word or path.
std::string quote(const std::string& text);

}  // namespace annulus::runfile

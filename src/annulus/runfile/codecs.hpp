// How single values of a run file or a machine file are read and written. Reading is strict: what looks like one thing
// is never taken for another.
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

/// One value of a file: the node, its key's full name, and the folder that relative paths start from.
struct KeyValue {
  const YamlNode& node;
  std::string_view name;
  const std::string& folder;

  /// True when it is the plain or quoted word.
  bool is_word(std::string_view word) const;
  /// Throws Error(usage) with the location, the key, what was found and what is expected.
  [[noreturn]] void refuse(const std::string& expected) const;
  /// The entries of a list of one at least. Throws Error(usage).
  const std::vector<YamlNode>& list() const;
  /// Calls take(key, value) for each entry of a section, whose name is then "NAME: KEY". Throws Error(usage) at a key
  /// that is none of `keys`; `ending` ends the message.
  void each_entry(const std::vector<std::string>& keys, const std::string& ending,
                  const std::function<void(const std::string& key, const KeyValue& value)>& take) const;
};

template <class T>
struct Codec {
  std::string range;                              ///< what may be written: "true | false", "1 to 256"
  std::function<void(const KeyValue&, T&)> read;  ///< throws Error(usage)
  std::function<std::string(const T&)> write;     ///< as YAML; empty where there is no value
};

/// `true` or `false`, and none of YAML's further words for them.
Codec<bool> flag();
/// Any text but an empty one, and that as a path from the file's folder on.
Codec<std::string> text();
Codec<std::string> path();
/// A finite number above 0. Refused as in whole(), and .inf, .nan, 1e999.
Codec<double> positive();
/// A whole number in decimal, between the bounds. Refused: 010 and 0x10 (octal, hexadecimal), 1e3, 1.5, '12'.
Codec<Index> whole(Index least, Index most);
/// Bytes, 1 or more: 1073741824, 512MiB, 2GiB. Written in the largest unit that fits.
Codec<Index> bytes();

/// {striping_factor: 8, romio_cb_write: enable}: names and values as MPI-IO takes them, in the order of the text.
Codec<comm::FileHints> hints();

/// One of the words (choose() gives its position; the error suggests the nearest), each of which stands for a value. A
/// value that none stands for is written as the first.
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

/// Some of the words, or none, each once (choose_some() gives their positions, ascending): values in the order of
/// `choices`, however they are written.
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

/// A word that stands for a value (for `auto` and `none`: of an optional one, that there is none), or what `codec`
/// takes.
template <class T>
Codec<T> word_or(const std::string& word, const T& meaning, const Codec<T>& codec) {
  return {word + ", or " + codec.range,
          [=](const KeyValue& v, T& to) {
            if (v.is_word(word)) {
              to = meaning;
            } else {
              codec.read(v, to);
            }
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

/// A list that holds a part of each row of a table, or one member. Lists of several parts may come in any order and be
/// of different lengths: the longest decides how many rows there are.
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

/// `text` as a YAML scalar that reads back as the same text: quoted unless made of plain letters.
std::string quote(const std::string& text);

}  // namespace annulus::runfile

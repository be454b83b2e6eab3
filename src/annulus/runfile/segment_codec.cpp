#include "annulus/runfile/segment_codec.hpp"

#include "annulus/core/error.hpp"
#include "annulus/runfile/suggest.hpp"

namespace annulus::runfile {
namespace {

using pattern::Pair;
using pattern::Window;

const std::string form = "{window: w | [left, right], first: f}";

/// w, or [left, right].
void read_limits(const KeyValue& value, Index most_rows, Window& to) {
  if (value.node.kind != YamlNode::Kind::list) {
    Index rows = 0;
    whole(1, most_rows).read(value, rows);
    to.left = to.right = rows - 1;  // a causal mask hides the rows on the right
    return;
  }
  if (value.node.items.size() != 2) {
    core::fail(core::ErrorKind::usage, "{}{}: a list of {}, expected rows or [left, right]", value.node.location,
               value.name, value.node.items.size());
  }
  for (const std::size_t i : {0u, 1u})
    whole(0, most_rows).read({value.node.items[i], value.name, value.folder}, i == 0 ? to.left : to.right);
}

void read_window(const KeyValue& value, Index most_rows, Window& to) {
  bool is_there = false;
  for (std::size_t i = 0; i < value.node.entries.size(); ++i) {
    const auto& [word, node] = value.node.entries[i];
    const std::string name = fmt::format("{}: {}", value.name, word);
    if (word == "window") {
      is_there = true;
      read_limits({node, name, value.folder}, most_rows, to);
    } else if (word == "first") {
      whole(0, most_rows).read({node, name, value.folder}, to.first);
    } else {
      core::fail(core::ErrorKind::usage, "{}unknown key '{}' in {}{}, expected {}", value.node.key_locations[i], word,
                 value.name, suggest(word, {"window", "first"}), form);
    }
  }
  if (!is_there) value.refuse(form);
}

}  // namespace

Codec<Pair> segment(Index most_rows) {
  const Codec<Index> rows = word_or("all", pattern::whole_document, whole(1, most_rows));
  const auto read = [=](const KeyValue& value, Pair& to) {
    to.window.reset();
    to.segment = pattern::whole_document;
    if (value.node.kind == YamlNode::Kind::section) {
      read_window(value, most_rows, to.window.emplace());
    } else if (value.node.kind == YamlNode::Kind::list) {
      value.refuse("rows, all, or " + form);
    } else {
      rows.read(value, to.segment);
    }
  };
  return {"rows, 1 or more, all, or " + form, read, pattern::segment_text};
}

}  // namespace annulus::runfile

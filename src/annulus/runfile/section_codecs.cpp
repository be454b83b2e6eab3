#include "annulus/runfile/section_codecs.hpp"

#include "annulus/core/error.hpp"

namespace annulus::runfile {
namespace {

using pattern::Pair;
using pattern::Window;

const std::string window_form = "{window: w | [left, right], first: f}";
const std::string bias_form = "{alibi: auto | [slope, ...], exempt: e}";

/// Reads the value of `window`: w, or [left, right].
void read_limits(const KeyValue& value, Index most_rows, Window& to) {
  if (value.node.kind != YamlNode::Kind::list) {
    Index rows = 0;
    whole(1, most_rows).read(value, rows);
    to.left = to.right = rows - 1;  // complete_windows() sets `right` to 0 if attention is causal
    return;
  }
  if (value.node.items.size() != 2) {
    core::fail(core::ErrorKind::usage, "{}{}: a list of {} entries, expected a number of rows, or [left, right]",
               value.node.location, value.name, value.node.items.size());
  }
  for (const std::size_t i : {0u, 1u})
    whole(0, most_rows).read({value.node.items[i], value.name, value.folder}, i == 0 ? to.left : to.right);
}

void read_window(const KeyValue& value, Index most_rows, Window& to) {
  value.each_entry({"window", "first"}, ", expected " + window_form,
                   [&](const std::string& key, const KeyValue& entry) {
                     if (key == "first") return whole(0, most_rows).read(entry, to.first);
                     read_limits(entry, most_rows, to);
                   });
  if (value.node.find("window") == nullptr) value.refuse(window_form);
}

/// Reads `auto`, or a list with one slope for each query head.
void read_slopes(const KeyValue& value, std::optional<std::vector<double>>& to) {
  to.reset();
  if (value.is_word("auto")) return;
  if (value.node.kind != YamlNode::Kind::list) value.refuse("auto, or a list of slopes, one for each query head");
  to.emplace();
  for (const YamlNode& node : value.list()) {
    const KeyValue slope{node, value.name, value.folder};
    const bool is_zero =
        node.text == "0" || (node.text.starts_with("0.") && node.text.find_first_not_of('0', 2) == std::string::npos);
    to->push_back(0);
    if (!is_zero || node.quoted) positive().read(slope, to->back());
  }
}

}  // namespace

Codec<Pair> segment(Index most_rows) {
  const Codec<Index> rows = word_or("all", pattern::whole_document, whole(1, most_rows));
  const auto read = [=](const KeyValue& value, Pair& to) {
    to.window.reset();
    to.segment = pattern::whole_document;
    if (value.node.kind == YamlNode::Kind::section) return read_window(value, most_rows, to.window.emplace());
    if (value.node.kind == YamlNode::Kind::list) value.refuse("rows, all, or " + window_form);
    rows.read(value, to.segment);
  };
  return {"rows, 1 or more, all, or " + window_form, read, pattern::segment_text};
}

Codec<BiasSettings> bias(Index most_rows) {
  const auto read = [=](const KeyValue& value, BiasSettings& to) {
    if (value.node.kind != YamlNode::Kind::section) value.refuse(bias_form);
    value.each_entry({"alibi", "exempt"}, ", expected " + bias_form,
                     [&](const std::string& key, const KeyValue& entry) {
                       if (key == "exempt") return whole(0, most_rows).read(entry, to.exempt);
                       read_slopes(entry, to.slopes);
                     });
    if (value.node.find("alibi") == nullptr) value.refuse(bias_form);
  };
  const auto write = [](const BiasSettings& from) {
    const std::string slopes = from.slopes ? fmt::format("[{}]", fmt::join(*from.slopes, ", ")) : "auto";
    return fmt::format("{{alibi: {}, exempt: {}}}", slopes, from.exempt);
  };
  return {bias_form, read, write};
}

}  // namespace annulus::runfile

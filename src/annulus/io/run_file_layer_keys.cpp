// Keys of the sections layer and train.
#include "annulus/io/run_file_keys.hpp"
#include "annulus/io/yaml_values.hpp"

namespace annulus::io {
namespace {

constexpr Index max_heads = 1'000'000;
constexpr Index max_steps = 1'000'000'000;

/// Reads into, and writes from, a part of the settings that a run file may lack.
template <class Part>
Access part(std::optional<Part> Settings::*member, std::function<void(const KeyValue&, Part&)> read,
            std::function<std::string(const Part&)> write) {
  return {[=](const KeyValue& v, Settings& s) { read(v, *(s.*member)); },
          [=](const Settings& s) { return s.*member ? write(*(s.*member)) : ""; }};
}

Access dataset(std::string LayerSettings::*name) {
  return part<LayerSettings>(
      &Settings::layer, [=](const KeyValue& v, LayerSettings& layer) { layer.*name = read_text(v.node, v.name); },
      [=](const LayerSettings& layer) { return quote(layer.*name); });
}

Access dataset_or_none(std::optional<std::string> LayerSettings::*name) {
  return part<LayerSettings>(
      &Settings::layer,
      [=](const KeyValue& v, LayerSettings& layer) {
        (layer.*name).reset();
        if (!is_word(v.node, "none")) layer.*name = read_text(v.node, v.name);
      },
      [=](const LayerSettings& layer) { return layer.*name ? quote(*(layer.*name)) : "none"; });
}

template <class Part>
Access count(std::optional<Part> Settings::*section, Index Part::*number, Index most) {
  return part<Part>(
      section, [=](const KeyValue& v, Part& part) { part.*number = read_integer(v.node, v.name, 1, most); },
      [=](const Part& part) { return std::to_string(part.*number); });
}

Access rope() {
  return part<LayerSettings>(
      &Settings::layer,
      [](const KeyValue& v, LayerSettings& layer) {
        layer.rope.reset();
        if (is_word(v.node, "none")) return;
        const YamlNode& base = read_only_entry(v.node, v.name, "base", "none or {base: 10000}");
        layer.rope = read_positive_number(base, "layer.rope.base");
      },
      [](const LayerSettings& layer) { return layer.rope ? fmt::format("{{base: {}}}", *layer.rope) : "none"; });
}

Access sharding() {
  static const std::vector<std::string> names{"none", "fsdp", "tensor"};
  return part<LayerSettings>(
      &Settings::layer,
      [](const KeyValue& v, LayerSettings& layer) { layer.sharding = names[read_choice(v.node, v.name, names)]; },
      [](const LayerSettings& layer) { return layer.sharding; });
}

Access rate() {
  return part<TrainSettings>(
      &Settings::train,
      [](const KeyValue& v, TrainSettings& train) { train.rate = read_positive_number(v.node, v.name); },
      [](const TrainSettings& train) { return fmt::format("{}", train.rate); });
}

Access target() {
  return part<TrainSettings>(
      &Settings::train, [](const KeyValue& v, TrainSettings& train) { train.target = read_text(v.node, v.name); },
      [](const TrainSettings& train) { return quote(train.target); });
}

Access checkpoint() {
  return part<TrainSettings>(
      &Settings::train,
      [](const KeyValue& v, TrainSettings& train) { train.checkpoint = absolute(read_text(v.node, v.name), v.folder); },
      [](const TrainSettings& train) { return quote(train.checkpoint); });
}

}  // namespace

std::vector<Key> layer_keys() {
  using L = LayerSettings;
  return {
      {{"layer.x", "/x", "dataset, (batch, sequence, width)"}, dataset(&L::x), true},
      {{"layer.dy", "/dy", "dataset shaped like x: gradient of y; read when compute.backward is true"},
       dataset(&L::dy),
       true},
      {{"layer.wq", "/wq", "dataset, (width, heads * head_dim)"}, dataset(&L::wq), true},
      {{"layer.wk", "/wk", "dataset, (width, kv_heads * head_dim)"}, dataset(&L::wk), true},
      {{"layer.wv", "/wv", "dataset, (width, kv_heads * head_dim)"}, dataset(&L::wv), true},
      {{"layer.wo", "/wo", "dataset, (heads * head_dim, width)"}, dataset(&L::wo), true},
      {{"layer.bq", "none", "none, or a dataset (heads * head_dim), added to x wq"}, dataset_or_none(&L::bq), true},
      {{"layer.bk", "none", "none, or a dataset (kv_heads * head_dim), added to x wk"}, dataset_or_none(&L::bk), true},
      {{"layer.bv", "none", "none, or a dataset (kv_heads * head_dim), added to x wv"}, dataset_or_none(&L::bv), true},
      {{"layer.bo", "none", "none, or a dataset (width), added to y"}, dataset_or_none(&L::bo), true},
      {{"layer.heads", "", "query heads, 1 to 10^6"}, count(&Settings::layer, &L::heads, max_heads), true},
      {{"layer.kv_heads", "", "K/V heads, a divisor of heads; default: as many as heads"},
       count(&Settings::layer, &L::kv_heads, max_heads),
       true},
      {{"layer.rope", "none", "none, or {base: number above 1}: rotary position embedding of q and k"}, rope(), true},
      {{"layer.sharding", "none", "none | fsdp | tensor: how weights lie on ranks"}, sharding(), false},
      {{"train.steps", "", "steps of gradient descent, 1 to 10^9"},
       count(&Settings::train, &TrainSettings::steps, max_steps),
       false},
      {{"train.rate", "", "a number above 0: weights -= rate * gradient"}, rate(), true},
      {{"train.target", "/target", "dataset shaped like x: what y shall become"}, target(), true},
      {{"train.checkpoint", "", "path of the HDF5 file that a stopped training goes on from"}, checkpoint(), false},
      {{"train.save_every", "10", "steps from one checkpoint to the next, 1 or more"},
       count(&Settings::train, &TrainSettings::save_every, max_steps),
       false},
  };
}

}  // namespace annulus::io

#include "annulus/runfile/run_file.hpp"

#include <array>

#include "annulus/core/head_dim.hpp"
#include "annulus/runfile/section_codecs.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::runfile {
namespace {

using Keys = std::vector<Key<Settings>>;

// Limits that no real problem reaches. They are small enough that rows x heads x 8 bytes fits into 64 bits.
constexpr Index max_rows = 1'000'000'000'000;
constexpr Index max_heads = 1'000'000;
constexpr Index max_ranks = 1'000'000'000;  // MPI counts ranks with an int
constexpr Index max_steps = 1'000'000'000;
constexpr Index max_runs = 1'000'000;
constexpr Index max_top_keys = 1024;

template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;

/// Reads one of several values: those of `first`, and the entries of `table`, which have a `name` and a `value`.
template <class Value, class Table>
Codec<Value> one_of(const Table& table, Choices<Value> first = {}) {
  for (const auto& entry : table) first.emplace_back(entry.name, entry.value);
  return choice(first);
}

/// Reads one of several values: those of `first`, and `values`, each with the name that name_of() returns.
template <class Value, class List>
Codec<Value> one_named(const List& values, Choices<Value> first = {}) {
  for (const auto& value : values) first.emplace_back(name_of(value), value);
  return choice(first);
}

Codec<std::uint64_t> seed() {
  const Codec<Index> number = whole(0, INT64_MAX);
  const auto read = [=](const KeyValue& value, std::uint64_t& to) {
    Index found = 0;
    number.read(value, found);
    to = std::uint64_t(found);
  };
  return {number.range, read, [](std::uint64_t from) { return std::to_string(from); }};
}

/// Accepts `auto`, `none`, or a row number.
Codec<pattern::QueryOffset> query_offset() {
  using pattern::QueryOffset;
  const Codec<Index> row = whole(0, max_rows);
  const Codec<QueryOffset> at_row{"row " + row.range,
                                  [=](const KeyValue& value, QueryOffset& to) {
                                    if (!parse_whole(value.node.text, {0, max_rows}).number)
                                      value.refuse("a row of k, 0 or more");
                                    to.kind = QueryOffset::Kind::row;
                                    row.read(value, to.row);
                                  },
                                  [=](const QueryOffset& from) { return row.write(from.row); }};
  return word_or("auto", QueryOffset{}, word_or("none", QueryOffset{QueryOffset::Kind::none}, at_row));
}

/// Accepts `{base: 10000}`.
Codec<double> base_of_rope() {
  const auto read = [](const KeyValue& value, double& to) {
    value.each_entry({"base"}, "", [&](const std::string&, const KeyValue& entry) {
      const KeyValue number{entry.node, "layer.rope.base", value.folder};
      positive().read(number, to);
      if (to <= 1) number.refuse("a number above 1");
    });
    if (value.node.find("base") == nullptr) value.refuse("{base: 10000}");
  };
  return {"{base: number above 1}", read, [](double base) { return fmt::format("{{base: {}}}", base); }};
}

void add_input(Keys& keys) {
  using I = InputSettings;
  using core::Shape;
  const auto attention_alone = [](const Settings& s) { return !s.layer; };  // a layer makes q, k, v and dout itself
  Section input(
      keys, "input", [](auto& s) { return &s.input; }, true);
  Section made(
      keys, "input.generate", [](auto& s) { return s.input.generate ? &*s.input.generate : nullptr; }, true);
  Section shape(
      keys, "input.generate", [](auto& s) { return s.input.generate ? &s.input.generate->shape : nullptr; }, true);
  input.field("file", &I::file, if_given(path()), "path of an HDF5 file; give this or generate");
  shape.field("sequence", &Shape::sequence, whole(1, max_rows), "rows, {}").required = true;
  shape.field("heads", &Shape::heads, whole(1, max_heads), "query heads, {}").required = true;
  shape.field("kv_heads", &Shape::kv_heads, whole(1, max_heads),
              "K/V heads, a divisor of heads; default: as many as heads");
  shape.field("head_dim", &Shape::head_dim, whole(1, core::most_head_dim), "numbers per head, {}");
  made.field("value_dim", &GenerateSettings::value_dim, optional("auto", whole(1, core::most_head_dim)),
             fmt::format("numbers per head of v, dout and out, 1 to {}; auto: as head_dim", core::most_head_dim));
  shape.field("batch", &Shape::batch, whole(1, max_heads), "batch entries, {}");
  made.field("queries", &GenerateSettings::queries, optional("auto", whole(1, max_rows)),
             "rows of q; auto: as many as sequence; see query_offset");
  made.field("dtype", &GenerateSettings::type, one_named<core::DType>(core::all_dtypes));
  made.field("seed", &GenerateSettings::seed, seed(), "whole number, {}");
  input
      .field("axes", &I::axes,
             one_named<std::optional<core::AxisOrder>>(std::array{core::AxisOrder::bshd, core::AxisOrder::bhsd}),
             "{} (PyTorch's order): axes of q, k, v, dout, dlse, and of the output; not given: as the file names them, "
             "otherwise bshd")
      .has_use = [](const Settings& s) { return s.input.file && !s.layer; };
  input.field("q", &I::q, text(), "dataset, (batch, sequence, heads, head_dim)").has_use = attention_alone;
  input.field("k", &I::k, text(), "dataset, (batch, sequence, kv_heads, head_dim)").has_use = attention_alone;
  input.field("v", &I::v, text(), "dataset, (batch, sequence, kv_heads, head_dim or another size)").has_use =
      attention_alone;
  input.field("dout", &I::dout, text(), "dataset shaped like out: its gradient; read when compute.backward is true")
      .has_use = attention_alone;
  input.field("dlse", &I::dlse, optional("none", text()),
              "none, or a dataset (batch, sequence, heads): gradient of lse, in the type of lse");
  input.field("documents", &I::documents, optional("none", text()),
              "none, or a dataset of ascending row offsets of packed documents, from 0 to at most sequence");
  input.field("lengths", &I::lengths, optional("none", text()),
              "none, or a dataset (batch) or (batch, 2): how many rows exist of each batch entry, or their range");
  input
      .field("query_offset", &I::query_offset, query_offset(),
             "{}: the row of k at which q begins; auto: q is the last rows; none: q has no row numbers")
      .has_use = attention_alone;
  input.field("coordinates", &I::coordinates, optional("none", text()),
              "none, or a dataset (sequence, 2): positions of rows, for attention.bias");
  input.field("sink", &I::sink, optional("none", text()),
              "none, or a dataset (heads) of sink logits: scores of one more key, whose value is 0, for every row that "
              "sees a key");
}

void add_attention(Keys& keys) {
  using pattern::Pair;
  using pattern::Pattern;
  Section attention(
      keys, "attention", [](auto& s) { return &s.attention; }, true);
  Section pattern(
      keys, "attention", [](auto& s) { return &s.attention.pattern; }, true);
  pattern.field("semantics", &Pattern::semantics, one_of<pattern::Semantics>(pattern::semantics_table));
  pattern.field("segments", &Pattern::pairs, column(segment(max_rows)), "{}: one entry per pair");
  pattern.field("dilations", &Pattern::pairs, column(&Pair::dilation, whole(1, max_rows)),
                "rows from one picked row to the next, 1 or more: one entry per pair");
  pattern.field("causal", &Pattern::causal, flag(), "{}; true: a row sees itself and rows before it");
  attention.field("scale", &AttentionSettings::scale, optional("auto", positive()),
                  "auto: 1/sqrt(head_dim), or a number above 0");
  attention.field("softcap", &AttentionSettings::softcap, optional("none", positive()),
                  "none, or a number above 0: scores s become softcap * tanh(s / softcap)");
  attention.field("bias", &AttentionSettings::bias, optional("none", bias(max_rows)),
                  "none, or {alibi: auto | [slope, ...], exempt: e}: subtracts slope * distance of the two rows "
                  "from each score");
  pattern.field("group_scale", &Pattern::group_scale, flag(),
                "{}; true needs semantics grouped: output / number of pairs");
}

void add_compute(Keys& keys) {
  using C = ComputeSettings;
  Section compute(
      keys, "compute", [](auto& s) { return &s.compute; }, true);
  compute
      .field("backend", &C::backend,
             one_named<std::optional<core::Backend>>(core::all_backends, {{"auto", std::nullopt}}),
             "{}; auto: in builds for GPUs a library, if it serves the run, otherwise device; in other builds host; "
             "annulus computes what a library cannot")
      .decides_result = false;
  compute.field("backward", &C::gradients, flag(), "{}; true makes the gradients dq, dk, dv, too");
  compute.field(
      "precision", &C::precision,
      one_named<std::optional<core::Precision>>(core::all_precisions, {{"auto", std::nullopt}}),
      "{}; float32, float64: precision of sums; the others: of products; auto: by the input's type and the processor");
  compute.field("reproducible", &C::reproducible, flag(), "{}; true: the same bits for any number of ranks and threads")
      .decides_result = false;
  compute
      .field(
          "memory_limit", &C::memory_limit, optional("auto", bytes()),
          "auto: from free memory, or bytes, like 512MiB or 2GiB: what a rank may use; larger problems run in passes")
      .decides_result = false;
}

void add_distribution(Keys& keys) {
  using D = DistributionSettings;
  using comm::GpuAware;
  using comm::Transport;
  Section distribution(keys, "distribution", [](auto& s) { return &s.distribution; });
  distribution.field("strategy", &D::strategy, text(), "auto, or a name that annulus list shows");
  distribution.field("partition", &D::partition,
                     one_of<std::optional<pattern::PartitionKind>>(pattern::partition_table, {{"auto", std::nullopt}}));
  distribution.field("block_size", &D::block_size, optional("auto", whole(1, max_rows)),
                     "auto, or rows of a block, 1 or more; for partition block_cyclic, and for strategy stream");
  distribution.field("ulysses_ranks", &D::ulysses_ranks, optional("auto", whole(1, max_ranks)),
                     "auto: ranks of a node, or a divisor of the ranks; for strategy hybrid");
  distribution.field("local_below", &D::local_below, optional("auto", whole(0, max_rows)),
                     "rows, 0 or more: strategy auto runs shorter sequences on one rank; auto: the cost model decides");
  distribution.field("transport", &D::transport,
                     choice<Transport>({{"mpi", Transport::mpi}, {"nccl", Transport::nccl}}),
                     "{}; nccl moves rows between GPUs; every rank needs its own GPU");
  distribution.field("gpu_aware", &D::gpu_aware,
                     choice<GpuAware>({{"auto", GpuAware::automatic}, {"on", GpuAware::on}, {"off", GpuAware::off}}),
                     "{}; on hands device memory to MPI, off stages it in host memory");
  distribution.field("stall_timeout", &D::stall_timeout, positive(),
                     "seconds, above 0; the run ends if no rank makes progress, or a call hangs, for this long");
  distribution.field("machine", &D::machine, optional("none", path()),
                     "none, or path of a machine file (plan --calibrate) that strategy auto uses");
}

void add_output(Keys& keys) {
  using O = OutputSettings;
  Section output(keys, "output", [](auto& s) { return &s.output; });
  output
      .field("file", &O::file, word_or<std::string>(O::no_file, O::no_file, path()),
             "path of the HDF5 file to make, or none: compute and time only")
      .required = true;
  output.field("overwrite", &O::overwrite, flag(), "{}; true replaces an existing file (report and trace, too)");
  Key<Settings>& type =
      output.field("type", &O::type,
                   one_named<std::optional<core::DType>>(std::array{core::DType::float32, core::DType::float64},
                                                         {{"auto", std::nullopt}}),
                   "{}: type of out, dq, dk, dv and of all tensors of a layer; auto: the input's");
  type.decides_result = true;
  Choices<Statistic> statistics;
  for (const Statistic one : all_statistics) statistics.emplace_back(name_of(one), one);
  output
      .field("statistics", &O::statistics, some_of(statistics),
             "{}: which statistics of the probabilities are written beside out and lse")
      .decides_result = true;
  Key<Settings>& top_keys = output.field("top_keys", &O::top_keys, whole(1, max_top_keys),
                                         "keys that statistic top lists for each query, {}");
  top_keys.decides_result = true;
  top_keys.has_use = [](const Settings& s) { return s.output.has(Statistic::top); };
  output.field(
      "alignment", &O::alignment, optional("auto", bytes()),
      "auto: datasets of 16MiB or more start at multiples of 1MiB; or bytes, like 4MiB: datasets of this size or "
      "more start at multiples of it");
  output.field("hints", &O::hints, hints(), "{}, like striping_factor: 8; the file is made with them");
  output.field("report", &O::report, optional("none", path()), "none, or path of a JSON file");
  output.field("trace", &O::trace, optional("none", path()),
               "none, or path of a JSON file that trace viewers open: what every rank did and when");
}

void add_layer(Keys& keys) {
  using L = LayerSettings;
  Section layer(
      keys, "layer", [](auto& s) { return s.layer ? &*s.layer : nullptr; }, true);
  layer.field("x", &L::x, text(), "dataset, (batch, sequence, width)");
  layer.field("dy", &L::dy, text(), "dataset shaped like x: gradient of y; read when compute.backward is true");
  layer.field("wq", &L::wq, text(), "dataset, (width, heads * head_dim)");
  layer.field("wk", &L::wk, text(), "dataset, (width, kv_heads * head_dim)");
  layer.field("wv", &L::wv, text(), "dataset, (width, kv_heads * head_dim)");
  layer.field("wo", &L::wo, text(), "dataset, (heads * head_dim, width)");
  layer.field("bq", &L::bq, optional("none", text()), "none, or a dataset (heads * head_dim), added to x wq");
  layer.field("bk", &L::bk, optional("none", text()), "none, or a dataset (kv_heads * head_dim), added to x wk");
  layer.field("bv", &L::bv, optional("none", text()), "none, or a dataset (kv_heads * head_dim), added to x wv");
  layer.field("bo", &L::bo, optional("none", text()), "none, or a dataset (width), added to y");
  layer.field("heads", &L::heads, whole(1, max_heads), "query heads, {}").required = true;
  layer.field("kv_heads", &L::kv_heads, whole(1, max_heads),
              "K/V heads, a divisor of heads; default: as many as heads");
  layer.field("rope", &L::rope, optional("none", base_of_rope()), "{}: rotary position embedding of q and k");
  layer
      .field("sharding", &L::sharding, choice<std::string>({{"none", "none"}, {"fsdp", "fsdp"}, {"tensor", "tensor"}}),
             "{}: how weights are divided among ranks")
      .decides_result = false;
}

void add_train(Keys& keys) {
  using T = TrainSettings;
  Section train(keys, "train", [](auto& s) { return s.train ? &*s.train : nullptr; });
  train.field("steps", &T::steps, whole(1, max_steps), "steps of gradient descent, {}").required = true;
  Key<Settings>& rate = train.field("rate", &T::rate, positive(), "{}: weights -= rate * gradient");
  rate.required = rate.decides_result = true;
  train.field("target", &T::target, text(), "dataset shaped like x: what y should become").decides_result = true;
  train.field("checkpoint", &T::checkpoint, path(), "path of the HDF5 file from which a stopped training continues")
      .required = true;
  train.field("save_every", &T::save_every, whole(1, max_steps), "steps from one checkpoint to the next, {}");
}

void add_bench(Keys& keys) {
  using B = BenchSettings;
  Section bench(keys, "bench", [](auto& s) { return s.bench ? &*s.bench : nullptr; });
  bench.field("sweep", &B::sweep, sweep_axes(), "list of axes: keys and their values, or {from, to, times or step}")
      .required = true;
  bench.field("skip", &B::skip, skip_conditions(),
              "list of conditions: a case that meets every key of one of them is left out");
  bench.field("repeats", &B::repeats, whole(1, max_runs), "measured runs of a case, {}");
  bench.field("warmup", &B::warmup, whole(0, max_runs), "runs of a case before the measured ones, {}");
  bench.field("verify_rows", &B::verify_rows, whole(0, max_rows), "rows compared with the definition, {}; 0: none");
  bench.field("file", &B::file, path(), "path of the HDF5 file with the table").required = true;
  bench.field("json", &B::json, optional("none", path()), "none, or path of a JSON file with the same table");
}

}  // namespace

const std::vector<Key<Settings>>& run_file_keys() {
  static const Keys table = [] {
    Keys keys;
    for (const auto add :
         {add_input, add_attention, add_compute, add_distribution, add_output, add_layer, add_train, add_bench}) {
      add(keys);
    }
    return keys;
  }();
  return table;
}

}  // namespace annulus::runfile

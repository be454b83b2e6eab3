// `annulus generate`: makes an input file for attention or for an attention layer.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/core/head_dim.hpp"
#include "annulus/core/print.hpp"
#include "annulus/report/progress.hpp"
#include "annulus/runfile/run_file_checks.hpp"
#include "annulus/store/generated.hpp"
#include "annulus/store/output_file.hpp"

namespace annulus::app {
namespace {

using core::TensorId;

struct Given {
  std::string output;
  runfile::GenerateSettings what;    ///< kv_heads 0 means: as many as heads
  bool dout = false;                 ///< make dout, too
  bool dlse = false;                 ///< make dlse, too
  std::optional<Index> layer_width;  ///< if set, make the input of a layer of this width
  bool biases = false;               ///< the layer has biases, too
  bool overwrite = false;
};

/// A dataset of the file, and how its numbers are generated.
struct Dataset {
  store::TensorSpec spec;
  store::GeneratedTensor numbers;
  bool is_weight = false;  ///< it is a matrix or vector, not a tensor with rows
};

/// Fills in what the user left out of the shape, and checks whether the options fit together.
void complete(Given& given) {
  given.what.complete();
  const core::Shape& shape = given.what.shape;
  if (const auto objection = runfile::objection_to(given.what)) {
    std::string option = objection->extent;
    std::replace(option.begin(), option.end(), '_', '-');
    core::fail(core::ErrorKind::usage, "generate --{}: {}", option, objection->reason);
  }
  if (!given.layer_width) return;
  const double width = double(*given.layer_width);
  const auto check = [&](const char* what, const char* option,
                         double numbers) {  // with this limit, the sum over all datasets fits into 64 bits
    if (8 * numbers <= 1e18) return;
    core::fail(core::ErrorKind::usage, "generate: --layer {} and {}: {:.2g} bytes {}, expected at most 1e18",
               *given.layer_width, option, 8 * numbers, what);
  };
  check("in each of x, dy and target", "--sequence", double(shape.batch) * double(shape.sequence) * width);
  check("in each of wq and wo", "--heads", width * double(shape.heads) * double(shape.head_dim));
}

/// Makes a dataset (B, S, ...).
Dataset rows_of(TensorId id, const store::TensorSpec& spec) {
  const Index numbers = std::accumulate(spec.extents.begin() + 2, spec.extents.end(), Index(1), std::multiplies<>());
  return {spec, {id, *spec.type.dtype(), spec.extents[0], spec.extents[1], numbers, 1}};
}

std::vector<Dataset> datasets_of_attention(const Given& given) {
  const core::DType type = given.what.type;
  std::vector<Dataset> all;
  const auto add = [&](TensorId id, const char* name, core::DType stored) {
    all.push_back(rows_of(
        id, store::tensor_spec(name, stored, given.what.shape, core::AxisOrder::bshd, given.what.query_rows())));
  };
  add(TensorId::q, "q", type);
  add(TensorId::k, "k", type);
  add(TensorId::v, "v", type);
  if (given.dout) add(TensorId::dout, "dout", type);
  if (given.dlse) add(TensorId::dlse, "dlse", core::lse_type(type));
  return all;
}

std::vector<Dataset> datasets_of_layer(const Given& given) {
  layer::LayerProblem problem;  // only its shapes are used, not its pattern
  problem.width = *given.layer_width;
  problem.attention.shape = given.what.shape;
  problem.attention.type = given.what.type;
  problem.biases.fill(given.biases);
  std::vector<Dataset> all{rows_of(TensorId::x, rows_spec("x", problem)),
                           rows_of(TensorId::dy, rows_spec("dy", problem)),
                           rows_of(TensorId::target, rows_spec("target", problem))};
  const std::vector<store::TensorSpec> specs = weight_specs("", problem);
  for (const layer::Weight weight : layer::all_weights) {  // `specs` has only weights; `all` begins with x, dy, target
    if (!problem.has(weight)) continue;
    // This scale gives the matrix columns with a norm of about 1, so x with variance 1 gives products with variance 1.
    const core::Rectangle box = layer::whole(problem, weight);
    const double scale = layer::is_bias(weight) ? 0.1 : 1 / std::sqrt(double(box.rows.size()));
    const auto id = TensorId(std::uint64_t(TensorId::wq) + std::uint64_t(weight));
    all.push_back({specs[all.size() - 3], {id, given.what.type, 1, box.rows.size(), box.columns.size(), scale}, true});
  }
  return all;
}

/// An option whose value is the name of a storage type.
Option storage_type(core::DType& type) {
  std::vector<std::string> names;
  for (const core::DType known : core::all_dtypes) names.emplace_back(core::name_of(known));
  const auto take = [&type, names](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) return fmt::format("one of {}{}", fmt::join(names, ", "), runfile::suggest(word, names));
    type = core::all_dtypes[std::size_t(found - names.begin())];
    return std::string();
  };
  return {"--dtype", "TYPE", "float64, float32, float16 or bfloat16", take,
          [&type] { return std::string(core::name_of(type)); }};
}

std::vector<Option> options_of(Given& given) {
  const auto required = [](Option option) {
    option.required = true;
    return option;
  };
  core::Shape& shape = given.what.shape;
  const runfile::WholeRange any{1};
  Option layer = whole("--layer", given.layer_width, {1, Index(1) << 30},
                       "Width of an attention layer to make instead: x, dy, target, wq, wk, wv, wo");
  layer.excludes = {"--dout", "--dlse"};
  Option queries = whole("--queries", given.what.queries, any, "Rows of q, dout and dlse, if other than --sequence");
  queries.excludes = {layer.name};
  Option value_dim = whole("--value-dim", given.what.value_dim, {1, core::most_head_dim},
                           "Head size of v and dout, if other than --head-dim");
  value_dim.excludes = {layer.name};
  Option biases = flag("--biases", given.biases, "With --layer: biases bq, bk, bv, bo, too");
  biases.needs = layer.name;
  return {required(text("--output", "FILE.h5", given.output, "HDF5 file to make")),
          required(whole("--sequence", shape.sequence, any, "Rows")),
          queries,
          required(whole("--heads", shape.heads, any, "Query heads")),
          whole("--kv-heads", shape.kv_heads, any, "Key/value heads, a divisor of --heads", "--heads"),
          whole("--head-dim", shape.head_dim, {1, core::most_head_dim},
                fmt::format("Head size, 1 to {}", core::most_head_dim)),
          value_dim,
          whole("--batch", shape.batch, any, "Batch entries"),
          storage_type(given.what.type),
          whole("--seed", given.what.seed, {0, INT64_MAX}, "Values depend on (seed, tensor, global index) only", "0"),
          flag("--dout", given.dout, "Make a gradient dout of the output, too"),
          flag("--dlse", given.dlse, "Make a gradient dlse of the log-sum-exp, too"),
          layer,
          biases,
          flag("--overwrite", given.overwrite, "Replace an existing file")};
}

/// Returns the command that makes the same file, with all defaults written out.
std::string command_line(Given given) {
  std::string line = "annulus generate";
  for (const Option& option : options_of(given)) {
    if (option.shown().empty() || option.name == "--overwrite") continue;
    line += " " + option.name + (option.value.empty() ? "" : " " + option.shown());
  }
  return line;
}

double bytes_of(const Dataset& dataset) {
  const store::GeneratedTensor& of = dataset.numbers;
  return double(of.batch) * double(of.sequence) * double(of.row_numbers) * double(core::bytes_of(of.type));
}

/// Limit for the bytes of a tensor that a rank has in memory at once. A rank always makes at least one row of all batch
/// entries, even if this row exceeds the limit.
constexpr Index piece_bytes = Index(256) << 20;

/// Makes and writes a dataset. Each rank makes its own rows, a piece at a time, and all ranks write their pieces
/// together. Calls `shown` with the finished fraction of the dataset, and with a text that says what was done.
/// Collective.
void write(const Given& given, const Dataset& dataset, const std::function<void(double, const char*)>& shown,
           const comm::Communicator& comm, store::OutputFile& file) {
  const store::GeneratedTensor& numbers = dataset.numbers;
  const core::Interval mine = core::even_part(numbers.sequence, comm.size(), comm.rank());
  const store::RowOwners owners(pattern::contiguous_partition(numbers.sequence, comm.size()));
  const Index row_bytes = numbers.batch * numbers.row_numbers * Index(core::bytes_of(numbers.type));
  const Index step = std::max<Index>(1, piece_bytes / row_bytes), most = core::ceil_div(numbers.sequence, comm.size());
  std::unique_ptr<std::byte[]> host;
  comm::agree(
      comm, [&] { host = std::make_unique_for_overwrite<std::byte[]>(std::size_t(std::min(step, most) * row_bytes)); });
  for (Index done = 0; done < most; done += step) {
    // Some ranks have one row less than others, so they may take part in the last collective write without rows.
    const core::Interval rows{std::min(mine.begin + done, mine.end), std::min(mine.begin + done + step, mine.end)};
    const auto show = [&](double share, const char* what) {
      shown((double(done) + share * double(std::min(step, most - done))) / double(most), what);
    };
    comm::agree(comm, [&] { store::fill_tensor(given.what.seed, numbers, {rows}, host.get()); });
    show(0.5, " is made");  // half, because writing takes about as long as making
    if (dataset.is_weight) {
      const core::Rectangle part{rows, {0, numbers.row_numbers}};
      file.write_parts({{dataset.spec.name, part, part, host.get()}},
                       [&](const std::string&) { return owners.ranks(); });
    } else {
      file.write({{dataset.spec.name, host.get()}}, {rows}, owners);
    }
    show(1, " is written");
  }
}

int generate(Given given, const comm::Communicator& comm) {
  comm::agree(comm, [&] { complete(given); });
  const std::vector<Dataset> datasets = given.layer_width ? datasets_of_layer(given) : datasets_of_attention(given);
  std::vector<store::TensorSpec> specs;
  for (const Dataset& dataset : datasets) specs.push_back(dataset.spec);
  store::OutputFile file(store::output_plan({given.output, given.overwrite}, specs), comm);
  double all = 0, done = 0;  // bytes
  for (const Dataset& dataset : datasets) all += bytes_of(dataset);
  report::ProgressLine line(comm.is_root(), {all / (1 << 20), "MiB"});
  for (const Dataset& dataset : datasets) {
    const double bytes = bytes_of(dataset);
    const auto show = [&](double share, const char* what) {
      line.show((done + share * bytes) / all, dataset.spec.name + what);
    };
    write(given, dataset, show, comm, file);
    done += bytes;
  }
  line.clear();
  const std::string title = fmt::format("input of annulus: random numbers of seed {}", given.what.seed);
  file.publish({"", {}, provenance(command_line(given), comm), identity(title)});
  if (!comm.is_root()) return 0;
  const core::Shape& s = given.what.shape;
  if (given.layer_width) {
    core::print("{}: x, dy, target for {} x {} rows of {}, weights{} of", given.output, s.batch, s.sequence,
                *given.layer_width, given.biases ? " and biases" : "");
  } else {
    core::print("{}: q, k, v{}{} for {} x {} rows{},", given.output, given.dout ? ", dout" : "",
                given.dlse ? ", dlse" : "", s.batch, s.sequence,
                given.what.query_rows() == s.sequence ? "" : fmt::format(" ({} of queries)", given.what.query_rows()));
  }
  core::print(" {} ({} K/V) of {}{}, {}, seed {}\n", core::how_many(s.heads, "head"), s.kv_heads, s.head_dim,
              s.has_value_dim() ? fmt::format(" (values of {})", s.value_dim) : "", core::name_of(given.what.type),
              given.what.seed);
  return 0;
}

}  // namespace

Verb generate_verb() {
  const auto given = std::make_shared<Given>();
  given->what.shape.kv_heads = 0;  // 0: as many as heads
  return {.name = "generate",
          .does = "Make an input file with q, k, v drawn from the standard normal distribution",
          .example = "annulus generate --output in.h5 --sequence 65536 --heads 8 --head-dim 64 --dtype bfloat16",
          .options = options_of(*given),
          .run = [given](const comm::Communicator& comm, const std::string&) { return generate(*given, comm); },
          .when_ended = nothing_saved};
}

}  // namespace annulus::app

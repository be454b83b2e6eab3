#include "annulus/app/verbs/verify_layer.hpp"

#include <fmt/format.h>

#include <numeric>

#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/job/run_layer.hpp"
#include "annulus/core/tolerance.hpp"
#include "annulus/io/root.hpp"
#include "annulus/verify/gradients.hpp"
#include "annulus/verify/layer_input.hpp"
#include "annulus/verify/result.hpp"
#include "annulus/verify/rows.hpp"
#include "annulus/verify/verdict.hpp"

namespace annulus::app {
namespace {

using kernels::ReferencePattern;
using layer::Weight;
using namespace verify;
using Numbers = std::vector<double>;

/// Multiply-adds of products that a rank does at most to recompute everything: some ten seconds.
constexpr double largest_products = 1e10;
constexpr Index dealt_rows = 32;  // that follow each other on a rank

/// All of it can be recomputed in some seconds: the attention's (query, head, key) triples as in verify_gradients.hpp,
/// and the products. Those of the forward pass every rank repeats, for the rows its queries and keys meet may be any;
/// those of the gradients, twice as many, the ranks share.
bool can_recompute_all(const LayerInput& input, const ReferencePattern& pattern, int ranks) {
  const core::Shape& s = input.shape;
  const double rows = double(s.batch * s.sequence), columns = 2.0 * double((s.heads + s.kv_heads) * s.head_dim);
  if (rows * columns * double(input.width()) * (1 + 2.0 / ranks) > largest_products) return false;
  const Index most = largest_recomputed * ranks / s.batch;
  Index triples = 0;
  for (Index x = 0; x < s.sequence && triples <= most; ++x) {
    for (Index h = 0; h < s.heads; ++h) triples += kernels::key_range(pattern, s.sequence, s.heads, h, x).size();
  }
  return triples <= most;
}

/// A rank's share of all rows, dealt like cards in small packs: causal rows further down have more keys.
std::vector<Index> own_share(const std::vector<Index>& rows, const comm::Communicator& comm) {
  std::vector<Index> mine;
  const Index pack = std::clamp<Index>(Index(rows.size()) / (4 * comm.size()), 1, dealt_rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (Index(i) / pack % comm.size() == comm.rank()) mine.push_back(rows[i]);
  }
  return mine;
}

/// Of a weight's gradient in the result.
std::string dataset_of(Weight weight) { return "d" + std::string(layer::name_of(weight)); }

/// What one rank recomputes of its rows and finds in the file.
class Comparison {
 public:
  Comparison(const io::RunFile& run, const LayerInput& input, const io::SeenFile& result,
             const comm::Communicator& comm, Index sampled)
      : run_(run),
        input_(input),
        result_(result),
        comm_(comm),
        pattern_(reference_pattern(run.settings.attention, input)) {
    backward_ = run.settings.compute.backward;
    whole_ = backward_ && can_recompute_all(input, pattern_, comm.size());
    rows_ = sample_rows(pattern_, input.shape.sequence, whole_ ? input.shape.sequence : sampled);
    mine_ = own_share(rows_, comm);
    dx_ = whole_ || (backward_ && comm.max(Index(!can_recompute_viewers(input, pattern_, mine_))) == 0);
  }

  std::size_t rows() const { return rows_.size(); }
  bool looks_at_dx() const { return dx_; }
  bool looks_at_weights() const { return whole_; }

  /// Collective.
  std::vector<Verdict> judge() {
    comm::agree(comm_, [&] { queries_ = recompute_rows(input_, pattern_, mine_); });
    if (whole_) gather_results();
    comm::agree(comm_, [&] {
      if (dx_) recompute_gradients();
      for (std::size_t i = 0; i < mine_.size();) {
        Interval run{mine_[i], mine_[i]};
        const std::size_t first = i;
        for (; i < mine_.size() && mine_[i] == run.end; ++i) ++run.end;
        compare_rows(run, first);
      }
    });
    const double outputs = allowed(core::forward_tolerance, input_.type, run_.settings.compute),
                 derived = allowed(core::gradient_tolerance, input_.type, run_.settings.compute);
    std::vector<Verdict> all{{"y", outputs, y_.merged(comm_)}};
    if (dx_) all.push_back({"dx", derived, found_dx_.merged(comm_)});
    if (!whole_) return all;
    for (const Weight w : layer::all_weights) {
      if (input_.problem().has(w)) all.push_back({dataset_of(w), derived, compare_weight(w)});
    }
    return all;
  }

 private:
  Index row_numbers() const { return input_.shape.heads * input_.shape.head_dim; }

  /// out and lse of all rows from the ranks that have recomputed them.
  void gather_results() {
    const core::Shape& s = input_.shape;
    results_.out.assign(std::size_t(s.batch * s.sequence * row_numbers()), 0);
    results_.lse.assign(std::size_t(s.batch * s.sequence * s.heads), 0);
    for (const QueryRow& row : queries_) {
      const Index at = (row.b * s.sequence + row.x) * s.heads + row.h;
      std::copy(row.out.begin(), row.out.end(), results_.out.begin() + at * s.head_dim);
      results_.lse[std::size_t(at)] = row.lse;
    }
    comm_.add_up(results_.out);
    comm_.add_up(results_.lse);
    for (const Weight w : layer::all_weights)
      gradients_[std::size_t(w)].assign(std::size_t(layer::whole(input_.problem(), w).count()), 0);
  }

  /// Of a chunk of rows.
  RowResults known_results(Interval rows) const {
    const core::Shape& s = input_.shape;
    RowResults part;
    const auto take = [&](const Numbers& all, Index numbers, Numbers& to) {
      for (Index b = 0; b < s.batch; ++b) {
        const auto begin = all.begin() + (b * s.sequence + rows.begin) * numbers;
        to.insert(to.end(), begin, begin + rows.size() * numbers);
      }
    };
    take(results_.out, row_numbers(), part.out);
    take(results_.lse, s.heads, part.lse);
    return part;
  }

  void recompute_gradients() {
    dq_ = recompute_dq(input_, pattern_, queries_);
    const ResultsOf results = [&](Interval rows) {
      return whole_ ? known_results(rows) : recompute_results(input_, pattern_, rows);
    };
    keys_ = recompute_keys(input_, pattern_, mine_, results, recomputed_rows);
  }

  /// Rows that follow each other, the first of which is `first` of mine.
  void compare_rows(Interval rows, std::size_t first) {
    const core::Shape& s = input_.shape;
    const Index width = input_.width();
    const Numbers y = read_as_double(result_, "y", rows);
    Numbers x, dy, dx;
    if (dx_) dx = read_as_double(result_, "dx", rows);
    if (whole_) x = input_.rows_of(run_.settings.layer->x, rows), dy = input_.rows_of(run_.settings.layer->dy, rows);
    for (Index i = 0; i < rows.size(); ++i) {
      for (Index b = 0; b < s.batch; ++b) {
        const std::size_t row = (first + std::size_t(i)) * std::size_t(s.batch) + std::size_t(b);
        const Index at = (b * rows.size() + i) * width;
        Numbers out;
        for (Index h = 0; h < s.heads; ++h) {
          const Numbers& head = queries_[row * std::size_t(s.heads) + std::size_t(h)].out;
          out.insert(out.end(), head.begin(), head.end());
        }
        compare_row(y_, y, at, input_.output(out), b, rows.begin + i);
        if (!dx_) continue;
        const Heads d = gradient_of_heads(row, rows.begin + i);
        compare_row(found_dx_, dx, at, input_.input_gradient(d.q, d.k, d.v), b, rows.begin + i);
        if (!whole_) continue;
        const auto part = [&](const Numbers& all) {
          return std::span(all).subspan(std::size_t(at), std::size_t(width));
        };
        add_product(Weight::wq, part(x), d.q);
        add_product(Weight::wk, part(x), d.k);
        add_product(Weight::wv, part(x), d.v);
        add_product(Weight::wo, out, part(dy));
      }
    }
  }

  void compare_row(Deviation& deviation, const Numbers& found, Index at, const Numbers& expected, Index b, Index x) {
    for (std::size_t e = 0; e < expected.size(); ++e) {
      deviation.compare(found[std::size_t(at) + e], expected[e], [&] { return fmt::format("[{}, {}, {}]", b, x, e); });
    }
  }

  /// Gradients of a row's x wq + bq and its likes: before the rope.
  struct Heads {
    Numbers q, k, v;
  };
  Heads gradient_of_heads(std::size_t row, Index position) const {
    const core::Shape& s = input_.shape;
    Heads d;
    for (std::size_t h = 0; h < std::size_t(s.heads); ++h) {
      const Numbers& dq = dq_[row * std::size_t(s.heads) + h];
      d.q.insert(d.q.end(), dq.begin(), dq.end());
    }
    for (std::size_t h = 0; h < std::size_t(s.kv_heads); ++h) {
      const KeyRow& key = keys_[row * std::size_t(s.kv_heads) + h];
      d.k.insert(d.k.end(), key.dk.begin(), key.dk.end());
      d.v.insert(d.v.end(), key.dv.begin(), key.dv.end());
    }
    input_.turn_back(d.q, position);
    input_.turn_back(d.k, position);
    return d;
  }

  /// What a row gives to the gradients of a weight and its bias: in^T out.
  void add_product(Weight matrix, std::span<const double> in, std::span<const double> out) {
    double* to = gradients_[std::size_t(matrix)].data();
    for (const double factor : in) {
      for (const double value : out) *to++ += factor * value;
    }
    Numbers& bias = gradients_[std::size_t(layer::bias_of(matrix))];
    for (std::size_t j = 0; j < bias.size(); ++j) bias[j] += out[j];
  }

  /// Collective; rank 0 looks at the numbers.
  Deviation compare_weight(Weight w) {
    Numbers& expected = gradients_[std::size_t(w)];
    comm_.add_up(expected);
    const layer::Box box = layer::whole(input_.problem(), w);
    const io::Rectangle all{box.rows, box.columns};
    std::vector<std::byte> host(expected.size() * core::bytes_of(input_.type));
    io::transfer_parts(result_, io::Direction::read,
                       {{dataset_of(w), comm_.is_root() ? all : io::Rectangle{}, all, host.data()}}, comm_);
    Deviation deviation;
    const Numbers found = comm_.is_root() ? to_double(host, input_.type) : Numbers();
    for (std::size_t i = 0; i < found.size(); ++i) {
      deviation.compare(found[i], expected[i], [&] {
        const Index row = Index(i) / box.columns.size(), column = Index(i) % box.columns.size();
        return layer::is_bias(w) ? fmt::format("[{}]", row) : fmt::format("[{}, {}]", row, column);
      });
    }
    return deviation.merged(comm_);
  }

  const io::RunFile& run_;
  const LayerInput& input_;
  const io::SeenFile& result_;
  const comm::Communicator& comm_;
  ReferencePattern pattern_;
  bool backward_, whole_, dx_;  // what is looked at
  std::vector<Index> rows_, mine_;
  std::vector<QueryRow> queries_;  // of mine_, all batch entries and heads of each
  RowResults results_;             // of all rows
  std::vector<Numbers> dq_;        // as queries_
  std::vector<KeyRow> keys_;
  std::array<Numbers, 8> gradients_;  // of the weights
  Deviation y_, found_dx_;
};

void print(const io::RunFile& run, const LayerInput& input, const Comparison& comparison,
           const std::vector<Verdict>& verdicts, bool good) {
  fmt::print("{} against the layer's definition in float64: {} of {} rows\n", run.settings.output.file,
             comparison.rows(), input.shape.sequence);
  for (const Verdict& verdict : verdicts) verdict.print();
  const bool backward = run.settings.compute.backward;
  if (backward && !comparison.looks_at_dx()) {
    fmt::print("  dx    not looked at: too many queries see these rows to recompute them all\n");
  }
  if (backward && !comparison.looks_at_weights()) {
    fmt::print(
        "  dw*   not looked at: they are sums over all rows, too much work here; a shorter sequence shows them\n");
  }
  fmt::print("  {}  (error: max |difference| / max(1, max |reference|))\n",
             good ? "within tolerance" : "OUTSIDE TOLERANCE");
}

}  // namespace

int verify_layer(const VerifyOptions& options, const comm::Communicator& comm) {
  const Job job = read_job(options.run_file, options.overrides, comm);
  layer::LayerProblem problem;
  comm::agree(comm, [&] { problem = layer_problem(job); });
  problem.sharding = layer::Sharding::none;  // however they lay in the run: here every rank needs them
  const LayerInput input(job.layer->seen(), *job.run.settings.layer, problem, load_weights(job, problem, comm));
  std::map<std::string, io::DatasetInfo> expected;
  for (const io::TensorSpec& spec : layer_tensors(job)) expected[spec.name] = {spec.extents, spec.type};
  const io::SeenFile result = look_at_result(job.run, expected, comm);
  Comparison comparison(job.run, input, result, comm, options.rows);
  const std::vector<Verdict> verdicts = comparison.judge();
  const bool good = std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.good(); });
  if (comm.is_root()) print(job.run, input, comparison, verdicts, good);
  return good ? 0 : int(core::ErrorKind::verification);
}

}  // namespace annulus::app

#include <fmt/format.h>

#include "annulus/store/row_reading.hpp"
#include "annulus/verify/gradients.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::verify {
namespace {

using layer::Weight;

/// Limit for the multiply-adds in matrix products of a rank, about ten seconds of work. Above it, only sampled rows are
/// recomputed.
constexpr double largest_products = 1e10;

/// True if everything can be recomputed in some seconds: neither the (query, head, key) triples of the attention
/// (largest_recomputed for each rank) nor the matrix products are too many. Every rank does all products of the forward
/// pass, because its queries may see any row, and any row may see its keys. The products of the gradients, which are
/// twice as many, are divided among the ranks.
bool can_recompute_all(const LayerInput& input, int ranks) {
  const core::Shape& s = input.shape;
  const double rows = double(s.batch * s.sequence), columns = 2.0 * double((s.heads + s.kv_heads) * s.head_dim);
  if (rows * columns * double(input.width()) * (1 + 2.0 / ranks) > largest_products) return false;
  const Index most = largest_recomputed * ranks / s.batch;
  Index triples = 0;
  for (Index x = 0; x < s.sequence && triples <= most; ++x) {
    for (Index h = 0; h < s.heads; ++h) triples += kernels::key_range(input.pattern, s.sequence, s.heads, h, x).size();
  }
  return triples <= most;
}

/// Returns the name of the dataset with the gradient of a weight.
std::string dataset_of(Weight weight) { return "d" + std::string(layer::name_of(weight)); }

/// One rank's part of the check: recomputes its rows and compares them with the result.
class Comparison {
 public:
  Comparison(const LayerInput& input, const Sample& sample, const comm::Communicator& comm)
      : input_(input), sample_(sample), comm_(comm) {
    whole_ = sample.gradients && sample.file != nullptr && can_recompute_all(input, comm.size());
    rows_ = sample_rows(input, whole_ ? input.shape.sequence : sample.rows).queries;
    mine_ = own_share(rows_, comm.rank(), comm.size());
    dx_ = whole_ || (sample.gradients && comm.max(Index(!can_recompute_viewers(input, mine_))) == 0);
  }

  /// Does the whole check. Collective.
  Findings judge() {
    comm::agree(comm_, [&] {
      queries_ = recompute_rows(input_, mine_, [&](double share) {
        if (sample_.progress) sample_.progress(sample_.gradients ? share / 2 : share, "y");
      });
    });
    for (const QueryRow& row : queries_) y_.scores = std::max(y_.scores, score_size(input_, row.h, row.lse));
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
    const core::DType stored = sample_.stored("y", input_.type);
    const Deviation y = y_.merged(comm_);
    Findings findings;
    const auto add_gradient = [&](const std::string& name, const Deviation& found) {
      findings.verdicts.push_back({name, allowed_gradient(input_, stored, found.scores), found});
    };
    findings.scope =
        fmt::format("the layer's definition in float64: {} of {} rows", rows_.size(), input_.shape.sequence);
    findings.verdicts = {{"y", allowed_forward(input_, stored, y.scores), y}};
    if (!sample_.gradients) return findings;
    if (dx_) {
      add_gradient("dx", found_dx_.merged(comm_));
    } else {
      findings.notes.push_back("dx    not checked: too many queries see these rows to recompute them all");
    }
    for (const Weight w : layer::all_weights) {
      if (whole_ && input_.problem().has(w)) add_gradient(dataset_of(w), compare_weight(w));
    }
    if (!whole_) {
      findings.notes.push_back(
          "dw*   not checked: they are sums over all rows, too much work here; in a shorter sequence they are checked");
    }
    return findings;
  }

 private:
  Index row_numbers() const { return input_.shape.heads * input_.shape.head_dim; }

  /// Gathers out and lse of all rows from the ranks that recomputed them. Sets the sums of weight gradients to 0.
  void gather_results() {
    results_ = results_of(input_, queries_, {0, input_.shape.sequence});
    comm_.add_up(results_.out);
    comm_.add_up(results_.lse);
    for (const Weight w : layer::all_weights) {
      const auto numbers = std::size_t(layer::whole(input_.problem(), w).count());
      gradients_[std::size_t(w)].assign(numbers, 0);
      squares_[std::size_t(w)].assign(layer::is_bias(w) ? numbers : 1, 0);
    }
  }

  /// The recomputed out and lse of a chunk of rows.
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
    dq_ = recompute_dq(input_, queries_);
    const ResultsOf results = [&](Interval rows) {
      return whole_ ? known_results(rows) : recompute_results(input_, rows);
    };
    keys_ = recompute_keys(input_, mine_, results, recomputed_rows);
    found_dx_.scores = y_.scores;
    for (const KeyRow& key : keys_) found_dx_.scores = std::max(found_dx_.scores, key.scores);
  }

  /// Compares consecutive rows, which begin at mine_[first]. If everything is checked, also adds what these rows
  /// contribute to the gradients of weights.
  void compare_rows(Interval rows, std::size_t first) {
    const core::Shape& s = input_.shape;
    const Index width = input_.width();
    const Numbers y = sample_.result("y", rows);
    Numbers x, dy, dx;
    if (dx_) dx = sample_.result("dx", rows);
    if (whole_) x = input_.x(rows), dy = input_.dy(rows);
    for (Index i = 0; i < rows.size(); ++i) {
      for (Index b = 0; b < s.batch; ++b) {
        const std::size_t row = (first + std::size_t(i)) * std::size_t(s.batch) + std::size_t(b);
        const Index at = (b * rows.size() + i) * width;
        Numbers out;
        for (Index h = 0; h < s.heads; ++h) {
          const Numbers& head = queries_[row * std::size_t(s.heads) + std::size_t(h)].out;
          out.insert(out.end(), head.begin(), head.end());
        }
        const bool exists = !kernels::document_of(input_.pattern, s.sequence, rows.begin + i).empty();
        compare_row(y_, y, at, exists ? input_.output(out) : Numbers(std::size_t(width)), b, rows.begin + i);
        if (!dx_) continue;
        const Heads d = gradient_of_heads(row, rows.begin + i);
        compare_row(found_dx_, dx, at, input_.input_gradient(d.q.values, d.k.values, d.v.values), b, rows.begin + i);
        if (!whole_) continue;
        const auto part = [&](const Numbers& all) {
          return std::span(all).subspan(std::size_t(at), std::size_t(width));
        };
        add_product(Weight::wq, part(x), d.q);
        add_product(Weight::wk, part(x), d.k);
        add_product(Weight::wv, part(x), d.v);
        Sums output{std::size_t(width)};
        output.add(1, 0, part(dy));
        add_product(Weight::wo, out, output);
      }
    }
  }

  void compare_row(Deviation& deviation, const Numbers& found, Index at, const Numbers& expected, Index b, Index x) {
    for (std::size_t e = 0; e < expected.size(); ++e) {
      deviation.compare(found[std::size_t(at) + e], expected[e], [&] { return input_.index_text(b, x, Index(e)); });
    }
  }

  /// Gradients, for one row, of x wq + bq, x wk + bk and x wv + bv, which are q, k and v before the rope.
  struct Heads {
    Sums q, k, v;
  };
  Heads gradient_of_heads(std::size_t row, Index position) const {
    const core::Shape& s = input_.shape;
    Heads d{Sums(0), Sums(0), Sums(0)};
    const auto append = [](Sums& to, const Sums& head) {
      to.values.insert(to.values.end(), head.values.begin(), head.values.end());
      to.squares.insert(to.squares.end(), head.squares.begin(), head.squares.end());
    };
    for (std::size_t h = 0; h < std::size_t(s.heads); ++h) append(d.q, dq_[row * std::size_t(s.heads) + h]);
    for (std::size_t h = 0; h < std::size_t(s.kv_heads); ++h) {
      const KeyRow& key = keys_[row * std::size_t(s.kv_heads) + h];
      append(d.k, key.dk);
      append(d.v, key.dv);
    }
    input_.undo_rope(d.q.values, position);
    input_.undo_rope(d.k.values, position);
    return d;
  }

  /// Adds a row's contribution, in^T out, to the gradient of a matrix, and `out` to the gradient of its bias. In the
  /// sums of squares, all terms of a matrix count as its largest term. With a rope, each number of a head of q and k
  /// also gets the terms of the number with which the rope mixes it.
  void add_product(Weight matrix, std::span<const double> in, const Sums& out) {
    double* to = gradients_[std::size_t(matrix)].data();
    double largest_in = 0, largest_out = 0;
    for (const double factor : in) {
      largest_in = std::max(largest_in, factor * factor);
      for (const double value : out.values) *to++ += factor * value;
    }
    Numbers& bias = gradients_[std::size_t(layer::bias_of(matrix))];
    Numbers& bias_squares = squares_[std::size_t(layer::bias_of(matrix))];
    const std::size_t head = std::size_t(input_.shape.head_dim), half = head / 2;
    const bool has_rope = input_.problem().rope && (matrix == Weight::wq || matrix == Weight::wk);
    for (std::size_t j = 0; j < out.values.size(); ++j) {
      double square = out.squares[j] + out.values[j] * out.values[j];
      if (has_rope) square += out.squares[j % head < half ? j + half : j - half];
      largest_out = std::max(largest_out, square);
      if (!bias.empty()) bias[j] += out.values[j], bias_squares[j] += square;
    }
    squares_[std::size_t(matrix)][0] += largest_in * largest_out;
  }

  /// Rank 0 compares the gradient of a weight with the result. Collective.
  Deviation compare_weight(Weight w) {
    Numbers& expected = gradients_[std::size_t(w)];
    comm_.add_up(expected);
    Numbers& squares = squares_[std::size_t(w)];
    comm_.add_up(squares);
    const core::Rectangle all = layer::whole(input_.problem(), w);
    const core::DType type = *sample_.file->at(dataset_of(w)).type.dtype();
    std::vector<std::byte> host(expected.size() * core::bytes_of(type));
    comm::agree(comm_, [&] {
      if (comm_.is_root())
        store::read_part(*sample_.file, {dataset_of(w), all, all, host.data()}, store::Wanted::any_numbers);
    });
    Deviation deviation;
    deviation.scores = found_dx_.scores;
    const Numbers found = comm_.is_root() ? to_double(host, type) : Numbers();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto index = [&] {
        const Index row = Index(i) / all.columns.size(), column = Index(i) % all.columns.size();
        return layer::is_bias(w) ? fmt::format("[{}]", row) : fmt::format("[{}, {}]", row, column);
      };
      deviation.compare(found[i], expected[i], index, std::sqrt(squares[squares.size() == 1 ? 0 : i]));
    }
    return deviation.merged(comm_);
  }

  const LayerInput& input_;
  const Sample& sample_;
  const comm::Communicator& comm_;
  bool whole_, dx_;                 // whole_: everything is checked; dx_: dx is checked
  std::vector<Index> rows_, mine_;  // the rows that all ranks check, and those that this rank checks
  std::vector<QueryRow> queries_;   // the rows mine_, in all batch entries and heads
  RowResults results_;              // out and lse of all rows, if everything is checked
  std::vector<Sums> dq_;            // one for each of queries_
  std::vector<KeyRow> keys_;
  std::array<Numbers, 8> gradients_;  // one for each weight
  std::array<Numbers, 8> squares_;    // sums of squares of the terms: one for a matrix, one for each number of a bias
  Deviation y_, found_dx_;
};

}  // namespace

Findings verify_layer(const LayerInput& input, const Sample& sample, const comm::Communicator& comm) {
  return Comparison(input, sample, comm).judge();
}

}  // namespace annulus::verify

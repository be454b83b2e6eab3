// Puts NaN and infinity into some rows of the inputs. Results that do not see these rows must keep all their bits.
// Results that see them must not be finite if the spoilt numbers surely reach them. Tests of every back end use this.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "kernels/awkward_case.hpp"
#include "kernels/statistics_case.hpp"

namespace annulus::test {

/// Indices of row vectors of a tensor.
using Vectors = std::set<std::size_t>;

/// All pairs of a (batch, row, head) and a key that it sees.
struct Meetings {
  explicit Meetings(const WorkCase& test) {
    for_each_meeting(test, [&](std::size_t row, std::size_t key) { pairs.emplace_back(row, key); });
  }
  Vectors rows_that_see(const Vectors& keys) const {
    Vectors rows;
    for (const auto& [row, key] : pairs)
      if (keys.contains(key)) rows.insert(row);
    return rows;
  }
  Vectors keys_seen_by(const Vectors& rows) const {
    Vectors keys;
    for (const auto& [row, key] : pairs)
      if (rows.contains(row)) keys.insert(key);
    return keys;
  }

  std::vector<std::pair<std::size_t, std::size_t>> pairs;
};

/// Puts NaN or an infinity into every `step`-th vector of `width` numbers, from vector `first` on: into all of its
/// numbers, or into one. Returns the indices of these vectors.
inline Vectors spoil(std::vector<double>& tensor, Index width, std::size_t first, std::size_t step) {
  const double inf = std::numeric_limits<double>::infinity(), kinds[] = {std::nan(""), inf, -inf};
  Vectors spoilt;
  for (std::size_t i = first; i < tensor.size() / std::size_t(width); i += step) {
    const std::size_t number = spoilt.size();
    for (std::size_t d = 0; d < std::size_t(width); ++d) {
      if (number % 2 == 0 || d == number % std::size_t(width)) tensor[i * std::size_t(width) + d] = kinds[number % 3];
    }
    spoilt.insert(i);
  }
  return spoilt;
}

inline bool has_same_bits(const double* a, const double* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(double)) == 0;
}

/// Vectors that are not in `reached` must keep their bits; if `must_show`, vectors in `reached` must not be finite.
inline void expect_only_reached(const std::vector<double>& now, const std::vector<double>& before, Index width,
                                const Vectors& reached, bool must_show, const std::string& what) {
  ASSERT_EQ(now.size(), before.size());
  const std::size_t w = std::size_t(width);
  for (std::size_t i = 0; i < now.size() / w; ++i) {
    if (!reached.contains(i)) {
      ASSERT_TRUE(has_same_bits(&now[i * w], &before[i * w], w)) << what << ": vector " << i << " sees none of them";
    } else if (must_show) {
      const bool finite = std::all_of(&now[i * w], &now[i * w] + w, [](double x) { return std::isfinite(x); });
      ASSERT_FALSE(finite) << what << ": vector " << i << " sees one of them";
    }
  }
}

/// Spoils rows of v, then rows of k, and checks out and lse. answer(case) runs the forward pass.
template <class Answer>
void expect_unseen_stay_out(const WorkCase& test, const std::string& what, const Answer& answer) {
  const Meetings meetings(test);
  const Index D = test.shape.head_dim, Dv = test.shape.dim_of_values();
  const kernels::ReferenceResult before = answer(test);
  for (const bool of_values : {true, false}) {
    for (const std::size_t step : {1u, 3u, 41u}) {
      WorkCase spoilt = test;
      const Vectors keys = spoil(of_values ? spoilt.v : spoilt.k, of_values ? Dv : D, step / 2, step);
      const Vectors rows = meetings.rows_that_see(keys);
      const kernels::ReferenceResult now = answer(spoilt);
      const std::string which = fmt::format("{}, {} of every {}", what, of_values ? "v" : "k", step);
      expect_only_reached(now.out, before.out, Dv, rows, of_values, which + ", out");
      expect_only_reached(now.lse, before.lse, 1, of_values ? Vectors{} : rows, false, which + ", lse");
    }
  }
}

/// Spoils rows of v, k, dout and q, one tensor at a time, and checks gradients. gradients(case) runs the backward pass
/// with the normalizers of the unchanged case.
template <class Make>
void expect_unseen_stay_out_of_gradients(const BackwardCase& test, const std::string& what, const Make& gradients) {
  const Meetings meetings(test);
  const Index D = test.shape.head_dim, Dv = test.shape.dim_of_values();
  const Gradients before = gradients(test);
  const auto expect_only = [&](const BackwardCase& spoilt, const Vectors& rows, const Vectors& keys, bool shows,
                               const std::string& which) {
    const Gradients now = gradients(spoilt);
    expect_only_reached(now.dq, before.dq, D, rows, shows, which + ", dq");
    expect_only_reached(now.dk, before.dk, D, keys, shows, which + ", dk");
    expect_only_reached(now.dv, before.dv, Dv, keys, false, which + ", dv");
  };
  for (const std::size_t step : {3u, 41u}) {
    for (const bool of_values : {true, false}) {
      BackwardCase spoilt = test;
      const Vectors keys = spoil(of_values ? spoilt.v : spoilt.k, of_values ? Dv : D, step / 2, step),
                    rows = meetings.rows_that_see(keys);
      Vectors seen;  // only spoilt keys that a row sees may get other gradients
      for (const std::size_t key : meetings.keys_seen_by(rows))
        if (keys.contains(key)) seen.insert(key);
      expect_only(spoilt, rows, seen, of_values, fmt::format("{}, {} of every {}", what, of_values ? "v" : "k", step));
    }
    for (const bool of_dout : {true, false}) {
      BackwardCase spoilt = test;
      const Vectors rows = spoil(of_dout ? spoilt.dout : spoilt.q, of_dout ? Dv : D, step / 2, step),
                    keys = meetings.keys_seen_by(rows), seeing = meetings.rows_that_see(keys);
      Vectors reached;
      for (const std::size_t row : rows)
        if (seeing.contains(row)) reached.insert(row);
      expect_only(spoilt, reached, keys, of_dout,
                  fmt::format("{}, {} of every {}", what, of_dout ? "dout" : "q", step));
    }
  }
}

/// Spoils some of the lse, then rows of q, and checks what keys receive. statistics(case, lse) computes statistics.
template <class Make>
void expect_unseen_stay_out_of_statistics(const WorkCase& test, const std::string& what, const Make& statistics) {
  const Meetings meetings(test);
  const std::vector<double> lse = naive_answer(test).lse;
  const Index group = test.shape.group();
  const StatisticsAnswer before = statistics(test, lse);
  for (const bool of_lse : {true, false}) {
    WorkCase spoilt = test;
    std::vector<double> norms = lse;
    const Vectors rows = of_lse ? spoil(norms, 1, 11, 37) : spoil(spoilt.q, test.shape.head_dim, 11, 37);
    expect_only_reached(statistics(spoilt, norms).received, before.received, group, meetings.keys_seen_by(rows), false,
                        what + (of_lse ? ", lse" : ", q"));
  }
}

}  // namespace annulus::test

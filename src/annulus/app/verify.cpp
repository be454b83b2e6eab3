#include "annulus/app/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>

#include "annulus/core/random.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/core/tolerance.hpp"
#include "annulus/io/generated.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/run_file.hpp"
#include "annulus/io/tensor_file.hpp"
#include "annulus/io/transfer.hpp"
#include "annulus/kernels/reference.hpp"

namespace annulus::app {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;
using core::Index;
using core::Interval;
using core::Shape;
using core::TensorId;

constexpr Index chunk_bytes = Index(16) << 20;  // of K, as doubles; bounds what a rank holds
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> to_double(const std::vector<std::byte>& bytes, DType type) {
  std::vector<double> numbers(bytes.size() / core::bytes_of(type));
  const auto convert = [&](const auto* stored) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = core::load_as<double>(stored[i]);
  };
  const void* data = bytes.data();
  if (type == DType::float64) convert(static_cast<const double*>(data));
  if (type == DType::float32) convert(static_cast<const float*>(data));
  if (type == DType::float16) convert(static_cast<const core::Half*>(data));
  if (type == DType::bfloat16) convert(static_cast<const core::BFloat16*>(data));
  return numbers;
}

/// Where q, k and v come from, a file or a seed, as float64.
class Input {
 public:
  Input(const io::InputSettings& settings, const comm::Communicator& comm) : settings_(settings) {
    if (settings.file) {
      const io::TensorFile file(settings, comm);
      shape = file.shape();
      type = file.type();
      documents = file.documents();
    } else {
      shape = settings.generate->shape;
      type = settings.generate->type;
      documents = {0, shape.sequence};
    }
  }

  /// (B, rows, heads, D), heads = kv_heads for k and v.
  std::vector<double> rows(TensorId tensor, Interval rows) const {
    const Index heads = tensor == TensorId::q ? shape.heads : shape.kv_heads;
    std::vector<std::byte> host(std::size_t(shape.batch * rows.size() * heads * shape.head_dim) * core::bytes_of(type));
    const std::string& name = tensor == TensorId::q ? settings_.q : tensor == TensorId::k ? settings_.k : settings_.v;
    if (settings_.file) {
      io::read_rows_alone(*settings_.file, {name, host.data()}, rows);
    } else {
      io::fill_generated(*settings_.generate, tensor, {rows}, host.data());
    }
    return to_double(host, type);
  }

  Shape shape;
  DType type = DType::float32;
  pattern::Documents documents;

 private:
  io::InputSettings settings_;
};

/// The definition in its own words: the reference shares nothing with the code it judges.
kernels::ReferencePattern reference_pattern(const io::AttentionSettings& attention, const Input& input) {
  using kernels::ReferenceSemantics;
  kernels::ReferencePattern reference;
  switch (attention.pattern.semantics) {
    case pattern::Semantics::longnet:
      reference.semantics = ReferenceSemantics::longnet;
      break;
    case pattern::Semantics::paper:
      reference.semantics = ReferenceSemantics::paper;
      break;
    case pattern::Semantics::grouped:
      reference.semantics = ReferenceSemantics::grouped;
      break;
  }
  reference.pairs.clear();
  for (const pattern::Pair& pair : attention.pattern.pairs) {
    const bool all = pair.segment == pattern::whole_document;
    reference.pairs.push_back({all ? kernels::whole_document : pair.segment, pair.dilation});
  }
  reference.causal = attention.pattern.causal;
  reference.group_scale = attention.pattern.group_scale;
  reference.scale = attention.scale.value_or(1 / std::sqrt(double(input.shape.head_dim)));
  reference.documents = input.documents;
  return reference;
}

/// Throws where the result file is not the result of this run file.
void check_result(const io::RunFile& run, const Input& input) {
  const std::string& file = run.settings.output.file;
  if (!std::filesystem::exists(file)) {
    fail(ErrorKind::failure, "{}: there is no result yet, first: annulus run {}", file, run.name);
  }
  const Shape& s = input.shape;
  const io::DatasetInfo out = io::look_at_dataset(file, "out"), lse = io::look_at_dataset(file, "lse");
  const std::vector<Index> out_extents{s.batch, s.sequence, s.heads, s.head_dim},
      lse_extents{s.batch, s.sequence, s.heads};
  const auto check = [&](const char* name, const io::DatasetInfo& found, const std::vector<Index>& extents,
                         DType type) {
    if (found.extents == extents && found.type == type) return;
    fail(ErrorKind::failure, "{}: dataset {} is {} ({}), expected {} ({}) to fit the input", file, name,
         core::name_of(found.type), fmt::join(found.extents, ", "), core::name_of(type), fmt::join(extents, ", "));
  };
  check("out", out, out_extents, input.type);
  check("lse", lse, lse_extents, core::lse_type(input.type));

  const std::string settings = io::read_text_dataset(file, "/run/settings");
  const io::RunFile made = io::parse_run_file(settings, file + ":/run/settings", {});
  const std::vector<std::string> changes = io::differences(made.settings, run.settings);
  if (!changes.empty()) {
    fail(ErrorKind::failure, "{}: was made with other settings than {} has now: {}", file, run.name,
         fmt::join(changes, "; "));
  }
}

/// Rows next to which something changes: ends of the sequence, of documents, of segments.
std::vector<Index> border_rows(const kernels::ReferencePattern& pattern, Index sequence) {
  std::vector<Index> rows{0, sequence - 1};
  for (std::size_t d = 0; d + 1 < pattern.documents.size(); ++d) {
    const Interval document{pattern.documents[d], pattern.documents[d + 1]};
    if (document.empty()) continue;
    rows.insert(rows.end(), {document.begin, document.end - 1});
    for (const kernels::ReferencePair& pair : pattern.pairs) {
      if (pair.segment <= 0 || pair.segment >= document.size()) continue;
      const Index last = document.begin + (document.size() - 1) / pair.segment * pair.segment;
      for (const Index begin : {document.begin + pair.segment, last}) rows.insert(rows.end(), {begin - 1, begin});
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

/// `count` rows in ascending order, borders first (they may take half of the places), then rows by a fixed seed.
std::vector<Index> sample_rows(const kernels::ReferencePattern& pattern, Index sequence, Index count) {
  count = std::min(count, sequence);
  const std::vector<Index> borders = border_rows(pattern, sequence);
  const Index taken = std::min(Index(borders.size()), std::max<Index>(1, count / 2));
  std::set<Index> rows;
  // Evenly over the borders; the first and the last one are always among them.
  for (Index i = 0; i < taken; ++i) {
    rows.insert(borders[std::size_t(taken == 1 ? 0 : i * (Index(borders.size()) - 1) / (taken - 1))]);
  }
  for (Index i = 0; Index(rows.size()) < count; ++i) {
    // After many draws that hit known rows, the first free row ends the search.
    Index row = Index(core::random_bits(1, TensorId::q, i) % std::uint64_t(sequence));
    while (i > 8 * count && rows.contains(row)) row = (row + 1) % sequence;
    rows.insert(row);
  }
  return {rows.begin(), rows.end()};
}

/// One row of one head of one batch entry, on its way.
struct Recomputed {
  Index b, x, h;
  Interval keys;
  kernels::ReferenceRow row;
};

std::vector<Recomputed> begin_rows(const Input& input, const kernels::ReferencePattern& pattern,
                                   const std::vector<Index>& rows) {
  const Shape& s = input.shape;
  std::vector<Recomputed> all;
  for (const Index x : rows) {
    const std::vector<double> q = input.rows(TensorId::q, {x, x + 1});  // (B, 1, H, D)
    for (Index b = 0; b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) {
        const std::span<const double> vector(q.data() + (b * s.heads + h) * s.head_dim, std::size_t(s.head_dim));
        all.push_back({b, x, h, kernels::key_range(pattern, s.sequence, s.heads, h, x), {pattern, s, h, x, vector}});
      }
    }
  }
  return all;
}

/// Shows every row its keys, in chunks of rows of K and V; chunks no row asks for are not read.
void add_keys(const Input& input, std::vector<Recomputed>& rows) {
  const Shape& s = input.shape;
  const Index row_numbers = s.kv_heads * s.head_dim;
  const Index step = std::max<Index>(1, chunk_bytes / (8 * s.batch * row_numbers));
  for (Index begin = 0; begin < s.sequence; begin += step) {
    Interval chunk{s.sequence, 0};  // the part of [begin, begin + step) that is asked for
    for (const Recomputed& row : rows) {
      const Interval part = intersect(row.keys, {begin, std::min(s.sequence, begin + step)});
      if (!part.empty()) chunk = {std::min(chunk.begin, part.begin), std::max(chunk.end, part.end)};
    }
    if (chunk.empty()) continue;
    const std::vector<double> k = input.rows(TensorId::k, chunk), v = input.rows(TensorId::v, chunk);
    for (Recomputed& row : rows) {
      const Interval part = intersect(row.keys, chunk);
      for (Index p = part.begin; p < part.end; ++p) {
        const Index at = (row.b * chunk.size() + p - chunk.begin) * row_numbers + row.h / s.group() * s.head_dim;
        const std::size_t first = std::size_t(at), count = std::size_t(s.head_dim);
        row.row.add(p, std::span(k).subspan(first, count), std::span(v).subspan(first, count));
      }
    }
  }
}

/// Largest error and largest reference of one dataset, and where that error is.
struct Deviation {
  double error = 0;
  double reference = 0;
  std::string where;

  void compare(double found, double expected, const std::string& place) {
    const bool same = found == expected;  // -inf against -inf, too
    const double difference = same ? 0 : std::abs(found - expected);
    if (std::isfinite(expected)) reference = std::max(reference, std::abs(expected));
    if (difference <= error) return;
    error = std::isnan(difference) ? infinity : difference;  // NaN compares as larger than everything
    where = place;
  }
  double relative() const { return error / std::max(1.0, reference); }

  /// Of all ranks.
  Deviation merged(const comm::Communicator& comm) const {
    Deviation all{comm.max(error), comm.max(reference), ""};
    for (const std::string& place : comm.gather_all(error == all.error ? where : std::string())) {
      if (all.where.empty()) all.where = place;
    }
    return all;
  }
};

struct Deviations {
  Deviation out, lse;
};

Deviations compare(const Input& input, const std::string& file, const std::vector<Recomputed>& rows) {
  const Shape& s = input.shape;
  Deviations found;
  std::vector<double> out, lse, expected(static_cast<std::size_t>(s.head_dim));
  Index in_hand = -1;  // row of the file that out and lse hold
  for (const Recomputed& row : rows) {
    if (row.x != in_hand) {
      std::vector<std::byte> bytes(std::size_t(s.batch * s.heads * s.head_dim) * core::bytes_of(input.type));
      io::read_rows_alone(file, {"out", bytes.data()}, {row.x, row.x + 1});
      out = to_double(bytes, input.type);
      bytes.resize(std::size_t(s.batch * s.heads) * core::bytes_of(core::lse_type(input.type)));
      io::read_rows_alone(file, {"lse", bytes.data()}, {row.x, row.x + 1});
      lse = to_double(bytes, core::lse_type(input.type));
      in_hand = row.x;
    }
    double expected_lse = 0;
    row.row.finish(expected, expected_lse);
    const Index head = row.b * s.heads + row.h;
    found.lse.compare(lse[std::size_t(head)], expected_lse, fmt::format("[{}, {}, {}]", row.b, row.x, row.h));
    for (Index d = 0; d < s.head_dim; ++d) {
      found.out.compare(out[std::size_t(head * s.head_dim + d)], expected[std::size_t(d)],
                        fmt::format("[{}, {}, {}, {}]", row.b, row.x, row.h, d));
    }
  }
  return found;
}

void print_line(const char* name, const Deviation& deviation, double tolerance) {
  const std::string where = deviation.where.empty() ? "" : ", largest at " + deviation.where;
  std::printf("  %-4s  error %-9.3g tolerance %-9.3g %s%s\n", name, deviation.relative(), tolerance,
              deviation.relative() <= tolerance ? "ok" : "WRONG", where.c_str());
}

}  // namespace

int verify(const VerifyOptions& options, const comm::Communicator& comm) {
  const io::RunFile run = io::read_run_file(options.run_file, options.overrides, comm);
  const Input input(run.settings.input, comm);
  const std::string& file = run.settings.output.file;
  io::on_root(comm, [&] { check_result(run, input); });

  const kernels::ReferencePattern pattern = reference_pattern(run.settings.attention, input);
  const std::vector<Index> rows = sample_rows(pattern, input.shape.sequence, options.rows);
  std::vector<Index> mine;  // dealt like cards: causal rows further down have more keys
  for (std::size_t i = std::size_t(comm.rank()); i < rows.size(); i += std::size_t(comm.size()))
    mine.push_back(rows[i]);
  Deviations found;
  comm::agree(comm, [&] {
    std::vector<Recomputed> recomputed = begin_rows(input, pattern, mine);
    add_keys(input, recomputed);
    found = compare(input, file, recomputed);
  });
  const Deviation out = found.out.merged(comm), lse = found.lse.merged(comm);

  // Sums in float32 of float64 tensors are right to float32's accuracy only.
  const bool single = run.settings.compute.precision == core::Precision::float32;
  const double tolerance =
      std::max(core::forward_tolerance(input.type), single ? core::forward_tolerance(DType::float32) : 0);
  const bool good = out.relative() <= tolerance && lse.relative() <= tolerance;
  if (comm.is_root()) {
    std::printf("%s against the definition in float64: %zu of %lld rows, all %lld heads, %lld batch entr%s\n",
                file.c_str(), rows.size(), static_cast<long long>(input.shape.sequence),
                static_cast<long long>(input.shape.heads), static_cast<long long>(input.shape.batch),
                input.shape.batch == 1 ? "y" : "ies");
    print_line("out", out, tolerance);
    print_line("lse", lse, tolerance);
    std::printf("  %s  (error: max |difference| / max(1, max |reference|))\n",
                good ? "within tolerance" : "OUTSIDE TOLERANCE");
  }
  return good ? 0 : int(ErrorKind::verification);
}

}  // namespace annulus::app

// A job computed in slices gives the same bits as the same job computed at once. Its tensors are read from memory and
// written to memory. Also tested: how much memory slices take, and the error if not even one head fits.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "annulus/app/job/sink_gradients.hpp"
#include "annulus/app/job/slices.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/exact_sum.hpp"
#include "annulus/kernels/kept_memory.hpp"
#include "annulus/store/generated.hpp"
#include "annulus/store/row_reading.hpp"

namespace annulus::app {
namespace {

using core::RowPiece;
using core::StoredTensor;

const char* const deck = R"(
input: {generate: {sequence: 203, heads: 6, kv_heads: 3, head_dim: 8, batch: 3}}
attention: {segments: [16, 64, all], dilations: [1, 3, 5]}
compute: {backward: true}
distribution: {strategy: ring}
output: {file: none}
)";

/// Whole tensors in this rank's memory: inputs are generated from the seed, results that are written are kept.
class MemoryRows : public core::RowSource, public store::RowWriter {
 public:
  explicit MemoryRows(const Job& whole) : job_(whole) {
    const runfile::GenerateSettings& made = *whole.run.settings.input.generate;
    const auto id = [](StoredTensor t) {
      return t == StoredTensor::q   ? core::TensorId::q
             : t == StoredTensor::k ? core::TensorId::k
             : t == StoredTensor::v ? core::TensorId::v
                                    : core::TensorId::dout;
    };
    for (const StoredTensor t : {StoredTensor::q, StoredTensor::k, StoredTensor::v, StoredTensor::dout}) {
      store::fill_tensor(made.seed, store::generated(made, id(t)), {{0, made.shape.sequence}}, memory(t).data());
    }
  }

  Ticket start(StoredTensor tensor, std::vector<RowPiece> pieces) override {
    for (const RowPiece& piece : pieces) move(tensor, piece, false);
    read_.push_back(tensor);
    return ++begun_;
  }
  void wait(Ticket ticket) override { waited_ = ticket; }
  void write(const std::vector<store::RowsOut>& tensors, const std::vector<core::Interval>& rows,
             const store::RowOwners&) override {
    for (const store::RowsOut& one : tensors) {
      const StoredTensor tensor = core::stored_tensor(one.dataset).value();
      const Index bytes = Index(store::bytes_of(*one.type));
      for (const RowPiece& piece :
           store::pieces_of(*one.batch, rows, *one.heads, Index(head_bytes(tensor)) / bytes, bytes, one.host)) {
        move(tensor, piece, true);
      }
    }
  }
  void write_parts(const std::vector<store::MatrixPart>&,
                   const std::function<store::RankOf(const std::string&)>&) override {
    ADD_FAILURE() << "attention has no matrices";
  }

  bool has(StoredTensor t) const { return tensors_.contains(t); }
  /// Bytes of a whole tensor, (B, S, heads, numbers of a head).
  std::vector<std::byte>& memory(StoredTensor t) {
    std::vector<std::byte>& bytes = tensors_[t];
    const core::Shape& s = job_.problem.shape;
    if (bytes.empty()) bytes.resize(std::size_t(s.batch * s.sequence) * row_bytes(t));
    return bytes;
  }
  std::size_t row_bytes(StoredTensor t) const { return std::size_t(heads(t)) * head_bytes(t); }

  std::vector<StoredTensor> read_;
  Ticket begun_ = 0, waited_ = 0;

 private:
  Index heads(StoredTensor t) const {
    const bool keys = t == StoredTensor::k || t == StoredTensor::v || t == StoredTensor::dk || t == StoredTensor::dv;
    return keys ? job_.problem.shape.kv_heads : job_.problem.shape.heads;
  }
  std::size_t head_bytes(StoredTensor t) const {
    if (t == StoredTensor::lse) return core::bytes_of(core::lse_type(job_.problem.type));
    return std::size_t(job_.problem.head_row_bytes());
  }
  void move(StoredTensor tensor, const RowPiece& piece, bool write) {
    const std::size_t each = head_bytes(tensor);
    for (Index i = 0; i < piece.count; ++i) {
      for (Index h = 0; h < piece.heads.size(); ++h) {
        const Index row = piece.batch * job_.problem.shape.sequence + piece.first + i * piece.stride;
        std::byte* here = memory(tensor).data() + std::size_t(row * heads(tensor) + piece.heads.begin + h) * each;
        std::byte* there = static_cast<std::byte*>(piece.memory) + i * piece.pitch + h * piece.head_pitch;
        std::memcpy(write ? here : there, write ? there : here, each);
      }
    }
  }

  const Job& job_;
  std::map<StoredTensor, std::vector<std::byte>> tensors_;
};

Job job(const std::vector<std::string>& overrides, const comm::Communicator& comm) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("annulus_slices_{}.yaml", getpid());
  std::ofstream(file) << deck;
  Job made = make_job({{file.string(), overrides}}, comm);
  std::filesystem::remove(file);
  return made;
}

Index peak_of(const std::function<void()>& work) {
  kernels::release_kept_memory();
  const Index before = core::memory_ledger().current();
  core::memory_ledger().reset_peak();
  work();
  return core::memory_ledger().peak() - before;
}

/// Computes the job at once, not in slices, and writes this rank's rows of its results.
void compute_at_once(const Job& whole, const comm::Communicator& comm, MemoryRows& results) {
  const std::unique_ptr<store::FileRows> source = input_rows(whole, comm);
  const std::unique_ptr<Work> work = make_work(whole, *source, comm);
  const auto quietly = [](double, const std::string&) {};
  work->read_inputs();
  work->pass(PassKind::forward, quietly);
  work->write_outputs(&results);
  if (!whole.problem.gradients) return;
  work->read_gradients();
  work->pass(PassKind::backward, quietly);
  work->write_gradients(&results);
}

void expect_same_bits(const std::vector<std::string>& overrides, const strategies::SliceSize& size, bool ahead) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Job whole = job(overrides, comm);
  ASSERT_EQ(whole.slice_count(), 1);
  MemoryRows expected(whole);
  compute_at_once(whole, comm, expected);
  Job sliced = whole;
  sliced.slices = size;
  sliced.reads_ahead = ahead;
  MemoryRows stored(whole);
  Tally tally;
  SlicedRun run(sliced, comm, stored, &stored);
  for (Index i = 0; i < sliced.slice_count(); ++i) run.compute(i, tally);
  EXPECT_EQ(stored.begun_, stored.waited_);
  EXPECT_EQ(Index(stored.read_.size()), sliced.slice_count() * (whole.problem.gradients ? 4 : 3));
  for (const StoredTensor tensor :
       {StoredTensor::out, StoredTensor::lse, StoredTensor::dq, StoredTensor::dk, StoredTensor::dv}) {
    const bool is_made = tensor == StoredTensor::out || tensor == StoredTensor::lse || whole.problem.gradients;
    EXPECT_EQ(comm.max(Index(expected.has(tensor))) > 0, is_made) << name_of(tensor);  // a rank may have no rows
    EXPECT_TRUE(stored.memory(tensor) == expected.memory(tensor)) << name_of(tensor);
  }
  const report::Measurements measured = tally.gathered(sliced, comm);
  EXPECT_EQ(measured.lse.rows, 203 * 6 * 3);
  if (!comm.is_root()) return;
  for (const auto* pass : {&measured.forward, measured.backward ? &*measured.backward : &measured.forward}) {
    for (std::size_t p = 0; p < std::size_t(comm.size()); ++p) {
      EXPECT_LE(pass->of("peak_bytes")[p], pass->of("predicted_peak_bytes")[p]) << "rank " << p;
    }
  }
}

TEST(Slices, BitsAreThoseOfTheRunAtOnce) {
  for (const bool ahead : {false, true}) {
    expect_same_bits({}, {1, 3}, ahead);
    expect_same_bits({}, {2, 3}, ahead);
    expect_same_bits({}, {1, 2}, ahead);
    expect_same_bits({"compute.backward=false"}, {1, 1}, ahead);
  }
}

TEST(Slices, WhateverComputesThem) {
  for (const char* strategy : {"single", "allgather", "ring_bidirectional", "rotation", "auto"}) {
    SCOPED_TRACE(strategy);
    expect_same_bits({fmt::format("distribution.strategy={}", strategy)}, {1, 1}, true);
  }
  // If ranks share a K/V head (GQA), they add up its gradients, and slices of heads change which ranks share it.
  expect_same_bits({"distribution.strategy=ulysses", "input.generate.kv_heads=6"}, {1, 1}, true);
  expect_same_bits({"distribution.strategy=ulysses"}, {1, 3}, true);
  for (const char* more : {"input.generate.dtype=bfloat16", "attention.semantics=paper", "compute.reproducible=true",
                           "distribution.partition=zigzag", "attention.causal=false"}) {
    SCOPED_TRACE(more);
    if (std::string_view(more) == "compute.reproducible=true") {
      expect_same_bits({more, "distribution.partition=contiguous"}, {1, 2}, true);
    } else {
      expect_same_bits({more}, {1, 2}, true);
    }
  }
}

TEST(Slices, AreTheFewestThatFitAndStayInsideTheLimit) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Job whole = job({"input.generate.sequence=16003"}, comm);
  const Index at_once = Index(whole.slice_bytes);
  Index before = 1;
  for (const Index share : {1, 2, 3, 5}) {
    const Index limit = at_once / share;
    const Job cut = job({"input.generate.sequence=16003", fmt::format("compute.memory_limit={}", limit)}, comm);
    ASSERT_EQ(cut.why_too_large, "");
    EXPECT_GE(cut.slice_count(), share);
    EXPECT_LE(cut.slice_count(), 9);
    EXPECT_GE(cut.slice_count(), before);
    before = cut.slice_count();
    EXPECT_LE(cut.slice_bytes, double(limit));
    MemoryRows stored(cut);
    Tally tally;
    const Index peak = peak_of([&] {
      SlicedRun run(cut, comm, stored, nullptr);
      for (Index i = 0; i < cut.slice_count(); ++i) run.compute(i, tally);
    });
    if (cut.slice_count() > 1) {
      EXPECT_LE(peak, limit) << cut.slice_count() << " slices";
    }
    EXPECT_LE(double(comm.max(peak)), cut.slice_bytes);
  }
  EXPECT_GT(before, 3) << "heads were cut, too";
}

TEST(Slices, StayReproducibleWhereTheWholeIs) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const std::vector<std::string> ulysses{"distribution.strategy=ulysses", "compute.reproducible=true",
                                         "input.generate.heads=12", "input.generate.kv_heads=6",
                                         "input.generate.sequence=12003"};
  const Job whole = job(ulysses, comm);
  std::vector<std::string> limited = ulysses;
  limited.push_back(fmt::format("compute.memory_limit={}", Index(whole.slice_bytes / 4)));
  const Job cut = job(limited, comm);
  ASSERT_EQ(cut.why_too_large, "");
  EXPECT_GT(cut.slice_count(), 3);
  EXPECT_EQ(cut.slices.kv_heads % comm.size(), 0) << "else two ranks would share a K/V head and add up its gradients";
}

TEST(Slices, SayWhatTheyLackWhereNotEvenOneHeadFits) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Job cut = job({"compute.memory_limit=1KiB"}, comm);
  EXPECT_NE(cut.why_too_large.find("with strategy ring needs "), std::string::npos) << cut.why_too_large;
  EXPECT_NE(cut.why_too_large.find("1.0 KiB (compute.memory_limit)"), std::string::npos) << cut.why_too_large;
  EXPECT_TRUE(cut.why_too_large.ends_with("Expected more memory or more ranks")) << cut.why_too_large;
  const Job forward = job({"compute.memory_limit=1KiB", "compute.backward=false"}, comm);  // stream can compute it
  EXPECT_NE(forward.why_too_large.find("strategy stream"), std::string::npos) << forward.why_too_large;
}

TEST(SinkNotes, MakeTheGradientsOrAreRefusedAsAWhole) {
  std::vector<std::int64_t> sums(2 * kernels::exact_words, 0);
  sums[1] = 7;
  const std::string note = sink_note(0, sums);
  const std::vector<double> once = sink_gradients({note}, 2, "r.journal");
  EXPECT_NE(once[0], 0);
  EXPECT_EQ(once[1], 0);
  EXPECT_EQ(sink_gradients({note, "", note + " "}, 2, "r.journal")[0], 2 * once[0]);
  for (const std::string wrong : {"x", "1", "1 x", "1 7 x", "1 7 2", "-1 7", "999999 7", "1 99999999999999999999"}) {
    try {
      sink_gradients({note, wrong}, 2, "r.journal");
      ADD_FAILURE() << "'" << wrong << "' was taken";
    } catch (const core::Error& error) {
      EXPECT_NE(std::string(error.what()).find("r.journal: found '" + wrong + "'"), std::string::npos) << error.what();
    }
  }
}

TEST(Tally, KeepsTheHighestPeakOfSeveralPasses) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Job whole = job({}, comm);
  MemoryRows stored(whole);
  const std::unique_ptr<Work> work = make_work(whole, stored, comm);
  Tally tally;
  for (const Index bytes : {300, 500, 400}) {
    report::Pass pass;
    pass.peak_bytes = bytes;
    pass.metrics.attention.hops.resize(1);
    tally.add(PassKind::forward, pass, *work);
  }
  const report::Measurements measured = tally.gathered(whole, comm);
  EXPECT_EQ(measured.forward.of("peak_bytes"), std::vector<double>(comm.is_root() ? std::size_t(comm.size()) : 0, 500));
}

}  // namespace
}  // namespace annulus::app

// A store of rows in memory, as strict as a store in files may be: the numbers of a read arrive only in wait() (until
// then the reader's memory has bytes 0xff), no number may be written twice, and no result may be read before it exists.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "annulus/core/row_store.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::test {

using core::Index;
using core::StoredTensor;

class MemoryStore final : public core::RowSource, public core::RowSink {
 public:
  struct Tensor {
    Index heads = 1, head_bytes = 0;
    std::vector<std::byte> bytes;
    std::vector<int> written;  ///< how often each (batch, row, head) was written
  };

  MemoryStore(Index batch, Index rows) : batch_(batch), rows_(rows) {}

  /// Puts a tensor (B, S, heads, numbers) into the store.
  void put(StoredTensor tensor, Index heads, std::vector<std::byte> bytes) {
    const Index head_bytes = Index(bytes.size()) / (batch_ * rows_ * heads);
    tensors_[tensor] = {heads, head_bytes, std::move(bytes), {}};
  }
  /// Makes room for a tensor that will be written.
  void lay_out(StoredTensor tensor, Index heads, Index head_bytes) {
    const auto all = std::size_t(batch_ * rows_ * heads);
    tensors_[tensor] = {heads, head_bytes, std::vector<std::byte>(all * std::size_t(head_bytes)),
                        std::vector<int>(all)};
  }
  const std::vector<std::byte>& bytes(StoredTensor tensor) const { return tensors_.at(tensor).bytes; }
  const std::map<StoredTensor, Tensor>& all() const { return tensors_; }

  Ticket start(StoredTensor tensor, std::vector<core::RowPiece> pieces) override {
    for (const core::RowPiece& piece : pieces) {
      for_each(tensor, piece, [&](std::byte* memory, Index) { std::memset(memory, 0xff, head_bytes(tensor)); });
    }
    pending_.push_back({tensor, std::move(pieces)});
    return ++begun_;
  }

  void wait(Ticket ticket) override {
    EXPECT_LE(ticket, begun_);
    for (; done_ < ticket; ++done_) {
      const auto& request = pending_[std::size_t(done_)];
      const core::StoredTensor tensor = request.first;
      const Tensor& from = tensors_.at(tensor);
      for (const core::RowPiece& piece : request.second) {
        for_each(tensor, piece, [&](std::byte* memory, Index at) {
          EXPECT_TRUE(from.written.empty() || from.written[std::size_t(at)] == 1) << name_of(tensor) << " is not there";
          std::memcpy(memory, from.bytes.data() + at * from.head_bytes, std::size_t(from.head_bytes));
          read_.asked += from.head_bytes;
        });
      }
    }
  }
  core::RowTraffic traffic() const override { return read_; }

  void write(StoredTensor tensor, const std::vector<core::RowPiece>& pieces) override {
    Tensor& to = tensors_.at(tensor);
    for (const core::RowPiece& piece : pieces) {
      for_each(tensor, piece, [&](std::byte* memory, Index at) {
        EXPECT_EQ(++to.written[std::size_t(at)], 1) << name_of(tensor) << ", number of (row, head) " << at;
        std::memcpy(to.bytes.data() + at * to.head_bytes, memory, std::size_t(to.head_bytes));
        bytes_written += to.head_bytes;
      });
    }
  }

  Index bytes_written = 0;

 private:
  std::size_t head_bytes(StoredTensor tensor) const { return std::size_t(tensors_.at(tensor).head_bytes); }

  /// Calls visit(memory, number of the (batch, row, head) in the tensor) for each row and head of a piece.
  template <class Visit>
  void for_each(StoredTensor tensor, const core::RowPiece& piece, Visit&& visit) {
    const Tensor& stored = tensors_.at(tensor);
    EXPECT_TRUE(piece.batch >= 0 && piece.batch < batch_ && piece.first >= 0 && piece.stride >= 1);
    EXPECT_LE(piece.first + (piece.count - 1) * piece.stride, rows_ - 1);
    EXPECT_TRUE(piece.heads.begin >= 0 && piece.heads.end <= stored.heads);
    for (Index i = 0; i < piece.count; ++i) {
      for (Index head = piece.heads.begin; head < piece.heads.end; ++head) {
        std::byte* const memory =
            static_cast<std::byte*>(piece.memory) + i * piece.pitch + (head - piece.heads.begin) * piece.head_pitch;
        visit(memory, (piece.batch * rows_ + piece.first + i * piece.stride) * stored.heads + head);
      }
    }
  }

  const Index batch_, rows_;
  std::map<StoredTensor, Tensor> tensors_;
  std::vector<std::pair<StoredTensor, std::vector<core::RowPiece>>> pending_;
  Ticket begun_ = 0, done_ = 0;
  core::RowTraffic read_;
};

/// Makes room for every tensor that a run of the problem writes.
inline void lay_out_results(const strategies::Problem& problem, MemoryStore& store) {
  const core::Shape& s = problem.shape;
  const Index head = problem.head_row_bytes(), lse = Index(core::bytes_of(core::lse_type(problem.type)));
  store.lay_out(StoredTensor::out, s.heads, problem.head_value_bytes());
  store.lay_out(StoredTensor::lse, s.heads, lse);
  if (problem.statistics.entropy) store.lay_out(StoredTensor::entropy, s.heads, lse);
  if (!problem.gradients) return;
  store.lay_out(StoredTensor::normalizers, s.heads, problem.head_normalizer_bytes());
  store.lay_out(StoredTensor::dq, s.heads, head);
  store.lay_out(StoredTensor::dk, s.kv_heads, head);
  store.lay_out(StoredTensor::dv, s.kv_heads, problem.head_value_bytes());
}

}  // namespace annulus::test

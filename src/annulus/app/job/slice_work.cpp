#include "annulus/app/job/slice_work.hpp"

#include "annulus/comm/watchdog.hpp"

namespace annulus::app {
namespace {

using core::StoredTensor;

/// The tensor of a dataset of the result.
StoredTensor result_called(const std::string& name) {
  for (const StoredTensor tensor :
       {StoredTensor::out, StoredTensor::lse, StoredTensor::entropy, StoredTensor::dq, StoredTensor::dk,
        StoredTensor::dv, StoredTensor::received, StoredTensor::top_rows, StoredTensor::top_weights}) {
    if (name_of(tensor) == name) return tensor;
  }
  core::fail(core::ErrorKind::failure, "no tensor {} is stored", name);
}

bool has_kv_heads(StoredTensor tensor) {
  return tensor == StoredTensor::k || tensor == StoredTensor::v || tensor == StoredTensor::dk ||
         tensor == StoredTensor::dv;
}

/// Bytes of dout and dlse of a slice, on a rank with so many rows.
Index late_bytes(const Job& slice, Index rows) {
  const strategies::Problem& p = slice.problem;
  if (!slice.run.settings.compute.gradients) return 0;
  return p.shape.batch * rows * (p.query_row_bytes() + (slice.run.settings.input.dlse ? p.lse_row_bytes() : 0));
}

}  // namespace

Job job_of_slice(const Job& whole, Index i) {
  Job job = whole;
  job.slice = strategies::slice_of(whole.problem.shape, whole.slices, i);
  job.problem = strategies::narrowed(whole.problem, *job.slice);
  job.slices = strategies::whole_of(job.problem.shape);
  return job;
}

SliceWork::~SliceWork() {
  try {
    if (last_ > 0) source_.wait(last_);
  } catch (const core::Error&) {  // nobody wants it any more
  }
}

Index SliceWork::input_bytes_of(const Job& slice, int rank) {
  const Index rows = slice.partition[std::size_t(rank)].count();
  return slice.problem.shape.batch * rows * slice.problem.input_row_bytes() + late_bytes(slice, rows);
}

Index SliceWork::predicted_bytes(PassKind pass) const {
  const bool early = is_begun_ && pass != PassKind::backward;  // dout is there already
  return AttentionWork::predicted_bytes(pass) + beside_ + (early ? late_bytes(job_, rows().count()) : 0);
}

void SliceWork::begin(std::vector<Input>& inputs) {
  comm::agree(comm_, [&] {
    for (Input& one : inputs) {
      const core::DType type = one.tensor == StoredTensor::dlse ? core::lse_type(job_.problem.type) : job_.problem.type;
      last_ = source_.start(one.tensor, pieces_of(one.tensor, one.host.data(), Index(core::bytes_of(type))));
    }
  });
}

void SliceWork::begin_reading() {
  is_begun_ = true;
  inputs_ = make_inputs();
  begin(inputs_);
  if (!job_.run.settings.compute.gradients) return;
  gradient_inputs_ = make_gradient_inputs();
  begin(gradient_inputs_);
}

void SliceWork::read_inputs() {
  if (!is_begun_) return AttentionWork::read_inputs();
  const comm::Scope scope("the reading of q, k and v");
  fill(inputs_);
  look_at_inputs(inputs_);
  inputs_.clear();
}

void SliceWork::read_gradients() {
  if (!is_begun_) return AttentionWork::read_gradients();
  take(gradient_inputs_);  // it was waited for with q, k and v: reads end in the order in which they were begun
  gradient_inputs_.clear();
}

void SliceWork::fill(std::vector<Input>& inputs) {
  if (!is_begun_) begin(inputs);
  comm::agree(comm_, [&] { source_.wait(std::exchange(last_, 0)); });
}

void SliceWork::write(const io::ResultFile*, const std::vector<io::RowsOut>& tensors) {
  if (sink_ == nullptr) return;
  comm::agree(comm_, [&] {
    for (const io::RowsOut& one : tensors) {
      const StoredTensor tensor = result_called(one.dataset);
      const io::NumberType type = one.type.value_or(result(one.dataset).type);
      sink_->write(tensor, pieces_of(tensor, const_cast<void*>(one.host), Index(bytes_of(type))));
      files_.written += stored_bytes(one.dataset);
    }
  });
}

std::vector<core::RowPiece> SliceWork::pieces_of(StoredTensor tensor, void* memory, Index number_bytes) const {
  const core::Shape& s = job_.problem.shape;
  const auto& [batch, kv_heads] = *job_.slice;
  const core::Interval heads = has_kv_heads(tensor) ? kv_heads : job_.slice->query_heads(s.group());
  Index numbers = s.head_dim;
  if (tensor == StoredTensor::lse || tensor == StoredTensor::dlse || tensor == StoredTensor::entropy ||
      tensor == StoredTensor::received) {
    numbers = 1;
  }
  if (tensor == StoredTensor::top_rows || tensor == StoredTensor::top_weights)
    numbers = job_.problem.statistics.top_keys;
  const Index head_pitch = numbers * number_bytes, pitch = heads.size() * head_pitch;
  auto* to = static_cast<std::byte*>(memory);
  std::vector<core::RowPiece> pieces;
  for (Index b = batch.begin; b < batch.end; ++b) {
    for (const core::Interval& interval : rows().intervals()) {
      pieces.push_back({b, interval.begin, 1, interval.size(), heads, to, pitch, head_pitch});
      to += interval.size() * pitch;
    }
  }
  return pieces;
}

}  // namespace annulus::app

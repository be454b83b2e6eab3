#include "annulus/app/job/tensors.hpp"

#include "annulus/comm/watchdog.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/io/generated.hpp"

namespace annulus::app {
namespace {

using core::TensorId;
using strategies::Tensors;

/// One tensor to be filled.
struct Wanted {
  TensorId id;
  std::string dataset;
  HostSide* host;
};

void fill(const Job& job, const comm::Communicator& comm, const std::vector<Wanted>& tensors) {
  const std::vector<core::Interval>& rows = job.partition[std::size_t(comm.rank())].intervals();
  if (job.input) {
    std::vector<io::RowsIn> reads;
    for (const Wanted& tensor : tensors) reads.push_back({tensor.dataset, tensor.host->data()});
    job.input->read(reads, rows, comm);
  } else {
    for (const Wanted& tensor : tensors) {
      io::fill_generated(*job.run.settings.input.generate, tensor.id, rows, tensor.host->data());
    }
  }
  for (const Wanted& tensor : tensors) tensor.host->to_device();
}

/// Rows of this rank, over all batch entries.
Index rows_of(const Job& job, const comm::Communicator& comm) {
  return job.problem.shape.batch * job.partition[std::size_t(comm.rank())].count();
}

}  // namespace

HostSide::HostSide(void* device, Index bytes) : device_(device), bytes_(bytes) {
  if (!core::device_is_host()) copy_.resize(std::size_t(bytes));
}
void HostSide::to_device() {
  if (!copy_.empty()) core::copy_to_device(device_, copy_.data(), bytes_);
}
void HostSide::from_device() {
  if (!copy_.empty()) core::copy_to_host(copy_.data(), device_, bytes_);
}

std::vector<io::TensorSpec> result_tensors(const Job& job) {
  const core::Shape& shape = job.problem.shape;
  const core::DType type = job.problem.type;
  const io::AxisOrder order = job.input ? job.input->order() : io::AxisOrder::bshd;
  std::vector<io::TensorSpec> tensors{io::tensor_spec("out", type, shape, shape.heads, order),
                                      io::lse_spec("lse", type, shape, order)};
  if (job.run.settings.compute.backward) {
    tensors.push_back(io::tensor_spec("dq", type, shape, shape.heads, order));
    tensors.push_back(io::tensor_spec("dk", type, shape, shape.kv_heads, order));
    tensors.push_back(io::tensor_spec("dv", type, shape, shape.kv_heads, order));
  }
  return tensors;
}

Tensors load_inputs(const Job& job, const comm::Communicator& comm) {
  const comm::Place place("the reading of q, k and v");
  const Index kv_bytes = rows_of(job, comm) * job.problem.kv_row_bytes();
  Tensors tensors;
  comm::agree(comm, [&] {
    tensors.q = core::Buffer("q", rows_of(job, comm) * job.problem.query_row_bytes());
    tensors.kv = core::Buffer("kv", 2 * kv_bytes);
  });
  HostSide q(tensors.q), k(tensors.kv.data(), kv_bytes), v(tensors.kv.at(kv_bytes), kv_bytes);
  const io::InputSettings& input = job.run.settings.input;
  fill(job, comm, {{TensorId::q, input.q, &q}, {TensorId::k, input.k, &k}, {TensorId::v, input.v, &v}});
  const Index each = Index(core::bytes_of(job.problem.type));
  check_scores(job, io::largest_magnitude(q.data(), job.problem.type, tensors.q.bytes() / each),
               io::largest_magnitude(k.data(), job.problem.type, kv_bytes / each), comm);
  return tensors;
}

void load_gradients(const Job& job, const comm::Communicator& comm, Tensors& tensors) {
  const comm::Place place("the reading of dout");
  const io::InputSettings& input = job.run.settings.input;
  comm::agree(comm, [&] {
    tensors.dout = core::Buffer("dout", rows_of(job, comm) * job.problem.query_row_bytes());
    if (input.dlse) tensors.dlse = core::Buffer("dlse", rows_of(job, comm) * job.problem.lse_row_bytes());
  });
  HostSide dout(tensors.dout), dlse(tensors.dlse);
  std::vector<Wanted> wanted{{TensorId::dout, input.dout, &dout}};
  if (input.dlse) wanted.push_back({TensorId::dlse, *input.dlse, &dlse});
  fill(job, comm, wanted);
}

LseFindings write_outputs(const Job& job, const comm::Communicator& comm, const Tensors& tensors,
                          const io::ResultFile& file) {
  const comm::Place place("the writing of out and lse");
  HostSide out(tensors.out), lse(tensors.lse);
  out.from_device();
  lse.from_device();
  check_results(job, {{"out", out.data(), job.problem.shape.heads}}, comm);
  const LseFindings findings = look_at_lse(job, lse.data(), comm);
  file.write({{"out", out.data()}, {"lse", lse.data()}}, job.partition[std::size_t(comm.rank())].intervals());
  return findings;
}

void write_gradients(const Job& job, const comm::Communicator& comm, const Tensors& tensors,
                     const io::ResultFile& file) {
  const comm::Place place("the writing of dq, dk and dv");
  const Index kv_bytes = tensors.dkv.bytes() / 2;
  HostSide dq(tensors.dq), dk(tensors.dkv.data(), kv_bytes), dv(tensors.dkv.at(kv_bytes), kv_bytes);
  for (HostSide* side : {&dq, &dk, &dv}) side->from_device();
  const core::Shape& s = job.problem.shape;
  check_results(job, {{"dq", dq.data(), s.heads}, {"dk", dk.data(), s.kv_heads}, {"dv", dv.data(), s.kv_heads}}, comm);
  file.write({{"dq", dq.data()}, {"dk", dk.data()}, {"dv", dv.data()}},
             job.partition[std::size_t(comm.rank())].intervals());
}

}  // namespace annulus::app

#include "annulus/app/job/run_layer.hpp"

#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/job/tensors.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/layer/predict.hpp"

namespace annulus::app {
namespace {

void take_metrics(const layer::LayerMetrics& metrics, Pass& pass) {
  pass.metrics = metrics.attention;
  pass.layer = {metrics.product_seconds, metrics.product_flops, metrics.wait_seconds, metrics.bytes_sent,
                metrics.bytes_received};
}

/// What the lse tells, and whether the scores had room: q and k were made on the way.
LseFindings look_at_attention(const Job& job, const strategies::Tensors& saved, const comm::Communicator& comm) {
  const core::DType type = job.problem.type;
  const Index each = Index(core::bytes_of(type)), kv_bytes = saved.kv.bytes() / 2;
  HostSide q(saved.q), k(saved.kv.data(), kv_bytes), lse(saved.lse);
  for (HostSide* side : {&q, &k, &lse}) side->from_device();
  check_scores(job, io::largest_magnitude(q.data(), type, saved.q.bytes() / each),
               io::largest_magnitude(k.data(), type, kv_bytes / each), comm);
  return count_lse(job, lse.data(), saved.lse.bytes() / Index(core::bytes_of(core::lse_type(type))), comm);
}

}  // namespace

std::vector<io::TensorSpec> layer_tensors(const Job& job) {
  const layer::LayerProblem problem = layer_problem(job);
  std::vector<io::TensorSpec> specs{rows_spec("y", problem)};
  if (!job.run.settings.compute.backward) return specs;
  specs.push_back(rows_spec("dx", problem));
  for (const io::TensorSpec& gradient : weight_specs("d", problem)) specs.push_back(gradient);
  return specs;
}

Passes compute_layer(const Job& job, const comm::Communicator& comm, const io::ResultFile& file) {
  const io::LayerSettings& settings = *job.run.settings.layer;
  const layer::Layer layer(layer_problem(job), *job.strategy, comm);
  const layer::MemoryPrediction predicted =
      layer::predict_memory(layer.problem(), *job.strategy, layer.partition(), comm.rank());
  Passes passes;
  Stopwatch read, write;
  core::memory_ledger().reset_peak();
  layer::Weights weights = read.time([&] { return load_weights(job, layer.problem(), comm); });
  core::Buffer x = read.time([&] { return load_rows(job, layer, settings.x, comm); });
  layer::ForwardResult forward;
  passes.forward = run_pass(comm, "the layer", [&](Pass& pass, const strategies::Progress& progress) {
    forward = layer.forward(weights, x, progress);
    take_metrics(forward.metrics, pass);
  });
  passes.forward.predicted_bytes = predicted.forward;
  write.time([&] { write_rows("y", forward.y, layer, comm, file); });
  passes.lse = look_at_attention(job, forward.saved, comm);
  forward.y = {};
  if (job.run.settings.compute.backward) {
    check_gradients_mean_something(job, *passes.lse);
    core::memory_ledger().reset_peak();
    const core::Buffer dy = read.time([&] { return load_rows(job, layer, settings.dy, comm); });
    layer::BackwardResult backward;
    passes.backward =
        run_pass(comm, "the layer's backward pass", [&](Pass& pass, const strategies::Progress& progress) {
          backward = layer.backward(weights, x, std::move(forward.saved), dy, progress);
          take_metrics(backward.metrics, pass);
        });
    passes.backward->predicted_bytes = predicted.backward;
    weights = {};
    x = {};
    write.time([&] {
      write_rows("dx", backward.dx, layer, comm, file);
      write_weights("d", backward.gradients, layer.problem(), comm, file);
    });
  }
  passes.read_seconds = read.seconds;
  passes.write_seconds = write.seconds;
  return passes;
}

}  // namespace annulus::app

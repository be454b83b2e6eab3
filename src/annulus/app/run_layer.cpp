#include "annulus/app/run_layer.hpp"

#include "annulus/app/layer_tensors.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/layer/predict.hpp"

namespace annulus::app {
namespace {

void take_metrics(const layer::LayerMetrics& metrics, Pass& pass) {
  pass.metrics = metrics.attention;
  pass.layer = {metrics.product_seconds, metrics.product_flops, metrics.wait_seconds, metrics.bytes_sent,
                metrics.bytes_received};
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
  write.time([&] { write_rows("y", forward.y, layer, file); });
  forward.y = {};
  if (job.run.settings.compute.backward) {
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
      write_rows("dx", backward.dx, layer, file);
      write_weights("d", backward.gradients, layer.problem(), comm, file);
    });
  }
  passes.read_seconds = read.seconds;
  passes.write_seconds = write.seconds;
  return passes;
}

}  // namespace annulus::app

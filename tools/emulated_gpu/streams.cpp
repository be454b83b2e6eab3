#include "streams.hpp"

#include <algorithm>

#include "warp.hpp"

namespace emulated_gpu {
namespace {

const bool is_eager = is_set("EMULATED_GPU_EAGER");

/// The null stream is the first one. Never destroyed: other destructors wait for streams.
std::vector<Stream*>& streams() {
  static auto* const all = new std::vector<Stream*>{new Stream};
  return *all;
}

}  // namespace

std::recursive_mutex& runtime_mutex() {
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

Stream& null_stream() { return *streams().front(); }

Stream* new_stream(bool is_blocking) {
  streams().push_back(new Stream);
  streams().back()->is_blocking = is_blocking;
  return streams().back();
}

void remove(Stream* stream) {
  run_until(end_of(*stream));
  streams().erase(std::find(streams().begin(), streams().end(), stream));
}

Stream& stream_of(const void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return null_stream();  // 1, 2: its other names
  const auto found = std::find(streams().begin(), streams().end(), static_cast<const Stream*>(handle));
  if (found == streams().end()) fail("a stream that is not there");
  return **found;
}

void enqueue(Stream& stream, std::function<void()> run, std::vector<Point> after) {
  if (&stream != &null_stream()) {
    if (stream.is_blocking) after.push_back(end_of(null_stream()));
  } else {
    for (Stream* other : streams()) {
      if (other != &stream && other->is_blocking) after.push_back(end_of(*other));
    }
  }
  stream.waiting.push_back({std::move(run), std::move(after)});
  ++stream.asked;
  if (is_eager) run_until(end_of(stream));
}

void run_one(Stream& stream) {
  const Operation operation = std::move(stream.waiting.front());
  stream.waiting.pop_front();
  for (const Point& before : operation.after) run_until(before);
  if (operation.run) operation.run();
  ++stream.done;
}

void run_until(const Point& point) {
  while (!is_over(point)) run_one(*point.stream);
}

void run_everything() {
  for (Stream* stream : std::vector<Stream*>(streams())) run_until(end_of(*stream));
}

}  // namespace emulated_gpu

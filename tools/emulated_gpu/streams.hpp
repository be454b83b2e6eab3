// Queues that run work as late as possible: an operation runs when something waits for it, or asks whether it is done.
// A host that does not wait reads the old numbers. With EMULATED_GPU_EAGER=1 each operation runs when it is enqueued.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace emulated_gpu {

struct Stream;

/// The moment after this many of a stream's operations.
struct Point {
  Stream* stream = nullptr;
  std::uint64_t operations = 0;
};

struct Operation {
  std::function<void()> run;  // may be empty
  std::vector<Point> after;
};

struct Stream {
  std::deque<Operation> waiting;
  std::uint64_t done = 0, asked = 0;
  bool is_blocking = true;  // ordered with the null stream
};

/// Held while streams are changed, or their operations run.
std::recursive_mutex& runtime_mutex();

Stream& null_stream();
Stream* new_stream(bool is_blocking);
/// Runs the operations that are left; points may still refer to the stream.
void remove(Stream* stream);
/// Ends the program if there is none.
Stream& stream_of(const void* handle);

void enqueue(Stream& stream, std::function<void()> run, std::vector<Point> after = {});
inline Point end_of(Stream& stream) { return {&stream, stream.asked}; }
inline bool is_over(const Point& point) { return point.stream == nullptr || point.stream->done >= point.operations; }
void run_one(Stream& stream);
void run_until(const Point& point);
void run_everything();

}  // namespace emulated_gpu

// Queues of work, as late as they may be: an operation is done when something waits for it, or asks whether it is over.
// A host that does not wait finds what was there before. With EMULATED_GPU_EAGER=1 each is done when it is enqueued.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace emulated_gpu {

struct Stream;

/// After so many of a stream's operations.
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

/// Held by whoever changes streams or runs what is in them.
std::recursive_mutex& runtime_mutex();

Stream& null_stream();
Stream* new_stream(bool is_blocking);
/// Does what is left; points may still name it.
void remove(Stream* stream);
/// Ends the program where there is none.
Stream& stream_of(const void* handle);

void enqueue(Stream& stream, std::function<void()> run, std::vector<Point> after = {});
inline Point end_of(Stream& stream) { return {&stream, stream.asked}; }
inline bool is_over(const Point& point) { return point.stream == nullptr || point.stream->done >= point.operations; }
void run_one(Stream& stream);
void run_until(const Point& point);
void run_everything();

}  // namespace emulated_gpu

// A device on the host whose queues run late: operations wait, and then run in a random order that their dependences
// allow. A seed decides the order. If the program forgets a dependence, numbers are wrong with some seeds.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "annulus/core/copy_queue.hpp"

namespace annulus::test {

using core::Index;

class FakeDevice {
 public:
  /// `real_kernels`: kernels are not queued but run on the host immediately. So kernels_wait_for() returns only when
  /// the copy is done. Until a copy happens, its target has bytes 0xff (NaN in every storage type). Some time
  /// afterwards the source is compared with what was copied: `overwritten` counts lines whose memory was reused too
  /// early.
  FakeDevice(std::uint64_t seed, bool real_kernels) : random_(seed), real_kernels_(real_kernels), queues_(4) {}

  core::CopyQueue& to_host() { return to_host_; }
  core::CopyQueue& to_device() { return to_device_; }
  core::CopyQueue& messages() { return messages_; }

  /// Queues a kernel: it runs after all earlier kernels, and after the operations that kernels were made to wait for.
  void launch(std::function<void()> kernel) { queues_[kernels].add(at_once(std::move(kernel))); }
  /// Adds work of a library to the queue that has this stream: `work` is called again and again until it returns true.
  static void add(void* stream, std::function<bool()> work) {
    auto& queue = *static_cast<Queue*>(stream);
    queue.device.queues_[queue.own].add(std::move(work));
  }
  /// Runs one operation that may run now; returns false if no operation may run.
  bool step() {
    std::vector<std::size_t> can;
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      if (may_run(q)) can.push_back(q);
    }
    if (can.empty()) return false;
    run(can[random_() % can.size()]);
    return true;
  }
  void finish() {
    while (step()) {
    }
  }
  /// Runs copies until no copy may run.
  void finish_copies() {
    for (bool is_any = true; is_any;) {
      is_any = false;
      for (const std::size_t q : {std::size_t(1), std::size_t(2)}) {
        if (may_run(q)) run(q), is_any = true;
      }
    }
  }
  std::size_t copies_left() const {
    return queues_[1].all.size() - queues_[1].done + queues_[2].all.size() - queues_[2].done;
  }
  Index overwritten = 0;
  Index copies = 0;

 private:
  static constexpr std::size_t kernels = 0;
  struct Point final : core::Moment {
    Point(std::size_t q, std::size_t n) : queue(q), operations(n) {}
    std::size_t queue, operations;  // reached when this many operations of that queue are done
  };
  static std::function<bool()> at_once(std::function<void()> work) {
    return [work = std::move(work)] {
      work();
      return true;
    };
  }
  struct Operation {
    std::function<bool()> run;      // returns true when it is done
    std::vector<core::When> after;  // the operation waits for these
  };
  struct Line {  // runs its operations one after another
    void add(std::function<bool()> run) { all.push_back({std::move(run), std::exchange(waits, {})}); }
    std::vector<Operation> all;
    std::size_t done = 0;
    std::vector<core::When> waits;  // what the next operation must wait for
  };

  bool is_past(const core::When& moment, std::size_t but = 0) const {
    if (!moment) return true;
    const auto& point = static_cast<const Point&>(*moment);
    return queues_[point.queue].done + but >= point.operations;
  }
  bool may_run(std::size_t q) const {
    const Line& line = queues_[q];
    if (line.done == line.all.size()) return false;
    for (const core::When& moment : line.all[line.done].after) {
      if (!is_past(moment)) return false;
    }
    return true;
  }
  void run(std::size_t q) {
    Line& line = queues_[q];
    const std::function<bool()> now = std::exchange(line.all[line.done].run, nullptr);
    if (now()) {
      ++line.done;
    } else {
      line.all[line.done].run = now;
    }
  }

  struct Queue final : core::CopyQueue {
    Queue(FakeDevice& of, std::size_t number) : device(of), own(number) {}
    core::When moment(std::size_t q) const { return std::make_shared<Point>(q, device.queues_[q].all.size()); }

    core::When kernels_so_far() override { return moment(kernels); }
    void wait_for(const core::When& moment) override { device.queues_[own].waits.push_back(moment); }
    core::When so_far() override { return moment(own); }
    bool is_over(const core::When& moment) override {
      if (device.random_() % 4 == 0) device.step();
      return device.is_past(moment);
    }
    void kernels_wait_for(const core::When& moment) override {
      if (!device.real_kernels_) return device.queues_[kernels].waits.push_back(moment);
      while (!device.is_past(moment, 1)) device.step();  // 1: the copy is done, its comparison perhaps not
    }
    void copy(const core::Lines& from, const core::Lines& to) override {
      ++device.copies;
      if (device.real_kernels_) each(to, [](void* line, Index width) { std::memset(line, 0xff, std::size_t(width)); });
      const auto copied = std::make_shared<std::vector<std::byte>>();
      device.queues_[own].add(at_once([=] {
        each(from, [&](void* line, Index width) {
          copied->insert(copied->end(), static_cast<std::byte*>(line), static_cast<std::byte*>(line) + width);
        });
        Index at = 0;
        each(to, [&](void* line, Index width) {
          std::memcpy(line, copied->data() + at, std::size_t(width));
          at += width;
        });
      }));
      if (!device.real_kernels_) return;
      FakeDevice& whole = device;
      device.queues_[own].add(at_once([=, &whole] {
        Index at = 0;
        each(from, [&](void* line, Index width) {
          whole.overwritten += std::memcmp(line, copied->data() + at, std::size_t(width)) != 0;
          at += width;
        });
      }));
    }
    void* stream() override { return this; }
    template <class Body>
    static void each(const core::Lines& lines, Body&& body) {
      for (Index i = 0; i < lines.count; ++i) body(static_cast<std::byte*>(lines.data) + i * lines.pitch, lines.width);
    }
    FakeDevice& device;
    const std::size_t own;
  };

  std::mt19937_64 random_;
  const bool real_kernels_;
  std::vector<Line> queues_;  // kernels, copies to host, copies to device, messages
  Queue to_host_{*this, 1}, to_device_{*this, 2}, messages_{*this, 3};
};

}  // namespace annulus::test

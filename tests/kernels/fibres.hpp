// The threads of a GPU's block as fibres of one host thread: each has its own stack and runs until it waits for others.
// A warp runs as far as it can before the next warp runs, so that a missing barrier gives wrong results. Tests run both
// orders, upwards and downwards: of any two threads, each one runs first in one of the orders.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace annulus::test {

class Fibres {
 public:
  enum class Order { upwards, downwards };

  Fibres(int count, int per_warp, Order order) : per_warp_(per_warp), order_(order), fibres_(std::size_t(count)) {}

  /// Runs body(i) on fibre i, for all i, to the end. Throws what a fibre throws, and std::logic_error if fibres are
  /// left that wait for each other at different places.
  void run(const std::function<void(int)>& body) {
    body_ = &body;
    for (Fibre& each : fibres_) prepare(each);
    main_.started = true;
    current_ = order_ == Order::upwards ? 0 : int(fibres_.size()) - 1;
    change(main_, fibre(current_));
    if (failure_) std::rethrow_exception(failure_);
    for (const Fibre& each : fibres_) {
      if (each.state != State::done) throw std::logic_error("threads of a block wait at different places");
    }
  }

  /// Stops the running fibre until wake() is called for it.
  void sleep() {
    Fibre& own = fibre(current_);
    own.state = State::asleep;
    change(own, others_turn());
  }
  void wake(int i) {
    if (fibre(i).state == State::asleep) fibre(i).state = State::ready;
  }
  int current() const { return current_; }

 private:
  static constexpr std::size_t stack_bytes = 256 * 1024;
  enum class State { ready, asleep, done };
  struct Fibre {
    void* place[5];  ///< where the fibre continues after it has started
    bool started = false;
    ucontext_t context;  ///< where the fibre starts
    std::unique_ptr<char[]> stack;
    State state = State::ready;
  };

  Fibre& fibre(int i) { return fibres_[std::size_t(i)]; }

  /// Continues `to`; `from` stops until it is continued. Uses the compiler's setjmp, which saves only three registers,
  /// because swapcontext() makes a system call for the signal mask each time (85 % of a test's time). change() and
  /// go_on() are not inlined, so that `from` keeps its other registers. The address sanitizer, which knows only thread
  /// stacks, is off here.
  [[gnu::noinline, gnu::no_sanitize_address]] static void change(Fibre& from, Fibre& to) {
    if (__builtin_setjmp(from.place) == 0) go_on(to);
  }
  [[gnu::noinline, gnu::no_sanitize_address]] static void go_on(Fibre& to) {
    if (!std::exchange(to.started, true)) setcontext(&to.context);
    __builtin_longjmp(to.place, 1);
  }

  void prepare(Fibre& made) {
    made.stack.reset(new char[stack_bytes]);
    getcontext(&made.context);
    made.context.uc_stack = {made.stack.get(), 0, stack_bytes};
    made.context.uc_stack.ss_sp = made.stack.get();
    made.context.uc_stack.ss_size = stack_bytes;
    // makecontext passes ints only, so the pointer is passed as two of them.
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&made.context, reinterpret_cast<void (*)()>(&Fibres::enter), 2, unsigned(self >> 32), unsigned(self));
  }
  static void enter(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<Fibres*>(std::uintptr_t(high) << 32 | low);
    Fibre& own = self->fibre(self->current_);
    try {
      (*self->body_)(self->current_);
    } catch (...) {
      self->failure_ = std::current_exception();
    }
    own.state = State::done;
    go_on(self->others_turn());
  }

  /// The fibre to continue: the next one that is ready, or run() if there is none.
  Fibre& others_turn() {
    const int other = next();
    if (other < 0) return main_;
    current_ = other;
    return fibre(other);
  }
  /// The next ready fibre of the current fibre's warp, or otherwise of the next warps; -1 if none is ready, or if one
  /// has failed.
  int next() {
    if (failure_) return -1;
    const int step = order_ == Order::upwards ? 1 : -1, count = int(fibres_.size());
    const int warp = current_ / per_warp_ * per_warp_, lane = current_ - warp;
    for (int i = 1; i <= per_warp_; ++i) {
      const int other = warp + (lane + step * i + per_warp_) % per_warp_;
      if (fibre(other).state == State::ready) return other;
    }
    for (int i = 1; i <= count; ++i) {
      const int other = (current_ + step * i + count) % count;
      if (fibre(other).state == State::ready) return other;
    }
    return -1;
  }

  int per_warp_;
  Order order_;
  std::vector<Fibre> fibres_;
  const std::function<void(int)>* body_ = nullptr;
  Fibre main_;  ///< the caller of run()
  int current_ = 0;
  std::exception_ptr failure_;
};

}  // namespace annulus::test

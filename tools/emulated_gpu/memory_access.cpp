// Loads, stores, atomics, copies: what touches memory, and what moves bytes between registers.
#include <cstring>

#include "handlers.hpp"
#include "memory.hpp"
#include "numbers.hpp"

namespace emulated_gpu {
namespace {

u64 address_of(Warp& w, const Instruction& i, int lane) {
  return (i.has_narrow_address ? u64(w.row<u32>(i.of[0])[lane]) : w.row<u64>(i.of[0])[lane]) + u64(i.number);
}

template <Space space, std::size_t bytes, bool stores>
void move_numbers(Warp& w, const Instruction& i, u32 lanes) {
  const std::size_t all = bytes * i.elements;
  for_lanes(lanes, [&](int lane) {
    std::byte* memory = place(w, i, lane, space, address_of(w, i, lane), all, stores ? Access::write : Access::read);
    for (u32 n = 0; n < i.elements; ++n) {
      std::byte* number = w.registers + i.of[n + 1] + std::size_t(lane) * bytes;
      std::memcpy(stores ? memory + n * bytes : number, stores ? number : memory + n * bytes, bytes);
    }
  });
}

template <Space space, bool stores>
void move(Warp& w, const Instruction& i, u32 lanes) {
  switch (i.bytes) {
    case 1:
      return move_numbers<space, 1, stores>(w, i, lanes);
    case 2:
      return move_numbers<space, 2, stores>(w, i, lanes);
    case 4:
      return move_numbers<space, 4, stores>(w, i, lanes);
    case 8:
      return move_numbers<space, 8, stores>(w, i, lanes);
    default:
      fault(w, i, 0, "moves a number of this size");
  }
}

void load_parameter(Warp& w, const Instruction& i, u32 lanes) {
  for (u32 n = 0; n < i.elements; ++n) {
    const std::byte* from = w.block->launch->parameters.data() + i.number + n * i.bytes;
    for_lanes(lanes,
              [&](int lane) { std::memcpy(w.registers + i.of[n + 1] + std::size_t(lane) * i.bytes, from, i.bytes); });
  }
}

void parameter_address(Warp& w, const Instruction& i, u32 lanes) {
  u64* d = w.row<u64>(i.of[0]);
  for_lanes(lanes, [&](int lane) { d[lane] = w.block->launch->parameter_address + u64(i.number); });
}

template <class T, Space space, auto f>
void atomic(Warp& w, const Instruction& i, u32 lanes) {
  T* d = w.row<T>(i.of[1]);
  const T *a = w.row<T>(i.of[2]), *b = w.row<T>(i.of[3]);
  for_lanes(lanes, [&](int lane) {
    std::byte* memory = place(w, i, lane, space, address_of(w, i, lane), sizeof(T), Access::atomic);
    T before;
    std::memcpy(&before, memory, sizeof(T));
    const T after = f(before, a[lane], b[lane]);
    std::memcpy(memory, &after, sizeof(T));
    d[lane] = before;
  });
}

template <class T, auto f>
void add_atomic(Handlers& handlers, const std::string& what) {
  handlers["atom.generic." + what] = atomic<T, Space::generic, f>;
  handlers["atom.global." + what] = atomic<T, Space::global, f>;
  handlers["atom.shared." + what] = atomic<T, Space::shared, f>;
}

template <class T>
void add_atomics(Handlers& handlers, const std::string& type) {
  add_atomic<T, [](T m, T a, T) { return T(m + a); }>(handlers, "add." + type);
  add_atomic<T, [](T, T a, T) { return a; }>(handlers, "exch." + type);
  add_atomic<T, [](T m, T a, T) { return m < a ? m : a; }>(handlers, "min." + type);
  add_atomic<T, [](T m, T a, T) { return a < m ? m : a; }>(handlers, "max." + type);
  add_atomic<T, [](T m, T a, T b) { return m == a ? b : m; }>(handlers, "cas." + type);
  if constexpr (std::is_integral_v<T>) {
    add_atomic<T, [](T m, T a, T) { return T(m & a); }>(handlers, "and." + type);
    add_atomic<T, [](T m, T a, T) { return T(m | a); }>(handlers, "or." + type);
    add_atomic<T, [](T m, T a, T) { return T(m ^ a); }>(handlers, "xor." + type);
    add_atomic<T, [](T m, T a, T) { return m >= a ? T(0) : T(m + 1); }>(handlers, "inc." + type);
    add_atomic<T, [](T m, T a, T) { return m == 0 || a < m ? a : T(m - 1); }>(handlers, "dec." + type);
  }
}

void deliver(Warp& w, const Copy& copy) { std::memcpy(w.block->shared.data() + copy.to, copy.data.data(), copy.bytes); }

/// The bytes arrive only when the lane waits for them; a read before that gives NaN.
void copy_asynchronously(Warp& w, const Instruction& i, u32 lanes) {
  const u32* count = w.row<u32>(i.of[2]);
  for_lanes(lanes, [&](int lane) {
    const u64 to = address_of(w, i, lane);
    std::byte* shared = place(w, i, lane, Space::shared, to, i.bytes, Access::write);
    Copy copy{w.group[lane], u32(shared - w.block->shared.data()), {}, i.bytes};
    copy.data.fill(std::byte(0));
    if (const u32 bytes = std::min<u32>(count[lane], i.bytes); bytes > 0) {
      const u64 from = w.row<u64>(i.of[1])[lane];
      if (from % i.bytes != 0) fault(w, i, lane, "copies from an address that is no multiple of its bytes");
      std::memcpy(copy.data.data(), place(w, i, lane, Space::global, from, bytes == i.bytes ? bytes : 1, Access::read),
                  bytes);
    }
    std::memset(shared, 0xff, i.bytes);
    w.copies[lane].push_back(copy);
  });
}

void commit(Warp& w, const Instruction&, u32 lanes) {
  for_lanes(lanes, [&](int lane) { ++w.group[lane]; });
}

/// All groups except the latest `number` arrive; with wait_all also copies that are in no group yet.
template <bool all>
void wait(Warp& w, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    auto& copies = w.copies[lane];
    std::size_t kept = 0;
    for (const Copy& copy : copies) {
      if (all || u64(copy.group) + u64(i.number) < w.group[lane]) {
        deliver(w, copy);
      } else {
        copies[kept++] = copy;
      }
    }
    copies.resize(kept);
  });
}

void resize(Warp& w, const Instruction& i, u32 lanes) {
  const std::size_t from = i.elements, to = i.bytes;
  for_lanes(lanes, [&](int lane) {
    u64 value = 0;
    std::memcpy(&value, w.registers + i.of[1] + std::size_t(lane) * from, from);
    if (i.is_signed && from < 8 && (value >> (8 * from - 1) & 1) != 0) value |= ~u64(0) << 8 * from;
    std::memcpy(w.registers + i.of[0] + std::size_t(lane) * to, &value, to);
  });
}

void pack(Warp& w, const Instruction& i, u32 lanes) {
  const std::size_t each = i.bytes, all = each * i.elements;
  for_lanes(lanes, [&](int lane) {
    std::byte both[16];
    for (u32 n = 0; n < i.elements; ++n)
      std::memcpy(both + n * each, w.registers + i.of[n + 1] + std::size_t(lane) * each, each);
    std::memcpy(w.registers + i.of[0] + std::size_t(lane) * all, both, all);
  });
}

void unpack(Warp& w, const Instruction& i, u32 lanes) {
  const std::size_t each = i.bytes, all = each * i.elements;
  for_lanes(lanes, [&](int lane) {
    std::byte both[16];
    std::memcpy(both, w.registers + i.of[0] + std::size_t(lane) * all, all);
    for (u32 n = 0; n < i.elements; ++n)
      std::memcpy(w.registers + i.of[n + 1] + std::size_t(lane) * each, both + n * each, each);
  });
}

template <Space space>
void add_moves(Handlers& handlers, const std::string& name) {
  handlers["ld." + name] = move<space, false>;
  handlers["st." + name] = move<space, true>;
}

}  // namespace

void add_memory(Handlers& handlers) {
  add_moves<Space::generic>(handlers, "generic");
  add_moves<Space::global>(handlers, "global");
  add_moves<Space::shared>(handlers, "shared");
  add_moves<Space::local>(handlers, "local");
  handlers["ld.parameter"] = load_parameter;
  handlers["parameter_address"] = parameter_address;
  add_atomics<u32>(handlers, "u32");
  add_atomics<s32>(handlers, "s32");
  add_atomics<u64>(handlers, "u64");
  add_atomics<s64>(handlers, "s64");
  add_atomics<u32>(handlers, "b32");
  add_atomics<u64>(handlers, "b64");
  add_atomics<float>(handlers, "f32");
  add_atomics<double>(handlers, "f64");
  handlers["cp.async"] = copy_asynchronously;
  handlers["cp.async.commit_group"] = commit;
  handlers["cp.async.wait_group"] = wait<false>;
  handlers["cp.async.wait_all"] = wait<true>;
  handlers["resize"] = resize;
  handlers["pack"] = pack;
  handlers["unpack"] = unpack;
  handlers["trap"] = [](Warp& w, const Instruction& i, u32 lanes) {
    fault(w, i, std::countr_zero(lanes), "is trapped");
  };
  handlers["__assertfail"] = [](Warp& w, const Instruction& i, u32 lanes) {
    const int lane = std::countr_zero(lanes);
    u64 text = 0;
    std::memcpy(&text,
                w.local.data() + std::size_t(lane) * w.block->launch->kernel->local_bytes + std::size_t(i.number), 8);
    std::string message = "fails an assertion: ";
    for (; found(text, 1) != nullptr && *found(text, 1) != std::byte(0); ++text) message += char(*found(text, 1));
    fault(w, i, lane, message);
  };
  handlers["vprintf"] = [](Warp&, const Instruction&, u32) {};
}

}  // namespace emulated_gpu

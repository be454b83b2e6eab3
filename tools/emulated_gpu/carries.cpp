// Additions of numbers that are longer than a register: each hands a carry on to the next.
#include "handlers.hpp"
#include "numbers.hpp"

namespace emulated_gpu {
namespace {

enum class Operation { add, subtract, add_low_product, add_high_product };

/// takes: the operation adds the carry (subtracts the borrow); leaves: it sets the carry.
template <class T, Operation operation, bool takes, bool leaves>
void with_carry(Warp& w, const Instruction& i, u32 lanes) {
  using Both = Twice<T>;
  constexpr int bits = 8 * sizeof(T);
  T* d = w.row<T>(i.of[0]);
  const T *a = w.row<T>(i.of[1]), *b = w.row<T>(i.of[2]), *c = w.row<T>(i.of[3]);
  u8* carry = w.row<u8>(i.of[carry_operand]);
  for_lanes(lanes, [&](int lane) {
    Both x = a[lane], y = b[lane];
    if (operation == Operation::add_low_product) x = T(x * y);
    if (operation == Operation::add_high_product) x = x * y >> bits;
    if (operation == Operation::add_low_product || operation == Operation::add_high_product) y = c[lane];
    const Both in = takes ? carry[lane] : 0;
    const Both sum = operation == Operation::subtract ? x - y - in : x + y + in;
    if (leaves) carry[lane] = u8(sum >> bits & 1);
    d[lane] = T(sum);
  });
}

template <class T, Operation operation>
void add_forms(Handlers& handlers, const std::string& name, const std::string& modifier, const std::string& type) {
  handlers[name + modifier + ".cc." + type] = with_carry<T, operation, false, true>;
  handlers[name + "c" + modifier + "." + type] = with_carry<T, operation, true, false>;
  handlers[name + "c" + modifier + ".cc." + type] = with_carry<T, operation, true, true>;
}

template <class T>
void add_type(Handlers& handlers, const std::string& type, bool is_signed) {
  add_forms<T, Operation::add>(handlers, "add", "", type);
  add_forms<T, Operation::subtract>(handlers, "sub", "", type);
  add_forms<T, Operation::add_low_product>(handlers, "mad", "", type);
  if (!is_signed) add_forms<T, Operation::add_high_product>(handlers, "mad", ".hi", type);
}

}  // namespace

void add_carries(Handlers& handlers) {
  add_type<u32>(handlers, "u32", false);
  add_type<u32>(handlers, "s32", true);
  add_type<u64>(handlers, "u64", false);
  add_type<u64>(handlers, "s64", true);
}

}  // namespace emulated_gpu

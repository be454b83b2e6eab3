#include "annulus/store/file_rows.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>

#include "annulus/comm/activity.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/core/normals.hpp"
#include "annulus/store/generated.hpp"

namespace annulus::store {
namespace {

using core::RowPiece;

constexpr Index group_bytes = Index(64) << 20;  // read between two watchdog reports; takes a second on a slow disk

/// Generates the rows of all pieces with all threads.
void make_rows(const SeededTensor& from, const std::vector<RowPiece>& pieces) {
  const GeneratedTensor tensor = generated(from.settings, from.id);
  const core::Shape& s = from.settings.shape;
  const bool keys = from.id == core::TensorId::k || from.id == core::TensorId::v;
  const Index numbers = tensor.row_numbers / (keys ? s.kv_heads : s.heads);
  const core::Normals normals{from.settings.seed, from.id, tensor.type, 1};
  const Index head_bytes = numbers * Index(core::bytes_of(tensor.type));
  for (const RowPiece& piece : pieces) {
    const bool side_by_side = piece.heads.size() == 1 || piece.head_pitch == head_bytes;
    const Index runs = side_by_side ? 1 : piece.heads.size(), each = piece.heads.size() / runs;
    const auto make_row = [&](const Index i) {
      for (Index h = 0; h < runs; ++h) {
        const Index row = piece.batch * tensor.sequence + piece.first + i * piece.stride;
        const Index first = row * tensor.row_numbers + (piece.heads.begin + h) * numbers;
        core::fill_normals(normals, {first, first + each * numbers},
                           static_cast<std::byte*>(piece.memory) + i * piece.pitch + h * piece.head_pitch);
      }
    };
    constexpr Index at_once = 1 << 16;
    for (Index begin = 0; begin < piece.count; begin += at_once) {
      core::for_each_on_host("annulus::generate", begin, std::min(begin + at_once, piece.count), make_row);
      comm::watchdog_progress();
    }
  }
}

}  // namespace

core::TensorId seed_of(core::StoredTensor tensor) {
  // Both enumerations begin with q, k, v, dout and dlse: StoredTensor at 0, TensorId at 1.
  static_assert(int(core::StoredTensor::dlse) == 4 && int(core::TensorId::dlse) == 5);
  return core::TensorId(std::uint64_t(tensor) + 1);
}

const std::string& dataset_of(const runfile::InputSettings& input, core::StoredTensor tensor) {
  if (tensor == core::StoredTensor::dlse) return *input.dlse;
  const std::string* const all[] = {&input.q, &input.k, &input.v, &input.dout};
  return *all[std::size_t(tensor)];
}

RowOrigin origin_of(const InspectedFile& file, const std::string& dataset) {
  if (std::optional<RawTensor> raw = raw_tensor(file, dataset)) return std::move(*raw);
  return Hdf5Tensor{file, dataset, layout_of(file, dataset)};
}

void allow(RowOrigin& origin, Wanted wanted) {
  if (auto* raw = std::get_if<RawTensor>(&origin)) raw->layout.allow(wanted);
  if (auto* hdf5 = std::get_if<Hdf5Tensor>(&origin)) hdf5->layout.allow(wanted);
}

void read_rows(const RowOrigin& from, const std::vector<RowPiece>& pieces, core::RowTraffic& traffic) {
  if (const auto* made = std::get_if<SeededTensor>(&from)) {
    make_rows(*made, pieces);
  } else if (const auto* raw = std::get_if<RawTensor>(&from)) {
    for (const std::vector<RowPiece>& group : groups_of(raw->layout, pieces, group_bytes)) {
      {
        const comm::BlockingScope inside("the reading of " + raw->layout.where);
        read_rows(*raw, group, traffic);
      }
      comm::watchdog_progress();
    }
  } else {
    read_rows(std::get<Hdf5Tensor>(from), pieces, traffic);
  }
}

FileRows::FileRows() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this mask, so signals go to other threads
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {  // the system allows no more threads; start() reads the rows instead
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FileRows::~FileRows() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  const comm::BlockingScope inside("the end of the thread that reads ahead");
  thread_.join();
}

void FileRows::put(core::StoredTensor tensor, RowOrigin origin) {
  origins_.insert_or_assign(tensor, std::move(origin));
}

void FileRows::note_done(const core::RowTraffic& moved, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    traffic_.asked += moved.asked;
    traffic_.moved += moved.moved;
    traffic_.seconds += moved.seconds;
    ++done_;
    if (error && !error_) error_ = std::move(error);
  }
  changed_.notify_all();
}

void FileRows::work() {
  for (;;) {
    Read read;
    bool skip = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      read = std::move(queue_.front());
      queue_.pop_front();
      skip = error_ != nullptr;
    }
    std::exception_ptr error;
    core::RowTraffic moved;
    try {
      if (!skip) read_rows(read.from, read.pieces, moved);
    } catch (...) {
      error = std::current_exception();
    }
    note_done(moved, error);
  }
}

core::RowSource::Ticket FileRows::start(core::StoredTensor tensor, std::vector<RowPiece> pieces) {
  const auto found = origins_.find(tensor);
  core::require(found != origins_.end(), [&] { return fmt::format("rows of {} were asked for", name_of(tensor)); });
  const auto* raw = std::get_if<RawTensor>(&found->second);
  if (raw != nullptr && thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      for (std::vector<RowPiece>& group : groups_of(raw->layout, pieces, group_bytes)) {
        queue_.push_back({*raw, std::move(group)});
        ++begun_;
      }
    }
    changed_.notify_all();
    return begun_;
  }
  wait(begun_);  // because reads must end in the order in which they began
  ++begun_;
  core::RowTraffic moved;
  try {
    read_rows(found->second, pieces, moved);
  } catch (...) {
    note_done(moved, std::current_exception());  // otherwise a later wait() for this read would never return
    throw;
  }
  note_done(moved, nullptr);
  return begun_;
}

void FileRows::wait(Ticket ticket) {
  core::require(ticket <= begun_, [&] { return fmt::format("read {} of {} was waited for", ticket, begun_); });
  for (bool is_done = false; !is_done;) {
    {
      const comm::BlockingScope inside("the reading of rows ahead of the kernel");
      std::unique_lock lock(mutex_);
      const Ticket before = done_;
      changed_.wait(lock, [&] { return done_ >= ticket || done_ > before; });
      if (error_) std::rethrow_exception(error_);
      is_done = done_ >= ticket;
    }
    comm::watchdog_progress();
  }
}

core::RowTraffic FileRows::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

}  // namespace annulus::store

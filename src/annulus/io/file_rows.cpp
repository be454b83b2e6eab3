#include "annulus/io/file_rows.hpp"

#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <system_error>

#include "annulus/comm/activity.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/core/normals.hpp"
#include "annulus/io/collective.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/io/generated.hpp"

namespace annulus::io {
namespace {

using core::RowPiece;

/// A piece's rows as they stand in the file, (rows, heads, numbers) or (heads, rows, numbers), in one call of HDF5.
void read_piece(const Target& target, const Hdf5Tensor& from, const RowPiece& piece, std::vector<std::byte>& rows) {
  const RowLayout& layout = from.layout;
  const auto fill = [&](Index batch, Index row, Index heads) {
    std::vector<hsize_t> all{hsize_t(batch), hsize_t(row), hsize_t(heads), hsize_t(layout.head_numbers())};
    all.resize(target.info.extents.size());  // the gradient of the LSE has no fourth axis
    return reordered(std::move(all), layout.order);
  };
  std::vector<hsize_t> start = fill(piece.batch, piece.first, piece.heads.begin);
  if (start.size() == 4) start[3] = 0;
  std::vector<hsize_t> step(start.size(), 1);
  step[sequence_axis(layout.order)] = hsize_t(piece.stride);
  const std::vector<hsize_t> count = fill(1, piece.count, piece.heads.size());
  const SpaceId stored = stored_space(target);
  check_hdf5(H5Sselect_hyperslab(stored, H5S_SELECT_SET, start.data(), step.data(), count.data(), nullptr),
             "HDF5 selection");
  const Index numbers = piece.count * piece.heads.size() * layout.head_numbers();
  rows.resize(std::size_t(numbers * layout.number_bytes()));
  const SpaceId memory = space_of({numbers});
  check_hdf5(H5Sselect_all(memory), "HDF5 selection");
  move_selected(target, Direction::read, stored, memory, rows.data(), H5P_DEFAULT);
}

void read_by_hdf5(const Hdf5Tensor& from, const std::vector<RowPiece>& pieces, core::RowTraffic& traffic) {
  const double begin = core::wall_seconds();
  const RowLayout& layout = from.layout;
  const Index head_bytes = layout.head_numbers() * layout.number_bytes();
  std::vector<std::byte> rows;
  while_unchanged(from.file, [&] {
    const FileId file = open_alone(from.file.path, false);
    const Target target = open_target(file, from.file, from.dataset);
    for (const RowPiece& piece : pieces) {
      if (piece.count == 0 || piece.heads.size() == 0) continue;
      read_piece(target, from, piece, rows);
      traffic.asked += Index(rows.size());
      traffic.moved += Index(rows.size());  // chunks that HDF5 reads for them are its business
      const Index heads = piece.heads.size();
      const bool by_rows = layout.order == AxisOrder::bshd;
      for (Index i = 0; i < piece.count; ++i) {
        for (Index h = 0; h < heads; ++h) {
          std::byte* to = static_cast<std::byte*>(piece.memory) + i * piece.pitch + h * piece.head_pitch;
          std::memcpy(to, rows.data() + (by_rows ? i * heads + h : h * piece.count + i) * head_bytes,
                      std::size_t(head_bytes));
          const auto found = find_non_finite(to, layout.type, layout.head_numbers());
          if (!found) continue;
          const std::vector<Index> at{piece.batch, piece.first + i * piece.stride, piece.heads.begin + h, found->index};
          core::fail(core::ErrorKind::failure, "{} holds {} at [{}], expected finite numbers", layout.where,
                     found->value, fmt::join(reordered(at, layout.order), ", "));
        }
      }
    }
  });
  traffic.seconds += core::wall_seconds() - begin;
}

/// The numbers of each row of each piece, by all threads.
void make_rows(const MadeTensor& from, const std::vector<RowPiece>& pieces) {
  const core::Shape& s = from.settings.shape;
  const bool lse = from.id == core::TensorId::dlse;
  const bool keys = from.id == core::TensorId::k || from.id == core::TensorId::v;
  const Index heads = keys ? s.kv_heads : s.heads, numbers = lse ? 1 : s.head_dim;
  const core::DType type = lse ? core::lse_type(from.settings.type) : from.settings.type;
  const core::Normals normals{from.settings.seed, from.id, type, 1};
  const Index head_bytes = numbers * Index(core::bytes_of(type));
  for (const RowPiece& piece : pieces) {
    const bool side_by_side = piece.heads.size() == 1 || piece.head_pitch == head_bytes;
    const Index runs = side_by_side ? 1 : piece.heads.size(), each = piece.heads.size() / runs;
    const auto make_row = [&](const Index i) {
      for (Index h = 0; h < runs; ++h) {
        const Index row = piece.batch * s.sequence + piece.first + i * piece.stride;
        const Index first = (row * heads + piece.heads.begin + h) * numbers;
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

FileRows::FileRows() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the thread: signals are the program's business
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {  // no more threads here: without reading ahead then
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

void FileRows::put(core::StoredTensor tensor, Place place) { places_.insert_or_assign(tensor, std::move(place)); }

void FileRows::note_done(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
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
    {
      const std::lock_guard lock(mutex_);
      traffic_.asked += moved.asked;
      traffic_.moved += moved.moved;
      traffic_.seconds += moved.seconds;
    }
    note_done(error);
  }
}

core::RowSource::Ticket FileRows::start(core::StoredTensor tensor, std::vector<RowPiece> pieces) {
  const auto found = places_.find(tensor);
  core::require(found != places_.end(), [&] { return fmt::format("rows of {} were asked for", name_of(tensor)); });
  ++begun_;
  const auto* raw = std::get_if<RawTensor>(&found->second);
  if (raw != nullptr && thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({*raw, std::move(pieces)});
    }
    changed_.notify_all();
    return begun_;
  }
  if (begun_ > 1) wait(begun_ - 1);  // in the order in which they are begun
  core::RowTraffic moved;
  const comm::BlockingScope inside(fmt::format("the reading of rows of {}", name_of(tensor)));
  if (raw != nullptr) {
    read_rows(*raw, pieces, moved);
  } else if (const auto* hdf5 = std::get_if<Hdf5Tensor>(&found->second)) {
    read_by_hdf5(*hdf5, pieces, moved);
  } else {
    make_rows(std::get<MadeTensor>(found->second), pieces);
  }
  {
    const std::lock_guard lock(mutex_);
    traffic_.asked += moved.asked;
    traffic_.moved += moved.moved;
    traffic_.seconds += moved.seconds;
  }
  note_done(nullptr);
  return begun_;
}

void FileRows::wait(Ticket ticket) {
  core::require(ticket <= begun_, [&] { return fmt::format("read {} of {} was waited for", ticket, begun_); });
  {
    const comm::BlockingScope inside("the reading of rows ahead of the kernel");
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= ticket; });
    if (error_) std::rethrow_exception(error_);
  }
  comm::watchdog_progress();
}

core::RowTraffic FileRows::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

FileRows::Place place_of(const SeenFile& file, const std::string& dataset) {
  if (std::optional<RawTensor> raw = raw_tensor(file, dataset)) return std::move(*raw);
  const DatasetInfo& info = file.at(dataset);
  std::vector<Index> extents = reordered(info.extents, info.order);
  extents.resize(4, 1);
  return Hdf5Tensor{file,
                    dataset,
                    {fmt::format("{}: dataset {}", file.path, dataset), 0, extents, info.order, *info.type.dtype(),
                     *info.type.dtype()}};
}

}  // namespace annulus::io

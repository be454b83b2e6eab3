#include "annulus/store/output_file.hpp"

#include <unistd.h>

#include <ctime>

#include "annulus/comm/root.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/files/process_name.hpp"
#include "annulus/store/row_reading.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;
using core::Interval;

/// An id that is never 0, and is below 2^62, so that it can be sent as an Index.
std::uint64_t random_id() { return (std::stoull(random_digits(), nullptr, 16) >> 2) | 1; }

/// "process 4711 on n7, rank 0 of 2, since 2026-11-21 12:00:00 UTC".
std::string about(const comm::Communicator& comm) {
  return fmt::format("process {} on {}, rank {} of {}, since {}", getpid(), comm::host_name(), comm.rank(), comm.size(),
                     utc_text(std::time(nullptr), "%Y-%m-%d %H:%M:%S UTC"));
}

/// Removes the journal's part file if it exists. No process may be working on it. Throws if `path` is another file.
void discard(const std::string& path, const Journal& journal) {
  if (!is_taken(path)) return;
  const bool is_its = journal.is_empty()
                          ? journal.is_making()
                          : state_of(path).inode == PartLayout::parse(journal.part(), journal.path()).inode;
  if (!is_its) {
    fail(
        ErrorKind::failure,
        "{}: is in the way: a run keeps its numbers under that name until it is finished; remove it if it belongs to a "
        "run whose journal is gone",
        path);
  }
  unlink(path.c_str());
}

}  // namespace

OutputPlan output_plan(const OutputTarget& where, const std::vector<TensorSpec>& tensors) {
  OutputPlan plan{where, {}, whole_head};
  for (const TensorSpec& spec : tensors) plan.tensors.push_back({spec, spec.type.dtype().value_or(bits_of_int64)});
  return plan;
}

OutputFile::OutputFile(OutputPlan plan, const comm::Communicator& comm, const MayContinue& may_continue)
    : plan_(std::move(plan)),
      comm_(comm),
      final_path_(comm::from_root(comm, [&] { return runfile::follow_links(plan_.where.file); })),
      part_path_(final_path_ + ".part"),
      journal_path_(final_path_ + ".journal") {
  const std::vector<Index> launch = comm::numbers_from_root(comm_, [&]() -> std::vector<Index> {
    const comm::BlockingScope inside("the making of " + part_path_);
    if (!lay_out(may_continue)) return {};
    return {Index(launch_)};
  });
  if (launch.empty()) return;
  launch_ = std::uint64_t(launch.at(0));
  const std::string layout_text = comm_.broadcast(comm_.is_root() ? journal_->part() : "");
  const bool is_recording = comm_.max(Index(journal_ && journal_->is_recording())) > 0;
  comm::agree(comm_, [&] {
    if (!journal_ && plan_.keeps_units) {
      std::optional<Journal> found = Journal::find(journal_path_);
      if (!found) fail(ErrorKind::failure, "{}: the journal of this run was removed meanwhile", journal_path_);
      journal_.emplace(std::move(*found));
    }
    const PartLayout layout = PartLayout::parse(layout_text, journal_path_);
    if (is_recording && has_final_name(layout)) return;
    part_.emplace(part_path_, layout, plan_.tensors, /*has_scratch=*/!is_recording);
    if (plan_.keeps_units) return;
    note_unfinished(part_path_, part_guard_);
    note_unfinished(journal_path_, journal_guard_);
  });
  if (!plan_.keeps_units) return;
  comm::agree(comm_, [&] {  // rank 0 signed on when it laid the file out
    if (!comm_.is_root()) journal_->sign_on({random_id(), launch_, about(comm_)});
  });
}

OutputFile::~OutputFile() = default;

bool OutputFile::has_final_name(const PartLayout& layout) const {
  return !is_taken(part_path_) && is_taken(final_path_) && state_of(final_path_).inode == layout.inode;
}

/// Opens and locks the journal. Tries again if another launch removes the journal between opening and locking.
Journal::Lock OutputFile::open_journal() {
  for (;;) {
    journal_.emplace(journal_path_);
    try {
      return Journal::Lock(*journal_);
    } catch (const core::Error&) {
      if (journal_->is_there()) throw;
    }
  }
}

/// Makes the journal and the part file, or signs on in the journal of another launch. Returns false if that launch has
/// cut the output into other units. Call it on rank 0.
bool OutputFile::lay_out(const MayContinue& may_continue) {
  if (!is_taken(journal_path_)) check_can_be_made(final_path_, plan_.where.overwrite);  // check before anything is made
  Journal::Lock lock = open_journal();
  const auto sign_on = [&] {
    launch_ = random_id();
    journal_->sign_on({random_id(), launch_, about(comm_)}, lock);
    return true;
  };
  if (!journal_->is_empty()) {
    const std::optional<std::string> worker = journal_->worker();
    const Index done = journal_->done();
    if (may_continue && journal_->head() != whole_head && (worker || done > 0)) {
      return may_continue(*journal_, PartLayout::parse(journal_->part(), journal_path_)) && sign_on();
    }
    if (worker) {
      fail(ErrorKind::failure, "{}: another run makes this output already: {}; wait for it, or name another file{}",
           final_path_, *worker, journal_->if_gone(part_path_));
    }
    if (done > 0) {
      fail(
          ErrorKind::failure,
          "{}: an interrupted run has finished {} units of {}: run its run file again, or forget them with annulus run "
          "--restart, or name another output",
          journal_path_, done, final_path_);
    }
  }
  begin(lock);
  return sign_on();
}

/// Makes the journal and the part file anew. Call it if no unit is finished and no process works on the file.
void OutputFile::begin(Journal::Lock& lock) {
  if (!plan_.keeps_units) note_unfinished(journal_path_, journal_guard_);
  try {
    discard(part_path_, *journal_);  // before begin_anew(), as only the old journal says whether the file is its own
    check_can_be_made(final_path_, plan_.where.overwrite);
    lock.begin_anew();
    lock.write("head " + plan_.head);
    lock.write("making");
    if (plan_.keeps_units) lock.flush();
    OutputTarget where = plan_.where;
    where.file = final_path_;
    const PartLayout layout = PartFile::lay_out(part_path_, where, plan_.tensors, part_guard_);
    lock.write("part " + layout.text());
    if (plan_.keeps_units) lock.flush();
  } catch (const core::Error&) {  // removes the files that were made, because nothing is computed yet
    part_guard_.reset();
    journal_->remove();
    throw;
  }
  if (!plan_.keeps_units) return;
  flush_folder(journal_path_);
  part_guard_->release();
  part_guard_.reset();
}

void OutputFile::note_unfinished(const std::string& path, std::optional<UnfinishedFile>& guard) {
  if (guard) return;
  const core::MakingScope making;
  guard.emplace(path, ino_t(state_of(path).inode));
}

void OutputFile::write(const std::vector<RowsOut>& tensors, const std::vector<Interval>& rows,
                       const RowOwners& owners) {
  for (const RowsOut& one : tensors) {
    const comm::Scope scope(fmt::format("the writing of {} to {}", one.dataset, part_path_));
    RawTensor to = part_->place(one.dataset);
    RowLayout& layout = to.layout;
    if (one.type) layout.memory = one.type->dtype().value_or(bits_of_int64);
    const Interval batch = one.batch.value_or(Interval{0, layout.extents[0]}),
                   heads = one.heads.value_or(Interval{0, layout.heads()});
    core::RowTraffic traffic;
    const std::vector<core::RowPiece> pieces =
        pieces_of(batch, rows, heads, layout.head_numbers(), Index(core::bytes_of(layout.memory)), one.host);
    if (plan_.keeps_units) comm::agree(comm_, [&] { part_->note_written(to, one.dataset, pieces); });
    write_together(to, pieces, owners.ranks(), comm_, traffic);
  }
}

void OutputFile::write_parts(const std::vector<MatrixPart>& parts,
                             const std::function<RankOf(const std::string& dataset)>& rank_of) {
  for (const MatrixPart& part : parts) {
    const comm::Scope scope(fmt::format("the writing of {} to {}", part.dataset, part_path_));
    RawTensor to = part_->place(part.dataset);
    if (part.type) to.layout.memory = part.type->dtype().value_or(bits_of_int64);
    std::vector<core::RowPiece> pieces;
    if (part.part.count() > 0) pieces.push_back(piece_of(part, Index(core::bytes_of(to.layout.memory))));
    core::RowTraffic traffic;
    write_together(to, pieces, rank_of(part.dataset), comm_, traffic);
  }
}

void OutputFile::publish(const Record& record) {
  struct ReleaseGuards {  // on all ranks but 0: rank 0 alone renames, keeps or removes files, also after an error
    OutputFile& file;
    ~ReleaseGuards() {
      if (file.comm_.is_root()) return;
      if (file.part_guard_) file.part_guard_->release();
      if (file.journal_guard_) file.journal_guard_->release();
    }
  };
  comm::agree(comm_, [&] { part_->close(); });
  const ReleaseGuards release_guards{*this};
  comm::on_root(comm_, [&] {
    const auto unnamed = plan_.keeps_units ? AtomicFile::Unnamed::stays : AtomicFile::Unnamed::gets_another_name;
    part_->complete(record);
    AtomicFile named(final_path_, plan_.where.overwrite, part_path_, unnamed);
    if (part_guard_) part_guard_->release();  // from here on `named` decides whether the file stays
    named.publish();
    journal_->remove();
    if (journal_guard_) journal_guard_->release();
  });
}

}  // namespace annulus::store

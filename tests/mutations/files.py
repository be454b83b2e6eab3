"""Mistakes in store and in the runs that go on: fsync, order, locks, checks."""
from case import mutation

STORE, JOB = "src/annulus/store/", "src/annulus/app/job/"

mutation("no-fsync", "files are not flushed to the disk", STORE + "files/file_system.cpp",
         "if (fsync(descriptor.id()) != 0) fail(", "if (descriptor.id() < 0) fail(",
         "program_long_runs:*NothingIsSaidBeforeItIsOnDisk*")
mutation("rename-before-flush", "a file gets its name before it is on the disk", STORE + "files/atomic_file.cpp",
         "  flush_to_disk(descriptor_, unfinished_->path());\n  const comm::BlockingScope inside",
         "  const comm::BlockingScope inside",
         "program_long_runs:*ATableThatHasItsNameIsOnTheDisk*")
mutation("unsafe-folder", "a new name is not flushed to the disk", STORE + "files/atomic_file.cpp",
         "  flush_folder(final_path_);", "  (void)final_path_;",
         "program_long_runs:*NothingIsSaidBeforeItIsOnDisk*")
mutation("replaces-silently", "a result replaces a file that appeared meanwhile", STORE + "files/atomic_file.cpp",
         "const int code = !overwrite_ ? rename_to_new(", "const int code = final_path_.empty() ? rename_to_new(",
         "program_long_runs:*NothingIsSaidBeforeItIsOnDisk*")
mutation("said-before-flush", "a unit is noted as finished before its rows are on the disk", JOB + "long_run.cpp",
         "if (keeps_) output_.part()->flush();", "",
         "program_long_runs:*NothingIsSaidBeforeItIsOnDisk*")
mutation("borders-unsafe", "rows at borders of blocks are not flushed before their unit is noted as finished",
         STORE + "part_file.cpp",
         "  flush_and_close(*file, path_);\n  borders_.clear();", "  borders_.clear();",
         "program_long_runs:*NothingIsSaidBeforeItIsOnDisk*")
mutation("journal-first", "the journal goes before the result has its name", STORE + "output_file.cpp",
         "    named.publish();\n", "    journal_->remove();\n    named.publish();\n",
         "program_long_runs:*NothingIsSaidBeforeItIsOnDisk*")
mutation("journal-checksum", "a damaged line of a journal counts", STORE + "journal.cpp",
         "if (fmt::format(\"{:08x}\", checksum(line)) != text.substr(0, 8)) return std::nullopt;", "",
         "store_journal")
mutation("claims-stay", "what a dead process has claimed stays claimed", STORE + "journal.cpp",
         "return claim->second == self_ || is_locked(file_, byte_of(claim->second));", "return true;",
         "store_journal")
mutation("claims-lost", "two processes work on one unit", STORE + "journal.cpp",
         "return claim->second == self_ || is_locked(file_, byte_of(claim->second));",
         "return claim->second == self_;",
         "store_journal")
mutation("sweep-fsync", "a measured case is not flushed to the disk", STORE + "sweep_parts.cpp",
         "if (code == 0 && fsync(descriptor_.id()) != 0) code = errno;", "",
         "program_long_runs:*NothingFollowsALineThatIsNotOnDisk")
mutation("fingerprint-place", "a fingerprint does not see that two rows were exchanged", STORE + "fingerprint.cpp",
         "std::uint64_t all = mixed(number);", "std::uint64_t all = mixed(number / 2);",
         "store_fingerprint.np1")
mutation("layout-unsafe", "rows are written before the journal has their places on the disk", STORE + "output_file.cpp",
         "    lock.write(\"part \" + layout.text());\n    if (plan_.keeps_units) lock.flush();\n",
         "    lock.write(\"part \" + layout.text());\n",
         "program_long_runs:*NothingIsSaidBeforeItIsOnDisk*")
mutation("missing-value", "a missing value is compared unrounded, and not found in narrower numbers",
         STORE + "finite.cpp",
         "const double value = core::load_as<double>(rounded);", "const double value = one.value;",
         "store_missing_values.np1")
mutation("foreign-previous", "a training replaces and deletes a file NAME.previous of the user",
         "src/annulus/app/verbs/train.cpp",
         "comm::on_root(comm, [&] { check_previous(training_); });", "",
         "program_checkpoints:*AFileOfTheUserCalledPreviousIsNotReplaced")
mutation("foreign-checkpoint", "a training replaces the checkpoint that another training has saved",
         "src/annulus/app/verbs/train.cpp",
         "      check_not_replaced(training_, newest_);\n", "",
         "program_checkpoints:*ASecondTrainingWithTheSameCheckpoint*")

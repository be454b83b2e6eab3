"""Mistakes in comm and strategies: tags, waits, barriers, buffers, orders."""
from case import mutation

COMM, STRATEGIES = "src/annulus/comm/", "src/annulus/strategies/"

mutation("tag", "receives do not tell kinds of messages apart", COMM + "exchange.cpp",
         "comm::start_receive(requests_, comm_, message.peer, tag + message.kind,",
         "comm::start_receive(requests_, comm_, message.peer, tag,",
         "comm_exchange.np2:Exchange.WaitsForWhatComesAlone")
mutation("sends-not-awaited", "buffers are freed while their rows are being sent", COMM + "exchange.cpp",
         "    progress();\n    return requests_.empty();", "    progress();\n    return true;",
         "comm_exchange.np2")
mutation("blocking-order", "all ranks send before they receive", COMM + "exchange.cpp",
         "const bool even = comm_.rank() % 2 == 0;", "const bool even = true;",
         "comm_exchange.np4:Exchange.BlockingMovesTheSameAtEvenAndOddNumbersOfRanks")
mutation("late-send", "a send that waits for its rows is started before they are there", COMM + "requests.cpp",
         "while (!all.empty() && all.front().ready()) {", "while (!all.empty()) {",
         "comm_staged.np2")
mutation("window-publish", "ranks read windows before all have written them", COMM + "window.cpp",
         "// plain stores become visible to reads\n  comm_.barrier();", "// plain stores become visible to reads",
         "comm_window.np3:Window.*")
mutation("window-collect", "a rank takes its sums before all have added to them", COMM + "window.cpp",
         "window_);\n  comm_.barrier();\n  check_mpi(MPI_Win_sync", "window_);\n  check_mpi(MPI_Win_sync",
         "comm_window.np3:Window.*")
mutation("staged-rest", "rows that receive nothing are overwritten by what staging memory held", COMM + "alltoall.cpp",
         "if (!are_all_of(to, receives)) target.load();", "if (are_all_of(to, receives)) target.load();",
         "comm_all_staged.np3")
mutation("arrive", "kernels do not wait for rows that are still being copied to the device", COMM + "staging.cpp",
         "if (is_staged()) queues_.to_device->kernels_wait_for(stored_);", "",
         "comm_staged.np2")
mutation("reduce-scatter-late", "a rank's own share of a sum is written over what has arrived",
         COMM + "reduce_scatter.cpp",
         "if (d == 1) make_piece(rank, sum);", "if (d == ranks - 1) make_piece(rank, sum);",
         "comm_reduce_scatter.np3")
mutation("deaf-root", "rank 0 does not listen to ranks that compute: they look hung", COMM + "watchdog.cpp",
         "    if (comm_.is_root()) listen();\n", "",
         "comm_watchdog.np3")
mutation("journal-beats", "a waiting rank's looks at the journal count as progress: no stall is noticed",
         COMM + "record.cpp",
         "if (doing_.activity == Doing::blocked && before.activity != Doing::waiting) count_beat();",
         "if (doing_.activity == Doing::blocked) count_beat();",
         "program_stall:Stall.ARankThatStopsInABlockOfStreamEndsARunWithGradients")
mutation("one-hop-buffer", "rows arrive in the buffer that the kernel reads", STRATEGIES + "keys/hop_channel.cpp",
         "kv_block(round_.problem(), receive_[h_ % 2].data()", "kv_block(round_.problem(), receive_[h_ / 1024].data()",
         "strategies_forward.np3:Forward.AwkwardShapes")
mutation("prefetch-depth", "a read begins while the kernel is in its buffer", STRATEGIES + "keys/read_round.cpp",
         "std::min(s + ReadRound::depth, reads())", "std::min(s + ReadRound::depth + 1, reads())",
         "strategies_onesided.np4:Onesided.*")
mutation("gathered-order", "rows are used before they have arrived", STRATEGIES + "keys/gathered_keys.cpp",
         "while (blocks_[at].held > 0 && !arrived_[at]) take_any(waits);", "if (blocks_[at].held > 0) take_any(waits);",
         "strategies_races.np3:*Races.*")
mutation("ordered-sends", "the buffer of sums is filled while the last ones leave from it",
         STRATEGIES + "gradients/ordered_sums.cpp",
         "if (s > 0) end_sends(channel, s - 1);", "if (s > 1) end_sends(channel, s - 2);",
         "strategies_races.np3:*Races.*")
mutation("window-adds", "a block is zeroed while its sums are being added", STRATEGIES + "gradients/window_sums.cpp",
         "  wait(slot(s));\n", "",
         "strategies_onesided.np4:Onesided.AHeldRankChangesNoGradient")
mutation("return-place", "results that ranks return to a query's owner overwrite one another",
         STRATEGIES + "queries/query_exchange.cpp",
         "const Index first = Index(receives.size()) * own_;",
         "const Index first = 0;",
         "strategies_pass_q.np2")

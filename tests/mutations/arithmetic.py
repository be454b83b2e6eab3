"""Mistakes in core, pattern, planner, kernels, layer and verify: counts, orders, rounding, signs, tolerances."""
from case import mutation

PATTERN, KERNELS, VERIFY = "src/annulus/pattern/", "src/annulus/kernels/", "src/annulus/verify/"
LAYER, PLANNER, CORE = "src/annulus/layer/", "src/annulus/planner/", "src/annulus/core/"

mutation("reach", "one more key is read than the last query sees", PATTERN + "combs.cpp",
         "std::clamp<Index>(t.end + band.right, 0, comb.count)",
         "std::clamp<Index>(t.end + band.right + 1, 0, comb.count)",
         "pattern_items")
mutation("granule-of-reach", "a window's keys begin inside a granule", PATTERN + "combs.cpp",
         "std::max<Index>(t.begin - band.left, 0) / granule * granule",
         "std::max<Index>(t.begin - band.left, 0 * granule)",
         "pattern_windows")
mutation("span-rule", "rows that fill their span are still sent in pieces", PATTERN + "strided_ranges.cpp",
         "if (row_count(kept) >= span.size())", "if (row_count(kept) > span.size())",
         "pattern_plan:Parts.*")
mutation("nested", "a range that lies in another one is sent twice", PATTERN + "strided_ranges.cpp",
         "if (!is_nested(one.range)) kept", "if (!is_nested(one.range) || one.range.count > 0) kept",
         "pattern_plan:Parts.*")
mutation("grid-tie", "a cut between two granules goes to the upper one", PATTERN + "granules.cpp",
         "return row - below <= above - row ? below : above;", "return row - below < above - row ? below : above;",
         "pattern_granules")
mutation("window-count", "the closed form counts one row too few before a window", PATTERN + "counts.cpp",
         "limited_sum(y - left, 1, first_rows)", "limited_sum(y - left - 1, 1, first_rows)",
         "pattern_counts")
mutation("passed-on", "a ring sends the rows that arrived, although fewer go on", PATTERN + "routes.cpp",
         "i + 1 < runs.size() && legs.carried[i] == legs.carried[i + 1]", "i + 1 < runs.size()",
         "pattern_plan:*Plan*")
mutation("zigzag", "the second half of a zigzag is dealt in the wrong order", PATTERN + "partition.cpp",
         "rows[std::size_t(std::min(c, chunks - 1 - c))]", "rows[std::size_t(c % ranks)]",
         "pattern_combs")
mutation("dlse", "the gradient of the LSE is left out", KERNELS + "host/host_epilogue.cpp",
         "if (dlse.data) value -= load_number", "if (dlse.data && value != value) value -= load_number",
         "kernels_backward")
mutation("empty-state", "an empty state is merged like one with keys", KERNELS + "merge.cpp",
         "if (from.l[one] == T(0)) return;  // an empty state: its acc may hold anything\n", "",
         "kernels_merge")
mutation("key-parts", "parts of the keys of few queries overlap", KERNELS + "host/host_key_parts.cpp",
         "begin = all * (parts - part - 1) / parts;",
         "begin = std::max<Index>(0, all * (parts - part - 1) / parts - 1);",
         "kernels_host:HostParts.*")
mutation("sink-rescale", "a large sink does not rescale the output", KERNELS + "sink.cpp",
         "for (Index d = at * value_dim; d < (at + 1) * value_dim; ++d) acc[d] *= shrink;", "",
         "kernels_sink")
mutation("bias-of-all", "every rank adds the bias to its share of the output", LAYER + "passes.cpp",
         "rank == pass.comm.rank() ? wo.bias : Matrix{}", "rank >= 0 ? wo.bias : Matrix{}",
         "layer_passes.np3:Passes.EqualTheDefinitionInFloat64")
mutation("no-sum-of-shared", "gradients of keys that ranks share are not summed", LAYER + "passes.cpp",
         "if (is_of_keys(weight)) work_.sum_shared(", "if (is_of_keys(weight) && sum.rows < 0) work_.sum_shared(",
         "layer_passes.np4:Passes.EqualTheDefinitionInFloat64")
mutation("tolerance", "verify allows twice the error", VERIFY + "attention.cpp",
         "return std::max(\n      {forward_tolerance(input.type),", "return 2 * std::max(\n      {forward_tolerance(input.type),",
         "verify_attention.np1:*VerifyAttention.AllowsTheToleranceOfItsTypeAndNoMore*")
mutation("borders-skipped", "verify does not look at rows at borders of segments", VERIFY + "rows.cpp",
         "rows.insert(rows.end(), {begin - 1, begin});", "rows.insert(rows.end(), {begin});",
         "verify_attention.np1:VerifySample.*")
mutation("as-good-as", "auto takes the fastest, not the one of fewest bytes among those as fast",
         PLANNER + "choose.cpp",
         "costs[i]->seconds > fastest * as_good_as", "costs[i]->seconds > fastest",
         "planner_choose")
mutation("ledger-peak", "the peak of memory is that of the last moment", CORE + "memory.cpp",
         "count->peak = std::max(count->peak, count->now);", "count->peak = count->now;",
         "core")
mutation("free-blocks", "large blocks of memory are given back where a small one would do", CORE + "free_blocks.cpp",
         "release(enough != kept_.end() ? enough : std::prev(kept_.end()));",
         "release(enough == kept_.end() ? enough : std::prev(kept_.end()));",
         "core:FreeBlocks.*")
mutation("not-ours", "a file that took the place of ours is deleted at a signal", CORE + "unfinished_files.cpp",
         "if (entry.identity == identity)", "if (entry.used || entry.identity == identity)",
         "core:UnfinishedFiles.*")
mutation("order-of-sums", "rows of the last rank do not count where sums go on in order (rule K)",
         PATTERN + "gradient_hops.cpp",
         "if (first < ranks) rows.push_back(", "if (first < ranks - 1) rows.push_back(",
         "strategies_gradient_hops")
mutation("rope-position", "rotary embedding turns by a row's place in memory", LAYER + "rope.cpp",
         "interval.begin, std::log2(base)", "rows.stored_begin(i), std::log2(base)",
         "layer_products:Rope.*")
mutation("simulated-owner", "a simulated message leaves before its owner is ready", "tests/planner/simulation.cpp",
         "std::max(ready[at], owner)", "std::max(ready[at], 0 * owner)",
         "planner_simulation")
mutation("memory-of-both", "auto knows only the memory of the forward pass", PLANNER + "cost.cpp",
         "all.memory_bytes = std::max(forward.memory_bytes, backward.memory_bytes);",
         "all.memory_bytes = forward.memory_bytes;",
         "planner_choose")
mutation("blocking-cost", "a rank that blocks sends and receives at once", PLANNER + "cost.cpp",
         "shape.overlapped || both_at_once ? 1 : 2;", "shape.overlapped || both_at_once ? 1 : 1;",
         "planner_choose")

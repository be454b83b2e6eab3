"""Mistakes in runfile, app, report, library and the Python package: keys, orders, words, strides, masks."""
from case import mutation

RUNFILE, LIBRARY, REPORT = "src/annulus/runfile/", "src/annulus/library/", "src/annulus/report/"
APP, PYTHON = "src/annulus/app/", "tools/python/annulus/"

mutation("unknown-key", "an unknown key of a section is ignored", RUNFILE + "keys.cpp",
         "    if (std::find(words.begin(), words.end(), word) == words.end()) {",
         "    if (section.empty() && std::find(words.begin(), words.end(), word) == words.end()) {",
         "runfile_run_file_errors")
mutation("override-order", "the first of two --set counts", RUNFILE + "run_file.cpp",
         "for (const std::string& argument : overrides) apply_override(tree.root, argument);",
         "for (std::size_t i = overrides.size(); i-- > 0;) apply_override(tree.root, overrides[i]);",
         "runfile_run_file")
mutation("duplicate-key", "the second of two equal keys counts, silently", RUNFILE + "yaml_tree.cpp",
         "if (earlier != section.entries.end()) {", "if (earlier != section.entries.end() && word.empty()) {",
         "runfile_run_file_errors")
mutation("range-end", "a range of a sweep leaves out its last value", RUNFILE + "sweep.cpp",
         "if (times ? at > words[\"to\"] / words[\"times\"] : at > words[\"to\"] - words[\"step\"]) break;",
         "if (times ? at >= words[\"to\"] / words[\"times\"] : at >= words[\"to\"] - words[\"step\"]) break;",
         "runfile_sweep")
mutation("stride-of-v", "v is copied with the strides of k", LIBRARY + "passes.cpp",
         "library::copy(v, place(v, to[1]));",
         "library::copy({v.data, v.type, v.extents, k.strides}, place(v, to[1]));",
         "library_attention.np2")
mutation("contiguous", "a tensor whose rows are apart counts as contiguous", LIBRARY + "strided_copy.cpp",
         "if (tensor.extents[i] > 1 && tensor.strides[i] != expected) return false;",
         "if (i > 0 && tensor.extents[i] > 1 && tensor.strides[i] != expected) return false;",
         "library_attention.np2")
mutation("rate", "a continued run shows the rate as if it had done all", REPORT + "progress.cpp",
         "const double done = share - begun;", "const double done = begun < 0 ? begun : share;",
         "report_progress")
mutation("mask-transposed", "a mask of PyTorch is read with queries and keys exchanged", PYTHON + "torch/masks.py",
         "steps = np.arange(n)[:, None] - np.arange(n)", "steps = np.arange(n) - np.arange(n)[:, None]",
         "tests/test_masks.py::test_windows")
mutation("masked", "masked entries of an array count as numbers", PYTHON + "arrays.py",
         "    refuse_masked(array, name)\n    kind", "    kind",
         "tests/test_meaning.py::test_masked_arrays_are_refused_where_something_is_masked")
mutation("byte-order", "numbers of the other byte order are taken as they lie", PYTHON + "arrays.py",
         "if array.dtype != native or not array.flags.aligned", "if not array.flags.aligned",
         "tests/test_attention.py::test_arrays_lie_as_they_like")
mutation("bfloat16-ties", "halves are rounded up when tensors are converted", PYTHON + "elements.py",
         "(0x7fff + ((word >> 16) & 1)).astype(np.uint32)", "np.uint32(0x8000)",
         "tests/test_conversion.py::test_types")
mutation("nested-spans", "spans of a trace come before those that they are inside of", REPORT + "trace_file.cpp",
         "return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;",
         "return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;",
         "report_trace_file.np1:Trace.ASpanComesBeforeThoseThatItHolds")
mutation("head-dims", "a machine file may name a head size twice", RUNFILE + "machine_file.cpp",
         "rates[i - 1].head_dim + 1;", "rates[i - 1].head_dim;",
         "runfile_machine_file")
mutation("peak-of-passes", "the peak of memory is that of the last of several passes", APP + "job/slices.cpp",
         "sum.pass.peak_bytes = std::max(sum.pass.peak_bytes, pass.peak_bytes);",
         "sum.pass.peak_bytes = pass.peak_bytes;",
         "app_slices.np1:Tally.KeepsTheHighestPeakOfSeveralPasses")

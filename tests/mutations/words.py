"""Mistakes in runfile and report: keys, orders, words."""
from case import mutation

RUNFILE, REPORT = "src/annulus/runfile/", "src/annulus/report/"

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
mutation("rate", "a continued run shows the rate as if it had done all", REPORT + "progress.cpp",
         "const double done = share - begun;", "const double done = begun < 0 ? begun : share;",
         "report_progress")
mutation("nested-spans", "spans of a trace come before those that they are inside of", REPORT + "trace_file.cpp",
         "return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;",
         "return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;",
         "report_trace_file.np1:Trace.ASpanComesBeforeThoseThatItHolds")
mutation("head-dims", "a machine file may name a head size twice", RUNFILE + "machine_file.cpp",
         "rates[i - 1].head_dim + 1;", "rates[i - 1].head_dim;",
         "runfile_machine_file")

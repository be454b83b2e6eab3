// What the pages say of options and keys, from the tables that read them.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

/// A key of the run file for who reads or types it.
struct KeyWords {
  std::string name;                 ///< "attention.causal"
  std::string range;                ///< "true | false; true: a row sees itself and rows before it"
  std::string shown;                ///< its default; "" where there is none
  std::vector<std::string> values;  ///< all that may be written, where these are a few words: "true", "false"
};
std::vector<KeyWords> key_words();

/// What follows an option, or is the run file.
enum class ValueKind { none, yaml_file, hdf5_file, setting, choice, other };
ValueKind kind_of(const Option& option);

}  // namespace annulus::app

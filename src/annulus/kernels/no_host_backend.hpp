// What is said when the host back end is asked for and was not compiled.
#pragma once

#include "annulus/core/error.hpp"

namespace annulus::kernels {

[[noreturn]] inline void no_host_backend() {
  core::fail(core::ErrorKind::failure,
             "this build computes on a device and has no host back end; expected Backend::device");
}

}  // namespace annulus::kernels

// Includes everything of the library that a program needs.
//
//   annulus::Communicator comm(MPI_COMM_WORLD);
//   annulus::Plan plan({.sequence = 262144, .heads = 8, .head_dim = 64},
//                      {.segments = {2048, annulus::all}, .dilations = {1, 8}, .causal = true}, comm.size());
//   const annulus::Index rows = plan.rows(comm.rank()).count();
//   using Tensor = Kokkos::View<float****, Kokkos::LayoutRight>;
//   Tensor q("q", 1, rows, 8, 64), k("k", 1, rows, 8, 64), v("v", 1, rows, 8, 64), out("out", 1, rows, 8, 64);
//   Kokkos::View<float***, Kokkos::LayoutRight> lse("lse", 1, rows, 8);
//   ... fill q, k and v ...
//   annulus::attention(Kokkos::DefaultExecutionSpace(), comm, plan, q, k, v, out, lse);
#pragma once

#include "annulus/library/attention.hpp"
#include "annulus/library/reference.hpp"
#include "annulus/library/threads.hpp"
#include "annulus/library/version.hpp"

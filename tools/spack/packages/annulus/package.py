"""annulus for Spack, 0.23 and newer. How to use it: tools/spack/spack.yaml."""
import pathlib

from spack.package import *

try:  # since Spack 1.0 these are in the package repository
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass  # before 1.0 the line above imports them


class Annulus(CMakePackage, CudaPackage):
    """Dilated ring attention for HPC clusters: exact attention, dense or dilated, over sequences that are spread over
    MPI ranks. A program (YAML and HDF5 in, HDF5 out), and a library for programs with Kokkos."""

    # The sources are those around this file: they are not public yet.
    git = pathlib.Path(__file__).resolve().parents[4].as_uri()
    homepage = git

    version("main", branch="main")

    variant("program", default=True, description="Build the program; off: the library alone")
    variant("mpi", default=True, description="Let several processes compute together")
    variant("openmp", default=True, description="Compute on CPU cores by OpenMP")
    variant("shared", default=False, description="Build the library as a shared one")

    conflicts("~mpi", when="+program", msg="the program needs MPI")
    conflicts("~openmp", when="~cuda", msg="Kokkos has to have OpenMP or a GPU back end")
    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPU: cuda_arch=80, for example")
    conflicts("%gcc@:10", msg="C++20 is needed")
    conflicts("%clang@:13", msg="C++20 is needed")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    generator("ninja")

    depends_on("kokkos@3.4:5+serial")
    depends_on("kokkos+openmp", when="+openmp")
    depends_on("fmt@9:")
    depends_on("mpi", when="+mpi")
    with when("+program"):
        depends_on("kokkos-kernels+blas")
        depends_on("kokkos-kernels+openmp", when="+openmp")
        depends_on("hdf5@1.10:")
        depends_on("yaml-cpp@0.7:")
        depends_on("cli11@2:")
        depends_on("nlohmann-json@3.11:")
        depends_on("googletest@1.12:", type="test")
        depends_on("python@3.8:", type="test")
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos+cuda+cuda_lambda+wrapper cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
        depends_on(f"kokkos-kernels+cuda cuda_arch={arch}", when=f"+program+cuda cuda_arch={arch}")

    def cmake_args(self):
        args = [
            self.define("Kokkos_ROOT", self.spec["kokkos"].prefix),
            self.define_from_variant("ANNULUS_BUILD_PROGRAM", "program"),
            self.define_from_variant("ANNULUS_MPI", "mpi"),
            self.define("ANNULUS_BUILD_TESTS", self.run_tests and self.spec.satisfies("+program")),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
        ]
        if self.spec.satisfies("+mpi"):
            args.append(self.define("MPI_CXX_COMPILER", self.spec["mpi"].mpicxx))
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CXX_COMPILER", self.spec["kokkos"].kokkos_cxx))
        return args

    def test_attention(self):
        """a small run is within the tolerance of its definition"""
        if self.spec.satisfies("~program"):
            raise SkipTest("there is no program")
        annulus = which(join_path(self.prefix.bin, "annulus"))
        annulus("generate", "--output", "in.h5", "--sequence", "300", "--heads", "4", "--head-dim", "16", "--overwrite")
        with open("run.yaml", "w", encoding="utf-8") as run_file:
            run_file.write(
                "input: {file: in.h5}\n"
                "attention: {segments: [64, all], dilations: [1, 3]}\n"
                "output: {file: out.h5, overwrite: true}\n"
            )
        annulus("run", "run.yaml")
        annulus("verify", "run.yaml")

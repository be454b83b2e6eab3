#!/usr/bin/env python3
"""Recipes for others' package managers agree with the repository: options, dependencies, paths, versions. No network.

    test_packages.py REPOSITORY PROGRAM [--modulecmd PATH]
"""
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path


class Spec:
    """What a package asks of its spec: satisfies("+mpi"), spec["kokkos"].prefix."""

    def __init__(self, **variants):
        self.variants = variants

    def satisfies(self, what):
        return all(self.variants[name] == (sign == "+") for sign, name in re.findall(r"([+~])(\w+)", what))

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=f"/sw/{name}", mpicxx="/sw/mpi/bin/mpicxx", kokkos_cxx="/sw/nvcc_wrapper")


class Base:
    """The part of Spack's packages that ours uses."""

    run_tests = False
    cuda_arch_values = ("80", "90")

    @staticmethod
    def define(name, value):
        return f"-D{name}={'ON' if value is True else 'OFF' if value is False else value}"

    def define_from_variant(self, name, variant):
        return self.define(name, self.spec.variants[variant])


class When:
    """`with when("+program"):` adds a condition to the directives inside."""

    def __init__(self, said, condition):
        self.said, self.condition = said, condition

    def __enter__(self):
        self.said["when"].append(self.condition)

    def __exit__(self, *_):
        self.said["when"].pop()


def load():
    """The class of package.py, and what its directives said."""
    said = {"variant": [], "depends_on": [], "conflicts": [], "version": [], "when": []}

    def directive(name):
        return lambda what, **more: said[name].append((what, "".join(said["when"]) + more.get("when", "")))

    spack, module = types.ModuleType("spack"), types.ModuleType("spack.package")
    for name in ("variant", "depends_on", "conflicts", "version"):
        setattr(module, name, directive(name))
    module.generator = lambda name: None
    module.when = lambda condition: When(said, condition)
    module.CMakePackage, module.CudaPackage = Base, type("CudaPackage", (), {"cuda_arch_values": Base.cuda_arch_values})
    module.join_path, module.SkipTest = os.path.join, unittest.SkipTest
    module.which = lambda path: lambda *words: subprocess.run([path, *words], check=True, timeout=60, stdout=subprocess.PIPE)
    names = {"__name__": "package", "__file__": str(PACKAGE)}
    sys.modules.update({"spack": spack, "spack.package": module})
    exec(compile(PACKAGE.read_text(encoding="utf-8"), str(PACKAGE), "exec"), names)  # pylint: disable=exec-used
    return names["Annulus"], said


def words_of(array):
    """The words of an array of tools/setup."""
    return re.search(rf"^{array}=\((.*?)\)", re.sub(r"#.*", "", SETUP), re.MULTILINE | re.DOTALL)[1].split()


class SpackPackage(unittest.TestCase):
    def setUp(self):
        self.package, self.said = load()

    def arguments(self, **variants):
        made = self.package()
        made.spec = Spec(**{"program": True, "mpi": True, "openmp": True, "cuda": False, "shared": False, **variants})
        return made.cmake_args()

    def test_variants_become_options_of_cmake(self):
        self.assertEqual([name for name, _ in self.said["variant"]], ["program", "mpi", "openmp", "shared"])
        usual = self.arguments()
        for expected in ("-DANNULUS_BUILD_PROGRAM=ON", "-DANNULUS_MPI=ON", "-DKokkos_ROOT=/sw/kokkos",
                         "-DANNULUS_BUILD_TESTS=OFF", "-DBUILD_SHARED_LIBS=OFF", "-DMPI_CXX_COMPILER=/sw/mpi/bin/mpicxx"):
            self.assertIn(expected, usual)
        alone = self.arguments(program=False, mpi=False, shared=True)
        for expected in ("-DANNULUS_BUILD_PROGRAM=OFF", "-DANNULUS_MPI=OFF", "-DBUILD_SHARED_LIBS=ON"):
            self.assertIn(expected, alone)
        self.assertNotIn("MPI_CXX_COMPILER", " ".join(alone))
        self.assertIn("-DCMAKE_CXX_COMPILER=/sw/nvcc_wrapper", self.arguments(cuda=True))

    def test_cmake_has_the_options(self):
        options = set(re.findall(r"^option\((\w+)", CMAKE, re.MULTILINE))
        used = set(re.findall(r"-D(ANNULUS_\w+)", " ".join(self.arguments())))
        self.assertEqual(used - options, set())
        # options for developers; and hardening, whose default is right everywhere
        self.assertEqual(options - used, {"ANNULUS_BUILD_BENCHMARKS", "ANNULUS_BUILD_FUZZERS", "ANNULUS_HARDENING",
                                          "ANNULUS_WERROR"})

    def test_dependencies_are_those_of_setup(self):
        expected = {re.split(r"[+@~]", spec)[0] for spec in re.search(r'spack_specs="(.*)"', SETUP)[1].split()}
        needed = {re.split(r"[+@~ ]", spec)[0] for spec, _ in self.said["depends_on"]}
        self.assertEqual(expected - {"ninja", "openmpi"} - needed, set())  # the generator; `mpi` is any of them
        self.assertEqual(needed - expected, {"c", "cxx", "mpi", "googletest", "python"})
        library = {re.split(r"[+@~ ]", spec)[0] for spec, when in self.said["depends_on"] if "program" not in when}
        self.assertEqual(library, {"c", "cxx", "cmake", "kokkos", "fmt", "mpi"})

    def test_its_own_test_passes_with_the_built_program(self):
        with tempfile.TemporaryDirectory() as folder:
            here = os.getcwd()
            os.chdir(folder)
            try:
                Path("bin").mkdir()
                Path("bin/annulus").symlink_to(PROGRAM)
                made = self.package()
                made.spec, made.prefix = Spec(program=True), types.SimpleNamespace(bin=os.path.join(folder, "bin"))
                made.test_attention()
                self.assertTrue(Path("out.h5").is_file())
            finally:
                os.chdir(here)

    def test_sources_are_this_repository(self):
        self.assertEqual(self.package.git, ROOT.as_uri())
        text = (ROOT / "tools/spack/spack.yaml").read_text(encoding="utf-8")
        self.assertEqual((ROOT / "tools/spack" / re.search(r"path: (\S+)", text)[1]).resolve(), ROOT)
        self.assertTrue((ROOT / "tools/spack/repo.yaml").is_file())


class Containers(unittest.TestCase):
    def test_packages_are_those_of_setup(self):
        expected = words_of("packages") + words_of("handy_packages") + words_of("source_packages")
        for name in ("Containerfile", "annulus.def"):
            text = (ROOT / "tools/container" / name).read_text(encoding="utf-8").replace("\\\n", " ")
            found = re.search(r"--no-install-recommends\s+([\w+. -]+)", text)[1].split()
            self.assertEqual(sorted(found), sorted(expected), name)

    def test_both_do_without_reading_other_ranks_memory(self):
        for name in ("Containerfile", "annulus.def"):
            text = (ROOT / "tools/container" / name).read_text(encoding="utf-8")
            self.assertRegex(text, r"(?m)^(ENV| +export) .*\bOMPI_MCA_btl_vader_single_copy_mechanism=none\b", name)
        self.assertIn("`OMPI_MCA_btl_vader_single_copy_mechanism=none`",
                      (ROOT / "docs/clusters.md").read_text(encoding="utf-8"))

    def test_both_run_the_same_commands_which_are_there(self):
        found = []
        for name in ("Containerfile", "annulus.def"):
            text = (ROOT / "tools/container" / name).read_text(encoding="utf-8").replace("\\\n", " ")
            found.append(re.findall(r"(\./tools/\w+|cmake --[^&\n]*[^&\n ])", re.sub(r"^#.*", "", text, flags=re.MULTILINE)))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], ["./tools/setup", "cmake --preset release", "cmake --build --preset release",
                                    "cmake --install build/release --prefix /usr/local"])
        self.assertIn('"name": "release"', (ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
        # tools/setup reads nothing outside tools, which is all that is copied before it runs.
        self.assertNotRegex(SETUP, r"\$here/\.\.")


class Modules(unittest.TestCase):
    FOLDER = "job_scripts/modules/annulus"
    EXPECTED = {"ANNULUS": "bin/annulus", "PATH": "bin", "CMAKE_PREFIX_PATH": ""}

    def test_both_are_of_this_version_and_set_the_same(self):
        lua = (ROOT / self.FOLDER / f"{VERSION}.lua").read_text(encoding="utf-8")
        tcl = (ROOT / self.FOLDER / VERSION).read_text(encoding="utf-8")
        found = dict(re.findall(r'^(?:setenv|prepend_path)\("(\w+)", (?:pathJoin\()?root(?:, "([^"]*)"\))?', lua, re.MULTILINE))
        self.assertEqual(found, self.EXPECTED)
        found = dict(re.findall(r"^(?:setenv|prepend-path) (\w+) \$root/?(\S*)", tcl, re.MULTILINE))
        self.assertEqual(found, self.EXPECTED)
        self.assertIn(f'"Version: {VERSION}"', lua)
        self.assertIn(f"{{Version: {VERSION}}}", tcl)
        changes = (ROOT / "docs/changelog.md").read_text(encoding="utf-8")
        self.assertTrue(re.search(r"^## (\d+\.\d+\.\d+)", changes, re.MULTILINE)[1] == VERSION)

    def test_environment_modules_load_it(self):
        if MODULECMD is None:  # the test above has read the modules as text
            return
        with tempfile.TemporaryDirectory() as folder:
            for name in ("gcc", "openmpi", "hdf5"):
                (Path(folder) / name).write_text("#%Module1.0\n", encoding="utf-8")
            environment = {"PATH": "/usr/bin:/bin", "HOME": folder,
                           "MODULEPATH": f"{folder}:{ROOT / 'job_scripts/modules'}"}
            script = (f'eval "$({MODULECMD} bash load gcc openmpi hdf5)"; '
                      f'eval "$({MODULECMD} bash load annulus/{VERSION})"; env')
            shown = subprocess.run(["bash", "-c", script], env=environment, stdout=subprocess.PIPE, check=True,
                                   universal_newlines=True).stdout
        variables = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        for name, where in self.EXPECTED.items():
            expected = os.path.join("/opt/annulus", VERSION, where).rstrip("/")
            self.assertEqual(variables[name].split(":")[0], expected, name)


ROOT, PROGRAM = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MODULECMD = sys.argv[sys.argv.index("--modulecmd") + 1] if "--modulecmd" in sys.argv else None
PACKAGE = ROOT / "tools/spack/packages/annulus/package.py"
SETUP = (ROOT / "tools/setup").read_text(encoding="utf-8")
CMAKE = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
VERSION = re.search(r"^project\(annulus VERSION (\S+)", CMAKE, re.MULTILINE)[1]
if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

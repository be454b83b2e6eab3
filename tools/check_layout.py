#!/usr/bin/env python3
"""Proves that the repository keeps its own rules: which room may include which, and which file may be where.

    check_layout.py [ROOT]        check the tree (default: this repository); one line per finding, exit 1 if any
    check_layout.py --self-test   show on small made-up trees that every rule fires, and that a good tree passes
"""
import re
import sys
import tempfile
from pathlib import Path

# Calls of MPI and HDF5 that need neither another rank nor a disk. All other calls may never return, so they are
# made by comm::blocking(), where the watchdog sees them: blocking("MPI_Win_free", MPI_Win_free, ...).
LOCAL_CALLS = re.compile(
    r"MPI_(Aint|Comm_(rank|size|set_errhandler)|Win_(set_errhandler|sync)|Error_\w+|Finalized|Get_\w+|Type_\w+|Test\w*|I(send|recv|probe|barrier)"
    r"|I(bcast|reduce|allreduce|gather|allgather|scatter|alltoall)\w*|R(get|put|accumulate)|Cancel|Request_free"
    r"|T_\w+)|H5[PSTEI]\w+|H5D(get_type|get_space)|H5(free_memory|dont_atexit)|H5_VERSION_GE"
)
# "May include": app -> {verify, planner, report}; verify -> {layer, store}; report -> store; store -> runfile;
# runfile -> {comm, pattern}; library -> planner -> strategies; layer -> strategies -> {kernels, comm, pattern} -> core.
ARROWS = {
    "app": {"verify", "planner", "report"},
    "verify": {"layer", "store"},
    "library": {"planner"},
    "planner": {"strategies"},
    "layer": {"strategies"},
    "strategies": {"kernels", "comm", "pattern"},
    "report": {"store"},
    "store": {"runfile"},
    "runfile": {"comm", "pattern"},
    "kernels": {"core"},
    "comm": {"core"},
    "pattern": {"core"},
    "core": set(),
}
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE",
             "pyproject.toml", "src", "input", "tests", "tools", "job_scripts", "docs", "examples"}
# Not in the repository: developers have these, and git ignores them.
TOP_LEVEL_IGNORED = {"build", "CMakeUserPresets.json", "compile_commands.json"}
USERS_FILES = {".h5", ".npz", ".npy", ".png", ".json", ".yaml"}  # the README's commands make such files; git ignores them
MAX_LINES = 400
MAX_COLUMNS = 120  # clang-format keeps code within this limit, but not comments
CXX = {".cpp", ".hpp", ".h", ".inl", ".cu", ".cuh", ".ipp", ".cc"}
TEXT_SOURCES = CXX | {".py", ".cmake", ".sh", ".txt", ""}


def reachable(room):
    """Rooms that `room` may include: itself and whatever its arrows lead to, over any number of steps."""
    rooms = {room}
    for target in ARROWS[room]:
        rooms |= reachable(target)
    return rooms


def may_name_mpi(room, path):
    """Whether `path` may name MPI outside comm and app, because it takes the communicator of the library's caller."""
    return room == "library" and path.name.split(".")[0] == "communicator"


# One alternative per kind of text that is no code. Raw strings come first, because quotes inside them end no string.
NOT_CODE = re.compile(
    r'R"(?P<tag>[^()\s]{0,16})\(.*?\)(?P=tag)"'
    r'|(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def blank(text, strings_too):
    """The text with comments (and strings, if strings_too) turned into blanks; lines keep their numbers."""

    def replace(match):
        if match["comment"] is None and not strings_too:
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return NOT_CODE.sub(replace, text)


# What opens or closes a scope, and directives, which choose among scopes. In `class Name final : public Base {` the
# type is Name; Name<float> is another type than Name.
SCOPE = re.compile(
    r"^[ \t]*#[ \t]*(?P<directive>\w+)(?:[^\n]*\\\n)*[^\n]*"
    r"|\bnamespace(?P<namespace>[\w\s:]*)\{"
    r"|\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[[^\]]*\]\]\s*|alignas\s*\([^()]*\)\s*)*"
    r"(?P<type>[\w:]+(?:\s*<[^;{}()=]*>)?)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{"
    r"|[{}]",
    re.MULTILINE,
)


def defined_types(code):
    """(full name, line) of every class, struct, union and enumeration that has a name outside its file; `code` has no
    comments and strings. What an unnamed namespace or a function holds belongs to its file alone."""
    types = []
    scopes = []  # names of the open scopes; None for an unnamed namespace, a function, an initializer
    at_if = []  # for each open #if, the scopes in which all its branches begin
    for found in SCOPE.finditer(code):
        directive = found["directive"]
        if directive in ("if", "ifdef", "ifndef"):
            at_if.append(list(scopes))
        elif directive in ("else", "elif") and at_if:
            scopes = list(at_if[-1])
        elif directive == "endif" and at_if:
            at_if.pop()
        elif directive:
            continue
        elif found["namespace"] is not None:
            scopes.append(found["namespace"].replace("inline", "").strip() or None)
        elif found["type"]:
            scopes.append(re.sub(r"\s+", "", found["type"]))
            if None not in scopes:
                types.append(("::".join(scopes), code.count("\n", 0, found.start("type")) + 1))
        elif found[0] == "{":
            scopes.append(None)
        elif scopes:
            scopes.pop()
    return types


class Checker:
    def __init__(self, root):
        self.root = Path(root)
        self.findings = []
        self.types = {}  # full name: (path, line) of its first definition
        self.folders = {}  # room: {folder: {folder that it includes: (path, line) of the first such include}}

    def complain(self, path, line, message):
        self.findings.append(f"{path.relative_to(self.root)}:{line}: {message}")

    def forbid(self, path, code, pattern, message):
        for number, line in enumerate(code.splitlines(), 1):
            found = re.search(pattern, line)
            if found:
                self.complain(path, number, message.format(found[0].strip()))

    def check(self):
        self.check_top_level()
        for folder in ("src", "tests", "tools", "job_scripts", "examples"):
            for path in sorted((self.root / folder).rglob("*")):
                if path.is_file() and not {"__pycache__", "corpus"} & set(path.parts):  # corpora have any bytes
                    self.check_file(path)
        self.check_folders()
        return self.findings

    def check_folders(self):
        """Checks that the folders of a room include each other in no circle. Files beside the folders do not count."""
        for room, includes in sorted(self.folders.items()):

            def way(start, goal, includes=includes):
                """The includes by which `start` reaches `goal`; None if there are none."""
                ways, seen = [(start, [])], {start}
                for here, steps in ways:  # grows in this loop
                    for folder, place in sorted(includes.get(here, {}).items()):
                        if folder == goal:
                            return [*steps, place]
                        if folder not in seen:
                            seen.add(folder)
                            ways.append((folder, [*steps, place]))
                return None

            reported = set()
            for folder in sorted(includes):
                circle = None if folder in reported else way(folder, folder)
                if circle is None:
                    continue
                names = [path.relative_to(self.root).parts[3] for path, _ in circle]
                reported |= set(names)
                places = ", ".join(f"{path.relative_to(self.root)}:{line}" for path, line in circle)
                self.complain(*circle[0], f"folders include each other in a circle, {' -> '.join([*names, folder])}: {places}")

    def check_top_level(self):
        for entry in sorted(self.root.iterdir()):
            if entry.suffix in USERS_FILES or entry.name.startswith("."):
                continue
            if entry.name not in TOP_LEVEL | TOP_LEVEL_IGNORED:
                self.complain(entry, 1, "has no place at the top level")

    def check_file(self, path):
        if path.suffix not in TEXT_SOURCES:
            return
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MAX_LINES:
            self.complain(path, MAX_LINES + 1, f"{lines} lines: a source file has at most {MAX_LINES}")
        if path.suffix not in CXX:
            return
        for number, (line, bare) in enumerate(zip(text.splitlines(), blank(text, strings_too=False).splitlines()), 1):
            if len(line) > MAX_COLUMNS and line != bare:
                self.complain(path, number, f"a comment of {len(line)} columns: at most {MAX_COLUMNS}")
        code = blank(text, strings_too=True)
        self.forbid(path, code, r"\bGTEST_SKIP\b|\bDISABLED_\w*", "{}: a test runs or does not exist")
        parts = path.relative_to(self.root).parts
        if parts[:2] != ("src", "annulus"):
            return
        self.check_types(path, code)
        if parts[2:] == ("annulus.hpp",):  # the library's public header includes its room alone
            self.check_includes(path, "library", blank(text, strings_too=False))
            return
        if len(parts) < 4 or parts[2] not in ARROWS:
            self.complain(path, 1, f"not in a room; rooms are {', '.join(ARROWS)}")
            return
        self.check_includes(path, parts[2], blank(text, strings_too=False))
        own = path.with_suffix(".hpp")
        if path.suffix == ".cpp" and own.is_file():  # own header first, which shows that it compiles alone
            first = re.search(r'^\s*#\s*include\s*["<]([^">]+)', text, re.MULTILINE)
            name = "/".join(own.relative_to(self.root).parts[1:])
            if not first or first[1] != name:
                self.complain(path, 1, f'"{name}" is not the first thing it includes: nothing shows that it compiles alone')
        self.check_tokens(path, parts[2], code)
        self.check_calls(path, code)

    def check_includes(self, path, room, text):
        for number, line in enumerate(text.splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not include:
                continue
            quote, target = include.groups()
            parts = target.split("/")
            if parts[0] == "annulus":
                here = path.relative_to(self.root).parts[2:]
                if len(here) > 2 and len(parts) > 3 and parts[1] == room and parts[2] != here[1]:
                    self.folders.setdefault(room, {}).setdefault(here[1], {}).setdefault(parts[2], (path, number))
                if len(parts) > 2 and parts[1] not in reachable(room):
                    self.complain(path, number, f"{room} must not include {parts[1]}: no arrow leads there")
                if path.name.startswith("reference") and room == "kernels" and parts[1:2] == ["pattern"]:
                    self.complain(path, number, "the reference must not share the pattern room's combs with what it judges")
            elif quote == '"':
                self.complain(path, number, f'"{target}": our own headers are included as "annulus/<room>/..."')
            elif target in ("mpi.h", "mpi-ext.h") and room not in ("comm", "app") and not may_name_mpi(room, path):
                self.complain(path, number, f"<{target}> belongs to comm and app")
            elif "yaml" in target and room != "runfile":
                self.complain(path, number, f"<{target}>: YAML stops at runfile")

    def check_types(self, path, code):
        """Two definitions of one name are undefined behaviour that neither compiler nor linker reports."""
        here = path.relative_to(self.root)
        for name, line in defined_types(code):
            first, number = self.types.setdefault(name, (here, line))
            if first != here:  # two in one file are in branches of an #if, or do not compile
                self.complain(path, line, f"{name} is defined a second time; {first}:{number} defines it, too")

    def check_calls(self, path, code):
        for number, line in enumerate(code.splitlines(), 1):
            for call in re.findall(r"\b(P?MPIX?_\w*[a-z]\w*|H5\w+)\s*\(", line):
                if not LOCAL_CALLS.fullmatch(call):
                    self.complain(path, number, f"{call} may block: make it by comm::blocking(), where the watchdog sees it")

    def check_tokens(self, path, room, code):
        name = path.name.split(".")[0]
        if room not in ("comm", "app") and not may_name_mpi(room, path):
            self.forbid(path, code, r"\bP?MPIX?_\w+", "{}: MPI belongs to comm and app")
        self.forbid(path, code, r"\bfmt::print(ln)?\(\s*stderr\b", "{}: throws if stderr cannot be written: call core::print_to_stderr()")
        if (room, name) != ("core", "kokkos_compat"):
            self.forbid(path, code, r"\bKOKKOS_VERSION\w*", "{}: Kokkos versions are told apart in core/kokkos_compat only")
        if room != "runfile":
            self.forbid(path, code, r"\bYAML\b", "{}: YAML stops at runfile")
        # Users of the library, which has no room app, also limit its instruction set by ANNULUS_INSTRUCTION_SET.
        if room != "app" and (room, name) != ("core", "instruction_set"):
            self.forbid(path, code, r"\b(secure_)?getenv\b|\benviron\b", "{}: only app reads the environment")
        if room != "app":
            # MPI_Init_thread and Kokkos::initialize remove their own options from argv, which these two files pass on.
            if (room, name) not in {("comm", "runtime"), ("core", "kokkos_compat")}:
                self.forbid(path, code, r"\bargv\b", "{}: only app reads the command line")


# ---- self-test: (what it shows, {path: text}, piece of the one finding expected, or None for a good tree) ----
SRC = "src/annulus/"
CASES = [
    ("a good tree", {
        "README.md": "", "CONTRIBUTING.md": "", "SECURITY.md": "", "CITATION.cff": "", ".gitignore": "", "build/x": "", "docs/run_file.md": "", "examples/heat/CMakeLists.txt": "",
        SRC + "core/kokkos_compat.hpp": "#if KOKKOS_VERSION >= 40000\n#endif\n",
        SRC + "kernels/a.cpp": '#include "annulus/core/a.hpp"\n// MPI_Send(, getenv and argv in a comment\nauto s = "MPI_Send(";\n',
        SRC + "comm/a.cpp": '#include <mpi.h>\nint f() { return blocking("MPI_Barrier", MPI_Barrier, MPI_COMM_WORLD); }\n'
                            "void g() { MPI_Ibarrier(c, &r); MPI_Test(&r, &d, s); }\n",
        SRC + "comm/runtime.hpp": "void start(int& argc, char**& argv);\n",
        SRC + "core/kokkos_compat.cpp": '#include "annulus/core/kokkos_compat.hpp"\n' "void start(int& argc, char**& argv) {}\n",
        SRC + "strategies/ring.cpp": '#include "annulus/core/a.hpp"\n#include "annulus/comm/a.hpp"\n',
        SRC + "runfile/tree.cpp": "#include <yaml-cpp/yaml.h>\nYAML::Node n;\n",
        SRC + "store/file.cpp": '#include <hdf5.h>\n#include "annulus/runfile/a.hpp"\nauto e = H5Pset_fapl_sec2(f);\n',
        SRC + "report/a.cpp": '#include "annulus/store/a.hpp"\n#include "annulus/runfile/a.hpp"\n',
        SRC + "app/main.cpp": '#include "annulus/report/a.hpp"\n#include "annulus/version.hpp"\n#include "annulus/core/a.hpp"\nauto h = getenv("HOME"); // argv\n',
        SRC + "app/verbs/verify.cpp": '#include "annulus/verify/a.hpp"\n#include "annulus/planner/named/a.hpp"\n',
        SRC + "verify/a.cpp": '#include "annulus/layer/a.hpp"\n#include "annulus/store/a.hpp"\n#include "annulus/kernels/a.hpp"\n',
        SRC + "planner/a.cpp": '#include "annulus/strategies/a.hpp"\n',
        "tests/core/a_test.cpp": '#include "support/tolerance.hpp"\n#include <mpi.h>\n// ' + 117 * "x" + "\n",
        "tests/core/b_test.cpp": "auto long_text = \"// " + 120 * "x" + "\";\n",
    }, None),
    ("pattern, kernels and comm keep apart", {SRC + "kernels/a.cpp": '#include "annulus/comm/a.hpp"\n'}, "kernels must not include comm"),
    ("comm knows no pattern",
     {SRC + "comm/a.cpp": '#include "annulus/pattern/a.hpp"\n'}, "comm must not include pattern"),
    ("core includes no other room",
     {SRC + "core/a.hpp": '#include "annulus/kernels/a.hpp"\n'}, "core must not include kernels"),
    ("store does not compute", {SRC + "store/a.cpp": '#include <annulus/strategies/a.hpp>\n'}, "store must not include strategies"),
    ("the run file knows no other file", {SRC + "runfile/a.cpp": '#include "annulus/store/a.hpp"\n'}, "runfile must not include store"),
    ("tensors are no report", {SRC + "store/a.cpp": '#include "annulus/report/a.hpp"\n'}, "store must not include report"),
    ("verify prints no report", {SRC + "verify/a.cpp": '#include "annulus/report/a.hpp"\n'}, "verify must not include report"),
    ("nothing points back to app", {SRC + "strategies/a.cpp": '#include "annulus/app/a.hpp"\n'}, "strategies must not include app"),
    ("from a room inside a room", {SRC + "strategies/named/a.cpp": '#include "annulus/app/verbs/a.hpp"\n'}, "strategies must not include app"),
    ("verify does not see the job", {SRC + "verify/a.cpp": '#include "annulus/app/job/a.hpp"\n'}, "verify must not include app"),
    ("verify does not plan", {SRC + "verify/a.cpp": '#include "annulus/planner/a.hpp"\n'}, "verify must not include planner"),
    ("strategies do not plan", {SRC + "strategies/a.cpp": '#include "annulus/planner/a.hpp"\n'}, "strategies must not include planner"),
    ("planner reads no file", {SRC + "planner/a.cpp": '#include "annulus/store/a.hpp"\n'}, "planner must not include store"),
    ("a long example", {"examples/heat/main.cpp": "\n" * 401}, "at most 400"),
    ("own headers by their full name", {SRC + "comm/a.cpp": '#include "../core/a.hpp"\n'}, "our own headers"),
    ("a room that does not exist", {SRC + "utils/a.hpp": ""}, "not in a room"),
    ("MPI header outside comm", {SRC + "store/a.cpp": "#include <mpi.h>\n"}, "belongs to comm and app"),
    ("MPI call in store", {SRC + "store/a.cpp": "void f() { MPI_Ibarrier(c); }\n"}, "MPI belongs to comm"),
    ("MPI call that may block", {SRC + "comm/a.cpp": "void f() { check(MPI_Barrier(c)); }\n"}, "MPI_Barrier may block"),
    ("HDF5 call that may block", {SRC + "store/a.cpp": "auto f = H5Fopen (p, m, a);\n"}, "H5Fopen may block"),
    ("MPI name in strategies", {SRC + "strategies/a.cpp": "MPI_Comm c;\n"}, "MPI belongs to comm"),
    ("Kokkos version test", {SRC + "kernels/a.cpp": "#if KOKKOS_VERSION_GREATER_EQUAL(4, 0, 0)\n#endif\n"}, "kokkos_compat only"),
    ("YAML outside runfile", {SRC + "app/a.cpp": "YAML::Node n;\n"}, "YAML stops at runfile"),
    ("YAML header outside runfile", {SRC + "store/a.cpp": "#include <yaml-cpp/yaml.h>\n"}, "YAML stops at runfile"),
    ("environment below app", {SRC + "comm/a.cpp": 'auto v = std::getenv("X");\n'}, "reads the environment"),
    ("a message that may throw", {SRC + "app/a.cpp": 'void f() { fmt::print(stderr, "x"); fmt::print("x"); }\n'}, "throws if stderr"),
    ("command line below app", {SRC + "store/a.cpp": "int f(char** argv);\n"}, "reads the command line"),
    ("skipped test", {"tests/core/a_test.cpp": "GTEST_SKIP();\n"}, "runs or does not exist"),
    ("disabled test", {"tests/core/a_test.cpp": "TEST(A, DISABLED_b) {}\n"}, "runs or does not exist"),
    ("own header first", {SRC + "core/a.hpp": "", SRC + "core/a.cpp": '#include <map>\n#include "annulus/core/a.hpp"\n'}, "compiles alone"),
    ("long comment", {"tests/core/a_test.cpp": "int a;  // " + 110 * "x" + "\n"}, "a comment of 121 columns"),
    ("long file", {"tools/long.py": "\n" * 401}, "at most 400"),
    ("two classes of one name", {
        SRC + "store/a.hpp": "namespace annulus::store {\nclass File final : public Base<int> {\n};\n}\n",
        SRC + "store/b.hpp": "namespace annulus {\nnamespace store {\ntemplate <class T>\nstruct File {};\n}\n}\n",
    }, "src/annulus/store/b.hpp:4: annulus::store::File is defined a second time; src/annulus/store/a.hpp:2"),
    ("two enumerations inside a class", {
        SRC + "store/a.cpp": "class File {\n  int f() { return 1; }\n  enum class Kind : int { a };\n};\n",
        SRC + "store/b.cpp": "enum class File::Kind { b };\n",
    }, "File::Kind is defined a second time"),
    ("names that are one file's, another scope's, or no definition", {
        SRC + "store/a.hpp": "namespace a {\nclass File;\nstruct File f();\n#if X\nclass File : A {\n#else\nclass File {\n"
                          "#endif\n};\ntemplate <>\nclass Of<int> {};\n}\nclass File {};\n",
        SRC + "store/b.cpp": "namespace a {\nnamespace {\nclass File {};\n}\nvoid f() {\n  struct File {};\n}\n"
                          "struct File g() { return {}; }\ntemplate <>\nclass Of<float> {};\n// class File {};\n}\n",
    }, None),
    ("folders that include each other", {
        SRC + "app/job/a.hpp": '#include "annulus/app/job/b.hpp"\n#include "annulus/app/report/a.hpp"\n',
        SRC + "app/job/b.hpp": "", SRC + "app/report/a.hpp": '#include "annulus/app/job/b.hpp"\n',
    }, "app/job/a.hpp:2: folders include each other in a circle, job -> report -> job: "
       "src/annulus/app/job/a.hpp:2, src/annulus/app/report/a.hpp:1"),
    ("a circle of three folders", {
        SRC + "kernels/a/a.hpp": '#include "annulus/kernels/b/a.hpp"\n',
        SRC + "kernels/b/a.hpp": '#include "annulus/kernels/c/a.hpp"\n',
        SRC + "kernels/c/a.hpp": '#include "annulus/kernels/a/b.hpp"\n', SRC + "kernels/a/b.hpp": "",
    }, "in a circle, a -> b -> c -> a: "),
    ("folders that do not, and the room's own files, which both include and are included", {
        SRC + "app/job/a.hpp": '#include "annulus/app/a.hpp"\n', SRC + "app/a.hpp": '#include "annulus/app/job/a.hpp"\n',
        SRC + "app/verbs/a.hpp": '#include "annulus/app/job/a.hpp"\n#include "annulus/store/job/a.hpp"\n',
        SRC + "store/job/a.hpp": '// #include "annulus/store/verbs/a.hpp"\n',
        SRC + "store/verbs/a.hpp": '#include "annulus/store/job/a.hpp"\n',
    }, None),
    ("stray top-level entry", {"notes.txt": ""}, "no place at the top level"),
]
# This tree breaks two rules at once, so it is not in CASES, where each tree gives one finding.
REFERENCE_CASE = {SRC + "kernels/reference.cpp": '#include "annulus/pattern/comb.hpp"\n'}


def findings_of(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Checker(root).check()


def self_test():
    failed = 0
    for what, tree, expected in CASES:
        findings = findings_of(tree)
        good = not findings if expected is None else len(findings) == 1 and expected in findings[0]
        if not good:
            failed += 1
            print(f"self-test '{what}': expected {expected or 'no finding'}, got {findings}")
    if not any("combs" in finding for finding in findings_of(REFERENCE_CASE)):
        failed += 1
        print("self-test: the reference may include the pattern room")
    print(f"check_layout self-test: {len(CASES) + 1} trees, {failed} wrong")
    return failed == 0


def main(arguments):
    if arguments == ["--self-test"]:
        return 0 if self_test() else 1
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    findings = Checker(root).check()
    print("\n".join(findings) if findings else "check_layout: every rule holds")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

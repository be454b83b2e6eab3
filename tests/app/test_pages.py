#!/usr/bin/env python3
"""The manual page and the shells' completion say what --help says, and complete it.

    test_pages.py PROGRAM [--groff PATH] [--zsh PATH]
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path


def output(*words, **more):
    return subprocess.run(words, stdout=subprocess.PIPE, universal_newlines=True, check=True, timeout=60, **more).stdout


class Help:
    """What --help shows: {verb: [options]}."""

    def __init__(self, program):
        table = re.search(r"^Subcommands:\n((?:  .*\n)+)", output(program, "--help"), re.MULTILINE)[1]
        self.verbs = {verb: re.findall(r"^  (--[a-z-]+)", output(program, verb, "--help"), re.MULTILINE)
                      for verb in re.findall(r"^  (\w+)", table, re.MULTILINE)}
        self.verbs = {verb: [*options, "--help"] for verb, options in self.verbs.items()}


def setUpModule():
    global told
    told = Help(PROGRAM)
    assert len(told.verbs) >= 8 and "--dry-run" in told.verbs["run"], told.verbs


class Manual(unittest.TestCase):
    def setUp(self):
        self.source = output(PROGRAM, "--manual")

    def sections(self):
        """{verb: text}, as it is printed."""
        text = self.source.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
        parts = re.split(r"^\.S[SH] (.*)\n", text, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2]))

    def test_every_verb_and_option_is_there(self):
        sections = self.sections()
        for verb, options in told.verbs.items():
            terms = re.findall(r"^\.TP\n(?:-h, )?(--[a-z-]+)", sections["annulus " + verb], re.MULTILINE)
            self.assertEqual(sorted(terms), sorted(options), verb)
            self.assertIn(f".B annulus {verb}\n", self.source)  # in the synopsis

    def test_the_synopsis_has_the_run_file(self):
        synopsis = self.sections()["SYNOPSIS"]
        for verb, file in (("run", " FILE.yaml"), ("plan", " [FILE.yaml]"), ("generate", "")):
            self.assertIn(f".B annulus {verb}\n[options]{file}\n", synopsis)

    def test_what_an_option_needs_is_told(self):
        generate = self.sections()["annulus generate"]
        for told_there in ("--output FILE.h5\nHDF5 file to make (required)\n", "(default: float32)\n", "(needs --layer)\n",
                           "(not with --dout, --dlse)\n"):
            self.assertIn(told_there, generate)

    def test_every_key_and_exit_status_is_there(self):
        sections = self.sections()
        keys = re.findall(r"^\.TP\n([a-z_.]+)$", sections["RUN FILE KEYS"], re.MULTILINE)
        table = (ROOT / "docs/run-file.md").read_text(encoding="utf-8")
        self.assertEqual(sorted(keys), sorted(re.findall(r"^\| `([a-z_]+(?:\.[a-z_]+)+)` \|", table, re.MULTILINE)))
        self.assertIn("attention.causal\ntrue | false; true: a row sees itself and rows before it (default: true)",
                      sections["RUN FILE KEYS"])
        statuses = re.findall(r"^\.TP\n(\d+)$", sections["EXIT STATUS"], re.MULTILINE)
        self.assertEqual(statuses, re.findall(r"^\| (\d+) \|", table, re.MULTILINE))

    def test_nothing_in_it_means_something_else_to_man(self):
        macros = {"TH", "SH", "SS", "TP", "PP", "B", "BR", "br", "nf", "fi", "RS", "RE", "nh", "ad", '\\"'}
        for line in self.source.splitlines():
            found = re.match(r"\.(\S+)|'", line)
            self.assertTrue(not found or found[1] in macros, line)
            rest = re.sub(r"\\(?:f[BIR]|[-e\"&]|\((?:aq|ga|ha|ti))", "", line)
            self.assertNotRegex(rest, r"[\\`~^]|[^ -~]", line)
        for opened, closed in (("nf", "fi"), ("RS", "RE")):
            found = re.findall(rf"^\.({opened}|{closed})$", self.source, re.MULTILINE)
            self.assertEqual(found, [opened, closed] * len(told.verbs))

    def test_groff_prints_it_without_a_warning(self):
        if GROFF is None:  # all that can be said without it is said above
            return
        done = subprocess.run([GROFF, "-man", "-ww", "-Tascii", "-P-cbou"], input=self.source, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, check=True)
        self.assertEqual(done.stderr, "")
        for verb, options in told.verbs.items():
            for option in options:
                self.assertIn(option, done.stdout)
        self.assertIn("'attention.segments=[128, all]'", done.stdout)


class Bash(unittest.TestCase):
    SCRIPT = """
        source "$1"
        COMP_WORDBREAKS=$2
        shift 2
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        "$(complete -p annulus | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" annulus "${@: -1}" "${@: -2:1}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        folder = Path(cls.scratch.name)
        (folder / "completion").write_text(output(PROGRAM, "--completion", "bash"), encoding="utf-8")
        (folder / "my runs.d").mkdir()
        for name in ("a.yaml", "b.yml", "c.h5", "d.txt"):
            (folder / name).touch()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def complete(self, *words, breaks=" \t\n\"'><=;|&(:"):
        """What is offered for the last word, when the words before it stand behind `annulus`."""
        found = output("bash", "-u", "-c", self.SCRIPT, "bash", "./completion", breaks, "annulus", *words,
                       cwd=self.scratch.name)
        return sorted(found.split("\n")[:-1]) if found.strip() else []

    def test_verbs(self):
        self.assertEqual(self.complete(""), sorted([*told.verbs, "--help", "--version"]))
        self.assertEqual(self.complete("ve"), ["verify"])

    def test_options_of_every_verb(self):
        for verb, options in told.verbs.items():
            self.assertEqual(self.complete(verb, "--"), sorted(options), verb)
        self.assertEqual(self.complete("run", "--dry"), ["--dry-run"])

    def test_an_option_is_offered_once_unless_it_is_repeated(self):
        offered = self.complete("run", "--set", "compute.backward", "=", "true", "--dry-run", "a.yaml", "--")
        self.assertEqual(offered, ["--help", "--rank", "--ranks", "--restart", "--set"])

    def test_run_files(self):
        self.assertEqual(self.complete("run", ""), ["a.yaml", "b.yml", "my runs.d"])
        self.assertEqual(self.complete("run", "--dry-run", "a"), ["a.yaml"])
        self.assertEqual(self.complete("plan", "--calibrate", "b"), ["b.yml"])
        self.assertEqual(self.complete("generate", "--output", ""), ["c.h5", "my runs.d"])
        self.assertEqual(self.complete("list", ""), ["--help"])

    def test_values(self):
        types = ["bfloat16", "float16", "float32", "float64"]
        self.assertEqual(self.complete("generate", "--dtype", ""), types)
        self.assertEqual(self.complete("generate", "--dtype", "=", "b"), types[:1])
        self.assertEqual(self.complete("verify", "--rows", ""), [])  # any number

    def test_settings(self):
        self.assertEqual(self.complete("run", "--set", "attention.c"), ["attention.causal="])
        self.assertEqual(self.complete("run", "--set", "=", "attention.c"), ["attention.causal="])
        for words in (["attention.causal", "="], ["attention.causal", "=", ""], ["=", "attention.causal", "=", ""]):
            self.assertEqual(self.complete("run", "--set", *words), ["false", "true"], words)
        self.assertEqual(self.complete("run", "--set", "input.axes", "=", ""), ["bhsd", "bshd"])
        self.assertEqual(self.complete("run", "--set", "distribution.strategy", "=", "ring_"),
                         ["ring_bidirectional", "ring_blocking"])
        self.assertEqual(self.complete("run", "--set", "compute.precision", "=", ""),
                         ["3xtf32", "auto", "bfloat16", "float32", "float64", "tf32"])
        self.assertEqual(self.complete("run", "--set", "input.file", "=", ""), [])

    def test_words_that_are_not_cut(self):
        self.assertEqual(self.complete("run", "--set", "attention.causal=t", breaks=" "), ["attention.causal=true"])
        self.assertEqual(self.complete("run", "--set=attention.causal=t", breaks=" "), ["--set=attention.causal=true"])
        self.assertEqual(self.complete("generate", "--dtype=b", breaks=" "), ["--dtype=bfloat16"])


class Zsh(unittest.TestCase):
    def setUp(self):
        self.source = output(PROGRAM, "--completion", "zsh")

    def test_every_verb_and_option_is_there(self):
        self.assertTrue(self.source.startswith("#compdef annulus\n"))
        for verb, options in told.verbs.items():
            part = re.search(rf"^        {verb}\)\n(.*?)^          ;;$", self.source, re.MULTILINE | re.DOTALL)[1]
            found = re.findall(r"^ +'(?:\([^)]*\))?\*?(?:'\{-h,)?(--[a-z-]+)", part, re.MULTILINE)
            self.assertEqual(sorted(found), sorted(options), verb)
            self.assertIn(f"\n        '{verb}:", self.source)

    def test_quotes_are_closed(self):
        for line in self.source.splitlines():
            if not line.startswith("#"):
                self.assertEqual(re.sub(r"'\\''", "", line).count("'") % 2, 0, line)

    def test_zsh_reads_it(self):
        if ZSH is not None:  # else the quotes are all that is looked at
            output(ZSH, "-f", "-n", "/dev/stdin", input=self.source)


class Words(unittest.TestCase):
    def test_others_are_refused(self):
        for words in (["--completion"], ["--completion", "fish"], ["--manual", "x"], ["--completion", "bash", "x"]):
            done = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, b""), words)
            self.assertIn(b"annulus: error: expected --manual, --completion bash or --completion zsh", done.stderr)

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PROGRAM, "--manual"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output: writing failed", done.stderr)


def given(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


PROGRAM, GROFF, ZSH = sys.argv[1], given("--groff"), given("--zsh")
ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

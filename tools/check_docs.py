#!/usr/bin/env python3
"""Proves that README.md and docs/ are right where a program can check: links, keys, columns, quotes, names, counts.

    check_docs.py [ROOT] [--program PATH]   check the pages (of this repository); a line per finding, exit 1 if any.
                                            With a program: also check that tables name its strategies and verbs, and
                                            that commands use options that it has
    check_docs.py --self-test               show on small made-up pages that every rule fires, and that good ones pass
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import count_additions

MAX_COLUMNS = 120
MAX_README_LINES = 150
MAX_PICTURE_BYTES = 120_000
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# <!-- PATH --> in front of a fenced block: the block is quoted from that file.
QUOTE = re.compile(r"^<!-- (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)|<img src="([^"]+)"')  # a link, or a picture
OUR_PATH = re.compile(r"`(?:\./)?((?:src|tests|tools|input|docs|examples|job_scripts)/[\w./-]+)`")

# `annulus VERB ...`, inline or on a line of a block, up to a comment. In tables | is escaped.
COMMAND = re.compile(r"(?:`|^(?:[^\n#`]* )?)annulus ([a-z]+)((?: [^`\n#]*)?)", re.MULTILINE)


def blank(match):
    """As many empty lines as the match has, so that later lines keep their numbers."""
    return "\n" * match[0].count("\n")


def anchor(heading):
    """What a heading is called in a link."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(text):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", FENCE.sub(blank, text), re.MULTILINE)}


def table_keys(text):
    """{key: default or None} of the tables of a page that have rows | `section.key` | `default` | meaning |."""
    rows = re.findall(r"^\| `([a-z_]+(?:\.[a-z_]+)+)` \| *(?:`([^`]*)`)? *\|", text, re.MULTILINE)
    return {key: default or None for key, default in rows}


def reference_keys(text):
    """{key: value} of input/reference.yaml, keys in comments included. Those exclude other keys, or make another
    kind of run."""
    keys, path = {}, []
    for line in text.splitlines():
        line = re.sub(r"^(?:# (?=(?:layer|train|bench):|  [a-z_]+: )|(  )# (?=generate:|  [a-z_]+:))", r"\1", line)
        entry = re.match(r"^( *)([a-z_]+):(?: +([^#]*?))? *(?:#.*)?$", line)
        if entry:
            del path[len(entry[1]) // 2 :]
            path.append(entry[2])
            if entry[3]:
                keys[".".join(path)] = entry[3]
    return keys


def first_column(text, heading):
    """First words in `code` of the rows of the table below a heading, in order."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| `([\w]+)", section[1], re.MULTILINE) if section else []


class Checker:
    def __init__(self, root):
        self.root = Path(root)
        self.findings = []

    def complain(self, page, where, message):
        line = where if isinstance(where, int) else page.read_text(encoding="utf-8").count("\n", 0, where.start()) + 1
        self.findings.append(f"{page.relative_to(self.root)}:{line}: {message}")

    def pages(self):
        top = [self.root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
        return [page for page in [*top, *sorted(self.root.glob("docs/*.md")), self.root / "input/README.md",
                                  self.root / "tools/peers/README.md"] if page.is_file()]

    def check(self):
        for page in self.pages():
            text = page.read_text(encoding="utf-8")
            for number, line in enumerate(text.splitlines(), 1):
                if len(line) > MAX_COLUMNS:
                    self.complain(page, number, f"{len(line)} columns, expected at most {MAX_COLUMNS}")
            self.check_links(page, FENCE.sub(blank, text))
            self.check_quotes(page, text)
        self.check_readme()
        self.check_pictures()
        self.check_keys()
        self.check_additions()
        return self.findings

    def check_links(self, page, text):
        for link in LINK.finditer(text):
            to = link[1] or link[2]
            if re.match(r"https?:", to):
                continue
            name, _, part = to.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                self.complain(page, link, f"{to}: there is no such file")
            elif part and part not in anchors(target.read_text(encoding="utf-8")):
                self.complain(page, link, f"{to}: there is no such heading")
        for named in OUR_PATH.finditer(text):
            if not (self.root / named[1]).exists():
                self.complain(page, named, f"{named[1]}: there is no such file")

    def check_quotes(self, page, text):
        for quote in QUOTE.finditer(text):
            source = self.root / quote[1]
            if not source.is_file():
                self.complain(page, quote, f"quotes {quote[1]}, which is no file")
                continue
            quoted, original = quote[2], source.read_text(encoding="utf-8")
            if source.suffix == ".yaml":  # comments may differ
                quoted, original = (re.sub(r"^ *#.*\n| *#.*", "", text, flags=re.MULTILINE) for text in (quoted, original))
            if quoted not in original:
                lines = set(original.splitlines())
                other = next((line for line in quoted.splitlines() if line not in lines), "the order of its lines")
                self.complain(page, quote, f"is not what stands in {quote[1]}: {other.strip()}")

    def check_readme(self):
        readme = self.root / "README.md"
        text = readme.read_text(encoding="utf-8")
        if text.count("\n") > MAX_README_LINES:
            self.complain(readme, MAX_README_LINES, f"longer than {MAX_README_LINES} lines: docs/ has room")
        for page in sorted(self.root.glob("docs/*.md")):
            if f"(docs/{page.name}" not in text:
                self.complain(page, 1, "README.md has no link to this page")
        rooms = re.search(r"^## Rooms\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        for room in sorted(self.root.glob("src/annulus/*")) if rooms else []:
            if room.is_dir() and not re.search(rf"^[ +>-]*{room.name}  ", rooms[1], re.MULTILINE):
                self.complain(readme, rooms, f"the map of rooms lacks {room.name}")

    def check_pictures(self):
        shown = "\n".join(page.read_text(encoding="utf-8") for page in self.pages())
        for picture in sorted(self.root.glob("docs/pictures/*")):
            if f"pictures/{picture.name}" not in shown:
                self.complain(picture, 1, "no page shows this picture")
            if picture.stat().st_size > MAX_PICTURE_BYTES:
                self.complain(picture, 1, f"{picture.stat().st_size} bytes, expected at most {MAX_PICTURE_BYTES}")

    def check_keys(self):
        page, reference = self.root / "docs/run-file.md", self.root / "input/reference.yaml"
        if not page.is_file():
            return
        documented = table_keys(page.read_text(encoding="utf-8"))
        keys = reference_keys(reference.read_text(encoding="utf-8"))
        for key in sorted(keys.keys() - documented.keys()):
            self.complain(page, 1, f"has no row for {key}, which is in input/reference.yaml")
        for key in sorted(documented.keys() - keys.keys()):
            self.complain(page, 1, f"{key} is not in input/reference.yaml")
        for key in sorted(documented.keys() & keys.keys()):
            if documented[key] is not None and documented[key] != keys[key]:
                self.complain(page, 1, f"{key} has the default {documented[key]}, in input/reference.yaml {keys[key]}")

    def check_additions(self):
        """Checks that the table of docs/contributing.md has a row with the true count for each kind of addition."""
        page = self.root / "docs/contributing.md"
        if not page.is_file():
            return
        rows = list(count_additions.ROW.finditer(page.read_text(encoding="utf-8")))
        for kind in count_additions.KINDS.keys() - {row["kind"] for row in rows}:
            self.complain(page, 1, f"has no row for a new {kind}")
        for row in rows:
            files = count_additions.files_of(row["kind"], self.root) if row["kind"] in count_additions.KINDS else []
            if len(files) != int(row["count"]):
                self.complain(page, row, f"{row['kind']}: {row['count']} files; {len(files)} name {row['example']}: "
                              f"{', '.join(files)}. Run tools/count_additions.py --update")

    def check_program(self, strategies, verbs, helps):
        """Checks that the tables have the program's names, and that the program's help has the options of commands."""
        for name, heading, expected in (("README.md", "Strategies", strategies), ("README.md", "Verbs", verbs),
                                        ("docs/strategies.md", "Strategies", strategies)):
            page = self.root / name
            found = first_column(page.read_text(encoding="utf-8"), heading)
            if set(found) != set(expected):
                self.complain(page, 1, f"the table {heading} has {', '.join(found)}; the program has {', '.join(expected)}")
        for page in self.pages():
            for verb, rest, found in commands(page.read_text(encoding="utf-8")):
                for option in [] if verb in helps else [verb]:
                    self.complain(page, found, f"annulus {option}: there is no such verb")
                for option in re.findall(r"(?<!\S)\[?(--[a-z-]+)", rest):
                    if verb in helps and not re.search(rf"{option}\b(?!-)", helps[verb]):
                        self.complain(page, found, f"annulus {verb} has no option {option}")


def commands(text):
    """(verb, what follows, match) of commands in inline code and in blocks for a shell."""
    for block in re.finditer(r"^```sh\n(.*?)^```$|`annulus [^`]+`", text, re.MULTILINE | re.DOTALL):
        for found in COMMAND.finditer(block[0].replace("\\|", "|")):
            yield found[1], found[2], block


def output(program, *words):
    return subprocess.run([program, *words], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def listed(program):
    """Strategies and verbs of a built program, and {verb: help}."""
    strategies = re.search(r"^strategies .*\n((?:  .*\n)+)", output(program, "list"), re.MULTILINE)
    verbs = re.search(r"^Subcommands:\n((?:  .*\n)+)", output(program, "--help"), re.MULTILINE | re.IGNORECASE)
    if not strategies or not verbs:
        sys.exit(f"check_docs: {program} list, or --help, prints no table that this script knows")
    strategies, verbs = (re.findall(r"^  (\w+)", lines[1], re.MULTILINE) for lines in (strategies, verbs))
    return strategies, verbs, {verb: output(program, verb, "--help") for verb in verbs}


# ---- self-test: (what it shows, {path: text} on top of GOOD, piece of the one finding expected, or None) ----
GOOD = {
    "README.md": "# a\n[page](docs/run-file.md#the-keys), [here](#a), [web](https://example.org/x), `src/a.cpp`, `build/x`\n",
    "docs/run-file.md": "# r\n## The `keys`\n| key | default | meaning |\n|---|---|---|\n| `input.file` | | in |\n| `input.generate.seed` | `1` | s |\n"
                        "| `train.steps` | | n |\n| `compute.backward` | `false` | b |\n",
    "input/reference.yaml": "input:\n  file: a.h5   # path\n  # generate:   # instead\n  #   seed: 1   # number\n\ncompute:\n"
                            "  backward: false  # true | false\n\n# A section for training.\n# train:\n#   steps: 100  # n\n",
    "src/a.cpp": "int a;\nint b;\n",
}
KEYS = GOOD["docs/run-file.md"]
ROOMS = "## Rooms\n  a    what (-> c)\n   +-> b   c\n## More\n"
ADDED = {
    "README.md": GOOD["README.md"] + "[page](docs/contributing.md)\n",
    "docs/contributing.md": "".join(f"| {kind} | `{example}` | {int(kind == 'verb')} | a |\n"
                                    for kind, (example, *_) in count_additions.KINDS.items()),
    "src/annulus/b.cpp": "bench_verb()  // rotation()",
}
CASES = [
    ("good pages", {}, None),
    ("a quotation", {"input/README.md": "<!-- src/a.cpp -->\n```cpp\nint a;\nint b;\n```\n"}, None),
    ("YAML with other comments", {"input/README.md": "<!-- input/reference.yaml -->\n```yaml\ncompute:\n  backward: false   # b\n```\n"}, None),
    ("no link in code", {"input/README.md": "```\n[a](b.md)\n```\n"}, None),
    ("a missing file", {"input/README.md": "[a](b.md)\n"}, "b.md: there is no such file"),
    ("a missing heading", {"input/README.md": "[a](../README.md#b)\n"}, "#b: there is no such heading"),
    ("a picture", {"docs/pictures/a.png": "", "input/README.md": '<img src="../docs/pictures/a.png" width="9">\n'}, None),
    ("a picture that is not there", {"input/README.md": '<img src="a.png" width="9">\n'}, "a.png: there is no such file"),
    ("a picture that no page shows", {"docs/pictures/a.png": ""}, "no page shows"),
    ("a large picture", {"docs/pictures/a.png": "x" * 120_001, "input/README.md": "![a](../docs/pictures/a.png)\n"}, "120001 bytes"),
    ("a missing path in the text", {"input/README.md": "`./tools/b`\n"}, "tools/b: there is no such file"),
    ("a long line", {"input/README.md": "x" * 121 + "\n"}, "121 columns"),
    ("a changed quotation", {"input/README.md": "<!-- src/a.cpp -->\n```cpp\nint a;\nint c;\n```\n"}, "README.md:1: is not what stands in src/a.cpp: int c;"),
    ("a quotation of nothing", {"input/README.md": "<!-- src/b.cpp -->\n```cpp\nint a;\n```\n"}, "no file"),
    ("a page to which no link leads", {"docs/b.md": "b\n"}, "no link to this page"),
    ("a long README", {"README.md": GOOD["README.md"] + "\n" * 150}, "longer than 150"),
    ("a key left out", {"docs/run-file.md": KEYS.replace("| `train.steps` | | n |\n", "")}, "no row for train.steps"),
    ("a key that does not exist", {"docs/run-file.md": KEYS + "| `input.b` | | b |\n"}, "input.b is not in"),
    ("files of an addition", ADDED, None),
    ("files that are not counted", {**ADDED, "src/annulus/c.hpp": "bench_verb()"}, "verb: 1 files; 2 name bench: b.cpp, c.hpp"),
    ("a kind without a row", {**ADDED, "docs/contributing.md": ADDED["docs/contributing.md"].replace("| key |", "| a |")},
     "no row for a new key"),
    ("a map of rooms", {"README.md": GOOD["README.md"] + ROOMS, "src/annulus/b/b.hpp": "", "src/annulus/a/a.hpp": ""}, None),
    ("a room that the map lacks", {"README.md": GOOD["README.md"] + ROOMS, "src/annulus/c/c.hpp": ""}, "the map of rooms lacks c"),
    ("another default", {"docs/run-file.md": KEYS.replace("`1`", "`2`")}, "input.generate.seed has the default 2"),
]
HELPS = {"run": "--set KEY=VALUE\n --rank P, --ranks N", "b": ""}
TABLES = "## Verbs\n| verb | does |\n|---|---|\n| `run FILE` | a |\n## Strategies\n| name | does |\n|---|---|\n| `ring` | a |\n## More\n| `b` |\n"


def tree(root, files):
    for name, text in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Checker(root)


def self_test():
    wrong = []
    for what, files, expected in CASES:
        with tempfile.TemporaryDirectory() as root:
            findings = tree(root, {**GOOD, **files}).check()
        if findings if expected is None else len(findings) != 1 or expected not in findings[0]:
            wrong.append(f"self-test '{what}': expected {expected or 'no finding'}, got {findings}")
    programs = (([["ring"], ["run"]], "", 0), ([["ring", "b"], ["run"]], "", 2), ([["ring"], ["run", "b"]], "", 1),
                ([["ring"], ["run"]], "`annulus run a.yaml --set b=c [--rank 1]`, annulus fly, `annulus.fly()`\n", 0),
                ([["ring"], ["run"]], "```sh\nmpirun -n 2 annulus run a.yaml --set b=c    # --fast\n```\n", 0),
                ([["ring"], ["run"]], "`annulus fly`\n", 1), ([["ring"], ["run"]], "`annulus run a.yaml --fast`\n", 1),
                ([["ring"], ["run"]], "```sh\nmpirun -n 2 annulus run a.yaml --se b=c\n```\n", 1))
    for (strategies, verbs), text, expected in programs:
        with tempfile.TemporaryDirectory() as root:
            checker = tree(root, {"README.md": TABLES, "docs/strategies.md": TABLES, "docs/b.md": text})
            checker.check_program(strategies, verbs, HELPS)
        if len(checker.findings) != expected:
            wrong.append(f"self-test of tables: expected {expected} findings, got {checker.findings}")
    with tempfile.TemporaryDirectory() as root:
        checker = tree(root, {**GOOD, **ADDED, "src/annulus/c.hpp": "bench_verb()"})
        page = Path(root, "docs/contributing.md")
        page.write_text(count_additions.updated(page.read_text(encoding="utf-8"), root), encoding="utf-8")
        if checker.check():
            wrong.append(f"self-test of count_additions --update: expected no finding, got {checker.findings}")
    print("\n".join([*wrong, f"check_docs self-test: {len(CASES) + len(programs) + 1} cases, {len(wrong)} wrong"]))
    return not wrong


def main(arguments):
    if arguments == ["--self-test"]:
        return 0 if self_test() else 1
    program = None
    if "--program" in arguments:
        at = arguments.index("--program")
        program = arguments[at + 1]
        del arguments[at : at + 2]
    checker = Checker(Path(arguments[0]).resolve() if arguments else Path(__file__).resolve().parent.parent)
    checker.check()
    if program:
        checker.check_program(*listed(program))
    print("\n".join(checker.findings) if checker.findings else "check_docs: every page holds")
    return 1 if checker.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

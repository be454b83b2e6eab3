#!/usr/bin/env python3
"""Lists the files of src/ that name one example of each kind of thing that can be added to annulus.

    count_additions.py             list the files, kind by kind
    count_additions.py --update    also write their numbers into the table of docs/contributing.md

Comments do not count. tools/check_docs.py, which is one of the tests, compares the page with the true numbers.
"""
import re
import sys
from pathlib import Path

from check_layout import blank

ROOT = Path(__file__).resolve().parent.parent
# Kind: (example, how sources name it, the example's own folder, whose files are not counted).
KINDS = {
    "strategy": ("rotation", r"\brotation\(\)", None),
    "semantics": ("paper", r"Semantics::paper\b|enum class \w*Semantics\b", None),
    "partition": ("zigzag", r"Kind::zigzag\b|^Partition zigzag_partition\(", None),
    "verb": ("bench", r"\bbench_verb\(\)", None),
    "key": ("train.save_every", r"\bsave_every\b", None),
    "result tensor": ("top_weights", r"\btop_weights\b", None),
    "back end": ("cudnn", r"(?i)\bcudnn", "kernels/cudnn"),
}
ROW = re.compile(r"^\| (?P<kind>[\w ]+) \| `(?P<example>[\w.]+)` \| (?P<count>\d+) \|", re.MULTILINE)


def files_of(kind, root=ROOT):
    """Paths below src/annulus of the files that name the example of `kind`."""
    _, named, own = KINDS[kind]
    base = Path(root, "src/annulus")
    return [path.relative_to(base).as_posix() for path in sorted(base.rglob("*.[ch]pp"))
            if not (own and path.is_relative_to(base / own))
            and re.search(named, blank(path.read_text(encoding="utf-8"), strings_too=False), re.MULTILINE)]


def updated(page, root=ROOT):
    """The text of a page, with the true numbers in its rows | kind | `example` | number |."""
    def row(found):
        count = len(files_of(found["kind"], root)) if found["kind"] in KINDS else found["count"]
        return f"| {found['kind']} | `{found['example']}` | {count} |"

    return ROW.sub(row, page)


def main(arguments):
    if arguments not in ([], ["--update"]):
        sys.exit(__doc__)
    for kind, (example, *_) in KINDS.items():
        files = files_of(kind)
        print(f"{kind}, such as {example}: {len(files)} files", *files, sep="\n  ")
    if arguments:
        page = ROOT / "docs/contributing.md"
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/env python3
"""./tools/test --full --stale names the parts whose files have changed; the page of results has a row for each part.

    test_full_suite.py REPOSITORY
"""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(REPOSITORY / "tools"))
import full_suite  # noqa: E402


class Clone(unittest.TestCase):
    """A small repository with the script, its page and two source files."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for name in ("tools/full_suite.py", "docs/full-suite.md"):
            (self.root / name).parent.mkdir()
            shutil.copy(REPOSITORY / name, self.root / name)
        self.page = self.root / "docs/full-suite.md"
        self.page.write_text(full_suite.with_table(self.page.read_text(encoding="utf-8"), {}), encoding="utf-8")
        self.write("src/annulus/store/a.cpp", "1")
        self.write("src/annulus/kernels/b.cpp", "1")
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def git(self, *words):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "a")

    def suite(self, *words):
        done = subprocess.run([sys.executable, "-B", self.root / "tools/full_suite.py", *words], check=True, text=True,
                              capture_output=True)
        return done.stdout.split()

    def test_without_results_all_is_stale(self):
        self.assertEqual(self.suite("stale"), sorted(full_suite.PARTS))

    def test_a_part_is_stale_when_its_files_have_changed(self):
        for part in full_suite.PARTS:
            self.suite("record", part, "61", "0")
        self.commit()
        self.assertEqual(self.suite("stale"), [])
        self.write("src/annulus/store/a.cpp", "2")
        self.commit()
        stale = self.suite("stale")
        self.assertIn("caches", stale)
        self.assertIn("asan-rooms", stale)
        self.assertNotIn("asan-kernels", stale)
        self.assertNotIn("soak", stale)
        self.write("tools/cmake/a.cmake", "")
        self.commit()
        self.assertEqual(self.suite("stale"), sorted(full_suite.PARTS))

    def test_a_failure_stays_stale(self):
        self.suite("record", "soak", "10", "0")
        self.suite("record", "tsan", "10", "1")
        self.assertEqual(set(full_suite.PARTS) - set(self.suite("stale")), {"soak"})
        rows = full_suite.results(self.page.read_text(encoding="utf-8"))
        self.assertEqual(sorted(rows), ["soak", "tsan"])
        self.assertRegex(rows["tsan"]["result"], r"^FAILED 20\d\d-\d\d-\d\d at [0-9a-f]{7,}, 1 min$")

    def test_changed_files_are_not_the_commit(self):
        self.write("src/annulus/store/a.cpp", "2")
        self.suite("record", "soak", "10", "0")
        self.assertIn("(files changed)", self.page.read_text(encoding="utf-8"))
        self.assertIn("soak", full_suite.results(self.page.read_text(encoding="utf-8")))

    def test_a_commit_that_is_not_here_is_stale(self):
        self.suite("record", "soak", "10", "0")
        text = self.page.read_text(encoding="utf-8")
        self.page.write_text(re.sub(r" at [0-9a-f]+", " at 1234567", text), encoding="utf-8")
        self.assertIn("soak", self.suite("stale"))


class Repository(unittest.TestCase):
    def test_the_page_has_a_row_for_each_part(self):
        text = (REPOSITORY / "docs/full-suite.md").read_text(encoding="utf-8")
        written = {part: row["result"] for part, row in full_suite.results(text).items()}
        self.assertEqual(full_suite.with_table(text, written), text)

    def test_tools_test_has_each_part(self):
        text = (REPOSITORY / "tools/full.sh").read_text(encoding="utf-8")
        cases = re.findall(r"^    ([\w*-]+)\)", text[text.index("run_part()"):], re.MULTILINE)
        for part in full_suite.PARTS:
            self.assertTrue(part in cases or part.split("-")[0] + "-*" in cases, part)
        groups = re.findall(r"^    (\w+)\) echo", text, re.MULTILINE)
        self.assertEqual(groups, list(full_suite.GROUPS))

    def test_the_folders_of_a_part_exist(self):
        for part, (names, _) in full_suite.PARTS.items():
            for name in [*names, *full_suite.BUILD]:
                self.assertTrue((REPOSITORY / name).exists(), f"{part}: {name}")


if __name__ == "__main__":
    unittest.main()

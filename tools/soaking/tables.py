"""What a run file may contain, read from `annulus list` and input/reference.yaml. So a new strategy, semantics or
choice needs no change here."""
import re
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[2] / "input/reference.yaml"
# Not drawn here: these need other keys, or are about machines and files.
NOT_ALONE = {"attention.semantics", "attention.causal", "attention.group_scale", "compute.backward", "compute.reproducible",
             "distribution.strategy", "distribution.partition", "input.axes", "output.overwrite", "distribution.machine",
             "distribution.transport", "compute.backend", "output.type", "layer.sharding"}


def listed(text, heading):
    """Names under a heading of `annulus list`."""
    names, inside = [], False
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = line.startswith(heading)
        elif inside and (found := re.match(r"  (\S+) ", line)):
            names.append(found[1])
    if not names:
        raise SystemExit(f"soak: `annulus list` shows nothing under {heading!r}")
    return names


def choices():
    """{key: [words]} of all keys whose comment lists words, "a | b | c"."""
    found, section = {}, ""
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if top := re.match(r"(?:# )?(\w+):$", line):
            section = top[1]
        entry = re.match(r"(?:# )? {2}(\w+): .*?  # ([\w\d]+(?: \| [\w\d]+)+)(?:[;:,(]|$| )", line)
        if entry and f"{section}.{entry[1]}" not in NOT_ALONE:
            found[f"{section}.{entry[1]}"] = entry[2].split(" | ")
    return found


class Tables:
    def __init__(self, list_text):
        self.reproducible = {}
        self.strategies = listed(list_text, "strategies")
        for word in ("true", "gradients"):  # what `compute.reproducible` allows, without and with gradients
            line = next(line for line in list_text.splitlines() if line.startswith(f"  {word} "))
            self.reproducible[word == "gradients"] = line.split(maxsplit=1)[1].split(", ")
        self.semantics = listed(list_text, "semantics")
        self.partitions = listed(list_text, "partitions")
        self.choices = choices()

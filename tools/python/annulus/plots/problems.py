"""Finds the problems of a table of cases, because pictures compare strategies and ranks on the same problem."""
import pandas as pd

from annulus import arguments
from annulus.errors import AnnulusError
from annulus.results.cases import COLUMNS

# Keys, or beginnings of keys, that say how a problem is computed. Cases that differ only in them have the same problem.
HOW = ("distribution.", "ranks", "threads", "compute.reproducible")
_cases = arguments.instance("pandas", "DataFrame", "a table, which annulus.cases() makes")


def of_cases(value, name):
    """A kind of argument: a table of cases with the columns that pictures need, of numbers where necessary."""
    table = _cases(value, name)
    for column, unit in (COLUMNS | {"file": "word"}).items():
        if column not in table or (unit != "word" and not pd.api.types.is_numeric_dtype(table[column])):
            of_numbers = "" if unit == "word" else " of numbers"
            raise AnnulusError(f"{name} has no column {column}{of_numbers}; expected a table of annulus.cases()")
    return table


def problems(table):
    """[(name, its cases)], from few rows to many. A name has the number of rows, and the keys in which problems differ.

    A problem is a number of rows, and a value of each key in which the cases differ, except the keys in HOW:
    {input.generate.sequence: [4096, 8192], attention.causal: [true, false]} are four problems,
    "4,096 rows, causal true", "4,096 rows, causal false", ...
    """
    varied = varied_keys(table)
    found = []
    shown = [table[key].map(_plain) for key in varied]  # a number in a sweep may be a text in a result
    for _, cases in table.groupby([table["sequence"], *shown], dropna=False, sort=False):
        words = [rows_text(cases), *(f"{key.rpartition('.')[2]} {_plain(cases[key].iloc[0])}" for key in varied)]
        found.append((", ".join(words), cases))
    return sorted(found, key=lambda problem: problem[1]["sequence"].max())


def varied_keys(table):
    """Keys of the run file that have several values; without the rows and the keys in HOW. A missing value does not
    count as another value."""
    return [name for name in table if "." in name and name != "input.generate.sequence"
            and not name.startswith(HOW) and table[name].dropna().map(_plain).nunique() > 1]


def _plain(value):
    if str(value) in ("True", "False"):
        return str(value).lower()
    if isinstance(value, float):  # a column of whole numbers has floats if some are not known
        return "not known" if value != value else f"{value:g}" if value % 1 else f"{value:.0f}"
    return str(value)


def rows_text(table):
    """"4,096 rows"; for several numbers "1,024 to 4,096 rows"."""
    rows = table["sequence"].dropna()
    if rows.empty:
        return "rows not known"
    low, high = int(rows.min()), int(rows.max())
    return f"{low:,} rows" if low == high else f"{low:,} to {high:,} rows"


def ranks_text(count):
    return f"{count:.0f} ranks" if count != 1 else "1 rank"


def case_names(table):
    """Names of the cases for their bars: the strategy, and ranks, rows and keys if these are not the same for all.

    If two names are still the same, the file or the number of the case is added to all.
    """
    several_ranks, several_rows = table["ranks"].nunique() > 1, table["sequence"].nunique() > 1
    varied = varied_keys(table)
    names = []
    for _, row in table.iterrows():
        words = [row["strategy"] or "auto"]
        if several_ranks and row["ranks"] == row["ranks"]:
            words.append(ranks_text(row["ranks"]))
        if several_rows and row["sequence"] == row["sequence"]:
            words.append(f"{row['sequence']:,.0f} rows")
        words += [f"{key.rpartition('.')[2]} {_plain(row[key])}" for key in varied]
        names.append(", ".join(words))
    if len(set(names)) == len(names):
        return names
    by_file = table["file"].nunique() == len(table)
    return [f"{name} ({file if by_file else f'case {number}'})"
            for name, file, number in zip(names, table["file"], table.get("number", table.index))]

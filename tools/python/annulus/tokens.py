"""token_page: the rows of a result as text; each token is shaded by the attention that it receives."""
import html
import json
from pathlib import Path

import numpy as np

from annulus import arguments, pages
from annulus.axes import row_axis
from annulus.errors import AnnulusError, one_line
from annulus.plots import style
from annulus.results.dataset import about, open_result, rows_of
from annulus.results.statistics import listed, of_rows

TOKENS_MOST = 20_000  # on one page
RECEIVED, LOOKED_AT = style.COLOURS["sky"], style.COLOURS["orange"]  # black letters are legible on both
VISIBLE = {"\n": "↵\n", "\t": "→\t"}


_words = arguments.listed(arguments.text(), "a list of texts, or a file of them")


@arguments.checked(
    result_file=arguments.path, tokens=arguments.either(arguments.path, arguments.is_path, _words),
    page_file=arguments.path, query=arguments.index, head=arguments.index, batch=arguments.whole(),
    rows=arguments.optional(arguments.listed(arguments.whole(), "the first row, and the last + 1", lengths=(2,))),
    overwrite=arguments.flag)
def token_page(result_file, tokens, page_file, *, query=None, head=None, batch=0, rows=None, overwrite=False):
    """Writes one self-contained HTML page with the tokens; the more attention a token receives from all queries,
    the darker it is. With `query`, a row, the page also shows the tokens that this row looks at most.

    tokens  strings, one for each row; or a file with them: .json (a list), or text with one token per line
    head    one query head; without it the mean over all heads
    batch   batch entry, counted from 0
    rows    (begin, end) to show; without it all rows, or the first 20,000 of a long text

    Raises AnnulusError if the result lacks a statistic, or if there is not exactly one token for each row.
    """
    pages.check_name(page_file, overwrite)
    words = read_tokens(tokens) if arguments.is_path(tokens) else tokens
    with open_result(result_file) as result, about(result_file):
        text = _page(result, str(result_file), words, query, head, batch, rows)
    pages.write(text, page_file, overwrite)


def read_tokens(path):
    """Reads tokens from a file: a list in .json, otherwise one per line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if not str(path).lower().endswith(".json"):
            return text.removesuffix("\n").split("\n")
        words = json.loads(text)
    except OSError as problem:
        raise AnnulusError(f"{path}: {problem.strerror}; expected a file of tokens") from None
    except ValueError as problem:  # not JSON, or not UTF-8
        raise AnnulusError(f"{path}: is no list of tokens ({one_line(problem)}); expected UTF-8, a JSON list of strings or a "
                           "token in every line") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise AnnulusError(f"{path}: is no list of tokens; expected a JSON list of strings")
    return words


def _page(result, path, words, query, head, batch, rows):
    received = of_rows(result, "received", batch, head) if "received" in result or query is None else None
    found = listed(result, query, batch, head) if query is not None else None
    count = rows_of(result)
    if len(words) != count:
        raise AnnulusError(f"{len(words)} tokens for {count} rows; expected a token for each")
    shown = _shown(rows, count)
    hints = list(_hints(result, shown, received, batch, head))
    whose = f"head {head}" if head is not None else f"mean over {result.sizes['head']} heads"
    own = found is not None and row_axis(result["top_rows"].dims) == "query"  # a query is then no token
    who, marked = (f"query {query}", None) if own else (f"row {query}", query)
    sections = []
    if received is not None:
        most = style.most_of(received)
        sections.append(("How much a token is looked at", _legend(most, RECEIVED, "sum of the weights that queries give it")
                         + _strip(words, shown, np.clip(received / most, 0, 1), RECEIVED, hints, marked)))
    if found is not None:
        most = style.most_of(found.weights) if found.weights.size else 1.0
        shades = np.zeros(count)
        shades[found.rows] = np.clip(found.weights / most, 0, 1)
        sections.append((f"What {who} looks at most", _legend(most, LOOKED_AT, "weight")
                         + _strip(words, shown, shades, LOOKED_AT, hints, marked) + _listing(words, found, head)))
    part = "" if len(shown) == count else f" · rows {shown[0]:,} to {shown[-1]:,} of {count:,}"
    return pages.page(f"annulus: {path}", f"{whose} · batch entry {batch}{part}", sections)


def _shown(rows, count):
    if rows is None:
        return range(min(count, TOKENS_MOST))
    begin, end = rows
    if not 0 <= begin < end <= count or end - begin > TOKENS_MOST:
        raise AnnulusError(f"rows {begin} to {end - 1}: expected up to {TOKENS_MOST:,} of 0 to {count - 1}")
    return range(begin, end)


def _hints(result, shown, received, batch, head):
    """What a browser shows when the pointer is over a token: "row 6: received 2.1, entropy 1.3 nats"."""
    of_tokens = "entropy" in result and row_axis(result["entropy"].dims) == "sequence"  # queries are then tokens
    entropy = of_rows(result, "entropy", batch, head) if of_tokens else None
    for row in shown:
        found = [f"received {received[row]:.4g}"] if received is not None else []
        found += [f"entropy {entropy[row]:.4g} nats"] if entropy is not None else []
        yield f"row {row}: {', '.join(found)}" if found else f"row {row}"


def _strip(words, shown, shades, colour, hints, query):
    spans = [f'<span{" class=query" if row == query else ""} style="background:{_shade(shades[row], colour)}" '
             f'title="{html.escape(hint)}">{_text(words[row])}</span>' for row, hint in zip(shown, hints)]
    return f'<p class="tokens">{"".join(spans)}</p>\n'


def _text(word):
    """A token as a browser can show it: without markup; characters that are not printable are replaced."""
    visible = "".join(VISIBLE.get(letter, letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}")
                      for letter in word)
    return html.escape(visible) or "\N{EMPTY SET}"


def _shade(share, colour):
    """A colour between white (0) and the given colour (1): "#RRGGBB"."""
    parts = [int(colour[i:i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 + float(share) * (part - 255)):02X}" for part in parts)


def _legend(most, colour, what):
    steps = "".join(f'<span class="shade" style="background:{_shade(share, colour)}">{share * most:.3g}</span>'
                    for share in (0, 0.25, 0.5, 0.75, 1))
    return f'<p class="note">{html.escape(what)}: {steps} and more</p>\n'


def _listing(words, found, head):
    rows = [(row, _plain(words[row]), f"{weight:.4g}") for row, weight in zip(found.rows, found.weights)]
    at_least = "" if head is not None else "at least "
    return (pages.table(("row", "token", "weight"), rows, 2)
            + f'<p class="note">Together {at_least}{found.weights.sum():.4g} of the row\'s attention.</p>')


def _plain(word):
    """A token for pages.table(), which escapes markup."""
    return repr(word)[1:-1]

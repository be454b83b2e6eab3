"""What all HTML pages share: they load nothing from elsewhere, and texts from files cannot become markup."""
import html
import string

from annulus import __version__, files
from annulus.errors import AnnulusError

_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
  th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
  td.number, th.number { text-align: right; } .wide { overflow-x: auto; }
  img { max-width: 100%; height: auto; } pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; }
  .tokens { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.9; }
  .tokens span, .shade { padding: .12em 0; border-radius: 2px; } .shade { padding: .12em .6em; }
  .query { outline: 2px solid #D55E00; }
  figcaption, .note { color: #555; } figure { margin: 1rem 0; }
</style>
</head>
<body>
<h1>$title</h1>
<p class="note">$subtitle</p>
$body
</body>
</html>
""")


def check_name(page_file, overwrite):
    """Raises AnnulusError if the name does not end in .html or .htm, or if the file exists and `overwrite` is false."""
    if not str(page_file).lower().endswith((".html", ".htm")):
        raise AnnulusError(f"{page_file}: expected the name of a page, ending in .html")
    if not overwrite:
        files.refuse_existing(page_file)


def page(title, subtitle, sections):
    """An HTML page with a title, a line below it, and [(heading, HTML)]; sections without HTML are left out."""
    body = "\n".join(f"<h2>{html.escape(heading)}</h2>\n{text}" for heading, text in sections if text)
    made_by = f'\n<p class="note">Made by annulus-tools {__version__}.</p>'
    return _PAGE.substitute(title=html.escape(title), subtitle=html.escape(subtitle), body=body + made_by)


def write(text, page_file, overwrite):
    """Writes a page: complete or not at all."""
    with files.new_path(page_file, overwrite) as aside:
        aside.write_text(text, encoding="utf-8")


def table(head, rows, numbers_from=99):
    """An HTML table; cells from column `numbers_from` on are numbers."""
    def cells(row, tag):
        return "".join(f"<{tag}{' class=number' if i >= numbers_from else ''}>{html.escape(str(cell))}</{tag}>"
                       for i, cell in enumerate(row))
    lines = [f"<tr>{cells(head, 'th')}</tr>"] if any(head) else []
    lines += [f"<tr>{cells(row, 'td')}</tr>" for row in rows]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"

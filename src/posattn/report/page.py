"""One self-contained HTML page: opens offline, reads well on a phone and prints well."""

import base64
from html import escape

from posattn.studies.core import table
from posattn.studies.core.results import Results

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
code { background: var(--soft); padding: .1rem .3rem; border-radius: .25rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }
figcaption, .notes { font-size: .88rem; opacity: .85; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }
thead th { position: sticky; top: 0; background: Canvas; }
@media print { body { max-width: none; font-size: 10pt; } .wide { overflow: visible; } h2 { break-after: avoid; } }
"""


def _figure(caption: str, png: bytes) -> str:
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    text = escape(caption)
    return f'<figure><img alt="{text}" src="{source}"><figcaption>{text}</figcaption></figure>'


def page(results: Results, curves: tuple[str, bytes], learned: list[tuple[str, bytes]]) -> str:
    """The report of a study. Pictures are (caption, PNG): its curves, and what the models have learned."""
    study = results.study
    maps = "\n".join(_figure(*picture) for picture in learned)
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header(results))
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.cells(results)
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.footnotes(results))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(study.name)} · posattn</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(study.question)}</h1>
<p>Study <code>{escape(study.name)}</code>, preset <code>{escape(results.preset)}</code>. {escape(study.paper)}:
{escape(study.answers)}.</p>
{_figure(*curves)}
<h2>Every figure</h2>
<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></div>
<ul class="notes">{notes}</ul>
{"<h2>What was learned</h2>" if maps else ""}
{maps}
<p class="notes">Made by posattn {escape(", ".join(results.versions))} from the results in the store alone. Published
figures are the authors'.</p>
</body>
</html>
"""

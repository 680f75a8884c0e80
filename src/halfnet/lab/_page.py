"""The report as one HTML page that needs nothing else: no network and no other file.

Its style sheet and its script are page/report.css and page/report.js, which are put into it.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from halfnet.lab import _charts, _figures, _series, _tables, _wording
from halfnet.lab._series import Spectrum
from halfnet.lab._tables import AGREES, VERDICTS, Comparison, Line, Summary

_TITLE = "The paper beside what was measured"
_SPECTRA, _TRAINING = "Spectra of the first layer", "How the networks were trained"
_SPECTRA_ID, _TRAINING_ID = "the-spectra", "the-training"  # no table's, which has no "the-" first
_OWN = "own"
_KINDS = {
    **{verdict.replace(" ", "-"): verdict for verdict in VERDICTS},
    _OWN: "not in the paper",
}
"""The classes of rows, and what they say."""


def render(comparisons: Sequence[Comparison], preset: str) -> str:
    """Return the page."""
    summary, spectra = _tables.summarize(comparisons), _series.spectra(comparisons)
    style, script = _asset("report.css"), _asset("report.js")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_TITLE}: preset {escape(preset)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#contents">Skip to the tables</a>
<header>
<p class="eyebrow">halfnet report · preset {escape(preset)}</p>
<h1>{_TITLE}</h1>
<p class="lead">{escape(_wording.headline(summary))}</p>
<p>{escape(_wording.VERDICTS_MEAN)}</p>
<button id="theme" type="button" hidden></button>
</header>
{_contents(comparisons, bool(spectra))}
<main>
{"".join(map(_section, comparisons))}
{_spectra(spectra) if spectra else ""}
{_training(summary, preset)}
</main>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("halfnet.lab").joinpath("page", name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """Return a policy that allows this style sheet, this script, and nothing from a network."""
    return (
        f"default-src 'none'; style-src '{_sha256(style)}'; script-src '{_sha256(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _kind(line: Line) -> str:
    """Return the class of a row."""
    return (line.verdict or _OWN).replace(" ", "-")


# --- Contents --------------------------------------------------------------------------------


def _contents(comparisons: Sequence[Comparison], spectra: bool) -> str:
    """Return the list of the tables, each with a mark for each of its rows."""
    items = [
        f'<li><a href="#{_figures.name_of(comparison)}">{escape(_wording.title(comparison))}</a>'
        f'<span class="tally">{_tally(comparison)}</span>{_strip(comparison)}</li>'
        for comparison in comparisons
    ]
    if spectra:
        items.append(f'<li><a href="#{_SPECTRA_ID}">{_SPECTRA}</a></li>')
    items.append(f'<li><a href="#{_TRAINING_ID}">{_TRAINING}</a></li>')
    shown = {_kind(line) for comparison in comparisons for line in comparison.lines}
    keys = "".join(
        f'<li><i class="dot {kind}"></i>{meaning}</li>'
        for kind, meaning in _KINDS.items()
        if kind in shown
    )
    return (
        '<nav id="contents" aria-labelledby="contents-title" tabindex="-1">'
        f'<h2 id="contents-title">Contents</h2><ul class="contents">{"".join(items)}</ul>'
        f'<ul class="legend" aria-label="What the marks mean">{keys}</ul></nav>'
    )


def _tally(comparison: Comparison) -> str:
    lines = [line for line in comparison.lines if line.paper]
    agreeing = sum(line.verdict == AGREES for line in lines)
    return f"{agreeing} of {len(lines)} agree" if lines else _KINDS[_OWN]


def _strip(comparison: Comparison) -> str:
    marks = "".join(
        f'<i class="dot {_kind(line)}" {_row_of(comparison, line)} {_tip(line)}></i>'
        for line in comparison.lines
    )
    return f'<span class="strip" aria-hidden="true">{marks}</span>'


def _row_of(comparison: Comparison, line: Line) -> str:
    return f'data-row="{escape(_charts.identity(comparison, line))}"'


def _tip(line: Line) -> str:
    return f'data-tip="{escape(_wording.summary_of(line))}"'


# --- A table ---------------------------------------------------------------------------------


def _section(comparison: Comparison) -> str:
    key = _figures.name_of(comparison)
    return (
        f'<section id="{key}" aria-labelledby="{key}-title">'
        f"{_heading(f'{key}-title', _wording.title(comparison))}"
        f"{_figure(comparison)}{_table(comparison, key)}{_notes(comparison, key)}"
        f"{_curves(comparison)}</section>"
    )


def _heading(identity: str, title: str) -> str:
    return (
        f'<div class="heading"><h2 id="{identity}">{escape(title)}</h2>'
        '<a href="#contents">Contents</a></div>'
    )


def _figure(comparison: Comparison) -> str:
    """Return test accuracy against parameters."""
    shown = {_series.family(line) for line in comparison.lines if line.result}
    keys = [(kind, name) for kind, name in _series.FAMILIES.items() if kind in shown]
    if any(line.paper for line in comparison.lines):
        keys.insert(0, ("paper", "the paper"))
    return (
        f'<figure class="accuracy"><figcaption>Test accuracy, %, with bars of one standard '
        f"deviation{_legend(keys)}</figcaption>{_charts.accuracy(comparison)}</figure>"
    )


def _legend(keys: Iterable[tuple[str, str]]) -> str:
    items = (f'<li><i class="key {kind}"></i>{escape(name)}</li>' for kind, name in keys)
    return f'<ul class="legend">{"".join(items)}</ul>'


_HEAD = """<thead>
<tr><th scope="col" rowspan="2" data-column="0">row</th>
<th scope="col" rowspan="2" data-column="1">parameters</th>
<th class="train" scope="colgroup" colspan="2">train accuracy</th>
<th scope="colgroup" colspan="2">test accuracy</th>
<th scope="col" rowspan="2" data-column="6">difference</th>
<th scope="col" rowspan="2" data-column="7">verdict</th></tr>
<tr><th scope="col" data-column="2">paper</th><th scope="col" data-column="3">measured</th>
<th scope="col" data-column="4">paper</th><th scope="col" data-column="5">measured</th></tr>
</thead>"""


def _table(comparison: Comparison, key: str) -> str:
    rows = "".join(
        f"<tr {_row_of(comparison, line)}>{_cells(line, numbers, key)}</tr>\n"
        for line, numbers, _ in _wording.numbered(comparison.lines)
    )
    name = escape(comparison.number or comparison.title)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Table {name}">'
        f'<table class="rows"><caption><span>Table {name}: accuracies in percent, mean ± standard '
        f"deviation over the seeds</span></caption>{_HEAD}<tbody>\n{rows}</tbody></table></div>"
    )


def _cells(line: Line, numbers: Iterable[int], key: str) -> str:
    marks = "".join(
        f'<sup><a href="#{key}-note-{number}" aria-label="note {number}">{number}</a></sup>'
        for number in numbers
    )
    train, test = (_wording.scores(line)[i : i + 2] for i in (0, 2))
    cells = [_number(text, kind="train") for text in train]
    cells += [_number(text) for text in (*test, _wording.difference(line))]
    # On a narrow screen the verdict's column is out of sight, and its mark stands here.
    beside = f'<i class="dot beside {_kind(line)}" aria-hidden="true"></i>'
    verdict = f'<i class="dot {_kind(line)}"></i>{line.verdict}' if line.verdict else "–"
    cells.insert(0, _number(_wording.params(line), " ("))
    return (
        f'<th scope="row">{escape(line.name)}{beside}{marks}</th>'
        f'{"".join(cells)}<td class="verdict {_kind(line)}">{verdict}</td>'
    )


def _number(text: str, aside: str = " ± ", kind: str = "") -> str:
    """Return a cell; what begins with `aside` is less important."""
    number, found, rest = text.partition(aside)
    rest = f'<span class="aside">{escape(found + rest)}</span>' if found else ""
    opening = f'<td class="{kind}">' if kind else "<td>"
    return f"{opening}{escape(number)}{rest}</td>"


def _notes(comparison: Comparison, key: str) -> str:
    items = [
        f'<li id="{key}-note-{number}"><b>{escape(line.name)}</b>: {escape(note)}</li>'
        for line, numbers, notes in _wording.numbered(comparison.lines)
        for number, note in zip(numbers, notes, strict=True)
    ]
    return f'<ol class="notes">{"".join(items)}</ol>' if items else ""


def _curves(comparison: Comparison) -> str:
    figures = [
        f"<figure {_row_of(comparison, line)}><figcaption>{escape(line.name)}</figcaption>"
        f"{chart}</figure>"
        for line, chart in _charts.curves(comparison)
    ]
    if not figures:
        return ""
    return (
        "<details><summary>Training curves</summary><p>Loss and accuracy (%) while training, mean "
        "over the seeds with bands of one standard deviation, on the same axes for every row.</p>"
        f'<div class="panels curves">{"".join(figures)}</div></details>'
    )


# --- What is not of one table ----------------------------------------------------------------


def _spectra(spectra: Sequence[Spectrum]) -> str:
    figures = "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>"
        for title, chart in _charts.spectrum(spectra)
    )
    keys = [(f"spectrum-{_charts.spectrum_index(item)}", item.name) for item in spectra]
    sentences = "".join(f"<li>{escape(item.sentence())}</li>" for item in spectra)
    return (
        f'<section id="{_SPECTRA_ID}" aria-labelledby="{_SPECTRA_ID}-title">'
        f"{_heading(f'{_SPECTRA_ID}-title', _SPECTRA)}{_legend(keys)}"
        f'<div class="panels spectra">{figures}</div><ul>{sentences}</ul></section>'
    )


def _training(summary: Summary, preset: str) -> str:
    """Return the recipes, a column for each so that they also fit on a phone, and versions."""
    (_, *settings), recipes = _wording.recipes(summary)
    head = "".join(f'<th scope="col">{escape(dataset)}</th>' for dataset, *_ in recipes)
    rows = "".join(
        f'<tr><th scope="row">{escape(setting)}</th>'
        f"{''.join(f'<td>{escape(recipe[i])}</td>' for recipe in recipes)}</tr>"
        for i, setting in enumerate(settings, 1)
    )
    versions = "".join(f"<li>{escape(version)}</li>" for version in summary.versions)
    return (
        f'<section id="{_TRAINING_ID}" aria-labelledby="{_TRAINING_ID}-title">'
        f"{_heading(f'{_TRAINING_ID}-title', _TRAINING)}<p>Preset {escape(preset)}, trained for "
        f"{_wording.duration(summary.seconds)} in all, with</p><ul>{versions}</ul>"
        '<div class="scroll" tabindex="0" role="group" aria-label="Recipes">'
        '<table class="recipes"><caption><span>The recipe of each data set</span></caption>'
        f'<thead><tr><th scope="col">data set</th>{head}</tr></thead><tbody>{rows}</tbody>'
        "</table></div></section>"
    )

"""The report: the comparison, how it is said, Markdown, figures, and `halfnet report`."""

import importlib
import json
import math
import re
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import lab_rows
import pytest
from PIL import Image
from report_results import SEEDS, everything, result, write

from halfnet import cli
from halfnet.exceptions import HalfnetError, HalfnetFileError
from halfnet.lab import (
    _charts,
    _figures,
    _layout,
    _markdown,
    _report,
    _series,
    _tables,
    _wording,
    specs,
)
from halfnet.lab._layout import Box
from halfnet.lab._tables import ABOVE, AGREES, BELOW, NOT_RUN, Line
from halfnet.lab.specs import Paper, Score

TABLES = specs.paper().tables
MNIST = TABLES[0]
SVG = "{http://www.w3.org/2000/svg}"


def mnist(name, **changes):
    return result(MNIST, MNIST.row(name), **changes)


def line_of(tests, printed=(92.0, 0.3), name="a", **changes):
    """Return a row with a test accuracy for each seed, and the paper's."""
    measured = replace(mnist("k=4"), test=tests, seeds=tuple(range(len(tests))))
    fields = {
        "name": name,
        "architecture": measured.architecture,
        "paper": Paper(params=measured.params, train=Score(93.0, 0.1), test=Score(*printed)),
        "result": measured,
    }
    return Line(**{**fields, **changes})


def compared(*results, **explanations):
    return _tables.compare(results, explanations)


def lines_by_name(comparison):
    return {line.name: line for line in comparison.lines}


@pytest.fixture(scope="module")
def everyone():
    return _tables.compare(everything(epochs=3))


@pytest.fixture
def results(tmp_path):
    """A folder with a few rows' results."""
    names = ("MLP h=64", "k=4", "k=8")
    return write([mnist(name, epochs=2) for name in names], tmp_path / "results")


# --- The comparison --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tests", "verdict", "difference"),
    [
        ((92.4, 92.4), AGREES, 0.4 / 0.3),
        ((92.6, 92.6), AGREES, 2.0),
        ((92.7, 92.7), ABOVE, 0.7 / 0.3),
        ((91.3, 91.3), BELOW, -0.7 / 0.3),
        ((92.1, 93.1), AGREES, 0.6 / math.hypot(0.3, math.sqrt(0.5))),
    ],
)
def test_a_verdict_is_of_combined_standard_deviations(tests, verdict, difference):
    line = line_of(tests)
    assert line.difference == pytest.approx(difference)
    assert line.verdict == verdict


def test_without_any_deviation_only_the_same_number_agrees():
    same = line_of((92.0,), printed=(92.0, 0.0))
    assert (same.difference, same.verdict) == (0.0, AGREES)
    assert line_of((92.5,), printed=(92.0, 0.0)).difference == math.inf
    assert line_of((91.5,), printed=(92.0, 0.0)).verdict == BELOW


def test_rows_without_a_counterpart_have_no_difference():
    not_run, own = line_of((92.0,), result=None), line_of((92.0,), paper=None)
    assert (not_run.verdict, not_run.difference, not_run.deviation) == (NOT_RUN, None, None)
    assert (own.verdict, own.difference, own.deviation) == (None, None, None)
    assert not_run.params == own.params == 4698


def test_notes_are_the_papers_then_the_networks_then_ours():
    line = line_of((92.0,), explanation="Ours.")
    paper = replace(line.paper, note="The paper's.")
    other = replace(line, paper=paper, result=replace(line.result, params=5000))
    assert other.params == 5000
    assert other.notes == (
        "The paper's.",
        "The network that was trained has 5,000 parameters, the paper's 4,698.",
        "A single seed, which has no deviation.",
        "Ours.",
    )
    two = line_of((92.0, 93.0), explanation="Ours.")
    assert two.notes == ("Ours.",)
    assert replace(two, paper=None, explanation="").notes == ()


def test_the_papers_rows_come_first_and_ones_own_by_size():
    big, small = mnist("k=16", epochs=2), mnist("k=1", epochs=2)
    comparisons = compared(
        replace(big, row="big"),
        replace(small, row="small"),
        replace(small, table="mine", row="b"),
        replace(big, table="mine", row="a", dataset="digits"),
        mnist("LP"),
    )
    assert [comparison.key for comparison in comparisons] == [
        *(table.key for table in TABLES),
        "mine",
    ]
    names = [line.name for line in comparisons[0].lines]
    assert names == [*(row.name for row in MNIST.rows), "small", "big"]
    assert [line.name for line in comparisons[0].lines if line.result] == ["LP", "small", "big"]
    mine = comparisons[-1]
    assert (mine.number, mine.title, mine.dataset) == ("", "mine", "digits, mnist")
    assert [line.name for line in mine.lines] == ["b", "a"]


def test_the_summary_counts_the_papers_rows_only():
    explanations = {"mnist/k=1": "Why.", "mnist/k=2": "Why."}
    summary = _tables.summarize(
        compared(
            mnist("LP"),
            mnist("k=1", shift=-5),
            mnist("k=4", shift=-5, seconds=100.0, threads=2),
            mnist("k=2", shift=3, commit=None),
            replace(mnist("k=8"), row="own", recipe={"epochs": 3}),
            **explanations,
        )
    )
    assert (summary.rows, summary.measured, summary.explained) == (72, 4, 1)
    assert summary.verdicts == {AGREES: 1, ABOVE: 1, BELOW: 2, NOT_RUN: 68}
    assert summary.seconds == 4 * 61.5 + 100
    assert [recipe["epochs"] for _, recipe in summary.recipes] == [10, 3]
    tails = [version.partition("python ")[2] for version in summary.versions]
    assert tails == [
        "3.11, commit 0123abc, 1 thread",
        "3.11, commit unknown, 1 thread",
        "3.11, commit 0123abc, 2 threads",
    ]


def test_reading_takes_one_preset_and_its_explanations(results):
    write([mnist("k=1", preset="mine", epochs=2)], results)
    (results / "explanations.toml").write_text('"mnist/k=4" = "Why."\n"mnist/k=1" = "No."\n')
    lines = lines_by_name(_tables.read(results, "paper")[0])
    assert [name for name, line in lines.items() if line.result] == ["MLP h=64", "k=4", "k=8"]
    assert lines["k=4"].notes == ("Why.",)
    with pytest.raises(
        HalfnetError, match=r"no results of preset 'p' in .*, only of mine, paper; "
    ):
        _tables.read(results, "p")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a =", "expected TOML: "),
        ('"mnist/k=44" = "a"', "unknown row 'mnist/k=44': the nearest name is 'mnist/k=4'"),
        ('"mnist/k=4" = 3', "mnist/k=4: expected text, got 3"),
    ],
)
def test_explanations_with_a_mistake(results, text, message):
    path = results / "explanations.toml"
    path.write_text(text)
    with pytest.raises(HalfnetFileError) as caught:
        _tables.read(results, "paper")
    assert str(caught.value).startswith(f"{path}: {message}")


def test_explanations_that_cannot_be_read(results):
    (results / "explanations.toml").mkdir()
    with pytest.raises(HalfnetError, match=r"cannot read .*explanations\.toml: Is a directory"):
        _tables.read(results, "paper")


# --- How it is said --------------------------------------------------------------------------


def test_the_headline_says_what_there_is():
    some = _tables.summarize(compared(mnist("LP"), mnist("k=1", shift=-5), **{"mnist/k=1": "Why."}))
    assert _wording.headline(some) == (
        "2 of 72 rows have results: 1 agrees, 0 are above, 1 is below (1 explained), "
        "70 were not run."
    )
    everyone = replace(some, measured=72, explained=0, verdicts={**some.verdicts, NOT_RUN: 0})
    assert _wording.headline(everyone) == (
        "72 of 72 rows have results: 1 agrees, 0 are above, 1 is below."
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (3569, "59 min"),
        (3571, "1 h 0 min"),
        (4500, "1 h 15 min"),
    ],
)
def test_durations(seconds, said):
    assert _wording.duration(seconds) == said


def test_numbers_are_said_with_two_digits_and_a_real_minus():
    line = line_of((91.25, 91.75), printed=(92.0, 0.3))
    assert _wording.scores(line)[2:] == ("92.00 ± 0.30", "91.50 ± 0.35")
    assert _wording.difference(line) == "−1.1 sd"
    assert _wording.signed(0.25, 2) == "+0.25"
    assert _wording.params(line) == "4,698"
    assert _wording.summary_of(line) == (
        "a · 4,698 parameters\npaper 92.00 ± 0.30\nmeasured 91.50 ± 0.35\n−1.1 sd: agrees"
    )


def test_what_is_missing_is_a_dash():
    not_run, own = line_of((92.0,), result=None), line_of((92.0,), paper=None)
    assert _wording.scores(not_run) == ("93.00 ± 0.10", "–", "92.00 ± 0.30", "–")
    assert _wording.scores(own)[::2] == ("–", "–")
    assert _wording.difference(own) == "–"
    assert _wording.summary_of(not_run).splitlines()[1:] == ["paper 92.00 ± 0.30", "not run"]
    assert _wording.summary_of(own).splitlines()[1:] == ["measured 92.00"]


def test_misprints_are_said_beside_the_count():
    lines = lines_by_name(compared()[4])
    assert _wording.params(lines["MLP h=10"]) == "7,960 (printed: 7,910)"


def test_titles_tell_whose_table_it_is():
    papers, *_, mine = compared(mnist("k=1"), replace(mnist("k=1"), table="mine"))
    assert _wording.title(papers) == "A1 · MNIST, one hidden layer: 784-64-10"
    assert _wording.title(mine) == "mine (mnist, not in the paper)"


def test_recipes_are_a_row_each_with_every_setting():
    recipes = [{"rate": 0.1, "init": {"B": 1.0, "u": None}}, {"rate": 0.2, "batch_size": 3}]
    results = [mnist(n, recipe=r) for n, r in zip(("LP", "k=1"), recipes, strict=True)]
    summary = _tables.summarize(compared(*results))
    assert _wording.recipes(summary) == (
        ["data set", "rate", "init", "seeds", "batch size"],
        [["mnist", "0.1", "B = 1.0", "5", "–"], ["mnist", "0.2", "–", "5", "3"]],
    )


def test_notes_are_numbered_through_the_table():
    lines = [line_of((92.0, 93.0), name=n, explanation=text) for n, text in ("a1", "b ", "c3")]
    lines[1] = replace(lines[1], explanation="")
    assert [numbers for _, numbers, _ in _wording.numbered(lines)] == [[1], [], [2]]


# --- What the figures show -------------------------------------------------------------------


def test_families_are_told_by_the_layers(everyone):
    families = {
        (comparison.key, line.name): _series.family(line)
        for comparison in everyone
        for line in comparison.lines
    }
    assert families["mnist", "LP"] == families["cifar10", "Full-Full"] == _series.DENSE
    assert families["mnist", "k=4"] == families["cifar10", "Full-Half k=8"] == _series.HALF
    assert families["cifar10", "Half-Half k=8/32"] == _series.HALF_FRONT
    low_rank = {"front": None, "hidden": [{"kind": "low-rank"}]}
    assert _series.family(line_of((92.0,), architecture=low_rank)) == _series.LOW_RANK


def test_a_sweep_is_of_half_layers_from_small_to_large(everyone):
    (sweep,) = _series.sweeps(everyone[0])
    names = ["random", "u, u0", "sigma", "k=1", "k=2", "k=4", "k=8", "k=16"]
    assert [line.name for line in sweep] == names
    one = replace(everyone[0], lines=everyone[0].lines[:5])
    assert _series.sweeps(one) == []


def test_axes_hold_every_bar(everyone):
    comparison = everyone[0]
    low, high = _series.accuracy_range(comparison)
    ends = [m + s * d for line in comparison.lines for (m, d), _ in _series.scores(line)
            for s in (-1, 1)]  # fmt: skip
    assert low < min(ends)
    assert high > max(ends)
    low, high = _series.params_range(comparison)
    assert low < 650
    assert 50_890 < high < 100_000


def test_a_band_is_mean_and_deviation_over_the_seeds():
    band = _series.band([(1.0, 3.0), (5.0, 5.0)])
    assert band.mean == (2.0, 5.0)
    assert band.low == pytest.approx((2 - math.sqrt(2), 5))
    assert band.high == pytest.approx((2 + math.sqrt(2), 5))


def test_spectra_are_relative_to_each_seeds_largest():
    weights = [[4.0, 2.0, 0.0], [2.0, 1.0, 1.0]]
    spectra = {"hidden1": {"weights": weights, "covariance": [[16.0, 4.0], [1.0, -1e-9]]}}
    changed = replace(mnist("k=4"), spectra=spectra, seeds=(0, 1))
    (item,) = _series.spectra(compared(changed))
    assert item.values.mean == (1.0, 0.5, 0.25)
    assert item.energy.mean == pytest.approx(((0.8 + 2 / 3) / 2, (1 + 5 / 6) / 2, 1))
    assert item.axes.mean == (1.0, 0.25)
    assert item.directions == ((1, 1), (1, 2))
    assert item.leading() == [(0.6, 1), (0.8, 1)]
    assert item.sentence() == (
        "k=4: 60% of the energy in 1, 80% of the energy in 1 (1 to 2 by seed) of 3 directions"
    )


def test_the_papers_directions_are_beside_the_dense_rows():
    weights = [[1.0] * 10] * len(SEEDS)
    dense = mnist("MLP h=64", spectra={"hidden1": {"weights": weights}})
    spectra = _series.spectra(compared(dense, mnist("k=2"), mnist("k=8", spectra={})))
    assert [item.name for item in spectra] == ["MLP h=64"]
    assert spectra[0].axes is None
    assert spectra[0].sentence() == (
        "MLP h=64: 60% of the energy in 6 (paper: 9), 80% of the energy in 8 (paper: 17) of "
        "10 directions"
    )


# --- Where things go in a figure -------------------------------------------------------------


def test_boxes():
    box = Box(0, 0, 4, 2)
    assert box.centre == (2, 1)
    assert box.overlap(Box(3, 1, 9, 9)) == 1
    assert box.overlap(Box(4, 0, 5, 2)) == box.overlap(Box(1, 2, 3, 9)) == 0
    assert box.nearest(9, 1) == (4, 1)
    assert box.inside(Box(0, 0, 4, 2))
    assert not box.inside(Box(1, 0, 4, 2))
    assert Box.around(2, 1, 4, 2) == box


def test_labels_hide_neither_each_other_nor_points_nor_lines():
    frame = Box(0, 0, 400, 300)
    anchors = [Box.around(100 + 14 * i, 150 + 3 * i, 10, 10) for i in range(8)]
    line = [(60.0, 120.0), (300.0, 120.0)]
    placed = _layout.place_labels(anchors, [(50.0, 14.0)] * 8, frame, lines=[line])
    assert all(box.inside(frame) for box in placed)
    assert all(a.overlap(b) == 0 for a, b in combinations(placed, 2))
    assert all(box.overlap(anchor) == 0 for box in placed for anchor in anchors)
    assert all(box.overlap(Box(60, 118, 300, 122)) == 0 for box in placed)


def test_a_label_that_fits_nowhere_lies_on_its_point():
    anchor = Box(0, 0, 10, 10)
    assert _layout.place_labels([anchor], [(500.0, 14.0)], Box(0, 0, 50, 50)) == [anchor]


@pytest.mark.parametrize(
    ("low", "high", "most", "marks"),
    [
        (0, 1, 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 64, 7, [0, 10, 20, 30, 40, 50, 60]),
        (91.2, 93.9, 8, [91.5, 92, 92.5, 93, 93.5]),
        (76, 99, 8, [80, 85, 90, 95]),
        (-0.3, 0.3, 3, [-0.2, 0, 0.2]),
    ],
)
def test_ticks_are_round_numbers(low, high, most, marks):
    assert _layout.ticks(low, high, most) == pytest.approx(marks)


@pytest.mark.parametrize(
    ("low", "high", "most", "marks"),
    [
        (600, 7000, 8, [1000, 2000, 5000]),
        (500, 70_000, 4, [1000, 3000, 10_000, 30_000]),
        (1, 10**6, 7, [10**i for i in range(7)]),
        (1, 10**6, 3, [10**i for i in range(7)]),
    ],
)
def test_ticks_of_a_logarithmic_axis(low, high, most, marks):
    assert _layout.log_ticks(low, high, most) == pytest.approx(marks)


def test_a_range_of_one_number_has_room_too():
    assert _layout.padded([3, 5], 0.5) == (2, 6)
    assert _layout.padded([3], 0.5) == (2, 4)


# --- The page's figures ----------------------------------------------------------------------


def svgs(text):
    """Parse what may be several SVG images; in HTML, unlike XML, attributes keep their lines."""
    kept = text.replace("\n", "&#10;")
    return list(ElementTree.fromstring(f"<all>{kept}</all>"))


def of_class(svg, name):
    return [item for item in svg.iter() if name in item.get("class", "").split()]


def test_each_row_is_a_point_that_can_be_pointed_at(everyone):
    comparison = everyone[0]
    for svg in svgs(_charts.accuracy(comparison)):
        points = of_class(svg, "point")
        assert [point.get("data-tip") for point in points] == [
            _wording.summary_of(line) for line in comparison.lines
        ]
        assert all(point.get("aria-label") == point.get("data-tip") for point in points)
        assert all(
            len(of_class(point, kind)) == 1 for point in points for kind in ("paper", "ours")
        )
        assert [join.get("class") for join in of_class(svg, "join")] == ["join paper", "join half"]
        _, _, width, height = map(float, svg.get("viewBox").split())
        for circle in svg.iter("circle"):
            assert 0 < float(circle.get("cx")) < width
            assert 0 < float(circle.get("cy")) < height


def test_a_higher_accuracy_is_drawn_higher_and_more_parameters_to_the_right(everyone):
    wide, _ = svgs(_charts.accuracy(everyone[0]))
    (low,), (high,) = (
        [point.find("g[@class='ours']/circle") for point in of_class(wide, "point")
         if point.get("data-row") == f"mnist--{name}"]
        for name in ("k=1", "k=16")
    )  # fmt: skip
    assert float(high.get("cy")) < float(low.get("cy"))
    assert float(high.get("cx")) > float(low.get("cx"))


def test_a_row_that_was_not_run_has_the_papers_point_only():
    wide, _ = svgs(_charts.accuracy(compared(mnist("LP"))[0]))
    by_row = {point.get("data-row"): point for point in of_class(wide, "point")}
    assert not of_class(by_row["mnist--k=4"], "ours")
    assert of_class(by_row["mnist--LP"], "ours")
    assert [join.get("class") for join in of_class(wide, "join")] == ["join paper"]


def test_curves_are_of_rows_with_more_than_one_epoch():
    comparison = compared(mnist("LP", epochs=1), mnist("k=4", epochs=3))[0]
    ((line, chart),) = _charts.curves(comparison)
    assert line.name == "k=4"
    (svg,) = svgs(chart)
    assert len(of_class(svg, "band")) == 2
    tips = [column.get("data-tip") for column in of_class(svg, "column")]
    assert len(tips) == 6
    loss = _series.band(line.result.curves["loss"]).mean
    assert tips[2].splitlines()[:2] == ["k=4 · epoch 3", f"loss {loss[2]:.3f}"]
    assert _charts.curves(compared(mnist("LP", epochs=1))[0]) == []


def test_long_curves_have_fewer_columns_than_epochs():
    ((_, chart),) = _charts.curves(compared(mnist("k=4", epochs=150))[0])
    tips = [column.get("data-tip") for column in of_class(svgs(chart)[0], "column")]
    assert len(tips) == 2 * 50
    assert tips[1].startswith("k=4 · epoch 4\n")


def test_the_spectrums_panels(everyone):
    spectra = _series.spectra(everyone)
    panels = _charts.spectrum(spectra)
    assert [title for title, _ in panels] == list(_series.SPECTRUM_PANELS)
    drawn = [svgs(chart)[0] for _, chart in panels]
    assert [len(of_class(svg, "curve")) for svg in drawn] == [4, 4, 3]
    assert [len(of_class(svg, "mark")) for svg in drawn] == [0, 2, 0]
    first = of_class(drawn[0], "column")[0].get("data-tip")
    assert first.splitlines()[:2] == ["direction 1", "MLP h=64: 1.000"]
    styles = {item.name: _charts.spectrum_index(item) for item in spectra}
    assert styles == {"MLP h=64": 0, "k=4": 1, "k=8": 2, "k=16": 3}


def test_spectra_of_different_lengths_end_where_they_end():
    short = mnist("k=4", spectra={"hidden1": {"weights": [[1.0, 0.5]] * len(SEEDS)}})
    (_, chart), *_ = _charts.spectrum(_series.spectra(compared(short, mnist("k=8"))))
    tips = [column.get("data-tip") for column in of_class(svgs(chart)[0], "column")]
    assert tips[0].startswith("direction 1\nk=4: 1.000\nk=8: ")
    assert "k=4" not in tips[-1]


# --- Markdown --------------------------------------------------------------------------------


def test_markdown_has_a_line_for_each_row(everyone):
    text = _markdown.render(everyone, "paper")
    comparison = everyone[0]
    start = text.index("## A1 · MNIST")
    body = text[start : text.index("## A2")].splitlines()[4:16]
    first = comparison.lines[0]
    cells = [first.name, _wording.params(first), *_wording.scores(first)]
    assert body[0] == f"| {' | '.join([*cells, _wording.difference(first), first.verdict])} |"
    assert [row.split(" | ")[0] for row in body] == [f"| {line.name}" for line in comparison.lines]
    assert text.count("](figures/") == 10
    assert f"- {_series.spectra(everyone)[0].sentence()}" in text
    assert "Preset paper, trained for 1 h 14 min in all:" in text


def test_markdown_notes_are_numbered_and_linked_by_number(everyone):
    text = _markdown.render(compared(**{"mnist/k=4": "Why\nit is."})[:1], "paper")
    assert "| k=4<sup>1</sup> |" in text
    assert "\n\n1. k=4: Why it is.\n\n" in text
    assert "Spectra" not in text


def test_markdown_escapes_names():
    text = _markdown.render(compared(replace(mnist("k=4"), row="<b>&|*x_"))[:1], "p_q")
    assert "| \\<b\\>\\&\\|\\*x\\_ | 4,698 | – |" in text
    assert "Preset p\\_q" in text


# --- Figures ---------------------------------------------------------------------------------


def test_figures_are_the_same_bytes_in_every_run(tmp_path):
    comparisons = compared(mnist("MLP h=64"), mnist("k=4"), replace(mnist("k=8"), table="mine"))
    chosen = [comparisons[0], comparisons[-1]]
    for folder in ("a", "b"):
        assert _figures.write(chosen, tmp_path / folder) == ["mnist", "own-mine", "spectrum"]
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [
        f"{name}.{kind}" for name in ("mnist", "own-mine", "spectrum") for kind in ("png", "svg")
    ]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with Image.open(tmp_path / "a" / "mnist.png") as image:
        assert image.size == (1520, 920)
    assert ElementTree.parse(tmp_path / "a" / "mnist.svg").getroot().tag == f"{SVG}svg"


def test_a_figure_names_every_row_and_what_its_colours_mean(everyone):
    figure = _figures.accuracy(everyone[-1])
    names = [text.get_text() for text in figure.texts]
    assert names == [row.name for row in TABLES[-1].rows]
    (axes,) = figure.axes
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["the paper", "half layers", "half front end too", "dense, learned"]
    assert axes.get_title(loc="left") == "A9  CIFAR-10: (3x32x32)-8192-256-10"
    boxes = [text.get_window_extent() for text in figure.texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_a_figure_of_ones_own_table_has_no_paper(tmp_path):
    own = [replace(mnist(name), table="mine", row=f"${name}$") for name in ("k=4", "k=8")]
    (axes,) = _figures.accuracy(compared(*own)[-1]).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["half layers"]
    assert axes.get_title(loc="left") == "mine"


def test_the_figure_of_spectra_without_half_layers_has_no_panel_of_theirs():
    spectra = _series.spectra(compared(mnist("MLP h=64")))
    dense, energy = _figures.spectrum(spectra).axes
    assert len(dense.lines) == 1
    assert energy.lines[-1].get_xydata().tolist() == [[9, 0.6], [17, 0.8]]  # the paper's
    assert [title for title, _ in _charts.spectrum(spectra)] == list(_series.SPECTRUM_PANELS[:2])


# --- The command -----------------------------------------------------------------------------


def report(*arguments):
    return cli.main(["report", *map(str, arguments)])


def test_report_writes_markdown_a_page_and_figures(results, tmp_path, capsys):
    output = tmp_path / "report"
    assert report("--results", results, "--output", output) == 0
    captured = capsys.readouterr()
    first, second = captured.out.splitlines()
    assert first.startswith("3 of 72 rows have results: ")
    assert second == f"{output / 'report.html'}, report.md and 10 figures"
    assert sorted(path.name for path in output.iterdir()) == ["figures", "report.html", "report.md"]
    names = [*(table.key for table in TABLES), "spectrum"]
    files = {path.name for path in (output / "figures").iterdir()}
    assert files == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    markdown = (output / "report.md").read_text("utf-8")
    linked = set(re.findall(r"\(figures/(.*?)\)", markdown))
    assert linked == {f"{name}.svg" for name in names}
    page = (output / "report.html").read_text("utf-8")
    assert first in page
    assert first in markdown


def test_report_prints_json_and_writes_nothing(results, tmp_path, capsys):
    output = tmp_path / "report"
    assert report("--results", results, "--output", output, "--json") == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["row"] for record in records] == ["MLP h=64", "k=4", "k=8"]
    k4 = mnist("k=4", epochs=2)
    assert records[1] == {
        "table": "mnist",
        "row": "k=4",
        "preset": "paper",
        "seeds": [0, 1, 2, 3, 4],
        "epochs": 2,
        "params": 4698,
        "train_mean": pytest.approx(k4.train_score.mean),
        "train_std": pytest.approx(k4.train_score.std),
        "test_mean": pytest.approx(k4.test_score.mean),
        "test_std": pytest.approx(k4.test_score.std),
        "paper_params": 4698,
        "paper_train_mean": 93.11,
        "paper_train_std": 0.13,
        "paper_test_mean": 92.58,
        "paper_test_std": 0.18,
        "seconds": 61.5,
    }
    assert not output.exists()


def test_json_of_a_row_that_the_paper_does_not_have(tmp_path, capsys):
    write([replace(mnist("k=4", epochs=2), row="own", preset="p")], tmp_path)
    assert report("--results", tmp_path, "--preset", "p", "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert {key for key, value in record.items() if value is None} == {
        "paper_params",
        "paper_train_mean",
        "paper_train_std",
        "paper_test_mean",
        "paper_test_std",
    }


def test_report_without_results_says_what_to_run(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "none"):
        assert report("--results", folder, "--output", tmp_path / "report") == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == (
            f"halfnet report: no results of preset 'paper' in {folder}; halfnet reproduce "
            f"--preset paper --results {folder} makes them\n"
        )
    assert not (tmp_path / "report").exists()


def test_report_of_ones_own_tables_alone(tmp_path, capsys):
    """The paper's are not what was run; --specs brings titles, and numbers to compare with."""
    own = replace(mnist("k=4"), table="small", row="MLP, h=8", preset="small", dataset="digits")
    write([own], tmp_path / "results")
    options = ("--results", tmp_path / "results", "--preset", "small", "--output", tmp_path / "out")
    assert report(*options) == 0
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert re.findall("^## (.*)", text, re.MULTILINE)[0] == "small (digits, not in the paper)"
    assert "A1" not in text
    assert report(*options, "--specs", lab_rows.write(tmp_path)) == 0
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "## Small networks (digits, not in the paper)" in text
    assert "| 49.50 ± 1.50 |" in text
    capsys.readouterr()
    with_specs = ("--specs", lab_rows.write(tmp_path), "--json")
    assert report(*options, *with_specs) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["paper_test_mean"] for record in records] == [49.5]


def test_nearly_no_difference_has_no_sign_of_its_own():
    assert _wording.signed(-0.04, 1) == "+0.0"


def test_report_that_cannot_be_written_says_why(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HalfnetError, match=r"cannot write .*cifar10\.svg: Not a directory"):
        _report.write(compared()[-1:], "paper", tmp_path / "file")


def test_report_reads_the_results_of_the_checkout_that_one_stands_in(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write([mnist("k=4", epochs=2, seconds=1.25)], tmp_path / "paper" / "results")
    assert report("--json") == 0
    assert [item["seconds"] for item in json.loads(capsys.readouterr().out)] == [1.25]


# --- What is committed -----------------------------------------------------------------------

PAPER = Path(__file__).parent.parent / "paper"


def test_the_committed_report_is_that_of_the_committed_results():
    comparisons = _tables.read(PAPER / "results", "paper")
    assert _markdown.render(comparisons, "paper") == (PAPER / "report/report.md").read_text("utf-8")


def test_all_rows_of_the_paper_have_committed_results_of_full_length():
    comparisons = _tables.read(PAPER / "results", "paper")
    summary = _tables.summarize(comparisons)
    assert (summary.rows, summary.measured) == (72, 72)
    assert summary.verdicts[AGREES] + summary.verdicts[ABOVE] >= 65
    assert summary.explained == summary.verdicts[BELOW]
    for comparison, _, measured in _tables.measured(comparisons):
        recipe = specs.paper().preset("paper").recipe(comparison.dataset)
        assert measured.recipe == json.loads(json.dumps(asdict(recipe)))
        assert measured.seeds == (0, 1, 2, 3, 4)


def test_the_committed_claims_stand_on_their_page(monkeypatch):
    monkeypatch.syspath_prepend(PAPER)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    claims = importlib.import_module("claims")
    page = claims.PAGE.read_text("utf-8")
    assert claims.filled(page) == page

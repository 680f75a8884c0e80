"""The report's page: what it says, and how a browser shows it (skipped where there is none)."""

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from playwright.sync_api import sync_playwright
from report_results import everything, result

from halfnet.lab import _charts, _page, _tables, _wording, specs

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

TABLES = specs.paper().tables
NASTY = '<b>&"'


class Texts(HTMLParser):
    """Collects the tags, and the text of each cell by its row."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.rows, self.inside = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.inside = tag
            self.rows[-1].append("")
        elif tag == "sup":
            self.inside = None

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def own(row="mine", table="my-own", **changes):
    first = TABLES[0]
    return replace(result(first, first.rows[-1], epochs=2), row=row, table=table, **changes)


def compared(results=None, **explanations):
    return _tables.compare(everything(epochs=3) if results is None else results, explanations)


@pytest.fixture(scope="module")
def comparisons():
    return compared()


@pytest.fixture(scope="module")
def page(comparisons):
    return _page.render(comparisons, "paper")


# --- Without a browser -----------------------------------------------------------------------


def test_every_row_has_the_numbers_that_are_said_of_it(comparisons, page):
    cells = [row for row in Texts(page).rows if len(row) == 8 and row[0] != "row"]
    said = [
        [
            line.name,
            _wording.params(line),
            *_wording.scores(line),
            _wording.difference(line),
            line.verdict,
        ]
        for comparison in comparisons
        for line in comparison.lines
    ]
    assert len(said) == 72
    assert cells == said
    assert "7,960 (printed: 7,910)" in page.replace('<span class="aside">', "")


def test_a_row_that_was_not_run_has_dashes_and_no_curves(page):
    without = _page.render(compared(everything(epochs=3)[1:])[:1], "paper")
    (cells,) = (row for row in Texts(without).rows if "not run" in row)
    assert cells == ["LP", "7,850", "92.84 ± 0.02", "–", "92.58 ± 0.09", "–", "–", "not run"]
    curves = '<figure data-row="mnist--LP">'
    assert curves in page
    assert curves not in without
    assert "11 of 12 agree" in without
    assert '<i class="dot not-run"></i>not run' in without


def test_names_and_versions_are_escaped():
    versions = {"halfnet": NASTY}
    rows = [own(NASTY, versions=versions), own("k=4 " + NASTY, "mnist"), own("c", NASTY)]
    comparisons = compared(rows, **{f"my-own/{NASTY}": f"why {NASTY}"})
    page = _page.render(comparisons, NASTY)
    assert NASTY not in page
    parsed = Texts(page)
    assert [cells[0] for cells in parsed.rows if NASTY in cells[0]] == ["k=4 " + NASTY, NASTY]
    assert page.count("halfnet &lt;b&gt;&amp;&quot;") == 1
    assert page.count("why &lt;b&gt;&amp;&quot;") == 1
    assert "<title>The paper beside what was measured: preset &lt;b&gt;&amp;&quot;" in page
    tips = [attributes["data-tip"] for _, attributes in parsed.tags if "data-tip" in attributes]
    assert any(tip.startswith(NASTY) for tip in tips)


def test_notes_are_linked_from_their_rows():
    page = _page.render(compared(**{"mnist/k=4": "The rate was too low."})[:1], "paper")
    assert re.search(r'k=4<i [^>]*></i><sup><a href="#mnist-note-1"', page)
    assert '<li id="mnist-note-1"><b>k=4</b>: The rate was too low.</li>' in page
    targets = {attributes.get("id") for _, attributes in Texts(page).tags}
    links = [attributes["href"] for tag, attributes in Texts(page).tags if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= targets


def test_tables_of_ones_own_are_told_from_the_papers():
    page = _page.render(compared([own("a"), own("b")]), "paper")
    assert "my-own (mnist, not in the paper)" in page
    assert '<span class="tally">not in the paper</span>' in page
    assert '<i class="dot own"></i>not in the paper' in page
    (cells, _) = (row for row in Texts(page).rows if row[0] in ("a", "b"))
    assert cells[2] == cells[4] == cells[6] == cells[7] == "–"
    assert "the-spectra" not in page


def test_how_the_networks_were_trained_is_said(page):
    parsed = Texts(page)
    assert ["data set", "mnist", "fashion-mnist", "cifar10"] in parsed.rows
    assert ["scaling", "unit", "unit", "standard"] in parsed.rows
    assert "halfnet 0.1, torch 2.6, numpy 2.0, python 3.11, commit 0123abc, 1 thread" in page
    assert "Preset paper, trained for 1 h 14 min in all" in page


def test_the_same_results_make_the_same_page(comparisons, page):
    again = _page.render(compared(everything(epochs=3)[::-1])[-1:], "paper")
    assert again == _page.render(comparisons[-1:], "paper")
    section = re.compile(r'<section id="cifar10".*?</section>', re.DOTALL)
    assert section.findall(again) == section.findall(page) != []


def test_the_page_names_nothing_outside_of_itself(page):
    parsed = Texts(page)
    assert [tag for tag, attributes in parsed.tags if "src" in attributes] == []
    assert [a["href"] for tag, a in parsed.tags if tag == "link"] == ["data:,"]
    assert "://" not in page
    assert "url(" not in page
    assert "@import" not in page
    assert not [tag for tag, attributes in parsed.tags if "style" in attributes]


# --- In a browser ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser, address):
    """Open the page in windows of given kinds, which must complain of nothing and load nothing."""
    contexts, complaints, requests = [], [], []

    def look(width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        window = context.new_page()
        window.on("pageerror", lambda error: complaints.append(str(error)))
        window.on("request", lambda request: requests.append(request.url))
        window.on(
            "console",
            lambda message: (
                complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        window.goto(address)
        return window

    yield look
    for context in contexts:
        context.close()
    assert complaints == []
    assert set(requests) - {"data:,"} == {address}


def colours(window):
    return window.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor,
                  getComputedStyle(document.body).color]"""
    )


def row_names(window, table):
    names = f"document.querySelectorAll('#{table} tbody th')"
    return window.evaluate(f"[...{names}].map(cell => cell.firstChild.textContent)")


def lit(window):
    return window.evaluate("[...document.querySelectorAll('.lit')].map(e => e.dataset.row)")


def tip(window):
    return window.locator(".tip.shown")


@needs_browser
def test_every_table_row_and_figure_is_shown(opened, comparisons):
    window = opened()
    window.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    for table in TABLES:
        assert window.locator(f"#{table.key} h2").inner_text().startswith(f"{table.number} · ")
        assert row_names(window, table.key) == [row.name for row in table.rows]
        assert window.locator(f"#{table.key} .accuracy .point:visible").count() == len(table.rows)
    sizes = window.evaluate(
        """() => [...document.querySelectorAll("figure")].map(figure =>
            [...figure.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect())
            .filter(box => box.width > 200 && box.height > 100).length)"""
    )
    assert sizes == [1] * (len(TABLES) + 72 + 3)


@needs_browser
@pytest.mark.parametrize("width", [360, 700, 1280])
def test_nothing_is_wider_than_the_window_nor_tiny(opened, width):
    window = opened(width)
    window.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert window.evaluate("document.documentElement.scrollWidth") == width
    tiny = window.evaluate(
        """() => [...document.querySelectorAll("body *:not(script, sup, sup *, svg, svg *)")]
            .filter(e => parseFloat(getComputedStyle(e).fontSize) < 15).map(e => e.outerHTML)"""
    )
    assert tiny == []
    heights = window.evaluate(
        """() => [...document.querySelectorAll(".chart text")].filter(e => e.checkVisibility())
            .map(e => e.getScreenCTM().a * parseFloat(getComputedStyle(e).fontSize))"""
    )
    assert min(heights) > 10.9


@needs_browser
def test_pointing_at_a_point_explains_it_and_lights_up_its_row(opened, comparisons):
    window = opened()
    line = comparisons[0].lines[9]
    name = _charts.identity(comparisons[0], line)
    point = window.locator(f'.chart.wide .point[data-row="{name}"]')
    point.locator(".hit").hover()
    assert tip(window).text_content() == _wording.summary_of(line)
    assert set(lit(window)) == {name}
    assert window.locator("#mnist tbody tr.lit th").inner_text() == "k=4"
    above, mark = tip(window).bounding_box(), point.bounding_box()
    assert above["y"] + above["height"] <= mark["y"]
    window.locator("h1").hover()
    assert tip(window).count() == 0
    assert lit(window) == []


@needs_browser
def test_pointing_at_a_row_lights_up_its_points(opened):
    window = opened()
    window.locator("#fashion tbody tr").nth(1).hover()
    assert tip(window).count() == 0
    assert window.locator("#fashion .chart.wide .point.lit").count() == 1
    assert set(lit(window)) == {"fashion--MLP-h=10"}


@needs_browser
def test_the_keyboard_shows_tooltips_and_escape_closes_them(opened, comparisons):
    window = opened()
    window.locator("#mnist .heading a").focus()
    window.keyboard.press("Tab")
    first, second = comparisons[0].lines[:2]
    assert tip(window).text_content() == _wording.summary_of(first)
    box = tip(window).bounding_box()
    assert 0 <= box["y"] < 900
    window.keyboard.press("Escape")
    assert tip(window).count() == 0
    window.keyboard.press("Tab")
    assert tip(window).text_content() == _wording.summary_of(second)
    window.locator("#mnist summary").focus()
    assert tip(window).count() == 0


@needs_browser
def test_a_tap_shows_a_tooltip_that_stays_within_the_window(opened, comparisons):
    window = opened(360, 740, has_touch=True, is_mobile=True)
    line = comparisons[0].lines[3]
    name = _charts.identity(comparisons[0], line)
    window.locator(f'.chart.narrow .point[data-row="{name}"] .hit').tap()
    assert tip(window).text_content() == _wording.summary_of(line)
    box = tip(window).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    window.locator("#mnist h2").tap()
    assert tip(window).count() == 0


@needs_browser
def test_training_curves_open_and_tell_their_epochs(opened):
    window = opened()
    chart = window.locator('#mnist .curves figure[data-row="mnist--LP"] svg')
    assert not chart.is_visible()
    window.locator("#mnist summary").click()
    assert chart.is_visible()
    chart.locator(".column").nth(1).hover()
    assert tip(window).text_content().startswith("LP · epoch 2\nloss ")


@needs_browser
def test_columns_sort_up_down_and_back(opened):
    window = opened()
    names = [row.name for row in TABLES[0].rows]
    head = window.locator('#mnist [data-column="1"]')
    orders = []
    for _ in range(3):
        head.locator("button").click()
        orders.append((head.get_attribute("aria-sort"), row_names(window, "mnist")))
    by_size = [row.name for row in sorted(TABLES[0].rows, key=lambda row: row.paper.params)]
    assert orders == [("ascending", by_size), ("descending", by_size[::-1]), (None, names)]
    window.locator('#mnist [data-column="0"] button').click()
    found = row_names(window, "mnist")
    assert found.index("k=1") < found.index("LP") < found.index("u, u0")


@needs_browser
def test_light_and_dark_differ_and_the_toggle_changes_them(opened):
    light, dark = opened(color_scheme="light"), opened(color_scheme="dark")
    seen = colours(light)
    assert all(a != b for a, b in zip(seen, colours(dark), strict=True))
    toggle = dark.locator("#theme")
    assert toggle.inner_text() == "Light"
    toggle.click()
    assert colours(dark) == seen
    assert toggle.inner_text() == "Dark"
    toggle.click()
    assert colours(dark) != seen


@needs_browser
def test_without_scripts_all_is_still_there(opened):
    window = opened(java_script_enabled=False)
    assert window.locator("#mnist tbody tr").count() == 12
    assert not window.locator("#theme").is_visible()


@needs_browser
def test_the_policy_forbids_the_network(browser, address):
    window = browser.new_page()
    window.goto(address)
    blocked = window.evaluate(
        """() => new Promise(resolve => {
            document.addEventListener("securitypolicyviolation", e => resolve(e.blockedURI));
            document.body.append(
                Object.assign(new Image(), { src: "http://127.0.0.1:9/x.png" }));
        })"""
    )
    assert blocked == "http://127.0.0.1:9/x.png"
    window.close()

"""The HTML report in a real headless browser: it renders, sorts, filters and opens graphs, offline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, missing_browser
from report_stores import write_store

from pass_bench.cli import passbench, run

pytestmark = pytest.mark.skipif(
    bool(missing_browser()),
    reason=f"no {missing_browser()}: the HTML report was not opened in a browser",
)

COLUMN = "return [...document.querySelectorAll('#list tbody tr')].map(r => r.cells[arguments[0]].textContent)"
CHANGE = (
    "const e = document.querySelector(arguments[0]);"
    "e.value = arguments[1]; e.dispatchEvent(new Event(arguments[2]))"
)
COUNT = "return document.querySelector('#count').textContent"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for number in range(6):
        graph = (
            folder / "graphs/hf_subgraphs_v2/fusible_subgraphs" / f"model_0_start{number}_end{number + 5}_0"
        )
        graph.mkdir(parents=True)
        (graph / "model.py").write_text(f"# graph {number} </script><script>alert(2)</script>\n")
    one = write_store(folder / "one.jsonl", "draft<i>", 8, graphs=6, seed=1, broken=0.3)
    two = write_store(folder / "two.jsonl", "tuned", 8, graphs=6, seed=2, level=1.7, compilers=("pass_mgr",))
    target = folder / "report.html"
    assert run(passbench, ["report", str(one), str(two), "--root", str(folder), "--out", str(target)]) == 0
    return target


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    browser.console_errors()
    browser.open(page)
    yield browser
    assert browser.console_errors() == []


def click(browser: Browser, selector: str) -> None:
    browser.run("document.querySelector(arguments[0]).click()", selector)


def numbers(texts: list[str]) -> list[float]:
    found = [re.search(r"-?\d+(\.\d+)?", text) for text in texts]
    return [float(match.group()) for match in found if match]


def test_the_file_needs_nothing_else(page: Path) -> None:
    text = page.read_text()
    targets = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)""", text)
    assert targets and all(target.startswith(("#", "data:")) for target in targets)
    assert not re.search(r"@import|url\(", text)
    assert "default-src 'none'" in text and page.stat().st_size < 1_000_000


def test_it_renders_board_and_plots(opened: Browser) -> None:
    assert opened.run("return document.querySelectorAll('.board tbody tr').length") == 3
    assert opened.run("return document.querySelector('.board tbody tr td:nth-child(2)').textContent") == (
        "tuned pass_mgr"
    )
    assert opened.run("return document.querySelectorAll('#es path.curve').length") == 3
    assert opened.run("return document.querySelectorAll('.multiples svg').length") == 3
    assert opened.run("return document.querySelector('#es svg').getBoundingClientRect().height") > 200
    assert opened.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.run(COUNT) == "8 samples"


def test_text_of_others_stays_text(opened: Browser) -> None:
    assert opened.run("return document.querySelectorAll('#board i:not(.swatch):not(.meter i)').length") == 0
    click(opened, "[data-mode=graphs]")
    opened.run(CHANGE, "#sub", "1", "change")
    opened.run(CHANGE, "#find", "model_0_start0", "input")
    click(opened, "#list tbody tr")
    shown = opened.run("return document.querySelector('#card').textContent")
    assert "</script><script>alert(2)</script>" in shown
    assert opened.run("return document.querySelectorAll('#card script, #card b > b').length") == 0


def test_samples_sort_both_ways(opened: Browser) -> None:
    score = numbers(opened.run(COLUMN, 3))
    assert len(score) == 8 and score == sorted(score, reverse=True)
    click(opened, "#list th:nth-child(4)")
    assert numbers(opened.run(COLUMN, 3)) == sorted(score)
    assert opened.run("return document.querySelector('#list th:nth-child(4)').ariaSort") == "ascending"
    click(opened, "#list th:nth-child(1)")
    names = opened.run(COLUMN, 0)
    assert names == sorted(names)


def test_graphs_filter_by_text_verdict_and_flag(opened: Browser) -> None:
    click(opened, "[data-mode=graphs]")
    opened.run(CHANGE, "#sub", "2", "change")
    everything = opened.run(COUNT)
    assert everything == "48 graphs"
    opened.run(CHANGE, "#verdict", "!", "change")
    wrong = opened.run(COLUMN, 1)
    assert 0 < len(wrong) < 48 and not any(text.startswith("correct") for text in wrong)
    opened.run(CHANGE, "#verdict", "", "change")
    opened.run(CHANGE, "#find", "ROTARY", "input")
    assert all("rotary" in text for text in opened.run(COLUMN, 0)) and opened.run(COUNT) == "6 graphs"
    opened.run(CHANGE, "#find", "no such graph", "input")
    assert opened.run(COUNT) == "0 graphs"
    opened.run(CHANGE, "#find", "", "input")
    opened.run(CHANGE, "#flag", "2", "change")
    assert all("noisy" in text for text in opened.run(COLUMN, 8))


def test_what_has_no_value_is_last_whichever_way(opened: Browser) -> None:
    click(opened, "[data-mode=graphs]")
    opened.run(CHANGE, "#sub", "1", "change")
    for _ in range(2):
        texts = opened.run(COLUMN, 5)
        known = [text != "–" for text in texts]
        assert known == sorted(known, reverse=True) and False in known
        click(opened, "#list th:nth-child(6)")


def test_a_sample_opens_its_graphs_and_a_graph_its_details(opened: Browser) -> None:
    opened.run(CHANGE, "#sub", "1", "change")
    opened.run(CHANGE, "#find", "add_layer_norm_000", "input")
    click(opened, "#list tbody tr")
    assert opened.run("return document.querySelectorAll('#list tr.child').length") == 6
    click(opened, "#list tr.child")
    assert opened.run("return document.querySelector('#drawer').open")
    card = opened.run("return document.querySelector('#card').textContent")
    assert "FusedAddLayerNorm" in card and "# graph 0" in card and "compiled 2 kernels" in card
    click(opened, "#card .close")
    assert not opened.run("return document.querySelector('#drawer').open")


def test_details_show_times_errors_and_passes(opened: Browser) -> None:
    click(opened, "[data-mode=graphs]")
    click(opened, "#list tbody tr")
    card = opened.run("return document.querySelector('#card').innerText")
    for part in ("Times", "Errors against tolerance", "Passes", "without passes", "against float64", "GRAPH"):
        assert part.lower() in card.lower()
    assert "nearest miss: gelu has approximate='tanh'" in card


def test_changes_lead_to_their_graphs(opened: Browser) -> None:
    better = opened.run("return Number(document.querySelector('button[data-change=b] b').textContent)")
    assert better > 0
    click(opened, "button[data-change=b]")
    assert opened.run(COUNT).split()[0] == str(better)
    assert "better than draft<i>" in opened.run("return document.querySelector('#change').textContent")
    opened.run(CHANGE, "#pair", "1", "change")
    blocks = "[...document.querySelectorAll('.changes')]"
    visible = f"return {blocks}.filter(c => !c.hidden).map(c => c.dataset.pair)"
    assert opened.run(visible) == ["1"]


def test_failures_lead_to_their_graphs(opened: Browser) -> None:
    text = opened.run("return document.querySelector('button[data-verdict]').textContent")
    click(opened, "button[data-verdict]")
    assert opened.run(COUNT).split()[0] == text.split()[0]


def test_curves_tell_their_values(opened: Browser) -> None:
    opened.run(
        "const s = document.querySelector('#es svg'), r = s.getBoundingClientRect();"
        "const at = {clientX: r.left + r.width / 2, clientY: r.top + 50};"
        "s.dispatchEvent(new PointerEvent('pointermove', at))"
    )
    hover = opened.run("return document.querySelector('#es .hover').textContent")
    assert hover.startswith("t = -3") and "tuned · pass_mgr" in hover


def test_light_and_dark(opened: Browser) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    before = opened.run(background)
    click(opened, "#theme")
    assert opened.run(background) != before


def test_it_fits_a_phone(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile", width=500, height=900) as small:
        small.open(page)
        assert small.run("return document.documentElement.scrollWidth <= window.innerWidth")
        assert small.console_errors() == []

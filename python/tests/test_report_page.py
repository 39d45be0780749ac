"""The page in which a person reviews pairs, by real clicks and keys in a browser.

Run as a program it measures a page of 100,000 pairs and takes pictures in `/tmp/report-shots`.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

SOURCES = Path(__file__).resolve().parents[2] / "crates/simjoin-session/src/report/page"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.skipif(not SOURCES.is_dir(), reason="the page's source files are not beside"),
    pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="there is no chromium"),
]

#: A cell that would run, were it taken for markup.
HOSTILE = [
    "<img src=x onerror=\"window.hacked=1;alert('img')\">",
    "</script><script>window.hacked=1;alert('script')</script>",
    "<!--<script>window.hacked=1</script>",
    '"><svg onload=alert(1)>',
    "\u2028 and \u2029 {data} /*{js}*/ &amp;",
]


# ---- Data and pages ----


def assemble(data: dict[str, Any]) -> str:
    """Makes the page of data, as the Rust code does."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    page = (SOURCES / "page.html").read_text(encoding="utf-8")
    # The data come last: they may have the text of another placeholder.
    for name, value in {
        "/*{css}*/": (SOURCES / "page.css").read_text(encoding="utf-8"),
        "/*{js}*/": (SOURCES / "page.js").read_text(encoding="utf-8"),
        "{data}": text,
    }.items():
        assert page.count(name) == 1, name
        page = page.replace(name, value)
    return page


def table(
    rows: list[list], columns: list[str], name: str = "people.csv", **more: Any
) -> dict[str, Any]:
    """Makes a table of rows, of which the first value is the id and the second is compared."""
    return {
        "name": name,
        "total": len(rows) + 5,
        "columns": columns,
        "compared": [1],
        "ids": [row[0] for row in rows],
        "rank": None,
        "cells": [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns],
        **more,
    }


def report(tables: list[dict], pairs: list[tuple], **more: Any) -> dict[str, Any]:
    """Makes the data of a page; pairs are places with a score."""
    distance = more.get("distance", False)
    pairs = sorted(pairs, key=lambda pair: (pair[2] if distance else -pair[2], pair[0], pair[1]))
    return {
        "format": 1,
        "title": tables[0]["name"],
        "made": "2026-11-30 18:40 UTC",
        "question": "name: jaccard of runs of 3 characters, at least 0.6",
        "command": "simjoin report people.csv --on name --at-least 0.6 -o report.html",
        "sql": "SELECT l.id, r.id\nFROM people l\nJOIN people r ON jaccard(l.name, r.name) >= 0.6",
        "at": 0.8,
        "why": None,
        "weakest": 0.6,
        "best": 1.0,
        "distance": False,
        "steps": [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6],
        "tables": tables,
        "pairs": {
            "left": [pair[0] for pair in pairs],
            "right": [pair[1] for pair in pairs],
            "score": [pair[2] for pair in pairs],
            "parts": {},
        },
        "labels": [],
        "left_out": 0,
        **more,
    }


FIRST = ["Anna", "Bernd", "Chloé", "Dmitri", "Elif", "Farah", "Günther", "Hiroshi", "Ines", "João"]
LAST = ["Schmidt", "Okafor", "Nakamura", "Petrov", "Lindqvist", "García", "Yilmaz", "Kowalski"]
STREETS = ["Main Street", "Rue de la Paix", "Bahnhofstraße", "Harbour Road", "Via Roma"]
CITIES = ["Bonn", "Köln", "Lyon", "Porto", "Oslo", "Kyoto", None, ""]


def person(rng: random.Random, i: int) -> list:
    name = f"{rng.choice(FIRST)} {rng.choice('ABCDEFGH')}. {rng.choice(LAST)}"
    return [i, name, f"{rng.randrange(1, 99)} {rng.choice(STREETS)}", rng.choice(CITIES), 1950 + i]


def altered(rng: random.Random, row: list, i: int) -> list:
    """Gives a row that differs from another one in a letter, and maybe in more."""
    name, street = row[1], row[2]
    place = rng.randrange(len(name))
    name = rng.choice(
        [name[:place] + name[place + 1 :], name[:place] + "e" + name[place:], name.upper(), name]
    )
    if rng.random() < 0.5:
        street = street.replace("Street", "St.").replace("straße", "str.").replace("Road", "Rd")
    city = row[3] if rng.random() < 0.7 else rng.choice(CITIES)
    return [i, name, street, city, row[4] + rng.choice([0, 0, 0, 1])]


def people(groups: int, seed: int = 1, **more: Any) -> dict[str, Any]:
    """Makes a report on one table with groups of rows, most of them small ones."""
    rng = random.Random(seed)
    rows: list[list] = []
    pairs: list[tuple] = []
    for _ in range(groups):
        base, first = person(rng, len(rows)), len(rows)
        rows.append(base)
        for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 5])):
            rows.append(altered(rng, base, len(rows)))
            last = len(rows) - 1
            pairs.append((rng.randrange(first, last), last, round(0.6 + 0.4 * rng.random(), 4)))
            for other in range(first, last):
                if other != pairs[-1][0] and rng.random() < 0.35:
                    pairs.append((other, last, round(0.6 + 0.4 * rng.random() ** 2, 4)))
    pairs = list({pair[:2]: pair for pair in pairs}.values())
    columns = ["id", "name", "street", "city", "born"]
    rank = list(range(len(rows)))
    rng.shuffle(rank)
    made = report([table(rows, columns, compared=[1, 2], rank=rank)], pairs, **more)
    scores = made["pairs"]["score"]
    made["pairs"]["parts"] = {
        "name": [min(1, score + 0.1) for score in scores],
        "street": [max(0, score - 0.1) for score in scores],
    }
    return made


def linked(**more: Any) -> dict[str, Any]:
    """Makes a report on pairs of two tables."""
    rng = random.Random(5)
    lefts = [[f"a{i}", *person(rng, i)[1:]] for i in range(40)]
    rights = [[f"b{i}", *altered(rng, rng.choice(lefts), i)[1:]] for i in range(50)]
    pairs = {
        (rng.randrange(40), rng.randrange(50)): rng.randrange(60, 101) / 100 for _ in range(70)
    }
    columns = ["id", "name", "street", "city", "born"]
    tables = [table(lefts, columns, "left.csv"), table(rights, columns, "right.csv")]
    return report(tables, [(*places, score) for places, score in pairs.items()], **more)


def distances() -> dict[str, Any]:
    """Makes a report on distances, where less is better and scores are whole numbers."""
    rng = random.Random(9)
    rows = [person(rng, i)[:3] for i in range(60)]
    pairs = {tuple(sorted(rng.sample(range(60), 2))): rng.randrange(4) for _ in range(50)}
    return report(
        [table(rows, ["id", "name", "street"])],
        [(*places, score) for places, score in pairs.items()],
        distance=True,
        at=1,
        weakest=3,
        best=0,
        steps=[0, 1, 2, 3],
    )


def hostile() -> dict[str, Any]:
    """Makes a report in which every text would run, were it markup."""
    rows = [[HOSTILE[i % 5] + str(i), HOSTILE[i % 5], HOSTILE[(i + 1) % 5]] for i in range(10)]
    rows[7][1], rows[8][1:], rows[9][1:] = "x" * 30000, [None, ""], ["x", None]
    texts = dict.fromkeys(["question", "command", "sql", "why", "made"], " ".join(HOSTILE))
    return report(
        [table(rows, [HOSTILE[0], HOSTILE[1], HOSTILE[3]], HOSTILE[0])],
        [(i, i + 1, 0.7 + i / 50) for i in range(9)],
        labels=[[rows[0][0], rows[1][0], "yes"]],
        at=0.6,
        **texts,
    )


# ---- What the figures should be, by code that is not the page's ----


def within(data: dict, threshold: float) -> list[tuple[int, int, float]]:
    pairs = zip(*(data["pairs"][name] for name in ["left", "right", "score"]), strict=True)
    if data["distance"]:
        return [pair for pair in pairs if pair[2] <= threshold]
    return [pair for pair in pairs if pair[2] >= threshold]


def groups_of(pairs: list[tuple], offset: int = 0) -> list[list[int]]:
    """Gives the rows of each group by union-find; rows of a right table start at an offset."""
    parent: dict[int, int] = {}

    def root(row: int) -> int:
        while parent.setdefault(row, row) != row:
            row = parent[row]
        return row

    for i, j, _ in pairs:
        parent[root(i)] = root(j + offset)
    groups: dict[int, list[int]] = {}
    for row in sorted(parent):
        groups.setdefault(root(row), []).append(row)
    return sorted(groups.values(), key=lambda rows: (-len(rows), rows))


def expected(data: dict, threshold: float) -> dict[str, str]:
    pairs, tables = within(data, threshold), data["tables"]
    groups = groups_of(pairs, 0 if len(tables) == 1 else len(tables[0]["ids"]))
    figures = {
        "Pairs": len(pairs),
        "Groups": len(groups),
        "Rows in groups": sum(map(len, groups)),
    }
    if len(tables) == 2:
        figures["Matched of left.csv"] = len({pair[0] for pair in pairs})
        figures["Matched of right.csv"] = len({pair[1] for pair in pairs})
    else:
        dropped = len(dropped_rows(data, pairs))
        figures["Rows kept"] = tables[0]["total"] - dropped
        figures["Rows dropped"] = dropped
    return {name: f"{figure:,}" for name, figure in figures.items()}


def dropped_rows(data: dict, pairs: list[tuple]) -> set[int]:
    rows = data["tables"][0]
    rank = rows["rank"] or list(range(len(rows["ids"])))
    similar = {(i, j) for i, j, _ in pairs} | {(j, i) for i, j, _ in pairs}
    kept: list[int] = []
    for row in sorted(range(len(rank)), key=rank.__getitem__):
        if not any((row, other) in similar for other in kept):
            kept.append(row)
    return set(range(len(rank))) - set(kept)


# ---- The browser ----


def start(downloads: Path) -> webdriver.Chrome:
    options = Options()
    options.binary_location = CHROMIUM or ""
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]:
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))


class Page:
    """A page in the browser."""

    def __init__(self, driver: webdriver.Chrome, folder: Path):
        self.driver = driver
        self.folder = folder
        self.opened = 0
        self.size(1200, 900)

    def open(self, data: dict) -> None:
        # Each at its own address: of a load of the same one the driver may not see the end.
        self.opened += 1
        self.file = self.folder / f"report-{self.opened}.html"
        self.file.write_text(assemble(data), encoding="utf-8")
        self.driver.get(self.file.as_uri())
        self.ready()

    def reload(self) -> None:
        self.js("delete document.documentElement.dataset.ready")
        self.driver.refresh()
        self.ready()

    def ready(self) -> None:
        self.until(lambda: self.js("return document.documentElement.dataset.ready"))

    def js(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def id(self, name: str) -> WebElement:
        return self.driver.find_element(By.ID, name)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Gives the texts of elements, also of those out of sight."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.js(script, selector)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def focused(self) -> int | None:
        """Gives the place of the pair that has the focus."""
        pair = self.js("return document.activeElement.dataset.pair")
        return None if pair is None else int(pair)

    def cards(self) -> list[int]:
        script = "return [...document.querySelectorAll('[data-pair]')].map((e) => +e.dataset.pair)"
        return self.js(script)

    def figures(self) -> dict[str, str]:
        names, values = self.texts("#figures dt"), self.texts("#figures .value")
        return dict(zip(names, values, strict=True))

    def until(self, condition: Any) -> None:
        WebDriverWait(self.driver, 10, poll_frequency=0.05).until(lambda _: condition())

    def expect(self, data: dict, threshold: float) -> None:
        """Waits for the figures of a threshold, and checks them."""
        wanted = expected(data, threshold)
        self.until(lambda: self.figures()["Pairs"] == wanted["Pairs"])
        assert {name: self.figures()[name] for name in wanted} == wanted

    def click(self, element: WebElement) -> None:
        """Clicks on an element where the bar at the bottom does not lie over it."""
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def type(self, element: WebElement, text: str) -> None:
        """Types a text in the place of what an element has, and leaves it."""
        element.send_keys(Keys.CONTROL, "a", Keys.NULL, text, Keys.TAB)

    def choose(self, name: str, value: str) -> None:
        Select(self.id(name)).select_by_value(value)

    def search(self, tab: str, text: str) -> None:
        self.id(f"{tab}-search").clear()
        self.id(f"{tab}-search").send_keys(text, Keys.ENTER)

    def requests(self) -> list[str]:
        """Gives what was asked from anywhere else than the page's file."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(downloads: Path) -> Iterator[webdriver.Chrome]:
    driver = start(downloads)
    yield driver
    driver.quit()


@pytest.fixture
def page(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[Page]:
    page = Page(driver, tmp_path)
    yield page
    assert page.driver.get_log("browser") == []
    assert page.requests() == []
    page.js("try { localStorage.clear() } catch {}")


def exported(page: Page, downloads: Path, name: str) -> list[list[str]]:
    file = downloads / name
    file.unlink(missing_ok=True)
    page.click(page.id("export"))
    page.until(file.exists)
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines))


# ---- Figures and thresholds ----


def test_the_figures_are_those_of_a_count_at_every_threshold(page: Page) -> None:
    data = people(150)
    page.open(data)
    page.expect(data, 0.8)
    for threshold in [0.9231, 0.6, 1, 0.75]:
        page.type(page.id("exact"), str(threshold))
        page.expect(data, threshold)
    assert len({expected(data, threshold)["Rows dropped"] for threshold in data["steps"]}) > 5


def test_the_slider_moves_by_keys(page: Page) -> None:
    data = people(60)
    page.open(data)
    slider = page.id("slider")
    slider.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.expect(data, 0.798)
    assert page.id("exact").get_attribute("value") == "0.798"
    slider.send_keys(Keys.END)
    page.expect(data, 1)
    slider.send_keys(Keys.HOME)
    page.expect(data, 0.6)
    assert slider.get_attribute("aria-valuetext").startswith("at least 0.6: ")
    assert page.cards() and page.js("return document.activeElement.id") == "slider"


def test_the_ends_of_the_slider_are_those_of_the_scores(page: Page) -> None:
    rows = [[i, f"name {i}", 0] for i in range(5)]
    pairs = [(i, i + 1, score) for i, score in enumerate([0.98765, 0.9, 0.7, 0.61234])]
    columns = ["id", "name", "n"]
    data = report([table(rows, columns)], pairs, weakest=0.61234, best=None, at=0.75, steps=[])
    page.open(data)
    page.id("slider").send_keys(Keys.HOME)
    page.expect(data, 0.61234)
    assert page.id("exact").get_attribute("value") == "0.61234"
    page.id("slider").send_keys(Keys.END)
    page.expect(data, 0.98765)
    assert page.figures()["Pairs"] == "1"


def test_the_table_of_thresholds(page: Page) -> None:
    data = people(80)
    page.open(data)
    rows = page.all("#steps tbody tr")
    before = 0
    for row, threshold in zip(rows, data["steps"], strict=True):
        pairs = within(data, threshold)
        groups = groups_of(pairs)
        cells = [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        largest = max(map(len, groups), default=0)
        rows_in = sum(map(len, groups))
        wanted = [len(pairs), len(pairs) - before, len(groups), largest, rows_in]
        assert cells == [f"{figure:,}" for figure in wanted]
        before = len(pairs)
    page.click(rows[2].find_element(By.TAG_NAME, "button"))
    page.expect(data, 0.9)
    page.until(lambda: rows[2].get_attribute("aria-current") == "true")
    page.click(rows[6].find_elements(By.TAG_NAME, "td")[1])
    page.expect(data, 0.7)


def test_the_suggestion_is_said_and_left_again(page: Page) -> None:
    why = "the step to 0.85 makes one group of 40 rows, where the largest had 6"
    data = people(60, why=why, suggested=0.9)
    page.open(data)
    page.expect(data, 0.8)
    assert "Suggested is at least 0.9: the step to 0.85" in page.id("why").text
    assert "▲" in page.texts(".suggested")[0]
    page.click(page.id("asked"))
    page.expect(data, 0.9)
    page.click(page.id("back"))
    page.expect(data, 0.8)


def test_two_tables(page: Page) -> None:
    data = linked()
    page.open(data)
    for threshold in [0.8, 0.65, 0.95]:
        page.type(page.id("exact"), str(threshold))
        page.expect(data, threshold)
    page.click(page.id("tab-groups"))
    groups = groups_of(within(data, 0.95), 40)
    assert page.texts(".group h3") == [f"Group of {len(rows)} rows" for rows in groups][:20]
    assert set(page.texts(".group .fate")) == {"left.csv", "right.csv"}
    assert page.id("use").text.startswith("simjoin evaluate links.csv ")


def test_distances(page: Page) -> None:
    data = distances()
    page.open(data)
    page.expect(data, 1)
    assert page.id("exact-label").text == "Distance at most"
    for key, threshold in [(Keys.ARROW_RIGHT, 2), (Keys.END, 3), (Keys.HOME, 0)]:
        page.id("slider").send_keys(key)
        page.expect(data, threshold)
    inside = sum(float(bar.get_attribute("height")) > 0 for bar in page.all("#histogram .in"))
    assert inside == 1


def test_bars_within_the_threshold_are_coloured(page: Page) -> None:
    page.open(people(150))
    bars = "[...document.querySelectorAll('#histogram .in')]"
    coloured = page.js(f"return {bars}.map((e) => +e.height.baseVal.value > 0)")
    # From the threshold, in the middle, up.
    half = len(coloured) // 2
    assert coloured == [False] * half + [True] * (len(coloured) - half)
    centre = """
        const box = document.querySelector(arguments[0]).getBoundingClientRect();
        return box.left + box.width / 2;
        """
    assert abs(page.js(centre, "#line") - page.js(centre, ".plot")) < 1


# ---- Pairs ----


def border(data: dict, at: float) -> list[float]:
    return sorted(round(abs(score - at), 6) for score in data["pairs"]["score"])


def test_pairs_are_ordered_and_paged(page: Page) -> None:
    data = people(150)
    page.open(data)
    scores, count = data["pairs"]["score"], len(data["pairs"]["score"])
    near = border(data, 0.8)
    assert [round(abs(scores[p] - 0.8), 6) for p in page.cards()] == near[:25]
    page.click(page.all("#pairs-pager button")[1])
    assert [round(abs(scores[p] - 0.8), 6) for p in page.cards()] == near[25:50]
    assert page.focused() == page.cards()[0]
    page.press("]")
    assert [round(abs(scores[p] - 0.8), 6) for p in page.cards()] == near[50:75]
    page.press("[", "[", "[")
    assert page.id("pairs-shown").text == f"1 to 25 of {count:,} pairs"
    page.choose("pairs-order", "best")
    assert page.cards() == list(range(25))
    page.choose("pairs-order", "weakest")
    assert page.cards() == list(range(count - 1, count - 26, -1))
    page.type(page.all("#pairs-pager input")[0], "999")
    assert page.cards()[-1] == 0


def test_the_list_follows_the_threshold(page: Page) -> None:
    data = people(100)
    page.open(data)
    page.id("slider").send_keys(Keys.END)
    page.until(lambda: page.cards() == list(range(25)))
    page.choose("pairs-side", "within")
    wanted = len(within(data, 1))
    assert len(page.cards()) == min(25, wanted)


def test_search_and_filters(page: Page) -> None:
    data = people(100, labels=[[0, 1, "yes"], [1, 0, "no"]])
    page.open(data)
    rows = data["tables"][0]
    texts = ["\n".join(str(c[i]) for c in rows["cells"]).lower() for i in range(len(rows["ids"]))]
    pairs = list(zip(data["pairs"]["left"], data["pairs"]["right"], strict=True))
    wanted = [p for p, (i, j) in enumerate(pairs) if "okafor" in texts[i] or "okafor" in texts[j]]
    page.choose("pairs-order", "best")
    page.search("pairs", "OKAFOR")
    page.until(lambda: page.cards() == wanted[:25])
    assert page.focused() == wanted[0]
    page.search("pairs", "no such text")
    page.until(lambda: "No pairs match" in page.texts("#pairs-list .empty")[0])
    page.search("pairs", " ")
    page.choose("pairs-mark", "any")
    # The later of two labels of a pair holds, whatever the order of its rows.
    page.until(lambda: len(page.cards()) == 1)
    assert pairs[page.cards()[0]] == (0, 1)
    assert "marked no" in page.all(".card")[0].get_attribute("aria-label")
    page.choose("pairs-mark", "none")
    page.until(lambda: f"of {len(pairs) - 1:,} pairs" in page.id("pairs-shown").text)


def test_differences_are_marked(page: Page) -> None:
    rows = [
        [1, "Jon Smith, Bonn", None],
        [2, "John Smith, Köln", "x"],
        [3, "a " * 1500 + "end", ""],
        [4, "b " + "a " * 1500 + "ends", ""],
    ]
    pairs = [(0, 1, 0.9), (2, 3, 0.7)]
    page.open(report([table(rows, ["id", "name", "note"])], pairs))
    first, second = page.all(".card")
    values = first.find_elements(By.CSS_SELECTOR, ".values dd")
    marked = [
        [(m.text, m.get_attribute("class")) for m in v.find_elements(By.TAG_NAME, "mark")]
        for v in values
    ]
    assert marked == [
        [("Jo", ""), ("n", ""), ("Bonn", "changed")],
        [("Jo", ""), ("h", "changed"), ("n", ""), ("Köln", "changed")],
    ] or marked == [
        [("Jon", ""), ("Bonn", "changed")],
        [("Jo", ""), ("h", "changed"), ("n", ""), ("Köln", "changed")],
    ]
    assert [value.text for value in values] == ["Jon Smith, Bonn", "John Smith, Köln"]
    assert first.find_element(By.CSS_SELECTOR, ".rest mark .null").text == "NULL"
    assert not second.find_elements(By.CSS_SELECTOR, ".rest mark")
    assert second.find_element(By.CSS_SELECTOR, ".rest .null").text == "empty"
    # A long text is compared by tokens only.
    long = second.find_elements(By.CSS_SELECTOR, ".values dd")
    assert [m.text for m in long[0].find_elements(By.TAG_NAME, "mark")] == ["end"]
    assert [m.text.strip() for m in long[1].find_elements(By.TAG_NAME, "mark")] == ["b", "ends"]


def test_parts_are_shown(page: Page) -> None:
    data = people(30)
    page.open(data)
    card = page.all(".card")[0]
    p = page.cards()[0]
    parts = data["pairs"]["parts"]
    wanted = [f"{name}{parts[name][p]:.3f}" for name in ["name", "street"]]
    assert [
        li.text.replace("\n", "") for li in card.find_elements(By.CSS_SELECTOR, ".parts li")
    ] == wanted


# ---- Marks ----


def test_marks_by_keys_last_and_are_exported(page: Page, downloads: Path) -> None:
    data = people(60, labels=[["gone", 'so, "it" is', "yes"]])
    page.open(data)
    page.press("j")
    order = page.cards()
    assert page.focused() == order[0]
    page.press("y", "n", "u", "y")
    assert page.focused() == order[4]
    page.press("k", "x")
    assert page.focused() == order[3]
    page.press(Keys.ARROW_DOWN, "n", Keys.ARROW_UP)
    assert page.focused() == order[4]
    told = "5 marked: 2 yes, 2 no, 1 unsure (1 not among these pairs)"
    assert page.id("progress").text == told
    page.reload()
    assert page.id("progress").text == told
    pairs = list(zip(data["pairs"]["left"], data["pairs"]["right"], strict=True))
    labels = [(order[0], "yes"), (order[1], "no"), (order[2], "unsure"), (order[4], "no")]
    wanted = [["left", "right", "label", "told_by"], ["gone", 'so, "it" is', "yes", "row"]]
    wanted += [[str(pairs[p][0]), str(pairs[p][1]), label, "row"] for p, label in labels]
    assert exported(page, downloads, "people.csv.labels.csv") == wanted
    assert "--labels people.csv.labels.csv" in page.id("use").text


def test_marks_by_clicks_are_toggled_and_undone(page: Page) -> None:
    page.open(people(60))
    order = page.cards()
    buttons = page.all(".card")[0].find_elements(By.CSS_SELECTOR, ".marks button")
    page.click(buttons[0])
    assert page.focused() == order[1]
    assert [b.get_attribute("aria-pressed") for b in buttons] == ["true", "false", "false"]
    page.click(buttons[1])
    assert [b.get_attribute("aria-pressed") for b in buttons] == ["false", "true", "false"]
    page.click(buttons[1])
    assert page.id("progress").text == "Nothing is marked yet"
    page.press("z")
    assert page.id("progress").text == "1 marked: 0 yes, 1 no, 0 unsure"
    assert page.focused() == order[0]
    page.press("z", "z", "z")
    assert page.id("progress").text == "Nothing is marked yet"
    assert page.id("undo").get_attribute("disabled")


def test_a_known_mark_stays_cleared(page: Page) -> None:
    page.open(people(60, labels=[[0, 1, "yes"]]))
    page.choose("pairs-mark", "yes")
    page.click(page.all(".card .score")[0])
    page.press("x")
    assert page.id("progress").text == "Nothing is marked yet"
    page.reload()
    assert page.id("progress").text == "Nothing is marked yet"
    page.press("j", "y", "j")
    page.open(people(60, seed=2))
    assert page.id("progress").text == "Nothing is marked yet"


def test_keys_can_be_switched_off(page: Page) -> None:
    page.open(people(60))
    page.press("?")
    page.click(page.id("keys-on"))
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.js("return document.getElementById('help').open"))
    page.press("j", "y", "?")
    assert page.id("progress").text == "Nothing is marked yet"
    assert not page.js("return document.getElementById('help').open")


def test_marking_goes_on_over_the_end_of_a_page(page: Page) -> None:
    page.open(people(60))
    first = page.cards()
    page.press("j", *["n"] * 25)
    assert page.id("progress").text.startswith("25 marked: 0 yes, 25 no")
    assert page.focused() == page.cards()[0] != first[0]
    page.press("k")
    assert page.focused() == first[-1]


def test_marks_are_imported(page: Page, tmp_path: Path, downloads: Path) -> None:
    rows = [['a,"1"', "x", 1], ["b\nb", "x", 2], ["", "x", 3], [" c ", "x", 4]]
    page.open(report([table(rows, ["id", "name", "n"])], [(0, 1, 0.9), (1, 2, 0.8), (2, 3, 0.7)]))
    file = tmp_path / "marks.csv"
    lines = [["right", "label", "left"], [rows[0][0], "YES", rows[1][0]]]
    lines += [[rows[2][0], "no", rows[1][0]], [rows[3][0], "maybe", rows[2][0]]]
    with file.open("w", newline="", encoding="utf-8-sig") as out:
        csv.writer(out).writerows(lines)
    page.id("file").send_keys(str(file))
    page.until(lambda: "2 marks read, 2 of them new" in page.id("progress").text)
    assert "1 line without yes, no or unsure skipped" in page.id("progress").text
    pressed = page.js(
        "return [...document.querySelectorAll('[aria-pressed=true]')].map((e) => e.textContent)"
    )
    assert sorted(pressed) == ["No", "Yes"]
    wanted = [["left", "right", "label", "told_by"], [rows[1][0], rows[0][0], "yes", "row"]]
    wanted += [[rows[1][0], rows[2][0], "no", "row"]]
    assert exported(page, downloads, "people.csv.labels.csv") == wanted
    page.press("z")
    assert page.id("progress").text == "Nothing is marked yet"
    file.write_text("a,b\n1,2\n")
    page.id("file").send_keys(str(file))
    page.until(lambda: "no columns left, right and label" in page.id("progress").text)


def test_precision_is_estimated_live(page: Page) -> None:
    pairs = [(i, i + 1, 0.95 - i / 20) for i in range(6)]
    rows = [[i, f"name {i}", 0] for i in range(7)]
    labels = [[0, 1, "yes"], [1, 2, "no"], [3, 2, "yes"], [3, 4, "unsure"], [4, 5, "yes"]]
    labels += [[0, 6, "yes"]]
    page.open(report([table(rows, ["id", "name", "n"])], pairs, labels=labels))
    assert page.figures()["Precision, by marks"] == "66.7 %"
    assert page.figures()["Missed, by marks"] == "2"
    page.id("slider").send_keys(Keys.HOME)
    page.until(lambda: page.figures()["Precision, by marks"] == "75.0 %")
    assert page.figures()["Missed, by marks"] == "1"
    page.until(lambda: len(page.all(".card.within")) == 6)
    page.click(page.all(".card")[0].find_elements(By.TAG_NAME, "button")[1])
    page.until(lambda: page.figures()["Precision, by marks"] == "60.0 %")


def test_marks_go_on_without_storage(page: Page) -> None:
    blocked = page.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {"source": "Object.defineProperty(window, 'localStorage', {get() { throw Error('no'); }})"},
    )
    try:
        page.open(people(30))
        assert "keeps no marks" in page.id("kept-where").text
        page.press("j", "y")
        assert page.id("progress").text == "1 marked: 1 yes, 0 no, 0 unsure"
        page.press("z")
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", blocked)


# ---- Groups ----


def test_groups_are_those_of_a_count(page: Page) -> None:
    data = people(60)
    page.open(data)
    page.click(page.id("tab-groups"))
    assert not page.all("#pairs-list > li")
    pairs = within(data, 0.8)
    groups = groups_of(pairs)
    assert page.texts(".group h3") == [f"Group of {len(rows)} rows" for rows in groups[:20]]
    dropped = dropped_rows(data, pairs)
    fates = page.texts(".group .fate")
    wanted = [row in dropped for rows in groups[:20] for row in rows]
    assert [fate.startswith("dropped for ") for fate in fates] == wanted
    page.press("]")
    assert page.texts(".group h3") == [f"Group of {len(rows)} rows" for rows in groups[20:40]]
    page.choose("groups-order", "first")
    first = min(groups, key=lambda rows: rows[0])
    assert page.texts(".group .name")[: len(first)] == [f"row {row}" for row in first]
    page.choose("groups-order", "weakest")
    weakest = min(score for *_, score in pairs)
    assert page.texts(".group .facts")[0].endswith(f"weakest link {weakest:.4f}")
    page.search("groups", "kowalski")
    names = data["tables"][0]["cells"][1]
    hits = [rows for rows in groups if any("kowalski" in names[row].lower() for row in rows)]
    page.until(lambda: len(page.all(".group")) == min(20, len(hits)))


def test_bridges_hold_a_group_together(page: Page) -> None:
    # Two triangles with a bridge, and a tail.
    links = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5), (5, 6)]
    pairs = [(i, j, 0.95 - n / 100) for n, (i, j) in enumerate(links)]
    rows = [[f"r{i}", f"name {i}", 0] for i in range(8)]
    page.open(report([table(rows, ["id", "name", "n"])], [*pairs, (0, 7, 0.65)]))
    page.click(page.id("tab-groups"))
    page.click(page.all(".group > button")[0])
    assert page.cards() == list(range(7, -1, -1))
    held = page.js(
        "return [...document.querySelectorAll('[data-bridge]')].map((e) => +e.dataset.pair)"
    )
    assert [links[p] for p in held] == [(5, 6), (2, 3)]
    page.press("j", "n", "y")
    assert page.focused() == 5
    assert page.id("progress").text == "2 marked: 1 yes, 1 no, 0 unsure"
    page.click(page.all(".group > button")[0])
    assert page.all(".group > button")[0].get_attribute("aria-expanded") == "false"


def test_a_large_group_shows_its_beginning(page: Page) -> None:
    rows = [[i, f"name {i}", 0] for i in range(301)]
    page.open(report([table(rows, ["id", "name", "n"])], [(0, i, 0.9) for i in range(1, 301)]))
    page.click(page.id("tab-groups"))
    assert len(page.all(".rows > li")) == 200
    page.click(page.all(".group > button")[0])
    assert len(page.all(".rows > li")) == 301
    page.click(page.all(".group > button")[0])
    assert len(page.cards()) == 100
    page.click(page.all(".reasons > button")[0])
    assert len(page.cards()) == 200


# ---- The page as a whole ----


def test_hostile_cells_are_texts(page: Page) -> None:
    data = hostile()
    page.open(data)
    assert page.id("title").text == HOSTILE[0]
    page.choose("pairs-order", "best")
    page.press("j", "y")
    shown = "".join(page.texts("#pairs-list"))
    assert all(text in shown for text in HOSTILE)
    assert "10,000 characters more" in shown
    page.click(page.id("tab-groups"))
    page.click(page.all(".group > button")[0])
    assert all(text in "".join(page.texts("#groups-list")) for text in HOSTILE)
    page.press("j", "n", "z")
    assert page.js("return window.hacked") is None
    assert page.js("return document.querySelectorAll('img, main svg:not(#histogram)').length") == 0
    assert page.js("return document.scripts.length") == 2


def test_no_pairs(page: Page) -> None:
    empty = table([], ["id", "name"])
    page.open(report([empty], [], best=None))
    assert (
        "No pairs were found. To find more, lower the threshold (0.6)" in page.id("pairs-list").text
    )
    page.expect(report([empty], []), 0.8)
    page.press("j", "y", "z", "]")
    page.click(page.id("tab-groups"))
    assert "No pairs were found" in page.id("groups-list").text


def test_pairs_left_out_are_told(page: Page) -> None:
    data = people(30, left_out=1234)
    page.open(data)
    assert page.id("left-out").text.startswith("1,234 weaker pairs were left out")
    page.open(people(30))
    assert not page.id("left-out").is_displayed()


def test_the_command_is_shown_and_copied(page: Page) -> None:
    data = people(30)
    page.open(data)
    assert not page.id("sql").is_displayed()
    page.click(page.all("summary")[0])
    assert page.id("sql").text == data["sql"]
    assert page.id("made").text == "Made 2026-11-30 18:40 UTC."
    page.click(page.all("[data-copy=command]")[0])
    page.until(lambda: page.id("live").get_attribute("textContent") == "Copied")
    page.press("/", Keys.CONTROL + "v")
    page.until(lambda: page.id("pairs-search").get_attribute("value") == data["command"])


def test_every_control_has_a_name(page: Page) -> None:
    page.open(people(60, why="so"))
    page.click(page.id("tab-groups"))
    page.click(page.all(".group > button")[0])
    page.press("?")
    assert page.js("return document.getElementById('help').open")
    page.driver.execute_cdp_cmd("Accessibility.enable", {})
    nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = {"button", "spinbutton", "slider", "searchbox", "combobox", "checkbox", "tab", "dialog"}
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.js("return document.getElementById('help').open"))
    nodes += page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = [node for node in nodes if node.get("role", {}).get("value") in roles]
    seen = Counter(node["role"]["value"] for node in controls)
    assert set(seen) == roles, seen
    assert [node for node in controls if not node.get("name", {}).get("value")] == []
    for name in ["pairs", "groups"]:
        panel, tab = page.id(f"panel-{name}"), page.id(f"tab-{name}")
        assert panel.get_attribute("aria-labelledby") == tab.get_attribute("id")


def test_tabs_and_search_by_keys(page: Page) -> None:
    page.open(people(60))
    page.id("tab-pairs").send_keys(Keys.ARROW_RIGHT)
    assert page.js("return document.activeElement.id") == "tab-groups"
    assert page.all(".group") and not page.id("panel-pairs").is_displayed()
    page.press(Keys.ARROW_LEFT, "/")
    assert page.js("return document.activeElement.id") == "pairs-search"
    page.press("yn?j")
    assert page.id("progress").text == "Nothing is marked yet"
    assert page.id("pairs-search").get_attribute("value") == "yn?j"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("make", [people, linked, distances, hostile])
def test_a_narrow_page_does_not_scroll_sideways(page: Page, make: Any, scheme: str) -> None:
    page.scheme(scheme)
    page.size(360, 800)
    page.open(make(60, why="so") if make is people else make())
    for details in page.all("details"):
        page.click(details.find_element(By.TAG_NAME, "summary"))
    fits = "return document.documentElement.scrollWidth <= innerWidth"
    assert page.js(fits)
    page.click(page.id("tab-groups"))
    for opens in page.all(".group > button")[:1]:
        page.click(opens)
    assert page.js(fits)
    assert low_contrast(page) == []


def low_contrast(page: Page) -> list[str]:
    """Gives texts whose contrast with what is behind them is less than that of WCAG's AA."""
    return page.js(
        """
        const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const light = (colour) => numbers(colour).slice(0, 3).map((c) => c / 255)
          .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
          .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (e) => {
          for (; e; e = e.parentElement) {
            const colour = getComputedStyle(e).backgroundColor;
            if (!/, 0\\)$/.test(colour)) return colour;
          }
          return 'rgb(255, 255, 255)';
        };
        const found = new Set();
        for (const e of document.querySelectorAll('body *')) {
          const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
          if (!own || !e.checkVisibility()) continue;
          if (e.matches(':disabled, script, title, option')) continue;
          const [x, y] = [light(getComputedStyle(e).color), light(behind(e))];
          if ((Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05) < 4.5)
            found.add(e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 40));
        }
        return [...found];
        """
    )


# ---- Speed, and pictures ----


def big() -> dict[str, Any]:
    """Makes the largest page that is meant: 100,000 pairs, 30,000 groups of 70,000 rows."""
    rng = random.Random(2)
    rows: list[list] = []
    pairs: set[tuple[int, int]] = set()
    for size, count in [(2, 26_000), (3, 3_900), (63, 100)]:
        for _ in range(count):
            base, first = person(rng, len(rows)), len(rows)
            rows.append(base)
            rows += [altered(rng, base, first + i) for i in range(1, size)]
            pairs |= {(first + i, first + i + 1) for i in range(size - 1)}
    while len(pairs) < 100_000:
        first = 63_700 + 63 * rng.randrange(100)
        pairs.add(tuple(sorted(first + place for place in rng.sample(range(63), 2))))
    columns = ["id", "name", "street", "city", "born"]
    rank = rng.sample(range(len(rows)), len(rows))
    scored = [(*pair, round(1 - 0.4 * rng.random() ** 0.6, 6)) for pair in sorted(pairs)]
    return report([table(rows, columns, compared=[1, 2], rank=rank)], scored)


#: Does something and gives the milliseconds up to the end of the next frame.
MEASURE = """
const done = arguments[arguments.length - 1], act = new Function(arguments[0]);
const start = performance.now();
act();
requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done(performance.now() - start);
  channel.port2.postMessage(0);
});
"""


def measure(page: Page) -> None:
    data = big()
    opened = []
    for _ in range(7):
        page.open(data)
        opened.append(float(page.js("return document.documentElement.dataset.ready")))
    groups = len(groups_of(within(data, 0)))
    print(
        f"{len(data['pairs']['score']):,} pairs, {len(data['tables'][0]['ids']):,} rows", end=", "
    )
    print(f"{groups:,} groups, {page.file.stat().st_size / 1e6:.1f} MB")
    print(f"open: {statistics.median(opened):.0f} ms (worst {max(opened):.0f})")
    slider = "document.getElementById('slider')"
    moved = (
        f"{slider}.value = 0.6 + Math.random() * 0.4; {slider}.dispatchEvent(new Event('input'))"
    )
    search = "document.getElementById('{0}-search')"
    ordered = "document.getElementById('{0}-order').dispatchEvent(new Event('change'))"
    typed = f"{search}.value = '{{1}}'; {ordered}"
    marked = "document.getElementById('pairs-mark')"
    for name, script, pause in [
        ("slider", moved, 0.4),
        ("next page of pairs", "document.querySelectorAll('#pairs-pager button')[1].click()", 0.1),
        ("mark", "document.querySelectorAll('.card .marks button')[0].click()", 0.1),
        ("search pairs", typed.format("pairs", "okafor"), 0.1),
        ("order pairs", typed.format("pairs", ""), 0.1),
        ("unmarked pairs only", f"{marked}.value = 'none'; {ordered.format('pairs')}", 0.1),
        ("tab of groups", "document.getElementById('tab-groups').click()", 0.1),
        (
            "next page of groups",
            "document.querySelectorAll('#groups-pager button')[1].click()",
            0.1,
        ),
        ("slider, with groups", moved, 0.4),
        ("search groups", typed.format("groups", "okafor"), 0.1),
    ]:
        times = []
        for _ in range(11):
            times.append(page.driver.execute_async_script(MEASURE, script))
            time.sleep(pause)
        print(f"{name}: {statistics.median(times):.0f} ms (worst {max(times):.0f})")


def pictures(page: Page, folder: Path) -> None:
    why = "the step to 0.75 makes one group of 40 rows, where the largest had 6"
    page.open(people(800, why=why, left_out=1234))
    for scheme in ["light", "dark"]:
        for width, height in [(1600, 1000), (360, 800)]:
            page.scheme(scheme)
            page.size(width, height)
            page.reload()
            page.press("j", "y", "n", "u")
            page.js("scrollTo(0, 0)")
            page.driver.save_screenshot(str(folder / f"{scheme}-{width}.png"))
            page.js("document.getElementById('pairs-shown').scrollIntoView()")
            page.driver.save_screenshot(str(folder / f"{scheme}-{width}-pairs.png"))
            page.click(page.id("tab-groups"))
            page.click(page.all(".group > button")[0])
            page.js("document.getElementById('groups-shown').scrollIntoView()")
            page.driver.save_screenshot(str(folder / f"{scheme}-{width}-groups.png"))
            page.press("?")
            page.driver.save_screenshot(str(folder / f"{scheme}-{width}-help.png"))
            page.js("localStorage.clear()")


if __name__ == "__main__":
    shots = Path("/tmp/report-shots")
    shots.mkdir(exist_ok=True)
    browser = start(shots)
    try:
        if "--pictures" in sys.argv:
            pictures(Page(browser, shots), shots)
        else:
            measure(Page(browser, shots))
    finally:
        browser.quit()

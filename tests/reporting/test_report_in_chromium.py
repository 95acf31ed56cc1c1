"""Reports in a real browser: what is read there, no errors, no requests, nothing too wide."""

import json
import re
import shutil
import subprocess

import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from tests.fixtures.curve_tables import logged, scheduled
from tests.fixtures.studies import a_profile, a_study

pytest.importorskip("matplotlib")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.full,
    pytest.mark.usefixtures("closed"),
]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--allow-file-access-from-files", "--enable-logging=stderr",
    "--virtual-time-budget=4000", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
# Measures a page at a width as nothing on the page itself may: the page runs its own scripts alone.
RULER = """<!DOCTYPE html><title>ruler</title><body><script>
for (const width of [400, 1200]) {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 800; frame.src = "page.html";
  frame.onload = () => {
    const found = document.createElement("p");
    const page = frame.contentDocument;
    found.textContent = width + " " + page.documentElement.scrollWidth;
    document.body.append(found);
    for (const one of page.querySelectorAll(".wide")) if (one.scrollWidth > one.clientWidth) {
      const table = document.createElement("pre");
      const moves = frame.contentWindow.getComputedStyle(one).overflowX;
      table.textContent = width + " " + moves + " " + one.getAttribute("aria-label");
      document.body.append(table);
    }
  };
  document.body.append(frame);
}
</script></body>"""


@pytest.fixture(scope="module", params=["fit", "study", "curves"])
def opened(request, tmp_path_factory):
    """The page's folder, its DOM as Chromium has it, the log, the network's log."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "fit":
        fit = request.getfixturevalue("chinchilla_fit")
        runs = simulate.experiment("chinchilla", noise=0.004).table
        plans = [planning.allocation(fit, 1e21), a_profile(fit)]
        jl.report(fit, folder / "page.html", runs=runs, plans=plans)
    elif request.param == "curves":
        curves = jl.read_loss_curves(scheduled(logged()))
        fit = jl.fit("annealing", curves, n_starts=64, n_local=8)
        jl.report(fit, folder / "page.html", runs=curves)
    else:
        jl.report(a_study(), folder / "page.html")
    net = folder / "net.json"
    done = chromium(folder, "page.html", f"--log-net-log={net}", "--dump-dom")
    return request.param, folder, done, net


def chromium(folder, page, *arguments):
    return subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *arguments,
         (folder / page).as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip


def test_the_console_is_silent(opened):
    assert [line for line in opened[2].stderr.splitlines() if "CONSOLE" in line] == []


def asked(log):
    """Addresses a page asked for; Chromium's own calls have no page that began them."""
    events = (event.get("params", {}) for event in json.loads(log.read_text())["events"])
    return {
        params["url"]
        for params in events
        if params.get("initiator", "").startswith(("file:", "null"))
        and not params["url"].startswith(("file:", "data:"))
    }


def test_nothing_is_fetched_from_the_net(opened):
    assert asked(opened[3]) == set()


def test_a_page_that_asks_is_seen(tmp_path):
    (tmp_path / "asks.html").write_text('<img src="http://127.0.0.1:9/dot.png">')
    chromium(tmp_path, "asks.html", f"--log-net-log={tmp_path / 'net.json'}", "--dump-dom")
    assert asked(tmp_path / "net.json") == {"http://127.0.0.1:9/dot.png"}


@pytest.mark.full
def test_nothing_is_wider_than_the_window(opened):
    _, folder, _, _ = opened
    (folder / "ruler.html").write_text(RULER)
    seen = chromium(folder, "ruler.html", "--dump-dom").stdout
    found = {int(a): int(b) for a, b in re.findall(r"<p>(\d+) (\d+)</p>", seen)}
    assert found.keys() == {400, 1200}
    assert all(wide <= width for width, wide in found.items())
    # A table that is wider than its page scrolls; on a desk's screen only that of all folds is.
    wider = re.findall(r"<pre>(\d+) (\w+) (.*?)</pre>", seen)
    assert {moves for _, moves, _ in wider} == {"auto"}
    assert {table for width, _, table in wider if width == "1200"} <= {"Every fold"}

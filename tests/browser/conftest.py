"""A browser for the tests of pages; the tests are skipped, with the reason, where there is none."""

import os
import shutil

import pytest

# Switches without which Chromium asks its maker for updates and lists.
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium without a window, driven by playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: browser)")
    path = os.environ.get("DMLRANK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium on PATH")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(SWITCHES))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a result's page in a window of its own; afterwards, the page must have been silent and asked for nothing."""
    contexts, messages, requests = [], [], []

    def open_(reportable, width=1280, height=900, **options):
        path = tmp_path / f"page{len(contexts)}.html"
        of_page = ("title", "source", "unit", "links", "group")
        reportable.report(path, **{name: options.pop(name) for name in of_page if name in options})
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.on("dialog", lambda dialog: messages.append(f"dialog: {dialog.message}"))
        page.goto(path.as_uri())
        page.address = path.as_uri()
        return page

    yield open_
    for context in contexts:
        context.close()
    assert messages == []
    outside = [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
    assert len([url for url in requests if url.startswith("file:")]) == len(contexts)

"""A real Chromium without a window, for tests of the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

selenium = pytest.importorskip("selenium", reason="needs the extra dev")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 120
"""Seconds for which anything is waited for."""


class Page:
    """The page in a browser: what is on it, and what a person does with it."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, fragment: str = "") -> None:
        """Load the page anew."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{fragment}")
        self.until(lambda: self.text("model"))

    def get(self, id: str) -> WebElement:
        return self.driver.find_element(By.ID, id)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, id: str) -> str:
        """Return the text of an element, with spaces and line breaks as they are."""
        return str(self.script("return document.getElementById(arguments[0]).textContent", id))

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.script(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
        )
        return found

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def command(self, name: str, **options: Any) -> None:
        """Tell the browser something of its own."""
        self.driver.execute_cdp_cmd(name, options)

    def until(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, PATIENCE, poll_frequency=0.1).until(lambda _: condition())

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, id: str, *, back: bool = False) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(60):
            if self.script("return document.activeElement.id") == id:
                return
            self.tab(back=back)
        raise AssertionError(f"Tab does not reach {id}")

    def tab(self, *, back: bool = False) -> None:
        chain = ActionChains(self.driver)
        if back:
            chain.key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        else:
            chain.send_keys(Keys.TAB).perform()

    def set(self, **options: str) -> None:
        """Fill in settings."""
        self.script("document.getElementById('settings').open = true")
        for name, value in options.items():
            field = self.all(f"#options [name={name}]")[0]
            field.clear()
            field.send_keys(value)

    def ask(self, message: str) -> None:
        """Send a message and wait for the answer's end."""
        self.get("message").send_keys(message)
        self.get("send").click()
        self.answered()

    def answered(self) -> None:
        self.until(lambda: "The answer has" in self.text("status") and self.get("send").is_enabled())

    def visited(self) -> set[str]:
        """Return the hosts that the browser has asked for anything since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        urls = [each["request"]["url"] for each in sent]
        return {f"{part.scheme}://{part.netloc}" for part in map(urlsplit, urls)}

    def complaints(self) -> list[str]:
        """Return what the browser complained of since the last call: errors, policies that were broken."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def browsing(url: str) -> Iterator[Page]:
    """Open a browser, or skip the test where there is none."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    service = shutil.which("chromedriver")
    if browser is None or service is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "no-proxy-server"):
        options.add_argument(f"--{argument}")
    options.add_argument("--disable-background-networking")
    options.add_argument("--window-size=1200,1000")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    try:
        yield Page(driver, url)
    finally:
        driver.quit()

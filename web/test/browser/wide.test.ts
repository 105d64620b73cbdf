// Screens of every width are used: panels reach the edge, charts grow with the window, tables have more columns where there is room.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { openDaemon, type Daemon } from "./daemon";
import { live, open, openBrowser } from "./page";

let daemon: Daemon, browser: Browser;
before(async () => {
  daemon = await openDaemon();
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

const sizes = [[1280, 800], [1920, 1080], [3840, 2160]] as const;
const heads = (page: Page): Promise<string[]> => page.locator("table[data-name=workloads] thead th:visible").allInnerTexts();

test("panels reach the edge of any window, and nothing beside a table needs scrolling sideways", async () => {
  for (const [width, height] of sizes) {
    const { page, close } = await open(browser, daemon, "/", { operator: true, viewport: { width, height } });
    for (const path of ["/", "/timeline", "/map", "/recordings", "/events", "/tenants", "/reports", "/queue", "/health"]) {
      await page.goto(daemon.url + path);
      await live(page);
      // A page's panels come one by one.
      await page.waitForFunction((edge) => [...document.querySelectorAll(".panel, .device")].some((panel) => panel.getBoundingClientRect().right > edge), width - 48)
        .catch(() => assert.fail(`the panels of ${path} do not reach the edge at ${width}`));
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, `${path} at ${width}`);
    }
    await close();
  }
});

test("the table of workloads has as many columns as fit, and what to do with a workload is always in sight", async () => {
  for (const [width, height] of sizes) {
    const { page, close } = await open(browser, daemon, "/", { operator: true, viewport: { width, height } });
    await live(page);
    const table = page.locator(".table-scroll:has(table[data-name=workloads])");
    const { shown, whole, menu } = await table.evaluate((element) => {
      const button = element.querySelector(".row-menu")?.getBoundingClientRect();
      return { shown: element.clientWidth, whole: element.scrollWidth, menu: button && button.width > 0 && button.right <= element.getBoundingClientRect().right };
    });
    // A name may be longer than a narrow window has room for.
    if (width >= 1920) assert.ok(whole <= shown, `at ${width} the table is ${whole} wide, and ${shown} are shown`);
    assert.ok(menu, `at ${width} the menu is out of sight`);
    assert.equal((await heads(page)).includes("Labels"), width >= 1920, `Labels at ${width}`);
    await close();
  }
});

test("a chart that a page is about is as high as the window has room", async () => {
  for (const [width, height] of sizes) {
    const { page, close } = await open(browser, daemon, "/timeline", { operator: true, viewport: { width, height } });
    await live(page);
    const chart = page.locator("#chart canvas, [aria-labelledby=chart] canvas").first();
    await chart.waitFor();
    const box = await chart.boundingBox();
    assert.ok(box && box.height > 0.55 * height && box.y + box.height < height, `at ${height} it is ${box?.height} high, from ${box?.y} on`);
    await close();
  }
});

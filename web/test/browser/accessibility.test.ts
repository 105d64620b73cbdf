// axe-core on every page, in both themes, wide and narrow; and what axe does not see: nothing is wider than the page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { openDaemon, snapshotOf, type Daemon } from "./daemon";
import { live, open, openBrowser } from "./page";

const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
let daemon: Daemon, browser: Browser, workload = "";
before(async () => {
  daemon = await openDaemon();
  browser = await openBrowser();
  workload = (await snapshotOf(daemon)).workloads.find((row) => row.governed && row.workload)?.workload ?? "";
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

interface Violation {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

async function violations(page: Page): Promise<string[]> {
  // Through the debugger, as the page's policy forbids other scripts.
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const runner = (window as unknown as { axe: { run: (root: Document, options: object) => Promise<{ violations: Violation[] }> } }).axe;
    return (await runner.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"] })).violations;
  });
  return found.filter((one) => one.impact === "serious" || one.impact === "critical").flatMap((one) => one.nodes.slice(0, 3).map((node) => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 240)}`));
}

const places = ["/", "/timeline", "/timeline?as=table", "/workloads/", "/map", "/recordings", "/recordings/train.rec", "/recordings/train.rec?with=after.rec", "/events", "/events?type=denied&event=", "/tenants", "/reports", "/queue", "/health"];

for (const theme of ["light", "dark"] as const) {
  for (const width of [1440, 400]) {
    test(`axe finds nothing serious: ${theme}, ${width} pixels`, async () => {
      const { page, close } = await open(browser, daemon, "/", { operator: true, colorScheme: theme, viewport: { width, height: 900 } });
      const found: string[] = [];
      for (const place of places) {
        const event = place.endsWith("event=") ? await page.locator("[data-event]").first().getAttribute("data-event") : "";
        await page.goto(daemon.url + (place === "/workloads/" ? `/workloads/${workload}` : place + event));
        await live(page);
        await page.locator(".panel, .device").first().waitFor();
        if (place.startsWith("/timeline") && !place.includes("table")) await page.locator(".uplot").waitFor();
        await page.waitForLoadState("domcontentloaded");
        found.push(...(await violations(page)).map((one) => `${place} ${one}`));
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (overflow > 0) found.push(`${place} is ${overflow} pixels wider than the window`);
      }
      assert.deepEqual(found, []);
      await close();
    });
  }
}

test("dialogs: axe, Escape, and the focus comes back", async () => {
  const { page, close } = await open(browser, daemon, "/");
  await live(page);
  const opener = page.getByRole("button", { name: "Enter token" });
  await opener.press("Enter");
  await page.locator("dialog[open]").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Enter token");
  await page.keyboard.press("?");
  await page.locator("dialog[open]").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.getByLabel("Single keys are on").uncheck();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("2");
  assert.equal(new URL(page.url()).pathname, "/");
  await close();
});

test("the palette and the dialog of an action: axe, in both themes, narrow as well", async () => {
  for (const options of [{ colorScheme: "light" as const }, { colorScheme: "dark" as const, viewport: { width: 400, height: 900 } }]) {
    const { page, close } = await open(browser, daemon, "/", { operator: true, ...options });
    await live(page);
    await page.keyboard.press("Control+k");
    await page.getByRole("option").first().waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.type(`stop ${workload}`);
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: `Stop ${workload}` }).waitFor();
    assert.deepEqual(await violations(page), []);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
    await close();
  }
});

test("at 320 pixels, as at 400 per cent zoom, nothing needs scrolling sideways but tables", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true, viewport: { width: 320, height: 640 } });
  await live(page);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320);
  await page.getByRole("button", { name: "Now" }).click();
  await page.getByRole("link", { name: "Health" }).click();
  await page.getByRole("heading", { name: "Health", level: 1 }).waitFor();
  await close();
});

test("forced colours and reduced motion are obeyed", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true, forcedColors: "active", reducedMotion: "reduce" });
  await live(page);
  const segment = page.locator(".segment").first();
  assert.equal(await segment.evaluate((element) => getComputedStyle(element).forcedColorAdjust), "none");
  assert.equal(await segment.evaluate((element) => getComputedStyle(element).transitionDuration), "0s");
  await close();
});

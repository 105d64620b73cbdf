// What a browser without a token shows: totals only, unless `[http] anonymous = "all"` widens it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { openDaemon, snapshotOf, type Daemon } from "./daemon";
import { live, open, openBrowser, type Opened } from "./page";

const pages = ["/", "/timeline", "/map", "/recordings", "/events", "/tenants", "/reports", "/queue", "/health"];
const notice = "This page shows totals only";

let daemon: Daemon, browser: Browser, names: string[];
before(async () => {
  daemon = await openDaemon("totals");
  names = daemon.names;
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

/** Those of the names that the page has anywhere: in a text, an attribute, or what the daemon put into it. */
async function named({ page }: Opened): Promise<string[]> {
  const whole = await page.content();
  return names.filter((name) => whole.includes(name));
}

/** What the daemon answered while the page was opened and drawn. */
async function answers(opened: Opened, path: string): Promise<string> {
  const bodies: Promise<string>[] = [];
  opened.page.on("response", (response) => {
    if (!/event-stream/.test(response.headers()["content-type"] ?? "")) bodies.push(response.text().catch(() => ""));
  });
  await opened.page.goto(daemon.url + path);
  await live(opened.page);
  await opened.page.waitForLoadState("load");
  return (await Promise.all(bodies)).join("\n");
}

test("without a token a page shows totals only: nobody's name stands in it, nor in what the daemon answers it", async (context) => {
  if (daemon.anonymous !== "totals") return context.skip("this daemon shows all to everybody");
  for (const path of pages) {
    const opened = await open(browser, daemon, path);
    await live(opened.page);
    const told = await answers(opened, path);
    assert.deepEqual([path, await named(opened), names.filter((name) => told.includes(name))], [path, [], []]);
    if (path === "/") {
      await opened.page.getByText(notice).waitFor();
      const used = (await snapshotOf(daemon)).devices[0]?.used_bytes ?? 0;
      assert.ok(used > 0, "something is used");
      assert.match(await opened.page.locator("main").innerText(), /[\d.]+ GiB/, "the totals are there");
    }
    await opened.close();
    const plain = await open(browser, daemon, path, { javaScriptEnabled: false });
    assert.deepEqual([path, await named(plain)], [path, []]);
    await plain.close();
  }
});

test("the token shows who it is, and without it again nobody", async (context) => {
  if (daemon.anonymous !== "totals") return context.skip("this daemon shows all to everybody");
  const opened = await open(browser, daemon, "/");
  await live(opened.page);
  await opened.page.getByRole("button", { name: "Enter token" }).first().click();
  await opened.page.keyboard.type(daemon.token);
  await opened.page.keyboard.press("Enter");
  for (const name of names.slice(0, 2)) await opened.page.getByText(name).first().waitFor();
  assert.equal(await opened.page.getByText(notice).count(), 0);
  await opened.page.getByRole("button", { name: "Forget token" }).click();
  await opened.page.getByText(notice).waitFor();
  assert.deepEqual(await named(opened), []);
  await opened.close();
});

test("without a token the palette goes where totals are, and does nothing to anybody", async (context) => {
  if (daemon.anonymous !== "totals") return context.skip("this daemon shows all to everybody");
  const { page, close } = await open(browser, daemon, "/");
  await live(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("option", { name: "Health" }).waitFor();
  const kinds = await page.locator(".command-kind").allInnerTexts();
  assert.deepEqual([...new Set(kinds)], ["page", "setting"]);
  assert.deepEqual((await page.locator("[role=option]:has(.command-kind:text-is('page')) .command-label").allInnerTexts()).sort(), ["Health", "Now"]);
  await close();
});

test('with anonymous = "all" everybody sees who it is', async (context) => {
  if (daemon.anonymous !== "all") return context.skip("this daemon shows totals");
  for (const path of ["/", "/events"]) {
    const opened = await open(browser, daemon, path);
    await live(opened.page);
    await opened.page.getByText(names[0] ?? "").locator("visible=true").first().waitFor();
    assert.equal(await opened.page.getByText(notice).count(), 0);
    await opened.close();
  }
});

// The command palette: everything by a few letters and Enter, and for whoever looks only what they may do.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { WorkloadRow } from "../../src/api/types";
import { commandOf, openDaemon, snapshotOf, type Daemon } from "./daemon";
import { live, open, openBrowser } from "./page";

let daemon: Daemon, browser: Browser, row: WorkloadRow & { workload: string };
before(async () => {
  daemon = await openDaemon();
  browser = await openBrowser();
  const found = (await snapshotOf(daemon)).workloads.find((one): one is WorkloadRow & { workload: string } => one.governed === true && one.state === "running");
  assert.ok(found, "no workload runs");
  row = found;
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

const box = (page: Page) => page.getByRole("combobox");
const labels = (page: Page): Promise<string[]> => page.locator(".command-label").allInnerTexts();
const focused = (page: Page): Promise<string> => page.evaluate(() => `${document.activeElement?.tagName}#${document.activeElement?.id}`);
const chosen = (page: Page) => page.getByRole("option", { selected: true });

test("a page, a workload, a GPU and a tenant are reached by a few letters and Enter, with the keyboard alone", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  const { devices, tenants } = await snapshotOf(daemon);
  const gpu = devices[devices.length - 1]?.gpu, tenant = tenants[0]?.tenant ?? "";
  for (const [typed, path] of [["timel", "/timeline"], [row.workload, `/workloads/${row.workload}`], [`gpu ${gpu}`, `/timeline?gpu=${gpu}`], [`${tenant} tenant`, `/tenants?tenant=${tenant}`]] as const) {
    await page.keyboard.press("Control+k");
    await box(page).waitFor();
    assert.match(await focused(page), /^INPUT/);
    await page.keyboard.type(typed);
    await page.keyboard.press("Enter");
    await page.waitForURL(daemon.url + path);
    await box(page).waitFor({ state: "detached" });
    assert.equal(await focused(page), "H1#", "the new page's heading");
  }
  await close();
});

test("arrows choose, the box says which, Escape gives the focus back", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  await page.locator("#filter").focus();
  await page.keyboard.press("Control+k");
  const first = await chosen(page).innerText();
  await page.keyboard.press("ArrowDown");
  assert.notEqual(await chosen(page).innerText(), first);
  assert.equal(await box(page).getAttribute("aria-activedescendant"), await chosen(page).getAttribute("id"));
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  assert.ok(await chosen(page).isVisible(), "the last one is scrolled to");
  await page.keyboard.type("no such thing");
  await page.getByText("Nothing here has that name.").waitFor();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  await box(page).waitFor({ state: "detached" });
  assert.equal(await focused(page), "INPUT#filter");
  await close();
});

test("the limit is set and a workload suspended and resumed from anywhere, with the keyboard alone", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  for (const [verb, state] of [["suspend", "suspended"], ["resume", "running"]] as const) {
    await page.keyboard.press("Control+k");
    await page.keyboard.type(`${verb.slice(0, 4)} ${row.workload}`);
    assert.match(await chosen(page).innerText(), new RegExp(`^${verb} ${row.workload}`, "i"));
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: new RegExp(`^${verb} ${row.workload}$`, "i") });
    await dialog.getByText(row.user).waitFor();
    await page.keyboard.press("Enter");
    await dialog.locator(".events .badge").getByText(`${verb}${verb === "resume" ? "d" : "ed"}`, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("row").filter({ has: page.locator(`a[href="/workloads/${row.workload}"]`) }).getByText(state, { exact: true }).first().waitFor();
  }
  for (const start of ["/health", `/workloads/${row.workload}`]) {
    await page.goto(daemon.url + start);
    await live(page);
    await page.keyboard.press("Control+k");
    await page.keyboard.type(`limit ${row.workload}`);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.id === "limit");
    assert.equal(new URL(page.url()).pathname, `/workloads/${row.workload}`);
  }
  await close();
});

test("the mouse has a button for it, and a row one for what may be done to its workload; stopping shows the command", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  await page.getByRole("button", { name: /^Go to/ }).click();
  await page.getByRole("option", { name: "Queue" }).click();
  await page.waitForURL(`${daemon.url}/queue`);
  await page.goto(`${daemon.url}/`);
  await live(page);
  await page.getByRole("button", { name: `What to do with ${row.workload}`, exact: true }).first().click();
  const offered = await labels(page);
  assert.deepEqual(offered.slice(0, 5), [row.workload, `Set the limit of ${row.workload}`, `Suspend ${row.workload}`, `Trim ${row.workload}`, `Stop ${row.workload}`]);
  assert.ok(offered.slice(5).every((label) => label.startsWith("Copy: ration ") && label.includes(row.workload)));
  await page.getByRole("option", { name: new RegExp(`^Stop ${row.workload} `) }).click();
  const dialog = page.getByRole("dialog", { name: `Stop ${row.workload}` });
  await dialog.getByText("Unsaved work is lost").waitFor();
  assert.equal(await dialog.locator(".command code").innerText(), `${await commandOf(daemon, "stop")} ${row.workload}`);
  await close();
});

test("whoever may not change a workload is offered its commands of the shell, and no action", async () => {
  const { page, close } = await open(browser, daemon, "/");
  await live(page);
  await page.keyboard.press("Control+k");
  await page.keyboard.type(row.workload);
  await page.getByRole("option", { name: `Copy: ration` }).first().waitFor();
  assert.ok(!(await page.locator(".command-kind").allInnerTexts()).includes("action"));
  await page.keyboard.press("Escape");
  await box(page).waitFor({ state: "detached" });
  // The first key after the palette has been seen to get lost; a second one changes nothing while the help is open.
  const help = page.getByText("go anywhere, do anything");
  for (let tries = 0; tries < 10 && !(await help.isVisible()); ++tries) {
    await page.keyboard.press("?");
    await help.waitFor({ timeout: 5000 }).catch(() => undefined);
  }
  assert.ok(await help.isVisible());
  await close();
});

test("in Chinese it is found in Chinese and in English", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true, locale: "zh-CN" });
  await live(page);
  await page.keyboard.press("Control+k");
  for (const typed of [`挂起 ${row.workload}`, `susp ${row.workload}`]) {
    await box(page).fill(typed);
    assert.match(await chosen(page).innerText(), new RegExp(`^挂起 ${row.workload}`));
  }
  await close();
});

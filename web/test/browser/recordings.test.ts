// The page of a recording in the dashboard, and the same page as one file with the network off. RATION_WEB_PAGE is such a file, as
// `ration inspect train.rec -o html` printed it, RATION_WEB_INSPECTION what `ration inspect train.rec -o json` printed; without
// them the file is made of the mock's documents.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import recorded from "../../mock/recording.json";
import type { Inspection, RecordingDocument, RecordingMoment } from "../../src/api/recording";
import { ask, openDaemon, type Daemon } from "./daemon";
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

/** The exact bytes that stand behind the sizes of an element, in its order. */
const amounts = (page: Page, where: string): Promise<number[]> => page.locator(`${where} data.amount`).evaluateAll((found) => found.map((one) => Number((one as HTMLDataElement).value)));

/** What the page says of a recording is what the inspection says, to the byte. */
async function compare(page: Page, inspection: Inspection, parts: number[]): Promise<void> {
  await page.locator("#moment").waitFor();
  assert.deepEqual(await amounts(page, "main > .workload-head"), inspection.held.map((held) => held.bytes));
  assert.equal(await page.locator(".workload-head data:not(.amount)").first().getAttribute("value"), String(inspection.events));
  const peak = [...inspection.held].sort((left, right) => right.bytes - left.bytes)[0];
  const [held, requested] = await amounts(page, "[aria-labelledby=moment] .figures");
  assert.deepEqual([held, requested], [peak?.bytes, peak?.requested_bytes]);
  assert.deepEqual(await amounts(page, "table[data-name=parts]"), parts);
  assert.deepEqual((await amounts(page, "table[data-name=never-freed]")).length, inspection.never_freed.length);
  const flame = await page.locator(".flame-box").first().getAttribute("title");
  assert.equal((flame ?? "").split(" · ").pop()?.replace(/\D/g, ""), String(peak?.bytes));
}

const partsOf = (moment: RecordingMoment, gpu: number | null): number[] => (moment.places.find((place) => place.gpu === gpu)?.parts ?? []).map((part) => part.bytes).sort((left, right) => right - left);

test("a recording is in the list, and its page has the numbers of ration inspect", async () => {
  const { page, close } = await open(browser, daemon, "/map", { operator: true });
  await live(page);
  await page.getByRole("link", { name: "A recording has the addresses" }).click();
  await page.getByRole("link", { name: "train.rec" }).click();
  assert.equal(new URL(page.url()).pathname, "/recordings/train.rec");
  const { inspection } = await ask<RecordingDocument>(daemon, "/api/v1/recordings/train.rec");
  const moment = await ask<RecordingMoment>(daemon, "/api/v1/recordings/train.rec/moment");
  const peak = [...inspection.held].sort((left, right) => right.bytes - left.bytes)[0];
  await compare(page, inspection, partsOf(moment, peak?.gpu ?? null));
  const label = (await page.locator(".address-map canvas").getAttribute("aria-label")) ?? "";
  assert.ok(label.startsWith(`${moment.places.find((place) => place.gpu === peak?.gpu)?.map.blocks} blocks by address`), label);
  await close();
});

test("a moment and a range are in the address, and a range leads down to the events", async () => {
  const { page, close } = await open(browser, daemon, "/recordings/train.rec", { operator: true });
  await page.locator("#moment").waitFor();
  const chart = page.locator(".recording-chart .u-over").first(), box = await chart.boundingBox();
  assert.ok(box);
  await chart.click({ position: { x: box.width * 0.9, y: 40 } });
  await page.waitForURL(/at=/);
  await page.getByRole("heading", { name: /^At \d/ }).waitFor();
  await page.getByRole("button", { name: "Back to the peak" }).click();
  await page.getByRole("heading", { name: /^At the peak/ }).waitFor();
  const { inspection } = await ask<RecordingDocument>(daemon, "/api/v1/recordings/train.rec");
  const peak = [...inspection.held].sort((left, right) => right.bytes - left.bytes)[0]?.seconds ?? 0;
  await page.goto(`${daemon.url}/recordings/train.rec?from=${peak - 1e-5}&to=${peak + 1e-5}`);
  const rows = page.locator("table[data-name=recorded] tbody tr");
  await rows.first().waitFor();
  const listed = (await ask<RecordingDocument>(daemon, `/api/v1/recordings/train.rec?from=${peak - 1e-5}&to=${peak + 1e-5}`)).window.listed;
  assert.ok(listed.length > 0);
  assert.equal(await rows.count(), listed.length);
  await page.getByRole("button", { name: "Zoom out" }).click();
  await page.waitForURL((url) => Number(url.searchParams.get("to")) - Number(url.searchParams.get("from")) > 5e-5 || !url.searchParams.has("from"));
  await close();
});

test("two runs have one axis, and what changed is said", async () => {
  const { page, close } = await open(browser, daemon, "/recordings/train.rec", { operator: true });
  await page.getByLabel("Compare with").selectOption("after.rec");
  await page.locator("table[data-name=changes] tbody tr").first().waitFor();
  const changes = await ask<unknown[]>(daemon, "/api/v1/recordings/train.rec/changes?to=after.rec");
  assert.equal(await page.locator("table[data-name=changes] tbody tr").count(), changes.length);
  await page.locator("section[aria-labelledby=held] .legend").getByText("after.rec").waitFor();
  assert.match(page.url(), /with=after\.rec/);
  await close();
});

test("a call of the flame graph is looked at alone", async () => {
  const { page, close } = await open(browser, daemon, "/recordings/train.rec", { operator: true });
  await page.locator(".flame-box").first().waitFor();
  const wide = page.locator("button.flame-box").nth(2), before = await page.locator(".flame-above").count();
  await wide.click();
  assert.ok((await page.locator(".flame-above").count()) > before);
  await page.locator("button.flame-box").first().click();
  assert.equal(await page.locator(".flame-above").count(), 0);
  await close();
});

test("what is not there is said, with the command that makes a page of any file", async () => {
  const { page, close } = await open(browser, daemon, "/recordings/nope.rec", { operator: true, expected: /404/ });
  await page.getByText("no recording is named 'nope.rec'").first().waitFor();
  await page.getByRole("link", { name: "All recordings" }).click();
  await page.getByText("ration inspect train.rec -o html > train.html").waitFor();
  await close();
});

/** The file to open, and what `ration inspect` says of the same recording. */
function pageFile(): { file: string; inspection: Inspection } {
  const made = process.env["RATION_WEB_PAGE"], told = process.env["RATION_WEB_INSPECTION"];
  if (made && told) return { file: made, inspection: (JSON.parse(readFileSync(told, "utf8")) as { data: Inspection }).data };
  const { recording, moment, usage } = recorded as unknown as { recording: RecordingDocument; moment: RecordingMoment; usage: unknown };
  const { sites: _sites, ...view } = recording, { sites, ...peak } = moment;
  const document = JSON.stringify({ name: "train.rec", version: "0", at_seconds: null, view, peak, moments: [], usage, sites }).replace(/</g, "\\u003c");
  const file = join(mkdtempSync(join(tmpdir(), "ration-page-")), "train.html");
  writeFileSync(file, readFileSync("dist/recording.html", "utf8").replace("/*RECORDING*/", () => document));
  return { file, inspection: recording.inspection };
}

test("the file shows the same with the network off, and asks nothing of anybody", async () => {
  const { file, inspection } = pageFile();
  assert.ok(statSync(file).size <= 3_000_000, `${statSync(file).size} bytes`);
  for (const [colorScheme, width] of [["light", 1280], ["dark", 400]] as const) {
    const context = await browser.newContext({ offline: true, locale: "en-US", colorScheme, viewport: { width, height: 900 } });
    const page = await context.newPage();
    const errors: string[] = [], requests: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(`file://${file}`);
    const peak = [...inspection.held].sort((left, right) => right.bytes - left.bytes)[0];
    const parts = (peak as unknown as { parts: { bytes: number }[] }).parts.map((part) => part.bytes).sort((left, right) => right - left);
    await compare(page, inspection, parts);
    await page.locator(".recording-chart .u-over").first().waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
    await page.getByLabel("中文").check();
    await page.getByRole("heading", { name: "按地址排列的显存" }).waitFor();
    assert.deepEqual([errors, requests], [[], [`file://${file}`]]);
    await context.close();
  }
});

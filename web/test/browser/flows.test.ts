import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { Health, NodeEvent, Series, Usage, WorkloadRow } from "../../src/api/types";
import { problemOf } from "../../src/logic/filter";
import { formatSize } from "../../src/logic/format";
import { fromFirstRecord } from "../../src/logic/series";
import { ask, commandOf, openDaemon, snapshotOf, until, type Daemon } from "./daemon";
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

/** The workload that tests look at: governed, with denials where there is one. */
async function subject(): Promise<WorkloadRow & { workload: string }> {
  const { workloads } = await snapshotOf(daemon);
  const governed = workloads.filter((row): row is WorkloadRow & { workload: string } => row.governed === true && row.workload !== null);
  const row = [...governed].sort((left, right) => (right.denials ?? 0) - (left.denials ?? 0))[0];
  assert.ok(row, "no workload runs");
  return row;
}

const pages = ["/", "/timeline", "/map", "/recordings", "/events", "/tenants", "/reports", "/queue", "/health"];

test("the first frame is readable without JavaScript", async () => {
  const { page, close } = await open(browser, daemon, "/", { javaScriptEnabled: false });
  const row = await subject();
  const text = await page.locator("main").innerText();
  assert.match(text, /GiB/);
  assert.ok(text.includes(row.workload));
  assert.match(text, /JavaScript/);
  await close();
});

test("the link that the start printed makes an operator, once, and its token does not stay in the address", async () => {
  const row = await subject();
  const { page, close } = await open(browser, daemon, daemon.link.slice(daemon.url.length), {});
  await live(page);
  await page.getByRole("button", { name: "Forget token" }).waitFor();
  assert.equal(page.url(), `${daemon.url}/`);
  await page.locator("table[data-name=workloads] code.command-cell").first().waitFor();
  await page.goto(`${daemon.url}/workloads/${row.workload}`);
  await page.locator("#limit").waitFor();
  await close();
  const second = await open(browser, daemon, daemon.link.slice(daemon.url.length), { expected: /401/ });
  await live(second.page);
  await second.page.getByText("was already used or is too old").waitFor();
  assert.equal(second.page.url(), `${daemon.url}/`);
  await second.page.getByRole("button", { name: "Enter token" }).click();
  await second.page.keyboard.type(daemon.token);
  await second.page.keyboard.press("Enter");
  await second.page.getByRole("button", { name: "Forget token" }).waitFor();
  assert.equal(await second.page.getByText("was already used or is too old").count(), 0);
  await second.close();
});

test("who holds the card: the bar names every holder with its size, the table says who they are", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  const { devices, tenants, workloads } = await snapshotOf(daemon);
  for (const device of devices) {
    const label = (await page.getByRole("img", { name: `Memory of GPU ${device.gpu}` }).getAttribute("aria-label")) ?? "";
    for (const tenant of tenants) {
      if (tenant.accounts.some((account) => account.gpu === device.gpu && (account.used_bytes ?? 0) > 0)) assert.match(label, new RegExp(`${tenant.tenant} [\\d.]+ [KMG]iB`));
    }
  }
  assert.equal(await page.locator("table[data-name=workloads] tbody tr").count(), workloads.length);
  for (const row of workloads.filter((one) => !one.governed)) assert.ok(await page.getByText(`pid ${row.processes?.[0]?.pid}`).first().isVisible());
  const exact = await page.locator("table[data-name=workloads] tbody data").first().getAttribute("title");
  assert.match(exact ?? "", /^[\d\u202f]+ bytes$/);
  await close();
});

test("a filter and a sorting are in the URL and come back with it", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  await page.keyboard.press("/");
  await page.keyboard.type("governed==yes & used>0");
  await page.getByRole("button", { name: "Limit" }).click();
  const rows = page.locator("table[data-name=workloads] tbody tr");
  const governed = (await snapshotOf(daemon)).workloads.filter((row) => row.governed && (row.used_bytes ?? 0) > 0).length;
  const filtered = () => page.waitForFunction((count) => document.querySelectorAll("table[data-name=workloads] tbody tr").length === count, governed);
  await filtered();
  const url = page.url();
  assert.match(url, /filter=governed/);
  assert.match(url, /sort=-limit/);
  const first = await rows.first().innerText();
  await page.goto(url);
  await live(page);
  await filtered();
  assert.equal((await rows.first().innerText()).split("\n")[0], first.split("\n")[0]);
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "Limit\n▼");
  await page.locator("#filter").fill("usd>4GiB");
  await page.getByText("Did you mean 'used'?").waitFor();
  await close();
});

test("nothing is red in the console while a filter is typed, letter by letter and slowly", async () => {
  const { page, requests, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  const typed = 'used>1MiB & (denied>0 | idle>30m) & tenant~="no such"', asked = () => requests.map((url) => new URL(url).searchParams.get("filter")).filter((filter) => filter !== null);
  await page.locator("#filter").focus();
  for (let length = 1; length <= typed.length; length += 1) {
    await page.keyboard.type(typed[length - 1] ?? "");
    // What is understood is asked for, and answered, before the next letter; of what is not, the page itself says why.
    const part = typed.slice(0, length).trim();
    const understood = problemOf(part) === null;
    await page.locator(`#filter[aria-invalid=${!understood}]`).waitFor();
    if (understood) await until(`'${part}' is asked for`, async () => asked().some((filter) => filter?.trim() === part));
  }
  await page.getByText("Nothing matches the filter.").waitFor();
  assert.equal(await page.locator("#filter-problem").innerText(), "");
  await close();
});

test("a denial is followed to its reason and to what helps", async (context) => {
  const row = await subject();
  if (!row.denials) return context.skip("nobody was refused memory");
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  await page.getByRole("link", { name: `${row.denials} denials of ${row.workload}` }).first().click();
  await page.locator(".events a").first().click();
  const why = page.locator("article.why");
  await why.getByText("would not fit").waitFor();
  assert.match(await why.innerText(), /Held\s+[\d.]+ GiB of its limit [\d.]+ GiB/);
  const fix = await why.locator(".fix code").innerText();
  const permalink = page.url();
  assert.match(fix, /^ration set .* --limit [\d.]+[MG]iB$/);
  assert.equal(fix.replace(/ \S+$/, ""), [await commandOf(daemon, "set"), row.workload, "--limit"].join(" "));
  await why.getByRole("link", { name: /Set the limit to/ }).click();
  await page.waitForFunction(() => document.activeElement?.id === "limit");
  assert.equal(await page.locator("#limit").inputValue(), fix.replace(/^.* /, ""));
  await page.locator(".limit-form code").getByText(fix.replace(/ \S+$/, "")).waitFor();
  await page.goto(permalink);
  await page.locator("article.why .because").waitFor();
  await close();
});

test("limits that the daemon moved by itself are hidden until somebody asks for them", async () => {
  let moved: NodeEvent[] = [];
  await until("a limit is moved", async () => (moved = (await ask<NodeEvent[]>(daemon, "/api/v1/events?type=rebalanced&limit=200")).filter((event) => event.old !== null)).length > 0);
  const { page, close } = await open(browser, daemon, "/events", { operator: true });
  await live(page);
  const lines = page.locator(`[data-event="${moved[moved.length - 1]?.id}"]`);
  await page.locator("[data-event]").first().waitFor();
  assert.equal(await lines.count(), 0);
  await page.getByRole("checkbox", { name: /^Rebalancing/, exact: false }).last().check();
  await lines.waitFor();
  await page.reload();
  await lines.waitFor();
  await page.goto(`${daemon.url}/`);
  await live(page);
  await page.locator("[data-event]").first().waitFor();
  assert.equal(await page.locator("[data-event] .badge", { hasText: "rebalanced" }).count(), 0);
  await page.getByRole("checkbox", { name: /^Rebalancing/ }).waitFor();
  await close();
});

test("the limit is raised with the keyboard alone, with a preview before", async () => {
  const row = await subject();
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  // From the head of the page by Tab to the workload's link, as somebody without a mouse does.
  const reach = async (what: string, matches: () => Promise<boolean>) => {
    for (let presses = 0; presses < 120; presses += 1) {
      if (await matches()) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`${what} cannot be reached by Tab`);
  };
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to content");
  await page.keyboard.press("Enter");
  await reach(row.workload, () => page.evaluate((name) => document.activeElement?.tagName === "A" && document.activeElement.getAttribute("href") === `/workloads/${name}`, row.workload));
  await page.keyboard.press("Enter");
  await page.locator("#limit").waitFor();
  await page.keyboard.press("s");
  const wanted = (row.configured_limit_bytes ?? row.limit_bytes ?? 0) + 2 ** 30;
  await page.keyboard.type(`${wanted / 2 ** 20}MiB`);
  await page.locator("#limit-preview strong").getByText(formatSize(wanted)).waitFor();
  await page.locator("#limit-preview .remark").first().waitFor();
  await page.keyboard.press("Enter");
  await page.getByText(`the limit is ${formatSize(wanted)} now`).waitFor();
  const after = (await snapshotOf(daemon)).workloads.find((one) => one.workload === row.workload && one.gpu === row.gpu);
  assert.equal(after?.configured_limit_bytes, wanted);
  await close();
});

test("a limit in force that is lower than the configured one: both are shown, and why", async (context) => {
  if (process.env["RATION_WEB_URL"]) return context.skip("limits of a real daemon move meanwhile");
  const row = (await snapshotOf(daemon)).workloads.find((one) => (one.limit_bytes ?? 0) < (one.configured_limit_bytes ?? 0));
  assert.ok(row?.workload && row.held_back_by);
  const asked = formatSize(row.configured_limit_bytes ?? 0), now = formatSize(row.limit_bytes ?? 0), less = formatSize((row.configured_limit_bytes ?? 0) - (row.limit_bytes ?? 0));
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  const told = `The configured limit is ${asked}; the limit in force is ${now}, ${less} less: ${row.held_back_by}.`;
  await page.locator("table[data-name=workloads] tr", { hasText: row.workload }).getByTitle(told).getByText("↓").waitFor();
  await page.goto(`${daemon.url}/workloads/${row.workload}?gpu=${row.gpu}`);
  await page.getByText(told).waitFor();
  assert.equal(await page.locator(".figure", { hasText: "Limit in force" }).locator("strong").innerText(), now);
  await close();
  const chinese = await open(browser, daemon, `/workloads/${row.workload}?gpu=${row.gpu}`, { operator: true, locale: "zh-CN" });
  await chinese.page.getByText(`配置的上限为 ${asked}；现行上限为 ${now}，少 ${less}：`).waitFor();
  await chinese.page.locator(".figure", { hasText: "现行上限" }).waitFor();
  await chinese.close();
});

test("a change by somebody else in between is refused, not overwritten", async () => {
  const row = await subject();
  const { page, close } = await open(browser, daemon, `/workloads/${row.workload}?gpu=${row.gpu}`, { operator: true, expected: /412/ });
  await page.locator("#limit").fill("11GiB");
  await page.locator("#limit-preview .remark").first().waitFor();
  const limit = (row.configured_limit_bytes ?? 0) + 2 ** 29;
  const other = await fetch(`${daemon.url}/api/v1/workloads/${row.workload}`, { method: "PATCH", headers: { Authorization: `Bearer ${daemon.token}`, "Content-Type": "application/json" }, body: JSON.stringify({ limit: `${limit / 2 ** 20}MiB`, gpu: String(row.gpu) }) });
  assert.ok(other.ok);
  await page.locator("#limit").press("Enter");
  await page.locator("#limit-preview .remark.error").getByText("E1503").waitFor();
  assert.equal((await snapshotOf(daemon)).workloads.find((one) => one.workload === row.workload && one.gpu === row.gpu)?.configured_limit_bytes, limit);
  await close();
});

test("the daemon restarts: the page greys out, comes back by itself and has every event once", async (context) => {
  if (!daemon.stop || !daemon.deny) return context.skip("this daemon cannot be stopped from here");
  const row = await subject();
  const { page, close } = await open(browser, daemon, "/events?type=denied", { operator: true, expected: /net::ERR/ });
  await live(page);
  const numbers = () => page.locator("[data-event]").evaluateAll((items) => items.flatMap((item) => (item.getAttribute("data-events") ?? "").split(" ").map(Number)).reverse());
  const start = Math.max(...(await numbers()));
  for (let round = 0; round < 3; round += 1) await daemon.deny(row.workload);
  await daemon.stop();
  await page.locator(".connection.lost").waitFor();
  await page.waitForFunction(() => document.documentElement.classList.contains("stale"));
  assert.match(await page.locator(".connection").innerText(), /^\d+s old$/);
  // Refused while nobody looked: a real daemon reads this from the books when it is back.
  for (let round = 0; round < 4; round += 1) await daemon.deny(row.workload);
  await daemon.start();
  await live(page);
  const expected = (await ask<NodeEvent[]>(daemon, "/api/v1/events?type=denied&limit=200")).map((event) => event.id).filter((id) => id > start);
  assert.ok(expected.length >= 7);
  await page.waitForFunction((last) => document.querySelector(`[data-event="${last}"]`) !== null, expected[expected.length - 1]);
  assert.deepEqual((await numbers()).filter((id) => id > start), expected);
  assert.match(await page.locator("[data-event] .count").first().innerText(), /^× \d+$/);  // they say the same
  assert.equal(await page.evaluate(() => document.documentElement.classList.contains("stale")), false);
  await close();
});

test("denials are spoken politely, many as one sentence", async (context) => {
  if (!daemon.deny) return context.skip("this daemon cannot be made to refuse");
  const row = await subject();
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  const announcer = page.locator("[data-announcer]");
  assert.equal(await announcer.getAttribute("aria-live"), "polite");
  assert.equal(await announcer.innerText(), "");
  await daemon.deny(row.workload);
  await announcer.getByText("was denied").waitFor();
  const first = await announcer.innerText();
  for (let round = 0; round < 3; round += 1) await daemon.deny(row.workload);
  await page.locator(".events li").nth(3).waitFor();
  assert.equal(await announcer.innerText(), first, "spoken again at once");
  await announcer.getByText("3 denials, the last:").waitFor();
  await close();
});

test("whoever has no token sees totals and changes nothing; the token makes an operator until it is forgotten", async () => {
  const row = await subject();
  const { page, close } = await open(browser, daemon, `/workloads/${row.workload}`, { expected: /401|403/ });
  await live(page);
  await page.getByText("Only operators can change workloads here").waitFor();
  assert.equal(await page.locator("#limit").count(), 0);
  assert.match(await page.locator("#facts + *, .facts").last().innerText(), /n\/a \(not yours\)/);
  await page.getByRole("button", { name: "Enter token" }).click();
  await page.getByLabel("Token").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("does not accept this token").waitFor();
  await page.getByLabel("Token").fill(daemon.token);
  await page.keyboard.press("Enter");
  await page.locator("#limit").waitFor();
  await page.getByRole("button", { name: "Forget token" }).click();
  await page.locator("#limit").waitFor({ state: "detached" });
  await close();
});

test("a workload is trimmed, suspended and resumed by its buttons, and its events say so", async () => {
  const row = await subject();
  const { page, close } = await open(browser, daemon, `/workloads/${row.workload}?gpu=${row.gpu}`, { operator: true });
  await live(page);
  const { last_event: before } = await snapshotOf(daemon);
  const happened = (type: string) => until(type, async () => (await ask<NodeEvent[]>(daemon, `/api/v1/events?since=${before}&type=${type}&workload=${row.workload}`)).length > 0);
  const stateOf = async () => (await snapshotOf(daemon)).workloads.find((one) => one.workload === row.workload && one.gpu === row.gpu);
  const dialog = page.locator("dialog[open]");
  const act = async (verb: string, type: string) => {
    await page.getByRole("button", { name: `${verb} …` }).click();
    await dialog.getByRole("button", { name: `${verb} ${row.workload}`, exact: true }).click();
    await happened(type);
    await dialog.locator(`[role=status] .badge`).getByText(type, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert.match(await page.evaluate(() => document.activeElement?.textContent ?? ""), / …$/);
  };
  for (const verb of ["Trim", "Suspend", "Stop"]) {
    const box = await page.getByRole("button", { name: `${verb} …` }).boundingBox();
    assert.ok(box && box.y + box.height < 400, `${verb} is at the head of the page`);
  }
  await act("Trim", "trimmed");
  await page.getByRole("button", { name: "Suspend …" }).click();
  const told = await dialog.innerText();
  for (const word of [row.tenant ?? "", row.user, `pid ${row.processes?.[0]?.pid}`, "move to host memory", "GiB"]) assert.ok(told.includes(word), `${word} in ${told}`);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await stateOf())?.state, "running");
  await act("Suspend", "suspended");
  const suspended = await stateOf();
  assert.equal(suspended?.state, "suspended");
  assert.ok((suspended.suspended_bytes ?? 0) > 0);
  await page.locator(".facts").getByText("in host memory").waitFor();
  await act("Resume", "resumed");
  await page.getByRole("button", { name: "Suspend …" }).waitFor();
  assert.equal((await stateOf())?.state, "running");
  await page.goto(`${daemon.url}/events?workload=${row.workload}`);
  for (const type of ["trimmed", "suspending", "suspended", "resuming", "resumed"]) await page.locator(".events .badge").getByText(type, { exact: true }).first().waitFor();
  await close();
});

test("a tenant's limit is edited in place on every device; Escape leaves it; a change in between is refused", async () => {
  const { page, close } = await open(browser, daemon, "/tenants", { operator: true, expected: /412/ });
  await live(page);
  const named = async (name?: string) => {
    const tenant = (await snapshotOf(daemon)).tenants.find((one) => (name ? one.tenant === name : one.limit_from !== null && one.accounts.some((account) => account.limit_bytes !== null)));
    const account = tenant?.accounts[0];
    assert.ok(tenant && account?.limit_bytes, "no tenant with a limit stands in the daemon's configuration");
    return { tenant, gpu: account.gpu, limit: account.limit_bytes };
  };
  const { tenant, gpu, limit } = await named();
  const button = page.getByRole("button", { name: `Change the limit of ${tenant.tenant} on every GPU (row of GPU ${gpu})` });
  await button.press("Enter");
  await page.keyboard.type("1GiB");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement?.classList.contains("edit"));
  assert.equal((await named(tenant.tenant)).limit, limit);
  const wanted = limit + 2 ** 30;
  await button.press("Enter");
  await page.keyboard.type(`${wanted / 2 ** 20}MiB`);
  await page.keyboard.press("Enter");
  await button.getByText(formatSize(wanted)).waitFor();
  const after = await named(tenant.tenant);
  assert.deepEqual(after.tenant.accounts.map((account) => account.limit_bytes), after.tenant.accounts.map(() => wanted));
  assert.equal(after.tenant.limit_from, "token");
  await button.press("Enter");
  const other = await fetch(`${daemon.url}/api/v1/tenants/${tenant.tenant}`, { method: "PATCH", headers: { Authorization: `Bearer ${daemon.token}`, "Content-Type": "application/json" }, body: JSON.stringify({ limit: `${limit / 2 ** 20}MiB` }) });
  assert.ok(other.ok);
  await page.keyboard.type("5GiB");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("E1503").waitFor();
  assert.equal((await named(tenant.tenant)).limit, limit);
  const resized = (await ask<NodeEvent[]>(daemon, "/api/v1/events?type=resized&limit=200")).filter((event) => event.workload === null && event.tenant === tenant.tenant);
  await page.goto(`${daemon.url}/events?event=${resized[0]?.id}`);
  await page.locator("article.why").getByText(`→ ${wanted / 2 ** 20}MiB`).first().waitFor();
  await close();
});

test("who waits in the queue is seen with its reason, and an operator takes it out", async () => {
  const waiting = (await snapshotOf(daemon)).queue.find((lease) => lease.state === "waiting");
  assert.ok(waiting, "nobody waits");
  const { page, close } = await open(browser, daemon, "/queue", { operator: true });
  await live(page);
  const row = page.locator("table[data-name=queue] tbody tr").filter({ has: page.getByRole("rowheader", { name: waiting.lease }) });
  await row.getByText(waiting.reason ?? "").waitFor();
  await row.getByRole("button", { name: `Remove ${waiting.lease}` }).click();
  await row.getByRole("button", { name: `Really remove ${waiting.lease}` }).click();
  await row.waitFor({ state: "detached" });
  assert.ok((await snapshotOf(daemon)).queue.every((lease) => lease.lease !== waiting.lease));
  await close();
});

test("the rows of a report add up", async () => {
  const { page, close } = await open(browser, daemon, "/reports", { operator: true });
  await page.getByText("adds up:").waitFor();
  const cells = await page.locator("table[data-name=usage] tbody td:nth-child(4)").allInnerTexts();
  const number = (text: string) => Number(text.replace(/\u202f/g, ""));
  const total = number(await page.locator("table[data-name=usage] tfoot td:nth-child(4)").innerText());
  assert.ok(Math.abs(cells.map(number).reduce((sum, one) => sum + one, 0) - total) < 0.05 * cells.length + 0.06);
  await close();
});

test("pinned host memory is in the list, on the page of a workload and in the report; where nobody counted it, it is unknown", async () => {
  const { workloads } = await snapshotOf(daemon);
  const pins = workloads.find((row) => row.workload !== null && row.host_used_bytes), uncounted = workloads.find((row) => row.governed && row.workload !== null && row.host_used_bytes === undefined);
  const { page, close } = await open(browser, daemon, "/", { operator: true });
  await live(page);
  const cell = (name: string | null | undefined) => page.locator("table[data-name=workloads] tbody tr").filter({ has: page.locator(`a[href="/workloads/${name}"]`) }).locator(`td:nth-child(${column})`);
  const heads = await page.locator("table[data-name=workloads] thead th").allInnerTexts();
  const column = heads.findIndex((head) => head.startsWith("Pinned")) + 1;
  assert.equal(column > 0, pins !== undefined, heads.join());
  if (pins) assert.ok((await cell(pins.workload).first().innerText()).replace(/\s/g, " ").startsWith(formatSize(pins.host_used_bytes ?? 0).replace(/\s/g, " ")));
  if (pins && uncounted) assert.match(await cell(uncounted.workload).first().innerText(), /n\/a/);
  const shown = pins ?? (await subject());
  await page.goto(`${daemon.url}/workloads/${shown.workload}`);
  const figure = page.locator(".figure").filter({ hasText: "Pinned" }).first();
  await figure.waitFor();
  assert.ok((await figure.innerText()).replace(/\s/g, " ").includes(formatSize(shown.host_used_bytes ?? 0).replace(/\s/g, " ")));
  await page.goto(`${daemon.url}/reports?by=workload`);
  await page.getByText("adds up:").waitFor();
  const { rows } = await ask<Usage>(daemon, "/api/v1/reports/usage?by=workload&window=24h");
  const told = (await page.locator("table[data-name=usage] thead th").allInnerTexts()).some((head) => head.startsWith("Pinned, peak"));
  assert.equal(told, rows.some((row) => row.host_peak_bytes));
  await close();
});

test("a report is grouped by workload and by a label, shares what was idle, and has a price; all of it is in the URL", async () => {
  const { page, close } = await open(browser, daemon, "/reports", { operator: true });
  const rows = page.locator("table[data-name=usage] tbody tr"), names = page.locator("table[data-name=usage] tbody th");
  const governed = async (query: string) => (await ask<Usage>(daemon, `/api/v1/reports/usage?${query}`)).rows.filter((one) => one.kind === "governed").map((one) => one.name);
  await page.getByRole("radio", { name: "Workload" }).check();
  const workloads = await governed("window=24h&by=workload");
  assert.ok(workloads.every((name) => name.includes("/")));
  for (const name of workloads) await names.getByText(name, { exact: true }).waitFor();
  await page.getByRole("radio", { name: "Label" }).check();
  await page.getByText("Type the key of a label").waitFor();
  assert.equal(await page.locator(".exports").count(), 0);
  await page.getByLabel("Label key").fill("team");
  await page.keyboard.press("Enter");
  await page.getByRole("columnheader", { name: "Label team" }).waitFor();
  const teams = await governed("window=24h&by=label:team");
  assert.ok(teams.length > 1);
  for (const name of teams) await names.getByText(name, { exact: true }).waitFor();
  await names.getByText("held by nobody").waitFor();
  await page.getByLabel("Idle memory is paid by").selectOption("even");
  await page.getByRole("columnheader", { name: "Idle share" }).waitFor();
  assert.equal(await names.getByText("held by nobody").count(), 0);
  assert.match(await rows.first().innerText(), /n\/a\s+\(no price is set\)/);
  await page.getByLabel("Price of a GiB·h").fill("1000");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /\d/.test(document.querySelector("table[data-name=usage] tfoot td:last-child")?.textContent ?? ""));
  const query = new URL(page.url()).searchParams;
  assert.deepEqual(["by", "share_idle", "price"].map((name) => query.get(name)), ["label:team", "even", "1000"]);
  await page.reload();
  await page.getByRole("columnheader", { name: "Idle share" }).waitFor();
  assert.equal(await page.getByLabel("Label key").inputValue(), "team");
  await close();
});

test("a report is saved in each format, as it is grouped on the page", async () => {
  const { page, close } = await open(browser, daemon, "/reports?by=label%3Ateam", { operator: true });
  await page.getByText("adds up:").waitFor();
  const files: [string, string, string][] = [["CSV", "csv", "csv"], ["JSON", "json", "json"], ["MD", "md", "md"], ["FOCUS", "focus", "focus.csv"], ["OpenCost", "opencost", "opencost.json"]];
  for (const [name, format, ending] of files) {
    const saving = page.waitForEvent("download");
    await page.getByRole("link", { name, exact: true }).click();
    const saved = await saving;
    assert.equal(saved.suggestedFilename(), `ration-usage-24h-by-label-team.${ending}`);
    const head = readFileSync(await saved.path(), "utf8").slice(0, 8);
    const expected = await fetch(`${daemon.url}/api/v1/reports/usage?window=24h&by=label%3Ateam&format=${format}`, { headers: { Authorization: `Bearer ${daemon.token}` } });
    assert.equal(head, (await expected.text()).slice(0, 8), format);
  }
  await close();
});

test("a month that is over is closed by an operator who confirms it, and by nobody else", async () => {
  const months = (page: Page) => page.locator("table[data-name=months] tbody tr");
  const reader = await open(browser, daemon, "/reports");
  const running = new Date().toISOString().slice(0, 7);
  await months(reader.page).filter({ hasText: running }).getByText("not over yet").waitFor();
  assert.ok((await months(reader.page).first().innerText()).startsWith(running));
  assert.equal(await reader.page.getByRole("button", { name: /^Close 2/ }).count(), 0);
  await reader.close();
  const { page, close } = await open(browser, daemon, "/reports", { operator: true });
  const recorded = async (month: string | null) => (await ask<Usage>(daemon, `/api/v1/reports/usage?window=${month}`)).capacity_byte_seconds !== "0";
  const empty = page.getByRole("checkbox", { name: "Empty months" });
  // Asked one after another: with the last of them all are known.
  if (!(await recorded(new Date(Date.UTC(Number(running.slice(0, 4)), Number(running.slice(5)) - 13)).toISOString().slice(0, 7)))) {
    await empty.waitFor();
    for (const month of await months(page).locator("th").allInnerTexts()) assert.ok(month === running || (await recorded(month)), `${month} is empty`);
    await empty.check();
  }
  await months(page).nth(12).getByText("open").waitFor();
  const first = page.getByRole("button", { name: /^Close 2/ }).first();
  const month = ((await first.getAttribute("aria-label")) ?? "").replace("Close ", "");
  const closed = async () => (await ask<Usage>(daemon, `/api/v1/reports/usage?window=${month}`)).closed;
  await first.click();
  assert.equal(await closed(), null);
  await page.getByRole("button", { name: `Really close ${month}` }).click();
  const row = months(page).filter({ hasText: month });
  await row.locator("code").waitFor();
  assert.equal(await row.getByRole("button").count(), 0);
  assert.notEqual(await closed(), null);
  await row.getByRole("link", { name: month }).click();
  await page.getByText(`period ${month} closed on`).waitFor();
  await close();
});

test("health says where each number comes from and how old it is, and who holds each workload to its limit", async () => {
  const { page, close } = await open(browser, daemon, "/health", { operator: true });
  await live(page);
  const { devices, workloads } = await snapshotOf(daemon);
  const sources = page.locator("table[data-name=sources] tbody tr");
  const { driver } = await ask<Health>(daemon, "/api/v1/health");
  for (const device of devices) await sources.filter({ hasText: `GPU ${device.gpu}: used` }).getByText(`driver ${driver}`).waitFor();
  for (const age of await sources.locator("td:nth-child(4)").allInnerTexts()) assert.match(age, /^\d+s$|^n\/a/);
  const enforced = page.locator("table[data-name=enforcement] tbody tr");
  assert.equal(await enforced.count(), workloads.length);
  for (const row of workloads) {
    const name = row.workload ?? `pid ${row.processes?.[0]?.pid}`;
    await enforced.filter({ hasText: name }).first().getByText(row.governed ? /shim\)$/ : "nothing; policy: report").waitFor();
  }
  await page.locator("table[data-name=gaps], section[aria-labelledby=gaps] .faint").waitFor();
  await close();
});

test("a chart is a table as well, and is zoomed by dragging", async () => {
  const { page, close } = await open(browser, daemon, "/timeline?from=-10m", { operator: true });
  await page.locator(".uplot canvas").waitFor();
  // Ten minutes, or what there is of them.
  const asked = await ask<Series>(daemon, "/api/v1/series?metric=used_bytes&by=tenant&gpu=0&from=-10m&points=600");
  const shown = (Date.parse(asked.to) - Date.parse(fromFirstRecord(asked).from)) / 1000;
  const over = page.locator(".u-over");
  const box = await over.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width * 0.68, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.98, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.getByRole("button", { name: "Back to now" }).waitFor();
  const query = new URL(page.url()).searchParams;
  const seconds = (Date.parse(query.get("to") ?? "") - Date.parse(query.get("from") ?? "")) / 1000;
  assert.ok(seconds > shown * 0.25 - 2 && seconds < shown * 0.35 + 2, `${seconds} of ${shown}`);
  await page.getByRole("radio", { name: "As table" }).check();
  await page.locator("table[data-name=series] tbody tr").first().waitFor();
  assert.match(page.url(), /as=table/);
  await close();
});

test("every page in Chinese, rejections too, with links to Chinese pages, and without a text left in a key's form", async () => {
  const { page, close } = await open(browser, daemon, "/", { operator: true, locale: "zh-CN", expected: /404/ });
  await live(page);
  assert.equal(await page.locator("html").getAttribute("lang"), "zh-CN");
  await page.getByRole("link", { name: "时间线" }).waitFor();
  // What the daemon says, too: events and why, findings, reasons.
  await page.goto(`${daemon.url}/events?rebalancing=show`);
  await live(page);
  await page.locator("[data-event]").first().waitFor();
  const english = (texts: string[]) => texts.filter((text) => !/\p{Script=Han}/u.test(text));
  assert.deepEqual(english(await page.locator("[data-event] a").allInnerTexts()), []);
  await page.goto(`${daemon.url}/events?type=denied`);
  await page.locator("[data-event] a").first().click();
  await page.locator("article.why .because").waitFor();
  assert.deepEqual(english(await page.locator("article.why .because, article.why .why-text").allInnerTexts()), []);
  await page.goto(`${daemon.url}/health`);
  await page.locator("table[data-name=checks] tbody td:last-child").first().waitFor();
  assert.deepEqual(english(await page.locator("table[data-name=checks] tbody td:last-child").allInnerTexts()), []);
  await page.goto(`${daemon.url}/recordings/nope.rec`);
  await page.getByText("守护进程没有此名称的运行记录").first().waitFor();
  await page.goto(`${daemon.url}/?filter=usd%3E4GiB`);
  await live(page);
  await page.getByText("没有可筛选的字段“usd”。是否指“used”？").waitFor();
  assert.equal(await page.getByRole("link", { name: "文档" }).getAttribute("href"), "/docs/zh/index.html");
  await page.getByRole("radio", { name: "EN" }).check();
  assert.equal(await page.getByRole("link", { name: "Documentation" }).getAttribute("href"), "/docs");
  await page.getByRole("link", { name: "Timeline" }).waitFor();
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
  await close();
});

test("no request leaves the origin, and nothing breaks the content policy", async () => {
  const row = await subject();
  const { page, requests, close } = await open(browser, daemon, "/", { operator: true });
  const answer = await page.request.get(daemon.url);
  const policy = answer.headers()["content-security-policy"] ?? "";
  for (const part of ["default-src 'self'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) assert.ok(policy.includes(part), part);
  assert.ok(!policy.includes("unsafe"));
  for (const path of [...pages, `/workloads/${row.workload}`]) {
    await page.goto(daemon.url + path);
    await live(page);
    await page.locator("main h1").waitFor({ state: "attached" });
    await page.locator(".panel, .device").first().waitFor();
  }
  const origin = new URL(daemon.url).origin;
  assert.deepEqual([...new Set(requests.filter((url) => !url.startsWith("data:") && !url.startsWith("blob:")).map((url) => new URL(url).origin))], [origin]);
  await close();
});

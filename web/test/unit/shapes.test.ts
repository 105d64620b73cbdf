import assert from "node:assert/strict";
import { test } from "node:test";
import type { Series, Snapshot } from "../../src/api/types";
import { reportCommand, shellWord, toCsv, windowFrom } from "../../src/logic/export";
import { blocksOf, flow, layoutDevice, type Block } from "../../src/logic/layout";
import { asRows, fromFirstRecord, levelAt, prepare } from "../../src/logic/series";
import { table } from "../../src/text/table";
import { World } from "../../mock/world";

const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0);

test("the parts of a device's bar add up to the device", () => {
  const snapshot: Snapshot = new World().snapshot("operator");
  for (const device of snapshot.devices) {
    const layout = layoutDevice(snapshot, device);
    assert.equal(sum(layout.parts.map((part) => part.bytes)), device.total_bytes);
    assert.equal(sum(blocksOf(snapshot, device).map((block) => block.bytes)), device.total_bytes);
  }
});

test("what is guaranteed and not held is shown as promised, not as free", () => {
  const snapshot: Snapshot = new World().snapshot("operator");
  const device = snapshot.devices[1], tenant = snapshot.tenants.find((one) => one.tenant === "vision");
  const account = tenant?.accounts.find((one) => one.gpu === 1);
  assert.ok(device && account);
  account.guarantee_bytes = (account.used_bytes ?? 0) + 2 ** 30;
  const reserved = layoutDevice(snapshot, device).parts.find((part) => part.kind === "reserved");
  assert.ok(reserved && reserved.bytes >= 2 ** 30);
});

test("blocks flow through rows without losing or inventing a byte", () => {
  let seed = 3;
  const next = (limit: number) => (seed = (seed * 48271) % 2147483647) % limit;
  for (let round = 0; round < 300; round += 1) {
    const blocks = Array.from({ length: 1 + next(9) }, (_, index): Block => ({ id: String(index), kind: "allocated", owner: "", tenant: null, bytes: 1 + next(1000) }));
    const total = sum(blocks.map((block) => block.bytes)), rows = 1 + next(9);
    const cuts = flow(blocks, total, rows);
    for (const block of blocks) {
      const shown = sum(cuts.filter((cut) => cut.block === block).map((cut) => cut.width)) * (total / rows);
      assert.ok(Math.abs(shown - block.bytes) < 1e-6 * total, `${shown} of ${block.bytes}`);
    }
    for (const cut of cuts) assert.ok(cut.from >= -1e-6 && cut.from + cut.width <= 1 + 1e-6);
    assert.equal(cuts.filter((cut) => cut.first).length, blocks.length);
  }
});

const series: Series = {
  metric: "used_bytes", by: "tenant", gpu: 0, from: "2026-01-01T00:00:00.000Z", to: "2026-01-01T00:00:04.000Z", step_seconds: 1,
  lines: [{ name: "a", maximum: [1, 2, null, null], average: [1, 1, null, null] }, { name: "b", maximum: [5, null, null, 7], average: [4, null, null, 7] }],
  limits: [{ name: "a", values: [10, 10, 10, 10] }, { name: "b", values: [10, null, 20, 20] }], denials: [], gaps: [], capacity_bytes: 40,
};

test("a chart begins with the first record, whatever was asked for", () => {
  const late = { ...series, lines: series.lines.map((line) => ({ ...line, maximum: [null, null, ...line.maximum], average: [null, null, ...line.average] })), limits: series.limits.map((limit) => ({ ...limit, values: [null, null, ...limit.values] })), to: "2026-01-01T00:00:06.000Z" };
  const begun = fromFirstRecord(late);
  assert.deepEqual({ ...begun, from: series.from, to: series.to }, series);
  assert.equal(begun.from, "2026-01-01T00:00:02.000Z");
  assert.equal(fromFirstRecord(series), series);
  const gap = { from: "2026-01-01T00:00:01.000Z", to: "2026-01-01T00:00:02.000Z" };
  assert.equal(fromFirstRecord({ ...late, gaps: [gap] }).from, gap.from, "that nobody watched is known");
  const nothing = { ...late, lines: late.lines.map((line) => ({ ...line, maximum: line.maximum.map(() => null), average: line.average.map(() => null) })) };
  assert.equal(fromFirstRecord(nothing), nothing);
});

test("a guarantee is drawn from when on there was somebody who had it", () => {
  const times = [0, 1, 2, 3].map((second) => Date.parse(series.from) / 1000 + second);
  assert.deepEqual(levelAt({ label: "", bytes: 5, since: "2026-01-01T00:00:02.000Z" }, times), [null, null, 5, 5]);
  assert.deepEqual(levelAt({ label: "", bytes: 5, since: undefined }, times), [5, 5, 5, 5]);
});

test("a stack adds what is known; where nothing was recorded there is nothing", () => {
  const drawn = prepare(series, "maximum");
  assert.deepEqual(drawn.stacked, [[1, 2, null, 0], [6, 2, null, 7]]);
  assert.deepEqual(drawn.limitSum, [20, null, 30, 30]);
  assert.equal(drawn.top, 40);
});

test("a coarse table keeps peaks", () => {
  assert.deepEqual(asRows(prepare(series, "maximum"), 2).map((one) => one.values), [[null, 7], [2, 5]]);
});

test("CSV: quotes, and no formula for a spreadsheet", () => {
  assert.equal(toCsv(["a", "b"], [['say "hi"', 1], ["=cmd()", null], ["x,y", -3]]), 'a,b\r\n"say ""hi""",1\r\n\'=cmd(),\r\n"x,y",-3\r\n');
});

test("words of a shell", () => {
  assert.equal(shellWord("nlp=16GiB:30GiB"), "nlp=16GiB:30GiB");
  assert.equal(shellWord("jup=4GiB*6"), "'jup=4GiB*6'");
  assert.equal(shellWord("it's"), `'it'\\''s'`);
});

test("a chart and a report name the command that prints the same", () => {
  assert.equal(reportCommand({ by: "device", window: windowFrom("-6h", 0) }), "ration report --by gpu --window 6h");
  const now = Date.parse("2026-01-02T00:00:00.000Z");
  assert.equal(reportCommand({ by: "tenant", window: windowFrom("2026-01-01T21:30:00.000Z", now) }), "ration report --by tenant --window 3h");
  assert.equal(reportCommand({ by: "label:team", window: "24h", basis: "", price: "0.03", share_idle: "even" }), "ration report --by label:team --window 24h --price 0.03 --share-idle even");
});

test("both languages have the same places to fill", () => {
  const places = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort().join(" ");
  for (const [key, [english, chinese]] of Object.entries(table)) {
    assert.equal(places(chinese), places(english), key);
    assert.ok(english !== "" && chinese !== "", key);
  }
});

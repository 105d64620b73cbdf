import assert from "node:assert/strict";
import { test } from "node:test";
import type { MomentPlace, RecordingMoment, RecordingWindow } from "../../src/api/recording";
import { callsOf, cutWindow, flameBoxes, flameOf, formatMoment, looksOf, piecesOf, processName, type Flame } from "../../src/logic/recording";

const processes = [{ pid: 11, parent: 1, command: "/usr/bin/python train.py" }, { pid: 0, parent: 0, command: "shared" }];
const texts = { whole: "held", requested: "requested", rest: "rest", smaller: "smaller", beyond: (bytes: number) => `beyond ${bytes}`, use: (use: string) => use, size: (bytes: number) => `${bytes} B` };
const noMap: MomentPlace["map"] = { runs: { process: [], address: [], span_bytes: [], bytes: [], count: [], site: [], since_seconds: [] }, holes: { bytes: 0, largest_bytes: 0, count: 0 }, blocks: 0, unaddressed_bytes: 0 };

function flame(place: Partial<MomentPlace>): Flame {
  const moment: RecordingMoment = { at_peak: true, places: [], sites: { 1: "inner (a.py:7)\nouter (b.py:8)", 2: "other (c.py:1)\nouter (b.py:8)" } };
  return flameOf({ gpu: 0, seconds: 1, bytes: 0, parts: [], groups: [], ungrouped_bytes: 0, map: noMap, ...place }, moment, processes, texts);
}

const sumOf = (node: Flame): number => node.children.reduce((sum, one) => sum + one.bytes, 0);
function added(node: Flame): void {
  if (node.children.length > 0) assert.equal(sumOf(node), node.bytes, node.name);
  node.children.forEach(added);
}

test("a flame graph adds up to what was held, at every call", () => {
  const root = flame({
    bytes: 1000, parts: [{ use: "blocks", process: 0, bytes: 700 }, { use: "contexts", process: 0, bytes: 250 }, { use: "shared", process: 1, bytes: 50 }],
    groups: [{ process: 0, site: 1, bytes: 100, count: 3 }, { process: 0, site: 2, bytes: 50, count: 2 }, { process: 0, site: 0, bytes: 20, count: 1 }],
  });
  added(root);
  const python = root.children.find((one) => one.name === "python (pid 11)");
  const requested = python?.children.find((one) => one.name === "requested");
  assert.equal(requested?.bytes, 420);
  assert.deepEqual(requested?.children.map((one) => [one.name, one.bytes]), [["outer (b.py:8)", 400], ["1 × 20 B", 20]]);
  assert.deepEqual(python?.children.map((one) => [one.name, one.bytes]), [["requested", 420], ["rest", 280], ["contexts", 250]]);
});

test("exported memory is charged to all its holders, and is in the graph once", () => {
  const root = flame({ bytes: 500, parts: [{ use: "blocks", process: 0, bytes: 100 }, { use: "shared", process: 1, bytes: 400 }], groups: [{ process: 0, site: 0, bytes: 500, count: 1 }] });
  added(root);
  assert.deepEqual(root.children.map((one) => one.bytes), [500]);
});

test("what was requested beyond what was held is told, and so are groups that were left out", () => {
  const root = flame({ bytes: 300, parts: [{ use: "managed", process: 0, bytes: 200 }, { use: "contexts", process: 0, bytes: 100 }], groups: [{ process: 0, site: 0, bytes: 260, count: 1 }] });
  assert.equal(root.name, "beyond 60");
  assert.equal(root.bytes, 360);
  added(root);
  const smaller = flame({ bytes: 300, parts: [{ use: "blocks", process: 0, bytes: 300 }], groups: [{ process: 0, site: 0, bytes: 100, count: 1 }], ungrouped_bytes: 150 });
  added(smaller);
  assert.deepEqual(smaller.children.map((one) => [one.name, one.bytes]), [["python (pid 11)", 150], ["smaller", 150]]);
});

test("boxes of a chosen call fill the width, below those that lead to it", () => {
  const root = flame({ bytes: 400, parts: [{ use: "blocks", process: 0, bytes: 400 }], groups: [{ process: 0, site: 1, bytes: 100, count: 1 }, { process: 0, site: 2, bytes: 300, count: 1 }] });
  const path = ["python (pid 11)", "requested", "outer (b.py:8)", "inner (a.py:7)"];
  const all = flameBoxes(root, [], 0.01), one = flameBoxes(root, path, 0.01);
  assert.equal(all.find((box) => box.node.name === "inner (a.py:7)")?.width, 0.25);
  assert.equal(one.find((box) => box.node.name === "inner (a.py:7)")?.width, 1);
  assert.deepEqual(one.map((box) => box.depth), [0, 1, 2, 3, 4]);
  assert.equal(flameBoxes(root, [], 0.3).some((box) => box.node.name === "inner (a.py:7)"), false);
});

test("calls stand from the outermost in, processes by their program", () => {
  assert.deepEqual(callsOf("inner\nouter\n"), ["outer", "inner"]);
  assert.deepEqual(callsOf(undefined), []);
  assert.deepEqual([0, 1, 2].map((number) => processName(processes, number)), ["python (pid 11)", "shared", "?"]);
});

const window = (values: number[], listed: RecordingWindow["listed"] = [], events: number | null = null): RecordingWindow => ({ from_seconds: 0, to_seconds: values.length, step_seconds: 1, lines: [{ gpu: 0, most_bytes: values }], events, listed });

test("a part of the columns keeps every maximum, however few are shown", () => {
  let seed = 7;
  const next = (limit: number) => (seed = (seed * 48271) % 2147483647) % limit;
  for (let round = 0; round < 200; round += 1) {
    const values = Array.from({ length: 1 + next(300) }, () => next(1000)), from = next(values.length), to = from + 1 + next(values.length - from), most = 1 + next(40);
    const cut = cutWindow(window(values), from, to, most), shown = cut.lines[0]?.most_bytes ?? [];
    assert.ok(shown.length <= most);
    assert.equal(Math.max(...shown), Math.max(...values.slice(from, to)), `${from} ${to} of ${values.length} in ${most}`);
    assert.equal(cut.from_seconds, from);
  }
});

test("events are listed where all of them are there", () => {
  const event = (seconds: number) => ({ seconds, kind: "allocate", gpu: 0, process: 0, thread: 1, bytes: 1, charged_bytes: 1, held_bytes: 1, site: 0 });
  const three = [event(0.5), event(1.5), event(2.5)];
  assert.deepEqual(cutWindow(window([1, 2, 3], three, 3), 1, 2, 10).listed, [event(1.5)]);
  assert.equal(cutWindow(window([1, 2, 3], three, 3), 1, 2, 10).events, 1);
  assert.equal(cutWindow(window([1, 2, 3], [], 9000), 1, 2, 10).events, null);
});

test("a map keeps holes, cuts unused address space, and needs 64 bits", () => {
  const runs = { process: [0, 0, 0, 1, 0], address: ["0xffffffff00000000", "0xffffffff00000064", "0xffffffff00000096", "0x10", "0xffffffffff000000"], span_bytes: [50, 50, 10, 7, 5], bytes: [50, 50, 10, 7, 5], count: [1, 1, 1, 1, 1], site: [1, 2, 1, 0, 3], since_seconds: [0, 0, 0, 0, 0] };
  const { pieces, bytes } = piecesOf({ ...noMap, runs }, 0, 1000);
  assert.deepEqual(pieces.map((piece) => [piece.kind, piece.from, piece.bytes]), [["blocks", 0, 50], ["hole", 50, 50], ["blocks", 100, 50], ["blocks", 150, 10], ["cut", 160, 0], ["blocks", 160, 5]]);
  assert.equal(bytes, 165);
  const looks = looksOf({ ...noMap, runs }, 3);
  assert.deepEqual([looks.by, [...looks.looks]], ["site", [[1, 0], [2, 1], [0, 2], [3, 2]]]);
  const sizes = looksOf({ ...noMap, runs: { ...runs, site: [4, 4, 4, 4, 4] } }, 3);
  assert.deepEqual([sizes.by, [...sizes.looks]], ["size", [[64, 0], [8, 1], [16, 2]]]);
});

test("a block within another one takes no room of its own", () => {
  const runs = { process: [0, 0, 0], address: ["0x0", "0xa", "0x5a"], span_bytes: [100, 10, 20], bytes: [100, 10, 20], count: [1, 1, 1], site: [0, 0, 0], since_seconds: [0, 0, 0] };
  const { pieces, bytes } = piecesOf({ ...noMap, runs }, 0, 1000);
  assert.equal(bytes, 110);
  assert.deepEqual(pieces.map((piece) => [piece.from, piece.bytes]), [[0, 100], [10, 10], [90, 20]]);
});

test("times have the unit that their range needs", () => {
  assert.deepEqual([formatMoment(0.00012), formatMoment(0.0063621, 0.0081), formatMoment(2.5, 4.4), formatMoment(61.24, 90), formatMoment(4000, 7200)], ["120 µs", "6.36 ms", "2.50 s", "61.2 s", "1h 06m"]);
});

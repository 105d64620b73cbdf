import assert from "node:assert/strict";
import { test } from "node:test";
import { formatCount, formatDuration, formatExact, formatSize, gibHours, parseDuration, parseSize, shortCommand, typedSize } from "../../src/logic/format";

const gib = 2 ** 30;

test("sizes have three significant digits, as the command line writes them", () => {
  const cases: [number, string][] = [
    [0, "0 B"], [999, "999 B"], [1000, "0.98 KiB"], [1024, "1.00 KiB"], [512 * 2 ** 20, "512 MiB"], [10 * gib, "10.0 GiB"], [3.61 * gib, "3.61 GiB"],
    [9.99 * gib, "9.99 GiB"], [9.996 * gib, "10.0 GiB"], [99.96 * gib, "100 GiB"], [999.6 * gib, "0.98 TiB"], [2 ** 40, "1.00 TiB"],
  ];
  for (const [bytes, text] of cases) assert.equal(formatSize(bytes), text);
});

test("exact bytes are grouped", () => assert.equal(formatExact(12884901888), "12\u202f884\u202f901\u202f888 bytes"));

test("what is typed for a size gives the same bytes again", () => {
  for (const bytes of [4 * gib, 10752 * 2 ** 20, 12345]) assert.deepEqual(parseSize(typedSize(bytes), 40 * gib), { bytes });
});

test("sizes are read as the command line reads them, and a bare number is refused", () => {
  assert.deepEqual(parseSize("20GiB", 40 * gib), { bytes: 20 * gib });
  assert.deepEqual(parseSize("1g", 40 * gib), { bytes: gib });
  assert.deepEqual(parseSize("1GB", 40 * gib), { bytes: 1e9 });
  assert.deepEqual(parseSize("50%", 40 * gib), { bytes: 20 * gib });
  assert.deepEqual(parseSize("max-1GiB", 40 * gib), { bytes: 39 * gib });
  assert.deepEqual(parseSize("4096", 40 * gib), { problem: "unit" });
  assert.deepEqual(parseSize("0.5", 40 * gib), { problem: "ambiguous" });
  assert.deepEqual(parseSize("5 gigs", 40 * gib), { problem: "unreadable" });
  assert.deepEqual(parseSize("101%", 40 * gib), { problem: "unreadable" });
  assert.deepEqual(parseSize(" ", 40 * gib), { problem: "empty" });
});

test("durations", () => {
  assert.equal(formatDuration(6), "6s");
  assert.equal(formatDuration(761), "12m 41s");
  assert.equal(formatDuration(8020), "2h 13m");
  assert.equal(formatDuration(526000), "6d 02h");
  assert.equal(parseDuration("30m"), 1800);
  assert.equal(parseDuration("1.5h"), 5400);
  assert.equal(parseDuration("soon"), null);
});

test("byte-seconds beyond a number's reach become GiB·h", () => {
  assert.equal(gibHours(String(BigInt(gib) * 3600n * 5120n)), 5120);
  assert.equal(gibHours("99999999999999999999999"), 25870071517.09);
});

test("counts are grouped before the point only", () => {
  assert.equal(formatCount(29313.6, 1), "29\u202f313.6");
  assert.equal(formatCount(0.12345, 5), "0.12345");
});

test("a command is cut where it tells nothing apart", () => {
  assert.equal(shortCommand("python train.py", [], 20), "python train.py");
  assert.equal(shortCommand("/usr/bin/python3 /home/alice/train.py --lr 0.1", [], 25), "python3 …rain.py --lr 0.1");
  const long = (shard: number) => `/usr/bin/python3 -m trainer.main --shard ${shard} --of 128 --data /mnt/datasets/imagenet --epochs 90`;
  const all = [long(17), long(18), "python eval.py"];
  const [one, other] = [shortCommand(long(17), all, 40), shortCommand(long(18), all, 40)];
  assert.ok(one !== other && one.length <= 40 && other.length <= 40, `${one} and ${other}`);
  assert.match(one, /17/);
  for (let round = 0; round < 50; round += 1) {
    const many = Array.from({ length: 5 }, (_, index) => `${"x".repeat(round)} ${index}${"y".repeat(60)}`);
    assert.equal(new Set(many.map((command) => shortCommand(command, many, 30))).size, 5);
  }
});

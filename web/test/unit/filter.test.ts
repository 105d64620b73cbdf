// The page's own look at a filter against the daemon's sources and the daemon's tests.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { englishTable } from "../../mock/messages";
import { fields, problemOf, sentences } from "../../src/logic/filter";

const daemonTests = readFileSync("../tests/unit/top/filter_test.cpp", "utf8");
const unescaped = (text: string): string => JSON.parse(`"${text}"`) as string;

test("the fields are the daemon's, each of its kind", () => {
  const source = readFileSync("../src/rows/filter_fields.cpp", "utf8"), kinds: Record<string, string> = { Size: "size", Count: "count", Duration: "duration", YesNo: "yesNo" };
  const found = [...source.matchAll(/\b(size|text)\("(\w+)"|\{"(\w+)", FieldKind::k(\w+)/g)].map(([, kind, name, other, own]) => [name ?? other, kind ?? kinds[own ?? ""]]);
  assert.deepEqual(Object.entries(fields), found);
});

test("it says what the daemon says", () => {
  const table = englishTable();
  assert.deepEqual(Object.fromEntries(Object.keys(sentences).map((id) => [id, table.get(id)])), sentences);
});

test("it understands what the daemon's tests say that the daemon understands, and refuses what it refuses", () => {
  const asked = [...daemonTests.matchAll(/shown\("((?:[^"\\]|\\.)*)"\), \(Names\{("refused)?/g)].map(([, filter, refused]) => ({ filter: unescaped(filter ?? ""), refused: refused !== undefined }));
  const list = /const char\* text :\s*\{([^}]*)\}/.exec(daemonTests)?.[1] ?? "";
  const refused = [...list.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, filter]) => ({ filter: unescaped(filter ?? ""), refused: true }));
  assert.ok(asked.length > 25 && refused.length > 14, `${asked.length} and ${refused.length} were read`);
  for (const one of [...asked, ...refused]) assert.deepEqual({ filter: one.filter, refused: problemOf(one.filter) !== null }, one);
  for (const long of ["(".repeat(900), "!".repeat(900), "a".repeat(5000)]) assert.notEqual(problemOf(long), null);
});

test("it knows every unit of a size and of a duration", () => {
  const units = readFileSync("../src/base/units.cpp", "utf8");
  const listed = (table: string): string[] => [...(new RegExp(`${table}\\{([^;]*)\\};`).exec(units)?.[1] ?? "").matchAll(/\{"([\w%]+)",/g)].map(([, unit]) => unit ?? "");
  const sizes = listed("kUnits"), durations = listed("kDurations");
  assert.ok(sizes.length >= 21 && durations.length >= 4);
  for (const filter of [...sizes.map((unit) => `used>3${unit}`), ...durations.map((unit) => `idle>3${unit}`), "limit<unlimited", "used>max-1GiB"]) assert.equal(problemOf(filter), null, filter);
  for (const filter of ["used>3x", "idle>3d", "idle>3M"]) assert.notEqual(problemOf(filter), null, filter);
});

test("it names what is missing and what was meant", () => {
  const textOf = (filter: string): string => {
    const problem = problemOf(filter);
    return problem && "text" in problem ? problem.text : problem?.key ?? "";
  };
  assert.match(textOf("usd>4GiB"), /^rows have no field 'usd' to filter by\. Did you mean 'used'\? They have used, limit/);
  assert.doesNotMatch(textOf("exp=42"), /Did you mean/);
  assert.equal(textOf("used>4GiB & "), "the filter needs a field or a word at its end.");
  assert.equal(textOf("idle>"), "the filter needs a value after 'idle' at its end.");
  assert.equal(textOf("used>4"), "size.unit");
  assert.equal(textOf("idle>30"), "duration.unreadable");
});

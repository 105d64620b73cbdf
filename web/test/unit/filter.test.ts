import assert from "node:assert/strict";
import { test } from "node:test";
import type { WorkloadRow } from "../../src/api/types";
import { compileFilter } from "../../src/logic/filter";
import { workloadFields } from "../../src/logic/workloads";

const gib = 2 ** 30;
const row = (name: string | null, more: Partial<WorkloadRow>): WorkloadRow => ({ workload: name, user: "alice", gpu: 0, governed: true, used_bytes: 0, denials: 0, idle_seconds: 0, processes: null, ...more });
const rows = [
  row("train", { tenant: "nlp", used_bytes: 12 * gib, denials: 0 }),
  row("serve", { tenant: "vision", used_bytes: 10 * gib, denials: 17 }),
  row("kernel", { tenant: "jup", used_bytes: 5 * gib, idle_seconds: 2820, state: "suspended" }),
  row("detect", { tenant: "vision", used_bytes: 3 * gib, denials: 2 }),
  row(null, { governed: false, used_bytes: null, processes: [{ pid: 6001, command: "python x.py", state: "unmanaged" }] }),
];

function found(text: string): string {
  const compiled = compileFilter(text, workloadFields);
  assert.ok("matches" in compiled, `${text}: ${JSON.stringify(compiled)}`);
  return rows.filter(compiled.matches).map((one) => one.workload ?? "?").join(" ");
}

function refused(text: string): { kind: string; hint: string } {
  const compiled = compileFilter(text, workloadFields);
  assert.ok("error" in compiled, `${text} was taken`);
  return compiled.error;
}

test("the filters of the documentation", () => {
  assert.equal(found("used>4GiB & denied>0"), "serve");
  assert.equal(found("tenant~=nl"), "train");
  assert.equal(found("governed==no"), "?");
  assert.equal(found("idle>30m"), "kernel");
});

test("an empty filter shows all", () => assert.equal(found("  "), "train serve kernel detect ?"));

test("and binds closer than or, parentheses and not change that", () => {
  assert.equal(found("tenant==jup | tenant==vision & denied>10"), "serve kernel");
  assert.equal(found("(tenant==jup | tenant==vision) & denied>1"), "serve detect");
  assert.equal(found("!(tenant==vision) & governed==yes"), "train kernel");
  assert.equal(found("tenant==vision denied<10"), "detect");
});

test("a word alone is looked for everywhere, quotes keep blanks", () => {
  assert.equal(found("serve"), "serve");
  assert.equal(found("python"), "?");
  assert.equal(found('command~="python x"'), "?");
});

test("what is not known matches only n/a", () => {
  assert.equal(found("used<100GiB"), "train serve kernel detect");
  assert.equal(found("used!=1GiB"), "train serve kernel detect");
  assert.equal(found("used==n/a"), "?");
  assert.equal(found("used!=n/a"), "train serve kernel detect");
});

test("a wrong filter says what is wrong and what would be right", () => {
  assert.deepEqual([refused("usd>1GiB").kind, refused("usd>1GiB").hint], ["field", "used"]);
  assert.equal(refused("used>4").kind, "value");
  assert.equal(refused("idle>soon").hint, "30s, 5m, 2h");
  assert.equal(refused("tenant>nlp").kind, "syntax");
  assert.equal(refused("used>4GiB &").kind, "syntax");
  assert.equal(refused("(used>4GiB").kind, "syntax");
  assert.equal(refused("used>4GiB)").kind, "syntax");
  assert.equal(refused("used>").kind, "syntax");
});

test("no text makes it throw", () => {
  const pieces = ["used", ">", "4GiB", "&", "|", "(", ")", "!", "==", "~=", '"', "n/a", " ", "0", "%", "\\"];
  let seed = 1;
  const next = () => (seed = (seed * 48271) % 2147483647);
  for (let round = 0; round < 20_000; round += 1) {
    const text = Array.from({ length: next() % 9 }, () => pieces[next() % pieces.length]).join("");
    const compiled = compileFilter(text, workloadFields);
    if ("matches" in compiled) rows.forEach(compiled.matches);
    else assert.ok(compiled.error.hint.length > 0, text);
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { ranked, type Command } from "../../src/logic/commands";

const command = (kind: Command["kind"], label: string, more: Partial<Command> = {}): Command => ({ kind, label, run: () => undefined, ...more });
const commands = [
  command("page", "Timeline", { words: "Timeline 时间线" }), command("workload", "train", { detail: "nlp · 11.8 GiB", workload: "train" }), command("workload", "kernel-bob", { workload: "kernel-bob" }),
  command("action", "Suspend kernel-bob", { words: "Suspend kernel-bob 挂起 kernel-bob", workload: "kernel-bob" }), command("action", "Suspend train", { words: "Suspend train 挂起 train", workload: "train" }),
  command("copy", "Copy: ration suspend train", { workload: "train" }),
];
const found = (query: string, here: string | null = null): string[] => ranked(commands, query, here).map((one) => one.label);

test("a few letters find a command: begins of its words, in any order, in either language, or its first letters", () => {
  assert.deepEqual(found("sus tr"), ["Suspend train", "Copy: ration suspend train"]);
  assert.deepEqual(found("TR sus"), found("sus tr"));
  assert.deepEqual(found("挂起 tr"), ["Suspend train"]);
  assert.deepEqual(found("时间"), ["Timeline"]);
  assert.deepEqual(found("skb"), ["Suspend kernel-bob"]);
  assert.deepEqual(found("melin"), ["Timeline"]);
  assert.deepEqual(found("zzz"), []);
});

test("the best comes first: what is called so, then what the page is about, then places before actions", () => {
  assert.deepEqual(found("train"), ["train", "Suspend train", "Copy: ration suspend train"]);
  assert.equal(found("suspend")[0], "Suspend kernel-bob");
  assert.equal(found("suspend", "train")[0], "Suspend train");
  assert.deepEqual(found(""), commands.map((one) => one.label));
});

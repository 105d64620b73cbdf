// The messages of src/text/daemon.ts against the daemon's table of them, and the daemon's sources and answers against both:
// whatever it may say of an event, a reason or a finding has an id.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { World } from "../../mock/world";
import { englishTable, put, say } from "../../mock/messages";
import { messageInChinese, messages } from "../../src/text/daemon";
import { saidIn } from "../../src/text/message";

/** Each text of a C++ file, pieces that follow each other as one, and the calls that it stands in, the outermost first. */
function textsOf(source: string): { text: string; calls: string[]; line: number }[] {
  const found: { text: string; calls: string[]; line: number }[] = [], calls: string[] = [];
  let joined = false;
  for (let at = 0; at < source.length; ) {
    const rest = source.slice(at, at + 4000);
    const skipped = /^(\/\/[^\n]*|#include[^\n]*|\s+)/.exec(rest);
    const character = /^'(\\.|[^'\\])'/.exec(rest), raw = /^R"(\w*)\(/.exec(rest), string = /^"((?:\\.|[^"\\])*)"/s.exec(rest);
    if (skipped) {
      at += skipped[0].length;
    } else if (raw) {
      at = source.indexOf(`)${raw[1]}"`, at) + (raw[1] ?? "").length + 2;
      joined = false;
    } else if (string) {
      const text = (string[1] ?? "").replace(/\\(.)/g, (_whole, letter: string) => (letter === "n" ? "\n" : letter));
      const last = found[found.length - 1];
      if (joined && last) last.text += text;
      else found.push({ text, calls: [...calls], line: source.slice(0, at).split("\n").length });
      joined = true;
      at += string[0].length;
    } else {
      joined = false;
      if (rest.startsWith("(")) calls.push(/(\w+)\s*$/.exec(source.slice(Math.max(0, at - 60), at))?.[1] ?? "");
      else if (rest.startsWith(")")) calls.pop();
      at += character ? character[0].length : 1;
    }
  }
  return found;
}

const source = "../src";
/** Files whose every sentence may be shown, apart from rejections (fail), which are the answer to a request and English. */
const told = [
  ...readdirSync(`${source}/node`, { withFileTypes: true }).filter((room) => room.isDirectory() && room.name !== "http").map((room) => room.name).flatMap((room) => readdirSync(`${source}/node/${room}`)
    .filter((file) => file.endsWith(".cpp") && !/^(webhook|folder_claims|device_publisher|capacity|\w+_routes)\.cpp$/.test(file)).map((file) => `node/${room}/${file}`)),
  "node/daemon.cpp", "rows/filter.cpp", "admission/denials.cpp", "admission/configured_slices.cpp",
];
/** Of these the sentences that stand in an event or a reason; most of what they say is the answer to a request. */
const partly: Record<string, RegExp> = {
  "node/http/event_view.cpp": /holds memory|not yours|driver did not say|recorded it/, "node/promises/claims_routes.cpp": /node any more/, "node/http/node_routes.cpp": /no limit is set|does not name/, "node/queue/leases_routes.cpp": /waits for|its turn|removed from the queue/,
  "node/watch/webhook.cpp": /alerts could|too slow|answers with/, "history/store.cpp": /events from/, "history/history.cpp": /was (damaged|removed|exchanged)/, "node/http/session.cpp": /TCP clients/,
};
/** Rejections that an event quotes. */
const quoted = /^(E1304|E1403|E1411|E1429|E1541|E1542|E1543|E1544|E1545|E1547)$/;
const withQuoted = ["node/residency/residency.cpp", "admission/promises.cpp", "node/limits/limits.cpp", "machine/checkpoint.cpp", "machine/devices.cpp"];

/** Said on the terminal of whoever starts the daemon, in a rejection, or as something to type; or no sentence. */
const notShown = [
  /^\n /, /^ · \{\}/, /^ \(this machine only\)$/, /^no driver$/, /^ration /, /^--/, /^Ask /, /^Free /, /^As root: /, /^The workload's container /, /^ {3}shows which/, /^Trim instead/, /^Run the daemon/, /^Retry /, /^Start it again/,
  /^ {3}or start it again$/, /^ {3}(asks it to give back|tries it with)/, /^; with driver 610/, /^; or (wait|ask for less)/, /^ {3}\(what does not fit/, /^in the program: /, /^\{\}, or: ration set/, /   \((shows which|who (holds|it))/,
  /^'(\w+|\{\})' is not an object$/, /^'name' is not /, / is not an id of a claim/, /^it has a claim without/, /^a claim has at least/, /^device \{\} is listed twice/, /^it is not an? (list|object)$/, / belongs to \{\}\.$/, /^look at$/, /^cpp|^[a-z]+\/[a-z]/, /^\{:/,
  /^(kept free|without a limit|driver and shim)$/, /^\[ ! -d /, /^to=\$1;/, /^policy at \{\} \{\}$/, /^tenant \{\} on GPU \{\}$/, /^schedule of /, /^NVML shows no device$/, /^GPU \{\} is in MIG mode/,
  // Filled with sizes in the units that somebody chose for the terminal.
  /^over its limit of /, /^could be freed: /, /^in use: /, /^; its limit in force is lower than the configured limit: /,
];

const isSentence = (text: string): boolean => text.includes(" ") && (text.match(/[a-z]{2,}/g) ?? []).length > 1;

function withoutId(): string[] {
  const files = [...new Set([...told, ...Object.keys(partly), ...withQuoted])];
  return files.flatMap((file) => {
    const texts = textsOf(readFileSync(`${source}/${file}`, "utf8"));
    return texts.filter(({ text, calls, line }, index) => {
      if (!isSentence(text) || notShown.some((one) => one.test(text))) return false;
      if (partly[file] && !partly[file].test(text)) return false;
      if (!calls.includes("fail") && !withQuoted.includes(file)) return true;
      // The number of a rejection stands before what it says.
      const number = texts.slice(0, index).reverse().find((one) => /^E\d{4}$/.test(one.text) && line - one.line < 8)?.text ?? "";
      return withQuoted.includes(file) && quoted.test(number);
    }).map(({ text, line }) => `${file}:${line} "${text}"`);
  });
}

test("no sentence of an event, a reason or a finding stands in the sources as a text alone", () => {
  assert.deepEqual(withoutId(), []);
});

test("every message has its Chinese, with the same arguments, and each is said somewhere", () => {
  const english = englishTable();
  assert.ok(english.size > 50);
  assert.deepEqual(Object.keys(messages).sort(), [...english.keys()].sort());
  const parts = (pattern: string, optional: boolean): string[] =>
    [...(optional ? [...pattern.matchAll(/\[[^\]]*\]/g)].join(" ") : pattern.replace(/\[[^\]]*\]/g, "")).matchAll(/\{(\w+)\}/g)].map((found) => found[1] ?? "").sort();
  for (const [id, pattern] of english) {
    const chinese = messages[id] ?? "";
    for (const optional of [false, true]) assert.deepEqual(parts(chinese, optional), parts(pattern, optional), id);
    assert.match(chinese.replace(/\{\w+\}/g, ""), /\p{Script=Han}|[：；（]/u, id);
  }
  const said = new Set(readdirSync(source, { recursive: true, encoding: "utf8" }).filter((file) => /\.[ch]pp$/.test(file) && !file.endsWith("message_table.hpp")).flatMap((file) => [...readFileSync(`${source}/${file}`, "utf8").matchAll(/"([a-z_]+\.[a-z_]+)"/g)].map((found) => found[1])));
  assert.deepEqual([...english.keys()].filter((id) => !said.has(id)), []);
});

test("a message is told by its id: with a list, a message within it, and without what is absent", () => {
  const changes = [say("limit.change", { before_bytes: 2 * 2 ** 30, after_bytes: 3 * 2 ** 30 }), say("guarantee.change", { before_bytes: 0, after_bytes: 2 ** 30 })];
  const changed = say("limit.changed", { workload: "nlp/train", changes, gpu: 0, by: "root", over_bytes: 2 ** 30 });
  assert.equal(changed.text, "nlp/train: limit 2.00 GiB → 3.00 GiB, guarantee 0 B → 1.00 GiB on GPU 0, by root; shrinking, over by 1.00 GiB");
  assert.equal(messageInChinese(changed), "nlp/train：GPU 0 的上限 2.00 GiB → 3.00 GiB，保底显存 0 B → 1.00 GiB，操作者 root；收缩中，超出 1.00 GiB");
  const all = say("limit.changed", { workload: "nlp/train", changes: changes.slice(0, 1), by: "root" });
  assert.equal(all.text, "nlp/train: limit 2.00 GiB → 3.00 GiB, by root");
  assert.equal(messageInChinese(all), "nlp/train：上限 2.00 GiB → 3.00 GiB，操作者 root");
  const waited = say("request.waited", { workload: "a/b", waited_wait_seconds: 2.5, requested_bytes: 2 ** 30, used_bytes: 2 ** 30, limit_bytes: 2 ** 30, count: 3, within_seconds: 72 });
  assert.equal(waited.text, "a/b waited about 2.5s for 1.00 GiB and got it: it held 1.00 GiB of its limit 1.00 GiB (the last of 3 waits within 1m 12s)");
});

test("what this page has no Chinese for is told as it came: a newer daemon's message, an older one's text", () => {
  assert.equal(messageInChinese({ text: "a newer daemon says something else", message_id: "newer.one", arguments: {} }), "a newer daemon says something else");
  assert.equal(messageInChinese({ text: "nlp/train ended with 0, its peak was 2.00 GiB", message_id: null, arguments: null }), "nlp/train ended with 0, its peak was 2.00 GiB");
});

test("what a field says is its text and what stands beside it", () => {
  const row: Record<string, unknown> = { limit_bytes: null, ...put("limit_bytes_na", say("unknown.no_limit")), reason: "of an older daemon" };
  assert.equal(messageInChinese(saidIn(row, "limit_bytes_na") ?? { text: "" }), "此租户未设上限");
  assert.deepEqual(saidIn(row, "reason"), { text: "of an older daemon" });
  assert.equal(saidIn(row, "limit_bytes"), undefined);
});

test("the mock says what the daemon says", () => {
  const world = new World();
  for (const count of [5, 20, 40]) world.tick(count);
  assert.deepEqual(world.events.filter((event) => messageInChinese(event) === event.text), []);
});

test("a name in Chinese stands beside Chinese words without a space", () => {
  const started = (workload: string) => messageInChinese({ text: "", message_id: "workload.started", arguments: { workload, limits_bytes: [4294967296] } });
  assert.equal(started("大模型微调"), "大模型微调已启动，上限 4.00 GiB");
  assert.equal(started("nlp/train"), "nlp/train 已启动，上限 4.00 GiB");
});

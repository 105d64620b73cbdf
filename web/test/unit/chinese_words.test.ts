// The Chinese of the dashboard, of README.zh.md and of docs/zh uses the words of docs/zh/glossary.md, whose last column lists what is not written.
// Where the English of the dashboard has a word of the glossary, its Chinese has the glossary's word.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { englishTable } from "../../mock/messages";
import { messages } from "../../src/text/daemon";
import { rejections } from "../../src/text/rejections";
import { table } from "../../src/text/table";

const glossary = readFileSync("../docs/zh/glossary.md", "utf8");
/** The cells of the rows of four columns. */
const rows = glossary.split("\n").map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim())).filter((cells) => cells.length === 4);

interface Forbidden { word: string; except: string[]; instead: string }
/** A word, or `word（除：compound、compound）`: each list is separated by 、. */
const forbidden: Forbidden[] = rows.flatMap(([, instead = "", , not = ""]) => [...not.matchAll(/([^、（）]+)(?:（除：([^）]*)）)?/g)]
  .map((found) => ({ word: found[1] ?? "", except: found[2]?.split("、") ?? [], instead }))).filter(({ word }) => /^\p{Script=Han}+$/u.test(word) && word !== "不写");

const wrongIn = (text: string): string[] => forbidden.filter(({ word, except }) => except.reduce((rest, compound) => rest.replaceAll(compound, ""), text).includes(word))
  .map(({ word, instead }) => `${word}: ${instead}`);

function* chinese(): Generator<[string, string]> {
  for (const [key, [, text]] of Object.entries(table)) yield [key, text];
  for (const [id, text] of Object.entries(messages)) yield [id, text];
  for (const [id, texts] of Object.entries(rejections)) for (const text of texts) yield [id, text];
  const pages = readdirSync("../docs/zh").filter((name) => name !== "glossary.md").map((name) => `docs/zh/${name}`);
  for (const page of ["README.zh.md", ...pages]) for (const [at, line] of readFileSync(`../${page}`, "utf8").split("\n").entries()) yield [`${page}:${at + 1}`, line];
}

test("no Chinese text uses a word that the glossary replaces", () => {
  assert.deepEqual([...chinese()].flatMap(([where, text]) => wrongIn(text).map((wrong) => `${where}: ${wrong}`)), []);
});

/** Words that a Chinese sentence may leave out, or say by another turn of phrase. */
const loose = ["limit", "guarantee", "workload", "tenant", "slice", "share", "book", "recording", "suspended", "daemon", "account", "claim", "managed memory", "filter", "you"];
const said = rows.filter(([word = ""]) => word !== "英文" && !loose.includes(word)).flatMap(([words = "", chinese = ""]) => words.split(", ")
  .map((word) => ({ word, pattern: new RegExp(`\\b${word}(s|ed)?\\b`, "i"), chinese: chinese.split(/[、（）]/).filter((each) => each !== "") })));

/** The words of the English without their word in Chinese. */
const notSaidIn = (english: string, chinese: string): string[] =>
  said.filter((each) => each.pattern.test(english.replace(/\{\w+\}/g, "")) && !each.chinese.some((word) => chinese.includes(word))).map((each) => `${each.word}: ${each.chinese.join("、")}`);

test("the Chinese of the dashboard says the words of its English", () => {
  const both = [...Object.entries(table).map(([key, [english, chinese]]) => [key, english, chinese] as const), ...[...englishTable()].map(([id, english]) => [id, english, messages[id] ?? ""] as const)];
  assert.ok(both.length > 700 && said.length > 40);
  assert.deepEqual(both.flatMap(([where, english, chinese]) => notSaidIn(english, chinese).map((missing) => `${where}: ${missing}`)), []);
  assert.deepEqual(notSaidIn("Period {tick} closed", "周期 {tick} 已结账"), ["period: 账期"]);
});

test("the glossary's words are read: a word alone, and a word that some compounds may contain", () => {
  assert.ok(forbidden.length > 20);
  assert.deepEqual(wrongIn("账面"), ["账面: 账本"]);
  assert.deepEqual(wrongIn("锁页内存移到主机内存"), []);
  assert.deepEqual(wrongIn("移到主机内存，内存图"), ["内存: 显存"]);
});

test("each word of the English glossary has its row", () => {
  const words = [...readFileSync("../docs/glossary.md", "utf8").matchAll(/^\| \*\*([^|]+?) \|/gm)].map((found) => (found[1] ?? "").replaceAll("**", ""));
  assert.ok(words.length > 30);
  const translated = rows.flatMap(([word = ""]) => [word, ...word.split(", ")]);
  assert.deepEqual(words.filter((word) => !translated.includes(word)), []);
});

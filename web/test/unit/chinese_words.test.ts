// The Chinese of the dashboard, of README.zh.md and of docs/zh uses the words of docs/zh/glossary.md, whose last column lists what is not written.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
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

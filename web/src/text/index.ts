// t("key", {values}): the text of a key in the language chosen. A key that does not exist does not compile.

import { readPreferences } from "../state/preferences";
import type { Problem } from "../api/types";
import { messageInChinese } from "./daemon";
import { joined, saidIn, type Said } from "./message";
import { helpInChinese, rejectionInChinese } from "./rejections";
import { table } from "./table";

export type Key = keyof typeof table;

const inChinese = (): boolean => readPreferences().language === "zh-CN";

type Values = Record<string, string | number>;
const filled = (text: string, values: Values): string => text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));

export function t(key: Key, values: Values = {}): string {
  // The daemon may be newer than this page and say a word (a type of event) that is not in the table: shown as it is.
  const pair = table[key] as readonly [string, string] | undefined;
  const text = filled(pair ? pair[inChinese() ? 1 : 0] : key.slice(key.lastIndexOf(".") + 1), values);
  return inChinese() ? joined(text) : text;
}

/** The text of a key in every language, to be found by any. */
export const everyText = (key: Key, values: Values = {}): string => table[key].map((text) => filled(text, values)).join(" ");

/** The manual, in the language chosen. */
export const documentationPath = (): string => (inChinese() ? "/docs/zh/index.html" : "/docs");

/** What the daemon said, in the language chosen. */
export const saidText = (said: Said): string => (inChinese() ? messageInChinese(said) : said.text);

/** Why the daemon rejected a request, and what helps. */
export function rejectionText(problem: Problem): string {
  const said = saidIn(problem, "detail");
  return (inChinese() && !said?.message_id ? rejectionInChinese(problem) : said && saidText(said)) ?? said?.text ?? problem.title;
}
export const helpText = (problem: Problem): string => (inChinese() ? helpInChinese(problem) : problem.fix ?? "");

/** What a field of the daemon's JSON says, in the language chosen; empty where it is not there. */
export const fieldText = <Row extends object>(row: Row, field: keyof Row & string): string => saidText(saidIn(row, field) ?? { text: "" });

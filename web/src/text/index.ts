// t("key", {values}): the text of a key in the language chosen. A key that does not exist does not compile.

import { readPreferences } from "../state/preferences";
import { messageInChinese } from "./daemon";
import { saidIn, type Said } from "./message";
import { table } from "./table";

export type Key = keyof typeof table;

export function t(key: Key, values: Record<string, string | number> = {}): string {
  // The daemon may be newer than this page and say a word (a type of event) that is not in the table: shown as it is.
  const pair = table[key] as readonly [string, string] | undefined;
  const text = pair ? pair[readPreferences().language === "zh-CN" ? 1 : 0] : key.slice(key.lastIndexOf(".") + 1);
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** What the daemon said, in the language chosen. */
export const saidText = (said: Said): string => (readPreferences().language === "zh-CN" ? messageInChinese(said) : said.text);

/** What a field of the daemon's JSON says, in the language chosen; empty where it is not there. */
export const fieldText = <Row extends object>(row: Row, field: keyof Row & string): string => saidText(saidIn(row, field) ?? { text: "" });

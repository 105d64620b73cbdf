// Messages of the daemon, filled in: a pattern of a table and the arguments that came with the id. Used by the page for
// other languages, and by the mock for the English.

import { formatDuration, formatSize } from "../logic/format";

/** What the daemon said: a text, and what it says where that has an id. */
export interface Said {
  text: string;
  message_id?: string | null;
  arguments?: Record<string, Value> | null;
}
export type Value = string | number | Said | Value[];

/** What `field` says: its text, and the id and arguments that stand beside it (`held_back_by_message` of `held_back_by`). */
export function saidIn<Row extends object>(row: Row | undefined, field: keyof Row & string): Said | undefined {
  const fields = row as Record<string, unknown> | undefined, text = fields?.[field];
  return typeof text === "string" ? { text, ...(fields?.[`${field}_message`] as Omit<Said, "text"> | undefined) } : undefined;
}

export interface Language {
  /** A message within another. */
  said(message: Said): string;
  /** Between messages of a list. */
  comma: string;
}

function form(name: string, value: Value, language: Language): string {
  if (Array.isArray(value)) {
    const first = value[0];
    const between = typeof first === "object" ? language.comma : typeof first === "string" ? "; " : name.endsWith("_bytes") ? ", " : ",";
    return value.map((each) => form(name, each, language)).join(between);
  }
  if (typeof value === "object") return language.said(value);
  if (typeof value === "string") return value;
  if (name.endsWith("_bytes")) return formatSize(value);
  if (name.endsWith("_wait_seconds") && value < 10) return `${value.toFixed(1)}s`;
  return name.endsWith("_seconds") ? formatDuration(value) : String(value);
}

/** Without spaces between two Chinese characters, where a name was filled in. */
export const joined = (text: string): string => text.replace(/(?<=\p{Script=Han}) (?=\p{Script=Han})/gu, "");

/** `{name}` is an argument; `[…]` is left out where one in it is absent. */
export function fill(pattern: string, values: Record<string, Value>, language: Language): string {
  const filled = (part: string) => part.replace(/\{(\w+)\}/g, (_whole, name: string) => (values[name] === undefined ? "" : form(name, values[name], language)));
  return pattern.replace(/\[([^\]]*)\]|[^[]+/g, (part, optional?: string) => {
    if (optional === undefined) return filled(part);
    return [...optional.matchAll(/\{(\w+)\}/g)].every((found) => values[found[1] ?? ""] !== undefined) ? filled(optional) : "";
  });
}

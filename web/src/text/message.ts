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

export interface Language {
  /** A message within another, and a text that may be one (`{name!}`). */
  said(message: Said): string;
  told(text: string): string;
  /** Between messages of a list. */
  comma: string;
}

function form(name: string, value: Value, isTold: boolean, language: Language): string {
  if (Array.isArray(value)) {
    const first = value[0];
    const between = typeof first === "object" ? language.comma : typeof first === "string" ? "; " : name.endsWith("_bytes") ? ", " : ",";
    return value.map((each) => form(name, each, isTold, language)).join(between);
  }
  if (typeof value === "object") return language.said(value);
  if (typeof value === "string") return isTold ? language.told(value) : value;
  if (name.endsWith("_bytes")) return formatSize(value);
  if (name.endsWith("_wait_seconds") && value < 10) return `${value.toFixed(1)}s`;
  return name.endsWith("_seconds") ? formatDuration(value) : String(value);
}

/** `{name}` is an argument, `{name!}` one that may be a text of the daemon; `[…]` is left out where one in it is absent. */
export function fill(pattern: string, values: Record<string, Value>, language: Language): string {
  const filled = (part: string) => part.replace(/\{(\w+)(!?)\}/g, (_whole, name: string, told: string) => (values[name] === undefined ? "" : form(name, values[name], told !== "", language)));
  return pattern.replace(/\[([^\]]*)\]|[^[]+/g, (part, optional?: string) => {
    if (optional === undefined) return filled(part);
    return [...optional.matchAll(/\{(\w+)!?\}/g)].every((found) => values[found[1] ?? ""] !== undefined) ? filled(optional) : "";
  });
}

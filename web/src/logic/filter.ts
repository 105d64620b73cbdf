// Whether the daemon will understand a filter (src/rows/filter.cpp): it is asked only for those that it does, as a browser writes every
// rejection into its console, and somebody who types has something unfinished most of the time. Tests hold this against the daemon's sources.

import { fill, type Said, type Value } from "../text/message";
import { parseSize } from "./format";

export type FieldKind = "size" | "count" | "duration" | "yesNo" | "text";

export const fields: Record<string, FieldKind> = {
  used: "size", limit: "size", guarantee: "size", peak: "size", context: "size", pooled: "size", pinned: "size", host_limit: "size", left: "size",
  denied: "count", pid: "count", gpu: "count", run: "count", changes: "count", idle: "duration", governed: "yesNo", full: "yesNo",
  name: "text", workload: "text", device: "text", tenant: "text", user: "text", state: "text", label: "text", slice: "text", where: "text", command: "text",
};

/** As the daemon says it. */
export const sentences = {
  "filter.rest": "the filter cannot continue with '{text}'.",
  "filter.too_deep": "the filter has too many nested parentheses.",
  "filter.no_parenthesis": "a ')' is missing in the filter.",
  "filter.no_quote": "a '\"' is missing in the filter.",
  "filter.no_field": "rows have no field '{field}' to filter by.[ Did you mean '{meant}'?] They have {fields}.",
  "filter.wants_at_end": "the filter needs {what} at its end.",
  "filter.wants_instead": "the filter needs {what} in place of '{text}'.",
  "filter.field_or_word": "a field or a word",
  "filter.value": "a value after '{field}'",
  "filter.is_text": "'{field}' is a text: compare it with =, !=, ~= or !~.",
  "filter.is_yes_or_no": "'{field}' is yes or no: compare it with = or !=.",
  "filter.is_number": "'{field}' is a number: compare it with >, >=, <, <=, = or !=.",
  "filter.not_yes_or_no": "'{field}' is yes or no, not '{text}'.",
  "filter.not_number": "'{field}' is a number, not '{text}'.",
  "filter.too_long": "a filter may have at most {count} letters.",
} as const;

/** Why a filter is not understood: what the daemon says, or a text of this page about a size or a duration. */
export type FilterProblem = Said | { key: "size.unit" | "size.unreadable" | "size.ambiguous" | "duration.unreadable" };

const longest = 1000, deepest = 50;
const say = (id: keyof typeof sentences, values: Record<string, Value> = {}): Said =>
  ({ text: fill(sentences[id], values, { said: (message) => message.text, comma: ", " }), message_id: id, arguments: values });

/** How many letters are wrong, missing, too many, or exchanged with the next. */
function distance(left: string, right: string): number {
  const cost = [...Array(left.length + 1).keys()].map((i) => [...Array(right.length + 1).keys()].map((j) => (i === 0 || j === 0 ? i + j : 0)));
  const at = (i: number, j: number): number => cost[i]?.[j] ?? 0;
  for (let i = 1; i <= left.length; i += 1) {
    for (let j = 1; j <= right.length; j += 1) {
      const exchanged = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1] ? at(i - 2, j - 2) + 1 : Infinity;
      (cost[i] ?? [])[j] = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (left[i - 1] === right[j - 1] ? 0 : 1), exchanged);
    }
  }
  return at(left.length, right.length);
}

function nearest(typed: string): string | undefined {
  const [best] = Object.keys(fields).map((field) => ({ field, letters: distance(typed, field) })).sort((one, other) => one.letters - other.letters);
  return typed.length <= 64 && best && best.letters <= Math.max(1, Math.floor(typed.length / 3)) ? best.field : undefined;
}

/** A value that cannot be compared so. */
function problemOfValue(field: string, kind: FieldKind, operator: string, given: string): FilterProblem | null {
  const value = given.toLowerCase(), equality = ["=", "==", "!="].includes(operator), ofText = operator.includes("~");
  if (value === "n/a" && equality) return null;
  if (kind === "text") return ofText || equality ? null : say("filter.is_text", { field });
  if (kind === "yesNo") {
    if (!equality) return say("filter.is_yes_or_no", { field });
    return /^(yes|true|1|no|false|0)$/.test(value) ? null : say("filter.not_yes_or_no", { field, text: given });
  }
  if (ofText) return say("filter.is_number", { field });
  if (kind === "count") return /^\d+$/.test(value) ? null : say("filter.not_number", { field, text: given });
  if (/^0+$/.test(value) || (kind === "size" && given === "unlimited")) return null;
  if (kind === "duration") return /^\d+(\.\d*)?(ms|s|m|h)$/.test(given) ? null : { key: "duration.unreadable" };
  const size = parseSize(given.replace(/%free$/, "%"), 2 ** 60);
  if ("bytes" in size) return size.bytes <= 2 ** 60 ? null : { key: "size.unreadable" };
  return { key: size.problem === "empty" ? "size.unreadable" : `size.${size.problem}` };
}

class Parser {
  constructor(private rest: string) {}

  whole(): void {
    this.either(0);
    if (this.rest.trim() !== "") throw new Rejected(say("filter.rest", { text: this.rest.trim().slice(0, 20) }));
  }

  /** What matches where the rest begins; null where it does not. */
  private take(pattern: RegExp): string | null {
    this.rest = this.rest.replace(/^[ \t\n]+/, "");
    const found = pattern.exec(this.rest)?.[0] ?? null;
    this.rest = this.rest.slice(found?.length ?? 0);
    return found;
  }

  private either(depth: number): void {
    do this.every(depth);
    while (this.take(/^\|\|?/) !== null);
  }

  private every(depth: number): void {
    do this.one(depth);
    while (this.take(/^&&?/) !== null || this.take(/^(?=[^|)&])/) !== null);
  }

  private one(depth: number): void {
    if (depth > deepest) throw new Rejected(say("filter.too_deep"));
    if (this.take(/^!/) !== null) return this.one(depth + 1);
    if (this.take(/^\(/) === null) return this.comparison();
    this.either(depth + 1);
    if (this.take(/^\)/) === null) throw new Rejected(say("filter.no_parenthesis"));
  }

  private comparison(): void {
    const word = this.value(say("filter.field_or_word")), operator = this.take(/^([><=!]=|~=|!~|[><=])/);
    if (operator === null) return;
    const field = word.toLowerCase(), kind = Object.hasOwn(fields, field) ? fields[field] : undefined, meant = nearest(word);
    if (!kind) throw new Rejected(say("filter.no_field", { field: word, ...(meant && { meant }), fields: Object.keys(fields).join(", ") }));
    const problem = problemOfValue(field, kind, operator, this.value(say("filter.value", { field })));
    if (problem) throw new Rejected(problem);
  }

  private value(what: Said): string {
    const quoted = this.take(/^"[^"]*"?/);
    if (quoted !== null) {
      if (!/^".*"$/s.test(quoted)) throw new Rejected(say("filter.no_quote"));
      return quoted.slice(1, -1);
    }
    const word = this.take(/^[^ \t\n&|()!<>=~"]+/);
    if (word !== null) return word;
    throw new Rejected(this.rest === "" ? say("filter.wants_at_end", { what }) : say("filter.wants_instead", { what, text: this.rest.slice(0, 20) }));
  }
}

class Rejected extends Error {
  constructor(readonly problem: FilterProblem) {
    super("text" in problem ? problem.text : problem.key);
  }
}

/** As the daemon reads full-width letters and signs (src/base/utf8.cpp). */
const inAscii = (text: string): string =>
  text.replace(/[–—―]+/g, "--").replace(/[\uff01-\uff5e]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) - 0xfee0)).replace(/\u3000/g, " ").replace(/、/g, ",").replace(/。/g, ".").replace(/[“”]/g, "\"");

/** Quoted text stays as it is: in quotes of ASCII it ends with such a quote, in others with any. */
const withAsciiSigns = (filter: string): string =>
  filter.replace(/"[^"]*"?|([“”＂])([^"“”＂]*)(["“”＂]?)|[^"“”＂]+/g, (found: string, quote?: string, quoted?: string, end?: string) => {
    if (quote !== undefined) return `"${quoted ?? ""}${end ? "\"" : ""}`;
    return found.startsWith("\"") ? found : inAscii(found);
  });

/** Null: the daemon understands it. */
export function problemOf(filter: string): FilterProblem | null {
  if (filter.trim() === "") return null;
  if (new TextEncoder().encode(filter).length > longest) return say("filter.too_long", { count: longest });
  try {
    new Parser(withAsciiSigns(filter)).whole();
    return null;
  } catch (cause) {
    if (cause instanceof Rejected) return cause.problem;
    throw cause;
  }
}

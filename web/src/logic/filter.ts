// The filter language of `ration top` and the tables here: `used>4GiB & denied>0`, `tenant~=nlp`, `governed==no`,
// `idle>30m | state==suspended`, parentheses, `!`. A word alone is looked for in all text fields.
// Unknown values match nothing but `==n/a`.

import { parseDuration, parseSize } from "./format";

export type Cell = string | number | boolean | null | undefined;
export type FieldKind = "text" | "size" | "count" | "duration" | "flag";
export interface Field<Row> {
  kind: FieldKind;
  read: (row: Row) => Cell;
}
export type Fields<Row> = Record<string, Field<Row>>;

export type Predicate<Row> = (row: Row) => boolean;
export type Compiled<Row> = { matches: Predicate<Row> } | { error: FilterError };
export interface FilterError {
  kind: "field" | "value" | "syntax";
  at: number;
  text: string;
  hint: string;
}

class Refused extends Error {
  constructor(readonly error: FilterError) {
    super(error.text);
  }
}

interface Token {
  kind: "word" | "operator" | "symbol";
  text: string;
  at: number;
}

function tokens(text: string): Token[] {
  const found: Token[] = [];
  const pattern = /\s*(?:("(?:[^"\\]|\\.)*")|(==|!=|>=|<=|~=|!~|>|<|=)|(&&|\|\||[&|()!])|([^\s&|()!<>=~"]+))/gy;
  let position = 0;
  while (position < text.trimEnd().length) {
    pattern.lastIndex = position;
    const match = pattern.exec(text);
    if (!match) throw new Refused({ kind: "syntax", at: position, text: text.slice(position).trim(), hint: "used>4GiB & denied>0" });
    const at = pattern.lastIndex - match[0].trimStart().length;
    if (match[1] !== undefined) found.push({ kind: "word", text: match[1].slice(1, -1).replace(/\\(.)/g, "$1"), at });
    else if (match[2] !== undefined) found.push({ kind: "operator", text: match[2], at });
    else if (match[3] !== undefined) found.push({ kind: "symbol", text: match[3].charAt(0), at });
    else found.push({ kind: "word", text: match[4] ?? "", at });
    position = pattern.lastIndex;
  }
  return found;
}

/** Letters to change to get from one word to the other. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}

function nearest(word: string, known: string[]): string {
  return [...known].sort((left, right) => distance(word, left) - distance(word, right))[0] ?? "";
}

const yes = ["yes", "true", "1", "on"];
const no = ["no", "false", "0", "off"];

function wanted(kind: FieldKind, token: Token): string | number | boolean {
  const refuse = (hint: string): never => {
    throw new Refused({ kind: "value", at: token.at, text: token.text, hint });
  };
  if (kind === "text") return token.text.toLowerCase();
  if (kind === "flag") {
    const lower = token.text.toLowerCase();
    return yes.includes(lower) ? true : no.includes(lower) ? false : refuse("yes, no");
  }
  if (kind === "duration") return parseDuration(token.text) ?? refuse("30s, 5m, 2h");
  if (kind === "count") return /^\d+(\.\d+)?$/.test(token.text) ? Number(token.text) : refuse("3");
  if (token.text === "0") return 0;
  const size = parseSize(token.text, Number.NaN);
  return "bytes" in size && !Number.isNaN(size.bytes) ? size.bytes : refuse("4GiB, 512MiB");
}

function compares<Row>(name: string, field: Field<Row>, operator: string, token: Token): Predicate<Row> {
  if (token.text.toLowerCase() === "n/a") {
    if (operator === "!=") return (row) => field.read(row) != null;
    return (row) => field.read(row) == null;
  }
  if (operator === "~=" || operator === "!~") {
    const part = token.text.toLowerCase();
    return (row) => {
      const value = field.read(row);
      return value != null && String(value).toLowerCase().includes(part) === (operator === "~=");
    };
  }
  const value = wanted(field.kind, token);
  const ordered = field.kind !== "text" && field.kind !== "flag";
  if (!ordered && !["==", "=", "!="].includes(operator)) {
    throw new Refused({ kind: "syntax", at: token.at, text: `${name}${operator}`, hint: `${name}==${token.text}` });
  }
  return (row) => {
    const cell = field.read(row);
    if (cell == null) return false;
    const have = typeof cell === "string" ? cell.toLowerCase() : cell;
    switch (operator) {
      case "!=": return have !== value;
      case ">": return have > value;
      case ">=": return have >= value;
      case "<": return have < value;
      case "<=": return have <= value;
      default: return have === value;
    }
  };
}

/** An empty text matches everything. */
export function compileFilter<Row>(text: string, fields: Fields<Row>): Compiled<Row> {
  try {
    const list = tokens(text);
    let next = 0;
    const peek = () => list[next];
    const is = (symbol: string) => peek()?.kind === "symbol" && peek()?.text === symbol;
    const incomplete = (): never => {
      throw new Refused({ kind: "syntax", at: text.length, text: text.trim(), hint: "used>4GiB & denied>0" });
    };

    const one = (): Predicate<Row> => {
      const token = list[next];
      if (!token) return incomplete();
      next += 1;
      if (token.kind === "symbol" && token.text === "!") {
        const inner = one();
        return (row) => !inner(row);
      }
      if (token.kind === "symbol" && token.text === "(") {
        const inner = any();
        if (!is(")")) incomplete();
        next += 1;
        return inner;
      }
      if (token.kind !== "word") {
        throw new Refused({ kind: "syntax", at: token.at, text: token.text, hint: "used>4GiB & denied>0" });
      }
      const operator = peek();
      if (operator?.kind !== "operator") {
        const part = token.text.toLowerCase();
        const texts = Object.values(fields).filter((field) => field.kind === "text");
        return (row) => texts.some((field) => String(field.read(row) ?? "").toLowerCase().includes(part));
      }
      next += 1;
      const value = list[next];
      if (value?.kind !== "word") return incomplete();
      next += 1;
      const field = fields[token.text.toLowerCase()];
      if (!field) {
        const hint = nearest(token.text.toLowerCase(), Object.keys(fields));
        throw new Refused({ kind: "field", at: token.at, text: token.text, hint });
      }
      return compares(token.text, field, operator.text, value);
    };
    const all = (): Predicate<Row> => {
      const parts = [one()];
      while (next < list.length && !is("|") && !is(")")) {
        if (is("&")) next += 1;
        parts.push(one());
      }
      return (row) => parts.every((part) => part(row));
    };
    const any = (): Predicate<Row> => {
      const parts = [all()];
      while (is("|")) {
        next += 1;
        parts.push(all());
      }
      return (row) => parts.some((part) => part(row));
    };

    if (list.length === 0) return { matches: () => true };
    const matches = any();
    if (next < list.length) incomplete();
    return { matches };
  } catch (refused) {
    if (refused instanceof Refused) return { error: refused.error };
    throw refused;
  }
}

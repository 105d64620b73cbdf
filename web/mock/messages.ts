// The English of the daemon's messages, from the table that the daemon is compiled with.

import { readFileSync } from "node:fs";
import { fill, type Language, type Value } from "../src/text/message";

/** By id. */
export function englishTable(file = "../src/base/message_table.hpp"): Map<string, string> {
  const rows = readFileSync(file, "utf8").matchAll(/^ {4}\{"([\w.]+)", "((?:[^"\\]|\\.)*)"\},$/gm);
  return new Map([...rows].map(([, id, english]) => [id ?? "", JSON.parse(`"${english ?? ""}"`) as string]));
}

const table = englishTable();
const asItIs: Language = { said: (message) => message.text, comma: ", " };

interface Message {
  message_id: string;
  arguments: Record<string, Value>;
}

/** The message as the daemon sends it. */
export function say(id: string, values: Record<string, Value> = {}): { text: string } & Message {
  const english = table.get(id);
  if (english === undefined) throw new Error(`there is no message ${id}`);
  return { text: fill(english, values, asItIs), message_id: id, arguments: values };
}

/** A message as a field of its own, as the daemon sends it. */
export function put<Field extends string>(field: Field, { text, ...message }: ReturnType<typeof say>): Record<Field, string> & Record<`${Field}_message`, Message> {
  return { [field]: text, [`${field}_message`]: message } as Record<Field, string> & Record<`${Field}_message`, Message>;
}

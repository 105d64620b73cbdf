// The daemon's interface as share/ration has it: which methods, paths and parameters there are, and the schema of each answer.

import { readFileSync } from "node:fs";
import type { Schema } from "./schema";

const share = "../share/ration";

interface Operation {
  parameters?: { name: string; in: string }[];
  responses: Record<string, { "x-problems"?: string[]; content?: Record<string, { schema: { $ref?: string; anyOf?: { $ref?: string }[] } }> }>;
}

const read = <Data>(path: string): Data => JSON.parse(readFileSync(`${share}/${path}`, "utf8")) as Data;
export const { paths, components } = read<{ paths: Record<string, Record<string, Operation>>; components: { responses: { refused: { "x-problems": string[] } } } }>("openapi.json");
/** Rejections of every path. */
export const alwaysPossible = components.responses.refused["x-problems"];

/** What stands in braces has no name here: `/api/v1/events/{}`. */
export const nameless = (path: string): string => path.replace(/\$?\{[^}]*\}/g, "{}");
export const knownPaths = new Set(Object.keys(paths).map(nameless));

export function operationOf(route: string): Operation | undefined {
  const [method, path] = route.split(" ");
  const found = Object.keys(paths).find((one) => nameless(one) === nameless(path ?? ""));
  return found === undefined ? undefined : paths[found]?.[(method ?? "").toLowerCase()];
}

/** What is wrong with a request by this document; null: nothing. Only the API is looked at. */
export function objection(method: string, url: string): string | null {
  const { pathname, searchParams } = new URL(url);
  if (!pathname.startsWith("/api/")) return null;
  const found = Object.keys(paths).find((path) => paths[path]?.[method.toLowerCase()] && new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`).test(pathname));
  if (found === undefined) return `${method} ${pathname} is not in openapi.json`;
  const known = (paths[found]?.[method.toLowerCase()]?.parameters ?? []).map((parameter) => parameter.name);
  const strange = [...searchParams.keys()].filter((name) => !known.includes(name));
  return strange.length > 0 ? `${method} ${pathname} has no parameter ${strange.join(", ")} in openapi.json` : null;
}

/** The schema of `data` in the documents of this name. */
export function dataSchema(name: string): Schema {
  const document = read<Schema>(`schema/${name}.json`);
  const data = (document.oneOf?.[0] ?? document).properties?.["data"];
  if (!data) throw new Error(`schema/${name}.json has no data`);
  return data;
}

/** The schema of `data` where a route answers JSON of ration's; null where it does not. */
export function answerSchema(route: string): Schema | null {
  const responses = operationOf(route)?.responses ?? {};
  const schema = (responses["200"] ?? responses["202"])?.content?.["application/json"]?.schema;
  const name = /schema\/(\w+)\.json/.exec(schema?.$ref ?? schema?.anyOf?.[0]?.$ref ?? "")?.[1];
  return name === undefined ? null : dataSchema(name);
}

// The pages and the mock against the daemon's own description of itself: what it does not say is not asked, read or made up.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";
import { answer, routes } from "../../mock/answers";
import { World, type Viewer } from "../../mock/world";
import { eventTypes } from "../../src/api/types";
import { answerSchema, dataSchema, knownPaths, nameless, objection, operationOf } from "../contract/interface";
import { faults, type Schema } from "../contract/schema";

const sources = ["src", "mock"].flatMap((room) => (readdirSync(room, { recursive: true }) as string[]).filter((file) => /\.tsx?$/.test(file)).map((file) => `${room}/${file}`));

test("each path that stands in the pages or in the mock is one of the daemon's", () => {
  const strange: string[] = [];
  let count = 0;
  for (const file of sources) {
    for (const found of readFileSync(file, "utf8").matchAll(/["'`](?:[A-Z]+ )?(\/api\/v1\/[^"'`?]*)/g)) {
      count += 1;
      if (!knownPaths.has(nameless(found[1] ?? ""))) strange.push(`${file}: ${found[1]}`);
    }
  }
  assert.deepEqual(strange, []);
  assert.ok(count > 30, `only ${count} paths were found`);
});

test("a request that the daemon does not know is objected to", () => {
  assert.equal(objection("GET", "http://h/api/v1/events/7"), null);
  assert.equal(objection("POST", "http://h/api/v1/workloads/train/trim"), null);
  assert.match(objection("POST", "http://h/api/v1/trim") ?? "", /is not in openapi/);
  assert.match(objection("GET", "http://h/api/v1/workloads/train/explain?gpu=0") ?? "", /no parameter gpu/);
});

test("the list of event types is the daemon's", () => {
  assert.deepEqual([...eventTypes].sort(), [...(dataSchema("event").properties?.["type"]?.enum ?? [])].sort());
});

const viewers: Viewer[] = ["operator", "tenant", "anonymous"];

/** Asked of the mock, in this order; a route that is not here is asked as it stands. */
const asked: Record<string, { path?: string; query?: string; body?: object }[]> = {
  "POST /api/v1/session": [{ body: { token: "once" } }],
  "GET /api/v1/series": [{ query: "metric=used_bytes&by=tenant&gpu=0&from=-1h&points=20" }, { query: "metric=used_bytes&by=device&from=-1h&points=20" }],
  "GET /api/v1/workloads/{name}/explain": [{ path: "/api/v1/workloads/train/explain" }],
  "PATCH /api/v1/workloads/{name}": [{ path: "/api/v1/workloads/serve", query: "dry_run=1", body: { limit: "12GiB" } }, { path: "/api/v1/workloads/serve", body: { limit: "12GiB" } }],
  "POST /api/v1/workloads/{name}/trim": [{ path: "/api/v1/workloads/serve/trim" }],
  "POST /api/v1/workloads/{name}/suspend": [{ path: "/api/v1/workloads/serve/suspend" }],
  "POST /api/v1/workloads/{name}/resume": [{ path: "/api/v1/workloads/kernel-eve/resume" }],
  "PATCH /api/v1/tenants/{name}": [{ path: "/api/v1/tenants/nlp", body: { limit: "26GiB", guarantee: "9GiB" } }],
  "DELETE /api/v1/leases/{id}": [{ path: "/api/v1/leases/q-6" }],
  "GET /api/v1/events/{id}": [{ path: "/api/v1/events/1701" }],
  "GET /api/v1/denials/{id}": [{ path: "/api/v1/denials/d-4-1" }],
  "GET /api/v1/recordings/{name}": [{ path: "/api/v1/recordings/train.rec" }, { path: "/api/v1/recordings/train.rec", query: "from=0.001&to=0.002" }],
  "GET /api/v1/recordings/{name}/moment": [{ path: "/api/v1/recordings/train.rec/moment" }, { path: "/api/v1/recordings/train.rec/moment", query: "at=0.002" }],
  "GET /api/v1/recordings/{name}/usage": [{ path: "/api/v1/recordings/train.rec/usage" }],
  "GET /api/v1/recordings/{name}/changes": [{ path: "/api/v1/recordings/train.rec/changes", query: "to=after.rec" }],
  "GET /api/v1/reports/usage": ["by=tenant", "by=label:exp&price=0.031&share_idle=even", "by=workload&share_idle=weighted&basis=max", "window=lastmonth"].map((query) => ({ query })),
  "POST /api/v1/reports/periods/{period}:close": [{ path: "/api/v1/reports/periods/2026-01:close" }],
};

test("each route of the mock is one of the daemon's, and its answers are as the schemas say, before and after changes", () => {
  const world = new World();
  const found: string[] = [];
  for (const round of [1, 2]) {
    for (const route of Object.keys(routes)) {
      const [method = "", path = ""] = route.split(" ");
      if (!operationOf(route)) found.push(`${route} is not in openapi.json`);
      const schema = answerSchema(route);
      for (const one of asked[route] ?? [{}]) {
        for (const viewer of viewers.slice(0, method === "GET" ? 3 : 1)) {
          const got = answer(world, { method, path: one.path ?? path, query: new URLSearchParams(one.query), body: { ...one.body }, ifMatch: null, viewer });
          if (viewer === "anonymous" && got.status === 403) continue;
          if (round === 2 && (got.status === 409 || got.status === 401)) continue;
          if (got.problem) found.push(`${route}: ${got.problem.detail}`);
          else if (schema) found.push(...faults(schema, got.data).map((fault) => `${route} ${fault}`));
        }
      }
    }
  }
  assert.deepEqual(found, []);
});

/** Where each interface of types.ts stands in the schemas. */
const documents: Record<string, Schema | undefined> = (() => {
  const snapshot = dataSchema("snapshot").properties ?? {}, tenant = snapshot["tenants"]?.items, row = snapshot["workloads"]?.items, governed = row?.oneOf?.[0];
  const usage = dataSchema("report"), series = dataSchema("series"), explain = dataSchema("explain_workload").items;
  const strangers = row?.oneOf?.[1]?.properties?.["processes"]?.items, own = governed?.properties?.["processes"]?.items;
  const recordings = dataSchema("recordings"), recording = dataSchema("recording"), inspection = recording.properties?.["inspection"], moment = dataSchema("recording_moment"), place = moment.properties?.["places"]?.items;
  return {
    Session: dataSchema("session"), Login: dataSchema("login"), Device: snapshot["devices"]?.items, WorkloadRow: row, Process: { oneOf: [own, strangers].filter((one) => one !== undefined) }, Tenant: tenant,
    TenantAccount: tenant?.properties?.["accounts"]?.items, Lease: dataSchema("leases").items, Snapshot: dataSchema("snapshot"), NodeEvent: dataSchema("event"), Denial: dataSchema("why"), Explained: explain,
    ExplainRow: explain?.properties?.["rows"]?.items, Line: series.properties?.["lines"]?.items, Series: series, Gap: series.properties?.["gaps"]?.items, Usage: usage, UsageRow: usage.properties?.["rows"]?.items,
    RecordingFile: recordings.properties?.["recordings"]?.items, Recordings: recordings, Inspection: inspection, Held: inspection?.properties?.["held"]?.items, AlikeBlocks: inspection?.properties?.["never_freed"]?.items,
    RecordingDocument: recording, RecordingWindow: recording.properties?.["window"], ListedEvent: recording.properties?.["window"]?.properties?.["listed"]?.items, RecordingMoment: moment, MomentPlace: place,
    Runs: place?.properties?.["map"]?.properties?.["runs"], RecordingUsage: dataSchema("recording_usage"), RecordingChange: dataSchema("recording_changes").items,
    Period: dataSchema("period"), Consequences: dataSchema("change"), Health: dataSchema("health"),
  };
})();
const elsewhere = ["Envelope", "Warning", "Problem"];

/** What types.ts believes of an object and its schema does not promise. */
function beliefs(name: string, members: ts.NodeArray<ts.TypeElement>, schema: Schema): string[] {
  const found: string[] = [];
  const ways = schema.oneOf ?? [schema];
  for (const member of members) {
    if (!ts.isPropertySignature(member) || !member.type) continue;
    const field = member.name.getText(), place = `${name}.${field}`;
    const known = ways.map((way) => way.properties?.[field]).filter((one) => one !== undefined);
    if (known.length === 0) {
      found.push(`${place} is in no schema`);
      continue;
    }
    if (!member.questionToken && !ways.every((way) => way.required?.includes(field))) found.push(`${place} may be missing`);
    const parts = ts.isUnionTypeNode(member.type) ? [...member.type.types] : [member.type];
    const maybe = known.some((one) => [one.type].flat().includes("null") || one.oneOf?.some((way) => way.type === "null"));
    if (maybe && !parts.some((part) => part.getText() === "null")) found.push(`${place} may be null`);
    for (const part of parts) {
      const array = ts.isArrayTypeNode(part), inner = array ? part.elementType : part;
      const below = known.map((one) => (array ? one.items : one.oneOf?.find((way) => way.type === "object") ?? one)).find((one) => one !== undefined);
      if (ts.isTypeLiteralNode(inner) && below) found.push(...beliefs(place, inner.members, below));
    }
  }
  return found;
}

test("what types.ts and recording.ts say of the daemon's JSON is what the schemas promise", () => {
  const parsed = (file: string) => ts.createSourceFile(file, readFileSync(`src/api/${file}`, "utf8"), ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  for (const statement of ["types.ts", "recording.ts"].flatMap((file) => [...parsed(file).statements])) {
    if (!ts.isInterfaceDeclaration(statement) || elsewhere.includes(statement.name.text)) continue;
    const schema = documents[statement.name.text];
    if (schema) found.push(...beliefs(statement.name.text, statement.members, schema));
    else found.push(`${statement.name.text} is compared with no schema`);
  }
  assert.deepEqual(found, []);
});

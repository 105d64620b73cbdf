// What the mock answers, by method and path as share/ration/openapi.json has them, apart from the stream. A test holds the
// answers against share/ration/schema.

import type { Explained, ExplainRow, Health, Series, Usage, UsageRow, WorkloadRow } from "../src/api/types";
import { problemOf } from "../src/logic/filter";
import { formatSize, parseDuration, parseSize } from "../src/logic/format";
import type { Said, Value } from "../src/text/message";
import type { MomentPlace, RecordingChange, RecordingDocument, RecordingMoment, RecordingUsage } from "../src/api/recording";
import { cutWindow } from "../src/logic/recording";
import { put, say } from "./messages";
import recorded from "./recording.json";
import { gib, total, type Viewer, type Workload, type World } from "./world";

export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
  ifMatch: string | null;
  viewer: Viewer;
}

export interface Answer {
  status: number;
  data?: unknown;
  problem?: { id: string; title: string; detail: string; fix: string };
  text?: { type: string; body: string };
}

const ok = (data: unknown, status = 200): Answer => ({ status, data });
const refuse = (status: number, id: string, title: string, detail: string, fix: string): Answer => ({ status, problem: { id, title, detail, fix } });
const notFound = (what: string): Answer => refuse(404, "E1801", "not known", `${what} is not known.`, "ration ps");

/** Documents of a real daemon about one small recording, which both names have. */
const documents = recorded as unknown as { recording: RecordingDocument; moment: RecordingMoment; usage: RecordingUsage; changes: RecordingChange[] };
const recordings = ["train.rec", "after.rec"];
const recording = (name: string, make: () => unknown): Answer => (recordings.includes(name) ? ok(make()) : refuse(404, "E1830", "not known", `no recording is named '${name}'.`, "ration record -o /var/lib/ration/recordings/NAME.rec -- PROGRAM"));

function instant(text: string | null, otherwise: number): number {
  if (!text) return otherwise;
  const relative = /^-(\d+)([smh])$/.exec(text);
  if (relative) return Date.now() - Number(relative[1]) * ({ s: 1, m: 60, h: 3600 }[relative[2] ?? "s"] ?? 1) * 1000;
  return Date.parse(text);
}

function series(world: World, query: URLSearchParams): Answer {
  const to = instant(query.get("to"), Date.now()), from = instant(query.get("from"), to - 3600_000);
  if (!(from < to)) return refuse(400, "E1106", "no time", "from is not before to.", "from=-6h");
  const points = Math.min(2000, Number(query.get("points") ?? 600)), by = query.get("by") ?? "tenant", gpu = query.get("gpu");
  const step = Math.max(1, (to - from) / 1000 / points), count = Math.floor((to - from) / 1000 / step);
  const here = world.workloads.filter((one) => (gpu === null || String(one.gpu) === gpu) && (!query.get("workload") || one.name === query.get("workload")));
  const groups = new Map<string, Workload[]>();
  for (const one of here) {
    const name = by === "tenant" ? one.tenant : by === "device" ? `GPU-sim-${one.gpu}` : one.name;
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  const times = Array.from({ length: count + 1 }, (_, index) => from + index * step * 1000);
  // The daemon did not run for four minutes, fifty minutes ago.
  const gap = { from: world.started - 3000_000, to: world.started - 2760_000 };
  const known = (at: number): boolean => at < gap.from || at > gap.to;
  const result: Series = {
    metric: "used_bytes", by, gpu: gpu === null ? null : Number(gpu), from: new Date(from).toISOString(), to: new Date(to).toISOString(), step_seconds: step,
    lines: [...groups].map(([name, members]) => {
      const maximum = times.map((at) => (known(at) ? members.reduce((sum, one) => sum + world.usedAt(one, at), 0) : null));
      return { name, maximum, average: maximum.map((value) => (value === null ? null : Math.round(value * 0.94))) };
    }),
    limits: [...groups].map(([name, members]) => ({ name, values: times.map((at) => members.reduce((sum, one) => sum + world.limitAt(one, at), 0)) })),
    denials: world.events.filter((event) => event.type === "denied" && here.some((one) => one.name === event.workload) && Date.parse(event.time) >= from && Date.parse(event.time) <= to)
      .map((event) => ({ time: event.time, event: event.id, name: by === "tenant" ? event.tenant ?? "" : by === "device" ? `GPU-sim-${event.gpu}` : event.workload ?? "" })),
    gaps: gap.to > from && gap.from < to ? [{ from: new Date(gap.from).toISOString(), to: new Date(gap.to).toISOString() }] : [],
    capacity_bytes: gpu === null ? 2 * total : total,
  };
  return ok(result);
}

const part = (id: string, label: string, bytes: number | null, source: string): ExplainRow => ({ id, bytes, ...put("label", say(label)), ...put(bytes === null ? "bytes_na" : "source", say(source)) });

function explain(one: Workload, world: World): Explained & Record<string, unknown> {
  const used = world.usedAt(one, Date.now()), pooled = Math.min(one.pooled, used), unexplained = 24 * 2 ** 20;
  return {
    workload: one.name, tenant: one.tenant, user: one.user, device: "NVIDIA A100-SXM4-80GB", account: "device", processes: [],
    gpu: one.gpu, used_bytes: used, limit_bytes: world.limitAt(one, Date.now()), suspended_bytes: 0, shared_bytes: 0, driver_bytes: used + unexplained, rows: [
      part("allocated", "memory.allocated", Math.max(0, used - pooled - one.context), "source.book"),
      part("pooled", "memory.pooled", pooled, "source.book_pools"),
      part("context", "memory.context", one.context, "source.book_context"),
      part("framework_free", "memory.framework_free", null, "unknown.framework_only"),
      part("unexplained", "memory.unexplained", unexplained, "source.rest_of_processes"),
    ],
  };
}

function patchWorkload(world: World, asked: Asked, name: string): Answer {
  const found = world.find(name).filter((one) => asked.body["gpu"] === undefined || String(one.gpu) === String(asked.body["gpu"]));
  const one = found[0];
  if (!one) return notFound(`workload ${name}`);
  if (asked.ifMatch !== null && asked.ifMatch !== `"${one.changes}"`) {
    return refuse(412, "E1503", "changed by somebody else", `workload ${name} was changed in between (limit now ${formatSize(world.limitAt(one, Date.now()))}).`, "Look, then repeat.");
  }
  const limit = parseSize(String(asked.body["limit"] ?? "keep"), total), guarantee = parseSize(String(asked.body["guarantee"] ?? "keep"), total);
  const before = world.limitAt(one, Date.now());
  if (asked.body["limit"] !== undefined) {
    if ("problem" in limit) return refuse(400, "E1102", "no size", `'${String(asked.body["limit"])}' is not a size.`, "4GiB");
    if (limit.bytes > total) return refuse(409, "E1104", "more than the device has", `limit ${formatSize(limit.bytes)} is more than GPU ${one.gpu} has (${formatSize(total)}).`, "ration set --limit max");
    if (limit.bytes < 512 * 2 ** 20) return refuse(409, "E1204", "less than a context", `limit ${formatSize(limit.bytes)} is less than one CUDA context needs on this driver (314 MiB).`, `ration set ${name} --limit 512MiB`);
  }
  const used = world.usedAt(one, Date.now()), free = world.free(one.gpu, Date.now()), dry = asked.query.get("dry_run") === "1";
  const consequences: ({ level: "info" | "warn" } & Said)[] = [];
  if ("bytes" in limit) {
    consequences.push(limit.bytes < used
      ? { level: "warn", ...say("change.exceeded", { workload: name, used_bytes: used, over_bytes: used - limit.bytes }) }
      : used + free >= limit.bytes ? { level: "info", ...say("change.next", { gpu: one.gpu, limit_bytes: limit.bytes }) } : { level: "info", ...say("change.out_of_reach", { gpu: one.gpu, free_bytes: free, limit_bytes: limit.bytes }) });
  }
  const after = "bytes" in limit ? limit.bytes : before;
  const changes = [{
    workload: name, gpu: one.gpu, old_limit_bytes: before, old_guarantee_bytes: one.guarantee, limit_bytes: after, effective_limit_bytes: after, guarantee_bytes: "bytes" in guarantee ? guarantee.bytes : one.guarantee,
    used_bytes: used, device_free_bytes: free, shrinking: used > after, applied: !dry,
  }];
  if (dry) return ok({ changes, consequences });
  if ("bytes" in limit) {
    one.limits.push({ since: Date.now(), bytes: limit.bytes });
    world.add("resized", say("limit.changed", { workload: `${one.tenant}/${name}`, changes: [say("limit.change", { before_bytes: before, after_bytes: limit.bytes })], gpu: one.gpu, by: "token" }), { workload: name, tenant: one.tenant, gpu: one.gpu, by: "token", old: String(before), new: String(limit.bytes) });
  }
  if ("bytes" in guarantee) one.guarantee = guarantee.bytes;
  one.changes += 1;
  return ok({ changes, consequences });
}

function patchTenant(world: World, asked: Asked, name: string): Answer {
  const tenant = world.tenants.find((one) => one.name === name);
  if (!tenant) return notFound(`tenant ${name}`);
  if (asked.ifMatch !== null && asked.ifMatch !== `"${tenant.changes}"`) return refuse(412, "E1503", "changed by somebody else", `tenant ${name} was changed by ${tenant.limitFrom} meanwhile (limit now ${tenant.limit}).`, "Look, then repeat.");
  const changes = [];
  for (const what of ["limit", "guarantee"] as const) {
    const typed = asked.body[what];
    if (typed === undefined) continue;
    const parsed = parseSize(String(typed), total);
    if ("problem" in parsed) return refuse(400, "E1102", "no size", `'${String(typed)}' is not a size.`, "4GiB");
    if (parsed.bytes > total) return refuse(409, "E1304", "cannot be promised", `${what} ${formatSize(parsed.bytes)} for ${name} is more than a GPU has.`, "ration whatif");
    changes.push({ tenant: name, what, old: tenant[what], new: String(typed), applied: asked.query.get("dry_run") !== "1", over: [] });
  }
  if (changes.length === 0) return refuse(400, "E1420", "nothing to change", "neither a limit nor a guarantee was given.", `ration set --tenant ${name} --limit 8GiB`);
  for (const change of changes.filter((one) => one.applied)) {
    tenant[change.what] = change.new;
    if (change.what === "limit") tenant.limitFrom = "token";
    tenant.changes += 1;
    world.add("resized", say(change.what === "limit" ? "tenant.limit_changed" : "tenant.guarantee_changed", { tenant: name, before: change.old || "none", after: change.new, by: "token" }), { tenant: name, by: "token", old: change.old, new: change.new });
  }
  return ok(changes);
}

/** What comes of it shows in the workload's state and in its events. */
function move(world: World, name: string, verb: "trim" | "suspend" | "resume"): Answer {
  const all = world.find(name), one = all[0];
  if (!one) return notFound(`workload ${name}`);
  const told = (type: "trimmed" | "suspending" | "suspended" | "resuming" | "resumed", id: string, values: Record<string, Value> = {}) =>
    world.add(type, say(id, { workload: `${one.tenant}/${name}`, ...values }), { workload: name, tenant: one.tenant, user: one.user, gpu: one.gpu, by: "token" });
  if (verb === "trim") {
    told("trimmed", "trim.gave_nothing", { before_bytes: 4 * gib });
    return ok({ workload: name, state: "trimming" }, 202);
  }
  if (verb === "suspend") {
    if (one.kind === "suspended") return refuse(409, "E1546", "Conflict", `${name} is suspended already.`, `ration resume ${name}`);
    told("suspending", "suspension.begins");
    all.forEach((each) => { each.kind = "suspended"; });
    told("suspended", "suspension.done", { moved_bytes: 4 * gib });
    return ok({ workload: name, state: "suspending" }, 202);
  }
  told("resuming", "resumption.asked", { reason: say("resumption.requested", { by: "token" }) });
  all.forEach((each) => { each.kind = "training"; });
  told("resumed", "resumption.done");
  return ok({ workload: name, state: "resuming" }, 202);
}

/** From, to in milliseconds, and the month that this is. */
function windowOf(text: string, now: number): { from: number; to: number; period: string | null } | null {
  const month = /^(\d{4})-(\d{2})$/.exec(text), today = new Date(now);
  const start = (year: number, index: number): number => Date.UTC(year, index);
  if (month) return { from: start(Number(month[1]), Number(month[2]) - 1), to: Math.min(now, start(Number(month[1]), Number(month[2]))), period: text };
  if (text === "thismonth") return { from: start(today.getUTCFullYear(), today.getUTCMonth()), to: now, period: today.toISOString().slice(0, 7) };
  if (text === "lastmonth") return windowOf(new Date(start(today.getUTCFullYear(), today.getUTCMonth() - 1)).toISOString().slice(0, 7), now);
  const span = parseDuration(text);
  return span === null ? null : { from: now - span * 1000, to: now, period: null };
}

function usage(world: World, query: URLSearchParams): Answer {
  const now = Date.now(), by = query.get("by") ?? "tenant", asked = query.get("basis") ?? "used", price = query.get("price");
  const window = windowOf(query.get("window") ?? "thismonth", now), label = /^label:(.+)$/.exec(by)?.[1];
  if (!window) return refuse(400, "E1916", "Bad Request", `'${query.get("window")}' is not a window.`, "Write 24h, 7d, 2026-01, thismonth or lastmonth.");
  if (!label && !["tenant", "user", "workload", "gpu", "day"].includes(by)) return refuse(400, "E1916", "Bad Request", `a report cannot be made by '${by}'.`, "One of: tenant, user, workload, label:KEY, gpu, day.");
  if (price !== null && !/^\d+(\.\d+)?$/.test(price)) return refuse(400, "E1916", "Bad Request", `'${price}' is not a price of one GiB·h.`, "Write it as 0.031; at most 10000.");
  const basis: Usage["basis"] = asked === "max" ? "max(used,guarantee)" : (asked as Usage["basis"]);
  const seconds = BigInt(Math.floor((window.to - window.from) / 1000)), capacity = BigInt(total) * 2n * seconds;
  const hoursOf = (byteSeconds: bigint): number => Number(byteSeconds / (BigInt(gib) * 36n)) / 100;
  const priced = (byteSeconds: bigint) => (price === null ? { cost: null, cost_na: "no price is set" } : { cost: Math.round(hoursOf(byteSeconds) * Number(price) * 100) / 100 });
  const noPinned = (reason: string) => ({ host_used_byte_seconds: null, host_used_byte_seconds_na: reason, host_peak_bytes: null, host_peak_bytes_na: reason, host_denials: null, host_denials_na: reason });
  const rows: UsageRow[] = [];
  const charge = (row: UsageRow, byteSeconds: bigint) => Object.assign(row, { charged_byte_seconds: String(byteSeconds), charged_gib_hours: hoursOf(byteSeconds) }, priced(byteSeconds));
  const nameOf = (one: Workload): string => {
    if (label) return new Map(one.labels.split(",").map((pair) => pair.split("=") as [string, string])).get(label) ?? "";
    return by === "user" ? one.user : by === "workload" ? `${one.tenant}/${one.name}` : by === "gpu" ? `GPU-sim-${one.gpu}` : by === "day" ? new Date(now).toISOString().slice(0, 10) : one.tenant;
  };
  const groups = new Map<string, Workload[]>();
  for (const one of world.workloads) groups.set(nameOf(one), [...(groups.get(nameOf(one)) ?? []), one]);
  for (const [name, members] of groups) {
    const sum = (read: (one: Workload) => number): bigint => members.reduce((all, one) => all + BigInt(read(one)), 0n) * seconds;
    const used = sum((one) => world.usedAt(one, now)), limit = sum((one) => world.limitAt(one, now)), guarantee = sum((one) => one.guarantee);
    const charged = asked === "limit" ? limit : asked === "guarantee" ? guarantee : asked === "max" && guarantee > used ? guarantee : used;
    const pins = by === "gpu" ? [] : members.map((one) => world.pinnedOf(one)).filter((one) => one.host_used_bytes !== undefined);
    const unknown = by === "gpu" ? "on no GPU" : "not counted";
    const row: UsageRow & Record<string, unknown> = {
      ...(pins.length ? { host_used_byte_seconds: String(pins.reduce((all, one) => all + BigInt(one.host_used_bytes ?? 0), 0n) * seconds), host_peak_bytes: Math.max(...pins.map((one) => one.host_peak_bytes ?? 0)), host_denials: 0 } : { ...noPinned(unknown) }),
      ...(pins.length && pins.length < members.length ? { host_partial: true } : {}),
      name, kind: "governed", used_byte_seconds: String(used), limit_byte_seconds: String(limit), guarantee_byte_seconds: String(guarantee), charged_byte_seconds: "", charged_gib_hours: 0,
      peak_bytes: members.reduce((all, one) => all + Math.round(one.base + one.swing), 0), efficiency: limit ? Number((used * 100n) / limit) / 100 : null, ...(limit ? {} : { efficiency_na: "no limit was set" }), denials: members.reduce((all, one) => all + one.denials, 0), cost: null,
    };
    rows.push(charge(row, charged));
  }
  const other = (kind: UsageRow["kind"], name: string, byteSeconds: bigint, peak: number | null): void => {
    rows.push(charge({
      name, kind, used_byte_seconds: kind === "idle" ? null : String(byteSeconds), ...(kind === "idle" ? { used_byte_seconds_na: "nobody's" } : {}), limit_byte_seconds: null, limit_byte_seconds_na: "not governed", charged_byte_seconds: "", charged_gib_hours: 0,
      peak_bytes: peak, efficiency: null, denials: 0, cost: null, ...{ guarantee_byte_seconds: null, guarantee_byte_seconds_na: "not governed", efficiency_na: "no limit was set", ...noPinned("not governed"), ...(peak === null ? { peak_bytes_na: "not measured" } : {}) },
    }, byteSeconds));
  };
  other("ungoverned", "(ungoverned)", BigInt(world.strangerAt(now)) * seconds, Math.round(5.3 * gib));
  const gap = { from: Math.max(window.from, world.started - 3000_000), to: Math.min(window.to, world.started - 2760_000) };
  if (gap.to > gap.from) other("gap", "(not recorded)", BigInt(total) * 2n * BigInt(Math.floor((gap.to - gap.from) / 1000)), null);
  const sumOf = (read: (row: UsageRow) => string): bigint => rows.reduce((all, row) => all + BigInt(read(row)), 0n);
  const idle = capacity - sumOf((row) => row.charged_byte_seconds), share = query.get("share_idle") ?? "none";
  if (share === "none") {
    other("idle", "(idle, not held)", idle, null);
  } else {
    const payers = rows.filter((row) => row.kind === "governed"), weight = payers.reduce((all, row) => all + BigInt(row.charged_byte_seconds), 0n);
    let left = idle;
    payers.forEach((row, index) => {
      const part = index === payers.length - 1 ? left : share === "even" || weight === 0n ? idle / BigInt(payers.length) : (idle * BigInt(row.charged_byte_seconds)) / weight;
      left -= part;
      charge(Object.assign(row, { shared_idle_byte_seconds: String(part) }), BigInt(row.charged_byte_seconds) + part);
    });
  }
  const closed = world.periods.find((one) => one.period === window.period);
  const notes = [
    say("report.window", { from: new Date(window.from).toISOString(), to: new Date(window.to).toISOString(), basis, meaning: say("report.basis_used") }),
    say("report.adds_up"), ...(rows.some((row) => row.host_peak_bytes) ? [say("report.pinned")] : []),
  ];
  const answer: Usage & Record<string, unknown> = {
    by, basis, from: new Date(window.from).toISOString(), to: new Date(window.to).toISOString(), currency: "EUR", rows, sum_byte_seconds: String(sumOf((row) => row.charged_byte_seconds)),
    capacity_byte_seconds: String(capacity), sum_text: `${formatSize(total * 2)} × the time`, notes: notes.map((note) => note.text), notes_messages: notes.map(({ text: _text, ...said }) => said), recorded_from: new Date(window.from).toISOString(), adds_up: true, gaps: gap.to > gap.from ? [{ from: new Date(gap.from).toISOString(), to: new Date(gap.to).toISOString() }] : [],
    period: window.period, ...(window.period === null ? { period_na: "the window is not one month" } : {}), closed: closed?.closed ?? null, seal: closed?.seal ?? null, ...(closed ? { seal_intact: true } : {}),
    ...(price === null ? {} : { cost: rows.reduce((sum, row) => sum + (row.cost ?? 0), 0) }),
  };
  return ok(answer);
}

/** As files; their content is the daemon's to make. */
function report(world: World, query: URLSearchParams): Answer {
  const answer = usage(world, query), format = query.get("format") ?? "json";
  if (answer.problem || format === "json") return answer;
  const { rows } = answer.data as Usage;
  if (format === "opencost") return { status: 200, text: { type: "application/json", body: JSON.stringify({ code: 200, status: "success", data: [Object.fromEntries(rows.map((row) => [row.name, { name: row.name, totalCost: row.cost ?? 0 }]))] }) } };
  const body = rows.map((row) => `${row.name},${row.charged_byte_seconds}`).join("\n"), head = format === "focus" ? "SubAccountId,ConsumedQuantity" : "name,charged_byte_seconds";
  return { status: 200, text: { type: format === "html" ? "text/html" : format === "md" ? "text/markdown" : "text/csv", body: `${head}\n${body}\n` } };
}

function closePeriod(world: World, period: string): Answer {
  const before = world.periods.find((one) => one.period === period);
  if (before) return refuse(409, "E1915", "Conflict", `${period} was closed at ${before.closed}.`, "A closed month stays as it is: ration report --window 2026-01 shows it.");
  if (period >= new Date().toISOString().slice(0, 7)) return refuse(409, "E1914", "Conflict", `${period} is not over.`, "Wait until it is.");
  const closed = { period, closed: new Date().toISOString(), seal: "9c1e5d04b7aa".padEnd(64, "0") };
  world.periods.push(closed);
  return ok(closed);
}

function health(world: World, viewer: Viewer): Health {
  const now = Date.now(), looks = Math.floor((now - world.started) / 1000) + 1;
  return {
    version: "1.0.0", pid: 812, started: new Date(world.started).toISOString(), last_look: new Date(now - 300).toISOString(), looks, look_seconds: looks * 0.0021, workloads: world.workloads.length,
    stream_clients: 1, connections: 2, recorded_to: new Date(now - 1300).toISOString(), driver: "580.65", problem: null, ...put("problem_na", say("unknown.none")),
    checks: [
      { id: "gpu.driver", status: "ok", ...say("daemon.has_driver", { version: "580.65" }) },
      { id: "disk.history", status: "ok", ...say("daemon.records") },
      { id: "books", status: "ok", ...say("daemon.has_workloads", { count: world.workloads.length, folders: 1 }) },
    ],
    ...(viewer === "operator" ? { folders: [{ folder: "/run/ration", user: "root" }] } : {}),
  };
}

function events(world: World, query: URLSearchParams): Answer {
  const types = (query.get("type") ?? "").split(",").filter(Boolean);
  const found = world.events.filter((event) => event.id > Number(query.get("since") ?? 0) && (types.length === 0 || types.includes(event.type)) && (!query.get("workload") || event.workload === query.get("workload")));
  return ok(found.slice(-Number(query.get("limit") ?? 200)));
}

/** Of the language of filters, comparisons that all hold. */
function workloads(world: World, asked: Asked): Answer {
  const filter = asked.query.get("filter") ?? "";
  if (problemOf(filter)) return refuse(400, "E1429", "the filter cannot be understood", filter, "used>4GiB & denied>0, tenant~=nlp, governed==no, idle>30m");
  const holds = (row: WorkloadRow, condition: string): boolean => {
    const [, field = "", operator, value = ""] = /^\s*(\w+)\s*(>|==?)\s*(\S+)\s*$/.exec(condition) ?? [];
    const size = parseSize(value, total), wanted = "bytes" in size ? size.bytes : Number(value);
    const has = { used: row.used_bytes, denied: row.denials }[field];
    if (field === "governed") return row.governed === (value === "yes");
    return operator === ">" ? (has ?? -1) > wanted : has === wanted;
  };
  return ok(world.snapshot(asked.viewer).workloads.filter((row) => filter === "" || filter.split("&").every((condition) => holds(row, condition))));
}

type Answering = (world: World, asked: Asked, name: string) => Answer;

export const routes: Record<string, Answering> = {
  "GET /api/v1/session": (_world, asked) => ok({ role: asked.viewer, user: null, ...put("user_na", say("unknown.no_user_on_tcp")), version: "0.1.0", command_options: { set: ["--sim=demo"], plan: ["--sim=demo"] } }),
  "POST /api/v1/session": (world, asked) => {
    if (world.once === null || asked.body["token"] !== world.once) return refuse(401, "E1518", "wrong token", "this link was used already, or is older than an hour", "ration dashboard   prints a new one");
    world.once = null;
    return ok({ token: world.token });
  },
  "GET /api/v1/snapshot": (world, asked) => ok(world.snapshot(asked.viewer)),
  "GET /api/v1/devices": (world, asked) => ok(world.snapshot(asked.viewer).devices),
  "GET /api/v1/workloads": workloads,
  "GET /api/v1/tenants": (world, asked) => ok(world.snapshot(asked.viewer).tenants),
  "GET /api/v1/leases": (world, asked) => ok(world.snapshot(asked.viewer).queue),
  "GET /api/v1/health": (world, asked) => ok(health(world, asked.viewer)),
  "GET /api/v1/series": (world, asked) => series(world, asked.query),
  "GET /api/v1/workloads/{name}/explain": (world, _asked, name) => {
    const found = world.find(name);
    return found.length > 0 ? ok(found.map((one) => explain(one, world))) : notFound(`workload ${name}`);
  },
  "PATCH /api/v1/workloads/{name}": patchWorkload,
  "POST /api/v1/workloads/{name}/trim": (world, _asked, name) => move(world, name, "trim"),
  "POST /api/v1/workloads/{name}/suspend": (world, _asked, name) => move(world, name, "suspend"),
  "POST /api/v1/workloads/{name}/resume": (world, _asked, name) => move(world, name, "resume"),
  "PATCH /api/v1/tenants/{name}": patchTenant,
  "DELETE /api/v1/leases/{id}": (world, _asked, id) => {
    world.queue = world.queue.filter((lease) => lease.lease !== id);
    return { status: 204 };
  },
  "GET /api/v1/events": (world, asked) => events(world, asked.query),
  "GET /api/v1/events/{id}": (world, _asked, id) => {
    const event = world.events.find((one) => String(one.id) === id);
    return event ? ok(event) : notFound(`event ${id}`);
  },
  "GET /api/v1/denials/{id}": (world, _asked, id) => {
    const denial = world.denials.get(id);
    return denial ? ok(denial) : refuse(404, "E1413", "no such denial", `no denial ${id} is on the books.`, "ration events");
  },
  "GET /api/v1/recordings": () => ok({ folder: "/var/lib/ration/recordings", recordings: recordings.map((name, index) => ({ name, bytes: 1854 + index, modified: "2026-01-14T12:03:58.000Z", user: "alice" })) }),
  "GET /api/v1/recordings/{name}": (_world, asked, name) => recording(name, () => {
    const { window, inspection, ...rest } = documents.recording;
    return { ...rest, inspection, window: cutWindow(window, Number(asked.query.get("from") ?? 0), Number(asked.query.get("to") ?? inspection.seconds), 1024) };
  }),
  "GET /api/v1/recordings/{name}/moment": (_world, asked, name) => recording(name, () => {
    const at = asked.query.get("at"), { places, sites } = documents.moment;
    return { at_peak: at === null, sites, places: places.map((place): MomentPlace => (at === null ? place : { ...place, seconds: Number(at) })) };
  }),
  "GET /api/v1/recordings/{name}/usage": (_world, _asked, name) => recording(name, () => documents.usage),
  "GET /api/v1/recordings/{name}/changes": (_world, _asked, name) => recording(name, () => documents.changes),
  "GET /api/v1/reports/usage": (world, asked) => report(world, asked.query),
  "POST /api/v1/reports/periods/{period}:close": (world, _asked, period) => closePeriod(world, period),
};

const compiled = Object.entries(routes).map(([route, answering]) => ({ pattern: new RegExp(`^${route.replace(/\{\w+\}/, "([^/:]+)")}$`), answering }));

export function answer(world: World, asked: Asked): Answer {
  const forEverybody = ["/api/v1/session", "/api/v1/snapshot", "/api/v1/health", "/api/v1/devices"].includes(asked.path);
  if (!forEverybody && (asked.viewer === "anonymous" || (asked.method !== "GET" && asked.viewer !== "operator"))) return refuse(403, "E1502", "operators only", "You may not change this.", "Ask a member of group ration.");
  for (const { pattern, answering } of compiled) {
    const found = pattern.exec(`${asked.method} ${asked.path}`);
    if (found) return answering(world, asked, decodeURIComponent(found[1] ?? ""));
  }
  return refuse(404, "E1511", "Not Found", `there is no ${asked.path}`, "GET /openapi.json lists what there is");
}

// What the mock answers to each path of docs/http-api.md, apart from the stream.

import type { ExplainRow, PlanAnswer, PlanWish, Series, Usage, UsageRow } from "../src/api/types";
import { formatSize, parseSize } from "../src/logic/format";
import { gib, tenants, total, type Workload, type World } from "./world";

export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
  ifMatch: string | null;
  operator: boolean;
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
    const name = by === "tenant" ? one.tenant : by === "device" ? `GPU ${one.gpu}` : one.name;
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
      .map((event) => ({ time: event.time, event: event.id, name: by === "tenant" ? event.tenant ?? "" : by === "device" ? `GPU ${event.gpu}` : event.workload ?? "" })),
    gaps: gap.to > from && gap.from < to ? [{ from: new Date(gap.from).toISOString(), to: new Date(gap.to).toISOString() }] : [],
    capacity_bytes: gpu === null ? 2 * total : total,
  };
  return ok(result);
}

function explain(one: Workload, world: World): { gpu: number; total_bytes: number; rows: ExplainRow[] } {
  const used = world.usedAt(one, Date.now()), pooled = Math.min(one.pooled, used), unexplained = 24 * 2 ** 20;
  return {
    gpu: one.gpu, total_bytes: used + unexplained, rows: [
      { id: "allocated", label: "allocated by the program", bytes: Math.max(0, used - pooled - one.context), source: "book (tensors, and what its framework caches)" },
      { id: "pooled", label: "reserved by the driver's pools", bytes: pooled, source: "book" },
      { id: "context", label: "CUDA context", bytes: one.context, source: "book, measured when it was made" },
      { id: "framework_free", label: "of these, free inside the framework", bytes: null, bytes_na: "only the framework knows: torch.cuda.memory_reserved - memory_allocated" },
      { id: "unexplained", label: "not explained (code, driver)", bytes: unexplained, source: "driver minus book" },
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
  if (asked.query.get("dry_run") === "1") {
    const used = world.usedAt(one, Date.now()), free = world.free(one.gpu, Date.now());
    const consequences: { level: "info" | "warn"; text: string }[] = [];
    if ("bytes" in limit) {
      consequences.push(limit.bytes < used
        ? { level: "warn", text: `${name} uses ${formatSize(used)}, ${formatSize(used - limit.bytes)} more than the new limit: new allocations are refused until it is under ${formatSize(limit.bytes)}.` }
        : used + free >= limit.bytes ? { level: "info", text: `${formatSize(free)} of the GPU is free, so ${formatSize(limit.bytes)} is reachable today.` } : { level: "warn", text: `${formatSize(free)} of the GPU is free: ${formatSize(used + free)} is reachable today.` });
    }
    return ok({ consequences });
  }
  if ("bytes" in limit) {
    one.limits.push({ since: Date.now(), bytes: limit.bytes });
    world.add("resized", `${one.tenant}/${name}: limit ${formatSize(before)} → ${formatSize(limit.bytes)} on GPU ${one.gpu}`, { workload: name, tenant: one.tenant, gpu: one.gpu, by: "operator", old: before, new: limit.bytes });
  }
  if ("bytes" in guarantee) one.guarantee = guarantee.bytes;
  one.changes += 1;
  return ok({ workload: name, gpu: one.gpu, limit_bytes: world.limitAt(one, Date.now()), guarantee_bytes: one.guarantee, limit_changes: one.changes });
}

function patchTenant(world: World, asked: Asked, name: string): Answer {
  const tenant = tenants.find((one) => one.name === name);
  if (!tenant) return notFound(`tenant ${name}`);
  if (asked.ifMatch !== null && asked.ifMatch !== `"${tenant.changes}"`) return refuse(412, "E1503", "changed by somebody else", `tenant ${name} was changed in between.`, "Look, then repeat.");
  const gpu = Number(asked.body["gpu"] ?? 0), limit = asked.body["limit"], guarantee = asked.body["guarantee"];
  if (limit !== undefined) {
    const parsed = parseSize(String(limit), total);
    if ("problem" in parsed) return refuse(400, "E1102", "no size", `'${String(limit)}' is not a size.`, "4GiB");
    const before = tenant.limits[gpu] ?? null;
    tenant.limits[gpu] = parsed.bytes;
    world.add("resized", `tenant ${name}: limit ${before === null ? "none" : formatSize(before)} → ${formatSize(parsed.bytes)} on GPU ${gpu}`, { tenant: name, gpu, by: "operator", old: before, new: parsed.bytes });
  }
  if (guarantee !== undefined) {
    const parsed = parseSize(String(guarantee), total), first = world.workloads.find((one) => one.tenant === name && one.gpu === gpu);
    if ("problem" in parsed) return refuse(400, "E1102", "no size", `'${String(guarantee)}' is not a size.`, "4GiB");
    if (parsed.bytes > total) return refuse(409, "E1304", "cannot be promised", `guarantee ${formatSize(parsed.bytes)} for ${name} cannot be promised on GPU ${gpu}.`, "ration plan");
    if (first) first.guarantee = parsed.bytes;
  }
  tenant.changes += 1;
  return ok({ tenant: name, limit_changes: tenant.changes });
}

function plan(wish: PlanWish): Answer {
  const counts = wish.gpus.length === 0 ? 2 : wish.gpus.reduce((sum, gpu) => sum + Number(gpu.split(":")[1] ?? 1), 0);
  const devices: PlanAnswer["devices"] = Array.from({ length: counts }, (_, gpu) => ({ gpu, name: "NVIDIA A100-40", usable_bytes: total, spare_bytes: total, tenants: [] }));
  const leftOver: PlanAnswer["left_over"] = [];
  let needed = 0;
  for (const tenant of wish.tenants) {
    const parsed = parseSize(tenant.guarantee, total);
    if ("problem" in parsed) return refuse(400, "E1102", "no size", `'${tenant.guarantee}' is not a size.`, "4GiB");
    for (let index = 0; index < tenant.count; index += 1) {
      needed += parsed.bytes;
      const fitting = devices.filter((device) => device.spare_bytes >= parsed.bytes);
      const place = wish.spread ? fitting.sort((left, right) => right.spare_bytes - left.spare_bytes)[0] : fitting[0];
      const list = place ? place.tenants : leftOver;
      if (place) place.spare_bytes -= parsed.bytes;
      const same = list.find((one) => one.tenant === tenant.tenant);
      if (same) same.count += 1;
      else list.push({ tenant: tenant.tenant, count: 1, guarantee_bytes: parsed.bytes, limit_bytes: parsed.bytes });
    }
  }
  const answer: PlanAnswer = { fits: leftOver.length === 0, needed_bytes: needed, available_bytes: counts * total, devices: [...devices].sort((a, b) => a.gpu - b.gpu), left_over: leftOver, unreachable: [], change: null, more_devices: leftOver.length > 0 ? 1 : 0 };
  return ok(answer);
}

function usage(world: World, query: URLSearchParams): Usage {
  const window = query.get("window") ?? "24h", by = query.get("by") ?? "tenant", basis = query.get("basis") ?? "used";
  const hours = { "1h": 1, "24h": 24, "7d": 168, "30d": 720, thismonth: 300, lastmonth: 744 }[window] ?? 24;
  const seconds = BigInt(hours * 3600), now = Date.now();
  const rows: UsageRow[] = [];
  const capacity = BigInt(total) * 2n * seconds;
  const hoursOf = (bytes: bigint): number => Number(bytes / (BigInt(gib) * 36n)) / 100;
  const line = (name: string, kind: UsageRow["kind"], used: bigint, limit: bigint | null, guarantee: bigint | null, peak: number | null, denials: number | null): void => {
    const charged = kind !== "governed" ? used : basis === "limit" ? limit ?? used : basis === "guarantee" ? guarantee ?? 0n : basis === "max" ? (guarantee !== null && guarantee > used ? guarantee : used) : used;
    rows.push({
      name, kind, used_byte_seconds: String(used), limit_byte_seconds: limit === null ? null : String(limit), guarantee_byte_seconds: guarantee === null ? null : String(guarantee), charged_byte_seconds: String(charged),
      charged_gib_hours: hoursOf(charged), peak_bytes: peak, efficiency: limit ? Number((used * 100n) / limit) / 100 : null, denials, cost: Math.round(hoursOf(charged) * 3.1) / 100,
    });
  };
  const groups = new Map<string, Workload[]>();
  for (const one of world.workloads) {
    const name = by === "user" ? one.user : by === "gpu" ? `GPU ${one.gpu}` : by === "day" ? new Date(now).toISOString().slice(0, 10) : one.tenant;
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  for (const [name, members] of groups) {
    const sum = (read: (one: Workload) => number): bigint => members.reduce((all, one) => all + BigInt(read(one)), 0n) * seconds;
    line(name, "governed", sum((one) => world.usedAt(one, now)), sum((one) => world.limitAt(one, now)), sum((one) => one.guarantee), members.reduce((all, one) => all + Math.round(one.base + one.swing), 0), members.reduce((all, one) => all + one.denials, 0));
  }
  line("ungoverned", "ungoverned", BigInt(world.strangerAt(now)) * seconds, null, null, Math.round(5.3 * gib), null);
  const gap = hours >= 24 ? BigInt(total) * 2n * 240n : 0n;
  if (gap > 0n) line("gap", "gap", gap, null, null, null, null);
  line("idle", "idle", capacity - rows.reduce((sum, row) => sum + BigInt(row.charged_byte_seconds ?? "0"), 0n), null, null, null, null);
  return {
    by, basis, from: new Date(now - hours * 3600_000).toISOString(), to: new Date(now).toISOString(), currency: "EUR", rows, sum_byte_seconds: String(rows.reduce((sum, row) => sum + BigInt(row.charged_byte_seconds ?? "0"), 0n)),
    capacity_byte_seconds: String(capacity), adds_up: true, gaps: gap > 0n ? [{ from: new Date(now - 3000_000).toISOString(), to: new Date(now - 2760_000).toISOString() }] : [],
    period: window === "lastmonth" ? "2026-01" : null, closed: window === "lastmonth" ? "2026-02-01T00:00:04.000Z" : null, seal: window === "lastmonth" ? "9c1e5d04b7aa" : null, adjustments: [],
  };
}

function health(world: World): unknown {
  return {
    version: "0.1.0", uptime_seconds: Math.floor((Date.now() - world.started) / 1000) + 526_000, ledger_bytes: 12 * 2 ** 20, subscribers: 1, config: "/etc/ration/ration.toml", last_alert: null, last_alert_na: "none since the start",
    checks: [
      { id: "gpu.driver", status: "ok", text: "NVML 580.65, CUDA 13.0, 2 GPUs" },
      { id: "cuda.context", status: "ok", text: "one context costs 314 MiB on this driver (measured 2 days ago)" },
      { id: "container.limit", status: "warn", text: "docker 4f2a was started with --gpus all and no guard: it can take all 39.4 GiB", fix: "ration snippet docker 4f2a" },
      { id: "history.disk", status: "ok", text: "12.0 MiB of 1.00 GiB" },
    ],
    sources: [
      { name: "device memory", source: "NVML", age_seconds: 0, status: "ok", text: "every second" },
      { name: "held by workloads", source: "books", age_seconds: 0, status: "ok", text: "9 books" },
      { name: "framework caches", source: "runtime", age_seconds: null, age_seconds_na: "no program uses the runtime", status: "ok" },
    ],
  };
}

export function answer(world: World, asked: Asked): Answer {
  const { method, query } = asked;
  const parts = asked.path.replace(/^\/api\/v1\//, "").split("/").map(decodeURIComponent);
  const [first, second, third] = parts;
  if (method !== "GET" && first !== "plan" && !asked.operator) return refuse(403, "E1502", "operators only", "You may not change this.", "Ask a member of group ration.");
  switch (first) {
    case "session": return ok({ role: asked.operator ? "operator" : "tenant", user: asked.operator ? "token" : null, version: "0.1.0" });
    case "snapshot": return ok(world.snapshot(asked.operator));
    case "devices": return ok(world.snapshot(asked.operator).devices);
    case "health": return ok(health(world));
    case "series": return series(world, query);
    case "plan": return plan(asked.body as unknown as PlanWish);
    case "workloads": {
      if (second === undefined) return ok(world.snapshot(asked.operator).workloads);
      if (method === "PATCH") return patchWorkload(world, asked, second);
      const found = world.find(second).filter((one) => !query.get("gpu") || String(one.gpu) === query.get("gpu"));
      return found[0] && third === "explain" ? ok(explain(found[0], world)) : notFound(`workload ${second}`);
    }
    case "tenants": return method === "PATCH" && second !== undefined ? patchTenant(world, asked, second) : ok(world.snapshot(asked.operator).tenants);
    case "trim": case "suspend": case "resume": {
      const one = world.find(String(asked.body["workload"]))[0];
      if (!one) return notFound("that workload");
      if (first === "suspend") one.kind = "suspended";
      if (first === "resume") one.kind = "training";
      world.add(first === "trim" ? "trimmed" : first === "suspend" ? "suspended" : "resumed", `${one.tenant}/${one.name}: ${first} asked for`, { workload: one.name, tenant: one.tenant, gpu: one.gpu, by: "operator" });
      return ok({ workload: one.name });
    }
    case "leases": {
      if (method !== "DELETE") return ok(world.queue);
      world.queue = world.queue.filter((lease) => lease.lease !== second);
      return ok({ lease: second });
    }
    case "events": {
      if (second !== undefined) {
        const event = world.events.find((one) => String(one.id) === second);
        return event ? ok(event) : notFound(`event ${second}`);
      }
      const types = (query.get("type") ?? "").split(",").filter(Boolean);
      const found = world.events.filter((event) => event.id > Number(query.get("since") ?? 0) && (types.length === 0 || types.includes(event.type)) && (!query.get("workload") || event.workload === query.get("workload")));
      return ok(found.slice(-Number(query.get("limit") ?? 200)));
    }
    case "denials": {
      const denial = world.denials.get(second ?? "");
      return denial ? ok(denial) : refuse(404, "E1413", "no such denial", `no denial ${second ?? ""} is on the books.`, "ration events");
    }
    case "reports": {
      const report = usage(world, query), format = query.get("format");
      if (!format || format === "json") return ok(report);
      const body = report.rows.map((row) => `${row.name},${row.charged_byte_seconds}`).join("\n");
      return { status: 200, text: { type: format === "csv" ? "text/csv" : format === "html" ? "text/html" : "text/markdown", body: `name,charged_byte_seconds\n${body}\n` } };
    }
    default: return notFound(asked.path);
  }
}

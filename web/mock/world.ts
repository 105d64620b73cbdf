// A node that lives only here: two devices, four tenants, their workloads, one process that nobody governs. What is used
// at a time is a function of that time, so that the present and the history of the charts agree.

import type { Denial, Device, EventType, Lease, NodeEvent, Period, Process, Snapshot, Tenant, WorkloadRow } from "../src/api/types";
import { parseSize } from "../src/logic/format";
import type { Said } from "../src/text/message";
import { put, say } from "./messages";

export const gib = 2 ** 30;
const mib = 2 ** 20;
const granule = 2 * mib;

/** Who looks: an operator, somebody who sees what everybody may, or nobody that is known. */
export type Viewer = "operator" | "tenant" | "anonymous";

export interface Workload {
  name: string;
  tenant: string;
  user: string;
  run: number;
  gpu: number;
  command: string;
  labels: string;
  pid: number;
  limits: { since: number; bytes: number }[];
  guarantee: number;
  context: number;
  pooled: number;
  base: number;
  swing: number;
  period: number;
  kind: "training" | "serving" | "idle" | "suspended";
  idleSince: number | null;
  denials: number;
  lastDenial: string | null;
  changes: number;
  startedAgo: number;
}

export interface TenantRule {
  name: string;
  priority: number;
  /** As typed; empty: none. They hold on every device. */
  limit: string;
  guarantee: string;
  limitFrom: string;
  changes: number;
}

export const total = 39.4 * gib - ((39.4 * gib) % granule);

const rows: [string, string, string, number, number, string, string, number, number, number, number, number, number, Workload["kind"]][] = [
  ["train", "nlp", "alice", 17, 0, "python train.py --config bert-large.yaml", "exp=42", 16, 8, 0.31, 0, 11.2, 1.6, "training"],
  ["serve", "vision", "svc", 4, 0, "python -m serving.app --port 8500", "", 10, 10, 0.31, 2.5, 10, 0, "serving"],
  ["kernel-bob", "jup", "bob", 21, 0, "python -m ipykernel_launcher -f kernel.json", "", 8, 0, 0.31, 0, 5.1, 0, "idle"],
  ["kernel-eve", "jup", "eve", 23, 0, "python -m ipykernel_launcher -f kernel.json", "", 4, 0, 0.31, 0, 0.31, 0, "suspended"],
  ["train", "nlp", "alice", 17, 1, "python train.py --config bert-large.yaml", "exp=42", 16, 8, 0.31, 0, 10.4, 1.5, "training"],
  ["tokenize", "nlp", "ali", 19, 1, "python tokenize.py --workers 8", "", 4, 0, 0.28, 0, 1.6, 0.5, "training"],
  ["detect", "vision", "svc", 5, 1, "./detect --model yolo.plan", "", 6, 4, 0.26, 0, 4.2, 0.9, "serving"],
  ["sweep-1", "batch", "dana", 30, 1, "python sweep.py --trial 1", "sweep=a", 4, 0, 0.31, 0, 3.1, 0.6, "training"],
  ["sweep-2", "batch", "dana", 31, 1, "python sweep.py --trial 2", "sweep=a", 4, 0, 0.31, 0, 2.4, 1.1, "training"],
];

const kept = say("limit.kept", { tenants: "vision" });

const whole = (bytes: number): number => Math.max(0, Math.round(bytes / granule) * granule);

/** Smooth, between -1 and 1, always the same for the same place. */
function wave(seconds: number, seed: number): number {
  return (Math.sin(seconds / 61 + seed) + Math.sin(seconds / 233 + seed * 2.3) + Math.sin(seconds / 1871 + seed * 3.7)) / 3;
}

/** Why the two that wait do so. */
const noRoom = say("lease.no_room", { gpu: 1, free_bytes: 14.2 * gib, whole_bytes: 39.4 * gib });
const behind = say("lease.behind", { gpu: 0, free_bytes: 2.1 * gib, lease: "q-5", start: say("lease.starts_any_moment"), length: say("lease.takes_unknown") });

export class World {
  readonly started = Date.now();
  events: NodeEvent[] = [];
  denials = new Map<string, Denial>();
  queue: Lease[] = [];
  workloads: Workload[];
  tenants: TenantRule[] = [
    { name: "batch", priority: 1, limit: "", guarantee: "", limitFrom: "default", changes: 0 },
    { name: "jup", priority: 5, limit: "12GiB", guarantee: "", limitFrom: "/etc/ration/ration.toml:9", changes: 0 },
    { name: "nlp", priority: 10, limit: "24GiB", guarantee: "8GiB", limitFrom: "/etc/ration/ration.toml:14", changes: 0 },
    { name: "vision", priority: 20, limit: "12GiB", guarantee: "4GiB", limitFrom: "/etc/ration/ration.toml:19", changes: 0 },
  ];
  periods: Period[] = [];
  /** Of the link that the start prints: works once. */
  once: string | null = "once";
  private nextEvent = 1700;

  constructor(readonly token = "token") {
    const long = this.started - 500 * 86400_000;
    this.workloads = rows.map(([name, tenant, user, run, gpu, command, labels, limit, guarantee, context, pooled, base, swing, kind], index) => ({
      name, tenant, user, run, gpu, command, labels: [`team=${tenant}`, labels].filter(Boolean).join(","), pid: 4411 + index * 91, limits: [{ since: long, bytes: limit * gib }], guarantee: guarantee * gib,
      context: whole(context * gib), pooled: pooled * gib, base: base * gib, swing: swing * gib, period: 300 + index * 70, kind,
      idleSince: kind === "idle" ? this.started - 47 * 60_000 : kind === "suspended" ? this.started - 3 * 3600_000 : null,
      denials: 0, lastDenial: null, changes: 0, startedAgo: 8040 + index * 811,
    }));
    this.queue = [
      { lease: "q-5", state: "waiting", tenant: "nlp", user: "alice", name: "big", command: "python big.py --shards 4", bytes: 20 * gib, gpu: "auto", priority: 0, position: 1, of: 2, waited_seconds: 340, ...put("reason", noRoom), since: this.iso(-340), estimate_seconds: 660 },
      { lease: "q-6", state: "waiting", tenant: "batch", user: "dana", name: "sweep", command: "python sweep.py --trial 3", bytes: 4 * gib, gpu: "0", priority: 0, position: 2, of: 2, waited_seconds: 75, ...put("reason", behind), since: this.iso(-75), estimate_seconds: null, ...put("estimate_seconds_na", say("lease.few_waits", { count: 2, needed: 3 })) },
    ];
    this.past();
  }

  private iso(seconds: number): string {
    return new Date(this.started + seconds * 1000).toISOString();
  }

  /** What has happened before anybody looked. */
  private past(): void {
    const sweep = this.workloads.find((one) => one.name === "sweep-1"), train = this.workloads[0];
    if (!sweep || !train) return;
    this.add("daemon", say("daemon.started", { version: "1.0.0", pid: 811 }), {}, -7300);
    this.add("config", say("configuration.unchanged"), {}, -7300);
    this.workloads.forEach((one, index) => this.add("started", say("workload.started", { workload: `${one.tenant}/${one.name}`, limits_bytes: [this.limitAt(one, this.started)] }), this.of(one), -7200 + index * 200));
    for (let index = 0; index < 16; index += 1) this.deny("serve", -5200 + index * 310);
    train.limits.push({ since: this.started - 2400_000, bytes: 16 * gib });
    const first = train.limits[0];
    if (first) first.bytes = 14 * gib;
    this.add("resized", say("limit.changed", { workload: "nlp/train", changes: [say("limit.change", { before_bytes: 14 * gib, after_bytes: 16 * gib })], gpu: 0, by: "ops" }), { ...this.of(train), by: "ops", old: String(14 * gib), new: String(16 * gib) }, -2400);
    train.changes = 2;
    this.add("ungoverned", say("ungoverned.found", { pid: 6001, command: "python notebook.py", user: "carol", used_bytes: 4 * gib, gpu: 0, why: say("process.outside"), origin: "ssh session 3" }), { gpu: 0, pid: 6001, user: "carol", bytes: 4 * gib, fix: "ration run --limit 4GiB -- python notebook.py" }, -1800);
    this.add("suspended", say("suspension.done", { workload: "jup/kernel-eve", moved_bytes: whole(3.2 * gib) }), { ...this.of(this.workloads[3] as Workload), bytes: whole(3.2 * gib) }, -900);
    this.add("queued", say("lease.waits", { lease: "q-5", tenant: "nlp", requested_bytes: 20 * gib, reason: noRoom }), { tenant: "nlp", user: "alice", bytes: 20 * gib }, -340);
    this.deny("sweep-2", -120);
    this.rebalance(4, -90);
    this.add("queued", say("lease.waits", { lease: "q-6", tenant: "batch", requested_bytes: 4 * gib, reason: behind }), { tenant: "batch", user: "dana", bytes: 4 * gib, gpu: 0 }, -75);
    this.events.sort((left, right) => Date.parse(left.time) - Date.parse(right.time));
    this.events.forEach((event, index) => { event.id = 1701 + index; });
  }

  private of(one: Workload): Partial<NodeEvent> {
    return { workload: one.name, tenant: one.tenant, user: one.user, gpu: one.gpu, pid: one.pid };
  }

  add(type: EventType, said: Required<Said>, more: Partial<NodeEvent> = {}, secondsFromStart: number | null = null): NodeEvent {
    this.nextEvent += 1;
    const event: NodeEvent = {
      id: this.nextEvent, time: secondsFromStart === null ? new Date().toISOString() : this.iso(secondsFromStart), type, workload: null, tenant: null, user: null, gpu: null,
      pid: null, bytes: null, denial: null, by: null, ...said, count: 1, first_time: "", old: null, new: null, fix: null, ...more,
    };
    event.first_time ||= event.time;
    this.events.push(event);
    return event;
  }

  /** The limit of a workload goes up and down by itself. */
  private rebalance(moves: number, secondsFromStart: number | null = null): void {
    const one = this.find("sweep-2")[0];
    if (!one) return;
    const event = this.add("rebalanced", say("limit.moved", { workload: "batch/sweep-2", after_bytes: 3.5 * gib, before_bytes: 4 * gib, reason: kept, count: moves, within_seconds: 9 }), { ...this.of(one), pid: null, count: moves, old: String(4 * gib), new: String(3.5 * gib) }, secondsFromStart);
    event.first_time = new Date(Date.parse(event.time) - 9000).toISOString();
  }

  find(name: string): Workload[] {
    return this.workloads.filter((one) => one.name === name);
  }

  limitAt(one: Workload, at: number): number {
    let bytes = one.limits[0]?.bytes ?? 0;
    for (const step of one.limits) if (step.since <= at) bytes = step.bytes;
    return bytes;
  }

  usedAt(one: Workload, at: number): number {
    if (one.kind === "suspended") return 0;
    const seed = one.run * 7 + one.gpu * 3;
    const limit = this.limitAt(one, at);
    const wanted = one.kind === "serving" && one.swing === 0 ? one.base + Math.max(0, limit - one.base) * 0.4 : one.base + one.swing * wave(at / 1000, seed);
    return whole(Math.min(wanted, limit));
  }

  strangerAt(at: number): number {
    return whole(4 * gib + 0.6 * gib * wave(at / 1000, 99));
  }

  /** `name` is refused memory; the event that says so. */
  deny(name: string, secondsFromStart: number | null = null): NodeEvent | null {
    const one = this.find(name)[0];
    if (!one) return null;
    const at = secondsFromStart === null ? Date.now() : this.started + secondsFromStart * 1000;
    one.denials += 1;
    const id = `d-${one.run}-${one.denials}`;
    one.lastDenial = id;
    const limit = this.limitAt(one, at), asked = 512 * mib, held = one.kind === "serving" ? limit : this.usedAt(one, at);
    const fix = `ration set --sim=demo ${name} --limit ${Math.ceil((held + asked) / (256 * mib)) * 256}MiB`;
    const event = this.add("denied", say("request.denied", { workload: `${one.tenant}/${name}`, requested_bytes: asked, used_bytes: held, limit_bytes: limit }), { ...this.of(one), bytes: asked, denial: id, fix }, secondsFromStart);
    this.denials.set(id, {
      denial: id, time: event.time, workload: name, tenant: one.tenant, pid: one.pid, requested_bytes: asked, used_bytes: held, limit_bytes: limit, device_free_bytes: this.free(one.gpu, at),
      function: "cudaMallocAsync", ...put("because", say("denial.limit", { workload: name, used_bytes: held, limit_bytes: limit, requested_bytes: asked })), ...put("not_because", say("denial.device_was_not_full", { free_bytes: this.free(one.gpu, at) })), waited_seconds: 0, fix,
    });
    return event;
  }

  held(gpu: number, at: number): number {
    return this.workloads.filter((one) => one.gpu === gpu).reduce((sum, one) => sum + this.usedAt(one, at), 0);
  }

  free(gpu: number, at: number): number {
    return Math.max(0, total - this.held(gpu, at) - (gpu === 0 ? this.strangerAt(at) : 0) - this.unexplained(gpu));
  }

  private unexplained(gpu: number): number {
    return gpu === 0 ? 416 * mib : 288 * mib;
  }

  /** Now and then something happens by itself. */
  tick(count: number): void {
    if (count % 11 === 5) this.deny("serve");
    if (count % 37 === 20) this.add("trimmed", say("trim.gave_back", { workload: "batch/sweep-2", returned_bytes: 256 * mib, before_bytes: 4 * gib }), { workload: "sweep-2", tenant: "batch", gpu: 1, bytes: 256 * mib });
    if (count % 53 === 40) this.rebalance(2);
  }

  /** Pinned host memory: those that train have some, and the book of the one that is idle is of an older ration. */
  pinnedOf(one: Workload): Pick<WorkloadRow, "host_used_bytes" | "host_limit_bytes" | "host_peak_bytes" | "host_denials"> {
    if (one.kind === "idle") return {};
    const bytes = one.kind === "training" ? gib / 2 : 0;
    return { host_used_bytes: bytes, host_limit_bytes: bytes ? 2 * gib : null, host_peak_bytes: bytes, host_denials: 0 };
  }

  /** One workload may not use all of its limit. */
  private limitsOf(one: Workload, limit: number): Pick<WorkloadRow, "limit_bytes" | "configured_limit_bytes" | "held_back_by"> {
    return one.name === "sweep-2" ? { limit_bytes: limit - gib / 2, configured_limit_bytes: limit, ...put("held_back_by", kept) } : { limit_bytes: limit, configured_limit_bytes: limit };
  }

  private row(one: Workload, at: number): WorkloadRow & Record<string, unknown> {
    const used = this.usedAt(one, at), limit = this.limitAt(one, at);
    const processes: (Process & Record<string, unknown>)[] = [{ pid: one.pid, user: one.user, command: one.command, state: "managed", used_bytes: used, host_bytes: 0, driver_used_bytes: used + 24 * mib }];
    return {
      workload: one.name, tenant: one.tenant, user: one.user, run: one.run, gpu: one.gpu, uuid: `GPU-sim-${one.gpu}`, device: "NVIDIA A100-40",
      state: one.kind === "suspended" ? one.kind : used > limit ? "shrinking" : "running", governed: true, enforced_by: one.gpu === 1 ? "driver and shim" : "shim", slice: "", labels: one.labels,
      command: one.command, started: this.iso(-one.startedAgo), used_bytes: used, ...this.limitsOf(one, limit), guarantee_bytes: one.guarantee,
      peak_bytes: whole(Math.min(limit, one.base + one.swing)), context_bytes: Math.min(one.context, used), pooled_bytes: Math.min(one.pooled, used), suspended_bytes: one.kind === "suspended" ? whole(one.base) : 0, denials: one.denials, ...(one.lastDenial ? { last_denial: one.lastDenial } : {}),
      ...this.pinnedOf(one),
      limit_changes: one.changes, idle_seconds: one.idleSince === null ? 0 : Math.floor((at - one.idleSince) / 1000), shrinking: used > limit,
      processes,
    };
  }

  snapshot(viewer: Viewer): Snapshot {
    const at = Date.now(), operator = viewer === "operator";
    const devices: (Device & Record<string, unknown>)[] = [0, 1].map((gpu) => ({
      gpu, uuid: `GPU-sim-${gpu}`, name: "NVIDIA A100-40", compute_capability: "8.0", enforced_by: "shim", numa_nodes: [gpu], total_bytes: total, used_bytes: total - this.free(gpu, at), free_bytes: this.free(gpu, at),
      utilisation_percent: Math.round(60 + 20 * wave(at / 1000, gpu)), temperature_celsius: 54 - gpu * 6,
      promised_bytes: this.workloads.filter((one) => one.gpu === gpu).reduce((sum, one) => sum + one.guarantee, 0), keep_free_bytes: 0, available_bytes: this.free(gpu, at), governed_bytes: this.held(gpu, at),
      ungoverned_bytes: gpu === 0 ? this.strangerAt(at) : 0, unexplained_bytes: this.unexplained(gpu), orphaned_bytes: 0,
      ...(gpu === 0 ? { time_to_full_seconds: 2040 + Math.round(200 * wave(at / 1000, 5)) } : { time_to_full_seconds: null, ...put("time_to_full_seconds_na", say("unknown.no_growth")) }),
    }));
    const workloads = this.workloads.map((one) => this.row(one, at)).map((row): WorkloadRow => (operator ? row : {
      ...row, command: null, ...put("command_na", say("unknown.not_yours")), labels: null, ...put("labels_na", say("unknown.not_yours")), processes: null, ...put("processes_na", say("unknown.not_yours")),
    }));
    const carol: WorkloadRow & Record<string, unknown> = {
      workload: null, ...put("workload_na", say("process.outside")), gpu: 0, governed: false, used_bytes: this.strangerAt(at), container: null, ...put("container_na", say("unknown.no_container")),
      origin: "ssh session 3", policy: "report", user: "carol",
      processes: [{ pid: 6001, command: operator ? "python notebook.py" : null, ...(operator ? {} : { ...put("command_na", say("unknown.not_yours")) }), state: "unmanaged" }],
    };
    const sizeOf = (typed: string): number | null => {
      const size = parseSize(typed, total);
      return "bytes" in size ? size.bytes : null;
    };
    const books: Tenant[] = this.tenants.map((tenant) => ({
      tenant: tenant.name, priority: tenant.priority, changes: tenant.changes, limit_from: tenant.limitFrom,
      accounts: [0, 1].map((gpu) => {
        const own = this.workloads.filter((one) => one.tenant === tenant.name && one.gpu === gpu);
        const limit = sizeOf(tenant.limit);
        return {
          gpu, used_bytes: own.reduce((sum, one) => sum + this.usedAt(one, at), 0), limit_bytes: limit, ...(limit === null ? { ...put("limit_bytes_na", say("unknown.no_limit")) } : {}),
          guarantee_bytes: sizeOf(tenant.guarantee) ?? 0, peak_bytes: own.reduce((sum, one) => sum + whole(one.base + one.swing), 0), denials: own.reduce((sum, one) => sum + one.denials, 0),
        };
      }),
    }));
    if (viewer === "anonymous") {
      const na = (list: string) => put(list, say("unknown.totals_only"));
      return { devices, workloads: [], ...na("workloads_na"), tenants: [], ...na("tenants_na"), queue: [], ...na("queue_na"), last_event: this.nextEventId() };
    }
    return { devices, workloads: [...workloads, carol], tenants: books, queue: this.queue.map((lease) => (operator ? lease : { ...lease, command: null, ...put("command_na", say("unknown.not_yours")) })), last_event: this.nextEventId() };
  }

  nextEventId(): number {
    return this.events[this.events.length - 1]?.id ?? 0;
  }
}

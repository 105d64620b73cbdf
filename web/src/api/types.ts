// The daemon's JSON, field by field as docs/http-api.md has it. Unknown is null beside FIELD_na with the reason.
// Shapes that the document leaves open are marked "open" and read with care (see client.ts and the pages).

export type Unknowable<Name extends string, Type> = { [K in Name]: Type | null } & { [K in `${Name}_na`]?: string };

export interface Envelope<Data> {
  schema: string;
  time: string;
  host: string;
  source: "daemon" | "sim";
  data: Data;
  warnings?: Warning[];
}

export interface Warning {
  id: string;
  message: string;
  fix: string;
}

export interface Problem {
  type?: string;
  title: string;
  status: number;
  detail?: string;
  fix?: string;
  id?: string;
}

export interface Session {
  role: "operator" | "tenant";
  user: string | null;
  version: string;
}

export interface Device {
  gpu: number;
  uuid: string;
  name: string;
  total_bytes: number;
  used_bytes: number | null;
  used_bytes_na?: string;
  free_bytes: number | null;
  free_bytes_na?: string;
  utilisation_percent: number | null;
  utilisation_percent_na?: string;
  temperature_celsius: number | null;
  temperature_celsius_na?: string;
  promised_bytes: number | null;
  governed_bytes: number | null;
  ungoverned_bytes: number | null;
  ungoverned_bytes_na?: string;
  unexplained_bytes: number | null;
  unexplained_bytes_na?: string;
  orphaned_bytes: number | null;
  orphaned_bytes_na?: string;
  time_to_full_seconds: number | null;
  time_to_full_seconds_na?: string;
}

export interface Process {
  pid: number;
  user?: string | null;
  command: string | null;
  command_na?: string;
  state: "managed" | "violator" | "unmanaged";
  used_bytes?: number | null;
  used_bytes_na?: string;
  driver_used_bytes?: number | null;
  driver_used_bytes_na?: string;
}

export type WorkloadState = "running" | "waiting" | "shrinking" | "idle" | "suspended";

/** One workload on one device; `workload` is null for what was not started through ration. */
export interface WorkloadRow {
  workload: string | null;
  workload_na?: string;
  tenant?: string | null;
  user?: string | null;
  user_na?: string;
  run?: number | null;
  gpu: number | null;
  gpu_na?: string;
  uuid?: string;
  device?: string;
  state?: WorkloadState;
  governed: boolean;
  enforced_by?: string;
  slice?: string;
  labels?: string | null;
  labels_na?: string;
  command?: string | null;
  command_na?: string;
  started?: string | null;
  used_bytes: number | null;
  used_bytes_na?: string;
  limit_bytes?: number | null;
  limit_bytes_na?: string;
  configured_limit_bytes?: number | null;
  guarantee_bytes?: number | null;
  peak_bytes?: number | null;
  peak_bytes_na?: string;
  context_bytes?: number | null;
  context_bytes_na?: string;
  pooled_bytes?: number | null;
  pooled_bytes_na?: string;
  denials?: number;
  last_denial?: string | null;
  limit_changes?: number;
  idle_seconds?: number | null;
  idle_seconds_na?: string;
  shrinking?: boolean;
  container?: string | null;
  container_na?: string;
  origin?: string | null;
  policy?: string;
  processes?: Process[] | null;
  processes_na?: string;
}

export interface TenantAccount {
  gpu: number | null;
  used_bytes: number | null;
  used_bytes_na?: string;
  limit_bytes: number | null;
  limit_bytes_na?: string;
  guarantee_bytes: number | null;
  peak_bytes: number | null;
  peak_bytes_na?: string;
  denials: number;
}

export interface Tenant {
  tenant: string;
  priority: number;
  limit_changes?: number;
  accounts: TenantAccount[];
}

export interface Lease {
  lease: string;
  state: string;
  tenant: string;
  user: string | null;
  command: string | null;
  command_na?: string;
  bytes: number;
  gpu: string | number;
  priority: number;
  position: number | null;
  of: number | null;
  reason: string | null;
  since: string;
  estimate_seconds: number | null;
  estimate_seconds_na?: string;
}

export interface Snapshot {
  devices: Device[];
  workloads: WorkloadRow[];
  tenants: Tenant[];
  queue: Lease[];
  last_event: number;
}

export const eventTypes = [
  "started", "ended", "denied", "waited", "resized", "trimmed", "suspended", "resumed", "rebalanced", "shrinking",
  "ungoverned", "violation", "orphaned", "guard_lost", "queued", "granted", "alert", "config", "daemon", "gap",
] as const;
export type EventType = (typeof eventTypes)[number];

export interface NodeEvent {
  id: number;
  time: string;
  type: EventType;
  workload: string | null;
  tenant: string | null;
  user: string | null;
  gpu: number | null;
  pid: number | null;
  bytes: number | null;
  denial: string | null;
  by: string | null;
  text: string;
  old: unknown;
  new: unknown;
  fix: string | null;
}

/** `ration why`. */
export interface Denial {
  denial: string;
  time: string;
  workload: string;
  tenant: string;
  pid: number | null;
  requested_bytes: number | null;
  used_bytes: number | null;
  limit_bytes: number | null;
  device_free_bytes?: number | null;
  device_free_bytes_na?: string;
  function?: string | null;
  because: string;
  then?: string | null;
  fix: string | null;
}

export interface ExplainRow {
  id: string;
  label: string;
  bytes: number | null;
  bytes_na?: string;
  source?: string;
}

/** Open: one account of a workload; several on several devices. */
export interface Explained {
  gpu?: number | null;
  total_bytes?: number | null;
  rows: ExplainRow[];
}

export interface Line {
  name: string;
  maximum: (number | null)[];
  average: (number | null)[];
}

export interface Series {
  metric: string;
  by: string;
  gpu: number | null;
  from: string;
  to: string;
  step_seconds: number;
  lines: Line[];
  limits: { name: string; values: (number | null)[] }[];
  denials: { time: string; event: number; name: string }[];
  gaps: { from: string; to: string }[];
  capacity_bytes: number | null;
}

export interface UsageRow {
  name: string;
  kind: "governed" | "ungoverned" | "idle" | "gap";
  used_byte_seconds: string | null;
  limit_byte_seconds: string | null;
  guarantee_byte_seconds: string | null;
  charged_byte_seconds: string | null;
  charged_gib_hours: number | null;
  peak_bytes: number | null;
  efficiency: number | null;
  denials: number | null;
  cost: number | null;
}

export interface Usage {
  by: string;
  basis: string;
  from: string;
  to: string;
  currency: string | null;
  rows: UsageRow[];
  sum_byte_seconds: string;
  capacity_byte_seconds: string;
  adds_up: boolean;
  gaps: { from: string; to: string }[];
  period: string | null;
  closed: string | null;
  seal: string | null;
  adjustments: unknown[];
}

/** Open: what a change would do. */
export interface Consequences {
  consequences?: (string | { level?: "info" | "warn" | "error"; text: string })[];
  command?: string;
}

/** Open: the wish and the answer of POST /api/v1/plan. */
export interface PlanWish {
  /** `A100-40:2`, `0`; none: the devices of this node. */
  gpus: string[];
  tenants: { tenant: string; guarantee: string; limit: string | null; count: number }[];
  spread: boolean;
}

/** So many of a tenant, alike; of a limit that was not given the guarantee is the limit. */
export interface PlanGroup {
  tenant: string;
  count: number;
  guarantee_bytes: number;
  limit_bytes: number | null;
}

/** As `ration plan -o json` has it. */
export interface PlanAnswer {
  fits: boolean;
  needed_bytes: number;
  available_bytes: number;
  devices: { gpu: number; name: string; usable_bytes: number; spare_bytes: number; tenants: PlanGroup[] }[];
  left_over: PlanGroup[];
  /** Limits that cannot be reached beside what is guaranteed to others. */
  unreachable: { tenant: string; gpu: number; limit_bytes: number | null; reachable_bytes: number }[];
  /** The smallest change of one tenant with which all fit. */
  change: { tenant: string; guarantee_bytes: number; count: number; less_bytes: number } | null;
  more_devices: number;
}

/** Open: what the daemon knows about itself. Known tables are `checks` and `sources`; the rest is shown as it comes. */
export interface Health {
  checks?: { id: string; status: string; text: string; fix?: string | null }[];
  sources?: { name: string; source: string; age_seconds: number | null; age_seconds_na?: string; status?: string; text?: string }[];
  [field: string]: unknown;
}

// The daemon's JSON, as far as the pages read it. Unknown is null beside FIELD_na with the reason. Beside what the
// daemon says in FIELD stands FIELD_message (saidIn); beside `text`, `message_id` and `arguments`. A test holds each field
// against share/ration/schema: that it is there, and that what may be missing or null there may be so here.

import type { Said, Value } from "../text/message";

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
  /** `anonymous`: neither a user nor a token is known, so that only totals are shown. */
  role: "operator" | "tenant" | "anonymous";
  user: string | null;
  user_na?: string;
  version: string;
  /** By verb of the command line, what says that a command is about this node: `{"set": ["--sim=demo"]}`. */
  command_options: Record<string, string[]>;
}

/** The operators' token, in exchange for that of a link. */
export interface Login {
  token: string;
}

export interface Device {
  gpu: number;
  uuid: string;
  name: string;
  compute_capability: string | null;
  compute_capability_na?: string;
  enforced_by: "shim" | "driver and shim";
  numa_nodes: number[];
  total_bytes: number;
  used_bytes: number | null;
  used_bytes_na?: string;
  free_bytes: number | null;
  free_bytes_na?: string;
  utilisation_percent: number | null;
  utilisation_percent_na?: string;
  temperature_celsius: number | null;
  temperature_celsius_na?: string;
  promised_bytes: number;
  governed_bytes: number;
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
  user?: string;
  command: string | null;
  command_na?: string;
  state: "managed" | "violator" | "unmanaged" | "unknown";
  used_bytes?: number;
}

export type WorkloadState = "running" | "waiting" | "shrinking" | "suspended" | "resuming" | "ended";

/** One workload on one device; `workload` is null for what was not started through ration. */
export interface WorkloadRow {
  workload: string | null;
  workload_na?: string;
  tenant?: string;
  user: string;
  run?: number;
  gpu: number | null;
  gpu_na?: string;
  device?: string;
  state?: WorkloadState;
  /** null: only a daemon of root sees it. */
  governed: boolean | null;
  enforced_by?: "shim" | "driver and shim";
  slice?: string;
  labels?: string | null;
  labels_na?: string;
  command?: string | null;
  command_na?: string;
  started?: string;
  used_bytes: number | null;
  used_bytes_na?: string;
  limit_bytes?: number;
  configured_limit_bytes?: number;
  /** Why less than the configured limit holds at this moment. */
  held_back_by?: string;
  /** What was done to its book: it counts as if it held all that it may. */
  book_altered?: string;
  guarantee_bytes?: number;
  peak_bytes?: number;
  /** Pinned host memory, the same on each of its GPUs; absent if its book counts none. */
  host_used_bytes?: number;
  host_limit_bytes?: number | null;
  host_peak_bytes?: number;
  host_denials?: number;
  context_bytes?: number;
  pooled_bytes?: number;
  /** Moved to the host's memory. */
  suspended_bytes?: number;
  denials?: number;
  limit_changes?: number;
  idle_seconds?: number | null;
  idle_seconds_na?: string;
  container?: string | null;
  container_na?: string;
  policy?: string | null;
  processes: Process[] | null;
  processes_na?: string;
}

export interface TenantAccount {
  gpu: number;
  used_bytes: number;
  limit_bytes: number | null;
  limit_bytes_na?: string;
  guarantee_bytes: number;
  peak_bytes: number;
  denials: number;
}

export interface Tenant {
  tenant: string;
  priority: number;
  /** How often its limit or guarantee was changed: for If-Match. */
  changes: number;
  /** Who said the limit; null for a tenant that the configuration does not name. */
  limit_from: string | null;
  limit_from_na?: string;
  accounts: TenantAccount[];
}

export interface Lease {
  lease: string;
  state: "waiting" | "granted" | "running" | "suspended" | "over";
  tenant: string;
  user: string;
  /** Of the future workload. */
  name: string | null;
  name_na?: string;
  command: string | null;
  command_na?: string;
  bytes: number;
  gpu: string;
  priority: number;
  position?: number;
  of?: number;
  waited_seconds?: number;
  reason?: string;
  since: string;
  estimate_seconds?: number | null;
  estimate_seconds_na?: string;
}

export interface Snapshot {
  devices: Device[];
  /** Totals only: the lists are empty. */
  workloads_na?: string;
  tenants_na?: string;
  queue_na?: string;
  devices_na?: string;
  workloads: WorkloadRow[];
  tenants: Tenant[];
  queue: Lease[];
  last_event: number;
}

export const eventTypes = [
  "started", "ended", "denied", "waited", "resized", "trimmed", "suspending", "suspended", "suspend_failed", "resuming", "resumed",
  "idle", "rebalanced", "shrinking", "ungoverned", "violation", "orphaned", "guard_lost", "queued", "granted", "dequeued", "alert", "config",
  "daemon", "gap",
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
  /** What `text` says; null: an older daemon recorded it. */
  message_id: string | null;
  arguments: Record<string, Value> | null;
  /** Of a burst that is told as one event; `time` is the last one's. */
  count: number;
  first_time: string;
  old: string | null;
  new: string | null;
  fix: string | null;
}

/** `ration why`. */
export interface Denial {
  denial: string;
  time: string;
  workload: string;
  tenant: string;
  pid: number;
  requested_bytes: number;
  used_bytes: number;
  limit_bytes: number;
  device_free_bytes: number | null;
  device_free_bytes_na?: string;
  function: string;
  because: string;
  not_because?: string;
  waited_seconds?: number;
  fix: string;
}

export interface ExplainRow {
  id: string;
  label: string;
  bytes: number | null;
  bytes_na?: string;
  source?: string;
}

/** One account of a workload: its rows add up to what the driver says. */
export interface Explained {
  gpu: number | null;
  used_bytes: number;
  driver_bytes: number | null;
  driver_bytes_na?: string;
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
  gaps: Gap[];
  capacity_bytes: number;
}

/** The daemon did not run. */
export interface Gap {
  from: string;
  to: string;
}

export interface UsageRow {
  name: string;
  kind: "governed" | "ungoverned" | "driver" | "idle" | "gap" | "overlap";
  used_byte_seconds: string | null;
  used_byte_seconds_na?: string;
  limit_byte_seconds: string | null;
  limit_byte_seconds_na?: string;
  charged_byte_seconds: string;
  shared_idle_byte_seconds?: string;
  charged_gib_hours: number;
  peak_bytes: number | null;
  efficiency: number | null;
  denials: number;
  /** Pinned host memory, which is on no GPU. */
  host_used_byte_seconds: string | null;
  host_used_byte_seconds_na?: string;
  host_peak_bytes: number | null;
  host_peak_bytes_na?: string;
  cost: number | null;
  cost_na?: string;
  /** Where idle, ungoverned and other memory is listed GPU by GPU. */
  device?: string;
}

export interface Usage {
  basis: "used" | "limit" | "guarantee" | "max(used,guarantee)" | "peak";
  from: string;
  to: string;
  currency: string;
  rows: UsageRow[];
  sum_byte_seconds: string;
  capacity_byte_seconds: string;
  adds_up: boolean;
  /** Sentences about the window: from when on anybody watched. */
  notes: string[];
  /** The id and the arguments of each note. */
  notes_messages: Omit<Said, "text">[];
  gaps: Gap[];
  period: string | null;
  closed: string | null;
  seal: string | null;
  seal_intact?: boolean;
  cost?: number;
}

/** A month whose lines never change any more. */
export interface Period {
  period: string;
  closed: string;
  seal: string;
}

/** What a change of a workload's limits does, or would do. */
export interface Consequences {
  consequences: { level: "info" | "warn"; text: string; message_id?: string; arguments?: Record<string, Value> }[];
}

/** What the daemon knows about itself. */
/** Without a name: neither the process nor counts. */
export interface Health {
  version: string;
  pid?: number;
  started: string;
  last_look: string;
  looks?: number;
  /** All looks together. */
  look_seconds?: number;
  workloads?: number;
  stream_clients?: number;
  connections?: number;
  recorded_to: string;
  driver: string | null;
  driver_na?: string;
  problem: string | null;
  problem_na?: string;
  checks: { id: string; status: "ok" | "warn"; text: string; message_id?: string; arguments?: Record<string, Value> }[];
  /** For operators. */
  folders?: { folder: string; user: string }[];
  state_folder?: string;
}

// How the memory of one device is divided for drawing: the bar of Now and the blocks of Map show the same parts.

import type { Device, Snapshot, WorkloadRow } from "../api/types";

export type PartKind = "tenant" | "governed" | "ungoverned" | "orphaned" | "unexplained" | "reserved" | "free";

export interface Part {
  kind: PartKind;
  name: string;
  bytes: number;
}

export interface Reach {
  tenant: string;
  /** Where the tenant's segment begins. */
  start: number;
  used: number;
  limit: number | null;
  guarantee: number;
  denials: number;
}

export interface DeviceLayout {
  parts: Part[];
  reaches: Reach[];
  total: number;
}

export const rowsOn = (snapshot: Snapshot, gpu: number): WorkloadRow[] => snapshot.workloads.filter((row) => row.gpu === gpu);

const sum = <Row>(rows: Row[], read: (row: Row) => number | null | undefined): number =>
  rows.reduce((total, row) => total + (read(row) ?? 0), 0);

/** What tenants hold, what else is held, what guarantees still claim of the rest, and what is free to anybody. */
export function layoutDevice(snapshot: Snapshot, device: Device): DeviceLayout {
  const parts: Part[] = [];
  const reaches: Reach[] = [];
  let start = 0;
  let reserved = 0;
  for (const tenant of snapshot.tenants) {
    const account = tenant.accounts.find((candidate) => candidate.gpu === device.gpu);
    if (!account) continue;
    const rows = rowsOn(snapshot, device.gpu).filter((row) => row.governed && row.tenant === tenant.tenant);
    const used = account.used_bytes;
    const limits = rows.map((row) => row.limit_bytes ?? null);
    const limit = account.limit_bytes ?? (limits.length > 0 && !limits.includes(null) ? sum(rows, (row) => row.limit_bytes) : null);
    // A guarantee of a workload counts where the tenant as a whole has none.
    const guarantee = Math.max(account.guarantee_bytes, sum(rows, (row) => row.guarantee_bytes));
    reserved += Math.max(0, guarantee - used);
    if (used > 0) parts.push({ kind: "tenant", name: tenant.tenant, bytes: used });
    reaches.push({ tenant: tenant.tenant, start, used, limit, guarantee, denials: account.denials });
    start += used;
  }
  const others: [PartKind, number | null][] = [
    // Where tenants are not named, what they hold together.
    ["governed", snapshot.tenants_na ? device.governed_bytes : null],
    ["ungoverned", device.ungoverned_bytes], ["orphaned", device.orphaned_bytes], ["unexplained", device.unexplained_bytes],
  ];
  for (const [kind, bytes] of others) {
    if (bytes) parts.push({ kind, name: kind, bytes });
  }
  const rest = device.free_bytes ?? 0;
  const claimed = Math.min(rest, reserved);
  if (claimed > 0) parts.push({ kind: "reserved", name: "reserved", bytes: claimed });
  if (rest > claimed) parts.push({ kind: "free", name: "free", bytes: rest - claimed });
  return { parts, reaches, total: device.total_bytes };
}

export interface Block {
  id: string;
  kind: "allocated" | "pooled" | "context" | "ungoverned" | "orphaned" | "unexplained" | "free";
  owner: string;
  tenant: string | null;
  bytes: number;
}

/** The device as blocks of one owner and one kind. Addresses are not known: the order is by owner. */
export function blocksOf(snapshot: Snapshot, device: Device): Block[] {
  const blocks: Block[] = [];
  const add = (block: Block) => {
    if (block.bytes > 0) blocks.push(block);
  };
  const rows = rowsOn(snapshot, device.gpu);
  rows.filter((row) => row.governed).forEach((row, index) => {
    const owner = row.workload ?? "", tenant = row.tenant ?? null;
    const context = row.context_bytes ?? 0, pooled = row.pooled_bytes ?? 0;
    const id = `${owner}-${row.run ?? index}`;
    add({ id: `${id}-allocated`, kind: "allocated", owner, tenant, bytes: Math.max(0, (row.used_bytes ?? 0) - context - pooled) });
    add({ id: `${id}-pooled`, kind: "pooled", owner, tenant, bytes: pooled });
    add({ id: `${id}-context`, kind: "context", owner, tenant, bytes: context });
  });
  const strangers = rows.filter((row) => !row.governed);
  strangers.forEach((row, index) => {
    const process = row.processes?.[0];
    const owner = process ? `pid ${process.pid} ${process.command ?? ""}`.trim() : "ungoverned";
    add({ id: `ungoverned-${process?.pid ?? index}`, kind: "ungoverned", owner, tenant: null, bytes: row.used_bytes ?? 0 });
  });
  const notListed = (device.ungoverned_bytes ?? 0) - sum(strangers, (row) => row.used_bytes);
  add({ id: "ungoverned-rest", kind: "ungoverned", owner: "ungoverned", tenant: null, bytes: notListed });
  add({ id: "orphaned", kind: "orphaned", owner: "orphaned", tenant: null, bytes: device.orphaned_bytes ?? 0 });
  add({ id: "unexplained", kind: "unexplained", owner: "unexplained", tenant: null, bytes: device.unexplained_bytes ?? 0 });
  add({ id: "free", kind: "free", owner: "free", tenant: null, bytes: device.free_bytes ?? 0 });
  return blocks;
}

export interface Cut {
  block: Block;
  row: number;
  /** Share of the row's width. */
  from: number;
  width: number;
  first: boolean;
}

/** Lays blocks into rows of equal size one after another, cutting a block where a row ends. */
export function flow(blocks: Block[], total: number, rows: number): Cut[] {
  const perRow = total / rows;
  const cuts: Cut[] = [];
  let position = 0;
  for (const block of blocks) {
    let left = Math.min(block.bytes, total - position);
    let first = true;
    while (left > total * 1e-9) {
      const row = Math.min(rows - 1, Math.floor(position / perRow + 1e-9));
      const here = row === rows - 1 ? left : Math.min(left, (row + 1) * perRow - position);
      cuts.push({ block, row, from: (position - row * perRow) / perRow, width: here / perRow, first });
      position += here;
      left -= here;
      first = false;
    }
  }
  return cuts;
}

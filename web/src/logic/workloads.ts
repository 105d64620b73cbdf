// What is told of a row of workloads: its name, its processes, its share.

import type { Device, WorkloadRow } from "../api/types";
import { shellWord } from "./export";

/** `train`, or `python` for what was not started through ration. */
export function nameOf(row: WorkloadRow): string {
  if (row.workload !== null) return row.workload;
  return row.processes?.[0]?.command?.split(" ")[0] ?? "?";
}

/** `GPU 0` for the UUID of a device of this node. */
export function gpuName(uuid: string, devices: Device[]): string {
  const device = devices.find((one) => one.uuid === uuid);
  return device ? `GPU ${device.gpu}` : uuid;
}

export const pidsOf = (row: WorkloadRow): string => row.processes?.map((process) => process.pid).join(" ") ?? "";

export const shareOf = (row: WorkloadRow): number | null =>
  row.used_bytes !== null && row.limit_bytes ? row.used_bytes / row.limit_bytes : null;

/** What needs somebody's eye comes first when nothing else is asked for. */
export function atLimit(row: WorkloadRow): boolean {
  return (shareOf(row) ?? 0) >= 1;
}

/** What there is to do about where its memory is: bring it back, or move it away. */
export const moveOf = (rows: WorkloadRow[]): "suspend" | "resume" => (rows.some((row) => row.state === "suspended" || row.state === "resuming") ? "resume" : "suspend");

/** The commands of a shell that concern a workload. */
export const shellLines = (name: string, rows: WorkloadRow[]): string[] =>
  [`set ${shellWord(name)} --limit SIZE`, ...["trim", moveOf(rows), "stop", "explain"].map((verb) => `${verb} ${shellWord(name)}`)].map((words) => `ration ${words}`);

/** The names of the governed workloads, each once, in the order of their tenants. */
export function namesOf(rows: WorkloadRow[]): string[] {
  const governed = rows.filter((row) => row.workload !== null).sort((left, right) => (left.tenant ?? "").localeCompare(right.tenant ?? "", undefined, { numeric: true }) || String(left.workload).localeCompare(String(right.workload), undefined, { numeric: true }));
  return [...new Set(governed.map((row) => row.workload ?? ""))];
}

/** All that it holds, on every GPU and on the host. */
export function heldBy(rows: WorkloadRow[]): { used: number; suspended: number } {
  const sum = (read: (row: WorkloadRow) => number | null | undefined) => rows.reduce((all, row) => all + (read(row) ?? 0), 0);
  return { used: sum((row) => row.used_bytes), suspended: sum((row) => row.suspended_bytes) };
}

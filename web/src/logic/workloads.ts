// What can be asked of a row of workloads: the fields of the filter, the name that people use for it.

import type { Device, WorkloadRow } from "../api/types";
import type { Fields } from "./filter";

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

export const workloadFields: Fields<WorkloadRow> = {
  workload: { kind: "text", read: (row) => row.workload },
  name: { kind: "text", read: nameOf },
  tenant: { kind: "text", read: (row) => row.tenant },
  user: { kind: "text", read: (row) => row.user },
  gpu: { kind: "count", read: (row) => row.gpu },
  device: { kind: "text", read: (row) => row.device },
  state: { kind: "text", read: (row) => row.state },
  governed: { kind: "flag", read: (row) => row.governed },
  slice: { kind: "text", read: (row) => row.slice },
  label: { kind: "text", read: (row) => row.labels },
  command: { kind: "text", read: (row) => row.command ?? row.processes?.[0]?.command },
  container: { kind: "text", read: (row) => row.container },
  pid: { kind: "text", read: pidsOf },
  run: { kind: "count", read: (row) => row.run },
  used: { kind: "size", read: (row) => row.used_bytes },
  limit: { kind: "size", read: (row) => row.limit_bytes },
  guarantee: { kind: "size", read: (row) => row.guarantee_bytes },
  peak: { kind: "size", read: (row) => row.peak_bytes },
  context: { kind: "size", read: (row) => row.context_bytes },
  pooled: { kind: "size", read: (row) => row.pooled_bytes },
  denied: { kind: "count", read: (row) => row.denials },
  changes: { kind: "count", read: (row) => row.limit_changes },
  idle: { kind: "duration", read: (row) => row.idle_seconds },
};

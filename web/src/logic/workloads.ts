// What is told of a row of workloads: its name, its processes, its share.

import type { Device, WorkloadRow } from "../api/types";

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

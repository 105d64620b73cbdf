// The documents of a recording: what the daemon answers for one, and what the HTML file has inside. Times are seconds since
// the recording began; `gpu` null is pinned host memory; a `process` is a position in `inspection.processes`, a `site` a key of
// `sites`, 0 where none was recorded. The test that compares types.ts with the schemas reads this file, too.

export interface RecordingFile {
  name: string;
  bytes: number;
  modified: string;
  user: string;
}

export interface Recordings {
  recordings: RecordingFile[];
  folder: string;
}

/** Blocks alike, as `ration inspect -o json` has them. */
export interface AlikeBlocks {
  process: number;
  bytes: number;
  count: number;
  total_bytes: number;
  first_seconds: number;
  last_seconds: number;
  spans: number;
  site?: string;
}

export interface Held {
  gpu: number | null;
  seconds: number;
  bytes: number;
  requested_bytes: number;
  bytes_at_end: number;
  mark: string;
  /** Of NVTX, that were open then; the outermost first. */
  ranges: { process: number; thread: number; names: string[] }[];
  device_name?: string;
}

export interface Inspection {
  workload: string;
  began: string;
  seconds: number;
  events: number;
  lost: number;
  complete: boolean;
  denial_count: number;
  processes: { pid: number; parent: number; command: string }[];
  held: Held[];
  never_freed: AlikeBlocks[];
  sizes: { upto_bytes: number; count: number; freed: number; total_bytes: number; middle_lifetime_seconds: number }[];
  asked: { process: number; function: string; times: number; least_bytes: number; most_bytes: number }[];
  denials: { seconds: number; by: string; gpu: number | null; process: number; bytes: number; number: number; held_bytes: number; site?: string }[];
  marks: { seconds: number; text: string }[];
}

export interface ListedEvent {
  seconds: number;
  kind: string;
  gpu: number | null;
  process: number;
  thread: number;
  bytes: number;
  charged_bytes: number;
  held_bytes: number;
  site: number;
  address?: string;
}

export interface RecordingWindow {
  from_seconds: number;
  to_seconds: number;
  step_seconds: number;
  lines: { gpu: number | null; most_bytes: number[] }[];
  /** null: the columns come from the summary, and nobody counted. */
  events: number | null;
  listed: ListedEvent[];
}

export interface RecordingDocument {
  inspection: Inspection;
  mark_count: number;
  deep: boolean;
  booked: boolean;
  devices: { uuid: string; name: string; total_bytes: number; limit_bytes: number | null }[];
  window: RecordingWindow;
  sites: Record<string, string>;
}

export interface Runs {
  process: number[];
  address: string[];
  span_bytes: number[];
  bytes: number[];
  count: number[];
  site: number[];
  since_seconds: number[];
}

export interface MomentPlace {
  gpu: number | null;
  seconds: number;
  bytes: number;
  parts: { use: string; process: number; bytes: number }[];
  groups: { process: number; site: number; bytes: number; count: number }[];
  ungrouped_bytes: number;
  map: { runs: Runs; holes: { bytes: number; largest_bytes: number; count: number }; blocks: number; unaddressed_bytes: number };
}

export interface RecordingMoment {
  at_peak: boolean;
  places: MomentPlace[];
  sites: Record<string, string>;
}

export interface RecordingUsage {
  seconds: number[];
  lines: { gpu: number | null; held_bytes: number[]; requested_bytes: number[]; fixed_bytes: number[]; holes_bytes: number[]; largest_hole_bytes: number[] }[];
}

export interface RecordingChange {
  what: string;
  name: string;
  before: { bytes: number; count: number };
  after: { bytes: number; count: number };
  block_bytes?: number;
  gpu?: number | null;
}

import type { Device, Series } from "../api/types";
import { reportCommand, windowFrom } from "../logic/export";
import { gpuName } from "../logic/workloads";
import { useStore } from "../state/store";
import { setQuery, type View } from "../state/route";
import { t } from "../text";
import { Choices, Panel } from "../ui/basics";
import { Chart, ChartTools, type ChartProps } from "../ui/chart";
import { useSeries } from "../ui/load";

/** As the daemon reads durations: hours at most. */
export const ranges = [
  { value: "-10m", label: "10 m" }, { value: "-1h", label: "1 h" }, { value: "-6h", label: "6 h" }, { value: "-24h", label: "24 h" },
  { value: "-168h", label: "7 d" }, { value: "-720h", label: "30 d" }, { value: "-9600h", label: "400 d" },
];

/** What the URL says is looked at; a zoomed range is fixed, the others follow the clock. */
export function rangeOf(query: URLSearchParams): { from: string; to: string | null; fixed: boolean } {
  const to = query.get("to");
  return { from: query.get("from") ?? "-1h", to, fixed: to !== null };
}

export function refreshMs(from: string, fixed: boolean): number | null {
  if (fixed) return null;
  return from === "-10m" ? 2000 : from === "-1h" ? 10_000 : 60_000;
}

export const zoomTo = (from: Date, to: Date) => setQuery({ from: from.toISOString(), to: to.toISOString() }, false);

export function RangeTools({ query, series }: { query: URLSearchParams; series: Series | null }) {
  const { from, fixed } = rangeOf(query);
  /** Moves by a share of what is seen, or makes it `scale` times as long around its middle. */
  const shift = (move: number, scale: number) => {
    if (!series) return;
    const start = Date.parse(series.from), end = Date.parse(series.to), length = end - start;
    const middle = start + length / 2 + move * length, half = (length * scale) / 2;
    const last = Math.min(Date.now(), middle + half);
    zoomTo(new Date(last - 2 * half), new Date(last));
  };
  return (
    <div class="range-tools">
      <Choices label={t("timeline.range")} name="range" value={fixed ? "" : from} choices={ranges} onChange={(value) => setQuery({ from: value, to: null })} />
      <div class="buttons">
        <button type="button" class="quiet" onClick={() => shift(-0.5, 1)} aria-label={t("timeline.earlier")}>◀</button>
        <button type="button" class="quiet" onClick={() => shift(0.5, 1)} aria-label={t("timeline.later")}>▶</button>
        <button type="button" class="quiet" onClick={() => shift(0, 0.5)} aria-label={t("timeline.closer")}>+</button>
        <button type="button" class="quiet" onClick={() => shift(0, 2)} aria-label={t("timeline.wider")}>−</button>
        {fixed && <button type="button" onClick={() => setQuery({ from: null, to: null })}>{t("timeline.live")}</button>}
      </div>
    </div>
  );
}

/** Devices by the number that people know them by, instead of the UUID. */
function withGpus(series: Series, gpus: Device[]): Series {
  const named = <Row extends { name: string }>(rows: Row[]): Row[] => rows.map((row) => ({ ...row, name: gpuName(row.name, gpus) }));
  return { ...series, lines: named(series.lines), limits: named(series.limits) };
}

export function Timeline({ view }: { view: View }) {
  const snapshot = useStore((state) => state.snapshot);
  const gpus = snapshot?.devices ?? [];
  const gpu = view.query.get("gpu") ?? String(gpus[0]?.gpu ?? 0);
  const by = view.query.get("by") ?? "tenant";
  const shape = view.query.get("shape") ?? "stack";
  const which = view.query.get("which") === "average" ? "average" : "maximum";
  const range = rangeOf(view.query), { from } = range;
  const { data: loaded, problem } = useSeries({ by, gpu: by === "device" ? null : gpu }, range, refreshMs(from, range.fixed));
  const data = loaded && by === "device" ? withGpus(loaded, gpus) : loaded;
  const owners = new Map(snapshot?.workloads.map((row) => [row.workload ?? "", row.tenant ?? ""]) ?? []);
  const device = gpus.find((candidate) => String(candidate.gpu) === gpu);
  const title = by === "device" ? t("timeline.allDevices") : `GPU ${gpu} ${device?.name ?? ""}`;
  const chart = (series: Series): ChartProps => ({
    title, series, stacked: shape === "stack", which, levels: series.capacity_bytes ? [{ label: t("timeline.capacity"), bytes: series.capacity_bytes, since: undefined }] : [], table: view.query.get("as") === "table", onZoom: zoomTo,
    tenantOf: (name) => (by === "workload" ? owners.get(name) || name : name), cli: reportCommand({ by, window: windowFrom(from, Date.now()) }),
  });
  return (
    <>
      <div class="controls">
        {by !== "device" && <Choices label="GPU" name="gpu" value={gpu} choices={gpus.map((one) => ({ value: String(one.gpu), label: `GPU ${one.gpu}` }))} onChange={(value) => setQuery({ gpu: value })} />}
        <Choices label={t("timeline.by")} name="by" value={by} choices={[{ value: "tenant", label: t("column.tenant") }, { value: "workload", label: t("column.workload") }, { value: "device", label: "GPU" }]} onChange={(value) => setQuery({ by: value === "tenant" ? null : value })} />
        <Choices label={t("timeline.shape")} name="shape" value={shape} choices={[{ value: "stack", label: t("timeline.stack") }, { value: "lines", label: t("timeline.lines") }]} onChange={(value) => setQuery({ shape: value === "stack" ? null : value })} />
        <Choices label={t("timeline.which")} name="which" value={which} choices={[{ value: "maximum", label: t("timeline.maximum") }, { value: "average", label: t("timeline.average") }]} onChange={(value) => setQuery({ which: value === "maximum" ? null : value })} />
      </div>
      <Panel id="chart" class="tall" title={title} tools={<><RangeTools query={view.query} series={data} />{data && <ChartTools {...chart(data)} />}</>}>
        {problem && <p class="notice bad">{problem}</p>}
        {data ? <Chart {...chart(data)} /> : <div class="chart-wait" />}
        <p class="faint">{which === "maximum" ? t("timeline.maximumNote") : t("timeline.averageNote")} {t("timeline.brush")}</p>
      </Panel>
    </>
  );
}

// Memory over time (uPlot). The same numbers are always to be had as a table and as text.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Series } from "../api/types";
import { toCsv } from "../logic/export";
import { formatClock, formatDay, formatSize } from "../logic/format";
import { canvasFill, colours, lookOf } from "../logic/palette";
import { asRows, levelAt, prepare, type Drawn, type Level } from "../logic/series";
import { usePreferences } from "../state/preferences";
import { setQuery } from "../state/route";
import { t } from "../text";
import { Amount, Choices, CopyMenu } from "./basics";
import { DataTable, type Column } from "./table";

export interface ChartProps {
  title: string;
  series: Series;
  stacked: boolean;
  which: "maximum" | "average";
  /** Which look a line has; its own name where the lines are tenants. */
  tenantOf: (name: string) => string;
  /** Levels that do not change in time, such as a guarantee, from when on they hold. */
  levels?: Level[];
  table: boolean;
  cli: string;
  onZoom?: (from: Date, to: Date) => void;
}

export const sizeSteps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].flatMap((step) => [step * 2 ** 20]).concat([1, 2, 4, 5, 8, 10, 16, 20, 32, 40, 64, 80, 128, 256, 512].map((step) => step * 2 ** 30));
// Largest step first: [step, text, text where the year, month, day … changes]; 24 hours, days as ISO 8601 writes them.
const clockTicks: uPlot.Axis.Values = [
  [86400 * 365, "{YYYY}", null, null, null, null, null, null, 1],
  [86400 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

export interface Ink {
  text: string;
  grid: string;
  bad: string;
  surface: string;
}

export function readInk(): Ink {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return { text: read("--muted"), grid: read("--grid"), bad: read("--bad"), surface: read("--surface") };
}

/** A line that stays level until its value changes, dashed. */
function dashed(plot: uPlot, times: number[], values: (number | null)[], colour: string, width: number): void {
  const { ctx } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  ctx.beginPath();
  let before: number | null = null;
  times.forEach((time, index) => {
    const value = values[index] ?? null;
    const x = plot.valToPos(time, "x", true);
    if (value === null) {
      before = null;
      return;
    }
    const y = plot.valToPos(value, "y", true);
    if (before === null) ctx.moveTo(x, y);
    else {
      ctx.lineTo(x, before);
      ctx.lineTo(x, y);
    }
    before = y;
  });
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.lineWidth = width * devicePixelRatio;
  ctx.strokeStyle = colour;
  ctx.stroke();
  ctx.restore();
}

function drawGaps(plot: uPlot, series: Series, ink: Ink): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const gap of series.gaps) {
    const left = plot.valToPos(Date.parse(gap.from) / 1000, "x", true), right = plot.valToPos(Date.parse(gap.to) / 1000, "x", true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bbox.top, Math.max(1, right - left), bbox.height);
    ctx.clip();
    ctx.strokeStyle = ink.grid;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    const step = 8 * devicePixelRatio;
    for (let x = left - bbox.height; x < right; x += step) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
  }
  ctx.restore();
}

function drawDenials(plot: uPlot, series: Series, ink: Ink): void {
  const { ctx, bbox } = plot;
  const size = 5 * devicePixelRatio;
  ctx.save();
  ctx.fillStyle = ink.bad;
  ctx.strokeStyle = ink.surface;
  ctx.lineWidth = devicePixelRatio;
  for (const denial of series.denials) {
    const x = plot.valToPos(Date.parse(denial.time) / 1000, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + size * 1.7);
    ctx.closePath();
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

/** The style sheet says how large a chart is. */
export const sizeOf = (element: HTMLElement) => ({ width: element.clientWidth, height: element.clientHeight });

interface Latest extends ChartProps {
  drawn: Drawn;
}

function makeOptions(latest: { current: Latest }, size: { width: number; height: number }, onCursor: (index: number | null) => void): uPlot.Options {
  const ink = readInk();
  const { drawn, stacked, tenantOf } = latest.current;
  const colourOf = (name: string) => colours[lookOf(tenantOf(name))] ?? ink.text;
  const axis: uPlot.Axis = { stroke: ink.text, grid: { stroke: ink.grid, width: 1 }, ticks: { stroke: ink.grid, width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
  // A stack is drawn from the top line down: each covers what is below it, so that the visible rest is its own part.
  const names = stacked ? [...drawn.names].reverse() : drawn.names;
  return {
    ...size, legend: { show: false }, padding: [12, 8, 0, 0],
    scales: { x: { time: true }, y: { range: () => [0, (latest.current.drawn.top || 2 ** 30) * 1.04] } },
    axes: [
      { ...axis, space: 70, values: clockTicks },
      { ...axis, size: 68, space: 36, incrs: sizeSteps, values: (_plot, ticks) => ticks.map((tick) => formatSize(tick).replace(/\.0+ /, " ")) },
    ],
    series: [
      {},
      ...names.map((name): uPlot.Series => ({
        label: name, width: stacked ? 1 : 2, stroke: colourOf(name), points: { show: false }, spanGaps: false,
        ...(stacked ? { fill: (plot: uPlot) => canvasFill(plot.ctx, lookOf(tenantOf(name)), devicePixelRatio) } : {}),
      })),
    ],
    cursor: { sync: { key: "ration" }, drag: { x: Boolean(latest.current.onZoom), y: false, setScale: false }, points: { show: false } },
    hooks: {
      drawClear: [(plot) => drawGaps(plot, latest.current.series, readInk())],
      draw: [
        (plot) => {
          const now = latest.current;
          const paint = readInk();
          if (now.stacked) dashed(plot, now.drawn.times, now.drawn.limitSum, paint.text, 1.5);
          else now.drawn.limits.forEach((limit) => dashed(plot, now.drawn.times, limit.values, colours[lookOf(now.tenantOf(limit.name))] ?? paint.text, 1.5));
          now.levels?.forEach((level) => dashed(plot, now.drawn.times, levelAt(level, now.drawn.times), paint.text, 1));
          drawDenials(plot, now.series, paint);
        },
      ],
      setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          const { left, width: chosen } = plot.select;
          if (chosen < 4) return;
          const from = plot.posToVal(left, "x"), to = plot.posToVal(left + chosen, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onZoom?.(new Date(from * 1000), new Date(to * 1000));
        },
      ],
    },
  };
}

const dataOf = (drawn: Drawn, stacked: boolean): uPlot.AlignedData => [drawn.times, ...(stacked ? [...drawn.stacked].reverse() : drawn.values)];

function Canvas(props: Latest) {
  const { dark } = usePreferences();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef<Latest>(props);
  latest.current = props;
  const [index, setIndex] = useState<number | null>(null);
  const shape = `${props.drawn.names.join("\n")}|${props.stacked}|${dark}`;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot(makeOptions(latest, sizeOf(element), setIndex), dataOf(latest.current.drawn, latest.current.stacked), element);
    plot.current = made;
    const observer = new ResizeObserver(() => element.clientWidth > 0 && made.setSize(sizeOf(element)));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf(props.drawn, props.stacked)), [props.series, props.which, props.levels?.[0]?.bytes]);
  const { drawn } = props;
  const at = index ?? drawn.lastKnown;
  const time = drawn.times[at];
  const total = drawn.stacked[drawn.stacked.length - 1]?.[at];
  return (
    <>
      <div ref={box} class="chart" role="img" aria-label={`${props.title}. ${t("chart.tableHint")}`} />
      <ul class="legend readout">
        <li class="readout-time">{time === undefined ? "" : stamp(time)}</li>
        {drawn.names.map((name, line) => (
          <li key={name}>
            <i class={`swatch ${props.stacked ? "" : "line"} look-${lookOf(props.tenantOf(name))}`} aria-hidden="true" />
            <span>{name}</span><span class="legend-size"><Amount bytes={drawn.values[line]?.[at]} na={t("chart.nothingRecorded")} /></span>
          </li>
        ))}
        {props.stacked && drawn.names.length > 1 && <li><span class="faint">{t("chart.total")}</span><span class="legend-size"><Amount bytes={total} na={t("chart.nothingRecorded")} /></span></li>}
        {drawn.limits.length > 0 && <li><i class="swatch dashes" aria-hidden="true" /><span class="faint">{props.stacked ? t("chart.limitSum") : t("column.limit")}</span></li>}
        {props.levels?.map((level) => <li key={level.label}><i class="swatch dashes thin" aria-hidden="true" /><span class="faint">{level.label}</span><span class="legend-size"><Amount bytes={level.bytes} /></span></li>)}
        {props.series.denials.length > 0 && <li><span class="mark-denied" aria-hidden="true">▼</span><span class="faint">{t("chart.denials", { count: props.series.denials.length })}</span></li>}
        {props.series.gaps.length > 0 && <li><i class="swatch part-gap" aria-hidden="true" /><span class="faint">{t("chart.gap")}</span></li>}
      </ul>
    </>
  );
}

const stamp = (seconds: number): string => {
  const iso = new Date(seconds * 1000).toISOString();
  return `${formatDay(iso)} ${formatClock(iso)}`;
};

/** Chart or table, and the same numbers for other programs. */
export function ChartTools(props: ChartProps) {
  const csv = () => {
    const drawn = prepare(props.series, props.which);
    return toCsv(["time", ...drawn.names.map((name) => `${name}_bytes`)], drawn.times.map((time, index) => [new Date(time * 1000).toISOString(), ...drawn.values.map((line) => line[index])]));
  };
  return (
    <>
      <Choices label={t("chart.view")} name="view" value={props.table ? "table" : "chart"}
        choices={[{ value: "chart", label: t("chart.asChart") }, { value: "table", label: t("chart.asTable") }]}
        onChange={(value) => setQuery({ as: value === "table" ? "table" : null })} />
      <CopyMenu name={props.title} csv={csv} json={() => props.series} cli={props.cli} />
    </>
  );
}

export function Chart(props: ChartProps) {
  const drawn = prepare(props.series, props.which);
  if (drawn.times.length === 0 || drawn.names.length === 0) return <p class="empty">{t("chart.empty")}</p>;
  if (!props.table) return <Canvas {...props} drawn={drawn} />;
  const rows = asRows(drawn, 60);
  const columns: Column<(typeof rows)[number]>[] = [
    { id: "time", head: t("event.time"), value: (row) => stamp(row.time), header: true },
    ...drawn.names.map((name, line) => ({
      id: name, head: name, numeric: true, value: (row: (typeof rows)[number]) => row.values[line],
      cell: (row: (typeof rows)[number]) => <Amount bytes={row.values[line]} na={t("chart.nothingRecorded")} />,
    })),
  ];
  return <div class="chart-table"><DataTable name="series" caption={props.title} columns={columns} rows={rows} keyOf={(row) => String(row.time)} /></div>;
}

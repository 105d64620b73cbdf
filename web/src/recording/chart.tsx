// What a recording held over its time: one line, or those of two runs over the same axis.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colours } from "../logic/palette";
import { formatSize } from "../logic/format";
import { formatMoment } from "../logic/recording";
import { usePreferences } from "../state/preferences";
import { readInk, sizeOf, sizeSteps } from "../ui/chart";
import { Amount } from "../ui/basics";

export interface ChartLine {
  name: string;
  look: number;
  /** Seconds, and bytes that hold until the next time. */
  times: number[];
  bytes: (number | null)[];
}

export interface RecordingChartProps {
  title: string;
  /** Lower than the chart that a page is about. */
  low?: boolean;
  from: number;
  to: number;
  lines: ChartLine[];
  limit: number | null;
  denials: number[];
  marks: { seconds: number; text: string }[];
  /** The moment that the rest of the page describes. */
  chosen: number | null;
  onZoom?: (from: number, to: number) => void;
  onChoose?: (at: number) => void;
}

/** All lines over the times of all of them. */
function aligned(lines: ChartLine[]): uPlot.AlignedData {
  const tables = lines.map((line): uPlot.AlignedData => [line.times, line.bytes]);
  return tables.length === 0 ? [[], []] : uPlot.join(tables, lines.map(() => [2]));
}

function drawMarks(plot: uPlot, props: RecordingChartProps): void {
  const { ctx, bbox } = plot, ink = readInk(), ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 4 * ratio, bbox.width, bbox.height + 4 * ratio);
  ctx.clip();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  let free = -Infinity;
  for (const mark of props.marks) {
    const x = plot.valToPos(mark.seconds, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width || x < free - 60 * ratio) continue;
    ctx.strokeStyle = ink.grid;
    ctx.lineWidth = ratio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (x < free) continue;
    const text = mark.text.length > 24 ? `${mark.text.slice(0, 23)}…` : mark.text;
    ctx.fillStyle = ink.text;
    ctx.fillText(text, x + 3 * ratio, bbox.top + 2 * ratio);
    free = x + ctx.measureText(text).width + 14 * ratio;
  }
  if (props.limit !== null) {
    const y = plot.valToPos(props.limit, "y", true);
    ctx.strokeStyle = ink.text;
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  ctx.fillStyle = ink.bad;
  for (const seconds of props.denials) {
    const x = plot.valToPos(seconds, "x", true), size = 5 * ratio;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + size * 1.7);
    ctx.closePath();
    ctx.fill();
  }
  if (props.chosen !== null) {
    const x = plot.valToPos(props.chosen, "x", true);
    ctx.strokeStyle = colours[5];
    ctx.lineWidth = 2 * ratio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function makeOptions(latest: { current: RecordingChartProps }, size: { width: number; height: number }): uPlot.Options {
  const ink = readInk(), { lines, from, to } = latest.current;
  const axis: uPlot.Axis = { stroke: ink.text, grid: { stroke: ink.grid, width: 1 }, ticks: { stroke: ink.grid, width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const top = () => Math.max(2 ** 20, latest.current.limit ?? 0, ...latest.current.lines.flatMap((line) => line.bytes.map((bytes) => bytes ?? 0))) * 1.04;
  return {
    ...size, legend: { show: false }, padding: [12, 12, 0, 0],
    scales: { x: { time: false, range: () => [latest.current.from, latest.current.to] }, y: { range: () => [0, top()] } },
    axes: [
      { ...axis, space: 80, values: (_plot, ticks) => ticks.map((tick) => formatMoment(tick, to - from)) },
      { ...axis, size: 68, space: 36, incrs: sizeSteps, values: (_plot, ticks) => ticks.map((tick) => formatSize(tick).replace(/\.0+ /, " ")) },
    ],
    series: [
      {},
      ...lines.map((line): uPlot.Series => ({
        label: line.name, width: 1.5, stroke: colours[line.look] ?? ink.text, points: { show: false }, spanGaps: true, ...(stepped ? { paths: stepped } : {}),
        ...(lines.length === 1 ? { fill: `${colours[line.look]}33` } : {}),
      })),
    ],
    cursor: { drag: { x: Boolean(latest.current.onZoom), y: false, setScale: false }, points: { show: false } },
    hooks: {
      draw: [(plot) => drawMarks(plot, latest.current)],
      setSelect: [
        (plot) => {
          const { left, width: chosen } = plot.select;
          if (chosen < 4) return;
          const begin = plot.posToVal(left, "x"), end = plot.posToVal(left + chosen, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onZoom?.(begin, end);
        },
      ],
    },
  };
}

export function RecordingChart(props: RecordingChartProps) {
  const { dark } = usePreferences();
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  const plot = useRef<uPlot | null>(null);
  latest.current = props;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot(makeOptions(latest, sizeOf(element)), aligned(latest.current.lines), element);
    plot.current = made;
    let pressed = 0;
    made.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
    made.over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - pressed) < 4) latest.current.onChoose?.(made.posToVal(event.clientX - made.over.getBoundingClientRect().left, "x"));
    });
    const observer = new ResizeObserver(() => element.clientWidth > 0 && made.setSize(sizeOf(element)));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [dark, props.lines.map((line) => line.name).join("\n"), props.from, props.to]);
  useEffect(() => plot.current?.setData(aligned(props.lines)), [props.lines]);
  useEffect(() => plot.current?.redraw(), [props.chosen, props.marks, props.denials]);
  return (
    <>
      <div ref={box} class={props.low ? "recording-chart low" : "recording-chart"} role="img" aria-label={props.title} />
      <ul class="legend readout">
        {props.lines.map((line) => <li key={line.name}><i class={`swatch line look-${line.look}`} aria-hidden="true" /><span>{line.name}</span><span class="legend-size"><Amount bytes={Math.max(0, ...line.bytes.map((bytes) => bytes ?? 0))} /></span></li>)}
      </ul>
    </>
  );
}

// A recording: what it held over time, what it consisted of at a moment, where that lay, and what is strange about it. One page for the
// dashboard and for the HTML file; where its numbers come from is the source's matter.

import { useEffect, useState } from "preact/hooks";
import type { ListedEvent, MomentPlace, RecordingChange, RecordingDocument, RecordingMoment, RecordingUsage } from "../api/recording";
import { shellWord } from "../logic/export";
import { formatCount, formatSize } from "../logic/format";
import { callsOf, fixedUses, flameOf, formatMoment, placeKey, processName } from "../logic/recording";
import { t, type Key } from "../text";
import { Amount, Badge, Choices, Command, Panel } from "../ui/basics";
import { describe } from "../ui/events";
import { DataTable, TableCopy, type Column } from "../ui/table";
import { RecordingChart, type ChartLine } from "./chart";
import { FlameGraph } from "./flame";
import { AddressMap } from "./map";
import type { RecordingSource } from "./source";

/** What is looked at; the dashboard keeps it in the address. */
export interface Looked {
  from: number | null;
  to: number | null;
  at: number | null;
  gpu: string | null;
  with: string | null;
}

interface Answer<Data> {
  data: Data | null;
  problem: string | null;
}

/** What `ask` answers, asked again when `key` changes. The answer before stays until then. */
function useAnswer<Data>(key: string | null, ask: () => Promise<Data>): Answer<Data> {
  const [answer, setAnswer] = useState<Answer<Data>>({ data: null, problem: null });
  useEffect(() => {
    if (key === null) {
      setAnswer({ data: null, problem: null });
      return undefined;
    }
    let current = true;
    ask().then((data) => current && setAnswer({ data, problem: null })).catch((cause: unknown) => current && setAnswer((before) => ({ ...before, problem: describe(cause) })));
    return () => { current = false; };
  }, [key]);
  return answer;
}

const useText = (use: string): string => t(`recording.use.${use.replace(" ", "_")}` as Key);
const siteText = (site: string | undefined): string => callsOf(site).reverse().slice(0, 3).join(" ← ");

/** The innermost call; the others are in the title. */
const Site = ({ site }: { site: string | undefined }) => <span class="site" title={site}>{siteText(site)}</span>;

function Figures({ document: { inspection, deep, booked }, source }: { document: RecordingDocument; source: RecordingSource }) {
  const figure = (name: string, value: preact.ComponentChildren) => <div class="figure" key={name}><span class="faint">{name}</span><strong>{value}</strong></div>;
  return (
    <div class="workload-head">
      <div class="figures">
        {inspection.held.map((held) => figure(held.gpu === null ? t("recording.peakHost") : t("recording.peakOf", { gpu: held.gpu }), <Amount bytes={held.bytes} />))}
        {figure(t("recording.length"), formatMoment(inspection.seconds))}
        {figure(t("recording.events"), <data value={String(inspection.events)}>{formatCount(inspection.events)}</data>)}
        {figure(t("recording.processes"), inspection.processes.filter((process) => process.pid !== 0).length)}
        {figure(t("column.denied"), <span class={inspection.denial_count > 0 ? "denied" : ""}>{inspection.denial_count}</span>)}
      </div>
      <p class="faint">
        {[inspection.workload, inspection.began, deep ? t("recording.deep") : booked ? t("recording.driverOnly") : t("recording.imported")].filter(Boolean).join(" · ")}{" "}
        {!inspection.complete && <Badge tone="warn">{inspection.lost > 0 ? t("recording.lost", { count: inspection.lost }) : t("recording.notEnded")}</Badge>}
      </p>
      <Command line={`ration inspect ${shellWord(source.file)}`} />
    </div>
  );
}

function linesOf(source: RecordingSource, document: RecordingDocument, gpu: number | null, look: number): ChartLine[] {
  const { window } = document, line = window.lines.find((one) => one.gpu === gpu);
  if (!line) return [];
  const times = line.most_bytes.map((_, index) => window.from_seconds + index * window.step_seconds);
  const last = line.most_bytes[line.most_bytes.length - 1] ?? 0;
  return [{ name: source.name, look, times: [...times, window.to_seconds], bytes: [...line.most_bytes, last] }];
}

function RangeButtons({ looked, change, length }: { looked: Looked; change: (part: Partial<Looked>) => void; length: number }) {
  const from = looked.from ?? 0, to = looked.to ?? length, whole = looked.from === null && looked.to === null;
  const move = (shift: number, scale: number) => {
    const half = ((to - from) * scale) / 2, middle = (from + to) / 2 + shift * (to - from);
    const begin = Math.max(0, Math.min(middle - half, length - 2 * half));
    if (2 * half >= length) change({ from: null, to: null });
    else change({ from: begin, to: begin + 2 * half });
  };
  return (
    <div class="buttons">
      <button type="button" class="quiet" onClick={() => move(-0.5, 1)} aria-label={t("timeline.earlier")}>◀</button>
      <button type="button" class="quiet" onClick={() => move(0.5, 1)} aria-label={t("timeline.later")}>▶</button>
      <button type="button" class="quiet" onClick={() => move(0, 0.25)} aria-label={t("timeline.closer")}>+</button>
      <button type="button" class="quiet" onClick={() => move(0, 4)} aria-label={t("timeline.wider")}>−</button>
      {!whole && <button type="button" onClick={() => change({ from: null, to: null })}>{t("recording.whole")}</button>}
    </div>
  );
}

function Events({ document, listed, range }: { document: RecordingDocument; listed: ListedEvent[]; range: number }) {
  const columns: Column<ListedEvent>[] = [
    { id: "seconds", head: t("event.time"), header: true, value: (one) => one.seconds, cell: (one) => formatMoment(one.seconds, range) },
    { id: "kind", head: t("recording.kind"), value: (one) => one.kind },
    { id: "gpu", head: "GPU", value: (one) => placeKey(one.gpu), from: "medium" },
    { id: "process", head: t("recording.process"), value: (one) => processName(document.inspection.processes, one.process), from: "medium" },
    { id: "address", head: t("recording.address"), value: (one) => one.address ?? "" },
    { id: "bytes", head: t("recording.bytes"), numeric: true, value: (one) => one.bytes, cell: (one) => <Amount bytes={one.bytes} /> },
    { id: "charged_bytes", head: t("recording.charged"), numeric: true, value: (one) => one.charged_bytes, cell: (one) => (one.charged_bytes === 0 ? "–" : `${one.charged_bytes < 0 ? "−" : "+"}${formatSize(Math.abs(one.charged_bytes))}`) },
    { id: "held_bytes", head: t("recording.held"), numeric: true, value: (one) => one.held_bytes, cell: (one) => <Amount bytes={one.held_bytes} /> },
    { id: "site", head: t("recording.site"), value: (one) => siteText(document.sites[String(one.site)]), cell: (one) => <Site site={document.sites[String(one.site)]} />, from: "wide" },
  ];
  return <DataTable name="recorded" caption={t("recording.listed")} columns={columns} rows={listed} keyOf={(one) => String(listed.indexOf(one))} />;
}

function Timeline({ source, document, other, looked, change, gpu, at }: {
  source: RecordingSource; document: RecordingDocument; other: { source: RecordingSource; document: RecordingDocument } | null; looked: Looked; change: (part: Partial<Looked>) => void; gpu: number | null; at: number | null;
}) {
  const { inspection, window } = document, length = Math.max(inspection.seconds, other?.document.inspection.seconds ?? 0);
  const from = looked.from ?? 0, to = looked.to ?? Math.max(length, 1e-6);
  const lines = [...linesOf(source, document, gpu, 0), ...(other ? linesOf(other.source, other.document, gpu, 1) : [])];
  const half = 5e-10;  // of a nanosecond: events have whole ones, and numbers of seconds are not exact
  const inRange = (seconds: number) => seconds > from - half && seconds < to + half;
  const denials = inspection.denials.filter((one) => one.gpu === gpu && inRange(one.seconds)).map((one) => one.seconds);
  const listed = window.listed.filter((event) => inRange(event.seconds));
  return (
    <Panel id="held" title={t("recording.timeline")} tools={<RangeButtons looked={looked} change={change} length={length} />}>
      <RecordingChart title={t("recording.timeline")} from={from} to={to} lines={lines} limit={gpu === null ? null : document.devices[gpu]?.limit_bytes ?? null}
        denials={denials} marks={inspection.marks} chosen={at} onZoom={(begin, end) => change({ from: begin, to: end })} onChoose={(moment) => change({ at: moment })} />
      <label class="field wide moment">{t("recording.moment")}
        <input type="range" min={from} max={to} step={(to - from) / 1000} value={at ?? from} aria-valuetext={at === null ? "" : formatMoment(at, to - from)} onChange={(event) => change({ at: Number(event.currentTarget.value) })} />
      </label>
      <p class="faint">
        {t("recording.zoomHint", { step: formatMoment(window.step_seconds) })}{" "}
        {source.deep ? "" : `${t("recording.embedded")} `}
        {window.events === null || listed.length > 0 ? "" : window.events === 0 ? t("recording.noEvents") : t("recording.tooMany", { count: window.events })}
      </p>
      {listed.length > 0 && <details open={looked.from !== null}><summary>{t("recording.listedCount", { count: listed.length })}</summary><div class="chart-table"><Events document={document} listed={listed} range={to - from} /></div></details>}
    </Panel>
  );
}

/** Where the bytes of a place are, in a sentence's worth of figures. */
function Balance({ place }: { place: MomentPlace }) {
  const requested = place.groups.reduce((sum, group) => sum + group.bytes * group.count, place.ungrouped_bytes);
  const fixed = place.parts.filter((part) => fixedUses.has(part.use)).reduce((sum, part) => sum + part.bytes, 0);
  const { holes, blocks, unaddressed_bytes: unaddressed } = place.map;
  const row = (key: Key, bytes: number) => <div class="figure" key={key}><span class="faint">{t(key)}</span><strong><Amount bytes={bytes} /></strong></div>;
  return (
    <div class="figures">
      {row("recording.held", place.bytes)}{row("recording.requested", requested)}{row("recording.fixed", fixed)}{row("recording.unused", Math.max(0, place.bytes - requested - fixed))}
      <div class="figure"><span class="faint">{t("recording.blockCount")}</span><strong>{formatCount(blocks)}</strong></div>
      {row("recording.holesSum", holes.bytes)}{row("recording.largestHole", holes.largest_bytes)}{unaddressed > 0 && row("recording.unaddressed", unaddressed)}
    </div>
  );
}

function Moment({ document, moment, place, chosen, change, title }: { document: RecordingDocument; moment: RecordingMoment; place: MomentPlace; chosen: number | null; change: (part: Partial<Looked>) => void; title: string }) {
  const { processes, held } = document.inspection;
  const [process, setProcess] = useState<number | null>(null);
  const root = flameOf(place, moment, processes, { whole: t("recording.held"), requested: t("recording.requested"), rest: t("recording.unused"), smaller: t("recording.smaller"), beyond: (bytes) => t("recording.beyond", { size: formatSize(bytes) }), use: useText, size: formatSize });
  const mapped = [...new Set(place.map.runs.process)], shown = mapped.find((one) => one === process) ?? mapped[0];
  const peak = held.find((one) => one.gpu === place.gpu)?.bytes ?? 0;
  const parts: Column<MomentPlace["parts"][number]>[] = [
    { id: "use", head: t("recording.useHead"), header: true, value: (part) => useText(part.use) },
    { id: "process", head: t("recording.process"), value: (part) => processName(processes, part.process) },
    { id: "bytes", head: t("explain.bytes"), numeric: true, value: (part) => part.bytes, cell: (part) => <Amount bytes={part.bytes} /> },
  ];
  const sorted = [...place.parts].sort((left, right) => right.bytes - left.bytes);
  return (
    <>
      <Panel id="moment" title={title} tools={chosen !== null && <button type="button" onClick={() => change({ at: null })}>{t("recording.toPeak")}</button>}>
        <Balance place={place} />
        <FlameGraph key={`${place.gpu}`} root={root} label={t("recording.flame")} />
        <DataTable name="parts" caption={t("recording.useHead")} columns={parts} rows={sorted} keyOf={(part) => `${part.use}-${part.process}`} />
      </Panel>
      <Panel id="addresses" title={t("recording.map")} tools={mapped.length > 1 && <Choices label={t("recording.process")} name="process" value={String(shown)} choices={mapped.map((one) => ({ value: String(one), label: processName(processes, one) }))} onChange={(value) => setProcess(Number(value))} />}>
        {shown === undefined ? <p class="empty">{t("recording.noBlocks")}</p> : <AddressMap place={place} moment={moment} process={shown} longest={peak} />}
        <p class="faint">{t("recording.addressNote")}</p>
      </Panel>
    </>
  );
}

function Usage({ usage, gpu, length, at, change }: { usage: RecordingUsage; gpu: number | null; length: number; at: number | null; change: (part: Partial<Looked>) => void }) {
  const line = usage.lines.find((one) => one.gpu === gpu);
  if (!line) return null;
  const of = (key: Key, look: number, bytes: number[]): ChartLine => ({ name: t(key), look, times: usage.seconds, bytes });
  const useful = line.requested_bytes.map((bytes, index) => bytes + (line.fixed_bytes[index] ?? 0));
  const lines = [of("recording.held", 0, line.held_bytes), of("recording.ofUse", 2, useful), of("recording.holesSum", 1, line.holes_bytes), of("recording.largestHole", 5, line.largest_hole_bytes)];
  const first = usage.seconds[0] ?? 0, last = usage.seconds[usage.seconds.length - 1] ?? length;
  return (
    <Panel id="usage" title={t("recording.fragmentation")}>
      <RecordingChart title={t("recording.fragmentation")} low from={Math.min(first, last)} to={Math.max(last, first + 1e-6)} lines={lines} limit={null} denials={[]} marks={[]} chosen={at} onChoose={(moment) => change({ at: moment })} />
      <p class="faint">{t("recording.usageNote", { count: usage.seconds.length })}</p>
    </Panel>
  );
}

function Findings({ document, change }: { document: RecordingDocument; change: (part: Partial<Looked>) => void }) {
  const { inspection } = document, { processes } = inspection;
  type Leak = typeof inspection.never_freed[number];
  type Denied = typeof inspection.denials[number];
  type Size = typeof inspection.sizes[number];
  type Asked = typeof inspection.asked[number];
  const range = Math.max(1e-6, inspection.seconds);
  const leaks: Column<Leak>[] = [
    { id: "total_bytes", head: t("explain.bytes"), numeric: true, header: true, value: (one) => one.total_bytes, cell: (one) => <Amount bytes={one.total_bytes} /> },
    { id: "count", head: t("recording.blockCount"), value: (one) => `${one.count} × ${formatSize(one.bytes)}`, cell: (one) => <span class="amount">{one.count} × {formatSize(one.bytes)}</span> },
    { id: "process", head: t("recording.process"), value: (one) => processName(processes, one.process), from: "medium" },
    { id: "spans", head: t("recording.leak"), value: (one) => (one.count > 2 && one.spans > 2 ? t("recording.leakLikely", { count: one.spans }) : "") },
    { id: "site", head: t("recording.site"), value: (one) => siteText(one.site), cell: (one) => <Site site={one.site} />, from: "medium" },
  ];
  const denials: Column<Denied>[] = [
    { id: "seconds", head: t("event.time"), header: true, value: (one) => one.seconds, cell: (one) => <button type="button" class="quiet" onClick={() => change({ at: one.seconds, gpu: placeKey(one.gpu) })}>{formatMoment(one.seconds, range)}</button> },
    { id: "bytes", head: t("recording.bytes"), numeric: true, value: (one) => one.bytes, cell: (one) => <Amount bytes={one.bytes} /> },
    { id: "held_bytes", head: t("recording.held"), numeric: true, value: (one) => one.held_bytes, cell: (one) => <Amount bytes={one.held_bytes} /> },
    { id: "by", head: t("event.by"), value: (one) => (one.by === "driver" ? t("recording.driverError", { number: one.number }) : t("recording.denial", { number: one.number })) },
    { id: "site", head: t("recording.site"), value: (one) => siteText(one.site), cell: (one) => <Site site={one.site} />, from: "medium" },
  ];
  const sizes: Column<Size>[] = [
    { id: "upto_bytes", head: t("recording.upTo"), header: true, value: (one) => one.upto_bytes, cell: (one) => formatSize(one.upto_bytes) },
    { id: "count", head: t("recording.blockCount"), numeric: true, value: (one) => one.count, cell: (one) => formatCount(one.count) },
    { id: "total_bytes", head: t("explain.total"), numeric: true, value: (one) => one.total_bytes, cell: (one) => <Amount bytes={one.total_bytes} /> },
    { id: "middle_lifetime_seconds", head: t("recording.lived"), numeric: true, value: (one) => one.middle_lifetime_seconds, cell: (one) => (one.freed === 0 ? t("recording.noneFreed") : formatMoment(one.middle_lifetime_seconds)) },
  ];
  const asked: Column<Asked>[] = [
    { id: "function", head: t("recording.function"), header: true, value: (one) => one.function },
    { id: "times", head: t("event.count"), numeric: true, value: (one) => one.times },
    { id: "least_bytes", head: t("recording.answers"), value: (one) => (one.least_bytes === one.most_bytes ? formatSize(one.least_bytes) : `${formatSize(one.least_bytes)} – ${formatSize(one.most_bytes)}`) },
    { id: "process", head: t("recording.process"), value: (one) => processName(processes, one.process) },
  ];
  const key = (row: object) => JSON.stringify(row);
  return (
    <div class="split even">
      {inspection.denials.length > 0 && <Panel id="denials" title={t("workload.denials")}><div class="chart-table"><DataTable name="denials" caption={t("workload.denials")} columns={denials} rows={inspection.denials} keyOf={key} /></div></Panel>}
      <Panel id="never-freed" title={t("recording.neverFreed")}>{inspection.never_freed.length > 0 ? <div class="chart-table"><DataTable name="never-freed" caption={t("recording.neverFreed")} columns={leaks} rows={inspection.never_freed} keyOf={key} /></div> : <p class="empty">{t("recording.allFreed")}</p>}</Panel>
      <Panel id="sizes" title={t("recording.sizes")}><DataTable name="sizes" caption={t("recording.sizes")} columns={sizes} rows={inspection.sizes} keyOf={key} /></Panel>
      {inspection.asked.length > 0 && <Panel id="asked" title={t("recording.asked")}><DataTable name="asked" caption={t("recording.asked")} columns={asked} rows={inspection.asked} keyOf={key} /></Panel>}
    </div>
  );
}

function Changes({ changes, names, cli }: { changes: RecordingChange[]; names: [string, string]; cli: string }) {
  const counts = (one: RecordingChange) => one.what === "events" || one.what === "denied";
  const amount = (one: RecordingChange, of: { bytes: number; count: number }) => (counts(one) ? formatCount(of.count) : formatSize(Math.max(0, of.bytes)));
  const more = (one: RecordingChange) => (counts(one) ? one.after.count - one.before.count : one.after.bytes - one.before.bytes);
  const columns: Column<RecordingChange>[] = [
    { id: "what", head: t("recording.what"), header: true, value: (one) => t(`recording.change.${one.what.replace(" ", "_")}` as Key) },
    { id: "gpu", head: "GPU", value: (one) => (one.gpu === undefined ? "–" : placeKey(one.gpu)) },
    { id: "of", head: t("recording.of"), value: (one) => [one.what === "use" ? useText(one.name) : one.name, one.block_bytes ? `${one.before.count} → ${one.after.count} × ${formatSize(one.block_bytes)}` : ""].filter(Boolean).join(" · ") || "–" },
    { id: "before", head: names[0], numeric: true, value: (one) => (counts(one) ? one.before.count : one.before.bytes), cell: (one) => <span class="amount">{amount(one, one.before)}</span> },
    { id: "after", head: names[1], numeric: true, value: (one) => (counts(one) ? one.after.count : one.after.bytes), cell: (one) => <span class="amount">{amount(one, one.after)}</span> },
    { id: "change", head: t("event.change"), numeric: true, value: more, cell: (one) => <span class="amount">{more(one) === 0 ? "–" : `${more(one) < 0 ? "−" : "+"}${counts(one) ? formatCount(Math.abs(more(one))) : formatSize(Math.abs(more(one)))}`}</span> },
  ];
  return (
    <Panel id="changes" title={t("recording.changes")} tools={<TableCopy name={t("recording.changes")} columns={columns} rows={changes} cli={cli} />}>
      <DataTable name="changes" caption={t("recording.changes")} columns={columns} rows={changes} keyOf={(one) => String(changes.indexOf(one))} />
    </Panel>
  );
}

export function RecordingView({ source, looked, change }: { source: RecordingSource; looked: Looked; change: (part: Partial<Looked>) => void }) {
  const range = { from: looked.from, to: looked.to }, rangeKey = `${source.name}|${looked.from}|${looked.to}`;
  const view = useAnswer(rangeKey, () => source.view(range));
  const moment = useAnswer(`${source.name}|${looked.at}`, () => source.moment(looked.at));
  const usage = useAnswer(rangeKey, () => source.usage(range));
  const others = useAnswer(source.name, () => source.others());
  const otherSource = looked.with && others.data?.includes(looked.with) ? source.other(looked.with) : null;
  const other = useAnswer(otherSource && `${rangeKey}|${otherSource.name}`, () => (otherSource ?? source).view(range));
  const changes = useAnswer(otherSource && `${source.name}|${otherSource.name}`, () => source.changes(otherSource?.name ?? ""));
  const document = view.data;
  if (!document) return view.problem ? <p class="notice bad">{view.problem}</p> : <p class="empty">{t("loading")}</p>;
  const { held, seconds } = document.inspection;
  const shown = held.find((one) => placeKey(one.gpu) === looked.gpu) ?? [...held].sort((left, right) => right.bytes - left.bytes)[0];
  if (!shown) return <><Figures document={document} source={source} /><p class="empty">{t("recording.nothingHeld")}</p></>;
  const place = moment.data?.places.find((one) => one.gpu === shown.gpu) ?? null;
  const at = place?.seconds ?? looked.at;
  const mark = moment.data?.at_peak && shown.mark ? ` · ${t("recording.afterMark", { mark: shown.mark })}` : "";
  const ranges = moment.data?.at_peak ? shown.ranges.map((each) => each.names.join(" › ")).join("; ") : "";
  const inside = ranges === "" ? "" : ` · ${t("recording.inside", { ranges })}`;
  const title = `${t(moment.data?.at_peak ? "recording.atPeak" : "recording.atMoment", { time: formatMoment(at ?? 0, seconds) })}${mark}${inside}`;
  return (
    <>
      <Figures document={document} source={source} />
      <div class="controls">
        {held.length > 1 && <Choices label={t("recording.place")} name="place" value={placeKey(shown.gpu)} choices={held.map((one) => ({ value: placeKey(one.gpu), label: one.gpu === null ? t("recording.host") : `GPU ${one.gpu}` }))} onChange={(gpu) => change({ gpu })} />}
        {(others.data?.length ?? 0) > 0 && (
          <label class="field">{t("recording.compare")}
            <select value={looked.with ?? ""} onChange={(event) => change({ with: event.currentTarget.value || null })}>
              <option value="">–</option>
              {others.data?.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
        )}
      </div>
      {[view, moment, usage, other, changes].map(({ problem }, index) => problem && <p class="notice bad" key={index}>{problem}</p>)}
      <Timeline source={source} document={document} other={otherSource && other.data ? { source: otherSource, document: other.data } : null} looked={looked} change={change} gpu={shown.gpu} at={at} />
      {otherSource && changes.data && <Changes changes={changes.data} names={[source.name, otherSource.name]} cli={`ration inspect ${shellWord(source.file)} --diff ${shellWord(otherSource.file)}`} />}
      {place && moment.data ? <Moment document={document} moment={moment.data} place={place} chosen={looked.at} change={change} title={title} /> : moment.data && <p class="empty">{t("recording.nothingHeld")}</p>}
      {usage.data && <Usage usage={usage.data} gpu={shown.gpu} length={seconds} at={at} change={change} />}
      <Findings document={document} change={change} />
    </>
  );
}

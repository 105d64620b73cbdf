import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { withQuery } from "../api/client";
import type { Explained, ExplainRow, NodeEvent, Series, WorkloadRow } from "../api/types";
import { formatPercent } from "../logic/format";
import { shareOf } from "../logic/workloads";
import { isOperator, rowsOf, useStore } from "../state/store";
import { workloadPath, type View } from "../state/route";
import { fieldText, t } from "../text";
import { saidIn } from "../text/message";
import { Actions, OnTheMachine } from "../ui/actions";
import { Amount, Badge, Empty, Link, Meter, NotKnown, Panel, Span, Swatch, Time } from "../ui/basics";
import { Chart, ChartTools, type ChartProps } from "../ui/chart";
import { EventLines } from "../ui/events";
import { LimitForm } from "../ui/limit_form";
import { useLoaded, useSeries } from "../ui/load";
import { DataTable, TableCopy, type Column } from "../ui/table";
import { heldBackText, Pinned, StateBadge } from "../ui/workload_table";
import { lookOf } from "../logic/palette";
import { RangeTools, rangeOf, refreshMs, zoomTo } from "./timeline";

const sourceOf = (row: ExplainRow): string => fieldText(row, row.source === undefined ? "bytes_na" : "source");

function Explain({ row, name }: { row: WorkloadRow; name: string }) {
  const { data, problem } = useLoaded<Explained[]>(`/api/v1/workloads/${encodeURIComponent(name)}/explain`, 10_000);
  const account = data?.find((one) => one.gpu === row.gpu);
  const rows = account?.rows ?? [], whole = account?.driver_bytes ?? null;
  const columns: Column<ExplainRow>[] = [
    { id: "part", head: t("explain.part"), header: true, value: (one) => fieldText(one, "label") },
    { id: "bytes", head: t("explain.bytes"), numeric: true, value: (one) => one.bytes, cell: (one) => <Amount bytes={one.bytes} na={saidIn(one, "bytes_na")} /> },
    { id: "share", head: "%", numeric: true, value: (one) => (one.bytes === null || !whole ? null : one.bytes / whole), cell: (one) => (one.bytes === null || !whole ? "" : formatPercent(one.bytes / whole)) },
    { id: "source", head: t("explain.source"), value: sourceOf, cell: (one) => <span class="faint">{sourceOf(one)}</span>, from: "medium" },
  ];
  const foot = <tr><th scope="row">{t("explain.total")}</th><td class="number"><Amount bytes={whole} na={saidIn(account, "driver_bytes_na")} /></td><td class="number">{whole ? "100%" : ""}</td><td class="from-medium" /></tr>;
  return (
    <Panel id="explain" title={t("workload.explain")} tools={<TableCopy name={t("workload.explain")} columns={columns} rows={rows} cli={`ration explain ${name}`} />}>
      {problem && <p class="notice bad">{problem}</p>}
      {rows.length > 0 && <DataTable name="explain" caption={t("workload.explain")} columns={columns} rows={rows} keyOf={(one) => one.id} foot={foot} />}
    </Panel>
  );
}

function Head({ row, children }: { row: WorkloadRow; children: ComponentChildren }) {
  const share = shareOf(row);
  const heldBack = heldBackText(row);
  return (
    <div class="workload-head">
      <div class="figures">
        <div class="figure"><span class="faint">{t("column.used")}</span><strong><Amount bytes={row.used_bytes} na={saidIn(row, "used_bytes_na")} /></strong></div>
        <div class="figure"><span class="faint">{t(heldBack ? "column.limitInForce" : "column.limit")}</span><strong><Amount bytes={row.limit_bytes} /></strong></div>
        <div class="figure"><span class="faint">{t("column.guarantee")}</span><strong>{row.guarantee_bytes ? <Amount bytes={row.guarantee_bytes} /> : "–"}</strong></div>
        <div class="figure"><span class="faint">{t("column.peak")}</span><strong><Amount bytes={row.peak_bytes} /></strong></div>
        <div class="figure"><span class="faint">{t("column.pinned")}</span><strong><Pinned row={row} /></strong></div>
        <div class="figure"><span class="faint">{t("column.denied")}</span><strong class={row.denials ? "denied" : ""}>{row.denials ?? 0}</strong></div>
        {children}
      </div>
      {share !== null && <Meter share={share} look={row.tenant ? lookOf(row.tenant) : null} mark={row.guarantee_bytes && row.limit_bytes ? row.guarantee_bytes / row.limit_bytes : null} />}
      {heldBack && <p class="notice warn">{heldBack}</p>}
    </div>
  );
}

function Facts({ row }: { row: WorkloadRow }) {
  return (
    <dl class="facts">
      <dt>{t("column.state")}</dt><dd><StateBadge row={row} />{row.suspended_bytes ? <> <Amount bytes={row.suspended_bytes} /> {t("workload.onHost")}</> : null}</dd>
      <dt>{t("column.tenant")}</dt><dd>{row.tenant ? <><Swatch tenant={row.tenant} /> <Link to={`/tenants?tenant=${encodeURIComponent(row.tenant)}`}>{row.tenant}</Link></> : <NotKnown reason={undefined} />}</dd>
      <dt>{t("column.user")}</dt><dd>{row.user}</dd>
      <dt>GPU</dt><dd>{row.gpu === null ? <NotKnown reason={saidIn(row, "gpu_na")} full /> : <Link to={`/timeline?gpu=${row.gpu}`}>{row.gpu} {row.device}</Link>}{row.slice ? ` · ${t("workload.slice")} ${row.slice}` : ""}</dd>
      <dt>{t("workload.started")}</dt><dd>{row.started ? <Time time={row.started} day /> : <NotKnown reason={undefined} />}</dd>
      <dt>{t("workload.idle")}</dt><dd>{row.idle_seconds === 0 ? "–" : <Span seconds={row.idle_seconds} na={saidIn(row, "idle_seconds_na")} full />}</dd>
      <dt>{t("workload.guard")}</dt><dd>{row.enforced_by ? t(`health.by.${row.enforced_by}`) : <NotKnown reason={undefined} />}</dd>
      <dt>{t("workload.labels")}</dt><dd>{row.labels === null ? <NotKnown reason={saidIn(row, "labels_na")} full /> : row.labels || "–"}</dd>
      <dt>{t("column.command")}</dt><dd>{row.command ? <code>{row.command}</code> : <NotKnown reason={saidIn(row, "command_na")} full />}</dd>
      <dt>{t("workload.processes")}</dt>
      <dd>{row.processes ? row.processes.map((process) => (
        <span class="process" key={process.pid}>pid {process.pid} <Amount bytes={process.used_bytes} />{process.state !== "managed" && <Badge tone="bad">{t(`process.${process.state}`)}</Badge>}</span>
      )) : <NotKnown reason={saidIn(row, "processes_na")} full />}</dd>
    </dl>
  );
}

/** Denials of this workload: what the daemon kept, and what came in since. */
function Denials({ name }: { name: string }) {
  const live = useStore((state) => state.events);
  const { data } = useLoaded<NodeEvent[]>(withQuery("/api/v1/events", { workload: name, type: "denied", limit: 20 }));
  const byId = new Map([...(data ?? []), ...live.filter((event) => event.workload === name && event.type === "denied")].map((event) => [event.id, event]));
  const events = [...byId.values()].sort((left, right) => right.id - left.id);
  return (
    <Panel id="denials" title={t("workload.denials")} tools={<Link to={`/events?workload=${encodeURIComponent(name)}`}>{t("now.allEvents")}</Link>}>
      {events.length > 0 ? <EventLines events={events} oneType most={10} /> : <p class="empty">{t("workload.noDenials")}</p>}
    </Panel>
  );
}

export function Workload({ view }: { view: View }) {
  const snapshot = useStore((state) => state.snapshot);
  const operator = useStore(isOperator);
  const rows = rowsOf(snapshot, view.name);
  const wanted = Number(view.query.get("gpu") ?? Number.NaN);
  const row = rows.find((one) => one.gpu === wanted) ?? rows[0];
  // Before that it may have been another one.
  const resized = useStore((state) => state.events.filter((event) => event.type === "resized" && event.workload === view.name).pop()?.time);
  const range = rangeOf(view.query);
  const { data } = useSeries(row ? { by: "workload", workload: view.name, gpu: row.gpu } : null, range, refreshMs(range.from, range.fixed));
  const proposed = view.query.get("limit");
  useEffect(() => {
    if (proposed !== null) document.getElementById("limit")?.focus();
  }, [view.name, proposed]);
  if (!snapshot) return null;
  if (!row) return <Empty command="ration ps">{t("workload.gone", { name: view.name })}</Empty>;
  const own = (name: string) => name === view.name;
  const limits = data?.limits.filter((limit) => own(limit.name)) ?? [];
  const highest = Math.max(row.limit_bytes ?? 0, ...limits.flatMap((limit) => limit.values.map((value) => value ?? 0)));
  const series = data && { ...data, lines: data.lines.filter((line) => own(line.name)), limits, denials: data.denials.filter((denial) => own(denial.name)), capacity_bytes: highest || data.capacity_bytes };
  const chart = (shown: Series): ChartProps => ({
    title: t("workload.chart"), series: shown, stacked: false, which: "maximum", tenantOf: () => row.tenant ?? "", onZoom: zoomTo, table: view.query.get("as") === "table",
    levels: row.guarantee_bytes ? [{ label: t("column.guarantee"), bytes: row.guarantee_bytes, since: resized ?? row.started }] : [], cli: `ration report --last ${view.name}`,
  });
  return (
    <>
      {rows.length > 1 && <nav class="tabs" aria-label="GPU">{rows.map((one) => <Link key={one.gpu} to={`${workloadPath(view.name)}?gpu=${one.gpu}`} current={one === row}>GPU {one.gpu}</Link>)}</nav>}
      <Head row={row}>{operator && <Actions rows={rows} name={view.name} />}</Head>
      <div class="split">
        <Panel id="chart" title={t("workload.chart")} tools={<><RangeTools query={view.query} series={data} />{series && <ChartTools {...chart(series)} />}</>}>
          {series ? <Chart {...chart(series)} /> : <div class="chart-wait" />}
        </Panel>
        <Panel id="facts" title={t("workload.facts")}><Facts row={row} /></Panel>
      </div>
      <div class="split even">
        <Explain row={row} name={view.name} />
        <div>
          <Panel id="set-limit" title={t(operator ? "workload.setLimit" : "workload.change")}>
            {operator ? <LimitForm key={`${view.name}-${row.gpu}`} row={row} device={snapshot.devices.find((device) => device.gpu === row.gpu)} proposed={proposed} /> : <OnTheMachine rows={rows} name={view.name} />}
          </Panel>
          <Denials name={view.name} />
        </div>
      </div>
    </>
  );
}

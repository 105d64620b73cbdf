import { useEffect, useState } from "preact/hooks";
import { requestBlob, withQuery } from "../api/client";
import type { Device, Usage, UsageRow } from "../api/types";
import { reportCommand } from "../logic/export";
import { formatCount, formatDay, formatPercent, gibHours } from "../logic/format";
import { gpuName } from "../logic/workloads";
import { isOperator, useStore } from "../state/store";
import { setQuery, type View } from "../state/route";
import { saidText, t } from "../text";
import { saidIn } from "../text/message";
import { Amount, Badge, Choices, NotKnown, Panel, Swatch, type Reason } from "../ui/basics";
import { describe } from "../ui/events";
import { useLoaded } from "../ui/load";
import { Months } from "../ui/months";
import { DataTable, TableCopy, type Column } from "../ui/table";

/** What the daemon calls a format, how people call it, and how its files end. */
const formats: [string, string, string][] = [
  ["csv", "CSV", "csv"], ["json", "JSON", "json"], ["md", "MD", "md"], ["focus", "FOCUS", "focus.csv"], ["opencost", "OpenCost", "opencost.json"],
];
const windows = ["1h", "24h", "7d", "30d", "thismonth", "lastmonth"];
const groupings = ["tenant", "user", "workload", "label", "gpu", "day"] as const;
const bases = ["used", "limit", "guarantee", "max", "peak"] as const;
const shares = ["none", "even", "weighted"] as const;

/** Notes of the daemon that this page shows in its own form. */
const shownAnyway = new Set(["report.window", "report.adds_up", "report.contradiction", "report.gaps", "report.closed", "report.seal_broken"]);

type Query = Record<"window" | "by" | "basis" | "price" | "share_idle", string>;

function Hours({ exact, na }: { exact: string | null; na?: Reason }) {
  if (exact === null) return <NotKnown reason={na} />;
  return <span class="amount" title={`${exact} byte-seconds`}>{formatCount(gibHours(exact), 1)}</span>;
}

/** `label:team` and back. A label without a key is not yet a question. */
const labelOf = (by: string): string | null => (by.startsWith("label:") ? by.slice(6) : null);

/** Links that save a file; fetched, so that the token goes along. */
function Exports({ query }: { query: Query }) {
  const [problem, setProblem] = useState<string | null>(null);
  const save = async (event: MouseEvent, format: string, ending: string) => {
    event.preventDefault();
    try {
      const url = URL.createObjectURL(await requestBlob(withQuery("/api/v1/reports/usage", { ...query, format })));
      const link = document.createElement("a");
      link.href = url;
      link.download = `ration-usage-${query.window}-by-${query.by.replace(/[^\w.-]/g, "-")}.${ending}`;
      link.click();
      URL.revokeObjectURL(url);
      setProblem(null);
    } catch (cause) {
      setProblem(describe(cause));
    }
  };
  return (
    <span class="exports">
      <span class="faint">{t("reports.export")}</span>
      {formats.map(([format, name, ending]) => <a key={format} href={withQuery("/api/v1/reports/usage", { ...query, format })} onClick={(event) => void save(event, format, ending)}>{name}</a>)}
      {problem && <span class="remark error" role="alert">{problem}</span>}
    </span>
  );
}

/** A text of the URL that is taken over when somebody leaves the field or presses Enter. */
function Typed({ label, value, example, take }: { label: string; value: string; example: string; take: (value: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <form onSubmit={(event) => { event.preventDefault(); take(text.trim()); }}>
      <label class="field">{label}<input value={text} placeholder={example} spellcheck={false} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} onBlur={() => take(text.trim())} /></label>
    </form>
  );
}

function UsageTable({ data, query, sort, devices }: { data: Usage; query: Query; sort: string | null; devices: Device[] }) {
  const capacity = gibHours(data.capacity_byte_seconds);
  const by = labelOf(query.by) === null ? query.by : "label";
  const nameOf = (row: UsageRow) => (row.kind !== "governed" ? `${t(`reports.${row.kind}`)}${row.device === undefined ? "" : `, ${gpuName(row.device, devices)}`}` : by === "gpu" ? gpuName(row.name, devices) : row.name);
  const shared = data.rows.some((row) => row.shared_idle_byte_seconds !== undefined);
  const pinned = data.rows.some((row) => row.host_peak_bytes);
  const head = by === "label" ? `${t("reports.by.label")} ${labelOf(query.by)}` : t(`reports.by.${by as "tenant"}`);
  const columns: Column<UsageRow>[] = [
    { id: "name", head, header: true, value: (row) => row.name, cell: (row) => <span class="workload">{row.kind !== "governed" ? <i class={`swatch part-${row.kind === "idle" ? "free" : row.kind}`} aria-hidden="true" /> : by === "tenant" && <Swatch tenant={row.name} />}{nameOf(row)}</span> },
    { id: "used", head: t("reports.used"), numeric: true, value: (row) => (row.used_byte_seconds === null ? null : gibHours(row.used_byte_seconds)), cell: (row) => <Hours exact={row.used_byte_seconds} na={saidIn(row, "used_byte_seconds_na")} />, from: "medium" },
    { id: "limit", head: t("reports.limit"), numeric: true, value: (row) => (row.limit_byte_seconds === null ? null : gibHours(row.limit_byte_seconds)), cell: (row) => (row.kind === "governed" ? <Hours exact={row.limit_byte_seconds} na={saidIn(row, "limit_byte_seconds_na")} /> : null), from: "medium" },
    ...(shared ? [{ id: "shared", head: t("reports.sharedIdle"), numeric: true, value: (row: UsageRow) => (row.shared_idle_byte_seconds === undefined ? null : gibHours(row.shared_idle_byte_seconds)), cell: (row: UsageRow) => (row.shared_idle_byte_seconds === undefined ? "" : <Hours exact={row.shared_idle_byte_seconds} />), from: "medium" as const }] : []),
    { id: "charged", head: t("reports.charged"), numeric: true, value: (row) => row.charged_gib_hours, cell: (row) => <strong><Hours exact={row.charged_byte_seconds} /></strong> },
    { id: "share", head: "%", numeric: true, value: (row) => (capacity ? row.charged_gib_hours / capacity : null), cell: (row) => (capacity ? `${((row.charged_gib_hours / capacity) * 100).toFixed(1)}%` : "") },
    { id: "peak", head: t("column.peak"), numeric: true, value: (row) => row.peak_bytes, cell: (row) => (row.peak_bytes === null ? null : <Amount bytes={row.peak_bytes} />), from: "wide" },
    { id: "efficiency", head: t("reports.efficiency"), numeric: true, value: (row) => row.efficiency, cell: (row) => (row.efficiency === null ? null : formatPercent(row.efficiency)), from: "medium" },
    ...(pinned ? [
      { id: "pinned", head: t("column.pinned"), numeric: true, value: (row: UsageRow) => (row.host_used_byte_seconds === null ? null : gibHours(row.host_used_byte_seconds)), cell: (row: UsageRow) => (row.kind === "governed" ? <Hours exact={row.host_used_byte_seconds} na={saidIn(row, "host_used_byte_seconds_na")} /> : null), from: "wide" as const },
      { id: "pinnedPeak", head: t("reports.pinnedPeak"), numeric: true, value: (row: UsageRow) => row.host_peak_bytes, cell: (row: UsageRow) => (row.kind === "governed" ? <Amount bytes={row.host_peak_bytes} na={saidIn(row, "host_peak_bytes_na")} /> : null), from: "wide" as const },
    ] : []),
    { id: "denied", head: t("column.denied"), numeric: true, value: (row) => row.denials, from: "wide" },
    { id: "cost", head: `${t("reports.cost")} ${data.currency}`, numeric: true, value: (row) => row.cost, cell: (row) => (row.cost === null ? <NotKnown reason={saidIn(row, "cost_na")} /> : formatCount(row.cost, 2)) },
  ];
  const sums: Record<string, preact.ComponentChildren> = {
    charged: <strong><Hours exact={data.sum_byte_seconds} /></strong>,
    share: capacity ? `${((gibHours(data.sum_byte_seconds) / capacity) * 100).toFixed(1)}%` : "",
    cost: data.cost === undefined ? "" : formatCount(data.cost, 2),
  };
  const foot = (
    <tr>
      {columns.map((column) => (column.id === "name" ? <th key="name" scope="row">{t("reports.sum")}</th>
        : <td key={column.id} class={`${column.numeric ? "number" : ""} ${column.from ? `from-${column.from}` : ""}`.trim()}>{sums[column.id] ?? ""}</td>))}
    </tr>
  );
  const basis = data.basis === "max(used,guarantee)" ? "max" : data.basis;
  return (
    <>
      <DataTable name="usage" caption={t("reports.title")} columns={columns} rows={data.rows} keyOf={(row) => `${row.kind}-${row.name}-${row.device ?? ""}`} sort={sort} foot={foot} />
      <div class="report-notes">
        <Badge tone={data.adds_up ? "ok" : "bad"}>{t(data.adds_up ? "reports.addsUp" : "reports.addsUpNot", { capacity: formatCount(capacity, 1) })}</Badge>
        <span class="faint">{formatDay(data.from)} – {formatDay(data.to)} · {t("reports.unit")} · {t(`reports.basisNote.${basis}`)}</span>
        {data.notes.map((text, index) => ({ text, ...data.notes_messages[index] })).filter((note) => !shownAnyway.has(note.message_id ?? ""))
          .map((note) => <span class="faint" key={note.text}>{saidText(note)}</span>)}
        {data.gaps.length > 0 && <span class="faint">{t("reports.gaps", { count: data.gaps.length })}</span>}
        {data.closed && <span class="faint">{t("reports.closed", { period: data.period ?? "", day: formatDay(data.closed), seal: (data.seal ?? "").slice(0, 12) })}</span>}
        {data.seal_intact === false && <Badge tone="bad">{t("reports.sealBroken")}</Badge>}
        <TableCopy name={t("reports.title")} columns={columns} rows={data.rows} cli={reportCommand(query)} />
      </div>
    </>
  );
}

export function Reports({ view }: { view: View }) {
  const operator = useStore(isOperator);
  const devices = useStore((state) => state.snapshot?.devices) ?? [];
  const read = (name: keyof Query, otherwise = "") => view.query.get(name) ?? otherwise;
  const query: Query = { by: read("by", "tenant"), window: read("window", "24h"), basis: read("basis"), price: read("price"), share_idle: read("share_idle") };
  const label = labelOf(query.by);
  const { data, problem } = useLoaded<Usage>(label === "" ? null : withQuery("/api/v1/reports/usage", query), 60_000);
  // What was not chosen is as the daemon is configured; its answer says how.
  const basis = query.basis || (data?.basis === "max(used,guarantee)" ? "max" : data?.basis ?? "");
  const month = windows.includes(query.window) ? [] : [{ value: query.window, label: query.window }];
  return (
    <>
      <div class="controls">
        <Choices label={t("reports.window")} name="window" value={query.window} choices={[...windows.map((value) => ({ value, label: value.endsWith("month") ? t(`reports.${value as "lastmonth"}`) : value })), ...month]} onChange={(value) => setQuery({ window: value === "24h" ? null : value })} />
        <Choices label={t("reports.byLabel")} name="by" value={label === null ? query.by : "label"} choices={groupings.map((value) => ({ value, label: t(`reports.by.${value}`) }))} onChange={(value) => setQuery({ by: value === "tenant" ? null : value === "label" ? "label:" : value })} />
        <Choices label={t("reports.basis")} name="basis" value={basis} choices={bases.map((value) => ({ value, label: t(`reports.basis.${value}`) }))} onChange={(value) => setQuery({ basis: value })} />
      </div>
      <div class="controls">
        <label class="field">{t("reports.share")}
          <select value={query.share_idle} onChange={(event) => setQuery({ share_idle: event.currentTarget.value })}>
            <option value="">{t("reports.asConfigured")}</option>
            {shares.map((value) => <option key={value} value={value}>{t(`reports.share.${value}`)}</option>)}
          </select>
        </label>
        <Typed label={t("reports.price")} value={query.price} example={t("reports.asConfigured")} take={(value) => setQuery({ price: value })} />
        {label !== null && <Typed label={t("reports.labelKey")} value={label} example="team" take={(value) => setQuery({ by: `label:${value}` })} />}
      </div>
      <div class="pair">
        <Panel id="usage" title={t("reports.title")} tools={label !== "" && <Exports query={query} />}>
          {problem && label !== "" && <p class="notice bad">{problem}</p>}
          {label === "" && <p class="empty">{t("reports.labelMissing")}</p>}
          {data && label !== "" && <UsageTable data={data} query={query} sort={view.query.get("sort")} devices={devices} />}
        </Panel>
        <Months operator={operator} />
      </div>
    </>
  );
}

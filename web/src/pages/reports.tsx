import { useState } from "preact/hooks";
import { requestBlob, withQuery } from "../api/client";
import type { Usage, UsageRow } from "../api/types";
import { formatCount, formatDay, formatPercent, gibHours } from "../logic/format";
import { setQuery, type View } from "../state/route";
import { t } from "../text";
import { Amount, Badge, Choices, NotKnown, Panel, Swatch } from "../ui/basics";
import { describe } from "../ui/events";
import { useLoaded } from "../ui/load";
import { DataTable, type Column } from "../ui/table";

const formats = ["csv", "json", "md", "html"] as const;

function Hours({ exact }: { exact: string | null }) {
  if (exact === null) return <NotKnown reason={t("reports.notMeant")} />;
  return <span class="amount" title={`${exact} byte-seconds`}>{formatCount(gibHours(exact), 1)}</span>;
}

function nameOf(row: UsageRow): string {
  return row.kind === "governed" ? row.name : t(`reports.${row.kind}`);
}

/** Links that save a file; fetched, so that the token goes along. */
function Exports({ query }: { query: Record<string, string> }) {
  const [problem, setProblem] = useState<string | null>(null);
  const save = async (event: MouseEvent, format: string) => {
    event.preventDefault();
    try {
      const url = URL.createObjectURL(await requestBlob(withQuery("/api/v1/reports/usage", { ...query, format })));
      const link = document.createElement("a");
      link.href = url;
      link.download = `ration-usage-${query["window"]}-by-${query["by"]}.${format}`;
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
      {formats.map((format) => <a key={format} href={withQuery("/api/v1/reports/usage", { ...query, format })} onClick={(event) => void save(event, format)}>{format.toUpperCase()}</a>)}
      {problem && <span class="remark error" role="alert">{problem}</span>}
    </span>
  );
}

export function Reports({ view }: { view: View }) {
  const by = view.query.get("by") ?? "tenant", basis = view.query.get("basis") ?? "used", window = view.query.get("window") ?? "24h";
  const { data, problem } = useLoaded<Usage>(withQuery("/api/v1/reports/usage", { window, by, basis }), 60_000);
  const money = data?.currency ?? "";
  const capacity = data ? gibHours(data.capacity_byte_seconds) : 0;
  const columns: Column<UsageRow>[] = [
    { id: "name", head: t(`reports.by.${by as "tenant"}`), header: true, value: (row) => row.name, cell: (row) => (row.kind === "governed" ? <span class="workload">{by === "tenant" && <Swatch tenant={row.name} />}{row.name}</span> : <span class="workload"><i class={`swatch part-${row.kind === "idle" ? "free" : row.kind}`} aria-hidden="true" />{nameOf(row)}</span>) },
    { id: "used", head: t("reports.used"), numeric: true, value: (row) => (row.used_byte_seconds === null ? null : gibHours(row.used_byte_seconds)), cell: (row) => <Hours exact={row.used_byte_seconds} />, from: "medium" },
    { id: "limit", head: t("reports.limit"), numeric: true, value: (row) => (row.limit_byte_seconds === null ? null : gibHours(row.limit_byte_seconds)), cell: (row) => (row.kind === "governed" ? <Hours exact={row.limit_byte_seconds} /> : null), from: "medium" },
    { id: "charged", head: t("reports.charged"), numeric: true, value: (row) => row.charged_gib_hours, cell: (row) => <strong><Hours exact={row.charged_byte_seconds} /></strong> },
    { id: "share", head: "%", numeric: true, value: (row) => (row.charged_gib_hours === null || !capacity ? null : row.charged_gib_hours / capacity), cell: (row) => (row.charged_gib_hours === null || !capacity ? "" : `${((row.charged_gib_hours / capacity) * 100).toFixed(1)}%`) },
    { id: "peak", head: t("column.peak"), numeric: true, value: (row) => row.peak_bytes, cell: (row) => (row.peak_bytes === null ? null : <Amount bytes={row.peak_bytes} />), from: "wide" },
    { id: "efficiency", head: t("reports.efficiency"), numeric: true, value: (row) => row.efficiency, cell: (row) => (row.efficiency === null ? null : formatPercent(row.efficiency)), from: "medium" },
    { id: "denied", head: t("column.denied"), numeric: true, value: (row) => row.denials, from: "wide" },
    { id: "cost", head: `${t("reports.cost")}${money ? ` ${money}` : ""}`, numeric: true, value: (row) => row.cost, cell: (row) => (row.cost === null ? "" : formatCount(row.cost, 2)) },
  ];
  const cost = data?.rows.reduce((sum, row) => sum + (row.cost ?? 0), 0) ?? 0;
  const foot = data && (
    <tr>
      {columns.map((column) => {
        const classes = `${column.numeric ? "number" : ""} ${column.from ? `from-${column.from}` : ""}`.trim();
        if (column.id === "name") return <th key="name" scope="row">{t("reports.sum")}</th>;
        return <td key={column.id} class={classes}>{column.id === "charged" ? <strong><Hours exact={data.sum_byte_seconds} /></strong> : column.id === "cost" && data.rows.some((row) => row.cost !== null) ? formatCount(cost, 2) : column.id === "share" && capacity ? `${((gibHours(data.sum_byte_seconds) / capacity) * 100).toFixed(1)}%` : ""}</td>;
      })}
    </tr>
  );
  const choice = (values: string[], label: (value: string) => string) => values.map((value) => ({ value, label: label(value) }));
  return (
    <>
      <div class="controls">
        <Choices label={t("reports.window")} name="window" value={window} choices={choice(["1h", "24h", "7d", "30d", "thismonth", "lastmonth"], (value) => (value.endsWith("month") ? t(`reports.${value as "lastmonth"}`) : value))} onChange={(value) => setQuery({ window: value === "24h" ? null : value })} />
        <Choices label={t("reports.byLabel")} name="by" value={by} choices={choice(["tenant", "user", "gpu", "day"], (value) => t(`reports.by.${value as "tenant"}`))} onChange={(value) => setQuery({ by: value === "tenant" ? null : value })} />
        <Choices label={t("reports.basis")} name="basis" value={basis} choices={choice(["used", "limit", "guarantee", "max"], (value) => t(`reports.basis.${value as "used"}`))} onChange={(value) => setQuery({ basis: value === "used" ? null : value })} />
      </div>
      <Panel id="usage" title={t("reports.title")} tools={<Exports query={{ window, by, basis }} />}>
        {problem && <p class="notice bad">{problem}</p>}
        {data && (
          <>
            <DataTable name="usage" caption={t("reports.title")} columns={columns} rows={data.rows} keyOf={(row) => `${row.kind}-${row.name}`} sort={view.query.get("sort") ?? null} {...(foot ? { foot } : {})} />
            <p class="report-notes">
              <Badge tone={data.adds_up ? "ok" : "bad"}>{data.adds_up ? t("reports.addsUp", { capacity: formatCount(capacity, 1) }) : t("reports.addsUpNot", { capacity: formatCount(capacity, 1) })}</Badge>
              <span class="faint">{formatDay(data.from)} – {formatDay(data.to)} · {t("reports.unit")} · {t(`reports.basisNote.${basis as "used"}`)}</span>
              {data.gaps.length > 0 && <span class="faint">{t("reports.gaps", { count: data.gaps.length })}</span>}
              {data.closed && <span class="faint">{t("reports.closed", { period: data.period ?? "", day: formatDay(data.closed), seal: (data.seal ?? "").slice(0, 12) })}</span>}
            </p>
          </>
        )}
      </Panel>
    </>
  );
}

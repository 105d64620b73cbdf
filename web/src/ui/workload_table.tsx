// The table of workloads: sorted by its heads, narrowed by a filter that the daemon evaluates, both in the URL.

import { useEffect, useRef, useState } from "preact/hooks";
import { withQuery } from "../api/client";
import type { WorkloadRow } from "../api/types";
import { problemOf } from "../logic/filter";
import { formatDuration, formatSize, shortCommand } from "../logic/format";
import { lookOf } from "../logic/palette";
import { nameOf, pidsOf, shareOf } from "../logic/workloads";
import { setQuery, workloadPath } from "../state/route";
import { openDialog } from "../state/store";
import { fieldText, saidText, t } from "../text";
import { saidIn } from "../text/message";
import { Amount, Badge, Link, Meter, NotKnown, Panel, Swatch, Time } from "./basics";
import { useLoaded } from "./load";
import { DataTable, TableCopy, type Column } from "./table";

function WorkloadName({ row }: { row: WorkloadRow }) {
  if (row.workload === null) {
    return (
      <span class="workload">
        <i class="swatch part-ungoverned" aria-hidden="true" />
        <span class="workload-name"><span title={row.workload_na && fieldText(row, "workload_na")}>{nameOf(row)}</span> <span class="faint">pid {pidsOf(row)}</span></span>
      </span>
    );
  }
  return (
    <span class="workload">
      {row.tenant ? <Swatch tenant={row.tenant} /> : null}
      <span class="workload-name"><span class="faint">{row.tenant}/</span><Link to={workloadPath(row.workload)}>{row.workload}</Link></span>
    </span>
  );
}

/** Seconds, as in `ration top`. */
const idleWorthSaying = 300;

export function StateBadge({ row }: { row: WorkloadRow }) {
  if (!row.governed) return <Badge tone="warn" {...(row.workload_na ? { title: fieldText(row, "workload_na") } : {})}>{t(row.governed === null ? "process.unknown" : "state.ungoverned")}</Badge>;
  if (row.book_altered) return <Badge tone="bad" title={fieldText(row, "book_altered")}>{t("state.bookAltered")}</Badge>;
  if (row.state === "waiting" || row.state === "shrinking") return <Badge tone="warn">{t(`state.${row.state}`)}</Badge>;
  if (row.state === "suspended" || row.state === "resuming" || row.state === "ended") return <Badge tone="plain">{t(`state.${row.state}`)}</Badge>;
  if ((shareOf(row) ?? 0) >= 1) return <Badge tone="bad">{t("device.atLimit")}</Badge>;
  if ((row.idle_seconds ?? 0) >= idleWorthSaying) return <Badge tone="plain">{t("state.idleFor", { time: formatDuration(row.idle_seconds ?? 0) })}</Badge>;
  return <span class="faint">{t("state.running")}</span>;
}

const none = <span class="faint" aria-hidden="true">–</span>;

/** Pinned host memory of a workload, and its host limit if it has one. */
export function Pinned({ row }: { row: WorkloadRow }) {
  if (row.host_used_bytes === undefined) return <NotKnown reason={t("na.notCounted")} />;
  return <><Amount bytes={row.host_used_bytes} />{row.host_limit_bytes != null && <span class="faint"> / <Amount bytes={row.host_limit_bytes} /></span>}</>;
}

/** Why the limit in force is lower than the configured one; null: it is not. */
export function heldBackText(row: WorkloadRow): string | null {
  const limit = row.limit_bytes ?? 0, configured = row.configured_limit_bytes ?? limit, asked = formatSize(configured), now = formatSize(limit);
  if (configured <= limit || asked === now) return null;
  return t("workload.held", { asked, now, held: formatSize(configured - limit), reason: row.held_back_by ? fieldText(row, "held_back_by") : t("na.noReason") });
}

/** The limit in force; where it is lower than the configured one, a mark that says so. */
function Limit({ row }: { row: WorkloadRow }) {
  const why = heldBackText(row);
  return <><Amount bytes={row.limit_bytes} />{why && <span class="faint" title={why}>{" "}<span aria-hidden="true">↓</span><span class="hidden"> ({why})</span></span>}</>;
}

export function workloadColumns(rows: WorkloadRow[]): Column<WorkloadRow>[] {
  const commands = rows.flatMap((row) => commandOf(row) ?? []);
  const pinned: Column<WorkloadRow> = { id: "pinned", head: t("column.pinned"), numeric: true, from: "wide", value: (row) => row.host_used_bytes, cell: (row) => (row.governed ? <Pinned row={row} /> : none) };
  return [
    { id: "workload", head: t("column.workload"), header: true, value: (row) => (row.workload === null ? nameOf(row) : `${row.tenant ?? ""}/${row.workload}`), cell: (row) => <WorkloadName row={row} /> },
    { id: "state", head: t("column.state"), value: (row) => (!row.governed ? "ungoverned" : row.book_altered ? "altered" : row.state), cell: (row) => <StateBadge row={row} />, from: "medium" },
    { id: "gpu", head: "GPU", numeric: true, from: "medium", value: (row) => row.gpu, cell: (row) => row.gpu ?? <NotKnown reason={saidIn(row, "gpu_na")} /> },
    { id: "used", head: t("column.used"), numeric: true, value: (row) => row.used_bytes, cell: (row) => <Amount bytes={row.used_bytes} na={saidIn(row, "used_bytes_na")} /> },
    {
      id: "share", head: "", value: shareOf, from: "medium",
      cell: (row) => {
        const share = shareOf(row);
        return share === null ? null : <Meter share={share} look={row.tenant ? lookOf(row.tenant) : null} mark={row.guarantee_bytes && row.limit_bytes ? row.guarantee_bytes / row.limit_bytes : null} />;
      },
    },
    {
      id: "limit", head: t("column.limit"), numeric: true, value: (row) => row.limit_bytes,
      cell: (row) => (row.governed ? <Limit row={row} /> : none),
    },
    { id: "guarantee", head: t("column.guarantee"), numeric: true, from: "wide", value: (row) => row.guarantee_bytes, cell: (row) => (row.guarantee_bytes ? <Amount bytes={row.guarantee_bytes} /> : none) },
    { id: "peak", head: t("column.peak"), numeric: true, from: "medium", value: (row) => row.peak_bytes, cell: (row) => (row.governed ? <Amount bytes={row.peak_bytes} /> : none) },
    ...(rows.some((row) => row.host_used_bytes) ? [pinned] : []),
    {
      id: "denied", head: t("column.denied"), numeric: true, value: (row) => row.denials,
      cell: (row) => {
        if (!row.denials) return row.governed ? <span class="faint">0</span> : none;
        const text = String(row.denials);
        return row.workload ? <Link class="denied" to={`/events?type=denied&workload=${encodeURIComponent(row.workload)}`} label={t("column.deniedOf", { count: row.denials, name: row.workload })}>{text}</Link> : text;
      },
    },
    { id: "user", head: t("column.user"), from: "wide", value: (row) => row.user },
    { id: "started", head: t("workload.started"), from: "huge", value: (row) => row.started, cell: (row) => (row.started ? <Time time={row.started} day /> : none) },
    { id: "labels", head: t("workload.labels"), from: "huge", value: (row) => row.labels, cell: (row) => (row.labels === null ? <NotKnown reason={saidIn(row, "labels_na")} /> : row.labels ? <span class="labels">{row.labels.replaceAll(",", ", ")}</span> : none) },
    { id: "pid", head: "PID", from: "huge", value: pidsOf, cell: (row) => (row.processes ? pidsOf(row) : <NotKnown reason={saidIn(row, "processes_na")} />) },
    { id: "command", head: t("column.command"), from: "wider", value: commandOf, cell: (row) => <CommandCell row={row} others={commands} /> },
  ];
}

const commandOf = (row: WorkloadRow): string | null | undefined => row.command ?? row.processes?.[0]?.command;

function CommandCell({ row, others }: { row: WorkloadRow; others: string[] }) {
  const command = commandOf(row);
  if (!command) return <NotKnown reason={saidIn(row, "command_na") ?? saidIn(row, "processes_na") ?? saidIn(row.processes?.[0], "command_na")} />;
  return <code class="command-cell" title={command}>{shortCommand(command, others, 100)}</code>;
}

/** Opens what may be done to this workload. */
function Menu({ workload }: { workload: string }) {
  const label = t("palette.about", { name: workload });
  return <button type="button" class="quiet row-menu" aria-label={label} title={label} onClick={() => openDialog({ kind: "palette", about: workload })}><span aria-hidden="true">⋯</span></button>;
}

/** What one may do is beside the name: in sight, however wide the table is. */
function withMenu([name, ...others]: Column<WorkloadRow>[]): Column<WorkloadRow>[] {
  const menu: Column<WorkloadRow> = { id: "menu", head: "", value: () => null, cell: (row) => row.workload && <Menu workload={row.workload} /> };
  return name ? [name, menu, ...others] : [];
}

/** A text that the URL keeps. */
export function FilterField({ value, problem, label, example }: { value: string; problem: string | null; label: string; example: string }) {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  // While somebody types, the field is ahead of the URL and must not be set back to it.
  useEffect(() => {
    if (document.activeElement !== input.current) setText(value);
  }, [value]);
  const type = (fresh: string) => {
    setText(fresh);
    setQuery({ filter: fresh });
  };
  return (
    <div class="filter">
      <label class="hidden" for="filter">{label}</label>
      <input id="filter" ref={input} type="search" value={text} placeholder={example} spellcheck={false} autocomplete="off" aria-invalid={Boolean(problem)} aria-describedby="filter-problem" onInput={(event) => type(event.currentTarget.value)} />
      <p id="filter-problem" class="remark error" role="status">{problem ?? ""}</p>
    </div>
  );
}

export function WorkloadPanel({ rows, filter, sort, gpus }: { rows: WorkloadRow[]; filter: string; sort: string | null; gpus: number }) {
  const filters = filter.trim() !== "", unreadable = problemOf(filter);
  const matching = useLoaded<WorkloadRow[]>(filters && !unreadable ? withQuery("/api/v1/workloads", { filter, processes: 1 }) : null, 1000);
  const problem = unreadable ? ("key" in unreadable ? t(unreadable.key) : saidText(unreadable)) : filters ? matching.problem : null;
  const shown = filters && !problem && matching.data ? matching.data : rows;
  const columns = workloadColumns(rows).filter((column) => column.id !== "gpu" || gpus > 1);
  const tools = (
    <>
      <FilterField value={filter} problem={problem} label={t("filter.label")} example="used>4GiB & denied>0" />
      <TableCopy name={t("now.workloads")} columns={columns} rows={shown} cli="ration ps" />
    </>
  );
  return (
    <Panel id="workloads" title={<>{t("now.workloads")} <span class="count">{shown.length === rows.length ? rows.length : `${shown.length} / ${rows.length}`}</span></>} tools={tools}>
      <DataTable name="workloads" caption={t("now.workloads")} columns={withMenu(columns)} rows={shown} sort={sort ?? "-used"}
        keyOf={(row) => `${row.workload ?? "pid"}-${row.run ?? pidsOf(row)}-${row.gpu}`} rowClass={(row) => (row.governed ? "" : "stranger")} />
      {shown.length === 0 && <p class="empty">{rows.length === 0 ? t("now.nothingRuns") : t("filter.none")}</p>}
    </Panel>
  );
}

import type { Device, Gap, Health as HealthData, Snapshot, Usage, WorkloadRow } from "../api/types";
import { formatDuration } from "../logic/format";
import { nameOf, pidsOf } from "../logic/workloads";
import { readState, seesTotalsOnly, useStore } from "../state/store";
import { workloadPath } from "../state/route";
import { fieldText, saidText, t } from "../text";
import { saidIn } from "../text/message";
import { Badge, Link, NotKnown, Panel, Span, Time, type Reason, reasonText } from "../ui/basics";
import { useLoaded } from "../ui/load";
import { DataTable, TableCopy, type Column } from "../ui/table";

type Check = HealthData["checks"][number];

interface Source {
  number: string;
  source: string | null;
  source_na?: Reason;
  at: string | null;
  age_seconds: number | null;
  unknown: { name: string; reason: Reason }[];
}

function unknownOf(device: Device, fields: [keyof Device, string][]): Source["unknown"] {
  return fields.filter(([field]) => device[field] === null).map(([field, name]) => ({ name, reason: saidIn(device, `${field}_na` as keyof Device) }));
}

/** Where each number of these pages comes from, and how old it was when the daemon answered at `time`. */
export function sourcesOf(data: HealthData, time: string, snapshot: Snapshot, snapshotAt: number): Source[] {
  const aged = (at: string) => ({ at, age_seconds: Math.max(0, (Date.parse(time) - Date.parse(at)) / 1000) });
  const driver = { source: data.driver === null ? null : t("health.sourceDriver", { version: data.driver }), source_na: saidIn(data, "driver_na") };
  const differences: [keyof Device, string][] = [["unexplained_bytes", t("part.unexplained")], ["ungoverned_bytes", t("part.ungoverned")], ["orphaned_bytes", t("part.orphaned")]];
  const recorded = Date.parse(data.recorded_to) > 0;
  return [
    ...snapshot.devices.map((device) => ({
      number: t("health.deviceNumbers", { gpu: device.gpu }), ...driver, ...aged(data.last_look),
      unknown: unknownOf(device, [["utilisation_percent", t("device.utilisation")], ["temperature_celsius", t("device.temperature")]]),
    })),
    ...(snapshot.devices.length === 0 ? [{ number: t("health.devices"), ...driver, ...aged(data.last_look), unknown: [{ name: t("health.devices"), reason: saidIn(snapshot, "devices_na") }] }] : []),
    { number: t("health.held"), source: data.workloads === undefined ? t("health.sourceAllBooks") : t("health.sourceBooks", { count: data.workloads }), ...aged(data.last_look), unknown: [] },
    {
      number: t("health.unexplainedNumbers"), source: t("health.sourceDifference"), ...aged(data.last_look),
      unknown: snapshot.devices.flatMap((device) => unknownOf(device, differences).map((one) => ({ ...one, name: `GPU ${device.gpu} ${one.name}` }))),
    },
    {
      number: t("health.history"), source: t("health.sourceRecord"), ...(recorded ? aged(data.recorded_to) : { at: null, age_seconds: null }),
      unknown: recorded ? [] : [{ name: t("health.history"), reason: t("chart.nothingRecorded") }],
    },
    { number: t("health.page"), source: t("health.sourceStream"), at: new Date(snapshotAt).toISOString(), age_seconds: Math.max(0, (Date.now() - snapshotAt) / 1000), unknown: [] },
  ];
}

function Sources({ data, time, snapshot }: { data: HealthData; time: string; snapshot: Snapshot }) {
  const rows = sourcesOf(data, time, snapshot, readState().snapshotAt);
  const columns: Column<Source>[] = [
    { id: "number", head: t("health.number"), header: true, value: (row) => row.number },
    { id: "source", head: t("explain.source"), value: (row) => row.source, cell: (row) => row.source ?? <NotKnown reason={row.source_na} full /> },
    { id: "at", head: t("health.at"), value: (row) => row.at, cell: (row) => (row.at === null ? "" : <Time time={row.at} />), from: "medium" },
    { id: "age", head: t("health.age"), numeric: true, value: (row) => row.age_seconds, cell: (row) => <Span seconds={row.age_seconds} na={row.unknown[0]?.reason} /> },
    {
      id: "unknown", head: t("health.unknown"), value: (row) => row.unknown.map((one) => `${one.name}: ${reasonText(one.reason)}`).join("; "), from: "medium",
      cell: (row) => (row.unknown.length > 0 ? row.unknown.map((one) => <div key={one.name}>{one.name} <NotKnown reason={one.reason} full /></div>) : <span class="faint">–</span>),
    },
  ];
  return (
    <Panel id="sources" title={t("health.sources")} tools={<TableCopy name={t("health.sources")} columns={columns} rows={rows} cli="ration doctor -o json" />}>
      <DataTable name="sources" caption={t("health.sources")} columns={columns} rows={rows} keyOf={(row) => row.number} />
    </Panel>
  );
}

const enforcer = (row: WorkloadRow): string => (row.enforced_by ? t(`health.by.${row.enforced_by}`) : t("health.by.nothing", { policy: row.policy ?? "–" }));

function Enforcement({ rows }: { rows: WorkloadRow[] }) {
  const columns: Column<WorkloadRow>[] = [
    { id: "workload", head: t("column.workload"), header: true, value: nameOf, cell: (row) => (row.workload === null ? <>{nameOf(row)} <span class="faint">pid {pidsOf(row)}</span></> : <Link to={workloadPath(row.workload)}>{row.workload}</Link>) },
    { id: "gpu", head: "GPU", numeric: true, value: (row) => row.gpu, cell: (row) => row.gpu ?? <NotKnown reason={saidIn(row, "gpu_na")} /> },
    { id: "by", head: t("workload.guard"), value: enforcer, cell: (row) => (row.governed ? enforcer(row) : <Badge tone="warn">{enforcer(row)}</Badge>) },
    {
      id: "processes", head: t("workload.processes"), numeric: true, value: (row) => row.processes?.length, from: "medium",
      cell: (row) => {
        const violators = row.processes?.filter((process) => process.state === "violator").length;
        return <>{row.processes?.length ?? <NotKnown reason={saidIn(row, "processes_na")} />}{violators ? <> <Badge tone="bad">{t("health.violators", { count: violators })}</Badge></> : null}</>;
      },
    },
  ];
  return (
    <Panel id="enforcement" title={t("health.enforcement")} tools={<TableCopy name={t("health.enforcement")} columns={columns} rows={rows} cli="ration ps" />}>
      {rows.length > 0 ? <DataTable name="enforcement" caption={t("health.enforcement")} columns={columns} rows={rows} keyOf={(row) => `${row.workload ?? "pid"}-${row.run ?? pidsOf(row)}-${row.gpu}`} /> : <p class="empty">{t("now.nothingRuns")}</p>}
    </Panel>
  );
}

function Gaps() {
  const { data, problem } = useLoaded<Usage>("/api/v1/reports/usage?window=30d", 60_000);
  const seconds = (gap: Gap) => (Date.parse(gap.to) - Date.parse(gap.from)) / 1000;
  const columns: Column<Gap>[] = [
    { id: "from", head: t("health.from"), header: true, value: (gap) => gap.from, cell: (gap) => <Time time={gap.from} day /> },
    { id: "to", head: t("health.to"), value: (gap) => gap.to, cell: (gap) => <Time time={gap.to} day />, from: "medium" },
    { id: "length", head: t("health.length"), numeric: true, value: seconds, cell: (gap) => <Span seconds={seconds(gap)} /> },
  ];
  return (
    <Panel id="gaps" title={t("health.gaps")}>
      {problem && <p class="notice bad">{problem}</p>}
      {data && (data.gaps.length > 0 ? <DataTable name="gaps" caption={t("health.gaps")} columns={columns} rows={[...data.gaps].reverse()} keyOf={(gap) => gap.from} /> : <p class="faint">{t("health.noGaps")}</p>)}
    </Panel>
  );
}

function Daemon({ data }: { data: HealthData }) {
  const session = useStore((state) => state.session);
  const host = useStore((state) => state.host);
  return (
    <Panel id="daemon" title={t("health.daemon")}>
      <dl class="facts">
        <dt>{t("health.host")}</dt><dd>{host}</dd>
        <dt>{t("health.role")}</dt><dd>{session ? t(`role.${session.role}`) : "–"}</dd>
        <dt>{t("health.version")}</dt><dd>{data.version}{data.pid !== undefined && <span class="faint"> pid {data.pid}</span>}</dd>
        <dt>{t("health.started")}</dt><dd><Time time={data.started} day /> <span class="faint">{formatDuration((Date.parse(data.last_look) - Date.parse(data.started)) / 1000)}</span></dd>
        {data.looks !== undefined && <><dt>{t("health.looks")}</dt><dd>{data.looks}{data.looks > 0 && <span class="faint"> {t("health.eachLook", { time: (((data.look_seconds ?? 0) / data.looks) * 1000).toFixed(1) })}</span>}</dd></>}
        <dt>{t("health.problem")}</dt><dd>{fieldText(data, data.problem === null ? "problem_na" : "problem")}</dd>
        {data.stream_clients !== undefined && <><dt>{t("health.clients")}</dt><dd>{data.stream_clients}</dd></>}
        {data.connections !== undefined && <><dt>{t("health.connections")}</dt><dd>{data.connections}</dd></>}
        {data.folders && <><dt>{t("health.folders")}</dt><dd>{data.folders.map((one) => <div key={one.folder}><code>{one.folder}</code> <span class="faint">{one.user}</span></div>)}</dd></>}
      </dl>
    </Panel>
  );
}

export function Health() {
  const { data, time, problem } = useLoaded<HealthData>("/api/v1/health", 5000);
  const snapshot = useStore((state) => state.snapshot);
  const totals = useStore(seesTotalsOnly);
  const checkColumns: Column<Check>[] = [
    { id: "status", head: "", value: (check) => check.status, cell: (check) => <Badge tone={check.status}>{check.status.toUpperCase()}</Badge> },
    { id: "id", head: t("health.check"), header: true, value: (check) => check.id, cell: (check) => <code>{check.id}</code> },
    { id: "text", head: t("health.finding"), value: (check) => saidText(check) },
  ];
  return (
    <>
      {problem && <p class="notice bad">{problem}</p>}
      <div class="pair second-wider">
        {data && (
          <Panel id="checks" title={t("health.checks")} tools={<TableCopy name={t("health.checks")} columns={checkColumns} rows={data.checks} cli="ration doctor" />}>
            <DataTable name="checks" caption={t("health.checks")} columns={checkColumns} rows={data.checks} keyOf={(check) => check.id} />
            <p class="faint">{t("health.moreChecks")} <code>ration doctor</code></p>
          </Panel>
        )}
        {data && time && snapshot && <Sources data={data} time={time} snapshot={snapshot} />}
      </div>
      <div class="split even">
        {snapshot && !totals && <Enforcement rows={snapshot.workloads} />}
        <div>
          {data && <Daemon data={data} />}
          {!totals && <Gaps />}
        </div>
      </div>
    </>
  );
}

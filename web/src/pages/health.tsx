import type { Health as HealthData } from "../api/types";
import { formatDuration, formatSize } from "../logic/format";
import { useStore } from "../state/store";
import { t } from "../text";
import { Badge, Command, NotKnown, Panel, Span } from "../ui/basics";
import { useLoaded } from "../ui/load";
import { DataTable, TableCopy, type Column } from "../ui/table";

type Check = NonNullable<HealthData["checks"]>[number];
type Source = NonNullable<HealthData["sources"]>[number];

const toneOfStatus = (status: string): "ok" | "warn" | "bad" => (status === "ok" ? "ok" : status === "warn" ? "warn" : "bad");

/** A field that this page has no words for: its name as it is, its value by the unit in the name. */
export function plain(name: string, value: unknown): string {
  if (typeof value === "number" && name.endsWith("_bytes")) return formatSize(value);
  if (typeof value === "number" && name.endsWith("_seconds")) return formatDuration(value);
  if (Array.isArray(value)) return value.map((one) => plain("", one)).join(", ") || "–";
  if (value !== null && typeof value === "object") return Object.entries(value).map(([key, one]) => `${key} ${plain(key, one)}`).join(" · ");
  return value === "" || value === undefined ? "–" : String(value);
}

export function Health() {
  const { data, problem } = useLoaded<HealthData>("/api/v1/health", 5000);
  const session = useStore((state) => state.session);
  const host = useStore((state) => state.host);
  const checks = Array.isArray(data?.checks) ? data.checks : [];
  const sources = Array.isArray(data?.sources) ? data.sources : [];
  const rest = Object.entries(data ?? {}).filter(([name]) => name !== "checks" && name !== "sources" && !name.endsWith("_na"));
  const checkColumns: Column<Check>[] = [
    { id: "status", head: "", value: (check) => check.status, cell: (check) => <Badge tone={toneOfStatus(check.status)}>{check.status.toUpperCase()}</Badge> },
    { id: "id", head: t("health.check"), header: true, value: (check) => check.id, cell: (check) => <code>{check.id}</code> },
    { id: "text", head: t("health.finding"), value: (check) => check.text, cell: (check) => <>{check.text}{check.fix && <div><Command line={check.fix} /></div>}</> },
  ];
  const sourceColumns: Column<Source>[] = [
    { id: "name", head: t("health.number"), header: true, value: (source) => source.name },
    { id: "source", head: t("explain.source"), value: (source) => source.source },
    { id: "age", head: t("health.age"), numeric: true, value: (source) => source.age_seconds, cell: (source) => <Span seconds={source.age_seconds} na={source.age_seconds_na} /> },
    { id: "text", head: "", value: (source) => source.text, from: "medium", cell: (source) => <>{source.status && source.status !== "ok" && <Badge tone={toneOfStatus(source.status)}>{source.status}</Badge>} <span class="faint">{source.text}</span></> },
  ];
  return (
    <>
      {problem && <p class="notice bad">{problem}</p>}
      {checks.length > 0 && (
        <Panel id="checks" title={t("health.checks")} tools={<TableCopy name={t("health.checks")} columns={checkColumns} rows={checks} cli="ration doctor" />}>
          <DataTable name="checks" caption={t("health.checks")} columns={checkColumns} rows={checks} keyOf={(check) => check.id} />
        </Panel>
      )}
      <div class="split even">
        {sources.length > 0 && (
          <Panel id="sources" title={t("health.sources")} tools={<TableCopy name={t("health.sources")} columns={sourceColumns} rows={sources} cli="ration doctor -o json" />}>
            <DataTable name="sources" caption={t("health.sources")} columns={sourceColumns} rows={sources} keyOf={(source) => source.name} />
          </Panel>
        )}
        <Panel id="daemon" title={t("health.daemon")}>
          <dl class="facts">
            <dt>{t("health.host")}</dt><dd>{host}</dd>
            <dt>{t("health.role")}</dt><dd>{session ? t(`role.${session.role}`) : "–"}</dd>
            {rest.map(([name, value]) => (
              <>
                <dt key={name}>{name.replace(/_(bytes|seconds)$/, "").replace(/_/g, " ")}</dt>
                <dd>{value === null ? <NotKnown reason={data?.[`${name}_na`] as string | undefined} full /> : plain(name, value)}</dd>
              </>
            ))}
          </dl>
        </Panel>
      </div>
    </>
  );
}

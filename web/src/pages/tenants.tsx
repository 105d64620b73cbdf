import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { request } from "../api/client";
import type { Device, Snapshot, Tenant, TenantAccount } from "../api/types";
import { formatPercent, formatSize, parseSize, typedSize } from "../logic/format";
import { lookOf } from "../logic/palette";
import { isOperator, useStore } from "../state/store";
import type { View } from "../state/route";
import { t } from "../text";
import { saidIn } from "../text/message";
import { Amount, Badge, Link, Meter, NotKnown, Panel, Swatch } from "../ui/basics";
import { describe } from "../ui/events";
import { DataTable, TableCopy, type Column } from "../ui/table";

interface Row {
  tenant: Tenant;
  account: TenantAccount;
}

/** A size that an operator changes where it stands: Enter saves, Escape leaves it as it was. */
function EditableSize({ row, field, device }: { row: Row; field: "limit" | "guarantee"; device: Device | undefined }) {
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [version, setVersion] = useState<number | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const wasOpen = useRef(false);
  const open = text !== null;
  useLayoutEffect(() => {
    if (open) input.current?.select();
    else if (wasOpen.current) button.current?.focus();
    wasOpen.current = open;
  }, [open]);
  const bytes = field === "limit" ? row.account.limit_bytes : row.account.guarantee_bytes;
  const na = field === "limit" ? saidIn(row.account, "limit_bytes_na") : undefined;
  const label = t(field === "limit" ? "tenants.editLimit" : "tenants.editGuarantee", { name: row.tenant.tenant, gpu: row.account.gpu });
  if (!open) {
    return (
      <button type="button" class="edit" ref={button} onClick={() => { setProblem(null); setVersion(row.tenant.changes); setText(bytes === null ? "" : typedSize(bytes)); }}>
        <span class="hidden">{label}: </span><Amount bytes={bytes} na={na} /> <span aria-hidden="true" class="pencil">✎</span>
      </button>
    );
  }
  const save = async (event: Event) => {
    event.preventDefault();
    const parsed = parseSize(text, device?.total_bytes ?? Number.POSITIVE_INFINITY);
    if ("problem" in parsed) return setProblem(t(`size.${parsed.problem}`));
    try {
      await request(`/api/v1/tenants/${encodeURIComponent(row.tenant.tenant)}`, {
        method: "PATCH", body: { [field]: text.trim() }, ...(version === null ? {} : { ifMatch: version }),
      });
      setText(null);
    } catch (cause) {
      setProblem(describe(cause));
    }
  };
  return (
    <form class="edit-form" onSubmit={(event) => void save(event)}>
      <input ref={input} value={text} aria-label={label} aria-invalid={problem !== null} onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); setText(null); } }} />
      <button type="submit">{t("save")}</button>
      <button type="button" class="quiet" onClick={() => setText(null)}>{t("cancel")}</button>
      {problem && <p class="remark error" role="alert">{problem}</p>}
    </form>
  );
}

/** How much of a device is promised, and what would be needed if all took all they may. */
function Gauge({ snapshot, device }: { snapshot: Snapshot; device: Device }) {
  const accounts = snapshot.tenants.flatMap((tenant) => tenant.accounts.filter((account) => account.gpu === device.gpu));
  const own = snapshot.workloads.filter((row) => row.gpu === device.gpu && row.governed);
  const guaranteed = Math.max(device.promised_bytes, accounts.reduce((sum, account) => sum + account.guarantee_bytes, 0));
  const limits = accounts.some((account) => account.limit_bytes !== null)
    ? accounts.reduce((sum, account) => sum + (account.limit_bytes ?? 0), 0) : own.reduce((sum, row) => sum + (row.limit_bytes ?? 0), 0);
  const line = (label: string, bytes: number) => {
    const share = bytes / device.total_bytes;
    return (
      <div class="gauge-line">
        <span>{label}</span>
        <Meter share={Math.min(1, share / 1.5)} mark={1 / 1.5} tone={share > 1 ? "warn" : null} />
        <span class="number"><Amount bytes={bytes} /> <span class="faint">{formatPercent(share)}</span></span>
      </div>
    );
  };
  return (
    <div class="gauge">
      <h3>GPU {device.gpu} <span class="device-name">{device.name} · {formatSize(device.total_bytes)}</span></h3>
      {line(t("tenants.guarantees"), guaranteed)}
      {line(t("tenants.limits"), limits)}
      <p class="faint">{limits > device.total_bytes ? t("tenants.overcommitted", { factor: (limits / device.total_bytes).toFixed(2) }) : t("tenants.fits")}</p>
    </div>
  );
}

export function Tenants({ view }: { view: View }) {
  const snapshot = useStore((state) => state.snapshot);
  const operator = useStore(isOperator);
  if (!snapshot) return null;
  const editable = (row: Row) => operator && row.tenant.limit_from !== null;
  const only = view.query.get("tenant");
  const rows: Row[] = snapshot.tenants.filter((tenant) => !only || tenant.tenant === only).flatMap((tenant) => tenant.accounts.map((account) => ({ tenant, account })));
  const deviceOf = (row: Row) => snapshot.devices.find((device) => device.gpu === row.account.gpu);
  const columns: Column<Row>[] = [
    { id: "tenant", head: t("column.tenant"), header: true, value: (row) => row.tenant.tenant, cell: (row) => <span class="workload"><Swatch tenant={row.tenant.tenant} /><Link to={`/?filter=${encodeURIComponent(`tenant==${row.tenant.tenant}`)}`}>{row.tenant.tenant}</Link></span> },
    { id: "gpu", head: "GPU", numeric: true, value: (row) => row.account.gpu },
    { id: "priority", head: t("column.priority"), numeric: true, value: (row) => row.tenant.priority, from: "medium" },
    { id: "guarantee", head: t("column.guarantee"), numeric: true, value: (row) => row.account.guarantee_bytes, cell: (row) => (editable(row) ? <EditableSize row={row} field="guarantee" device={deviceOf(row)} /> : <Amount bytes={row.account.guarantee_bytes} />) },
    { id: "limit", head: t("column.limit"), numeric: true, value: (row) => row.account.limit_bytes, cell: (row) => (editable(row) ? <EditableSize row={row} field="limit" device={deviceOf(row)} /> : <Amount bytes={row.account.limit_bytes} na={saidIn(row.account, "limit_bytes_na")} />) },
    { id: "used", head: t("column.used"), numeric: true, value: (row) => row.account.used_bytes, cell: (row) => <Amount bytes={row.account.used_bytes} /> },
    {
      id: "share", head: "", value: (row) => (row.account.limit_bytes ? row.account.used_bytes / row.account.limit_bytes : null), from: "medium",
      cell: (row) => (row.account.limit_bytes ? <Meter share={row.account.used_bytes / row.account.limit_bytes} look={lookOf(row.tenant.tenant)} mark={row.account.guarantee_bytes ? row.account.guarantee_bytes / row.account.limit_bytes : null} /> : null),
    },
    { id: "peak", head: t("column.peak"), numeric: true, value: (row) => row.account.peak_bytes, cell: (row) => <Amount bytes={row.account.peak_bytes} />, from: "medium" },
    { id: "denied", head: t("column.denied"), numeric: true, value: (row) => row.account.denials, cell: (row) => (row.account.denials ? <Badge tone="bad">{row.account.denials}</Badge> : <span class="faint">0</span>) },
    { id: "from", head: t("tenants.from"), value: (row) => row.tenant.limit_from, cell: (row) => (row.tenant.limit_from === null ? <NotKnown reason={saidIn(row.tenant, "limit_from_na")} /> : <span class="faint">{row.tenant.limit_from}</span>), from: "wide" },
  ];
  return (
    <>
      <Panel id="commitment" title={t("tenants.commitment")}>
        <div class="gauges">{snapshot.devices.map((device) => <Gauge key={device.uuid} snapshot={snapshot} device={device} />)}</div>
      </Panel>
      <Panel id="tenants" title={only ? `${t("page.tenants")}: ${only}` : t("page.tenants")} tools={<>
        {only && <Link to="/tenants">{t("tenants.all")}</Link>}
        <TableCopy name={t("page.tenants")} columns={columns} rows={rows} cli="ration config print" />
      </>}>
        <DataTable name="tenants" caption={t("page.tenants")} columns={columns} rows={rows} keyOf={(row) => `${row.tenant.tenant}-${row.account.gpu}`} sort={view.query.get("sort") ?? null} />
        <p class="faint">{rows.some(editable) ? t("tenants.editHint") : operator ? t("tenants.notNamed") : t("tenants.readOnly")}</p>
      </Panel>
    </>
  );
}

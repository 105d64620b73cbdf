import { useState } from "preact/hooks";
import { requestDone } from "../api/client";
import type { Lease } from "../api/types";
import { shortCommand } from "../logic/format";
import { isOperator, useNow, useStore } from "../state/store";
import type { View } from "../state/route";
import { fieldText, t } from "../text";
import { saidIn } from "../text/message";
import { Amount, Badge, Empty, NotKnown, Panel, Span, Swatch } from "../ui/basics";
import { describe } from "../ui/events";
import { DataTable, TableCopy, type Column } from "../ui/table";

/** Leaving somebody's place in the queue is asked twice. */
function Remove({ lease }: { lease: Lease }) {
  const [sure, setSure] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const remove = () => {
    if (!sure) return setSure(true);
    requestDone(`/api/v1/leases/${encodeURIComponent(lease.lease)}`, { method: "DELETE" }).catch((cause: unknown) => setProblem(describe(cause)));
  };
  return (
    <>
      <button type="button" class={sure ? "danger" : "quiet"} onClick={remove} onBlur={() => setSure(false)} aria-label={`${t(sure ? "queue.sure" : "queue.remove")} ${lease.lease}`}>{t(sure ? "queue.sure" : "queue.remove")}</button>
      {problem && <p class="remark error" role="alert">{problem}</p>}
    </>
  );
}

export function Queue({ view }: { view: View }) {
  const queue = useStore((state) => state.snapshot?.queue);
  const operator = useStore(isOperator);
  const now = useNow();
  if (!queue) return null;
  const commands = queue.flatMap((lease) => lease.command ?? []);
  const columns: Column<Lease>[] = [
    { id: "position", head: "#", numeric: true, value: (lease) => lease.position, cell: (lease) => (lease.position === undefined ? "" : <span>{lease.position}<span class="faint">/{lease.of}</span></span>) },
    { id: "lease", head: t("queue.lease"), header: true, value: (lease) => lease.lease, from: "medium" },
    { id: "tenant", head: t("column.tenant"), value: (lease) => lease.tenant, cell: (lease) => <span class="workload"><Swatch tenant={lease.tenant} /><span>{lease.tenant}{lease.user && <span class="faint">/{lease.user}</span>}</span></span> },
    { id: "name", head: t("column.workload"), value: (lease) => lease.name, cell: (lease) => (lease.name === null ? <NotKnown reason={saidIn(lease, "name_na")} /> : lease.name), from: "medium" },
    { id: "command", head: t("column.command"), value: (lease) => lease.command, cell: (lease) => (lease.command === null ? <NotKnown reason={saidIn(lease, "command_na")} /> : <code class="command-cell" title={lease.command}>{shortCommand(lease.command, commands, 100)}</code>), from: "medium" },
    { id: "bytes", head: t("queue.wants"), numeric: true, value: (lease) => lease.bytes, cell: (lease) => <Amount bytes={lease.bytes} /> },
    { id: "gpu", head: "GPU", value: (lease) => lease.gpu },
    { id: "state", head: t("column.state"), value: (lease) => lease.state, cell: (lease) => <Badge tone={lease.state === "waiting" ? "warn" : "ok"}>{t(`lease.${lease.state}`)}</Badge>, from: "medium" },
    { id: "since", head: t("queue.waited"), numeric: true, value: (lease) => lease.since, cell: (lease) => <Span seconds={(now - Date.parse(lease.since)) / 1000} /> },
    { id: "estimate", head: t("queue.estimate"), numeric: true, value: (lease) => lease.estimate_seconds, cell: (lease) => (lease.state === "waiting" ? <Span seconds={lease.estimate_seconds} na={saidIn(lease, "estimate_seconds_na")} /> : null) },
    { id: "reason", head: t("queue.reason"), value: (lease) => lease.reason, cell: (lease) => <span class="reason">{lease.reason && fieldText(lease, "reason")}</span>, from: "medium" },
    ...(operator ? [{ id: "remove", head: "", value: () => null, cell: (lease: Lease) => <Remove lease={lease} /> }] : []),
  ];
  return (
    <Panel id="queue" title={<>{t("page.queue")} <span class="count">{queue.length}</span></>} tools={<TableCopy name={t("page.queue")} columns={columns} rows={queue} cli="ration events --type queued,granted,dequeued" />}>
      {queue.length > 0
        ? <DataTable name="queue" caption={t("page.queue")} columns={columns} rows={queue} keyOf={(lease) => lease.lease} sort={view.query.get("sort") ?? null} />
        : <Empty command="ration run --wait --limit 20GiB -- python big.py">{t("queue.empty")}</Empty>}
    </Panel>
  );
}

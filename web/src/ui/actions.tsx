// What is done to a workload: who is concerned and how much memory is said before, what came of it after.

import { useState } from "preact/hooks";
import { request } from "../api/client";
import { shellWord } from "../logic/export";
import { formatSize } from "../logic/format";
import { heldBy, moveOf, shellLines } from "../logic/workloads";
import { closeDialog, isOperator, lastEventId, openDialog, rowsOf, useStore, type Verb } from "../state/store";
import type { WorkloadRow } from "../api/types";
import { saidIn } from "../text/message";
import { t } from "../text";
import { Amount, Command, Dialog, NotKnown, Swatch } from "./basics";
import { EventLines, Problem } from "./events";

function Concerned({ rows }: { rows: WorkloadRow[] }) {
  const [first] = rows;
  const processes = [...new Map(rows.flatMap((row) => row.processes ?? []).map((process) => [process.pid, process])).values()];
  return (
    <dl class="facts">
      <dt>{t("column.tenant")}</dt><dd>{first?.tenant && <Swatch tenant={first.tenant} />} {first?.tenant}</dd>
      <dt>{t("column.user")}</dt><dd>{first?.user}</dd>
      {rows.map((row) => (
        <><dt key={row.gpu}>{row.gpu === null ? "GPU" : `GPU ${row.gpu}`}</dt><dd><Amount bytes={row.used_bytes} na={saidIn(row, "used_bytes_na")} />{row.suspended_bytes ? <> + <Amount bytes={row.suspended_bytes} /> {t("workload.onHost")}</> : null}</dd></>
      ))}
      <dt>{t("workload.processes")}</dt>
      <dd>{first?.processes ? processes.map((process) => <span class="process" key={process.pid}>pid {process.pid} {process.command && <code>{process.command}</code>}</span>) : <NotKnown reason={saidIn(first, "processes_na")} full />}</dd>
    </dl>
  );
}

/** What has happened to it since number `after`. */
function Since({ workload, after }: { workload: string; after: number }) {
  const events = useStore((state) => state.events).filter((event) => event.workload === workload && event.id > after).reverse();
  return <div role="status">{events.length > 0 ? <EventLines events={events} most={5} /> : <p class="faint">{t("action.asked")}</p>}</div>;
}

export function ActionDialog({ verb, workload }: { verb: Verb; workload: string }) {
  const snapshot = useStore((state) => state.snapshot);
  const operator = useStore(isOperator);
  const [asked, setAsked] = useState<number | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const rows = rowsOf(snapshot, workload), { used, suspended } = heldBy(rows), own = encodeURIComponent(workload);
  // As literals: a test finds each path in openapi.json.
  const paths = { trim: `/api/v1/workloads/${own}/trim`, suspend: `/api/v1/workloads/${own}/suspend`, resume: `/api/v1/workloads/${own}/resume`, stop: null };
  const path = operator ? paths[verb] : null;
  const act = (to: string) => {
    const after = lastEventId() ?? 0;
    setProblem(null);
    setBusy(true);
    request(to, { method: "POST" }).then(() => setAsked(after)).catch(setProblem).finally(() => setBusy(false));
  };
  return (
    <Dialog title={t(`palette.${verb}`, { name: workload })} onClose={closeDialog}>
      <div class="action">
        {rows.length === 0 ? <p>{t("workload.gone", { name: workload })}</p> : <Concerned rows={rows} />}
        <p>{t(`action.${verb}`, { name: workload, size: formatSize(verb === "resume" ? suspended : used) })}</p>
        {problem !== null && <Problem cause={problem} />}
        {asked !== null ? <Since workload={workload} after={asked} /> : path === null
          ? <><p class="faint">{t(verb === "stop" ? "action.onTheMachine" : "workload.readOnly", { user: rows[0]?.user ?? "" })}</p><Command line={`ration ${verb} ${shellWord(workload)}`} /></>
          : (
            <div class="buttons">
              <button type="button" class="primary" autofocus disabled={busy || rows.length === 0} onClick={() => act(path)}>{t(`palette.${verb}`, { name: workload })}</button>
              <button type="button" onClick={closeDialog}>{t("cancel")}</button>
            </div>
          )}
      </div>
    </Dialog>
  );
}

/** What an operator may do, where one looks at a workload. */
export function Actions({ rows, name }: { rows: WorkloadRow[]; name: string }) {
  const verbs: Verb[] = ["trim", moveOf(rows), "stop"];
  return <div class="actions">{verbs.map((verb, place) => <button type="button" key={place} onClick={() => openDialog({ kind: "action", verb, workload: name })}>{t(`workload.${verb}`)} …</button>)}</div>;
}

/** What everybody else may, on the machine. */
export const OnTheMachine = ({ rows, name }: { rows: WorkloadRow[]; name: string }) => (
  <div class="read-only"><p class="faint">{t("workload.readOnly")}</p>{shellLines(name, rows).map((line) => <Command key={line} line={line} />)}</div>
);

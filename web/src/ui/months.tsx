// This month and those that are over: what was recorded of them, which are closed, and closing one.

import { useEffect, useState } from "preact/hooks";
import { request, withQuery } from "../api/client";
import type { Period, Usage } from "../api/types";
import { formatCount, gibHours } from "../logic/format";
import { t } from "../text";
import { Badge, Link, NotKnown, Panel, Time } from "./basics";
import { describe } from "./events";
import { DataTable, type Column } from "./table";

interface Month {
  month: string;
  usage: Usage | null;
  problem: string | null;
}

/** The month of `now` and the twelve before it, by the daemon's calendar (UTC), newest first. */
export function monthsUntil(now: Date): string[] {
  return Array.from({ length: 13 }, (_, index) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - index)).toISOString().slice(0, 7));
}

/** Nothing was recorded in it, and it was not closed either. */
const isEmpty = ({ usage }: Month): boolean => usage !== null && usage.closed === null && gibHours(usage.capacity_byte_seconds) === 0;

/** Closing cannot be undone: it is asked twice. */
function Close({ month, closed }: { month: string; closed: (period: Period) => void }) {
  const [sure, setSure] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const close = () => {
    if (!sure) return setSure(true);
    request<Period>(`/api/v1/reports/periods/${month}:close`, { method: "POST" })
      .then((answer) => closed(answer.data))
      .catch((cause: unknown) => { setSure(false); setProblem(describe(cause)); });
  };
  const text = t(sure ? "months.sure" : "months.close");
  return (
    <>
      <button type="button" class={sure ? "danger" : "quiet"} onClick={close} onBlur={() => setSure(false)} aria-label={`${text} ${month}`}>{text}</button>
      {problem && <p class="remark error" role="alert">{problem}</p>}
    </>
  );
}

export function Months({ operator }: { operator: boolean }) {
  const [months, setMonths] = useState<Month[]>([]);
  const [all, setAll] = useState(false);
  const replace = (fresh: Month) => setMonths((have) => have.map((one) => (one.month === fresh.month ? fresh : one)));
  useEffect(() => {
    const abort = new AbortController();
    const names = monthsUntil(new Date());
    setMonths(names.map((month) => ({ month, usage: null, problem: null })));
    // One after another: the past is asked by others as well.
    void (async () => {
      for (const month of names) {
        const found = await request<Usage>(withQuery("/api/v1/reports/usage", { window: month }), { signal: abort.signal })
          .then((answer) => ({ month, usage: answer.data, problem: null }))
          .catch((cause: unknown) => ({ month, usage: null, problem: describe(cause) }));
        if (abort.signal.aborted) return;
        replace(found);
      }
    })();
    return () => abort.abort();
  }, []);
  const running = months[0]?.month;
  const empty = months.filter((one) => one.month !== running && isEmpty(one));
  const shown = all ? months : months.filter((one) => one.month === running || one.problem !== null || (one.usage !== null && !isEmpty(one)));
  const known = (row: Month, show: (usage: Usage) => preact.ComponentChildren) => (row.usage ? show(row.usage) : row.problem ? <NotKnown reason={row.problem} /> : <span class="faint">…</span>);
  const columns: Column<Month>[] = [
    { id: "month", head: t("months.month"), header: true, value: (row) => row.month, cell: (row) => <span class="amount"><Link to={`/reports?window=${row.month}`}>{row.month}</Link></span> },
    { id: "recorded", head: `${t("months.recorded")} GiB·h`, numeric: true, value: (row) => row.usage && gibHours(row.usage.capacity_byte_seconds), cell: (row) => known(row, (usage) => <span class="amount" title={`${usage.capacity_byte_seconds} byte-seconds`}>{formatCount(gibHours(usage.capacity_byte_seconds), 1)}</span>), from: "medium" },
    { id: "closed", head: t("months.closed"), value: (row) => row.usage?.closed, cell: (row) => known(row, (usage) => (usage.closed === null ? <span class="faint">{t(row.month === running ? "months.running" : "months.open")}</span> : <Time time={usage.closed} day />)) },
    { id: "seal", head: t("months.seal"), value: (row) => row.usage?.seal, cell: (row) => row.usage?.seal && <><code title={row.usage.seal}>{row.usage.seal.slice(0, 12)}</code>{row.usage.seal_intact === false && <> <Badge tone="bad">{t("reports.sealBroken")}</Badge></>}</>, from: "medium" },
    ...(operator ? [{ id: "close", head: "", value: () => null, cell: (row: Month) => row.usage?.closed === null && row.month !== running && <Close month={row.month} closed={(period) => row.usage && replace({ ...row, usage: { ...row.usage, ...period } })} /> }] : []),
  ];
  return (
    <Panel id="months" title={t("months.title")} tools={empty.length > 0 && <label class="check"><input type="checkbox" checked={all} onChange={() => setAll(!all)} /> {t("months.empty")}<span class="count">{empty.length}</span></label>}>
      <DataTable name="months" caption={t("months.title")} columns={columns} rows={shown} keyOf={(row) => row.month} />
      <p class="faint">{t("months.note")}</p>
    </Panel>
  );
}

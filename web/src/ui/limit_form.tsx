// «set limit»: what it would do is shown before it is done; a change by somebody else in between is rejected (If-Match).

import { useEffect, useRef, useState } from "preact/hooks";
import { request, RequestError } from "../api/client";
import type { Consequences, Device, WorkloadRow } from "../api/types";
import { shellWord } from "../logic/export";
import { formatSize, parseSize, typedSize } from "../logic/format";
import { saidText, t } from "../text";
import type { Said } from "../text/message";
import { Amount, Command } from "./basics";
import { Problem } from "./events";

interface Remark extends Said {
  level: "info" | "warn" | "error";
}

/** What can be said from the numbers on the page, before the daemon was asked. */
export function ownRemarks(row: WorkloadRow, device: Device | undefined, bytes: number): Remark[] {
  const remarks: Remark[] = [];
  const used = row.used_bytes;
  if (device && bytes > device.total_bytes) {
    return [{ level: "error", text: t("limit.tooMuch", { total: formatSize(device.total_bytes), gpu: device.gpu }) }];
  }
  if (used !== null && bytes < used) {
    remarks.push({ level: "warn", text: t("limit.below", { used: formatSize(used), over: formatSize(used - bytes), limit: formatSize(bytes) }) });
  } else if (used !== null && device?.free_bytes != null) {
    const reachable = used + device.free_bytes;
    remarks.push(reachable >= bytes
      ? { level: "info", text: t("limit.reachable", { free: formatSize(device.free_bytes), limit: formatSize(bytes) }) }
      : { level: "warn", text: t("limit.notReachable", { free: formatSize(device.free_bytes), reachable: formatSize(reachable) }) });
  }
  return remarks;
}

export function LimitForm({ row, device, proposed }: { row: WorkloadRow; device: Device | undefined; proposed: string | null }) {
  const name = row.workload ?? "";
  const [limit, setLimit] = useState(proposed ?? "");
  const [guarantee, setGuarantee] = useState("");
  const [remarks, setRemarks] = useState<Remark[]>([]);
  const [problem, setProblem] = useState<unknown>(null);
  const [done, setDone] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  // The version that this person saw when they began to type: If-Match must not follow later changes of others.
  const seen = useRef<number | null>(null);
  if (seen.current === null && (limit !== "" || guarantee !== "")) seen.current = row.limit_changes ?? 0;
  useEffect(() => {
    if (proposed) setLimit(proposed);
  }, [proposed]);

  const total = device?.total_bytes ?? Number.POSITIVE_INFINITY;
  const parsed = limit === "" ? null : parseSize(limit, total);
  const parsedGuarantee = guarantee === "" ? null : parseSize(guarantee, total);
  const unreadable = [parsed, parsedGuarantee].find((one) => one && "problem" in one);
  const hint = unreadable && "problem" in unreadable ? t(`size.${unreadable.problem}`) : null;
  const body = { ...(limit ? { limit: limit.trim() } : {}), ...(guarantee ? { guarantee: guarantee.trim() } : {}), ...(row.gpu === null ? {} : { gpu: String(row.gpu) }) };
  const path = `/api/v1/workloads/${encodeURIComponent(name)}`;
  const ready = (limit !== "" || guarantee !== "") && !unreadable;
  const bytes = parsed && "bytes" in parsed ? parsed.bytes : null;

  // The daemon is asked what would happen, a moment after the last key.
  useEffect(() => {
    setProblem(null);
    if (!ready) {
      setRemarks([]);
      return undefined;
    }
    setDone(null);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      request<Consequences>(`${path}?dry_run=1`, { method: "PATCH", body, signal: abort.signal, ...(seen.current === null ? {} : { ifMatch: seen.current }) })
        .then((answer) => {
          const warned = (answer.warnings ?? []).map((warning): Remark => ({ level: "warn", text: `${warning.id} · ${warning.message}` }));
          setRemarks([...answer.data.consequences, ...warned]);
        })
        .catch((cause: unknown) => abort.signal.aborted || setProblem(cause));
    }, 250);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [limit, guarantee, ready]);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    try {
      await request(path, { method: "PATCH", body, ...(seen.current === null ? {} : { ifMatch: seen.current }) });
      setDone(bytes === null ? t("limit.done", { name }) : t("limit.doneTo", { name, limit: formatSize(bytes) }));
      setLimit("");
      setGuarantee("");
      setProblem(null);
      seen.current = null;
    } catch (cause) {
      setProblem(cause);
      if (cause instanceof RequestError && cause.problem.status === 412) seen.current = null;
    } finally {
      setBusy(false);
    }
  };
  const command = `ration set ${shellWord(name)}${limit ? ` --limit ${shellWord(limit.trim())}` : ""}${guarantee ? ` --guarantee ${shellWord(guarantee.trim())}` : ""}`;
  const shownRemarks = remarks.length > 0 ? remarks : bytes !== null ? ownRemarks(row, device, bytes) : [];
  const placeholder = row.configured_limit_bytes ?? row.limit_bytes;
  return (
    <form class="limit-form" onSubmit={(event) => void submit(event)}>
      <div class="fields">
        <label class="field">{t("column.limit")}
          <input id="limit" name="limit" autocomplete="off" spellcheck={false} value={limit} placeholder={placeholder ? typedSize(placeholder) : "12GiB"}
            aria-describedby="limit-preview" aria-invalid={Boolean(hint)} onInput={(event) => setLimit(event.currentTarget.value)} />
        </label>
        <label class="field">{t("column.guarantee")}
          <input name="guarantee" autocomplete="off" spellcheck={false} value={guarantee} placeholder={row.guarantee_bytes ? typedSize(row.guarantee_bytes) : "0B"}
            aria-describedby="limit-preview" onInput={(event) => setGuarantee(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" aria-disabled={!ready || busy}>{t("limit.set")}</button>
      </div>
      <div id="limit-preview" class="preview" aria-live="polite">
        {hint && <p class="remark error">{hint}</p>}
        {problem !== null && <Problem cause={problem} />}
        {ready && bytes !== null && problem === null && (
          <p><Amount bytes={row.configured_limit_bytes ?? row.limit_bytes} /> → <strong><Amount bytes={bytes} /></strong></p>
        )}
        {ready && problem === null && shownRemarks.map((remark) => <p key={remark.text} class={`remark ${remark.level}`}>{saidText(remark)}</p>)}
        {ready && <Command line={command} />}
        {done && <p class="remark ok">{done}</p>}
        {!ready && !hint && !done && <p class="faint">{t("limit.hint")}</p>}
      </div>
    </form>
  );
}

// Events as lines, and the panel that answers "why".

import { useEffect, useState } from "preact/hooks";
import { request, RequestError } from "../api/client";
import type { Denial, NodeEvent } from "../api/types";
import { repeated } from "../logic/events";
import { shellWord } from "../logic/export";
import { formatClock } from "../logic/format";
import { setQuery, workloadPath } from "../state/route";
import { fieldText, helpText, rejectionText, saidText, t } from "../text";
import { isCommand } from "../text/rejections";
import { saidIn } from "../text/message";
import { Amount, Badge, Command, Link, Span, Swatch, Time } from "./basics";

const bad = ["denied", "violation", "guard_lost", "suspend_failed", "alert", "orphaned", "gap"];
const warned = ["ungoverned", "shrinking", "waited", "suspended"];

export function toneOf(type: string): "bad" | "warn" | "plain" {
  return bad.includes(type) ? "bad" : warned.includes(type) ? "warn" : "plain";
}

export function EventBadge({ type }: { type: NodeEvent["type"] }) {
  return <Badge tone={toneOf(type)}>{t(`event.${type}`)}</Badge>;
}

/** A line for each event, and one for denials in a row that say the same; the text links to the permanent place of the newest. `most`: so many lines, all if left out. `full`: where the page is wide, with who is concerned, who did it, where and how much. */
export function EventLines({ events, selected, oneType, most, full }: { events: NodeEvent[]; selected?: number | null; oneType?: boolean; most?: number; full?: boolean }) {
  return (
    <ol class={`events ${oneType ? "one-type" : ""} ${full ? "full" : ""}`}>
      {repeated(events).slice(0, most).map(({ event, ids, times, since }) => {
        const chosen = selected != null && ids.includes(selected);
        return (
          <li key={event.id} class={chosen ? "selected" : ""} data-event={event.id} data-events={ids.join(" ")}>
            <Time time={event.time} />
            {!oneType && <EventBadge type={event.type} />}
            {full && <>
              <span class="event-more">{event.tenant && <Swatch tenant={event.tenant} />} {event.workload ?? event.tenant}</span><span class="event-more">{event.by ?? event.user}</span>
              <span class="event-more">{event.gpu !== null && `GPU ${event.gpu}`}</span><span class="event-more number">{event.bytes !== null && <Amount bytes={event.bytes} />}</span>
            </>}
            <Link to={`/events?event=${event.id}`} current={chosen}>{saidText(event)}</Link>
            {ids.length > 1 && <span class="count" title={`${t("event.countSince", { count: times })} ${formatClock(since)}`}>× {times}</span>}
          </li>
        );
      })}
    </ol>
  );
}

/** Whether limits that the daemon moved by itself are among the events; the URL says so. */
export const showsRoutine = (query: URLSearchParams): boolean => query.get("rebalancing") === "show";

export function RoutineSwitch({ query, hidden }: { query: URLSearchParams; hidden: number }) {
  const shown = showsRoutine(query);
  return (
    <label class="check routine"><input type="checkbox" checked={shown} onChange={() => setQuery({ rebalancing: shown ? null : "show" })} /> {t("events.rebalancing")}{hidden > 0 && <span class="count">{hidden}</span>}</label>
  );
}

export function describe(cause: unknown): string {
  if (!(cause instanceof RequestError)) return String(cause);
  const { problem } = cause;
  if (problem.status === 0) return t("error.unreachable");
  return [problem.id, rejectionText(problem)].filter(Boolean).join(" · ");
}

/** Why something was not done, and what helps. */
export function Problem({ cause }: { cause: unknown }) {
  const fix = cause instanceof RequestError ? helpText(cause.problem) : "";
  return (
    <div class="problem" role="alert">
      <p class="remark error">{describe(cause)}</p>
      {isCommand(fix) ? <Command line={fix} /> : fix && <p class="remark">{fix}</p>}
    </div>
  );
}

/** The limit of `workload` in the text of a fix such as `ration set serve --limit 12GiB`; null: it is about something else. */
export function limitIn(fix: string | null, workload: string | null): string | null {
  const words = (fix ?? "").split(" ");
  const sets = words[1] === "set" && workload !== null && words.includes(shellWord(workload));
  return sets ? words[words.indexOf("--limit") + 1] ?? null : null;
}

/** A workload's limit comes in bytes, a tenant's as somebody typed it. */
function Setting({ value }: { value: string | null }) {
  return /^\d+$/.test(value ?? "") ? <Amount bytes={Number(value)} /> : <>{value || "–"}</>;
}

export function Why({ event }: { event: NodeEvent }) {
  const [denial, setDenial] = useState<Denial | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setDenial(null);
    setProblem(null);
    if (!event.denial) return undefined;
    const abort = new AbortController();
    request<Denial>(`/api/v1/denials/${encodeURIComponent(event.denial)}`, { signal: abort.signal })
      .then((answer) => setDenial(answer.data))
      .catch((cause: unknown) => abort.signal.aborted || setProblem(describe(cause)));
    return () => abort.abort();
  }, [event.id, event.denial]);
  const fix = denial?.fix ?? event.fix;
  const limit = limitIn(fix, event.workload);
  return (
    <article class="why" aria-labelledby="why-title">
      <h3 id="why-title"><EventBadge type={event.type} /> {event.denial ?? `#${event.id}`}</h3>
      <p class="why-text">{saidText(event)}</p>
      <dl class="facts">
        <dt>{t("event.time")}</dt><dd><Time time={event.time} day /></dd>
        {event.workload && <><dt>{t("column.workload")}</dt><dd><Link to={workloadPath(event.workload)}>{event.tenant ? `${event.tenant}/` : ""}{event.workload}</Link>{event.pid !== null && <span class="faint"> pid {event.pid}</span>}</dd></>}
        {event.gpu !== null && <><dt>GPU</dt><dd>{event.gpu}</dd></>}
        {event.by && <><dt>{t("event.by")}</dt><dd>{event.by}</dd></>}
        {event.count > 1 && <><dt>{t("event.count")}</dt><dd>{t("event.countSince", { count: event.count })} <Time time={event.first_time} /></dd></>}
        {event.new !== null && <><dt>{t("event.change")}</dt><dd><Setting value={event.old} /> → <Setting value={event.new} /></dd></>}
        {denial && <>
          <dt>{t("why.asked")}</dt><dd><Amount bytes={denial.requested_bytes} /><code> {denial.function}</code></dd>
          <dt>{t("why.because")}</dt><dd class="because">{fieldText(denial, "because")}</dd>
          {denial.not_because && <><dt>{t("why.notBecause")}</dt><dd>{fieldText(denial, "not_because")}</dd></>}
          <dt>{t("why.held")}</dt><dd><Amount bytes={denial.used_bytes} /> {t("why.ofLimit")} <Amount bytes={denial.limit_bytes} /></dd>
          <dt>{t("why.deviceFree")}</dt><dd><Amount bytes={denial.device_free_bytes} na={saidIn(denial, "device_free_bytes_na")} full /></dd>
          {denial.waited_seconds ? <><dt>{t("why.waited")}</dt><dd><Span seconds={denial.waited_seconds} /></dd></> : null}
        </>}
        {!denial && event.bytes !== null && <><dt>{t("event.bytes")}</dt><dd><Amount bytes={event.bytes} /></dd></>}
      </dl>
      {problem && <p class="notice bad">{problem}</p>}
      {fix && <div class="fix"><h4>{t("why.fix")}</h4><Command line={fix} />
        {limit && event.workload && <Link class="button" to={`${workloadPath(event.workload)}?limit=${encodeURIComponent(limit)}`}>{t("why.openLimit", { limit })}</Link>}
      </div>}
      <p class="faint">{t("event.permalink")} <Link to={`/events?event=${event.id}`}>{`${location.origin}/events?event=${event.id}`}</Link></p>
    </article>
  );
}

import { useEffect, useState } from "preact/hooks";
import { request, withQuery } from "../api/client";
import { eventTypes, type NodeEvent } from "../api/types";
import { isRoutine } from "../logic/events";
import { toCsv } from "../logic/export";
import { useStore } from "../state/store";
import { setQuery, type View } from "../state/route";
import { t } from "../text";
import { CopyMenu, Empty, Panel } from "../ui/basics";
import { describe, EventLines, RoutineSwitch, showsRoutine, Why } from "../ui/events";

/** An event by its number: from what is here, or from the daemon. */
function useEvent(id: number | null, events: NodeEvent[]): { event: NodeEvent | null; problem: string | null } {
  const here = events.find((event) => event.id === id) ?? null;
  const [fetched, setFetched] = useState<NodeEvent | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setProblem(null);
    if (id === null || here) return undefined;
    const abort = new AbortController();
    request<NodeEvent>(`/api/v1/events/${id}`, { signal: abort.signal })
      .then((answer) => setFetched(answer.data))
      .catch((cause: unknown) => abort.signal.aborted || setProblem(describe(cause)));
    return () => abort.abort();
  }, [id, here === null]);
  return { event: here ?? (fetched?.id === id ? fetched : null), problem };
}

export function Events({ view }: { view: View }) {
  const live = useStore((state) => state.events);
  const missed = useStore((state) => state.missed);
  const chosen = view.query.get("event") === null ? null : Number(view.query.get("event"));
  const types = (view.query.get("type") ?? "").split(",").filter((type) => type !== "");
  const workload = view.query.get("workload") ?? "";
  const [older, setOlder] = useState<NodeEvent[]>([]);
  const filtered = types.length > 0 || workload !== "";
  // What is filtered may lie further back than the page has followed: the daemon is asked as well.
  useEffect(() => {
    setOlder([]);
    if (!filtered) return undefined;
    const abort = new AbortController();
    request<NodeEvent[]>(withQuery("/api/v1/events", { type: types.join(","), workload, limit: 200 }), { signal: abort.signal })
      .then((answer) => setOlder(answer.data))
      .catch(() => undefined);
    return () => abort.abort();
  }, [types.join(","), workload]);
  const { event, problem } = useEvent(chosen, live);
  const byId = new Map([...older, ...live].map((one) => [one.id, one]));
  const routine = showsRoutine(view.query) || types.includes("rebalanced");
  const matching = [...byId.values()]
    .filter((one) => (types.length === 0 || types.includes(one.type)) && (workload === "" || (one.workload ?? "").includes(workload)))
    .sort((left, right) => right.id - left.id);
  const shown = matching.filter((one) => routine || !isRoutine(one)).slice(0, 300);
  const toggle = (type: string) => setQuery({ type: (types.includes(type) ? types.filter((one) => one !== type) : [...types, type]).join(",") });
  const columns = ["id", "time", "type", "workload", "tenant", "user", "gpu", "pid", "bytes", "denial", "by", "text", "count", "first_time", "fix"] as const;
  const csv = () => toCsv([...columns], shown.map((one) => columns.map((column) => one[column])));
  const cli = `ration events${types.length > 0 ? ` --type ${types.join(",")}` : ""}${workload ? ` --workload ${workload}` : ""}`;
  return (
    <>
      <div class="controls">
        <fieldset class="chips">
          <legend class="hidden">{t("events.types")}</legend>
          {eventTypes.map((type) => (
            <label key={type}><input type="checkbox" checked={types.includes(type)} onChange={() => toggle(type)} /><span>{t(`event.${type}`)}</span></label>
          ))}
        </fieldset>
      </div>
      {missed.map((gap) => <p class="notice warn" key={gap.from}>{t("events.missed", { from: gap.from, to: gap.to })}</p>)}
      <div class={chosen === null ? "" : "split events-split"}>
        <Panel id="events" title={<>{t("page.events")} <span class="count">{shown.length}</span></>} tools={<>
          {types.length === 0 && <RoutineSwitch query={view.query} hidden={routine ? 0 : matching.filter(isRoutine).length} />}
          <label class="hidden" for="filter">{t("column.workload")}</label>
          <input id="filter" type="search" placeholder={t("events.workload")} value={workload} spellcheck={false} onInput={(input) => setQuery({ workload: input.currentTarget.value })} />
          <CopyMenu name={t("page.events")} csv={csv} json={() => shown} cli={cli} />
        </>}>
          {shown.length > 0 ? <EventLines events={shown} selected={chosen} full={chosen === null} /> : <Empty>{filtered ? t("filter.none") : t("events.none")}</Empty>}
        </Panel>
        {chosen !== null && (
          <Panel id="why" title={t("events.why")} class="sticky" tools={<button type="button" class="quiet" onClick={() => setQuery({ event: null })}>{t("close")}</button>}>
            {event ? <Why event={event} /> : <p class={problem ? "notice bad" : "faint"}>{problem ?? t("loading")}</p>}
          </Panel>
        )}
      </div>
    </>
  );
}

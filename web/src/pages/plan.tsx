import { useEffect, useState } from "preact/hooks";
import { request } from "../api/client";
import type { PlanAnswer, Snapshot } from "../api/types";
import { formatExact, formatSize, typedSize } from "../logic/format";
import { lookOf } from "../logic/palette";
import { bodyOf, commandOf, readTenant, writeTenant, type TenantWish, type Wish } from "../logic/plan";
import { useStore } from "../state/store";
import { setQuery, type View } from "../state/route";
import { t } from "../text";
import { Amount, Badge, Command, Panel, Swatch } from "../ui/basics";
import { describe } from "../ui/events";

/** Starts from what is there: each tenant with its guarantee, or what it uses now. */
export function wishFrom(snapshot: Snapshot): TenantWish[] {
  return snapshot.tenants.slice(0, 6).map((tenant) => {
    const guarantee = tenant.accounts.reduce((sum, account) => sum + account.guarantee_bytes, 0);
    const used = tenant.accounts.reduce((sum, account) => sum + account.used_bytes, 0);
    const gib = 2 ** 30;
    return { tenant: tenant.tenant, guarantee: typedSize(guarantee || Math.max(gib, Math.ceil(used / gib) * gib)), limit: "", count: "1" };
  });
}

function Placed({ answer }: { answer: PlanAnswer }) {
  return (
    <>
      <p class="plan-verdict">
        <Badge tone={answer.fits ? "ok" : "bad"}>{answer.fits ? t("plan.fits") : t("plan.fitsNot")}</Badge>{" "}
        {t("plan.needs")} <strong><Amount bytes={answer.needed_bytes} /></strong> {t("plan.on")} <strong><Amount bytes={answer.available_bytes} /></strong>
      </p>
      {answer.devices.map((device) => (
        <section class="device" key={String(device.gpu)} aria-label={`GPU ${device.gpu}`}>
          <header class="device-head"><h3>GPU {device.gpu} <span class="device-name">{device.name}</span></h3><span class="device-sum"><strong><Amount bytes={device.spare_bytes} /></strong> <span class="faint">{t("plan.spare")}</span></span></header>
          <div class="bar" role="img" aria-label={device.tenants.map((one) => `${one.tenant} ${formatSize(one.guarantee_bytes * one.count)}`).join(", ")}>
            {device.tenants.map((one, index) => <i key={index} class={`segment look-${lookOf(one.tenant)}`} style={{ width: `${((one.guarantee_bytes * one.count) / device.usable_bytes) * 100}%` }} title={`${one.tenant} ${formatExact(one.guarantee_bytes * one.count)}`} />)}
          </div>
          <ul class="legend">{device.tenants.map((one, index) => <li key={index}><Swatch tenant={one.tenant} />{one.tenant}{one.count > 1 ? ` ×${one.count}` : ""} <span class="legend-size"><Amount bytes={one.guarantee_bytes * one.count} /></span></li>)}</ul>
        </section>
      ))}
      {answer.left_over.map((one, index) => <p class="remark error" key={index}>{t("plan.unplaced", { tenant: one.tenant, count: one.count, size: formatSize(one.guarantee_bytes) })}</p>)}
      {answer.change && <p class="remark info">{t("plan.change", { tenant: answer.change.tenant, count: answer.change.count, size: formatSize(answer.change.guarantee_bytes), less: formatSize(answer.change.less_bytes) })}</p>}
      {answer.more_devices > 0 && <p class="remark info">{t("plan.moreDevices", { count: answer.more_devices })}</p>}
      {answer.unreachable.map((one, index) => <p class="remark info" key={index}>{t("plan.unreachable", { tenant: one.tenant, gpu: one.gpu, limit: one.limit_bytes === null ? "∞" : formatSize(one.limit_bytes), size: formatSize(one.reachable_bytes) })}</p>)}
    </>
  );
}

export function Plan({ view }: { view: View }) {
  const snapshot = useStore((state) => state.snapshot);
  const inUrl = view.query.getAll("tenant");
  const [tenants, setTenants] = useState<TenantWish[]>(() => (inUrl.length > 0 ? inUrl.flatMap((text) => text.split(";")).map(readTenant) : snapshot ? wishFrom(snapshot) : []));
  const [gpus, setGpus] = useState(view.query.get("gpu") ?? "");
  const [spread, setSpread] = useState(view.query.get("spread") === "1");
  const [answer, setAnswer] = useState<PlanAnswer | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const wish: Wish = { gpus, tenants, spread };
  const command = commandOf(wish);
  const ask = () => {
    setQuery({ gpu: gpus, tenant: tenants.map(writeTenant).join(";"), spread: spread ? "1" : null });
    request<PlanAnswer>("/api/v1/plan", { method: "POST", body: bodyOf(wish) })
      .then((got) => { setAnswer(got.data); setProblem(null); })
      .catch((cause: unknown) => { setAnswer(null); setProblem(describe(cause)); });
  };
  // A link with a plan in it shows its answer.
  useEffect(() => {
    if (inUrl.length > 0) ask();
  }, []);
  const edit = (index: number, changes: Partial<TenantWish>) => setTenants(tenants.map((one, at) => (at === index ? { ...one, ...changes } : one)));
  const fields: [keyof TenantWish, string, string][] = [["tenant", t("column.tenant"), "nlp"], ["guarantee", t("column.guarantee"), "8GiB"], ["limit", t("plan.burst"), "30GiB"], ["count", t("plan.count"), "1"]];
  return (
    <div class="split even">
      <Panel id="wish" title={t("plan.wish")}>
        <form onSubmit={(event) => { event.preventDefault(); ask(); }}>
          <label class="field wide">{t("plan.gpus")}<input name="gpus" value={gpus} placeholder={t("plan.thisNode")} spellcheck={false} onInput={(event) => setGpus(event.currentTarget.value)} /></label>
          <table class="form-table">
            <caption class="hidden">{t("page.tenants")}</caption>
            <thead><tr>{fields.map(([name, label]) => <th scope="col" key={name}>{label}</th>)}<th scope="col"><span class="hidden">{t("plan.remove")}</span></th></tr></thead>
            <tbody>
              {tenants.map((one, index) => (
                <tr key={index}>
                  {fields.map(([name, label, example]) => <td key={name}><input aria-label={`${label} ${index + 1}`} class={name === "count" ? "short" : ""} value={one[name]} placeholder={example} spellcheck={false} onInput={(event) => edit(index, { [name]: event.currentTarget.value })} /></td>)}
                  <td><button type="button" class="quiet" aria-label={`${t("plan.remove")} ${one.tenant}`} onClick={() => setTenants(tenants.filter((_, at) => at !== index))}>×</button></td>
                </tr>
              ))}
            </tbody>
          </table>
          <div class="buttons">
            <button type="button" onClick={() => setTenants([...tenants, { tenant: "", guarantee: "", limit: "", count: "1" }])}>{t("plan.add")}</button>
            <label class="check"><input type="checkbox" checked={spread} onChange={() => setSpread(!spread)} /> {t("plan.spread")}</label>
            <button type="submit" class="primary">{t("plan.ask")}</button>
          </div>
        </form>
        <p class="faint">{t("plan.same")}</p>
        <Command line={command} />
      </Panel>
      <Panel id="answer" title={t("plan.answer")}>
        <div aria-live="polite">
          {problem && <p class="notice bad">{problem}</p>}
          {answer ? <Placed answer={answer} /> : !problem && <p class="empty">{t("plan.nothingAsked")}</p>}
        </div>
      </Panel>
    </div>
  );
}

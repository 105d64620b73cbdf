// The frame of all pages: head, navigation, connection, keys.

import { useEffect, useRef, useState } from "preact/hooks";
import { token } from "./api/client";
import { formatDuration } from "./logic/format";
import { giveLooks } from "./logic/palette";
import { Events } from "./pages/events";
import { Health } from "./pages/health";
import { MemoryMap } from "./pages/map";
import { Now } from "./pages/now";
import { Queue } from "./pages/queue";
import { Recordings } from "./pages/recordings";
import { Reports } from "./pages/reports";
import { Tenants } from "./pages/tenants";
import { Timeline } from "./pages/timeline";
import { Workload } from "./pages/workload";
import { readPreferences, setPreferences, usePreferences } from "./state/preferences";
import { navigate, pageNames, pagesOfTotals, pathOf, useView, type View } from "./state/route";
import { closeDialog, isOperator, openDialog, readState, seesTotalsOnly, signIn, signOut, useNow, useStore } from "./state/store";
import { documentationPath, saidText, t } from "./text";
import { ActionDialog } from "./ui/actions";
import { Announcer } from "./ui/announcer";
import { Badge, Command, Dialog, Empty, Link } from "./ui/basics";
import { isPaletteKey, Palette, PaletteButton, paletteKey } from "./ui/palette";
import { Settings } from "./ui/settings";

const staleMs = 5000;

function Page({ view }: { view: View }) {
  const totals = useStore(seesTotalsOnly);
  if (totals && view.page !== "unknown" && !pagesOfTotals.includes(view.page)) return <Empty command="ration dashboard">{t("totals.page")}</Empty>;
  switch (view.page) {
    case "now": return <Now view={view} />;
    case "timeline": return <Timeline view={view} />;
    case "workload": return <Workload key={view.name} view={view} />;
    case "map": return <MemoryMap view={view} />;
    case "recordings": return <Recordings key={view.name} view={view} />;
    case "events": return <Events view={view} />;
    case "tenants": return <Tenants view={view} />;
    case "reports": return <Reports view={view} />;
    case "queue": return <Queue view={view} />;
    case "health": return <Health />;
    default: return <Empty>{t("page.unknown")} <Link to="/">{t("page.now")}</Link></Empty>;
  }
}

const titleOf = (view: View): string => (view.name !== "" || view.page === "workload" ? view.name : view.page === "unknown" ? t("page.unknownTitle") : t(`page.${view.page}`));

/** How old the numbers are. Grey where they are no longer those of this moment. */
function Connection() {
  const connection = useStore((state) => state.connection);
  const retryAt = useStore((state) => state.retryAt);
  const problem = useStore((state) => state.problem);
  const now = useNow();
  const { snapshotAt } = readState();
  const age = now - snapshotAt;
  const old = snapshotAt > 0 && age > staleMs;
  document.documentElement.classList.toggle("stale", old);
  const text = connection === "live" && !old ? t("connection.live") : connection === "connecting" ? t("connection.connecting")
    : old ? t("connection.old", { age: formatDuration(age / 1000) }) : t("connection.lost");
  const retry = connection === "lost" ? t("connection.retry", { time: formatDuration(Math.max(0, (retryAt - now) / 1000)) }) : "";
  return (
    <span class={`connection ${connection === "live" && !old ? "live" : connection === "connecting" ? "" : "lost"}`} title={problem ? saidText(problem) : retry}>
      <i aria-hidden="true" /><span>{text}</span>
    </span>
  );
}

function TokenDialog() {
  const [value, setValue] = useState("");
  const [rejected, setRejected] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (await signIn(value.trim())) closeDialog();
    else setRejected(true);
  };
  return (
    <Dialog title={t("token.title")} onClose={closeDialog}>
      <form onSubmit={(event) => void submit(event)} class="token-form">
        <p class="faint">{t("token.text")}</p>
        <label class="field wide">{t("token.label")}<input type="password" name="token" autocomplete="off" autofocus value={value} onInput={(event) => setValue(event.currentTarget.value)} aria-invalid={rejected} aria-describedby="token-problem" /></label>
        <p id="token-problem" class="remark error" role="alert">{rejected ? t("token.rejected") : ""}</p>
        <button type="submit" class="primary">{t("token.enter")}</button>
      </form>
    </Dialog>
  );
}

function Role() {
  const session = useStore((state) => state.session);
  if (!session) return null;
  return (
    <span class="role">
      <Badge tone={session.role === "operator" ? "ok" : "plain"} title={session.user ?? ""}>{t(`role.${session.role}`)}</Badge>
      {session.role !== "operator" && <button type="button" class="quiet" onClick={() => openDialog({ kind: "token" })}>{t("token.open")}</button>}
      {session.role === "operator" && token.read() && <button type="button" class="quiet" onClick={signOut}>{t("token.leave")}</button>}
    </span>
  );
}

function Help() {
  const { shortcuts } = usePreferences();
  const keys: [string, string][] = [[paletteKey, t("keys.palette")], ["?", t("keys.help")], ["/", t("keys.filter")], ["s", t("keys.limit")], ["1 … 9", t("keys.pages")], ["Esc", t("keys.escape")]];
  return (
    <Dialog title={t("keys.title")} onClose={closeDialog}>
      <dl class="keys">{keys.map(([key, text]) => <><dt key={key}><kbd>{key}</kbd></dt><dd>{text}</dd></>)}</dl>
      <label class="check"><input type="checkbox" checked={shortcuts} onChange={() => setPreferences({ shortcuts: !shortcuts })} /> {t("keys.enabled")}</label>
    </Dialog>
  );
}

/** A line to copy, where the clipboard is out of reach. */
function CopyDialog({ line }: { line: string }) {
  return <Dialog title={t("copy.byHand")} onClose={closeDialog}><Command line={line} /></Dialog>;
}

function OpenDialog() {
  const dialog = useStore((state) => state.dialog);
  switch (dialog?.kind) {
    case "keys": return <Help />;
    case "token": return <TokenDialog />;
    case "palette": return <Palette about={dialog.about} />;
    case "action": return <ActionDialog key={`${dialog.verb} ${dialog.workload}`} verb={dialog.verb} workload={dialog.workload} />;
    case "copy": return <CopyDialog line={dialog.line} />;
    default: return null;
  }
}

/** The palette's key everywhere but in a dialog; single keys, off while something is typed and where the person switched them off. */
function useKeys(): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (isPaletteKey(event)) {
        event.preventDefault();
        if (readState().dialog === null && document.querySelector("dialog[open]") === null) openDialog({ kind: "palette", about: null });
        return;
      }
      if (!readPreferences().shortcuts || event.ctrlKey || event.metaKey || event.altKey || target.closest("input:not([type=radio], [type=checkbox]), textarea, dialog")) return;
      const page = pageNames[Number(event.key) - 1];
      if (event.key === "?") openDialog({ kind: "keys" });
      else if (event.key === "/") document.getElementById("filter")?.focus();
      else if (event.key === "s") document.getElementById("limit")?.focus();
      else if (page) navigate(pathOf(page));
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function Navigation({ view }: { view: View }) {
  const queue = useStore((state) => state.snapshot?.queue.length ?? 0);
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [view.page, view.name]);
  return (
    <nav class={open ? "pages open" : "pages"} aria-label={t("nav.label")}>
      <button type="button" class="pages-button" aria-expanded={open} onClick={() => setOpen(!open)}>{titleOf(view)} <span aria-hidden="true">▾</span></button>
      <ul>
        {pageNames.map((page) => (
          <li key={page}><Link to={pathOf(page)} current={view.page === page}>{t(`page.${page}`)}{page === "queue" && queue > 0 ? <span class="count">{queue}</span> : null}</Link></li>
        ))}
      </ul>
    </nav>
  );
}

export function App() {
  const view = useView();
  const preferences = usePreferences();
  const host = useStore((state) => state.host);
  const simulated = useStore((state) => state.simulated);
  const version = useStore((state) => state.session?.version);
  const tenants = useStore((state) => state.snapshot?.tenants.map((tenant) => tenant.tenant).join("\n") ?? "");
  const ready = useStore((state) => state.snapshot !== null);
  const problem = useStore((state) => state.problem);
  const linkUsed = useStore((state) => state.linkUsed);
  const operator = useStore(isOperator);
  const totals = useStore(seesTotalsOnly);
  giveLooks(tenants.split("\n").filter(Boolean));
  useKeys();
  const heading = useRef<HTMLHeadingElement>(null);
  const place = `${view.page}/${view.name}`;
  const shown = useRef(place);
  useEffect(() => {
    document.title = `${titleOf(view)} · ${host || "ration"}`;
    if (shown.current === place) return;
    shown.current = place;
    scrollTo(0, 0);
    // A page that has put the focus into a field of its own knows better.
    if (document.activeElement?.tagName !== "INPUT") heading.current?.focus({ preventScroll: true });
  }, [place, host, preferences.language]);
  return (
    <>
      <a class="skip" href="#main">{t("nav.skip")}</a>
      <header class="top">
        <Link to="/" class="brand" label={`ration, ${t("page.now")}`}><svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true"><rect x="2" y="5" width="20" height="14" rx="3" class="brand-case" /><rect x="5" y="8" width="6" height="8" class="brand-a" /><rect x="12" y="8" width="3" height="8" class="brand-b" /></svg><span>ration</span></Link>
        <span class="host">{host}</span>
        {simulated && <Badge tone="plain">{t("head.simulated")}</Badge>}
        <PaletteButton />
        <Connection />
        <Role />
      </header>
      <Navigation view={view} />
      <main id="main" tabIndex={-1}>
        <h1 ref={heading} tabIndex={-1} class={view.page === "now" ? "hidden" : ""}>{titleOf(view)}</h1>
        {linkUsed && !operator && <p class="notice warn">{t("token.linkUsed")}</p>}
        {totals && <p class="notice">{t("totals.notice")}</p>}
        {ready ? <Page view={view} /> : <p class="notice bad">{problem ? saidText(problem) : t("error.noDaemon")}</p>}
      </main>
      <footer class="foot">
        <Settings />
        <button type="button" class="quiet" onClick={() => openDialog({ kind: "keys" })}>{t("keys.title")} <kbd>?</kbd></button>
        <a href={documentationPath()}>{t("foot.documentation")}</a>
        <span class="faint">ration {version}</span>
      </footer>
      <Announcer />
      <OpenDialog />
    </>
  );
}

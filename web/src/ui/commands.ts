// All that the command palette offers to whoever looks: where one may go, and what one may do there.

import { token } from "../api/client";
import type { Command } from "../logic/commands";
import { commandLine } from "../logic/export";
import { formatSize } from "../logic/format";
import { heldBy, moveOf, namesOf, shellLines } from "../logic/workloads";
import { setPreferences, type Language, type Theme } from "../state/preferences";
import { navigate, pageNames, pagesOfTotals, pathOf, workloadPath } from "../state/route";
import { isOperator, openDialog, rowsOf, seesTotalsOnly, signOut, type State, type Verb } from "../state/store";
import { documentationPath, everyText, t, type Key } from "../text";
import { copyText } from "./basics";

const go = (to: string) => () => navigate(to);

/** To the field for the limit, on the workload's page. */
function openLimit(name: string): void {
  const field = document.getElementById("limit");
  if (field && location.pathname === workloadPath(name)) field.focus();
  else navigate(`${workloadPath(name)}?limit=`);
}

async function copyLine(line: string): Promise<void> {
  if (!(await copyText(line))) openDialog({ kind: "copy", line });
}

function ofWorkload(state: State, name: string): Command[] {
  const rows = rowsOf(state.snapshot, name), { used, suspended } = heldBy(rows), tenant = rows[0]?.tenant ?? "";
  const detail = `${tenant} · ${formatSize(used || suspended)}`;
  const act = (verb: Verb): Command => ({ kind: "action", label: t(`palette.${verb}`, { name }), words: everyText(`palette.${verb}`, { name }), detail, workload: name, run: () => openDialog({ kind: "action", verb, workload: name }) });
  const actions: Command[] = [
    { kind: "action", label: t("palette.limit", { name }), words: everyText("palette.limit", { name }), detail, workload: name, run: () => openLimit(name) },
    act(moveOf(rows)), act("trim"), act("stop"),
  ];
  const copies = shellLines(name, rows).map((line): Command => {
    const whole = commandLine(line, state.session?.command_options);
    return { kind: "copy", label: `${t("copy.copy")}: ${whole}`, words: everyText("copy.copy"), workload: name, run: () => void copyLine(whole) };
  });
  return [{ kind: "workload", label: name, detail, workload: name, run: go(workloadPath(name)) }, ...(isOperator(state) ? actions : []), ...copies];
}

function settings(state: State): Command[] {
  const setting = (key: Key, of: Key, run: () => void): Command => ({ kind: "setting", label: `${t(of)}: ${t(key)}`, words: `${everyText(of)} ${everyText(key)}`, run });
  const plain = (key: Key, run: () => void): Command => ({ kind: "setting", label: t(key), words: everyText(key), run });
  const languages: [Language, string][] = [["en", "English"], ["zh-CN", "中文"]];
  return [
    ...(["auto", "light", "dark"] satisfies Theme[]).map((theme) => setting(`settings.${theme}`, "settings.theme", () => setPreferences({ theme }))),
    ...languages.map(([language, name]): Command => ({ kind: "setting", label: `${t("settings.language")}: ${name}`, words: everyText("settings.language"), run: () => setPreferences({ language }) })),
    isOperator(state) ? (token.read() ? [plain("token.leave", signOut)] : []) : [plain("token.open", () => openDialog({ kind: "token" }))],
    plain("keys.title", () => openDialog({ kind: "keys" })),
    plain("foot.documentation", () => location.assign(documentationPath())),
  ].flat();
}

export function commandsOf(state: State, about: string | null): Command[] {
  if (about !== null) return ofWorkload(state, about);
  const { snapshot } = state, totals = seesTotalsOnly(state);
  const pages = pageNames.filter((page) => !totals || pagesOfTotals.includes(page));
  const at = (gpu: number) => `/timeline?gpu=${gpu}`;
  return [
    ...pages.map((page): Command => ({ kind: "page", label: t(`page.${page}`), words: everyText(`page.${page}`), run: go(pathOf(page)) })),
    ...namesOf(snapshot?.workloads ?? []).flatMap((name) => ofWorkload(state, name)),
    ...(totals ? [] : (snapshot?.devices ?? []).map((device): Command => ({ kind: "gpu", label: `GPU ${device.gpu}`, detail: device.name, run: go(at(device.gpu)) }))),
    ...(snapshot?.tenants ?? []).map(({ tenant }): Command => ({ kind: "tenant", label: tenant, words: everyText("column.tenant"), run: go(`/tenants?tenant=${encodeURIComponent(tenant)}`) })),
    ...settings(state),
  ];
}

// The recordings of the daemon's folder, and one of them.

import type { RecordingFile, Recordings as Listed } from "../api/recording";
import { daemonSource } from "../recording/source";
import { RecordingView, type Looked } from "../recording/view";
import { recordingPath, setQuery, type View } from "../state/route";
import { t } from "../text";
import { Amount, Command, Empty, Link, Panel, Time } from "../ui/basics";
import { useLoaded } from "../ui/load";
import { DataTable, type Column } from "../ui/table";

function List({ listed, sort }: { listed: Listed; sort: string | null }) {
  const columns: Column<RecordingFile>[] = [
    { id: "name", head: t("recording.name"), header: true, value: (file) => file.name, cell: (file) => <Link to={recordingPath(file.name)}>{file.name}</Link> },
    { id: "modified", head: t("event.time"), value: (file) => file.modified, cell: (file) => <Time time={file.modified} day /> },
    { id: "user", head: t("column.user"), value: (file) => file.user, from: "medium" },
    { id: "bytes", head: t("recording.fileSize"), numeric: true, value: (file) => file.bytes, cell: (file) => <Amount bytes={file.bytes} /> },
  ];
  return listed.recordings.length > 0
    ? <DataTable name="recordings" caption={t("page.recordings")} columns={columns} rows={listed.recordings} keyOf={(file) => file.name} sort={sort} />
    : <Empty command={`ration record -o ${listed.folder}/train.rec -- python train.py`}>{t("recording.none", { folder: listed.folder })}</Empty>;
}

const numberOf = (text: string | null): number | null => (text === null || Number.isNaN(Number(text)) ? null : Number(text));

function One({ view, listed }: { view: View; listed: Listed }) {
  const { query } = view;
  const looked: Looked = { from: numberOf(query.get("from")), to: numberOf(query.get("to")), at: numberOf(query.get("at")), gpu: query.get("gpu"), with: query.get("with") };
  const change = (part: Partial<Looked>) => setQuery(Object.fromEntries(Object.entries(part).map(([name, value]) => [name, value === null ? null : String(value)])), !("from" in part));
  return (
    <>
      <p><Link to="/recordings">{t("recording.all")}</Link></p>
      <RecordingView source={daemonSource(view.name, listed.folder, listed.recordings.map((file) => file.name))} looked={looked} change={change} />
    </>
  );
}

export function Recordings({ view }: { view: View }) {
  const { data, problem } = useLoaded<Listed>("/api/v1/recordings", view.name === "" ? 10_000 : null);
  if (problem) return <p class="notice bad">{problem}</p>;
  if (!data) return <p class="empty">{t("loading")}</p>;
  if (view.name !== "") return <One view={view} listed={data} />;
  return (
    <div class="pair">
      <Panel id="recordings" title={t("recording.list")}><List listed={data} sort={view.query.get("sort")} /></Panel>
      <Panel id="elsewhere" title={t("recording.elsewhere")}>
        <p>{t("recording.elsewhereText", { folder: data.folder })}</p>
        <Command line="ration inspect train.rec -o html > train.html" />
      </Panel>
    </div>
  );
}

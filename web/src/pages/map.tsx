import { useState } from "preact/hooks";
import type { Device, Snapshot } from "../api/types";
import { formatExact, formatSize } from "../logic/format";
import { blocksOf, flow, type Block } from "../logic/layout";
import { lookOf } from "../logic/palette";
import { useStore } from "../state/store";
import { setQuery, workloadPath, type View } from "../state/route";
import { t } from "../text";
import { Amount, Choices, Link, Panel } from "../ui/basics";
import { DataTable, TableCopy, type Column } from "../ui/table";

const rowCount = 8;

const lookClass = (block: Block): string => {
  if (block.tenant !== null) return `look-${lookOf(block.tenant)} kind-${block.kind}`;
  return `part-${block.kind}`;
};

const ownerLabel = (block: Block): string => (["free", "orphaned", "unexplained", "ungoverned"].includes(block.owner) ? t(`part.${block.owner as "free"}`) : block.owner);
const kindLabel = (block: Block): string => t(`kind.${block.kind}`);
const tell = (block: Block): string => `${ownerLabel(block)} · ${kindLabel(block)} · ${formatSize(block.bytes)}`;

function Blocks({ device, blocks, chosen, choose }: { device: Device; blocks: Block[]; chosen: string | null; choose: (id: string | null) => void }) {
  const cuts = flow(blocks, device.total_bytes, rowCount);
  return (
    <div class="map" role="img" aria-label={`${t("map.label", { gpu: device.gpu })}: ${blocks.map(tell).join("; ")}`} onMouseLeave={() => choose(null)}>
      {Array.from({ length: rowCount }, (_, row) => (
        <div class="map-row" key={row}>
          {cuts.filter((cut) => cut.row === row).map((cut) => (
            <i key={`${cut.block.id}-${row}`} class={`block ${lookClass(cut.block)} ${chosen === cut.block.id ? "chosen" : ""}`} style={{ width: `${cut.width * 100}%` }}
              title={`${tell(cut.block)} (${formatExact(cut.block.bytes)})`} onMouseEnter={() => choose(cut.block.id)}>
              {cut.first && cut.width > 0.12 && <span>{ownerLabel(cut.block)}{cut.block.kind === "allocated" || cut.block.owner === cut.block.kind ? "" : ` ${kindLabel(cut.block)}`}</span>}
            </i>
          ))}
        </div>
      ))}
    </div>
  );
}

function DeviceMap({ snapshot, device, sort }: { snapshot: Snapshot; device: Device; sort: string | null }) {
  const [chosen, choose] = useState<string | null>(null);
  const blocks = blocksOf(snapshot, device);
  const columns: Column<Block>[] = [
    {
      id: "owner", head: t("map.owner"), header: true, value: ownerLabel,
      cell: (block) => <span class="workload"><i class={`swatch ${lookClass(block)}`} aria-hidden="true" />{block.tenant !== null ? <Link to={workloadPath(block.owner)}>{block.owner}</Link> : ownerLabel(block)}</span>,
    },
    { id: "tenant", head: t("column.tenant"), value: (block) => block.tenant, from: "medium" },
    { id: "kind", head: t("map.kind"), value: kindLabel },
    { id: "bytes", head: t("explain.bytes"), numeric: true, value: (block) => block.bytes, cell: (block) => <Amount bytes={block.bytes} /> },
    { id: "share", head: "%", numeric: true, value: (block) => block.bytes / device.total_bytes, cell: (block) => `${((block.bytes / device.total_bytes) * 100).toFixed(1)}%` },
  ];
  return (
    <>
      <p class="notice plain">{t("map.noAddresses")} <Link to="/recordings">{t("map.recordings")}</Link></p>
      <div class="pair">
        <Panel id="blocks" title={`GPU ${device.gpu} ${device.name}`} tools={<span class="faint">{t("map.rowIs", { size: formatSize(device.total_bytes / rowCount) })}</span>}>
          <Blocks device={device} blocks={blocks} chosen={chosen} choose={choose} />
        </Panel>
        <Panel id="block-table" title={t("map.table")} tools={<TableCopy name={t("map.table")} columns={columns} rows={blocks} cli={`ration explain --gpu ${device.gpu}`} />}>
          <DataTable name="blocks" caption={t("map.table")} columns={columns} rows={blocks} keyOf={(block) => block.id} sort={sort} rowClass={(block) => (block.id === chosen ? "chosen" : "")} />
        </Panel>
      </div>
    </>
  );
}

export function MemoryMap({ view }: { view: View }) {
  const snapshot = useStore((state) => state.snapshot);
  if (!snapshot) return null;
  const gpu = view.query.get("gpu") ?? String(snapshot.devices[0]?.gpu ?? 0);
  const device = snapshot.devices.find((one) => String(one.gpu) === gpu);
  return (
    <>
      <div class="controls">
        <Choices label="GPU" name="gpu" value={gpu} choices={snapshot.devices.map((one) => ({ value: String(one.gpu), label: `GPU ${one.gpu}` }))} onChange={(value) => setQuery({ gpu: value })} />
      </div>
      {device ? <DeviceMap snapshot={snapshot} device={device} sort={view.query.get("sort")} /> : <p class="empty">{t("now.noDevice")}</p>}
    </>
  );
}

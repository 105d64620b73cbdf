// One device as one bar: who holds what, what is promised, what is free.

import type { Device, Snapshot } from "../api/types";
import { formatDuration, formatSize, formatExact } from "../logic/format";
import { layoutDevice, type Part, type Reach } from "../logic/layout";
import { lookOf } from "../logic/palette";
import { t } from "../text";
import { saidIn } from "../text/message";
import { Amount, Badge, Link, NotKnown, Swatch, type Reason } from "./basics";

const percent = (part: number, total: number) => `${total > 0 ? Math.min(100, (part / total) * 100) : 0}%`;

export const partClass = (part: Part): string => (part.kind === "tenant" ? `look-${lookOf(part.name)}` : `part-${part.kind}`);

export function partLabel(part: Part): string {
  return part.kind === "tenant" ? part.name : t(`part.${part.kind}`);
}

/** Below the bar: from where a tenant's memory begins to where its limit ends; thick as far as its guarantee. */
function ReachLane({ reach, total }: { reach: Reach; total: number }) {
  const end = reach.limit === null ? total : reach.start + reach.limit;
  const beyond = end > total + 1;
  return (
    <div class={`lane look-line-${lookOf(reach.tenant)}`}>
      <i class={`limit ${beyond ? "beyond" : ""} ${reach.limit === null ? "open" : ""}`} style={{ left: percent(reach.start, total), width: percent(Math.min(end, total) - reach.start, total) }} />
      {reach.guarantee > 0 && <i class="guarantee" style={{ left: percent(reach.start, total), width: percent(Math.min(reach.guarantee, total - reach.start), total) }} />}
    </div>
  );
}

function Forecast({ device }: { device: Device }) {
  // That it will not be full is how it should be, and nothing to say.
  if (device.time_to_full_seconds === null) return null;
  return <Badge tone={device.time_to_full_seconds < 3600 ? "warn" : "plain"}>{t("device.fullIn", { time: formatDuration(device.time_to_full_seconds) })}</Badge>;
}

function Sensor({ value, unit, label, na }: { value: number | null; unit: string; label: string; na: Reason }) {
  return (
    <span class="sensor">
      <span class="faint">{label}</span> {value === null ? <NotKnown reason={na} /> : <span class="amount">{value}{unit}</span>}
    </span>
  );
}

export function DeviceBar({ snapshot, device }: { snapshot: Snapshot; device: Device }) {
  const layout = layoutDevice(snapshot, device);
  const id = `device-${device.gpu}`;
  const spoken = layout.parts.map((part) => `${partLabel(part)} ${formatSize(part.bytes)}`).join(", ");
  const others = layout.parts.filter((part) => part.kind !== "tenant" && part.kind !== "free");
  return (
    <section class="device" aria-labelledby={id}>
      <header class="device-head">
        <h3 id={id}><Link to={`/timeline?gpu=${device.gpu}`}>GPU {device.gpu}</Link> <span class="device-name">{device.name}</span></h3>
        <Sensor label={t("device.utilisation")} value={device.utilisation_percent} unit="%" na={saidIn(device, "utilisation_percent_na")} />
        <Sensor label={t("device.temperature")} value={device.temperature_celsius} unit=" °C" na={saidIn(device, "temperature_celsius_na")} />
        <Forecast device={device} />
        <span class="device-sum">
          <strong><Amount bytes={device.used_bytes} na={saidIn(device, "used_bytes_na")} /></strong>
          <span class="faint"> {t("device.usedOf")} </span><Amount bytes={device.total_bytes} />
          <span class="separator" aria-hidden="true" />
          <strong><Amount bytes={device.free_bytes} na={saidIn(device, "free_bytes_na")} /></strong> <span class="faint">{t("device.free")}</span>
        </span>
      </header>
      <div class="bar" role="img" aria-label={`${t("device.barLabel", { gpu: device.gpu })}: ${spoken}`}>
        {layout.parts.map((part) => (
          <i key={`${part.kind}-${part.name}`} class={`segment ${partClass(part)}`} style={{ width: percent(part.bytes, layout.total) }}
            title={`${partLabel(part)} ${formatSize(part.bytes)} (${formatExact(part.bytes)})`} />
        ))}
      </div>
      <div class="lanes" aria-hidden="true" title={t("device.lanes")}>
        {layout.reaches.map((reach) => <ReachLane key={reach.tenant} reach={reach} total={layout.total} />)}
      </div>
      <ul class="legend">
        {layout.reaches.map((reach) => (
          <li key={reach.tenant}>
            <Swatch tenant={reach.tenant} />
            <Link to={`/?filter=${encodeURIComponent(`tenant==${reach.tenant} & gpu==${device.gpu}`)}`}>{reach.tenant}</Link>
            <span class="legend-size">
              <Amount bytes={reach.used} />
              {reach.limit !== null && <span class="faint"> / <Amount bytes={reach.limit} /></span>}
            </span>
            {reach.limit !== null && reach.used >= reach.limit && reach.limit > 0 && <Badge tone="bad">{t("device.atLimit")}</Badge>}
          </li>
        ))}
        {others.map((part) => (
          <li key={part.kind} class={part.kind === "ungoverned" ? "warned" : ""}>
            <i class={`swatch ${partClass(part)}`} aria-hidden="true" />
            <span>{partLabel(part)}</span>
            <span class="legend-size"><Amount bytes={part.bytes} /></span>
          </li>
        ))}
        {layout.reaches.length > 0 && <li class="lane-key faint" title={t("device.lanes")} aria-hidden="true"><i class="key-guarantee" />{t("column.guarantee")}<i class="key-limit" />{t("column.limit")}</li>}
      </ul>
    </section>
  );
}

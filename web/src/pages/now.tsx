import { isRoutine } from "../logic/events";
import { seesTotalsOnly, useStore } from "../state/store";
import type { View } from "../state/route";
import { fieldText, t } from "../text";
import { Empty, Link, Panel } from "../ui/basics";
import { DeviceBar } from "../ui/device";
import { EventLines, RoutineSwitch, showsRoutine } from "../ui/events";
import { WorkloadPanel } from "../ui/workload_table";

export function Now({ view }: { view: View }) {
  const snapshot = useStore((state) => state.snapshot);
  const events = useStore((state) => state.events);
  const totals = useStore(seesTotalsOnly);
  if (!snapshot) return null;
  if (snapshot.devices.length === 0) return <Empty command="ration demo">{snapshot.devices_na ? fieldText(snapshot, "devices_na") : t("now.noDevice")}</Empty>;
  const devices = (
    <div class={`devices ${snapshot.devices.length > 3 ? "many" : snapshot.devices.length > 1 ? "several" : ""}`}>
      {snapshot.devices.map((device) => <DeviceBar key={device.uuid} snapshot={snapshot} device={device} />)}
    </div>
  );
  if (totals) return devices;
  const routine = showsRoutine(view.query);
  const last = events.filter((event) => routine || !isRoutine(event)).slice(-200).reverse();
  const hidden = routine ? 0 : events.filter((event) => isRoutine(event) && event.id > (last[last.length - 1]?.id ?? 0)).length;
  return (
    <>
      {devices}
      <div class="beside">
        <WorkloadPanel rows={snapshot.workloads} filter={view.query.get("filter") ?? ""} sort={view.query.get("sort")} gpus={snapshot.devices.length} />
        <Panel id="ribbon" title={t("now.lastEvents")} tools={<><RoutineSwitch query={view.query} hidden={hidden} /><Link to="/events">{t("now.allEvents")}</Link></>}>
          {last.length > 0 ? <EventLines events={last} most={20} /> : <Empty>{t("events.none")}</Empty>}
        </Panel>
      </div>
    </>
  );
}

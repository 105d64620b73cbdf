package dra

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"ration.sh/kubernetes/claim"
	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/inventory"
)

// driver answers kubelet. The helper calls it for one request after the other.
type driver struct {
	node    string
	gpuKind string
	times   times
	daemon  *daemon.Client
	client  kubernetes.Interface
	report  *reporter
	offer   *offer
	fail    context.CancelCauseFunc // ends the driver
	missing map[string]time.Time    // claims of rationd that the cluster no longer has, and since when; of look() alone
}

var _ kubeletplugin.DRAPlugin = (*driver)(nil)

// PrepareResourceClaims puts each claim before rationd. A claim that is rejected has an error of its own, which kubelet shows at the pod, and tries again.
func (d *driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, each := range claims {
		devices, err := d.prepare(ctx, each)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Claim was not prepared", "claim", klog.KObj(each), "uid", each.UID)
			d.report.denied(each, err)
		}
		results[each.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(ctx context.Context, resourceClaim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	known, err := d.known(ctx, resourceClaim)
	if err != nil {
		return nil, err
	}
	translated, err := claim.Translate(resourceClaim, d.node, known.Find)
	if err != nil {
		if errors.Is(err, claim.ErrNotCounted) && allocatedSince(resourceClaim, d.offer.since()) {
			d.offer.withdraw("claims are allocated without a count of memory: the scheduler runs without the feature gate DRAConsumableCapacity", d.times.retry)
		}
		return nil, err
	}
	var granted daemon.Granted
	if !translated.Empty() {
		if granted, err = d.put(ctx, translated); err != nil {
			return nil, err
		}
	}
	d.note(ctx, resourceClaim, translated, granted)
	return answer(translated, granted, known.KindOf(d.gpuKind)), nil
}

// known is what the claim's GPUs are: by the latest look, and by another one where that has not seen them all.
func (d *driver) known(ctx context.Context, resourceClaim *resourceapi.ResourceClaim) (inventory.Told, error) {
	told, _ := d.offer.sight.Latest()
	for _, result := range resourceClaim.Status.Allocation.Devices.Results {
		if _, found := told.Find(result.Device); result.Driver == inventory.Driver && !found {
			node, err := d.daemon.Node(ctx)
			if err != nil {
				return told, err
			}
			told.Node = node
			break
		}
	}
	return told, nil
}

// put asks rationd. What it rejects as other words of the same claim is looked at: pods that share a claim come and go, and are named in its labels.
func (d *driver) put(ctx context.Context, translated claim.Translated) (daemon.Granted, error) {
	granted, err := d.daemon.Put(ctx, translated.ID, translated.Words)
	if daemon.Is(err, daemon.OtherWords) {
		if kept, other := d.daemon.Get(ctx, translated.ID); other == nil && claim.Same(kept, translated.Words) {
			return kept, nil
		}
	}
	return granted, err
}

// answer is what kubelet tells the container runtime. A container must come under the claim once, however many of its requests it uses: engines run the
// hook of a device that is named twice twice. So the first part speaks for the requests of all.
func answer(translated claim.Translated, granted daemon.Granted, gpuKind string) []kubeletplugin.Device {
	var devices []kubeletplugin.Device
	first := -1
	for _, part := range translated.Parts {
		device := kubeletplugin.Device{Requests: []string{part.Request}, PoolName: part.Pool, DeviceName: part.DeviceRequestAllocationResult.Device, ShareID: part.ShareID}
		if !part.Admin {
			if gpuKind != "" {
				device.CDIDeviceIDs = append(device.CDIDeviceIDs, gpuKind+"="+part.Device.UUID)
			}
			if first < 0 {
				first = len(devices)
				device.CDIDeviceIDs = append(device.CDIDeviceIDs, granted.CDI)
			} else {
				devices[first].Requests = append(devices[first].Requests, part.Request)
			}
		}
		devices = append(devices, device)
	}
	return devices
}

// allocatedSince says whether a claim was allocated after a moment, so that what is missing in it tells of the cluster as it is now.
func allocatedSince(resourceClaim *resourceapi.ResourceClaim, moment time.Time) bool {
	at := resourceClaim.Status.Allocation.AllocationTimestamp
	return at == nil || !at.Time.Before(moment.Truncate(time.Second))
}

// UnprepareResourceClaims ends claims. One that rationd does not know has ended.
func (d *driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, each := range claims {
		err := d.daemon.Delete(ctx, string(each.UID))
		if err != nil {
			klog.FromContext(ctx).Error(err, "Claim was not ended", "claim", each.String(), "uid", each.UID)
			err = fmt.Errorf("claim %s: %w", each.NamespacedName, err)
		}
		results[each.UID] = err
	}
	return results, nil
}

// HandleError is told of what fails in the background.
func (d *driver) HandleError(ctx context.Context, err error, what string) {
	klog.FromContext(ctx).Error(err, what)
	var dropped *resourceslice.DroppedFieldsError
	if errors.As(err, &dropped) {
		d.offer.dropped(dropped)
	}
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.fail(fmt.Errorf("%s: %w", what, err))
	}
}

// WatchHealthStatus tells kubelet which GPUs are well, which it writes into the status of their pods.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	ticker := time.NewTicker(d.times.refresh)
	defer ticker.Stop()
	for {
		changed := d.offer.changed()
		if report := d.offer.health(); len(report.Devices) > 0 {
			select {
			case <-ctx.Done():
				return nil
			case reports <- report:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C:
		}
	}
}

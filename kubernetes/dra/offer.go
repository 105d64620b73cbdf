package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/internal/once"
	"ration.sh/kubernetes/inventory"
)

// offer decides what of the node is published. Nothing is, until rationd has told its GPUs and the API server has said that it counts memory: a slice that
// loses its counts on the way would be GPUs that belong to one claim alone.
type offer struct {
	node   string
	times  times
	client kubernetes.Interface
	report *reporter
	sight  *inventory.Sight

	mutex     sync.Mutex
	noTaints  bool   // the API server drops taints: GPUs in trouble are left out instead
	reason    string // why nothing is offered; empty: all is
	asked     bool   // the API server has said that it counts memory
	nextProbe time.Time
	published []resourceapi.Device
	first     time.Time     // when the first slice was published
	news      chan struct{} // closed when what is published has changed
	kick      chan struct{} // a look is wanted now
}

func newOffer(node string, t times, client kubernetes.Interface) *offer {
	return &offer{node: node, times: t, client: client, sight: inventory.NewSight(t.absent), news: make(chan struct{}), kick: make(chan struct{}, 1)}
}

// since is when GPUs were first offered; the future where they never were.
func (o *offer) since() time.Time {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.first.IsZero() {
		return time.Now().Add(time.Hour)
	}
	return o.first
}

// changed is closed when what is published changes.
func (o *offer) changed() <-chan struct{} {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.news
}

// withdraw takes the GPUs back until the cluster is asked again.
func (o *offer) withdraw(reason string, again time.Duration) {
	o.mutex.Lock()
	if o.reason != "" && again > o.times.probe { // withdrawn already, and asked again sooner
		o.mutex.Unlock()
		return
	}
	news := o.reason == ""
	o.reason, o.asked, o.nextProbe = reason, false, time.Now().Add(again)
	o.mutex.Unlock()
	if news {
		o.report.ofNode(context.Background(), corev1.EventTypeWarning, reasonWithdrawn, "The node's GPU memory is not offered: "+reason+
			". To do: turn the feature gate on in the API server, scheduler and kubelets (Kubernetes 1.34 and later).")
	}
	o.wake()
}

func (o *offer) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// dropped is told that the API server has stored a slice without some of its fields.
func (o *offer) dropped(err *resourceslice.DroppedFieldsError) {
	disabled := err.DisabledFeatures()
	if slices.Contains(disabled, "DRADeviceTaints") {
		o.mutex.Lock()
		o.noTaints = true
		o.published = nil // what is stored is not what was wanted
		o.mutex.Unlock()
		o.wake()
	}
	if slices.Contains(disabled, "DRAConsumableCapacity") {
		o.withdraw(notCounted, o.times.probe)
	}
}

const notCounted = "the API server does not count memory, its feature gate DRAConsumableCapacity is off"

// probe asks the API server whether it would keep a slice's counts, by one that it does not store.
func (o *offer) probe(ctx context.Context) (reason string, err error) {
	device, _ := inventory.Offer(daemon.Device{UUID: "GPU-probe", TotalBytes: 16 << 30}, daemon.Node{}, 0, nil)
	node := o.node
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ration-probe-"},
		Spec: resourceapi.ResourceSliceSpec{Driver: inventory.Driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: o.node, ResourceSliceCount: 1}, Devices: []resourceapi.Device{device}},
	}
	kept, err := draclient.New(o.client).ResourceSlices().Create(ctx, slice, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsNotFound(err):
		return "the cluster has no dynamic resource allocation", nil
	case err != nil:
		return "", err
	case len(kept.Spec.Devices) != 1 || kept.Spec.Devices[0].AllowMultipleAllocations == nil || kept.Spec.Devices[0].Capacity[inventory.Memory].RequestPolicy == nil:
		return notCounted, nil
	}
	return "", nil
}

// ask has the API server asked where that is due; an error is for the next time.
func (o *offer) ask(ctx context.Context) error {
	o.mutex.Lock()
	due := !o.asked && !time.Now().Before(o.nextProbe)
	was := o.reason
	o.mutex.Unlock()
	if !due {
		return nil
	}
	reason, err := o.probe(ctx)
	if err != nil {
		return fmt.Errorf("whether the cluster counts memory: %w", err)
	}
	if reason != "" {
		o.withdraw(reason, o.times.probe)
		return nil
	}
	o.mutex.Lock()
	o.reason, o.asked = "", true
	o.mutex.Unlock()
	if was != "" {
		o.report.ofNode(ctx, corev1.EventTypeNormal, reasonOffered, "The node's GPU memory is offered: the cluster counts it.")
	}
	return nil
}

// wanted is what should be published; false: nothing is known yet, and what an earlier driver published stays.
func (o *offer) wanted() ([]resourceapi.Device, bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.reason != "" {
		return nil, true
	}
	told, at := o.sight.Latest()
	if at.IsZero() || !o.asked {
		return nil, false
	}
	claimed := told.Guarantees(ofCluster)
	var devices []resourceapi.Device
	for _, device := range o.sight.Seen() {
		trouble := o.sight.Trouble(device)
		if trouble != nil && o.noTaints {
			continue
		}
		if offered, ok := inventory.Offer(device, told.Node, claimed[device.UUID], trouble); ok {
			devices = append(devices, offered)
		}
	}
	return devices, true
}

// health is what kubelet is told of each GPU that was ever offered.
func (o *offer) health() kubeletplugin.DeviceHealthReport {
	_, at := o.sight.Latest()
	var report kubeletplugin.DeviceHealthReport
	for _, device := range o.sight.Seen() {
		health := kubeletplugin.DeviceHealth{PoolName: o.node, DeviceName: inventory.DeviceName(device.UUID), Health: kubeletplugin.HealthStatusHealthy, LastUpdated: at}
		if trouble := o.sight.Trouble(device); trouble != nil && trouble.Key == inventory.TaintAbsent {
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, strings.ReplaceAll(trouble.Value, "-", " ")
			if o.sight.Absent() {
				health.Health = kubeletplugin.HealthStatusUnknown
			}
		}
		report.Devices = append(report.Devices, health)
	}
	return report
}

type publish func(context.Context, resourceslice.DriverResources) error

// apply publishes what is wanted, where that is something else than before.
func (o *offer) apply(ctx context.Context, publish publish) error {
	devices, known := o.wanted()
	if !known {
		return nil
	}
	o.mutex.Lock()
	same := o.published != nil && equality.Semantic.DeepEqual(devices, o.published)
	o.mutex.Unlock()
	if same {
		return nil
	}
	resources := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{}}
	if len(devices) > 0 {
		var pool resourceslice.Pool
		const most = 64 // devices of a slice that may have taints
		for chunk := range slices.Chunk(devices, most) {
			pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: chunk})
		}
		resources.Pools[o.node] = pool
	}
	if err := publish(ctx, resources); err != nil {
		return err
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.published = devices; devices == nil {
		o.published = []resourceapi.Device{}
	}
	if o.first.IsZero() && len(devices) > 0 {
		o.first = time.Now()
	}
	close(o.news)
	o.news = make(chan struct{})
	klog.FromContext(ctx).Info("Published", "devices", len(devices))
	return nil
}

// look follows rationd until ctx is done.
func (d *driver) look(ctx context.Context, publish publish) {
	ticker := time.NewTicker(d.times.look)
	defer ticker.Stop()
	var log once.Log
	var tidied time.Time
	for {
		log.Error(ctx, d.round(ctx, publish), "What is offered cannot be brought up to date")
		if now := time.Now(); now.Sub(tidied) >= d.times.tidy {
			tidied = now
			d.tidy(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.offer.kick:
		case <-ticker.C:
		}
	}
}

// round is one look: rationd is asked, then the cluster where that is due, then what has changed is published.
func (d *driver) round(ctx context.Context, publish publish) error {
	told, err := inventory.Look(ctx, d.daemon)
	if err == nil {
		d.offer.sight.Update(told)
	}
	return errors.Join(err, d.offer.ask(ctx), d.offer.apply(ctx, publish))
}

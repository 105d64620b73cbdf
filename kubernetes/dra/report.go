package dra

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	applyresource "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"ration.sh/kubernetes/claim"
	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/inventory"
)

// Reasons of the events that this driver records.
const (
	reasonDenied    = "GPUMemoryDenied"    // of a claim and its pods: it was not prepared
	reasonWithdrawn = "GPUMemoryWithdrawn" // of the node: its GPUs are no longer offered
	reasonOffered   = "GPUMemoryOffered"   // of the node: they are again
)

// reporter records events where people look: kubectl describe pod, resourceclaim, node. Events are told, not promised: one that cannot be written is lost.
type reporter struct {
	client      kubernetes.Interface
	node        string
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newReporter(client kubernetes.Interface, node string) *reporter {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typed.EventSinkImpl{Interface: client.CoreV1().Events("")})
	source := corev1.EventSource{Component: inventory.Driver, Host: node}
	return &reporter{client, node, broadcaster, broadcaster.NewRecorder(scheme.Scheme, source)}
}

func (r *reporter) stop() { r.broadcaster.Shutdown() }

// denied tells a claim and the pods that wait for it why it was not prepared.
func (r *reporter) denied(resourceClaim *resourceapi.ResourceClaim, err error) {
	r.recorder.Event(&corev1.ObjectReference{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim", Namespace: resourceClaim.Namespace,
		Name: resourceClaim.Name, UID: resourceClaim.UID}, corev1.EventTypeWarning, reasonDenied, err.Error())
	for _, user := range resourceClaim.Status.ReservedFor {
		if user.APIGroup == "" && user.Resource == "pods" {
			r.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: resourceClaim.Namespace, Name: user.Name, UID: user.UID},
				corev1.EventTypeWarning, reasonDenied, err.Error())
		}
	}
}

// ofNode records an event of the node.
func (r *reporter) ofNode(ctx context.Context, kind, reason, text string) {
	reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.node}
	if node, err := r.client.CoreV1().Nodes().Get(ctx, r.node, metav1.GetOptions{}); err == nil {
		reference.UID = node.UID
	}
	r.recorder.Event(reference, kind, reason, text)
}

// grantedData is what status.devices of a claim says beside the condition.
type grantedData struct {
	UUID           string `json:"uuid"`
	GPU            int    `json:"gpu"`
	LimitBytes     int64  `json:"limitBytes"`
	GuaranteeBytes int64  `json:"guaranteeBytes"`
	Tenant         string `json:"tenant,omitempty"`
}

// note writes into the claim's status what was granted. It is for people: a cluster that does not allow it loses nothing else.
func (d *driver) note(ctx context.Context, resourceClaim *resourceapi.ResourceClaim, translated claim.Translated, granted daemon.Granted) {
	status := applyresource.ResourceClaimStatus()
	for _, part := range translated.Parts {
		condition := applymeta.Condition().WithType("Ready").WithStatus(metav1.ConditionTrue).WithReason("Granted").WithObservedGeneration(resourceClaim.Generation).
			WithLastTransitionTime(metav1.Now()).WithMessage(textOf(part, granted))
		for _, before := range resourceClaim.Status.Devices {
			if before.Driver == part.Driver && before.Pool == part.Pool && before.Device == part.DeviceRequestAllocationResult.Device && shareOf(before.ShareID) == shareOf((*string)(part.ShareID)) &&
				len(before.Conditions) == 1 && before.Conditions[0].Type == "Ready" && before.Conditions[0].Status == metav1.ConditionTrue {
				condition.WithLastTransitionTime(before.Conditions[0].LastTransitionTime)
			}
		}
		data, err := json.Marshal(grantedData{part.Device.UUID, part.Device.Index, part.LimitBytes, part.GuaranteeBytes, granted.Tenant})
		if err != nil {
			return
		}
		device := applyresource.AllocatedDeviceStatus().WithDriver(part.Driver).WithPool(part.Pool).WithDevice(part.DeviceRequestAllocationResult.Device).
			WithConditions(condition).WithData(runtime.RawExtension{Raw: data})
		if part.ShareID != nil {
			device.WithShareID(string(*part.ShareID))
		}
		status.WithDevices(device)
	}
	apply := applyresource.ResourceClaim(resourceClaim.Name, resourceClaim.Namespace).WithUID(resourceClaim.UID).WithStatus(status)
	if _, err := d.client.ResourceV1().ResourceClaims(resourceClaim.Namespace).ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: inventory.Driver, Force: true}); err != nil {
		klog.FromContext(ctx).Error(err, "What was granted is not in the claim's status", "claim", klog.KObj(resourceClaim))
	}
}

func shareOf(share *string) string {
	if share == nil {
		return ""
	}
	return *share
}

func textOf(part claim.Part, granted daemon.Granted) string {
	if part.Admin {
		return "may look at the GPU; has none of its memory"
	}
	text := fmt.Sprintf("limit %d MiB", part.LimitBytes>>20)
	if part.GuaranteeBytes != part.LimitBytes {
		text += fmt.Sprintf(", of which %d MiB are guaranteed", part.GuaranteeBytes>>20)
	}
	if granted.Tenant != "" {
		text += ", tenant " + granted.Tenant
	}
	return text
}

package dra

import (
	"context"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"ration.sh/kubernetes/daemon"
)

var uidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ofCluster says whether a claim of rationd was made for a ResourceClaim: its number is the UID.
func ofCluster(kept daemon.Granted) bool { return uidForm.MatchString(kept.ID) }

// tidy ends claims that the cluster no longer has. Kubelet unprepares what it prepared; this is for a kubelet that lost its folder. A claim is ended after it
// was missing for a while, and only on the API server's word.
func (d *driver) tidy(ctx context.Context) {
	kept, err := d.daemon.Claims(ctx)
	if err != nil {
		return
	}
	missing := map[string]time.Time{}
	for _, each := range kept {
		if !ofCluster(each) {
			continue
		}
		namespace, name, ok := strings.Cut(each.Name, "/")
		if !ok {
			continue
		}
		found, err := d.client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		gone := apierrors.IsNotFound(err) || (err == nil && string(found.UID) != each.ID)
		if !gone {
			continue
		}
		since, before := d.missing[each.ID]
		if !before {
			since = time.Now()
		}
		if time.Since(since) < d.times.leave {
			missing[each.ID] = since
			continue
		}
		if err := d.daemon.Delete(ctx, each.ID); err != nil {
			missing[each.ID] = since
			continue
		}
		klog.FromContext(ctx).Info("Ended a claim that the cluster no longer has", "claim", each.Name, "uid", each.ID)
	}
	d.missing = missing
}

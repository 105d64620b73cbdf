package claim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"ration.sh/kubernetes/inventory"
)

// What a class or a claim says to this driver:
//
//	opaque: {driver: gpu-memory.ration.sh, parameters: {apiVersion: ration.sh/v1, kind: GPUMemory, tenant: nlp, onDeny: "wait:30s"}}
const (
	apiVersion = "ration.sh/v1"
	kind       = "GPUMemory"
)

// configuration is the parameters, read. Nil: not said.
type configuration struct {
	Limit     *int64 // bytes that may be taken beyond what was asked for, which then is what is kept (burst)
	Guarantee *int64 // bytes that are kept, where it is less than what was asked for
	Tenant    *string
	OnDeny    *string
}

var (
	onDenyForm = regexp.MustCompile(`^(fail|wait|wait:[1-9][0-9]*(ms|s|m|h))$`)
	// Bytes of one GPU: more than any GPU will have, and far from where sums overflow.
	mostBytes = int64(1) << 50
)

// bytesOf reads an amount of memory. `what` names it in the error.
func bytesOf(what, text string) (int64, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no amount of memory. To do: %s: 4Gi", what, text, what)
	}
	return bytesOfQuantity(what, quantity)
}

func bytesOfQuantity(what string, quantity resource.Quantity) (int64, error) {
	if quantity.Sign() < 0 {
		return 0, fmt.Errorf("%s: %s is negative", what, quantity.String())
	}
	if quantity.CmpInt64(mostBytes) > 0 {
		return 0, fmt.Errorf("%s: %s is more than any GPU has", what, quantity.String())
	}
	return quantity.Value(), nil
}

// parse reads the parameters of one opaque configuration. What it does not know it rejects: a misspelt field would otherwise be a limit that nobody set.
func parse(raw []byte) (configuration, error) {
	var c configuration
	var text struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Limit      *string         `json:"limit"`
		Guarantee  *string         `json:"guarantee"`
		Tenant     *string         `json:"tenant"`
		OnDeny     *string         `json:"onDeny"`
		Growth     json.RawMessage `json:"growth"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&text)
	if err == nil && decoder.More() {
		err = errors.New("there is more than one object")
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err != nil {
		return c, fmt.Errorf("parameters for %s: %s. They may have: limit, guarantee, tenant, onDeny", inventory.Driver, strings.TrimPrefix(err.Error(), "json: "))
	}
	if text.APIVersion != apiVersion || text.Kind != kind {
		return c, fmt.Errorf("parameters for %s are apiVersion %q, kind %q. To do: apiVersion: %s, kind: %s", inventory.Driver, text.APIVersion, text.Kind, apiVersion, kind)
	}
	if text.Growth != nil {
		return c, errors.New("growth: a framework reads its growth variables from the pod's own environment. To do: set TF_FORCE_GPU_ALLOW_GROWTH or XLA_PYTHON_CLIENT_PREALLOCATE in the pod, and leave growth out")
	}
	for what, field := range map[string]struct {
		text *string
		into **int64
	}{"limit": {text.Limit, &c.Limit}, "guarantee": {text.Guarantee, &c.Guarantee}} {
		if field.text == nil {
			continue
		}
		amount, err := bytesOf(what, *field.text)
		if err != nil {
			return c, err
		}
		*field.into = &amount
	}
	if text.OnDeny != nil && !onDenyForm.MatchString(*text.OnDeny) {
		return c, fmt.Errorf("onDeny: %q is none of fail, wait, wait:30s", *text.OnDeny)
	}
	if text.Tenant != nil && *text.Tenant == "" {
		return c, errors.New("tenant: is empty. To do: name one, or leave tenant out")
	}
	c.Tenant, c.OnDeny = text.Tenant, text.OnDeny
	return c, nil
}

// over is this configuration where the other one is silent.
func (c configuration) over(below configuration) configuration {
	if c.Limit == nil {
		c.Limit = below.Limit
	}
	if c.Guarantee == nil {
		c.Guarantee = below.Guarantee
	}
	if c.Tenant == nil {
		c.Tenant = below.Tenant
	}
	if c.OnDeny == nil {
		c.OnDeny = below.OnDeny
	}
	return c
}

// concerns says whether a configuration is about a request; `request` may be a subrequest, main/sub, of which `main` speaks, too.
func concerns(requests []string, request string) bool {
	if len(requests) == 0 {
		return true
	}
	main, _, _ := strings.Cut(request, "/")
	for _, each := range requests {
		if each == request || each == main {
			return true
		}
	}
	return false
}

// configurationOf is what holds for one request: later words over earlier ones, the claim's over its class's. A tenant that the class names is the
// administrator's word, and no claim may say another.
func configurationOf(all []resourceapi.DeviceAllocationConfiguration, request string) (configuration, error) {
	var ofClass, ofClaim configuration
	for _, each := range all {
		if each.Opaque == nil || each.Opaque.Driver != inventory.Driver || !concerns(each.Requests, request) {
			continue
		}
		read, err := parse(each.Opaque.Parameters.Raw)
		if err != nil {
			return configuration{}, err
		}
		if each.Source == resourceapi.AllocationConfigSourceClass {
			ofClass = read.over(ofClass)
		} else {
			ofClaim = read.over(ofClaim)
		}
	}
	if ofClass.Tenant != nil && ofClaim.Tenant != nil && *ofClass.Tenant != *ofClaim.Tenant {
		return configuration{}, fmt.Errorf("tenant: the device class says %q, and the claim may not say %q. To do: leave tenant out of the claim", *ofClass.Tenant, *ofClaim.Tenant)
	}
	return ofClaim.over(ofClass), nil
}

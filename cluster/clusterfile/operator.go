package clusterfile

import (
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/nvidia"
)

// operatorSection completes and checks what concerns NVIDIA's GPU operator.
type operatorSection struct{ *resolver }

// operatorStack checks what concerns NVIDIA's GPU operator: its raw values, and its own driver.
func (r operatorSection) operatorStack() {
	raw, n := &r.spec.NVIDIA, r.spec.NVIDIA
	if n.Stack != spec.StackOperator {
		if len(raw.Values) > 0 {
			r.Wrong(&raw.Values, "values are those of the GPU operator's chart, and the stack is another", "write stack: operator, or remove values")
		}
		return
	}
	r.operatorValues()
	if n.DriverMode == spec.DriverOperator {
		r.operatorDriver()
	}
}

// sharingOfStack refuses divided GPUs with the operator: homelab divides them before K3s starts, and the
// operator's own MIG manager would divide them again. By DRA a pod's claim says how a card is shared, not the node,
// and the claims that Kubernetes makes say nothing.
func (r operatorSection) sharingOfStack() {
	var what, do string
	only := func(strategy string) bool { return strategy == spec.SharingMIG }
	switch r.spec.NVIDIA.Stack {
	default:
		return
	case spec.StackOperator:
		what, do = "GPUs are divided only with the device plugin, and the stack is the GPU operator", "write stack: device-plugin, or strategy: time-slicing or mps"
	case spec.StackDRA:
		what, do = "by DRA a pod that requests nvidia.com/gpu has a whole card", "write strategy: none, or stack: device-plugin, which shares cards"
		only = func(strategy string) bool { return strategy != spec.SharingNone }
		if v := r.spec.K3s.Version; spec.IsK3sVersion(v) && k3s.CompareVersions(v, "v1.36.0+k3s1") < 0 {
			r.Wrong(&r.spec.NVIDIA.Stack, "Kubernetes gives pods that request nvidia.com/gpu a GPU by DRA since 1.36, and this is "+v, "write stack: device-plugin, or version: v1.36 or newer under k3s")
		}
	}
	if raw := &r.spec.NVIDIA.Sharing; only(raw.Strategy) {
		r.Wrong(&raw.Strategy, what, do)
	}
	for _, n := range r.nodes {
		if s := &n.GPUs.Sharing; r.IsSet(s) && only(s.Strategy) {
			r.Wrong(&s.Strategy, what, do)
		}
	}
}

// operatorValues refuses secrets in raw values, and raw values in another place.
func (r operatorSection) operatorValues() {
	raw := &r.spec.NVIDIA
	if key := decode.LiteralSecret(raw.Values); key != "" {
		r.Wrong(&raw.Values, fmt.Sprintf("the operator's values have a secret under %s", key),
			"make a Secret in the cluster, and write the chart's key that names one")
	}
	const name = "gpu-operator"
	if _, also := r.spec.Platform.Charts.Values[name]; also {
		r.Wrong(r.MemberAt(&r.spec.Platform.Charts.Values, name), "the operator's values have a place of their own", "write them under nvidia.values")
	}
}

// operatorDriver checks that NVIDIA's driver container works on the machines. It builds the modules
// with the compiler and the kernel's headers of its own distribution, and signs nothing.
func (r operatorSection) operatorDriver() {
	raw, n := &r.spec.NVIDIA, r.spec.NVIDIA
	if r.spec.Image.SecureBoot {
		r.Wrong(&raw.DriverMode, "modules that the operator's container builds are not signed with a key of the firmware, so secure boot rejects them",
			"write mode: prebuilt, whose modules Ubuntu signs, or secureBoot: false")
	}
	var branch *nvidia.BranchError
	if _, err := nvidia.OperatorDriver(n.Branch); errors.As(err, &branch) && (nvidiaSection(r)).driverRefuses(anyCards()) == nil {
		r.Wrong(&raw.Branch, fmt.Sprintf("driver %s cannot be used: %s", branch.Branch, branch.Reason), branch.Do)
	}
}

// operatorDistro checks that NVIDIA has a driver container for the image's distribution.
func (r operatorSection) operatorDistro() {
	n := r.spec.NVIDIA
	if n.Stack != spec.StackOperator || n.DriverMode != spec.DriverOperator || len(r.spec.GPUNodes()) == 0 {
		return
	}
	if d := distro.ByName(r.spec.Image.Distribution); d.ID != "ubuntu" {
		r.Wrong(&r.spec.NVIDIA.DriverMode, fmt.Sprintf("NVIDIA has no driver container for %s", d.Title), "write mode: dkms, or image: ubuntu-24.04")
	}
}

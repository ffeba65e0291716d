package clusterfile

import (
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
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

// operatorMIG refuses divided GPUs with the operator: homelab divides them before K3s starts, and
// the operator's own MIG manager would divide them again.
func (r operatorSection) operatorMIG() {
	if r.spec.NVIDIA.Stack != spec.StackOperator {
		return
	}
	refuse := func(at *string) {
		r.Wrong(at, "GPUs are divided only with the device plugin, and the stack is the GPU operator", "write stack: device-plugin, or strategy: time-slicing or mps")
	}
	if raw := &r.spec.NVIDIA.Sharing; raw.Strategy == spec.SharingMIG {
		refuse(&raw.Strategy)
	}
	for _, n := range r.nodes {
		if s := &n.GPUs.Sharing; r.IsSet(s) && s.Strategy == spec.SharingMIG {
			refuse(&s.Strategy)
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

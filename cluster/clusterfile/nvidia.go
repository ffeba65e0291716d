package clusterfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/nvidia"
)

// nvidiaSection completes and checks nvidia; gpus.go has a node's gpus.
type nvidiaSection struct{ *resolver }

func (r nvidiaSection) gpuStack() {
	r.sharing(&r.spec.NVIDIA.Sharing)
	r.verifyImages(&r.spec.NVIDIA.Images)
	r.driverBranch()
	r.driverMode()
}

// verifyImages are the images of gpu:verify. A digest says which one was proven to run.
func (r nvidiaSection) verifyImages(raw *spec.VerifyImages) {
	for _, image := range []*string{&raw.CUDA, &raw.PyTorch, &raw.TensorFlow} {
		name, _, digest := strings.Cut(*image, "@")
		_, tag, _ := decode.CutLast(name[strings.LastIndexByte(name, '/')+1:], ":")
		switch {
		case *image == "":
		case !decode.Matches(imageName, *image):
			r.Wrong(image, fmt.Sprintf("%q is not an image", *image), "write registry/path:tag or registry/path@sha256:…, e.g. docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime")
		case !digest && (tag == "" || tag == "latest"):
			r.Wrong(image, fmt.Sprintf("image %s changes over time, so results of two days cannot be compared", *image), "add @sha256: and its digest, or the tag of a release")
		}
	}
}

// driverMode checks that stack, driver and the image fit together.
func (r nvidiaSection) driverMode() {
	raw, n := &r.spec.NVIDIA, r.spec.NVIDIA
	switch {
	case n.DriverMode == spec.DriverOperator && n.Stack != spec.StackOperator:
		r.Wrong(&raw.DriverMode, "the driver cannot come from the GPU operator without the operator", "write stack: operator, or mode: prebuilt")
	case n.DriverMode == spec.DriverDKMS && r.spec.Image.SecureBoot:
		do := "write secureBoot: false"
		if distro.ByName(r.spec.Image.Distribution).Prebuilt.IsSupported() {
			do = "write mode: prebuilt, whose modules Ubuntu signs, or secureBoot: false"
		}
		r.Wrong(&raw.DriverMode, "modules that DKMS builds are not signed with a key of the firmware, so secure boot rejects them", do)
	}
	if n.DriverUpgrade == spec.DriverReplace && (n.DriverMode == spec.DriverOperator || n.DriverMode == spec.DriverNone) {
		r.Wrong(&raw.DriverUpgrade, fmt.Sprintf("with mode: %s no template has the driver", n.DriverMode), "remove upgrade, or write mode: prebuilt")
	}
	operatorSection(r).operatorStack()
	if n.Stack == spec.StackNone && n.Sharing.Strategy != spec.SharingNone {
		r.Wrong(&raw.Sharing.Strategy, "sharing is set up by the stack, and stack is none", "write stack: device-plugin or stack: operator")
	}
}

// driverOfDistro checks that the image's distribution has the driver for its nodes.
func (r nvidiaSection) driverOfDistro() {
	n, d := r.spec.NVIDIA, distro.ByName(r.spec.Image.Distribution)
	baked := slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return n.HasGPUs() && !n.External && !n.Adopt })
	if baked && n.DriverMode == spec.DriverPrebuilt && n.Stack != spec.StackNone && !d.Prebuilt.IsSupported() && r.spec.Image.Template == "" {
		r.Wrong(&r.spec.NVIDIA.DriverMode, fmt.Sprintf("%s has no prebuilt driver for its kernels in its archive", d.Title),
			"write nvidia: {driver: {mode: dkms}}, which builds one on each node, or image: ubuntu-24.04")
	}
}

// driverBranch compares a pinned branch with NVIDIA's life cycle. Nodes that name their cards
// are checked against it separately.
func (r nvidiaSection) driverBranch() {
	raw, n := &r.spec.NVIDIA.Driver, r.spec.NVIDIA
	if n.Branch == "auto" && n.Flavour == "auto" {
		return
	}
	if refused := r.driverRefuses(anyCards()); refused != nil {
		at := &raw.Branch
		if n.Branch == "auto" || strings.Contains(refused.Reason, "open kernel modules") && r.IsSet(&raw.Flavour) {
			at = &raw.Flavour
		}
		r.Wrong(at, fmt.Sprintf("driver %s cannot be used: %s", refused.Branch, refused.Reason), refused.Do)
	}
}

// anyCards stand for all cards: every supported branch and flavour fits an A100 or a V100.
func anyCards() []nvidia.GPU {
	return []nvidia.GPU{{ID: nvidia.PCIID{Vendor: nvidia.Vendor, Device: 0x20f1}}, {ID: nvidia.PCIID{Vendor: nvidia.Vendor, Device: 0x1db4}}}
}

// driverRefuses returns why the file's driver fits none of the cards, or nil if it fits one: a
// filter such as RTX matches many.
func (r nvidiaSection) driverRefuses(cards []nvidia.GPU) *nvidia.BranchError {
	policy := nvidia.Policy{System: r.spec.Image.Distribution, Build: r.spec.NVIDIA.DriverMode == spec.DriverDKMS}
	if b := r.spec.NVIDIA.Branch; b != "auto" {
		policy.Branch = b
	}
	if f := r.spec.NVIDIA.Flavour; f != "auto" {
		policy.Flavour = nvidia.Flavour(f)
	}
	var refused *nvidia.BranchError
	for _, card := range cards {
		_, _, err := nvidia.SelectDriverBranch([]nvidia.PCIID{card.ID}, policy)
		if err == nil {
			return nil
		}
		if refused == nil {
			errors.As(err, &refused)
		}
	}
	return refused
}

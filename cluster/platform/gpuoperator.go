package platform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
)

// GPUOperator is the part that makes GPUs allocatable with stack operator.
const GPUOperator = addon.GPUOperatorName

// RuntimeClass is the one of pods that see GPUs.
const RuntimeClass = nvidia.RuntimeClass

// HasGPUOperator reports whether the file asks for NVIDIA's GPU operator.
func HasGPUOperator(s *spec.Spec) bool {
	return s.NVIDIA.Stack == spec.StackOperator && len(s.GPUNodes()) > 0
}

// gpuOperator adds NVIDIA's operator. It deploys an exporter of its own, so the other one is removed
// first.
func (r *recipe) gpuOperator() {
	s := r.spec
	if !HasGPUOperator(s) {
		return
	}
	o := addon.GPUOperatorOptions{
		Common: r.common(GPUOperator), RuntimeClass: nvidia.RuntimeClass, Default: s.NVIDIA.Sharing.Name(), Configs: map[string]string{},
		Metrics: s.Platform.Monitoring != nil && s.Platform.Monitoring.GPUs.IsOn(),
	}
	o.Values = s.NVIDIA.Values
	err := errors.Join(configs(s, &o), operatorDriver(s, &o))
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", GPUOperator, err))
		return
	}
	part, err := addon.GPUOperator(o)
	r.add(part, err, func(x *Piece) { x.Offers, x.Replaces = true, []string{"dcgm-exporter"} })
}

// configs are the device plugin's configurations for all ways in which nodes share their GPUs.
func configs(s *spec.Spec, o *addon.GPUOperatorOptions) error {
	all := []spec.Sharing{s.NVIDIA.Sharing}
	for _, n := range s.GPUNodes() {
		all = append(all, n.GPUs.Sharing)
	}
	for _, sharing := range all {
		p := nvidia.PluginOptions{}
		switch sharing.Strategy {
		case spec.SharingTimeSlicing:
			p.Sharing, p.Replicas = nvidia.TimeSlicing, sharing.Replicas
		case spec.SharingMPS:
			p.Sharing, p.Replicas = nvidia.MPS, sharing.Replicas
		case spec.SharingMIG:
			p.MIG = nvidia.MIGMixed
			o.MIG = string(nvidia.MIGMixed)
		}
		config, err := p.Config()
		if err != nil {
			return err
		}
		o.Configs[sharing.Name()] = config
	}
	return nil
}

// operatorDriver is the driver that the operator installs, if the file asks for it.
func operatorDriver(s *spec.Spec, o *addon.GPUOperatorOptions) error {
	if s.NVIDIA.DriverMode != spec.DriverOperator {
		return nil
	}
	version, err := nvidia.OperatorDriver(s.NVIDIA.Branch)
	if err != nil {
		return err
	}
	if precompiled(s.NVIDIA.Values) { // which are named by branch and kernel
		version, _, _ = strings.Cut(version, ".")
	}
	o.Driver = &addon.GPUDriver{Version: version}
	if s.NVIDIA.Flavour != "auto" {
		o.Driver.Modules = s.NVIDIA.Flavour
	}
	return nil
}

// precompiled reports whether raw values ask for driver containers with prebuilt modules.
func precompiled(values map[string]any) bool {
	driver, _ := values["driver"].(map[string]any)
	on, _ := driver["usePrecompiled"].(bool)
	return on
}

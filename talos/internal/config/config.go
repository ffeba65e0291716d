package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	talos "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/container"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/config/validation"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
)

// Wish is what a machine is to be.
type Wish struct {
	Spec       *spec.Spec
	Node       spec.Node
	Kubernetes string // its version, 1.36.2
	Installer  string // the image that another version is installed from, image.Schematic.Installer
	ProviderID string // of its Node; empty: none. It cannot change.
	Labels     map[string]string
	Secrets    *secrets.Bundle
}

// Machine returns the machine's configuration. Equal wishes give equal bytes. It has the secrets of the
// cluster: an agent's those that every machine of the cluster has, a server's all.
func Machine(w Wish) (secret.Value, error) {
	fail := func(err error) (secret.Value, error) {
		return secret.Value{}, fmt.Errorf("configuration of %s: %w", w.Node.Name, err)
	}
	docs, err := w.documents()
	if err != nil {
		return fail(err)
	}
	text, err := docs.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
	if err != nil {
		return fail(err)
	}
	if err := check(text); err != nil {
		return fail(err)
	}
	return secret.New(string(text)), nil
}

// check does what a machine does with a configuration, except for what only a machine can.
func check(text []byte) error {
	got, err := configloader.NewFromBytes(text)
	if err != nil {
		return err
	}
	_, err = got.Validate(mode{}, validation.WithStrict())
	return err
}

// mode is a machine that boots from an image: nothing installs it (runtime.ModeCloud of Talos).
type mode struct{}

func (mode) String() string        { return "cloud" }
func (mode) RequiresInstall() bool { return false }
func (mode) InContainer() bool     { return false }

func (w Wish) documents() (*container.Container, error) {
	kind := machine.TypeWorker
	if w.Node.Role == spec.Server {
		kind = machine.TypeControlPlane
	}
	in, err := generate.NewInput(w.Spec.Name, distribution.APIURL(w.Spec), w.Kubernetes, w.options()...)
	if err != nil {
		return nil, err
	}
	in.PodNet, in.ServiceNet = texts(w.Spec.K3s.PodCIDR), texts(w.Spec.K3s.ServiceCIDR)
	made, err := in.Config(kind)
	if err != nil {
		return nil, err
	}
	v1 := made.RawV1Alpha1().DeepCopy()
	w.machine(v1.MachineConfig)
	if kind == machine.TypeControlPlane {
		w.controlPlane(v1.ClusterConfig)
		delete(v1.MachineConfig.MachineNodeLabels, labelExcluded)
	}
	registries, err := registries(w.Spec)
	if err != nil {
		return nil, err
	}
	links, err := w.network()
	if err != nil {
		return nil, err
	}
	return container.New(slices.Concat([]config.Document{v1}, links, registries)...)
}

// labelExcluded keeps load balancers away from a node.
const labelExcluded = "node.kubernetes.io/exclude-from-external-load-balancers"

func (w Wish) options() []generate.Option {
	cni := &v1alpha1.CNIConfig{CNIName: "flannel"}
	if w.Spec.K3s.Cilium() || w.Spec.K3s.FlannelBackend == "none" {
		cni.CNIName = "none"
	}
	return []generate.Option{
		generate.WithVersionContract(talos.TalosVersion1_13),
		generate.WithSecretsBundle(w.Secrets),
		generate.WithInstallImage(w.Installer),
		generate.WithDNSDomain(w.Spec.K3s.ClusterDomain),
		generate.WithClusterCNIConfig(cni),
		generate.WithAllowSchedulingOnControlPlanes(true),
		generate.WithAdditionalSubjectAltNames(w.Spec.K3s.TLSSANs),
		generate.WithSysctls(maps.Clone(w.Spec.Guest.Sysctls)),
		generate.WithClusterDiscovery(false),
	}
}

func (w Wish) machine(m *v1alpha1.MachineConfig) {
	k := m.MachineKubelet
	k.KubeletExtraArgs = v1alpha1.Args{}
	if w.ProviderID != "" {
		k.KubeletExtraArgs["provider-id"] = v1alpha1.NewArgValue(w.ProviderID, nil)
	}
	if labels := w.labels(); labels != "" {
		k.KubeletExtraArgs["node-labels"] = v1alpha1.NewArgValue(labels, nil)
	}
	if len(w.Node.Taints) > 0 {
		k.KubeletExtraConfig = v1alpha1.Unstructured{Object: map[string]any{"registerWithTaints": taints(w.Node)}}
	}
	if own := w.addresses(); len(own) > 0 {
		k.KubeletNodeIP = &v1alpha1.KubeletNodeIPConfig{KubeletNodeIPValidSubnets: own}
	}
	var modules []*v1alpha1.KernelModuleConfig
	for _, name := range w.modules() {
		modules = append(modules, &v1alpha1.KernelModuleConfig{ModuleName: name})
	}
	if len(modules) > 0 {
		m.MachineKernel = &v1alpha1.KernelConfig{KernelModules: modules}
	}
}

// labels are set when the node registers, so that no pod lands there without them; package members keeps them
// afterwards.
func (w Wish) labels() string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		out = append(out, key+"="+w.Labels[key])
	}
	return strings.Join(out, ",")
}

func taints(n spec.Node) []any {
	var out []any
	for _, t := range n.Taints {
		one := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			one["value"] = t.Value
		}
		out = append(out, one)
	}
	return out
}

// modules are the kernel modules to load: NVIDIA's are in the image (package image), which does not load them by
// itself (nvidia-gpu/nvidia-modules/files of the extensions' repository).
func (w Wish) modules() []string {
	out := slices.Clone(w.Spec.Guest.KernelModules)
	if w.Node.HasGPUs() {
		out = append(out, "nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w Wish) controlPlane(c *v1alpha1.ClusterConfig) {
	c.APIServerConfig.AdmissionControlConfig = nil
	if w.Spec.K3s.Cilium() {
		c.ProxyConfig = &v1alpha1.ProxyConfig{Disabled: new(true)}
	}
	if own := w.addresses(); len(own) > 0 {
		c.EtcdConfig.EtcdAdvertisedSubnets = own
	}
	for _, arg := range w.Spec.Platform.LoginArgs() {
		key, value, _ := strings.Cut(fmt.Sprint(arg), "=")
		if c.APIServerConfig.ExtraArgsConfig == nil {
			c.APIServerConfig.ExtraArgsConfig = v1alpha1.Args{}
		}
		c.APIServerConfig.ExtraArgsConfig[key] = v1alpha1.NewArgValue(value, nil)
	}
}

package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/bench"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// Image is one that nodes pull.
type Image struct {
	Name   string   `json:"image"`            // with registry, and with tag or digest
	Digest string   `json:"digest,omitempty"` // that the name pins
	For    []string `json:"for"`              // parts and commands
}

// List is what a file needs.
type List struct {
	Images   []Image  // sorted by name
	Unlisted []string // what more nodes pull, as sentences
}

// lister collects images by name, with what they are for.
type lister map[string][]string

func (l lister) add(of string, names ...string) {
	for _, name := range names {
		if name = Full(name); !slices.Contains(l[name], of) {
			l[name] = append(l[name], of)
		}
	}
}

func (l lister) objects(of string, all []runtime.Object) error {
	for _, o := range all {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return fmt.Errorf("%s: %w", of, err)
		}
		l.add(of, References(m)...)
	}
	return nil
}

func (l lister) manifest(of string, text []byte) error {
	all, err := kube.Decode(text)
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	return l.objects(of, all)
}

// NewList returns the images that a file needs, from the file and its charts alone. k3sImages are
// those of K3s itself ([OfK3s]).
func NewList(ctx context.Context, s *spec.Spec, charts helm.Source, k3sImages []string) (List, error) {
	l := lister{}
	l.add("k3s", k3sImages...)
	errs := []error{l.machines(s)}
	recipes, err := platform.Pieces(s, false)
	if err != nil {
		return List{}, err
	}
	out := List{}
	charts = Charts(s, charts)
	caps := helm.Capabilities{Kubernetes: s.K3s.Version}
	for _, p := range recipes {
		caps.APIs = append(caps.APIs, p.APIs...)
	}
	for _, p := range recipes {
		errs = append(errs, l.part(ctx, p, charts, caps))
		for _, more := range p.Unlisted {
			out.Unlisted = append(out.Unlisted, p.Name+": "+more)
		}
	}
	if s.Mirror != nil {
		l.add("mirror.images", s.Mirror.Images...)
	}
	if h := s.Platform.Hub; h != nil {
		for _, profile := range h.Profiles {
			l.profile(profile, &out)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		out.Images = append(out.Images, Image{name, Digest(name), l[name]})
	}
	return out, errors.Join(errs...)
}

// Charts is where the charts of a file come from. Those that the folder of its mirror does not have yet come from their
// repositories.
func Charts(s *spec.Spec, charts helm.Source) helm.Source {
	own := s.Platform.Charts
	if s.Mirror.Fills(own.Folder) && (charts.Folder == "" || charts.Folder == own.Folder) {
		if _, err := os.Stat(own.Folder); err == nil {
			charts.Folder = own.Folder
		}
		return charts
	}
	charts.Folder = cmp.Or(charts.Folder, own.Folder)
	charts.Offline = charts.Offline || own.Offline
	return charts
}

// machines adds what runs without the platform.
func (l lister) machines(s *spec.Spec) error {
	var errs []error
	if s.K3s.VIP.IsValid() {
		vip, err := k3s.KubeVIP(k3s.VIP{Address: s.K3s.VIP})
		errs = append(errs, err, l.manifest("kube-vip", vip))
	}
	if len(s.GPUNodes()) == 0 || s.NVIDIA.Stack == spec.StackNone {
		return errors.Join(errs...)
	}
	if s.NVIDIA.Stack == spec.StackDevicePlugin {
		plugin, err := addon.DevicePlugin(addon.PluginOptions{})
		errs = append(errs, err, l.objects("device-plugin", plugin))
	}
	verify := s.NVIDIA.Images
	l.add("gpu:verify", cmp.Or(verify.CUDA, check.VerifyImage), cmp.Or(verify.PyTorch, bench.Image))
	if verify.TensorFlow != "" {
		l.add("gpu:verify", verify.TensorFlow)
	}
	return errors.Join(errs...)
}

func (l lister) part(ctx context.Context, p addon.Recipe, charts helm.Source, caps helm.Capabilities) error {
	l.add(p.Name, p.Operands...)
	if len(p.Classes) > 0 {
		l.add("checks of volumes", addon.ProbeImage)
	}
	if err := l.objects(p.Name, slices.Concat(p.Before, p.After)); err != nil || p.Release == nil {
		return err
	}
	text, err := charts.RenderWhole(ctx, *p.Release, caps)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return l.manifest(p.Name, text)
}

func (l lister) profile(p spec.HubProfile, out *List) {
	if p.Image != "" {
		l.add("hub profile "+p.Name, p.Image)
	}
	for _, i := range p.Images {
		l.add("hub profile "+p.Name, i.Image)
	}
	if p.OtherImages != "" {
		out.Unlisted = append(out.Unlisted, "hub profile "+p.Name+": people type further images (otherImages: "+p.OtherImages+")")
	}
}

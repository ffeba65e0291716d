package session

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/images"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/nvidia"
)

// ImagesList prints the images that nodes pull for a file. It needs the file and the charts alone.
func ImagesList(ctx context.Context, o Options, f ImagesListFlags) error {
	s, err := Load(o)
	if err != nil {
		return err
	}
	list, err := imagesOf(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case s.JSON:
		return console.Objects(s.Console, list.Images)
	case f.Names:
		var names strings.Builder
		for _, i := range list.Images {
			names.WriteString(i.Name + "\n")
		}
		if err := s.Text(names.String()); err != nil {
			return err
		}
	default:
		t := console.Table{Header: []string{"IMAGE", "FOR"}}
		for _, i := range list.Images {
			t.Add(i.Name, strings.Join(i.For, ", "))
		}
		s.Table(t)
	}
	for _, more := range list.Unlisted {
		s.Printf("not in this list: %s", more)
	}
	if folder := s.Spec.Mirror.NVIDIA(); folder != "" && len(s.Spec.DriverNodes()) > 0 {
		packages := slices.Sorted(maps.Keys(nvidia.Toolkit{Digests: s.toolkitDigests}.Files()))
		s.Printf("not in this list: nvidia: the packages of its container toolkit, which images:mirror puts into %s: %s", folder, strings.Join(packages, ", "))
	}
	return nil
}

// imagesOf are those of the file.
func imagesOf(ctx context.Context, s *Session) (images.List, error) {
	charts, simulated := s.chartsOf(ctx)
	var own []string
	var more []string
	release := k3s.Release{Version: s.Spec.K3s.Version}
	lists := backendOf(s).ImagesOf(s.Spec)
	switch {
	case s.Spec.K3s.AirgapDir != "":
		more = append(more, "k3s: its own images are in its tarball, in "+s.Spec.K3s.AirgapDir)
	case lists != "":
		more = append(more, "kubernetes: its own images, which "+lists+" shows")
	case simulated || s.opt.Offline:
		more = append(more, "k3s: its own images, which "+release.URL("k3s-images.txt")+" lists")
	default:
		var err error
		if own, err = images.OfK3s(ctx, &http.Client{Timeout: time.Minute, Transport: s.internet}, release); err != nil {
			return images.List{}, err
		}
	}
	list, err := images.NewList(ctx, s.Spec, charts, own)
	list.Unlisted = append(more, list.Unlisted...)
	return list, err
}

// chartsOf is where the charts of the file come from, and whether the machines are simulated, which pull nothing.
func (s *Session) chartsOf(ctx context.Context) (charts helm.Source, simulated bool) {
	charts = helm.Source{Folder: s.opt.Charts, Offline: s.opt.Offline}
	if s.internet != nil {
		charts.Wrap = func(http.RoundTripper) http.RoundTripper { return s.internet }
	}
	simulated = s.Spec.IsLab() && s.Spec.LabGuests.Guests != "qemu"
	if simulated {
		if lab, err := labctl.Find(ctx, LabDir()); err == nil {
			s.labCharts(lab, &charts)
		}
	}
	return images.Charts(s.Spec, charts), simulated
}

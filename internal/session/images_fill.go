package session

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/mirror"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/nvidia"
)

// fill puts what a file needs besides images where its mirror has it: K3s, charts and NVIDIA's container toolkit into the
// folder, and the charts that a GitOps tool deploys into the registry.
func (s imageMirror) fill(ctx context.Context, f ImagesMirrorFlags, c mirror.Copier) error {
	m := s.Spec.Mirror
	if m == nil {
		return nil
	}
	in := *m // the folder to fill, or that is filled
	switch {
	case f.Out != "":
		in.Folder = f.Out
	case f.From != "":
		in.Folder = f.From
		if own, err := filepath.Abs(f.From); err == nil && m.Folder != "" && own != m.Folder {
			s.Printf("K3s, charts and NVIDIA's packages stay in %s: write mirror: {folder: %s}", f.From, f.From)
		}
	}
	pieces, err := platform.Pieces(s.Spec, false)
	if err != nil {
		return err
	}
	var charts, inGit []chart.Release
	for _, p := range pieces {
		if p.Release == nil {
			continue
		}
		charts = append(charts, *p.Release)
		if p.InGit() {
			inGit = append(inGit, *p.Release)
		}
	}
	source, _ := s.chartsOf(ctx)
	if f.From == "" && m.Folder != "" {
		if err := errors.Join(s.saveCharts(ctx, source, in, charts), s.downloadK3s(ctx, in, c.Archs), s.downloadToolkit(ctx, in)); err != nil {
			return err
		}
	}
	if c.To.Folder != "" {
		return nil
	}
	if in.Folder != "" {
		source.Folder = in.Charts()
	}
	return s.pushCharts(ctx, source, c, inGit)
}

func (s imageMirror) saveCharts(ctx context.Context, from helm.Source, in spec.Mirror, charts []chart.Release) error {
	if !s.Spec.Mirror.Fills(s.Spec.Platform.Charts.Folder) {
		return nil // the file has another folder for them
	}
	var errs []error
	saved := 0
	for _, r := range charts {
		n, err := from.Save(ctx, r, in.Charts())
		if errs = append(errs, err); n > 0 {
			saved++
			s.Printf("%s %s", r.Chart, r.Version)
		}
	}
	if err := errors.Join(errs...); err != nil || len(charts) == 0 {
		return err
	}
	s.saysCopied(saved, len(charts), "chart", in.Charts())
	return nil
}

// downloadK3s downloads the release of K3s for each architecture.
func (s imageMirror) downloadK3s(ctx context.Context, in spec.Mirror, archs []string) error {
	if !s.Spec.Mirror.Fills(s.Spec.K3s.AirgapDir) {
		return nil // the file has another folder for it
	}
	client := &http.Client{Transport: s.internet}
	copied, all := 0, 0
	for _, arch := range archs {
		r := k3s.Release{Version: s.Spec.K3s.Version, Arch: arch}
		files := mirror.Release{URL: r.URL, Sums: r.Sums(), Files: []string{r.Binary(), r.Images()}}
		err := errors.Join(k3s.CheckArch(arch), files.Download(ctx, client, in.K3s(), func(done mirror.Outcome) {
			if all++; done.Bytes > 0 {
				copied++
				s.Printf("%s of K3s %s, %s", done.Name, r.Version, spec.Size(done.Bytes))
			}
		}))
		if err != nil {
			return err
		}
	}
	s.saysCopied(copied, all, "file", in.K3s())
	return nil
}

// downloadToolkit downloads NVIDIA's container toolkit, if a node gets it from here. Those nodes are VMs, so it is that of
// one architecture.
func (s imageMirror) downloadToolkit(ctx context.Context, in spec.Mirror) error {
	if len(s.Spec.DriverNodes()) == 0 {
		return nil
	}
	t := nvidia.Toolkit{Digests: s.toolkitDigests}
	digests := t.Files()
	files := mirror.Release{URL: nvidia.ToolkitURL, Digests: digests, Files: slices.Sorted(maps.Keys(digests))}
	copied := 0
	err := files.Download(ctx, &http.Client{Transport: s.internet}, in.NVIDIA(), func(done mirror.Outcome) {
		if done.Bytes > 0 {
			copied++
			s.Printf("%s, %s", done.Name, spec.Size(done.Bytes))
		}
	})
	if err != nil {
		return err
	}
	s.saysCopied(copied, len(digests), "package", in.NVIDIA())
	return nil
}

func (s imageMirror) pushCharts(ctx context.Context, from helm.Source, c mirror.Copier, charts []chart.Release) error {
	pushed := 0
	for _, r := range charts {
		archive, err := from.Archive(ctx, r)
		if err != nil {
			return err
		}
		done, err := c.Chart(ctx, r.Chart, archive)
		if err != nil {
			return err
		}
		if done.Bytes > 0 {
			pushed++
		}
	}
	if len(charts) > 0 {
		s.saysCopied(pushed, len(charts), "chart", c.To.ChartRepository())
	}
	return nil
}

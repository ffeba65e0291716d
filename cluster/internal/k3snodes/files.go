package k3snodes

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

// Fill installs K3s in a template, unless its files come from a folder: they are copied to each node.
func (ns *Nodes) Fill(ctx context.Context, guest remote.Runner) error {
	if ns.spec.K3s.AirgapDir != "" {
		return nil
	}
	_, err := k3s.Install(ctx, guest, artifacts.Release(ns.spec, ""))
	return err
}

// TemplateRelease is where the images of the release are, which has their checksums.
func (ns *Nodes) TemplateRelease() string {
	if ns.spec.K3s.AirgapDir != "" {
		return ""
	}
	r := k3s.Release{Version: ns.spec.K3s.Version}
	return r.URL(r.Images())
}

// URL is that of the checksums of the file's release.
func (ns *Nodes) URL() string { return artifacts.SumsURL(ns.spec) }

// CheckFiles lists the files that the folder k3s.airgap lacks.
func (ns *Nodes) CheckFiles() error { return artifacts.Check(ns.spec) }

// CheckSums checks the files of k3s.airgap.
func (ns *Nodes) CheckSums(ctx context.Context) error { return artifacts.CheckSums(ctx, ns.spec) }

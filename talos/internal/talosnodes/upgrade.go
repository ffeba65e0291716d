package talosnodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/skew"
	"github.com/cps-gpu/homelab/talos/internal/image"
	"github.com/cps-gpu/homelab/talos/internal/machine"
)

// CheckUpgrade says why a machine's kubelet cannot go from a version to that of the file.
func (ns *Nodes) CheckUpgrade(from string) error {
	return skew.Versions{Program: "Kubernetes", Compare: ns.Compare, Unknown: "its kubelet has version %q, which is not a release of Kubernetes", Minor: func(version string) (minor int, ok bool) {
		n, err := fmt.Sscanf(version, "v1.%d.", &minor)
		return minor, n == 1 && err == nil
	}}.Check(from, ns.Spec.K3s.Version)
}

// talos says how the Talos of a machine differs from the file's: another version, or extensions, which are in its image too.
func (m *member) talos(s machine.State) converge.Diff {
	if !s.Configured {
		return nil
	}
	return append(converge.Compare("Talos", s.Version, m.nodes.Spec.Talos.Version, converge.Restart), m.extensions(s)...)
}

// extensions differ where a machine got its first card after it was made, for one.
func (m *member) extensions(s machine.State) converge.Diff {
	have, err := image.Extensions(s.Schematic)
	if s.Schematic == "" || err != nil { // nobody knows
		return nil
	}
	text := func(of []string) string { return strings.ReplaceAll(strings.Join(of, " "), "siderolabs/", "") }
	return converge.Compare("extensions", text(have), text(image.For(m.nodes.Spec, m.node).Customization.SystemExtensions.Official), converge.Restart)
}

// kubelet is the version of the machine's kubelet; "": it has no configuration.
func (m *member) kubelet() string {
	c := m.seen.Config()
	if c == nil {
		return ""
	}
	_, version, _ := strings.Cut(c.Machine().Kubelet().Image(), ":")
	return version
}

// outdated names the versions in one line.
func (m *member) outdated() string {
	var out []string
	for _, f := range m.versions() {
		out = append(out, f.Path+" "+f.Have+" → "+f.Want)
	}
	return strings.Join(out, ", ")
}

// versions are those of the machine that differ from the file's.
func (m *member) versions() converge.Diff {
	if !m.seen.Configured {
		return nil
	}
	return append(m.talos(m.seen), converge.Compare("Kubernetes", m.kubelet(), m.nodes.Spec.K3s.Version, converge.Restart)...)
}

// checkTalos says why the machine cannot go to the file's version of Talos.
func (m *member) checkTalos() error {
	want := m.nodes.Spec.Talos.Version
	if !m.seen.Configured || m.seen.Version == want {
		return nil
	}
	if err := machine.CheckUpgrade(m.seen.Version, want); err != nil {
		return fmt.Errorf("%s cannot go from Talos %s to %s: %w: write talos.version: %s", m.node.Name, m.seen.Version, want, err, m.seen.Version)
	}
	return nil
}

// Upgrade implements [distribution.Member]: first Talos, then Kubernetes, of which all servers' control planes come before
// the first kubelet.
func (m *member) Upgrade(ctx context.Context, w distribution.Wish, a distribution.Admission) error {
	if len(m.talos(m.seen)) > 0 {
		if err := m.upgradeTalos(ctx); err != nil {
			return err
		}
	}
	if m.node.Role == spec.Server && m.kubelet() != m.nodes.Spec.K3s.Version {
		for _, n := range m.nodes.Spec.Servers() {
			if err := m.nodes.upgradeControlPlane(ctx, n); err != nil {
				return err
			}
		}
	}
	if err := m.look(ctx); err != nil { // it may be away, for its control plane
		return err
	}
	return m.Start(ctx, w, a)
}

// upgradeTalos installs the file's version of Talos with the file's extensions, and waits until the machine runs it.
func (m *member) upgradeTalos(ctx context.Context) error {
	want := m.nodes.Spec.Talos.Version
	of := image.For(m.nodes.Spec, m.node)
	installer, err := of.Installer(want)
	if err == nil {
		err = m.nodes.keeper.announce(ctx, m.nodes.Spec, of)
	}
	if err != nil {
		return err
	}
	if err := m.machine.Upgrade(ctx, installer); err != nil {
		return err
	}
	return m.nodes.wait(ctx, installTime, fmt.Sprintf("%s does not run Talos %s", m.node.Name, want), func(ctx context.Context) (string, error) {
		seen, err := m.machine.Observe(ctx)
		switch {
		case err != nil || seen.Waits != "":
			return seen.Waits, err
		case len(m.talos(seen)) > 0:
			return m.talos(seen).String(), nil
		case !seen.Kubelet || m.node.Role == spec.Server && !seen.Etcd:
			return "its services start", nil
		}
		return "", nil
	})
}

// upgradeControlPlane brings the control plane of a server to the file's version of Kubernetes, and waits until it runs.
func (ns *Nodes) upgradeControlPlane(ctx context.Context, n spec.Node) error {
	of, err := ns.reach(n)
	if err != nil {
		return err
	}
	version := ns.Spec.K3s.Version
	return ns.wait(ctx, startTime, fmt.Sprintf("the control plane of %s does not run Kubernetes %s", n.Name, version), func(ctx context.Context) (string, error) {
		return of.SetControlPlane(ctx, version)
	})
}

// wait asks until nothing is missing. If the time ends within a request, its error is what was missing.
func (ns *Nodes) wait(ctx context.Context, limit time.Duration, failed string, ask func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := ""
	for {
		waits, err := ask(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil: // the time is over
			waits = err.Error()
		case waits == "":
			return nil
		}
		if waits != said {
			converge.Progressf(ctx, "waiting: %s", waits)
			said = waits
		}
		if err := converge.Pause(ctx, answerPause); err != nil {
			return fmt.Errorf("%s: %s: %w", failed, waits, err)
		}
	}
}

const (
	installTime = 20 * time.Minute // for another version of Talos: it is fetched, written and started
	startTime   = 10 * time.Minute // for a control plane, whose images are fetched before
)

// snapshots is the folder of those that Save has made: a machine keeps none.
func (ns *Nodes) snapshots() string { return filepath.Join(ns.Dir, "etcd") }

// Save implements [distribution.ControlPlane]. The snapshot is on this computer.
func (ns *Nodes) Save(ctx context.Context, server, prefix string) (name string, err error) {
	m, err := ns.server(ctx, server)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(ns.snapshots(), 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(ns.snapshots(), ".saving-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ignoreAbsent(os.Remove(f.Name()))) }()
	if err := errors.Join(m.Snapshot(ctx, f), f.Close()); err != nil {
		return "", err
	}
	name = prefix + "-" + server + "-" + time.Now().UTC().Format("20060102T150405Z")
	return name, os.Rename(f.Name(), filepath.Join(ns.snapshots(), name))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Snapshots implements [distribution.ControlPlane]: those of this computer, whichever server they are of.
func (ns *Nodes) Snapshots(context.Context, string) ([]distribution.Snapshot, error) {
	files, err := os.ReadDir(ns.snapshots())
	if err := ignoreAbsent(err); err != nil {
		return nil, err
	}
	var out []distribution.Snapshot
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(f.Name(), ".") {
			out = append(out, distribution.Snapshot{Name: f.Name(), Created: info.ModTime()})
		}
	}
	return out, nil
}

package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/preflight"
)

// hostStep checks, before anything changes, whether the hosts can carry what the file asks for.
// If every machine exists and runs, it checks only what may still be needed: names and storages.
func (c *holdings) hostStep() *converge.Resource[*preflight.Report] {
	return &converge.Resource[*preflight.Report]{
		ID: "proxmox",
		Observe: func(ctx context.Context) (*preflight.Report, error) {
			if err := c.checkFiles(); err != nil {
				return nil, err
			}
			if err := c.templates.CheckSources(ctx); err != nil {
				return nil, converge.Permanent(err)
			}
			if err := c.checkDiscs(ctx); err != nil {
				return nil, converge.Permanent(err)
			}
			settled, err := c.allMachinesAsFile(ctx)
			if err != nil {
				return nil, converge.Permanent(err)
			}
			report, err := preflight.Check(ctx, c.Proxmox, c.requirements(), preflight.Options{Brief: settled})
			if err == nil {
				err = refusal(report)
			}
			if err != nil {
				return nil, converge.Permanent(err)
			}
			left, err := c.orphans(ctx)
			if err != nil {
				return nil, err
			}
			strays, err := c.strays(ctx)
			if err != nil {
				return nil, err
			}
			warnings := slices.Concat(report.WithVerdict(preflight.Warning), left, strays)
			c.warnings.store(warnings, report.Notes())
			for _, f := range warnings {
				converge.Progressf(ctx, "warning: %s", f)
			}
			return report, nil
		},
		Diff: func(*preflight.Report) converge.Diff { return nil },
	}
}

// refusal is the reason why nothing may change: errors, and names and storages that could not be
// read. It leaves out those of a host that is down, since that host is already an error.
// Everything else that could not be read is checked by later steps.
func refusal(r *preflight.Report) error {
	errs := []error{r.Err()}
	away := map[string]bool{}
	for _, f := range r.WithVerdict(preflight.Error) {
		away[f.Subject] = away[f.Subject] || f.ID == "host"
	}
	for _, f := range r.WithVerdict(preflight.Skipped) {
		if (f.ID == "name" || f.ID == "storage") && !away[f.Subject] {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

// warnings are findings of the host checks that do not stop a run.
type warnings struct {
	mu    sync.Mutex
	all   []preflight.Finding
	notes []string
}

func (d *warnings) store(all []preflight.Finding, notes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all, d.notes = all, notes
}

// HostWarnings returns what the last check of the hosts by [Cluster.Up] found that may fail or works
// only for now, and, as notes, what works and is worth knowing before it happens: disks that are
// copied as a whole.
func (c *Cluster) HostWarnings() (all []preflight.Finding, notes []string) {
	c.site.warnings.mu.Lock()
	defer c.site.warnings.mu.Unlock()
	return c.site.warnings.all, c.site.warnings.notes
}

// filesCheck checks that the files for the nodes exist.
func (c *holdings) filesCheck() converge.Step {
	return &converge.Resource[struct{}]{
		ID: "artifacts",
		Observe: func(context.Context) (struct{}, error) {
			return struct{}{}, converge.Permanent(c.checkFiles())
		},
		Diff: func(struct{}) converge.Diff { return nil },
	}
}

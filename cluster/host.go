package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox"
)

// hostStep asks whether the hosts can carry what the file says, before anything
// changes: names that nobody else has, storages that are there, active, and hold what
// they are to hold.
func (c *Cluster) hostStep() *converge.Resource[[]string] {
	return &converge.Resource[[]string]{
		ID: "proxmox",
		Observe: func(ctx context.Context) ([]string, error) {
			if err := c.spec.checkArtifacts(); err != nil {
				return nil, err
			}
			if err := c.namesakes(ctx); err != nil {
				return nil, converge.Permanent(err)
			}
			var problems []string
			for _, host := range c.templateHosts() {
				p, err := c.checkHost(ctx, host)
				if err != nil {
					return nil, converge.Permanent(err)
				}
				problems = append(problems, p...)
			}
			if len(problems) > 0 {
				return nil, converge.Permanent(errors.New(strings.Join(problems, "\n")))
			}
			return nil, nil
		},
		Diff: func([]string) drift.Diff { return nil },
	}
}

// namesakes returns an error for every machine of the file whose name a VM of
// somebody else has: it is known before anything is made.
func (c *Cluster) namesakes(ctx context.Context) error {
	var names []string
	for _, n := range c.spec.Nodes {
		if !n.External {
			names = append(names, n.Name)
		}
	}
	conflicts, err := c.Proxmox.Conflicts(ctx, c.spec.tag(), names)
	errs := []error{err}
	for _, conflict := range conflicts {
		errs = append(errs, conflict)
	}
	return errors.Join(errs...)
}

// use is what a storage of a host is for.
type use struct{ storage, content, why string }

// uses lists what the file wants of a host's storages.
func (s *Spec) uses(host string) []use {
	uses := []use{
		{s.Image.SeedStorage, isoContent, "first-boot ISOs"},
	}
	if s.Image.Template == "" {
		uses = append(uses,
			use{s.Image.ImageStorage, "import", "the cloud image"},
			use{s.TemplateStorage(host), "images", "the template's disk"})
	}
	for _, n := range s.Nodes {
		if n.External || n.Host != host {
			continue
		}
		uses = append(uses, use{n.OSDisk.Storage, "images", "the disk of " + n.Name})
		for _, d := range n.Disks {
			uses = append(uses, use{d.Storage, "images", "the disk " + d.Name + " of " + n.Name})
		}
	}
	seen := map[[2]string]bool{}
	return slices.DeleteFunc(uses, func(u use) bool {
		key := [2]string{u.storage, u.content}
		defer func() { seen[key] = true }()
		return seen[key]
	})
}

func (c *Cluster) checkHost(ctx context.Context, host string) ([]string, error) {
	storages, err := c.Proxmox.Storages(ctx, host)
	if err != nil {
		return nil, err
	}
	var names, problems []string
	for _, s := range storages {
		names = append(names, s.Name)
	}
	for _, u := range c.spec.uses(host) {
		i := slices.IndexFunc(storages, func(s proxmox.Storage) bool { return s.Name == u.storage })
		switch {
		case i < 0 && len(storages) == 0:
			problems = append(problems, fmt.Sprintf("host %s shows no storage at all: the token may not see them; grant it Datastore.Audit on /storage", host))
			return problems, nil
		case i < 0:
			problems = append(problems, fmt.Sprintf("host %s has no storage %q for %s; it has %s", host, u.storage, u.why, strings.Join(names, ", ")))
		case !storages[i].Active:
			problems = append(problems, fmt.Sprintf("storage %q on %s is not active", u.storage, host))
		case !slices.Contains(storages[i].Content, u.content):
			problems = append(problems, fmt.Sprintf("storage %q on %s does not take content %q, for %s: run on the host: pvesm set %s --content %s",
				u.storage, host, u.content, u.why, u.storage, strings.Join(append(slices.Clone(storages[i].Content), u.content), ",")))
		}
	}
	return problems, nil
}

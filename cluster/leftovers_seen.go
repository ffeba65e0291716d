package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/proxmox"
)

// unneeded are leftovers of earlier files, on the hosts and in Kubernetes.
type unneeded struct {
	rests []templates.Rest
	parts []parts.Record
	given []parts.Record // parts that Fleet deploys now

	held map[string]parts.InUse // why parts stay, by part name
}

// leftOver finds the leftovers of earlier files.
func (c *Cluster) leftOver(ctx context.Context) (u unneeded, err error) {
	if u.rests, err = c.rests(ctx, c.wanted); err != nil {
		return u, err
	}
	if u.parts, u.given, err = c.parts.Retired(ctx); err != nil || len(u.parts) == 0 {
		return u, err
	}
	client, err := c.members.Kube(ctx)
	if err != nil {
		return u, err
	}
	u.held = map[string]parts.InUse{}
	for _, p := range u.parts {
		var why parts.InUse
		if err := parts.Unused(ctx, client, p); errors.As(err, &why) {
			u.held[p.Part] = why
		} else if err != nil {
			return u, err
		}
	}
	return u, nil
}

func (u unneeded) diff() drift.Diff {
	var d drift.Diff
	for _, p := range u.parts {
		d = append(d, p.Diff()...)
	}
	for _, p := range u.given {
		d = append(d, drift.Field{Path: p.Part, Have: "applied by us", Want: "Fleet's", Effect: drift.Update, Note: "it is kept"})
	}
	return append(d, diffRests(u.rests)...)
}

// still is the part of u that may be removed now: what was unneeded, still is, and has not
// changed. A part that was kept when it was shown stays, since nobody agreed to its removal.
func (u unneeded) still(now unneeded) (out unneeded, err error) {
	var errs []error
	same := func(seen, there []parts.Record) (out []parts.Record) {
		for _, p := range seen {
			i := slices.IndexFunc(there, func(o parts.Record) bool { return o.Part == p.Part })
			switch why, held := u.held[p.Part]; {
			case held:
				errs = append(errs, converge.Permanent(why))
			case i < 0: // it was removed, or the file needs it again
			case !reflect.DeepEqual(p, there[i]):
				errs = append(errs, converge.Permanent(fmt.Errorf("part %s changed after it was shown: run it again", p.Part)))
			default:
				out = append(out, p)
			}
		}
		return out
	}
	out.parts, out.given = same(u.parts, now.parts), same(u.given, now.given)
	for _, r := range u.rests {
		i := slices.IndexFunc(now.rests, func(o templates.Rest) bool { return o.Host == r.Host })
		if i < 0 {
			continue
		}
		there := now.rests[i]
		out.rests = append(out.rests, templates.Rest{
			Host:     r.Host,
			Volumes:  both(r.Volumes, there.Volumes, func(v proxmox.Volume) string { return v.ID }),
			Mappings: both(r.Mappings, there.Mappings, func(id string) string { return id }),
			Templates: both(r.Templates, there.Templates, func(vm proxmox.Summary) string {
				return fmt.Sprint(vm.VMID, " ", vm.Name)
			}),
		})
	}
	return out, errors.Join(errs...)
}

// both are the elements of seen that are also in there.
func both[T any](seen, there []T, id func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(seen), func(x T) bool {
		return !slices.ContainsFunc(there, func(y T) bool { return id(x) == id(y) })
	})
}

// Package volumes writes and reads volumes like those that users get, on the nodes that they get
// them on.
package volumes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// Config is what the checks of a node need.
type Config struct {
	Spec *spec.Spec
	Node string
}

// volume is a kind of volume that users get.
type volume struct {
	name, class string
	skip        string // why it is not tried
}

// kinds are the volumes that users get on a node.
func (c Config) kinds() (all []volume) {
	hub, storage := c.Spec.Platform.Hub, c.Spec.Platform.Storage
	scratch := ""
	if hub != nil && hub.Scratch != nil {
		scratch = hub.Scratch.Class
	}
	if own := storage.Scratch; own != nil {
		if scratch = cmp.Or(scratch, own.Class); scratch == own.Class && !slices.Contains(own.Nodes, c.Node) {
			scratch = "" // no pod gets such a volume here
		}
	}
	if scratch != "" {
		all = append(all, volume{name: check.Scratch, class: scratch})
	}
	switch {
	case hub == nil:
	case hub.Home.Claim != "":
		all = append(all, volume{name: check.Home, skip: fmt.Sprintf("not tried: all homes are in one claim, %s, which has users' data", hub.Home.Claim)})
	default:
		all = append(all, volume{name: check.Home, class: cmp.Or(hub.Home.Class, storage.Default, spec.LocalPath)})
	}
	return all
}

// Any reports whether users get volumes on the node.
func (c Config) Any() bool { return len(c.kinds()) > 0 }

// limit is how long one volume may take. The image is one that K3s brings.
const limit = 3 * time.Minute

// Check writes a file to a new volume of each kind, reads it back and removes the volume.
func (c Config) Check(ctx context.Context, k *kube.Client) []check.Check {
	var out []check.Check
	for _, v := range c.kinds() {
		one := check.Check{Node: c.Node, GPU: check.WholeNode, Name: v.name, Verdict: check.Skipped, Detail: v.skip}
		if v.skip == "" {
			v.probe(ctx, k, &one, addon.Probe{Class: v.class, Tolerations: addon.Tolerations(addon.Taints(c.Spec.Nodes)), Timeout: limit})
		}
		out = append(out, one)
	}
	return out
}

func (v volume) probe(ctx context.Context, k *kube.Client, c *check.Check, p addon.Probe) {
	speed, err := p.Measure(ctx, k, c.Node)
	if err != nil {
		c.Verdict, c.Detail = check.Failed, strings.ReplaceAll(err.Error(), "\n", "; ")
		if !strings.Contains(c.Detail, "class "+v.class) {
			c.Detail = fmt.Sprintf("class %s: %s", v.class, c.Detail)
		}
		return
	}
	c.Verdict, c.Detail = check.Passed, fmt.Sprintf("class %s: %d MiB written and read back", v.class, addon.SpeedMiB)
	for _, m := range []check.Measure{{Name: v.name + " write", Value: speed.Write, Unit: "MB/s"}, {Name: v.name + " read", Value: speed.Read, Unit: "MB/s"}} {
		if m.Value > 0 {
			c.Measures = append(c.Measures, m)
		}
	}
}

package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/cluster/internal/k3snodes"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/internal/labneeds"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// effects is everything that is made of a file before a machine is touched, by the part of the
// world that it is for: "vm/wk1", "seed/wk1", "k3s/wk1", "part/jupyterhub". An error is an effect
// too.
type effects map[string]string

func (e effects) say(name string, v any, err error) {
	var b strings.Builder
	dump(&b, reflect.ValueOf(v), 0)
	if err != nil {
		fmt.Fprintf(&b, "error: %v", err)
	}
	e[name] += b.String()
}

// unlike are the names of the effects that differ.
func (e effects) unlike(other effects) []string {
	var out []string
	for name := range maps.Keys(e) {
		if e[name] != other[name] {
			out = append(out, name)
		}
	}
	for name := range maps.Keys(other) {
		if _, both := e[name]; !both {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// hostsFor are simulated hosts on which a file fits, nil for a file without Proxmox VE.
func hostsFor(t *testing.T, s *spec.Spec) *proxmox.Client {
	if !s.HasProxmox() {
		return nil
	}
	_, model := labmodel.ModelFor(labneeds.NeedsOf(s))
	sim := pvesim.New(model, pvesim.Options{})
	t.Cleanup(sim.Close)
	id, token := sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: sim.Client().Transport},
	})
	require.NoError(t, err)
	return pve
}

// effectsOf computes the effects of a file on these hosts. It changes nothing.
func effectsOf(t *testing.T, asked *spec.Spec, hosts *proxmox.Client, login ssh.Signer) effects {
	e := effects{}
	s, err := placement.Place(t.Context(), asked, hosts)
	if err != nil {
		e.say("place", nil, err)
		return e
	}
	cluster, err := New(s, Backend{Proxmox: hosts, Dir: "nowhere", Signers: []ssh.Signer{login}})
	require.NoError(t, err)
	defer cluster.Close()
	c := insideOf(cluster)
	up := c.Up()
	e.say("steps", up.Names(), nil)
	e.say("patience", up.Patience, nil)
	e.say("artifacts", artifacts.Release(s, ""), artifacts.Check(s))
	if hosts != nil {
		e.ofHosts(t.Context(), c)
	}
	for _, n := range s.Machines() {
		e.ofMachine(t.Context(), c, n)
	}
	e.ofPlatform(c)
	return e
}

func (e effects) ofHosts(ctx context.Context, c inside) {
	w := c.requirements()
	for i := range w.Addresses {
		w.Addresses[i].Place = ""
	}
	e.say("host", []any{w.Owner, w.Grants, w.Role, w.ReadGrants, w.Ticket, w.Driver, w.Release, w.Hosts, w.VMs}, nil)
	e.say("addresses", w.Addresses, nil)
	for _, host := range c.templates.Hosts() {
		shares, _, _, err := c.shareDevices(ctx, host)
		e.say("devices/"+host, shares, err)
		a, err := c.allot(ctx, host)
		if err != nil {
			e.say("gpus/"+host, nil, err)
			continue
		}
		for _, n := range c.spec.GPUMachines() {
			if share, ok := a.Shares[n.Name]; ok && n.Host == host {
				if share.Err == nil && len(n.GPUs.Mapping) == 0 {
					e.say("gpus/"+n.Name, c.mapping(n, a), nil)
				}
				e.say("gpus/"+n.Name, share.Cards, share.Err)
			}
		}
		if c.spec.Image.Template == "" {
			all, err := c.templates.Templates(ctx, host)
			for _, t := range all {
				e.say("template/"+host, t, nil)
			}
			e.say("template/"+host, nil, err)
		}
	}
}

func (e effects) ofMachine(ctx context.Context, c inside, n spec.Node) {
	if !n.External {
		sd, err := c.seeds.Seed(n)
		e.say("seed/"+n.Name, sd.File, err)
		vm := c.vm(n, "", "")
		if c.spec.Image.Template != "" {
			vm, err = c.templates.SetTemplate(ctx, n, vm, nil)
		}
		e.say("claims/"+n.Name, vm.Claims, nil)
		vm.Claims = nil
		e.say("vm/"+n.Name, vm, err)
		for _, d := range nodes.MountedDisks(n) { // what the script in the guest gets
			e.say("disks/"+n.Name, []string{d.Name, d.FS, d.Mount}, nil)
		}
	}
	switch n.Role {
	case spec.FileServer:
		e.say("export", first(c.nodes.ExportStep(n)), nil)
		return
	case spec.PlainVM:
		e.say("image/"+n.Name, []any{n.Boot.Cloud, names.VMImage(c.spec, n.Boot.Cloud)}, nil)
		return
	}
	e.say("node/"+n.Name, c.members.Marks(n), nil)
	e.say("mig/"+n.Name, offer.Layouts(n), nil)
	if n.Role == spec.Agent {
		agent, err := k3snodes.New(c.spec, nil).Agent(n, c.members.Wish(n, "", true))
		e.say("k3s/"+n.Name, []any{agent.Version, agent.Registries}, err)
		config, err := agent.YAML()
		e.say("k3s/"+n.Name, config, err)
		return
	}
	server, err := k3snodes.New(c.spec, nil).Server(n, c.members.Wish(n, "", n.Name != c.spec.Servers()[0].Name))
	e.say("k3s/"+n.Name, []any{server.Version, server.Registries, server.Manifests, server.S3}, err)
	config, err := server.YAML()
	e.say("k3s/"+n.Name, config, err)
}

func (e effects) ofPlatform(c inside) {
	s := c.spec
	if c.members.HasPlugin() && s.NVIDIA.Stack == spec.StackDevicePlugin {
		objects, err := members.PluginObjects(s)
		e.say("plugin", objects, err)
	}
	e.say("driver", templates.DriverPolicy(s, ""), nil)
	e.say("entrances", []any{c.Endpoints(), Passwords(s)}, nil)
	e.say("fit", platform.Fit(s), nil)
	pieces, err := platform.Pieces(s, true)
	if err != nil {
		e.say("parts", nil, err)
	}
	var through []chart.Part
	for _, p := range pieces {
		e.say("part/"+p.Name, p, nil)
		if p.InGit() {
			through = append(through, p.Part)
		}
	}
	if f, _ := s.Platform.GitOps(); f != nil && f.Repo != "" {
		tree, err := platform.Tree(s, through)
		e.say("fleet/tree", tree, err)
		remote, err := c.parts.FleetRemote()
		e.say("fleet/remote", remote, err)
	}
}

// first is what a step would do where there is nothing yet.
func first[T any](step *converge.Resource[T]) converge.Diff {
	var nothing T
	return step.Diff(nothing)
}

// dump writes a value with everything that it points to, also what fmt hides: secrets, and fields
// behind pointers. Functions and what is deeper than any of our values are left out.
func dump(b *strings.Builder, v reflect.Value, depth int) {
	if depth > 30 {
		return
	}
	switch v.Kind() {
	case reflect.Invalid, reflect.Func, reflect.Chan:
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			dump(b, v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fmt.Fprintf(b, "%s:", v.Type().Field(i).Name)
				dump(b, v.Field(i), depth+1)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(b, "%x\n", sha256.Sum256(v.Bytes()))
			return
		}
		for i := range v.Len() {
			fmt.Fprintf(b, "-%d ", i)
			dump(b, v.Index(i), depth+1)
		}
	case reflect.Map:
		lines := make([]string, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			var line strings.Builder
			dump(&line, it.Key(), depth+1)
			dump(&line, it.Value(), depth+1)
			lines = append(lines, line.String())
		}
		slices.Sort(lines)
		fmt.Fprintf(b, "{%s}", strings.Join(lines, ""))
	default: // fmt prints basic kinds of unexported fields, too
		fmt.Fprintf(b, "%v\n", v)
	}
}

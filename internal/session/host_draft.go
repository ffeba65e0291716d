package session

import (
	"cmp"
	"context"
	_ "embed" // the draft below
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed host_draft.yaml
var hostDraft string

// HostPrepFirst prepares a host before there is a cluster file: for all its NVIDIA cards, its
// storages, and a token with which cluster:init can inspect the host and write the file.
func hostPrepFirst(s *Session, ctx context.Context, f HostPrepFlags) error {
	r, done, err := s.HostRunner(ctx, f.HostFlags, f.Host)
	if err != nil {
		return err
	}
	defer done()
	s.Printf("No %s here: %s is prepared for all its NVIDIA cards. Run it again with the file, once there is one.", DefaultSpec, f.SSH)
	if s.Spec, err = draftSpec(s, ctx, f, r); err != nil {
		return err
	}
	name := s.Spec.Proxmox.Host
	f.Host = ""
	s.prepGrants = []proxmox.Grant{
		{Path: "/nodes/" + name, Privileges: []string{"Sys.Audit"}, Reason: "let cluster:init see the number of CPUs and the memory"},
		{Path: "/storage", Privileges: []string{"Datastore.Audit"}, Propagate: true, Reason: "let cluster:init see the storages"},
		{Path: "/sdn/zones/localnetwork", Privileges: []string{"SDN.Audit"}, Propagate: true, Reason: "let cluster:init see the bridges"},
	}
	ref := s.Spec.Proxmox.TokenSecret.String()
	if f.Out != "" {
		ref = "file:" + f.Out
	}
	s.prepNext = fmt.Sprintf("homelab cluster:init -endpoint=%s -token=%s -secret=%s", printable.Word(s.Spec.Proxmox.Endpoint), printable.Word(s.Spec.Proxmox.TokenID), printable.Word(ref))
	return hostPrep(s, ctx, f)
}

// draftSpec is a file as cluster:init would write it, as far as needed here.
func draftSpec(s *Session, ctx context.Context, f HostPrepFlags, r remote.Runner) (*spec.Spec, error) {
	state, err := hostprep.Observe(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.SSH, err)
	}
	if f.Host != "" && f.Host != state.Host {
		return nil, exitErrorf(invalid, "-host=%s: the machine at %s has the host name %s", f.Host, f.SSH, state.Host)
	}
	seen, err := hostprep.Access{}.ObserveAccess(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.SSH, err)
	}
	address, _, err := net.SplitHostPort(s.hostAddress(f.HostFlags, state.Host).Addr)
	if err != nil {
		return nil, err
	}
	name, gpus := cmp.Or(f.Name, "homelab"), "0"
	if slices.ContainsFunc(state.Devices, func(d hostprep.Device) bool { return d.IsGPU() }) {
		gpus = "1"
	}
	text := strings.NewReplacer(
		"NAME", name, "ADDRESS", address, "HOST", state.Host, "GPUS", gpus,
		"SECRET", filepath.Join(".homelab", name, "proxmox-token"), // where cluster:init keeps it
		"FILES", cmp.Or(pick(seen, "iso", "dir"), "local"), "DISKS", cmp.Or(pick(seen, "images", "lvmthin", "zfspool", "rbd"), "local-lvm"),
	).Replace(hostDraft)
	spec, err := cluster.Parse("what host:prep assumes", []byte(text))
	if err != nil {
		return nil, exitError(invalid, err)
	}
	spec.Dir = "."
	return spec, nil
}

// pick returns the first storage for a content type, of a preferred type if there is one.
func pick(s hostprep.AccessState, content string, types ...string) string {
	best := ""
	for _, st := range s.Storages {
		switch {
		case !slices.Contains(st.Content, content):
		case slices.Contains(types, st.Type):
			return st.Name
		case best == "":
			best = st.Name
		}
	}
	return best
}

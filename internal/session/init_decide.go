package session

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/draft"
)

// decide turns findings, flags and answers into the contents of the file.
func (o InitFlags) decide(ctx context.Context, f draft.Inventory, l *login, ask *asker) (draft.Answers, error) {
	a := f.Defaults()
	a.Endpoint, a.TokenID, a.Secret, a.Fingerprint, a.Insecure = l.endpoint, l.token, l.ref, l.fingerprint, l.insecure
	if !l.typed.IsZero() {
		a.Secret = "file:.homelab/proxmox-token" // until the name is known
	}
	var err error
	if a.Name, err = ask.text(ctx, "Name of the cluster", o.Name, a.Name, ask.recheck(draft.CheckName)); err != nil {
		return a, err
	}
	advice := "Servers (1, or 3 to survive the loss of one)"
	if a.Servers, err = ask.number(ctx, advice, o.Servers, a.Servers, draft.CheckServers); err != nil {
		return a, err
	}
	cards := 0
	for _, h := range f.Hosts {
		cards += len(h.FreeGPUs())
	}
	if a.GPUsPerWorker = o.GPUs; cards > 1 && o.GPUs == 0 {
		if a.GPUsPerWorker, err = ask.number(ctx, "GPUs of each worker", o.GPUs, 2-cards%2, draft.CheckGPUs); err != nil {
			return a, err
		}
	}
	if a, err = o.network(ctx, f.Readdress(a), f, ask); err != nil || l.endpoint == spec.Lab || !ask.person {
		return a, err
	}
	a.PublicKey, err = ask.text(ctx, "Additional public key for logging in to the nodes, - for none", "", userPublicKey(), nil)
	if a.PublicKey == "-" {
		a.PublicKey = ""
	}
	return a, err
}

// network asks for addresses. What is not known has no default.
func (o InitFlags) network(ctx context.Context, a draft.Answers, f draft.Inventory, ask *asker) (draft.Answers, error) {
	bridges := map[string]bool{}
	for _, h := range f.Hosts {
		for _, b := range h.Bridges {
			bridges[b.Name] = true
		}
	}
	if len(bridges) > 1 || o.Bridge != "" {
		bridge, err := ask.text(ctx, "Bridge", o.Bridge, a.Bridge, nil)
		if err != nil {
			return a, err
		}
		if bridge != a.Bridge {
			a.Bridge = bridge
			a = f.Readdress(a)
		}
	}
	text, err := ask.text(ctx, "Network of the nodes", o.Prefix, textOrEmpty(a.Prefix), isPrefix)
	if err != nil {
		return a, err
	}
	if p, _ := netip.ParsePrefix(text); text != "" && p.Masked() != a.Prefix {
		a.VLAN, a.Prefix, a.Gateway = 0, p.Masked(), netip.Addr{}
		a = f.Number(a)
	}
	if text, err = ask.text(ctx, "Gateway", o.Gateway, textOrEmpty(a.Gateway), ask.address("gateway", a.Prefix)); err != nil {
		return a, err
	}
	a.Gateway, _ = netip.ParseAddr(text)
	if text, err = ask.text(ctx, "First address of the nodes; addresses in use are skipped", o.First, textOrEmpty(a.First),
		ask.address("first address", a.Prefix)); err != nil {
		return a, err
	}
	a.First, _ = netip.ParseAddr(text)
	return a, nil
}

// textOrEmpty writes an address or network; nothing if there is none.
func textOrEmpty[T interface {
	IsValid() bool
	String() string
}](v T) string {
	if !v.IsValid() {
		return ""
	}
	return v.String()
}

func isPrefix(s string) error {
	if _, err := netip.ParsePrefix(s); err != nil {
		return fmt.Errorf("%q is not a network: write its address and length, e.g. 10.0.0.0/24", s)
	}
	return nil
}

// address checks that a machine of the network could have an address.
func (a *asker) address(name string, network netip.Prefix) func(string) error {
	return func(s string) error {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("%q is not an address: write it like 10.0.0.11", s)
		}
		return a.recheck(func(string) error { return draft.CheckInside(name, network, addr) })(s)
	}
}

// userPublicKey is the user's public key; "-" if there is none.
func userPublicKey() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return "-"
	}
	for _, name := range []string{"id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub"} {
		path := filepath.Join(home, ".ssh", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "-"
}

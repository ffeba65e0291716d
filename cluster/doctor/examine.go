package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// Sources are the ways to look at a cluster.
type Sources struct {
	Spec    *spec.Spec
	Proxmox *proxmox.Client // nil if every machine is external, or if it cannot be reached
	Away    error           // why Proxmox cannot be reached
	LastRun *FailedRun      // the last run on this machine, if it failed
	// VM reads the VM of a machine of the file; nil without Proxmox. It returns nil if there is none.
	VM func(ctx context.Context, name string) (*proxmox.VM, error)
	// Cards lists cards with a problem, by host; may be nil.
	Cards func(ctx context.Context) (map[string][]Card, error)
	// Root runs commands as root on a machine.
	Root func(name string) remote.Runner
	// Kubernetes looks at what a machine has of it, and Certificates reads its certificates, the first to end first.
	Kubernetes   func(ctx context.Context, n spec.Node) (Kubernetes, error)
	Certificates func(ctx context.Context, n spec.Node) ([]Certificate, error)
	// HasDriver says which machines should have NVIDIA's driver; nil: those with GPUs.
	HasDriver func(n spec.Node) bool
	// Kube is the API's client.
	Kube func(ctx context.Context) (*kube.Client, error)
}

// patience is how long one place may take to answer. What does not answer by then is a finding.
const patience = 20 * time.Second

// Examine looks everywhere at once and says what is wrong. Its error is the context's: what
// cannot be asked is a finding.
func Examine(ctx context.Context, s Sources) (Report, error) {
	start := time.Now()
	e := Collect(ctx, s)
	if ctx.Err() != nil {
		return Report{}, ctx.Err()
	}
	r := Diagnose(e)
	r.Took = time.Since(start)
	return r, nil
}

// Collect looks everywhere at once and judges nothing.
func Collect(ctx context.Context, s Sources) Evidence {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	e := Evidence{Spec: s.Spec, Time: time.Now(), Proxmox: s.Away, LastRun: s.LastRun, Objects: map[string][]unstructured.Unstructured{}, Unread: map[string]error{}}
	all := s.Spec.Machines()
	e.Machines = make([]Machine, len(all))
	var wg sync.WaitGroup
	for i, n := range all {
		e.Machines[i].Node = n
		wg.Go(func() { s.machine(ctx, &e.Machines[i]) })
	}
	if s.Proxmox != nil {
		wg.Go(func() { e.Hosts, e.Proxmox = s.hosts(ctx) })
	}
	wg.Go(func() { s.kubernetes(ctx, &e) })
	wg.Wait()
	return e
}

// withLimit runs one look with its own limit.
func withLimit(ctx context.Context, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	do(ctx)
}

func (s Sources) machine(ctx context.Context, m *Machine) {
	var wg sync.WaitGroup
	if s.VM != nil && !m.External {
		wg.Go(func() {
			withLimit(ctx, func(ctx context.Context) {
				vm, err := s.VM(ctx, m.Name)
				m.VM, m.Asked = vm, err == nil
			})
		})
	}
	if m.Boot != nil { // nobody logs in to a VM that is not a node
		wg.Wait()
		return
	}
	root := s.Root(m.Name)
	wg.Go(func() {
		withLimit(ctx, func(ctx context.Context) { m.State, m.Err = observe(ctx, root, s.names(m.Node)...) })
		if m.Err != nil {
			return
		}
		withLimit(ctx, func(ctx context.Context) { s.observeMachine(ctx, root, m) })
	})
	wg.Wait()
}

// names are the host names that a machine has to resolve: with login.clusterRoles the API server asks the issuer, and from
// any node Argo CD does, and all programs ask a provider.
func (s Sources) names(n spec.Node) []string {
	p := &s.Spec.Platform
	if l := p.Login; l == nil || l.Provider == nil && !p.ArgoCDSignsIn() && (n.Role != spec.Server || len(l.ClusterRoles) == 0) {
		return nil
	}
	u, err := url.Parse(p.Issuer().URL)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		return nil
	}
	return []string{u.Hostname()}
}

// observeMachine asks a machine for K3s, its certificates and NVIDIA's driver, all at once.
func (s Sources) observeMachine(ctx context.Context, root remote.Runner, m *Machine) {
	var wg sync.WaitGroup
	var certsErr, migErr error
	if m.Role.IsNode() {
		wg.Go(func() { m.Kubernetes, m.KubernetesErr = s.Kubernetes(ctx, m.Node) })
		wg.Go(func() { m.Certs, certsErr = s.Certificates(ctx, m.Node) })
	}
	if s.hasDriver(m.Node) {
		wg.Go(func() {
			var d nvidia.DriverState
			if d, m.DrvErr = nvidia.ObserveDriver(ctx, root); m.DrvErr == nil {
				m.Driver = &d
			}
		})
	}
	if len(offer.Layouts(m.Node)) > 0 {
		wg.Go(func() {
			var d mig.State
			if d, migErr = mig.Observe(ctx, root); migErr == nil {
				m.MIG = &d
			}
		})
	}
	wg.Wait()
	m.KubernetesErr, m.DrvErr = errors.Join(m.KubernetesErr, certsErr), errors.Join(m.DrvErr, migErr)
}

func (s Sources) hasDriver(n spec.Node) bool {
	if s.HasDriver != nil {
		return s.HasDriver(n)
	}
	return n.HasGPUs()
}

// hosts asks Proxmox for the hosts of the file.
func (s Sources) hosts(ctx context.Context) ([]Host, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen, err := s.Proxmox.Hosts.List(ctx)
	if err != nil {
		return nil, err
	}
	var cards map[string][]Card
	if s.Cards != nil {
		if cards, err = s.Cards(ctx); err != nil {
			return nil, err
		}
	}
	var out []Host
	for _, h := range s.Spec.Proxmox.Hosts {
		host := Host{Name: h.Name, Cards: cards[h.Name]}
		for _, up := range seen {
			host.Online = host.Online || up.Name == h.Name && up.Online
		}
		if host.Online {
			var all []proxmox.Storage
			all, host.Err = s.Proxmox.Storages.List(ctx, h.Name)
			used := s.storages(h.Name)
			host.Storages = slices.DeleteFunc(all, func(x proxmox.Storage) bool { return !slices.Contains(used, x.Name) })
		}
		out = append(out, host)
	}
	return out, nil
}

// storages are those on which the file puts something of a host.
func (s Sources) storages(host string) []string {
	var out []string
	for _, n := range s.Spec.Machines() {
		if n.Host != host || !n.OnProxmox() {
			continue
		}
		out = append(out, n.OSDisk.Storage)
		for _, d := range n.Disks {
			out = append(out, d.Storage)
		}
	}
	return out
}

// kinds are what is read from the API besides the nodes.
func kinds() [][2]string {
	return [][2]string{{"v1", "Pod"}, {"v1", "PersistentVolumeClaim"}, {"storage.k8s.io/v1", "StorageClass"}, {"v1", "Namespace"}, {"v1", "Event"}}
}

func (s Sources) kubernetes(ctx context.Context, e *Evidence) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := s.Kube(ctx)
	if err == nil {
		e.Nodes, err = client.Nodes(ctx)
	}
	if err != nil {
		e.API = err
		return
	}
	for _, k := range kinds() {
		list, err := client.List(ctx, k[0], k[1], "", "")
		if err != nil {
			e.Unread[k[1]] = fmt.Errorf("list %s: %w", k[1], err)
			continue
		}
		e.Objects[k[1]] = list
	}
	e.fleet(ctx, client)
}

// fleet reads what Fleet has made of each GitRepo, and Flux and Argo CD of homelab's, where they are.
func (e *Evidence) fleet(ctx context.Context, client *kube.Client) {
	for tool, kind := range map[fleet.Tool]string{fleet.ToolFlux: "GitRepository", fleet.ToolArgo: "Application"} {
		if state, err := fleet.Observe(ctx, client, fleet.StatusOptions{Tool: tool}); err != nil {
			e.Unread[kind] = err
		} else if state.There {
			e.Fleet = append(e.Fleet, state)
		}
	}
	repos, err := client.List(ctx, "fleet.cattle.io/v1alpha1", "GitRepo", "", "")
	var none *kube.NoKindError
	if errors.As(err, &none) {
		return
	}
	for _, r := range repos {
		var state *fleet.State
		if state, err = fleet.Observe(ctx, client, fleet.StatusOptions{Name: r.GetName(), Namespace: r.GetNamespace()}); err != nil {
			break
		}
		e.Fleet = append(e.Fleet, state)
	}
	if err != nil {
		e.Unread["GitRepo"] = err
	}
}

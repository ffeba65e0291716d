package hostprep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// DefaultToken is the token that host:prep creates if the file names none.
const DefaultToken = "homelab@pve!cluster"

// Prep prepares the hosts of a file for what the file needs. It needs no API token: it creates the
// one that everything else uses.
type Prep struct {
	Spec  *spec.Spec
	Hosts []string                 // in this order; the first is asked about settings that all hosts share
	Root  map[string]remote.Runner // a root shell on each

	// KeepToken stores the secret of a new token. It is called once, immediately, and its error is
	// that of the step. Nil: no token is created.
	KeepToken func(secret.Value) error
	// Grants are permissions for the token in addition to what the file needs.
	Grants []proxmox.Grant
	// NewToken recreates an existing token.
	NewToken bool
	// Framebuffer removes the console from the card that a host booted on.
	Framebuffer bool
	// Reboot restarts hosts with changes that need it.
	Reboot bool

	mu     sync.Mutex
	seen   map[string]State // dropped after any change
	common *AccessState     // also dropped; Proxmox takes a second for each request
	token  bool             // created in this run
}

// HostPlan is the changes of one host.
type HostPlan struct {
	Name    string    `json:"host"`
	State   State     `json:"-"`
	Changes []*Change `json:"changes"`
	Reboot  []string  `json:"reboot,omitempty"` // reasons for a reboot, after the changes
	Notes   []Note    `json:"notes,omitempty"`
}

// AccessPlan is the changes of settings that all hosts share.
type AccessPlan struct {
	State   AccessState `json:"-"`
	Changes []*Change   `json:"changes"`
	Token   [][]string  `json:"token,omitempty"` // commands that create the token; their output has its secret
	Notes   []Note      `json:"notes,omitempty"`
}

// PlanHost returns the changes that one host needs.
func (p *Prep) PlanHost(ctx context.Context, name string) (*HostPlan, error) {
	s, err := p.observe(ctx, name)
	if err != nil {
		return nil, err
	}
	spec := p.hostSpec(name)
	plan := &HostPlan{Name: name, State: s, Reboot: spec.Reboot(s), Notes: spec.Notes(s)}
	if plan.Changes, err = spec.Changes(s); err != nil {
		return plan, fmt.Errorf("host %s: %w", name, err)
	}
	return plan, nil
}

// Costs returns what a pending reboot would stop: the guests that run on the host. It is empty if
// no reboot is pending.
func (p *HostPlan) Costs() []converge.Cost {
	if len(p.Reboot) == 0 {
		return nil
	}
	return rebootCosts(p.Name, p.State)
}

// PlanAccess returns the changes of settings that all hosts share.
func (p *Prep) PlanAccess(ctx context.Context) (*AccessPlan, error) {
	a, s, err := p.access(ctx)
	if err != nil {
		return nil, err
	}
	plan := &AccessPlan{State: s, Changes: a.Changes(s), Notes: a.Notes(s)}
	if !p.makesToken(s) {
		return plan, nil
	}
	plan.Token = a.TokenCommands(s)
	if s.Token != nil { // its grants are deleted with it
		gone := s
		gone.Token, gone.May = nil, nil
		gone.ACLs = slices.DeleteFunc(slices.Clone(s.ACLs), func(e ACL) bool { return e.Who == a.TokenID })
		plan.Changes = a.Changes(gone)
	}
	return plan, nil
}

// Reset discards all observations: another run may have changed the hosts.
func (p *Prep) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.common = nil, nil
}

// observe reads the state of a host, or returns what was read since the last change there.
func (p *Prep) observe(ctx context.Context, name string) (State, error) {
	p.mu.Lock()
	s, ok := p.seen[name]
	p.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := Observe(ctx, p.Root[name])
	if err != nil {
		return s, fmt.Errorf("host %s: %w", name, err)
	}
	if s.Host != "" && s.Host != name {
		return s, converge.Permanent(fmt.Errorf("host %s: the machine's host name is %s: the file must name hosts as the web interface does, and ssh: must reach the right one", name, s.Host))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]State{}
	}
	p.seen[name] = s
	return s, nil
}

func (p *Prep) resetHost(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, name)
	p.common = nil
}

// hostSpec returns what the file needs from a host. If each of its nodes names its cards, only
// those are taken from the host; otherwise all cards that VMs could get.
func (p *Prep) hostSpec(name string) Spec {
	spec := Spec{Owner: p.owner(), Framebuffer: p.Framebuffer}
	all := false
	for _, n := range p.Spec.GPUMachines() {
		if !n.OnProxmox() || n.Host != name {
			continue
		}
		spec.GPUs = true
		all = all || len(n.GPUs.PCI) == 0
		for _, a := range n.GPUs.PCI {
			spec.Cards = append(spec.Cards, a.Whole())
		}
	}
	if all {
		spec.Cards = nil
	}
	for _, n := range p.Spec.Machines() {
		spec.Devices = spec.Devices || n.Host == name && len(n.Devices) > 0
	}
	return spec
}

func (p *Prep) owner() string { return "the cluster " + p.Spec.Name }

// TokenID returns the token of the file, or the default token if the file names none.
func (p *Prep) TokenID() string { return cmp.Or(p.Spec.Proxmox.TokenID, DefaultToken) }

// access reads the settings that all hosts share, and returns the wanted and the observed state.
func (p *Prep) access(ctx context.Context) (Access, AccessState, error) {
	a := Access{Owner: p.owner(), Prefix: RolePrefix(p.Spec), TokenID: p.TokenID(), Storages: p.storages()}
	if p.Spec.IsLab() && p.KeepToken == nil {
		a.TokenID = "" // the lab has its own
	} else {
		a.Grants = p.grants(proxmox.Version{Version: "9", Release: "9"}) // the paths are the same in any version
	}
	p.mu.Lock()
	seen := p.common
	p.mu.Unlock()
	if seen != nil {
		return p.forVersion(a, *seen), *seen, nil
	}
	s, err := a.ObserveAccess(ctx, p.Root[p.Hosts[0]])
	if err != nil {
		return a, s, fmt.Errorf("host %s: %w", p.Hosts[0], err)
	}
	p.mu.Lock()
	p.common = &s
	p.mu.Unlock()
	return p.forVersion(a, s), s, nil
}

func (p *Prep) grants(v proxmox.Version) []proxmox.Grant {
	return append(Grants(p.Spec, v), p.Grants...)
}

// forVersion selects the privileges that this Proxmox VE has.
func (p *Prep) forVersion(a Access, s AccessState) Access {
	if len(a.Grants) > 0 {
		a.Grants = p.grants(s.Version)
	}
	return a
}

// storages lists what the file wants of the storages of all hosts.
func (p *Prep) storages() []Storage {
	var out []Storage
	for _, name := range p.Hosts {
		for _, u := range Uses(p.Spec, name) {
			i := slices.IndexFunc(out, func(s Storage) bool { return s.Name == u.Storage })
			if i < 0 {
				i, out = len(out), append(out, Storage{Name: u.Storage})
			}
			if !slices.Contains(out[i].Content, u.Content) {
				out[i].Content, out[i].Why = append(out[i].Content, u.Content), append(out[i].Why, u.Why)
			}
		}
	}
	return out
}

// makesToken reports whether to create a token.
func (p *Prep) makesToken(s AccessState) bool {
	return p.KeepToken != nil && (s.Token == nil || p.NewToken && !p.token)
}

// Graph returns the steps from newly installed hosts to hosts that can run the file's machines. It
// stops before a reboot, unless reboots are allowed. It creates no resource mappings: they name
// IOMMU groups, which exist only after the reboot, and cluster:up can create them with the token.
func (p *Prep) Graph() *converge.Graph {
	g := &converge.Graph{}
	var last *converge.Ref

	// Settings that all hosts share. The token is created before its grants.
	last = g.Add(p.accessStep(Storages))
	last = g.Add(p.accessStep(Role), last)
	last = g.Add(p.accessStep(User), last)
	last = g.Add(p.tokenStep(), last)
	access := g.Add(p.accessStep(RoleGrants), last)

	// Prepare each host separately: command line, modules, cards, initramfs. Reboot one host at a
	// time: a Proxmox cluster needs a majority of its hosts.
	var rebooted *converge.Ref
	for _, name := range p.Hosts {
		var prepared *converge.Ref
		for _, id := range []string{Boot, Modules, Cards, Initramfs} {
			prepared = g.Add(p.hostStep(name, id), prepared)
		}
		if p.Reboot {
			rebooted = g.Add(p.rebootStep(name), prepared, rebooted, access)
		}
	}
	return g
}

// hostStep makes one change of a host.
func (p *Prep) hostStep(name, id string) *converge.Resource[*Change] {
	return &converge.Resource[*Change]{
		ID: id + "/" + name,
		Observe: func(ctx context.Context) (*Change, error) {
			s, err := p.observe(ctx, name)
			if err != nil {
				return nil, err
			}
			c, err := p.hostSpec(name).Change(s, id)
			return c, converge.Permanent(err)
		},
		Diff: func(c *Change) converge.Diff { return c.Diff() },
		Apply: func(ctx context.Context, c *Change) error {
			defer p.resetHost(name)
			return Apply(ctx, p.Root[name], c)
		},
		Settle: settleNow,
	}
}

// settleNow is short, because a written change is visible immediately or never.
const settleNow = 10 * time.Second

// accessStep makes one change of settings that all hosts share.
func (p *Prep) accessStep(id string) *converge.Resource[*Change] {
	return &converge.Resource[*Change]{
		ID: id,
		Observe: func(ctx context.Context) (*Change, error) {
			a, s, err := p.access(ctx)
			if err != nil {
				return nil, err
			}
			return a.Change(s, id), nil
		},
		Diff: func(c *Change) converge.Diff { return c.Diff() },
		Apply: func(ctx context.Context, c *Change) error {
			defer p.resetHost(p.Hosts[0])
			return Apply(ctx, p.Root[p.Hosts[0]], c)
		},
		Settle: settleNow,
	}
}

// tokenStep creates the token, and hands its secret over immediately.
func (p *Prep) tokenStep() *converge.Resource[AccessState] {
	return &converge.Resource[AccessState]{
		ID: "token",
		Observe: func(ctx context.Context) (AccessState, error) {
			_, s, err := p.access(ctx)
			return s, err
		},
		Diff: func(s AccessState) converge.Diff {
			if !p.makesToken(s) {
				return nil
			}
			return converge.Diff{{Path: p.TokenID(), Want: "an API token", Effect: converge.Update}}
		},
		Apply: func(ctx context.Context, _ AccessState) error {
			a, s, err := p.access(ctx)
			if err != nil {
				return err
			}
			defer p.resetHost(p.Hosts[0])
			value, err := a.MakeToken(ctx, p.Root[p.Hosts[0]], s)
			if err != nil {
				return err
			}
			p.token = true
			return converge.Permanent(p.KeepToken(value))
		},
		Settle: settleNow,
	}
}

// rebootTime is how long a server may take to reboot: server firmware checks all memory first.
const rebootTime = 20 * time.Minute

// rebootCosts returns what a reboot of a host stops.
func rebootCosts(name string, s State) []converge.Cost {
	var out []converge.Cost
	for _, guest := range s.Guests {
		out = append(out, converge.Cost{Machine: guest + " on " + name, Kind: converge.CostStop, Reason: "a reboot of " + name})
	}
	return out
}

// rebootStep reboots a host, waits for it, and checks the result. It observes the host
// again first: other users may have started machines while the previous host rebooted.
func (p *Prep) rebootStep(name string) *converge.Resource[State] {
	return &converge.Resource[State]{
		ID: "reboot/" + name,
		Observe: func(ctx context.Context) (State, error) {
			p.resetHost(name)
			return p.observe(ctx, name)
		},
		Diff: func(s State) converge.Diff {
			var d converge.Diff
			for _, why := range p.hostSpec(name).Reboot(s) {
				d = append(d, converge.Field{Want: "a reboot: " + why, Effect: converge.Update})
			}
			return d
		},
		Costs: func(_ context.Context, s State, _ converge.Diff) []converge.Cost { return rebootCosts(name, s) },
		Apply: func(ctx context.Context, _ State) error {
			defer p.resetHost(name)
			ctx, cancel := converge.WithRunningTimeout(ctx, rebootTime, fmt.Errorf("not back within %s", rebootTime))
			defer cancel()
			return Reboot(ctx, p.Root[name])
		},
		Settle: settleNow,
	}
}

package sim

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/iso"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Hypervisor makes Talos machines of the VMs of a simulated Proxmox VE: each boots from its disk, an image of Talos, with
// the network of its seed.
type Hypervisor struct{ World *World }

// bootTime is about what a machine takes from power to its API.
const bootTime = 15 * time.Second

// Open implements [pvesim.Hypervisor].
func (h Hypervisor) Open(image []byte) (pvesim.Disk, error) {
	m, err := h.World.open(image)
	return &disk{machine: m}, err
}

// Blank implements [pvesim.Hypervisor].
func (Hypervisor) Blank() pvesim.Disk { return &disk{} }

// disk is what a machine keeps; a blank one has no machine.
type disk struct{ machine *Machine }

func (d *disk) Clone() pvesim.Disk {
	if d.machine == nil {
		return &disk{}
	}
	d.machine.world.mu.Lock()
	defer d.machine.world.mu.Unlock()
	return &disk{&Machine{world: d.machine.world, config: d.machine.config, etcd: d.machine.etcd, version: d.machine.version, schematic: d.machine.schematic}}
}

func (*disk) Forget() {}

// Plug implements [pvesim.Hypervisor].
func (Hypervisor) Plug(b pvesim.Board) pvesim.Guest {
	g := &vm{board: b}
	if d, ok := b.Drives[0].Disk.(*disk); ok {
		g.machine = d.machine
	}
	return g
}

// vm is a machine as its host sees it.
type vm struct {
	board   pvesim.Board
	machine *Machine // nil: nothing boots

	mu   sync.Mutex
	up   bool
	stop context.CancelFunc
}

// Boot implements [pvesim.Guest].
func (g *vm) Boot(ctx context.Context) error {
	if g.machine == nil {
		return nil
	}
	address, err := g.address()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, g.stop = context.WithCancel(ctx)
	go g.start(ctx, address)
	return nil
}

// start is what happens from power to the machine's API.
func (g *vm) start(ctx context.Context, address netip.Addr) {
	pods := guest.New(guest.Config{Name: "pods", VMID: g.board.VMID, Disk: guest.NewBase("noble"), CPUs: g.board.CPUs, Memory: g.board.Memory, PCI: g.board.PCI,
		Disks: []guest.BlockDevice{{Serial: "os", Size: 50 << 30}}, Internet: guest.DefaultInternet(), Seed: func() ([]byte, error) { return nil, nil }})
	if pods.Boot(context.WithoutCancel(ctx)) != nil {
		return
	}
	for _, ready := range []func() bool{
		func() bool { return received(ctx, time.After(bootTime)) },
		func() bool { return received(ctx, pods.Up()) },
		func() bool { return g.appear(ctx, address, pods) },
	} {
		if !ready() {
			pods.Kill()
			return
		}
	}
}

// received waits for a channel, and reports whether that was before ctx ended.
func received[T any](ctx context.Context, from <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case <-from:
		return true
	}
}

// appear brings the machine into the network.
func (g *vm) appear(ctx context.Context, address netip.Addr, pods *guest.Machine) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx.Err() != nil || g.machine.boot(address.String()) != nil {
		return false
	}
	g.machine.board, g.machine.pods, g.up = &g.board, pods, true
	g.board.Network.Register(address, host{g.machine})
	g.machine.world.mu.Lock()
	defer g.machine.world.mu.Unlock()
	g.machine.world.settle()
	return true
}

// address is that of the first card, by its MAC, as Talos' own reader of NoCloud seeds finds it.
func (g *vm) address() (netip.Addr, error) {
	disc, err := g.board.Seed()
	if err != nil {
		return netip.Addr{}, err
	}
	files, _, err := iso.Read(disc)
	if err != nil {
		return netip.Addr{}, err
	}
	var network struct {
		Ethernets map[string]struct {
			Match struct {
				MAC string `yaml:"macaddress"`
			} `yaml:"match"`
			Addresses []string `yaml:"addresses"`
		} `yaml:"ethernets"`
	}
	if err := yaml.Unmarshal(files["network-config"], &network); err != nil {
		return netip.Addr{}, err
	}
	for _, e := range network.Ethernets {
		if strings.Contains(strings.ToLower(g.board.Config["net0"]), e.Match.MAC) && len(e.Addresses) > 0 {
			p, err := netip.ParsePrefix(e.Addresses[0])
			return p.Addr(), err
		}
	}
	return netip.Addr{}, errors.New("the seed has no address for net0")
}

// Kill implements [pvesim.Guest].
func (g *vm) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stop != nil {
		g.stop()
	}
	if !g.up {
		return
	}
	g.up = false
	g.machine.pods.Kill()
	g.board.Network.Unregister(host{g.machine})
	g.machine.off()
	g.machine.world.mu.Lock()
	defer g.machine.world.mu.Unlock()
	g.machine.world.settle()
}

// Shutdown implements [pvesim.Guest].
func (g *vm) Shutdown() error {
	g.Kill()
	g.board.OnPoweroff(false)
	return nil
}

// Replug implements [pvesim.Guest].
func (*vm) Replug([]pvesim.Drive) {}

// Talks implements [pvesim.Guest].
func (g *vm) Talks() bool { return g.AgentUp() }

// AgentUp implements [pvesim.Guest]: the extension is in every image of ours.
func (g *vm) AgentUp() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up
}

// AgentReadFile implements [pvesim.Guest].
func (g *vm) AgentReadFile(name string) ([]byte, error) {
	if !g.AgentUp() {
		return nil, guest.ErrNoAgent
	}
	switch name {
	case "/etc/os-release":
		g.machine.world.mu.Lock()
		defer g.machine.world.mu.Unlock()
		return []byte("NAME=\"Talos\"\nID=talos\nVERSION_ID=" + g.machine.release() + "\n"), nil
	case guest.Kmsg:
		g.machine.world.mu.Lock()
		defer g.machine.world.mu.Unlock()
		return g.machine.log, nil
	}
	return nil, errNoFile(name)
}

// errNoFile is what qemu-ga says.
type errNoFile string

func (e errNoFile) Error() string {
	return "failed to open file '" + string(e) + "' (mode: 'r'): No such file or directory"
}

var errNoShell = errors.New("the command guest-exec has been disabled for this instance")

// AgentExec implements [pvesim.Guest].
func (*vm) AgentExec([]string, []byte) (int, error) { return 0, errNoShell }

// AgentStatus implements [pvesim.Guest].
func (*vm) AgentStatus(int) (guest.ExecStatus, error) { return guest.ExecStatus{}, errNoShell }

// AgentWriteFile implements [pvesim.Guest].
func (*vm) AgentWriteFile(string, []byte) error { return errNoShell }

// AgentInterfaces implements [pvesim.Guest].
func (*vm) AgentInterfaces() ([]guest.Interface, error) { return nil, nil }

// host is a machine in the network of a simulated Proxmox VE.
type host struct{ *Machine }

// Listen implements [guest.Host].
func (h host) Listen(port uint16) guest.Handler {
	switch port {
	case 50000:
		return h.serve
	case 6443:
		h.world.mu.Lock()
		defer h.world.mu.Unlock()
		if p := h.plane(); p != nil && h.isMember() && h.decides() {
			return func(ctx context.Context, conn net.Conn) { pipe(ctx, conn, p) }
		}
	}
	return nil
}

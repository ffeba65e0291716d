package machine

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// Config describes a machine: what a hypervisor plugs together. It is not
// changed by the Machine, except for the contents of its disks.
type Config struct {
	Name   string     // of the VM, for messages
	VMID   int        // of the VM; part of what makes a guest's identifiers its own
	Disk   *disk.Disk // the OS disk's contents; persists over power cycles
	MACs   []string   // of its network cards, in order; any case
	Arch   string     // of its CPUs, as Go says it: arm64; empty is amd64
	CPUs   int        // seen by the guest
	Memory int64      // bytes
	// SecureBoot says that the firmware has the usual keys, and lets modules load that
	// are signed with one of them: the distribution's own.
	SecureBoot bool
	PCI        []PCI            // passed-through functions
	Disks      []BlockDevice    // in order; the first is the OS disk
	Network    *network.Network // where its cards are plugged in; nil is nowhere
	Speed      float64          // how many times faster than life; 0 is 1

	// Seed returns the ISO in the CD drive at each boot; nil for an empty drive.
	Seed func() ([]byte, error)
	// Internet is what curl, wget and cloud-init can download from; nil is nothing.
	Internet internet.Internet
	// Kubernetes makes the control plane when K3s starts as a first server.
	Kubernetes plane.Kubernetes

	Faults Faults

	Host *HostConfig // a Proxmox VE host instead of an Ubuntu guest; nil for a guest

	// Lean keeps the last of Mutations and Commands only, for a simulator that
	// runs for days; a test wants all.
	Lean bool

	// OnPoweroff is told that the guest has powered itself off, on its own or
	// asked by Shutdown. With reboot it starts again by itself, and this is
	// only news. It is called without locks held, after the guest has stopped.
	OnPoweroff func(reboot bool)
}

// PCI is a passed-through function as the guest sees it.
type PCI struct {
	Address   string // in the guest, e.g. "0000:01:00.0"
	Host      string // on the host, e.g. "0000:41:00.0"
	Vendor    uint16 // 0x10de is NVIDIA
	Device    uint16
	SubVendor uint16
	SubDevice uint16
	Class     uint32   // e.g. 0x030200
	UUID      string   // of a GPU, "GPU-…"; made from Host when empty
	Model     string   // e.g. "NVIDIA A100-PCIE-40GB"; taken from a small table when empty
	InfoROM   *InfoROM // what the card remembers without power; nil: nothing yet
}

// InfoROM is what an NVIDIA card remembers without power. It is the card's, whichever machine
// has it. On Ampere it has the MIG mode: MIG User Guide, "GPU Reset on NVIDIA Ampere
// Architecture GPUs".
type InfoROM struct {
	mu           sync.Mutex
	stored, live bool
}

// MIG is the mode that the card has had since it was reset last, and the one that it will have.
func (r *InfoROM) MIG() (live, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live, r.stored
}

// SetMIG sets the mode that counts from the next reset on.
func (r *InfoROM) SetMIG(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = on
}

// Reset resets the card.
func (r *InfoROM) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = r.stored
}

// BlockDevice is a disk as the guest sees it.
type BlockDevice struct {
	Serial string     // as lsblk tells it
	Links  []string   // its names below /dev/disk/by-id; which those are the hypervisor decides, see pvesim's drivenames.go
	Size   int64      // bytes
	Data   *disk.Disk // contents; nil for the OS disk means Config.Disk, for others an empty disk that is kept in the Machine
}

// Faults are things that go wrong in a guest.
type Faults struct {
	AgentNeverAnswers bool // the QEMU guest agent does not come up
	DriverFailsToLoad bool // RmInitAdapter fails for every GPU
	SecondGPUFails    bool // RmInitAdapter fails for every GPU but the first
	// ModuleDoesNotBuild has the compiler refuse NVIDIA's modules under DKMS.
	ModuleDoesNotBuild bool
	// LosesGPUsOnReload takes the GPUs from running containers when systemd reloads its units, as
	// where the container runtime does not inject them by CDI.
	LosesGPUsOnReload bool
	CUDAFails         bool // GPUs are listed, but no kernel runs on them, as after a fatal Xid
	NodeNeverReady    bool // K3s runs, but its kubelet never joins
	StartsSlowly      bool // its K3s server takes as long to start again as a real one, and refuses good tokens meanwhile
	EtcdSick          bool // the etcd member of this server answers nobody
	EtcdutlMissing    bool // the image of kubeadm's etcd has no etcdutl
	SSHRefuses        bool // port 22 refuses connections
	NeverBoots        bool // stays in the firmware
	DiskFull          bool // the system's disk has no room left
	ClockAhead        bool // its clock is ten minutes ahead, and reaches no time server
	// VolumesRefuse is how writing to containers' volumes fails: syscall.ENOSPC or EROFS.
	VolumesRefuse  syscall.Errno
	VolumesAreSlow bool // containers' volumes have a fiftieth of their speed
	MIGModeSticks  bool // switching the machine off and on does not reset its cards: a pending mode stays pending
	// ArchiveMovesOn has the distribution's archive bring a newer kernel than when the machine was made.
	ArchiveMovesOn bool
	// What shows under load only, or between GPUs.
	ComputesWrong   bool // the last GPU's results are wrong once in a while
	ThrottlesOnLoad bool // the first GPU gets too hot and slows down
	XidUnderLoad    bool // the driver logs a memory error while a GPU computes for long
	SlowLink        bool // copies between the first GPU and others, and to other machines, crawl
}

// ErrOff is returned by what needs a running guest.
var ErrOff = errors.New("guest: the machine is off")

// Interface is a network card as the guest agent reports it.
type Interface struct {
	Name  string
	MAC   string
	Addrs []netip.Prefix
}

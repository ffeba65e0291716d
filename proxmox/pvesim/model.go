package pvesim

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Model is the hardware and the beginning of a simulated Proxmox VE cluster, as
// data: what a person would find out by walking around it.
type Model struct {
	Version string  `yaml:"version,omitempty"` // of pve-manager; 9.2.11 when empty. An 8.x asks VM.Monitor for the guest agent.
	Hosts   []Host  `yaml:"hosts"`
	Roles   []Role  `yaml:"roles,omitempty"` // beside the built-in Administrator, PVEAuditor and NoAccess
	Users   []User  `yaml:"users,omitempty"` // beside root@pam
	Tokens  []Token `yaml:"tokens,omitempty"`
	ACLs    []ACL   `yaml:"acls,omitempty"`
	VMs     []VM    `yaml:"vms,omitempty"` // machines that are there before anybody asks
}

// Host is one node.
type Host struct {
	Name      string      `yaml:"name"`
	CPUs      int         `yaml:"cpus"`      // logical CPUs
	NUMANodes int         `yaml:"numaNodes"` // which is also the number of sockets
	CPUModel  string      `yaml:"cpuModel,omitempty"`
	Memory    Size        `yaml:"memory"`
	NoIOMMU   bool        `yaml:"noIOMMU,omitempty"` // switched off in the firmware or the kernel's command line
	PCI       []PCIDevice `yaml:"pci,omitempty"`
	Storages  []Storage   `yaml:"storages"`
	Bridges   []string    `yaml:"bridges"`
}

// PCIDevice is one function of a PCI device.
type PCIDevice struct {
	Address    string `yaml:"address"`          // 0000:41:00.0
	ID         string `yaml:"id"`               // vendor:device, 10de:20f1
	Subsystem  string `yaml:"subsystem"`        // vendor:device, 10de:145f
	Class      string `yaml:"class"`            // 030200
	Group      int    `yaml:"group"`            // IOMMU group, -1 for none
	NUMANode   int    `yaml:"numaNode"`         // which socket it hangs on
	Vendor     string `yaml:"vendor,omitempty"` // as lspci names it
	Name       string `yaml:"name,omitempty"`
	Product    string `yaml:"product,omitempty"`    // as nvidia-smi names it
	HeldByHost bool   `yaml:"heldByHost,omitempty"` // a driver or the console's framebuffer on the host does not let go
	MDev       bool   `yaml:"mdev,omitempty"`       // can make mediated devices
}

// Storage is one storage as a node sees it. Those of the same name with Shared
// set are one.
type Storage struct {
	Name    string   `yaml:"name"`
	Type    string   `yaml:"type"`    // dir, zfspool, lvmthin or nfs
	Content []string `yaml:"content"` // iso, vztmpl, import, images, rootdir, backup, snippets
	Shared  bool     `yaml:"shared,omitempty"`
	Size    Size     `yaml:"size"`
	Used    Size     `yaml:"used,omitempty"` // by what is not simulated
}

// VM is a virtual machine that the model begins with. It has no living guest.
type VM struct {
	ID      int               `yaml:"id"`
	Node    string            `yaml:"node"`
	Name    string            `yaml:"name"`
	Config  map[string]string `yaml:"config,omitempty"` // further keys, as in its configuration file
	Running bool              `yaml:"running,omitempty"`
}

// User is somebody with a password.
type User struct {
	ID       string `yaml:"id"` // name@realm
	Password string `yaml:"password,omitempty"`
}

// Token is an API token.
type Token struct {
	ID      string `yaml:"id"` // name@realm!token
	Secret  string `yaml:"secret"`
	PrivSep bool   `yaml:"privSep,omitempty"` // has only what both it and its user are granted
}

// Role is a named list of privileges.
type Role struct {
	ID    string   `yaml:"id"`
	Privs []string `yaml:"privs"`
}

// ACL grants a role on a path and, unless NoPropagate, on all below.
type ACL struct {
	Path        string `yaml:"path"`
	Who         string `yaml:"who"` // a user's or a token's ID
	Role        string `yaml:"role"`
	NoPropagate bool   `yaml:"noPropagate,omitempty"`
}

// ParseModel reads a model from YAML. Keys that it does not know are errors.
func ParseModel(data []byte) (Model, error) {
	var m Model
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&m); err != nil {
		return Model{}, fmt.Errorf("model: %w", err)
	}
	return m, nil
}

// YAML writes the model.
func (m Model) YAML() ([]byte, error) { return yaml.Marshal(m) }

// Size is a number of bytes that prints as 16GiB.
type Size int64

// Sizes to count in.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var sizeUnits = []struct {
	name string
	size Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

// String returns the size in the largest unit that it is a whole number of.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a number with or without a unit, such as 2TiB or 1.5GiB.
func (s *Size) UnmarshalText(b []byte) error {
	text, unit := strings.TrimSpace(string(b)), Size(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n*float64(unit) > math.MaxInt64/2 {
		return fmt.Errorf("%q is not a size: write a number and KiB, MiB, GiB or TiB", b)
	}
	*s = Size(n * float64(unit))
	return nil
}

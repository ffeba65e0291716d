package labctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/cps-gpu/homelab/secret"
)

// Banner says in one line what is simulated, for a lab with simulated VMs and Kubernetes. It or
// another of [Guests.Banner] is shown every time the lab is used.
const Banner = "embedded lab: host, VMs, GPUs, Kubernetes, pods simulated; API, SSH, Helm real"

// DefaultDir is where the lab keeps its state, under the current folder.
const DefaultDir = ".lab"

// State is a running lab's description in lab.json. It contains no secret.
type State struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Binary  string    `json:"binary"` // digest of the program that runs
	Model   string    `json:"model"`  // of the hardware, e.g. "eight-a100"
	Guests  Guests    `json:"guests,omitzero"`

	Hardware Hardware `json:"hardware"`

	ImageSHA256 string `json:"imageSHA256,omitempty"` // of the file that stands for the image of real guests

	Endpoint    string `json:"endpoint"`    // of the Proxmox API, https://127.0.0.1:…
	Fingerprint string `json:"fingerprint"` // of its certificate, SHA-256 as Proxmox writes it
	TokenID     string `json:"tokenID"`     // e.g. "homelab@pve!lab"
	TokenFile   string `json:"tokenFile"`   // its secret, 0600

	Jump  Jump   `json:"jump"`
	SOCKS string `json:"socks"` // "socks5://127.0.0.1:…": kubectl's proxy-url

	Hosts map[string]Host `json:"hosts,omitempty"` // the simulated hosts' shells, by name

	// Charts is a folder of the lab's own stand-in charts, with the names and versions of the
	// real ones; empty: none.
	Charts string `json:"charts,omitempty"`
}

// Guests are what is real of VMs and of the Kubernetes in them. The zero value is nothing.
type Guests struct {
	// Kubernetes is a real control plane for the clusters of simulated VMs.
	Kubernetes bool `json:"kubernetes,omitempty"`

	// Real VMs, with a K3s of their own. Without a Network VMs are simulated.
	Image    string       `json:"image"`    // folder of the image that they boot, with disk.raw, vmlinuz and initrd
	Network  netip.Prefix `json:"network"`  // the one that all are in
	Gateway  netip.Addr   `json:"gateway"`  // the lab's address in it
	Internet bool         `json:"internet"` // they reach what this machine reaches
}

// Real reports whether guests are real VMs.
func (g Guests) Real() bool { return g.Network.IsValid() }

func (g Guests) String() string {
	switch {
	case !g.Real() && g.Kubernetes:
		return "simulated VMs and a real Kubernetes"
	case !g.Real():
		return "simulated VMs and Kubernetes"
	}
	internet := "without internet"
	if g.Internet {
		internet = "with internet"
	}
	return fmt.Sprintf("real VMs in %s behind %s %s", g.Network, g.Gateway, internet)
}

// Banner says what is simulated, in one line.
func (g Guests) Banner() string {
	switch {
	case g.Real():
		return "embedded lab: the host is simulated; VMs, SSH and Kubernetes are real, in QEMU"
	case g.Kubernetes:
		return "embedded lab: host, VMs, GPUs, pods simulated; API, SSH, control plane are real"
	}
	return Banner
}

// Host is the shell of a simulated host, reached through the jump host. Root logs in
// with the jump host's key.
type Host struct {
	Address string `json:"address"` // host:port on the virtual network
	HostKey string `json:"hostKey"` // as in an authorized_keys file
}

// Jump is the SSH jump host through which the guests' virtual addresses are reached.
type Jump struct {
	Address string `json:"address"` // host:port
	User    string `json:"user"`
	HostKey string `json:"hostKey"` // as in an authorized_keys file
	KeyFile string `json:"keyFile"` // the private key to log in with, 0600
}

// Token reads the API token's secret.
func (s State) Token() (secret.Value, error) { return secret.FromFile(s.TokenFile) }

// ErrNotRunning is Find's error if no lab runs in a folder.
var ErrNotRunning = errors.New("the lab is not running")

// Files of a lab's folder.
const (
	stateFile = "lab.json"
	lifeFile  = "alive.lock" // locked by the lab as long as it lives
	startFile = "start.lock" // locked by a Start that is under way
	logFile   = "log/labd.log"
	binFolder = "bin"
)

// WriteState atomically records in dir that the lab is ready. The lab calls it.
func WriteState(dir string, s State) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("lab state: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("lab state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("lab state: %w", err)
	}
	return nil
}

// RemoveState removes the state when the lab ends.
func RemoveState(dir string) error {
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lab state: %w", err)
	}
	return nil
}

func readState(dir string) (State, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, ErrNotRunning
	}
	if err != nil {
		return State{}, fmt.Errorf("lab state: %w", err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, fmt.Errorf("lab state %s: %w", filepath.Join(dir, stateFile), err)
	}
	return s, nil
}

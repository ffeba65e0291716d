package world

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

// VM is a virtual machine's configuration file and, while it runs, its process.
type VM struct {
	ID      int
	Node    string
	Pool    string
	Conf    map[string]string
	Pending map[string]string // waits for the VM to be off; "" is a pending deletion
	Forced  map[string]bool   // of the deletions, those that erase what there is
	Created time.Time         // when it was made

	Snapshots  map[string]*Snapshot
	CloudDrive map[string]string // the options that are on the cloud-init drive; nil for those of now

	Running bool
	Paused  bool
	Frozen  bool          // its file systems, by the guest agent
	Since   time.Time     // of the last change between running and not
	PID     int           // of the process
	Off     chan struct{} // closed when it ends
	PCI     []string      // host functions in use
	Machine hypervisor.Guest
	Others  bool         // it ran before anybody asked
	Faults  guest.Faults // of the living guest

	rendered map[bool][]byte // answers to GET config, by "current"
	digest   string
}

// Invalidate forgets what was rendered of a configuration.
func (v *VM) Invalidate() { v.rendered, v.digest = nil, "" }

// Set sets an option.
func (v *VM) Set(key, value string) {
	v.Conf[key] = value
	v.Invalidate()
}

// Unset removes an option.
func (v *VM) Unset(key string) {
	delete(v.Conf, key)
	v.Invalidate()
}

// Template reports whether a machine is a template.
func (v *VM) Template() bool { return v.Conf["template"] == "1" }

// PendingConf is the configuration with what is pending.
func (v *VM) PendingConf() map[string]string {
	if len(v.Pending) == 0 {
		return v.Conf
	}
	out := maps.Clone(v.Conf)
	for k, val := range v.Pending {
		if val == "" {
			delete(out, k)
		} else {
			out[k] = val
		}
	}
	return out
}

// Sum is the configuration file's digest.
func (v *VM) Sum() string {
	if v.digest == "" {
		h := sha1.New()
		for _, k := range slices.Sorted(maps.Keys(v.Conf)) {
			fmt.Fprintf(h, "%s: %s\n", k, v.Conf[k])
		}
		for _, k := range slices.Sorted(maps.Keys(v.Pending)) {
			fmt.Fprintf(h, "[PENDING] %s: %s\n", k, v.Pending[k])
		}
		v.digest = hex.EncodeToString(h.Sum(nil))
	}
	return v.digest
}

// Configuration answers GET config, from the last answer where nothing changed.
func (s *State) Configuration(v *VM, current bool) json.RawMessage {
	if raw, ok := v.rendered[current]; ok {
		return raw
	}
	conf := v.PendingConf()
	if current {
		conf = v.Conf
	}
	out := make(map[string]any, len(conf)+1)
	for k, val := range conf {
		out[k] = s.ConfigValue(k, val)
	}
	out["digest"] = v.Sum()
	if v.rendered == nil {
		v.rendered = map[bool][]byte{}
	}
	v.rendered[current] = answer.Encode(map[string]any{"data": out})
	return v.rendered[current]
}

// ConfigValue gives a value of the configuration the JSON type that Proxmox gives it.
func (s *State) ConfigValue(key, value string) any {
	if key == "cipassword" {
		return "**********"
	}
	p := s.ConfigKeys()[key]
	if p == nil {
		return value
	}
	switch p.Type {
	case "integer", "boolean": // a number is the text that it is in the file
		if n, err := strconv.Atoi(value); err == nil {
			return n
		}
	}
	return value
}

// ConfigKeys are the options of a VM, as PUT config takes them.
func (s *State) ConfigKeys() map[string]*schema.Property {
	return s.Schema.Methods["PUT /nodes/{node}/qemu/{vmid}/config"].Parameters
}

// Props reads an option that is a property string.
func (s *State) Props(key, value string) map[string]string {
	out, err := schema.ParseProps(s.ConfigKeys()[key].Format.Keys, value)
	if err != nil {
		return map[string]string{}
	}
	return out
}

// PrintProps writes an option that is a property string.
func (s *State) PrintProps(key string, in map[string]string) string {
	return schema.FormatProps(s.ConfigKeys()[key].Format.Keys, in)
}

// Load is a machine by its ID and its node.
func (s *State) Load(id int, node string) (*VM, error) {
	v := s.VMs[id]
	if v == nil || v.Node != node {
		return nil, answer.Die("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", node, id)
	}
	return v, nil
}

// Find is load as workers say it.
func (s *State) Find(id int, node string) (*VM, error) {
	v := s.VMs[id]
	if v == nil || v.Node != node {
		return nil, answer.Die("unable to find configuration file for VM %d on node '%s'", id, node)
	}
	return v, nil
}

// CheckLock refuses a VM that somebody works on.
func (v *VM) CheckLock() error {
	if l := v.Conf["lock"]; l != "" {
		return answer.Die("VM is locked (%s)", l)
	}
	return nil
}

// Status is what a VM's own host says.
func (v *VM) Status() string {
	if v.Running {
		return "running"
	}
	return "stopped"
}

// DisplayName is how a VM is shown: one without a name, as all are in the first moments of
// their making, gets one made up (vmstatus in PVE/QemuServer.pm).
func (v *VM) DisplayName() string {
	if name := v.PendingConf()["name"]; name != "" {
		return name
	}
	return "VM " + strconv.Itoa(v.ID)
}

// Power marks a machine as running, or as off.
func (v *VM) Power(on bool) {
	v.Running, v.Paused, v.Since = on, false, time.Now()
	if on {
		v.Off = make(chan struct{})
		return
	}
	close(v.Off)
	v.Machine, v.PCI, v.PID = nil, nil, 0
}

// Memory is what a VM runs with, or would: not what waits for its next start.
func (v *VM) Memory() int64 { return Mebibytes(v.Conf["memory"]) << 20 }

// Mebibytes is what an option memory says.
func Mebibytes(memory string) int64 {
	mib, _, _ := strings.Cut(strings.TrimPrefix(memory, "current="), ",")
	if mib == "" {
		return 512
	}
	return int64(schema.Atoi(mib))
}

// Cores are those of all sockets, of now, as memory is.
func (v *VM) Cores() int {
	return max(1, schema.Atoi(v.Conf["cores"])) * max(1, schema.Atoi(v.Conf["sockets"]))
}

// CPUs are the cores that are plugged in.
func (v *VM) CPUs() int {
	if n := schema.Atoi(v.Conf["vcpus"]); n > 0 {
		return n
	}
	return v.Cores()
}

// UUID makes an identifier that is the same in every run.
func (s *State) UUID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(s.Random.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// MAC makes an address with Proxmox's own prefix.
func (s *State) MAC() string {
	n := s.Random.Uint32()
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", byte(n>>16), byte(n>>8), byte(n))
}

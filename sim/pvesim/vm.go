package pvesim

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
)

// vm is a virtual machine's configuration file and, while it runs, its process.
type vm struct {
	id      int
	node    string
	pool    string
	conf    map[string]string
	pending map[string]string // waits for the VM to be off; "" is a pending deletion
	forced  map[string]bool   // of the deletions, those that erase what there is
	ctime   time.Time         // when it was made

	snapshots  map[string]*snapshot
	cloudDrive map[string]string // the options that are on the cloud-init drive; nil for those of now

	running bool
	paused  bool
	frozen  bool          // its file systems, by the guest agent
	since   time.Time     // of the last change between running and not
	pid     int           // of the process
	off     chan struct{} // closed when it ends
	pci     []string      // host functions in use
	machine Guest
	others  bool         // it ran before anybody asked
	faults  guest.Faults // of the living guest

	rendered map[bool][]byte // answers to GET config, by "current"
	digest   string
}

func (v *vm) changed() { v.rendered, v.digest = nil, "" }

func (v *vm) set(key, value string) {
	v.conf[key] = value
	v.changed()
}

func (v *vm) unset(key string) {
	delete(v.conf, key)
	v.changed()
}

func (v *vm) template() bool { return v.conf["template"] == "1" }

// wanted is the configuration with what is pending.
func (v *vm) wanted() map[string]string {
	if len(v.pending) == 0 {
		return v.conf
	}
	out := maps.Clone(v.conf)
	for k, val := range v.pending {
		if val == "" {
			delete(out, k)
		} else {
			out[k] = val
		}
	}
	return out
}

// sum is the configuration file's digest.
func (v *vm) sum() string {
	if v.digest == "" {
		h := sha1.New()
		for _, k := range slices.Sorted(maps.Keys(v.conf)) {
			fmt.Fprintf(h, "%s: %s\n", k, v.conf[k])
		}
		for _, k := range slices.Sorted(maps.Keys(v.pending)) {
			fmt.Fprintf(h, "[PENDING] %s: %s\n", k, v.pending[k])
		}
		v.digest = hex.EncodeToString(h.Sum(nil))
	}
	return v.digest
}

// configuration answers GET config, from the last answer where nothing changed.
func (s *state) configuration(v *vm, current bool) json.RawMessage {
	if raw, ok := v.rendered[current]; ok {
		return raw
	}
	conf := v.wanted()
	if current {
		conf = v.conf
	}
	out := make(map[string]any, len(conf)+1)
	for k, val := range conf {
		out[k] = s.typed(k, val)
	}
	out["digest"] = v.sum()
	if v.rendered == nil {
		v.rendered = map[bool][]byte{}
	}
	v.rendered[current] = encode(map[string]any{"data": out})
	return v.rendered[current]
}

// typed gives a value of the configuration the JSON type that Proxmox gives it.
func (s *state) typed(key, value string) any {
	if key == "cipassword" {
		return "**********"
	}
	p := s.configKeys()[key]
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

// configKeys are the options of a VM, as PUT config takes them.
func (s *state) configKeys() map[string]*property {
	return s.schema.Methods["PUT /nodes/{node}/qemu/{vmid}/config"].Parameters
}

// props reads an option that is a property string.
func (s *state) props(key, value string) map[string]string {
	out, err := parseProps(s.configKeys()[key].Format.Keys, value)
	if err != nil {
		return map[string]string{}
	}
	return out
}

func (s *state) printProps(key string, in map[string]string) string {
	return formatProps(s.configKeys()[key].Format.Keys, in)
}

func (s *state) load(id int, node string) (*vm, error) {
	v := s.vms[id]
	if v == nil || v.node != node {
		return nil, die("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", node, id)
	}
	return v, nil
}

// find is load as workers say it.
func (s *state) find(id int, node string) (*vm, error) {
	v := s.vms[id]
	if v == nil || v.node != node {
		return nil, die("unable to find configuration file for VM %d on node '%s'", id, node)
	}
	return v, nil
}

// checkLock refuses a VM that somebody works on.
func (v *vm) checkLock() error {
	if l := v.conf["lock"]; l != "" {
		return die("VM is locked (%s)", l)
	}
	return nil
}

// status is what a VM's own host says.
func (v *vm) status() string {
	if v.running {
		return "running"
	}
	return "stopped"
}

// called is how a VM is shown: one without a name, as all are in the first moments of
// their making, gets one made up (vmstatus in PVE/QemuServer.pm).
func (v *vm) called() string {
	if name := v.wanted()["name"]; name != "" {
		return name
	}
	return "VM " + strconv.Itoa(v.id)
}

func (v *vm) power(on bool) {
	v.running, v.paused, v.since = on, false, time.Now()
	if on {
		v.off = make(chan struct{})
		return
	}
	close(v.off)
	v.machine, v.pci, v.pid = nil, nil, 0
}

// memory is what a VM runs with, or would: not what waits for its next start.
func (v *vm) memory() int64 { return mebibytes(v.conf["memory"]) << 20 }

// mebibytes is what an option memory says.
func mebibytes(memory string) int64 {
	mib, _, _ := strings.Cut(strings.TrimPrefix(memory, "current="), ",")
	if mib == "" {
		return 512
	}
	return int64(atoi(mib))
}

// cores are those of all sockets, of now, as memory is.
func (v *vm) cores() int {
	return max(1, atoi(v.conf["cores"])) * max(1, atoi(v.conf["sockets"]))
}

// cpus are the cores that are plugged in.
func (v *vm) cpus() int {
	if n := atoi(v.conf["vcpus"]); n > 0 {
		return n
	}
	return v.cores()
}

// uuid makes an identifier that is the same in every run.
func (s *state) uuid() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(s.random.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// mac makes an address with Proxmox's own prefix.
func (s *state) mac() string {
	n := s.random.Uint32()
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", byte(n>>16), byte(n>>8), byte(n))
}

package nvidia

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/remote"
)

// Fault says where the cause of a message usually is.
type Fault string

// Where causes are.
const (
	InApplication Fault = "application"
	InDriver      Fault = "driver"
	InHardware    Fault = "hardware"
	InMachine     Fault = "machine" // the virtual machine, its firmware or its host
)

// LogFinding is a message of NVIDIA's driver in the kernel's log, and what it means.
type LogFinding struct {
	Xid   int    `json:"xid,omitempty"` // NVIDIA's number of the error; 0: a message without one
	GPU   string `json:"gpu,omitempty"` // PCI address in the guest, as the log has it; empty: of no GPU
	Line  string `json:"line"`          // the first such line
	Means string `json:"means"`
	Fault Fault  `json:"fault,omitempty"` // empty: none, or not known
	Do    string `json:"do,omitempty"`    // empty: nothing
	Count int    `json:"count"`           // how often it is there
	Stops bool   `json:"stops"`           // the GPU is not usable until that is done
	at    int    // number of the line
}

// String returns, for example, "Xid 64 of GPU 0000:01:00 (hardware): …: stop and start the VM".
func (f LogFinding) String() string {
	var about []string
	if f.Xid != 0 {
		about = append(about, fmt.Sprintf("Xid %d", f.Xid))
	}
	if f.GPU != "" {
		about = append(about, "GPU "+f.GPU)
	}
	s := strings.Join(about, " of ")
	if f.Fault != "" {
		s += fmt.Sprintf(" (%s)", f.Fault)
	}
	if s = strings.TrimSpace(s); s != "" {
		s += ": "
	}
	s += f.Means
	if f.Do != "" {
		s += ": " + f.Do
	}
	if f.Count > 1 {
		s += fmt.Sprintf(" (%d times)", f.Count)
	}
	return s
}

// ReadLog reads and explains the kernel's log of a machine since its start. The runner should be
// root's.
func ReadLog(ctx context.Context, r remote.Runner) ([]LogFinding, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", "dmesg 2>/dev/null | grep -E 'NVRM|nvidia' | tail -n 500")
	if err != nil {
		return nil, fmt.Errorf("read the kernel's log: %w", err)
	}
	return ExplainLog(strings.Split(string(out), "\n")), nil
}

// ExplainLog explains lines of the kernel's log, from dmesg or journalctl -k: Xid errors, and
// messages of a driver that could not start. What stops a GPU comes first; otherwise they are in
// the order of the log. Lines without meaning are left out.
func ExplainLog(log []string) []LogFinding {
	var all []LogFinding
	add := func(f LogFinding, at int) {
		f.at, f.Line = at, strings.ToValidUTF8(strings.TrimSpace(log[at]), "?")
		all = append(all, f)
	}
	for i, line := range log {
		if m := xidLine.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				n = 0 // three digits are a number
			}
			add(explainXid(n, m[1], m[3]), i)
		}
	}
	text, starts := joinLines(log)
	for _, m := range logMessages() {
		for _, found := range m.pattern.FindAllStringSubmatchIndex(text, -1) {
			groups := submatches(text, found)
			f := LogFinding{GPU: groups[1], Means: m.means, Fault: m.fault, Do: m.do, Stops: true}
			for i, version := range groups[2:] {
				f.Means = strings.Replace(f.Means, fmt.Sprintf("$%d", i+2), version, 1)
			}
			after, there := slices.BinarySearch(starts, found[0])
			if !there {
				after--
			}
			add(f, after)
		}
	}
	return mergeFindings(all)
}

// joinLines strips what dmesg and journalctl put before messages, and joins them, because some of
// the driver's messages have several lines. starts are the offsets of the lines.
func joinLines(log []string) (text string, starts []int) {
	var b strings.Builder
	for _, line := range log {
		starts = append(starts, b.Len())
		if _, message, found := strings.Cut(line, "NVRM:"); found {
			line = message
		}
		b.WriteString(strings.Join(strings.Fields(line), " "))
		b.WriteByte(' ')
	}
	return b.String(), starts
}

func submatches(text string, at []int) []string {
	out := make([]string, len(at)/2)
	for i := range out {
		if at[2*i] >= 0 {
			out[i] = text[at[2*i]:at[2*i+1]]
		}
	}
	return out
}

// mergeFindings counts what is there several times, and sorts.
func mergeFindings(all []LogFinding) []LogFinding {
	var out []LogFinding
	slices.SortStableFunc(all, func(a, b LogFinding) int { return a.at - b.at })
	asked := map[string]int{} // by GPU, the last line that says what the driver asks for
	for _, f := range all {
		if f.Xid == recoveryXid {
			asked[bus(f.GPU)] = f.at
		}
	}
	all = slices.DeleteFunc(all, func(f LogFinding) bool { return f.Xid == recoveryXid && f.at < asked[bus(f.GPU)] })
	for _, f := range all {
		i := slices.IndexFunc(out, func(o LogFinding) bool {
			sameGPU := bus(o.GPU) == bus(f.GPU) || f.GPU == "" && o.Xid != 0 // its words again, without the address
			return (f.Xid == 0 || o.Xid == f.Xid) && o.Means == f.Means && sameGPU
		})
		switch {
		case i < 0:
			f.Count = 1
			out = append(out, f)
		case out[i].Xid == f.Xid: // what has a number is said once more without
			out[i].Count++
		}
	}
	slices.SortStableFunc(out, func(a, b LogFinding) int {
		switch {
		case a.Stops == b.Stops:
			return 0
		case a.Stops:
			return -1
		default:
			return 1
		}
	})
	return out
}

// bus is an address without its function, which only some messages have.
func bus(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(address), ".")
	return address
}

// logMessage is a message without a number. The pattern's first group is the GPU's address;
// others replace $2 and $3 in means.
type logMessage struct {
	pattern *regexp.Regexp
	means   string
	fault   Fault
	do      string
}

// What to do about messages.
const (
	unsigned = "use the modules that Canonical signs (mode: prebuilt), not ones built on the machine, or turn Secure Boot off"
	// A restart from inside does not reset a card that is passed through.
	powerCycle = "drain the node, then stop and start the VM (a restart from inside does not reset the card)"
	// Some cards come back from a failed reset only without power.
	coldStart   = "stop and start the VM; if that does not help, switch the host off, not only restart it, for some seconds; then look for newer firmware of card and board"
	noRoom      = "the machine's firmware gave the GPU no room for its memory"
	cureOfRoom  = "the VM needs machine type q35, OVMF and CPU type host; an external machine, Above 4G Decoding in its firmware"
	noPower     = "power cables of the card are not connected"
	cureOfPower = "switch the host off, and connect every power plug of the card"
	cureOfGSP   = powerCycle + "; if it happens again, pin another branch (nvidia.driver.branch)"
)

// logMessages are the messages that are known. Texts: nv.c, nv-pci.c, osapi.c, osinit.c, kernel_gsp.c
// and kernel_gsp_frts_tu102.c of NVIDIA/open-gpu-kernel-modules, Linux' drivers/pci/pci.c, and logs
// that people have published.
func logMessages() []logMessage {
	const address = `([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)`
	const card = `(?:GPU ` + address + ` \(PCI ID: [0-9a-fA-F:]+\) )?installed in this [A-Za-z ]*system `
	message := func(pattern string, fault Fault, means, do string) logMessage {
		return logMessage{regexp.MustCompile(pattern), means, fault, do}
	}
	return []logMessage{
		message(`()(?:Key was rejected by service|module with unavailable key is rejected|unsigned module is rejected|unsigned module loading is restricted)`,
			InMachine, "Secure Boot refuses the module", unsigned),
		message(card+`requires use of the NVIDIA open kernel modules`, InDriver, "the chip needs the open kernel modules", "choose the -open series"),
		message(card+`is not supported by open`, InDriver, "the chip does not work with the open kernel modules", "choose the proprietary series"),
		message(card+`is not supported by the (?:NVIDIA )?([\d.]*\d)`, InDriver, "the chip does not work with driver $2",
			"leave branch and flavour to be chosen by PCI id"),
		message(`()The NVIDIA [^()]+ GPU installed in this system is supported through the NVIDIA ([\d.x]+) Legacy`, InDriver, "the chip does not work with this driver: $2 is its last branch", "leave branch and flavour to be chosen by PCI id; if that is refused, remove the GPU from the machine: no supported branch works with it"),
		message(`()API mismatch: the client has (?:the )?version ([\d.]*\d),? but this kernel module has (?:the )?version ([\d.]*\d)`,
			InDriver, "the libraries are of version $2 and the loaded module is of $3, since a driver was installed over the one that is loaded", "drain the node, and restart it"),
		message(`BAR\d is 0M @ 0x0 \(PCI:`+address+`\)`, InMachine, noRoom, cureOfRoom),
		message(`nvidia `+address+`: can't enable device: BAR \d`, InMachine, noRoom, cureOfRoom),
		message(`()request_mem_region failed for \d+M @`, InMachine, "another driver holds the GPU's memory", "blacklist that driver in the guest, and restart it"),
		message(`(?:GPU `+address+`: )?GPU does not have the necessary power cables connected`, InHardware, noPower, cureOfPower),
		message(`()Reset required \[NV_ERR_RESET_REQUIRED\]`, InHardware, "the driver refuses work until the GPU is reset", powerCycle+replace),
		message(`()unexpected WPR2 already up`, InMachine, "the card was not reset after its last use", powerCycle+"; if that does not help, restart the host"),
		message(`GPU (?:at )?(?:PCI:)?`+address+`:? (?:GPU )?has fallen off the bus`, InHardware, lostText, cureOfLost),
		message(card+`has fallen off the bus`, InHardware, lostText, cureOfLost),
		message(`()GPU lost from the bus|GPU is lost\b`, InHardware, lostText, cureOfLost),
		message(`(?:nvidia|vfio-pci) `+address+`: (?:Unable to change power state from|can't change power state from|Refused to change power state,? (?:currently in|from)) (?:D3cold|D3)`, InMachine,
			"the GPU does not wake up (D3cold)", coldStart),
		message(`(?:nvidia|vfio-pci) `+address+`: not ready \d+ms after [A-Za-z ]+; giving up`, InMachine, "the GPU does not answer after its reset", coldStart),
		message(`()failed to execute FWSEC`, InMachine, "the firmware of the card did not start its own processor (FWSEC)", coldStart),
		message(`()Cannot initialize GSP firmware RM`, InMachine, "the GPU's own processor (GSP) did not start", coldStart),
		message(`()(?:GSP-CrashCat Report|GPU\d+ kgspHealthCheck_\w+: GSP timeout|\*{8} GSP Timeout \*{8}|waiting for RPC (?:response )?from GPU\d+ GSP)`, InDriver,
			"the GPU's own processor (GSP) does not answer", cureOfGSP),
		message(`(?:GPU `+address+`: )?RmInitAdapter failed`, InMachine, "the driver could not initialize the GPU",
			"stop and start the VM; if that does not help, branch or flavour do not fit the chip, or the firmware gave it no room"),
		message(`()NVIDIA probe routine was not called for \d+ device`, InMachine, "another driver, such as nouveau, holds the GPU", "blacklist that driver in the guest, and restart it"),
	}
}

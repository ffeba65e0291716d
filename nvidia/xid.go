package nvidia

import (
	"fmt"
	"regexp"
	"strings"
)

// xidLine is an Xid error: "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has
// fallen off the bus." Old drivers left PCI: out, and not all have pid and name.
var xidLine = regexp.MustCompile(`Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): (\d{1,3})\b(.*)$`)

// recovery is in Xid 154, with the driver's words for what is needed.
var recovery = regexp.MustCompile(`recovery action changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x[0-9a-fA-F]+ \(([^)]*)\)`)

// recoveryXid says that the driver asks for something else than before; 0x0 (None) means nothing any more.
const recoveryXid = 154

const (
	lostText   = "the GPU has fallen off the bus: it no longer answers"
	cureOfLost = powerCycle + ", and look at the host's log; if it happens again, check power, heat and riser"
	memcheck   = "run the program under compute-sanitizer; if other programs fail too, suspect the driver or the card"
	replace    = "; if it happens again, have the card replaced"
)

// explainXid looks an error up. rest is what the line has after the number.
func explainXid(n int, gpu, rest string) LogFinding {
	f := LogFinding{Xid: n, GPU: gpu, Means: "an error that is not in our table", Do: "look the number up in NVIDIA's catalogue, docs.nvidia.com/deploy/xid-errors"}
	for _, x := range xids() {
		if x.first <= n && n <= max(x.first, x.last) {
			f.Means, f.Fault, f.Do, f.Stops = x.means, x.fault, x.do, x.stops
		}
	}
	if m := recovery.FindStringSubmatch(rest); n == recoveryXid && m != nil {
		f.Means = fmt.Sprintf("the driver says what the error before needs: %s", m[1])
		if f.Stops = m[1] != "None"; !f.Stops {
			f.Do = ""
		}
	}
	f.Means = strings.ToValidUTF8(f.Means, "?")
	return f
}

// FatalXids are the Xid errors after which a GPU computes no more until its machine is restarted.
func FatalXids() []int {
	var out []int
	for _, x := range xids() {
		for n := x.first; x.stops && n <= max(x.first, x.last); n++ {
			out = append(out, n)
		}
	}
	return out
}

// xidKind is an entry of NVIDIA's catalogue, or several in a row with one meaning.
type xidKind struct {
	first, last int // last may be 0
	fault       Fault
	stops       bool
	means, do   string
}

// xids are those that matter for computing on Turing and newer chips. Source, in our words: the
// table "Xids" of docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, autumn 2026; its
// resolutions RESET_GPU and RESTART_BM stop the GPU, RESTART_APP and IGNORE do not.
func xids() []xidKind {
	return []xidKind{
		{8, 0, InApplication, false, "a program's work on the GPU took too long", "restart the program"},
		{13, 0, InApplication, false, "a program's code on the GPU failed, usually by an index out of range", memcheck},
		{31, 0, InApplication, false, "a program used a wrong address in the GPU's memory", memcheck},
		{32, 0, InHardware, false, "commands arrived at the GPU corrupted", "restart the program; if it happens again, check riser and slot"},
		{39, 42, InApplication, false, "copying to or from the GPU failed", "restart the program"},
		{43, 0, InApplication, false, "a program ended by its own error; the GPU is healthy", ""},
		{45, 0, "", false, "the driver ended a program's work: it was killed, or another error came first", ""},
		{46, 0, InDriver, true, "the GPU stopped computing", powerCycle},
		{48, 0, InHardware, true, "an error in the GPU's memory that ECC could not correct", powerCycle + replace},
		{54, 0, InHardware, true, noPower, cureOfPower},
		{62, 0, InHardware, true, "the GPU's own controller stopped", powerCycle + replace},
		{63, 0, InHardware, false, "a bad row of memory is remapped (before Ampere, a bad page retired) at the next reset", "stop and start the VM when the node is free"},
		{64, 0, InHardware, true, "a bad row of memory could not be remapped (before Ampere, a bad page retired)", powerCycle + replace},
		{69, 0, InApplication, false, "a program sent a command that the GPU does not know", memcheck},
		{74, 0, InHardware, true, "a link between GPUs failed (NVLink)", powerCycle + "; nvidia-smi nvlink -e counts its errors" + replace},
		{79, 0, InHardware, true, lostText, cureOfLost},
		{92, 0, InHardware, false, "many errors in the GPU's memory that ECC corrected", "watch it, and have the card replaced if they go on"},
		{94, 0, InHardware, false, "an error in the GPU's memory that hit one program only", "restart that program, and the VM when the node is free"},
		{95, 0, InHardware, true, "an error in the GPU's memory that may have hit every program", powerCycle + replace},
		{109, 0, InDriver, true, "the GPU could not switch between programs", powerCycle},
		{110, 0, InHardware, true, "a fault in the GPU's protection of its own code", powerCycle + replace},
		{119, 120, InDriver, true, "the GPU's own processor (GSP) does not answer", cureOfGSP},
		{121, 0, "", false, "errors on the link to the CPU, which were corrected", ""},
		{136, 0, InHardware, true, "a link between GPUs could not be trained (NVLink)", powerCycle + replace},
		{137, 0, InApplication, false, "a program used a wrong address in another GPU's memory", memcheck},
		{140, 0, InHardware, true, "an error in the GPU's memory that the driver could not handle", powerCycle + replace},
		{143, 0, InHardware, true, "the GPU could not be initialized", powerCycle + replace},
		{144, 150, InHardware, false, "an error of a link between GPUs (NVLink 5)", "see whether Xid 154 beside it asks for a reset"},
		{recoveryXid, 0, "", false, "the driver changed what the error before needs", "see the other Xids"},
		{156, 0, InHardware, true, "a part of the GPU is retired at the next reset", powerCycle},
		{157, 0, InHardware, false, "a part of the GPU could not be retired", "have the card replaced if it happens again"},
		{158, 0, InHardware, true, "the GPU did not answer in time", powerCycle},
		{171, 172, InHardware, false, "where the error of Xid 48 was: 171 in the memory chips, 172 in the GPU", ""},
	}
}

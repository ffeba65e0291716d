package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Severity says how much a finding matters.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // something does not work
	Warning Severity = "warning" // it works, but not for long, or not as the file says
)

// Finding is something that is wrong, in one place.
type Finding struct {
	Failure  string   `json:"failure"` // its name in Failures, e.g. "driver-mismatch"
	Severity Severity `json:"severity"`
	Where    string   `json:"where"`             // e.g. "wk-gpu1", "host pve1", "pod jupyter/hub-5d7f"
	What     string   `json:"what"`              // the cause, as far as it is known
	Evidence []string `json:"evidence"`          // what was seen, as it was said
	Do       string   `json:"do"`                // the cure
	Follows  string   `json:"follows,omitempty"` // "FAILURE of WHERE": the finding that explains it

	machine string // the machine that it is about, "" for none
	layer   layer
	pod     bool // it is about a pod
}

// String returns place and cause.
func (f Finding) String() string { return f.Where + ": " + f.What }

// layer is how far above the hardware a finding is: one of a lower layer explains those of the
// same machine above it.
type layer int

const (
	onHost layer = iota
	onMachine
	inSystem
	inK3s
	inKubernetes
	inDriver // a pod that brings the driver, and on top of it the toolkit and the device plugin
	inToolkit
	inPlugin
	inOffer // what a node offers of GPUs
	inWorkload
)

// Report is the result of an examination.
type Report struct {
	Findings []Finding     `json:"findings"` // causes first
	Looked   []string      `json:"looked"`   // what was looked at, e.g. "7 machines"
	Took     time.Duration `json:"took"`     // in nanoseconds
}

// HasErrors reports whether something does not work.
func (r Report) HasErrors() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Error })
}

// Causes are the findings that follow from no other.
func (r Report) Causes() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Follows != "" })
}

// ConsequencesOf returns the findings that follow from a cause.
func (r Report) ConsequencesOf(cause Finding) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.Follows == cause.name() {
			out = append(out, f)
		}
	}
	return out
}

func (f Finding) name() string { return f.Failure + " of " + f.Where }

// relate says which findings follow from others, and sorts them: causes first, errors before
// warnings, from the hardware up.
func relate(all []Finding) []Finding {
	for i := range all {
		for _, cause := range all {
			if explains(cause, all[i]) && all[i].Follows == "" {
				all[i].Follows = cause.name()
			}
		}
	}
	// A finding that follows from one that follows from a third follows from the third.
	by := map[string]string{}
	for _, f := range all {
		by[f.name()] = f.Follows
	}
	for i := range all {
		for n := 0; by[all[i].Follows] != "" && n < len(all); n++ {
			all[i].Follows = by[all[i].Follows]
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(min(len(a.Follows), 1), min(len(b.Follows), 1)), cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.layer, b.layer), strings.Compare(a.Where, b.Where), strings.Compare(a.Failure, b.Failure))
	})
	return all
}

func rank(f Finding) int {
	if f.Severity == Error {
		return 0
	}
	return 1
}

// explains reports whether one finding is the cause of another: an error of the same machine
// that is further down. A full disk is not the cause of a pod that fails for a reason of its own.
func explains(cause, f Finding) bool {
	if cause.Failure == diskFull && f.pod && !slices.ContainsFunc(f.Evidence, lacksRoom) {
		return false
	}
	return cause.Severity == Error && cause.machine != "" && cause.machine == f.machine && cause.layer < f.layer
}

// lacksRoom reports whether the kubelet, the scheduler or containerd says that a disk is full:
// "The node was low on resource: ephemeral-storage", a condition DiskPressure.
func lacksRoom(said string) bool {
	return slices.ContainsFunc([]string{"low on resource: ephemeral-storage", "low on resource: inodes", "DiskPressure", diskPressure, "no space left on device"},
		func(sign string) bool { return strings.Contains(said, sign) })
}

// diskPressure is the taint of a node whose disk is full.
const diskPressure = "node.kubernetes.io/disk-pressure"

// Failure is a kind of finding.
type Failure struct {
	Name  string // e.g. "driver-mismatch"
	Signs string // where and how it shows
	Cause string
}
